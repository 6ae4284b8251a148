//! Queue handles: a queue as the control plane and the other queues of its controller see it.
//!
//! **Owns** the totals and the abort requests of one queue. **Called by** its connection, by Abort, and by the control
//! plane. **Invariants**: the mutexes are taken once per turn of the connection, never per command.

use super::counters::CloseReason;
use super::limits::ABORTS_MAX;
use crate::wire::command::Cid;
use crate::wire::pdu::Digests;
use io::sync::lock;
use session::signal::{ABORT, OWN};
use session::tally::Totals;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// The signal of a connection of this protocol.
pub(crate) type Signal = session::signal::Signal<CloseReason>;

/// Flag: events are pending for Async Event Requests.
pub(crate) const EVENTS: u32 = OWN;
/// Flag: the namespaces changed; views of removed ones are to be dropped.
pub(crate) const NAMESPACES: u32 = OWN << 1;
/// Flag: the keep alive timeout changed.
pub(crate) const TIMER: u32 = OWN << 2;

/// A queue as the control plane and other queues see it.
pub(crate) struct QueueHandle {
    pub(crate) qid: u16,
    pub(crate) depth: u16,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) shard: String,
    pub(crate) digests: Digests,
    pub(crate) signal: Arc<Signal>,
    totals: Mutex<Totals>,
    aborts: Mutex<Vec<Cid>>,
}

impl QueueHandle {
    /// The handle of queue `qid` of `depth` entries, on the thread that calls this.
    pub(crate) fn new(
        (qid, depth): (u16, u16),
        (peer, local): (SocketAddr, SocketAddr),
        digests: Digests,
        signal: Arc<Signal>,
    ) -> QueueHandle {
        let shard = std::thread::current()
            .name()
            .unwrap_or("unnamed")
            .to_owned();
        QueueHandle {
            qid,
            depth,
            peer,
            local,
            shard,
            digests,
            signal,
            totals: Mutex::default(),
            aborts: Mutex::default(),
        }
    }

    /// The totals of the queue.
    pub(crate) fn totals(&self) -> MutexGuard<'_, Totals> {
        lock(&self.totals)
    }

    /// Asks the queue's connection to abort a command. Requests beyond [`ABORTS_MAX`] are dropped.
    pub(crate) fn abort(&self, cid: Cid) {
        let mut aborts = lock(&self.aborts);
        if aborts.len() < usize::from(ABORTS_MAX) {
            aborts.push(cid);
        }
        drop(aborts);
        self.signal.raise(ABORT);
    }

    /// Takes the commands that are to be aborted.
    pub(crate) fn take_aborts(&self) -> Vec<Cid> {
        std::mem::take(&mut lock(&self.aborts))
    }
}
