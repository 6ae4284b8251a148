//! The open connections of one service: admission, register, drain.
//!
//! **Owns** the register of open connections and their counters. **Called by** a protocol's `serve` at the beginning and the
//! end of a connection, and by the control plane for a drain. **Invariants**: every accepted connection is counted as open
//! until [`Connections::closed`]; a connection that registers while the service drains is told to drain.

use crate::admission::{Admission, AdmissionLimits, NoEntry, Place};
use crate::carrier::Carrier;
use crate::counters::{ConnectionCounters, Enumerated};
use crate::entry::WaitingRoom;
use crate::limits::{ENTRY_POLL, ENTRY_WAIT_MAX};
use crate::refused::RefusedHosts;
use crate::signal::{self, CloseReason, Ended, Signal};
use io::sync::lock;
use slab::Slab;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

/// The connections of one service.
pub struct Connections<S, R> {
    /// Limits of connections by phase.
    pub admission: Arc<Admission>,
    /// Totals since the start.
    pub counters: ConnectionCounters<S, R>,
    /// The hosts that access lists refused.
    pub refused: RefusedHosts,
    is_draining: AtomicBool,
    /// New connections that wait for a place.
    entry: WaitingRoom,
    signals: Mutex<Slab<Arc<Signal<R>>>>,
    /// Wakers of the tasks that wait for the end of all connections.
    waiters: Mutex<Vec<Waker>>,
}

/// An admitted connection.
pub struct Admitted<R> {
    /// Its place among the connections of its phase.
    pub place: Place,
    /// Its signal.
    pub signal: Arc<Signal<R>>,
    /// Its key in the register.
    pub key: usize,
    /// How long a send of this connection may take before its size counts.
    pub(crate) stall: Duration,
}

impl<S: Enumerated, R: Enumerated + CloseReason> Connections<S, R> {
    /// Creates a service without connections.
    #[must_use]
    pub fn new(limits: AdmissionLimits) -> Connections<S, R> {
        Connections {
            admission: Admission::new(limits),
            counters: ConnectionCounters::default(),
            refused: RefusedHosts::default(),
            is_draining: AtomicBool::new(false),
            entry: WaitingRoom::default(),
            signals: Mutex::default(),
            waiters: Mutex::default(),
        }
    }

    /// Whether the service is draining.
    pub fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    /// A place for a new connection from this address; `None` if there is none. While evicted connections are ending, a few new ones wait: a
    /// flood from elsewhere must not reset the connections of other hosts.
    async fn enter(&self, from: IpAddr, signal: &Arc<Signal<R>>) -> Option<Place> {
        let mut waiting = None;
        let until = io::time::now() + ENTRY_WAIT_MAX;
        loop {
            match self.admission.enter(from, signal.clone()) {
                Ok(place) => return Some(place),
                Err(NoEntry::Full) => return None,
                Err(NoEntry::Ending) if io::time::now() >= until => return None,
                Err(NoEntry::Ending) => {}
            }
            match &waiting {
                None => waiting = Some(self.entry.wait(from)?),
                Some(w) if w.is_refused() => return None,
                Some(_) => {}
            }
            io::time::sleep(ENTRY_POLL).await;
        }
    }

    /// Counts and registers a new connection in state `first`. The transport will close it when sent bytes are not acknowledged
    /// within `stall`. Returns `None`, and counts the connection as closed, if there is no place or the service drains.
    pub async fn admit(
        &self,
        carrier: &impl Carrier,
        first: S,
        stall: Duration,
    ) -> Option<Admitted<R>> {
        let counters = &self.counters;
        counters.accepted.fetch_add(1, Ordering::Relaxed);
        counters.open.fetch_add(1, Ordering::SeqCst);
        let signal = Arc::new(Signal::default());
        let place = match self.is_draining() {
            true => None,
            false => self.enter(carrier.peer_addr().ip(), &signal).await,
        };
        let draining = self.is_draining();
        let Some(place) = place.filter(|_| !draining) else {
            counters.closed(R::from(match draining {
                true => Ended::Drained,
                false => Ended::Limit,
            }));
            self.closed();
            return None;
        };
        carrier.limit_unacknowledged(stall);
        counters.moved(None, Some(first));
        let key = lock(&self.signals).insert(signal.clone());
        if self.is_draining() {
            signal.raise(signal::DRAIN);
        }
        Some(Admitted {
            place,
            signal,
            key,
            stall,
        })
    }

    /// Records that a connection ended in `state` because of `why`. It counts as open until [`Connections::closed`].
    pub fn ended(&self, key: usize, state: S, why: R) {
        lock(&self.signals).remove(key);
        self.counters.closed(why);
        self.counters.moved(Some(state), None);
    }

    /// Records that all tasks of a connection have ended.
    pub fn closed(&self) {
        if self.counters.open.fetch_sub(1, Ordering::SeqCst) == 1 {
            for w in std::mem::take(&mut *lock(&self.waiters)) {
                w.wake();
            }
        }
    }

    /// Refuses new connections, asks the open connections to drain, and waits for their end. Closes the remaining connections
    /// after `limit`. Must be called on a runtime.
    pub async fn drain(&self, limit: Duration) {
        self.is_draining.store(true, Ordering::SeqCst);
        for s in self.signals() {
            s.raise(signal::DRAIN);
        }
        if io::timeout(limit, self.all_closed()).await.is_err() {
            for s in self.signals() {
                s.close(R::from(Ended::Drained));
            }
            self.all_closed().await;
        }
    }

    fn signals(&self) -> Vec<Arc<Signal<R>>> {
        lock(&self.signals).iter().map(|(_, s)| s.clone()).collect()
    }

    async fn all_closed(&self) {
        poll_fn(|cx| {
            lock(&self.waiters).push(cx.waker().clone());
            if self.counters.open.load(Ordering::SeqCst) == 0 {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        })
        .await;
    }
}
