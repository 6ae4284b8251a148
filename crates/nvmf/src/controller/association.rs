//! A controller: one host's association with a subsystem or with discovery (Base 3.1).
//!
//! **Owns** the state that the queues of a controller share across shards: properties, features, events, logs, and
//! the handles of its queues. **Called by** its connections and by the control plane. **Invariants**: the mutex is
//! taken on control paths only; the data path reads atomics. A controller lives as long as its admin queue.

use super::config::Transport;
use super::counters::CloseReason;
use super::events::{EventKind, Events};
use super::features::Features;
use super::limits::{ERROR_LOG_MAX, RESERVATION_LOG_MAX};
use super::queue_handle::{EVENTS, QueueHandle, TIMER};
use super::reservation::Notice;
use super::subsystem::Subsystem;
use crate::wire::command::{Cid, Nsid};
use crate::wire::fabrics::{Cc, Csts};
use crate::wire::log::{ErrorEntry, ReservationNotification};
use crate::wire::nqn::{HostId, Nqn};
use crate::wire::status::Status;
use backend::Durable;
use io::sync::lock;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use zerocopy::FromZeros;
use zerocopy::little_endian::{U16, U32, U64};

/// The kind of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionKind {
    /// I/O to a subsystem's namespaces.
    Io,
    /// Discovery.
    Discovery,
}

/// The kind of a controller, with the subsystem that it serves.
pub(crate) enum ControllerKind {
    /// I/O to a subsystem's namespaces.
    Io(Arc<Subsystem>),
    /// Discovery.
    Discovery,
}

/// A controller as its queues share it.
pub(crate) struct Controller {
    pub(crate) cntlid: u16,
    pub(crate) kind: ControllerKind,
    /// The transport of all its queues.
    pub(crate) transport: Transport,
    pub(crate) host_nqn: Nqn,
    pub(crate) host_id: HostId,
    pub(crate) connected_at_ms: u64,
    pub(crate) reconnects: u64,
    kato_ms: AtomicU32,
    heard_at_ns: AtomicU64,
    /// WCE of the Volatile Write Cache feature: off makes every write durable.
    pub(crate) write_cache: AtomicBool,
    state: Mutex<ControllerState>,
}

/// The state that the mutex guards.
pub(crate) struct ControllerState {
    transport: Transport,
    pub(crate) cc: Cc,
    pub(crate) csts: Csts,
    pub(crate) queues: BTreeMap<u16, Arc<QueueHandle>>,
    /// The controller ends: no queue may join it any more.
    is_ending: bool,
    /// Shutdowns asked for, and made void by resets.
    shutdowns: u64,
    /// A flush of a shutdown is under way.
    is_flushing: bool,
    pub(crate) features: Features,
    pub(crate) events: Events,
    pub(crate) changed_namespaces: BTreeSet<u32>,
    errors: VecDeque<ErrorEntry>,
    error_count: u64,
    reservation_log: VecDeque<(u64, Notice, Nsid)>,
    reservation_count: u64,
}

/// The host and the purpose of a new controller.
pub(crate) struct Association {
    pub(crate) kind: ControllerKind,
    pub(crate) transport: Transport,
    pub(crate) host_nqn: Nqn,
    pub(crate) host_id: HostId,
    pub(crate) kato_ms: u32,
    pub(crate) reconnects: u64,
}

impl Controller {
    pub(crate) fn new(cntlid: u16, of: Association, io_queues: u16) -> Controller {
        let state = ControllerState {
            transport: of.transport,
            cc: Cc::empty(),
            csts: Csts::empty(),
            queues: BTreeMap::new(),
            is_ending: false,
            shutdowns: 0,
            is_flushing: false,
            features: Features::new(io_queues),
            events: Events::default(),
            changed_namespaces: BTreeSet::new(),
            errors: VecDeque::new(),
            error_count: 0,
            reservation_log: VecDeque::new(),
            reservation_count: 0,
        };
        Controller {
            cntlid,
            kind: of.kind,
            transport: of.transport,
            host_nqn: of.host_nqn,
            host_id: of.host_id,
            connected_at_ms: io::time::wall_clock_ms(),
            reconnects: of.reconnects,
            kato_ms: AtomicU32::new(of.kato_ms),
            heard_at_ns: AtomicU64::new(io::time::now().as_nanos()),
            write_cache: AtomicBool::new(true),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, ControllerState> {
        lock(&self.state)
    }

    pub(crate) fn subsystem(&self) -> Option<&Arc<Subsystem>> {
        match &self.kind {
            ControllerKind::Io(s) => Some(s),
            ControllerKind::Discovery => None,
        }
    }

    /// The subsystem's name, which for discovery is the discovery subsystem's.
    pub(crate) fn subsystem_name(&self) -> Nqn {
        self.subsystem()
            .map_or_else(Nqn::discovery, |s| s.nqn.clone())
    }

    /// The kind of its sessions.
    pub(crate) fn session_kind(&self) -> SessionKind {
        match self.kind {
            ControllerKind::Io(_) => SessionKind::Io,
            ControllerKind::Discovery => SessionKind::Discovery,
        }
    }

    /// The host is alive: any traffic counts (TBKAS, Base 3.9.4).
    pub(crate) fn heard(&self, now_ns: u64) {
        self.heard_at_ns.store(now_ns, Ordering::Relaxed);
    }

    pub(crate) fn heard_at_ns(&self) -> u64 {
        self.heard_at_ns.load(Ordering::Relaxed)
    }

    /// Time since the host was last heard of.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_nanos(
            io::time::now()
                .as_nanos()
                .saturating_sub(self.heard_at_ns()),
        )
    }

    pub(crate) fn kato_ms(&self) -> u32 {
        self.kato_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_kato_ms(&self, ms: u32) {
        self.kato_ms.store(ms, Ordering::Relaxed);
        if let Some(admin) = self.state().queues.get(&0) {
            admin.signal.raise(TIMER);
        }
    }

    /// The longest silence of the host; `None` for ever.
    pub(crate) fn silence_max(&self) -> Option<Duration> {
        match (self.kato_ms(), self.session_kind()) {
            (0, SessionKind::Discovery) => Some(super::limits::DISCOVERY_IDLE),
            (0, SessionKind::Io) => None,
            (ms, _) => Some(Duration::from_millis(u64::from(ms))),
        }
    }

    /// No further queue may join. Queues that are connected stay until they end.
    pub(crate) fn end(&self) {
        self.state().is_ending = true;
    }

    /// Ends every queue, the admin queue last so that the others are told before the controller is gone. No further queue
    /// may join.
    pub(crate) fn close_all(&self, why: CloseReason) {
        let mut state = self.state();
        state.is_ending = true;
        let queues: Vec<_> = state.queues.values().rev().cloned().collect();
        drop(state);
        for q in queues {
            q.signal.close(why);
        }
    }

    /// Ends the I/O queues, as a controller reset does (Base 3.7.2).
    pub(crate) fn close_io(&self, why: CloseReason) {
        let queues: Vec<_> = self
            .state()
            .queues
            .range(1..)
            .map(|(_, q)| q.clone())
            .collect();
        for q in queues {
            q.signal.close(why);
        }
    }

    /// Frees the ID of a queue whose connection has ended or was told to end, unless another queue has the ID already.
    pub(crate) fn remove_queue(&self, qid: u16, handle: &Arc<QueueHandle>) {
        let mut state = self.state();
        if state
            .queues
            .get(&qid)
            .is_some_and(|h| Arc::ptr_eq(h, handle))
        {
            state.queues.remove(&qid);
        }
    }

    /// Wakes every queue with `flag`.
    pub(crate) fn signal_all(&self, flag: u32) {
        let queues: Vec<_> = self.state().queues.values().cloned().collect();
        for q in queues {
            q.signal.raise(flag);
        }
    }

    /// Tells the host of an event, if it wants to know.
    pub(crate) fn raise(&self, event: EventKind) {
        let mut s = self.state();
        if s.events.raise(event)
            && let Some(admin) = s.queues.get(&0)
        {
            admin.signal.raise(EVENTS);
        }
    }

    /// A namespace was added, removed or changed.
    pub(crate) fn namespace_changed(&self, nsid: u32) {
        self.state().changed_namespaces.insert(nsid);
        self.raise(EventKind::NamespaceChanged);
    }

    /// Another host's reservation command concerns this host.
    pub(crate) fn reservation_notice(&self, nsid: Nsid, notice: Notice) {
        let mut s = self.state();
        if s.features.suppresses(nsid, notice) {
            return;
        }
        s.reservation_count += 1;
        let count = s.reservation_count;
        if s.reservation_log.len() == RESERVATION_LOG_MAX {
            s.reservation_log.pop_front();
        }
        s.reservation_log.push_back((count, notice, nsid));
        drop(s);
        self.raise(EventKind::ReservationNotice);
    }
}

/// A queue of a controller, as its connection holds it.
pub(crate) struct ControllerQueue {
    controller: Arc<Controller>,
    handle: Arc<QueueHandle>,
}

impl ControllerQueue {
    /// The queue of `controller` that `handle` stands for.
    pub(crate) fn new(controller: Arc<Controller>, handle: Arc<QueueHandle>) -> ControllerQueue {
        ControllerQueue { controller, handle }
    }

    /// The queue's controller.
    #[inline]
    pub(crate) fn controller(&self) -> &Arc<Controller> {
        &self.controller
    }

    /// The queue as others see it.
    #[inline]
    pub(crate) fn handle(&self) -> &Arc<QueueHandle> {
        &self.handle
    }

    /// Queue ID; 0 is the admin queue.
    #[inline]
    pub(crate) fn qid(&self) -> u16 {
        self.handle.qid
    }

    /// Whether it is the admin queue.
    #[inline]
    pub(crate) fn is_admin(&self) -> bool {
        self.handle.qid == 0
    }

    /// Frees the queue ID for another connection.
    pub(crate) fn leave(&self) {
        self.controller.remove_queue(self.handle.qid, &self.handle);
    }
}

/// Why an I/O queue cannot join its controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotJoined {
    /// The controller ends.
    Ending,
    /// The host has not enabled it.
    NotReady,
    /// It has a queue of this ID.
    Taken,
}

/// One shutdown of a controller; a later one, or a reset, makes it void.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shutdown(u64);

impl ControllerState {
    /// The host asked for a shutdown (Base 3.6.1): SHST is 01b.
    pub(crate) fn begin_shutdown(&mut self) -> Shutdown {
        self.forget_shutdown();
        self.csts.remove(Csts::SHUTDOWN_COMPLETE);
        self.csts.insert(Csts::SHUTDOWN_OCCURRING);
        Shutdown(self.shutdowns)
    }

    /// Begins the flush of a shutdown. False if one is under way already.
    pub(crate) fn begin_flush(&mut self) -> bool {
        !std::mem::replace(&mut self.is_flushing, true)
    }

    /// The flush of this shutdown has ended. Returns the shutdown that was asked for meanwhile, which needs a flush of its own.
    pub(crate) fn end_flush(&mut self, shutdown: Shutdown) -> Option<Shutdown> {
        let last = Shutdown(self.shutdowns);
        let later = last != shutdown && self.csts.contains(Csts::SHUTDOWN_OCCURRING);
        self.is_flushing = later;
        later.then_some(last)
    }

    /// Makes a shutdown that is under way void.
    pub(crate) fn forget_shutdown(&mut self) {
        self.shutdowns += 1;
    }

    /// SHST 10b says that power may be removed (Base 3.6.1), so it takes the `proof` that every namespace is flushed; `None` only
    /// for a controller that has no namespace.
    pub(crate) fn complete_shutdown(&mut self, shutdown: Shutdown, proof: Option<Durable>) {
        let _ = proof;
        if shutdown == Shutdown(self.shutdowns) {
            self.csts.remove(Csts::SHUTDOWN_OCCURRING);
            self.csts.insert(Csts::SHUTDOWN_COMPLETE);
        }
    }

    /// The flush failed. SHST stays 01b: the shutdown is never complete. CFS reports the failure (Base 3.1.3.6 and 9.5:
    /// a fatal error that could not be communicated in a completion queue).
    pub(crate) fn fail_shutdown(&mut self, shutdown: Shutdown) {
        if shutdown == Shutdown(self.shutdowns) {
            self.csts.insert(Csts::FATAL);
        }
    }

    /// Adds an I/O queue, in place of a queue with the same ID that was told to end. Errors: why it cannot join.
    pub(crate) fn join(&mut self, handle: Arc<QueueHandle>) -> Result<(), NotJoined> {
        let qid = handle.qid;
        if self.is_ending {
            return Err(NotJoined::Ending);
        }
        if !self.is_ready() {
            return Err(NotJoined::NotReady);
        }
        let taken = self.queues.get(&qid);
        if taken.is_some_and(|q| q.signal.close_reason().is_none()) {
            return Err(NotJoined::Taken);
        }
        self.queues.insert(qid, handle);
        Ok(())
    }

    /// Whether the host has enabled the controller and it is ready (Base 3.5.3).
    pub(crate) fn is_ready(&self) -> bool {
        self.csts.contains(Csts::READY)
    }

    /// Adds to the error log (Base 5.16.1.2).
    pub(crate) fn log_error(&mut self, qid: u16, cid: Cid, status: Status, nsid: Nsid) {
        self.error_count += 1;
        if self.errors.len() == ERROR_LOG_MAX {
            self.errors.pop_back();
        }
        let mut entry = ErrorEntry::new_zeroed();
        entry.error_count = U64::new(self.error_count);
        entry.sqid = U16::new(qid);
        entry.cid = U16::new(cid.0);
        entry.status_phase = U16::new(status.bits() << 1);
        entry.parameter_location = U16::new(0xffff);
        entry.nsid = U32::new(nsid.0);
        entry.transport = self.transport.code() as u8;
        self.errors.push_front(entry);
    }

    /// The error log, newest first.
    pub(crate) fn errors(&self) -> impl Iterator<Item = &ErrorEntry> {
        self.errors.iter()
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.error_count
    }

    /// The oldest reservation notification, which is taken unless it is to be `kept` (Base 5.16.1.25).
    pub(crate) fn reservation_notification(&mut self, kept: bool) -> ReservationNotification {
        let Some((count, notice, nsid)) = self.reservation_log.front().copied() else {
            return ReservationNotification::new_zeroed();
        };
        if !kept {
            self.reservation_log.pop_front();
        }
        let further = self.reservation_log.len() - usize::from(kept);
        let mut log = ReservationNotification::new_zeroed();
        log.count = U64::new(count);
        log.kind = notice as u8;
        log.available = u8::try_from(further).unwrap_or(u8::MAX);
        log.nsid = U32::new(nsid.0);
        log
    }
}
