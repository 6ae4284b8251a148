//! Signal of a connection: flags that other tasks raise, and the waker of the connection's task.
//!
//! **Owns** the flags of one connection. **Called by** connections on any shard and by the control plane.
//! **Invariants**: the first reason to close stays; raising a flag wakes the connection's task; taking the flags costs one
//! load if none is raised.

use crate::admission::Evict;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// Reasons for the end of a connection that every protocol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The peer closed it.
    Peer,
    /// The network failed, or the peer reset it.
    Network,
    /// The peer did not receive what was sent to it in time.
    SendStall,
    /// Closed by the ledger: the peer did not move the data that it holds buffers for, while other requests waited.
    Reclaimed,
    /// The service shuts down.
    Drained,
    /// No place was free.
    Limit,
}

/// A protocol's reasons for the end of a connection.
pub trait CloseReason: Copy + PartialEq + Send + From<Ended> + 'static {}

/// The signal of one connection. Components that may interrupt the connection share it in an `Arc`.
pub struct Signal<R> {
    flags: AtomicU32,
    close: Mutex<Option<R>>,
    waker: Mutex<Option<Waker>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Flag: close the connection.
pub const CLOSE: u32 = 1;
/// Flag: drain, which is to finish the commands in flight and then close.
pub const DRAIN: u32 = 2;
/// Flag: abort commands.
pub const ABORT: u32 = 4;
/// Flag: read the socket's statistics from the kernel again.
pub const INFO: u32 = 8;
/// First flag that a protocol may define.
pub const OWN: u32 = 1 << 8;

impl<R> Default for Signal<R> {
    fn default() -> Signal<R> {
        Signal {
            flags: AtomicU32::new(0),
            close: Mutex::default(),
            waker: Mutex::default(),
        }
    }
}

impl<R: CloseReason> Signal<R> {
    /// Raises flags and wakes the connection.
    pub fn raise(&self, flags: u32) {
        self.flags.fetch_or(flags, Ordering::SeqCst);
        let waker = lock(&self.waker).clone();
        if let Some(w) = waker {
            w.wake();
        }
    }

    /// Asks the connection to close. The first reason stays.
    pub fn close(&self, why: R) {
        lock(&self.close).get_or_insert(why);
        self.raise(CLOSE);
    }

    /// The reason to close; `None` if nothing asked for it.
    pub fn close_reason(&self) -> Option<R> {
        *lock(&self.close)
    }

    /// Returns the raised flags and clears them.
    #[inline]
    pub fn take(&self) -> u32 {
        if self.flags.load(Ordering::Acquire) == 0 {
            0
        } else {
            self.flags.swap(0, Ordering::SeqCst)
        }
    }

    /// Sets the waker of the connection's task.
    pub fn set_waker(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
    }
}

impl<R: CloseReason> Evict for Signal<R> {
    fn evict(&self) {
        self.close(R::from(Ended::Limit));
    }
}
