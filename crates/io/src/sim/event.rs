//! Events of the simulated world, and its unit of time.
//!
//! **Called by** [`super::core`], which keeps events in order, and by the network and the disks, which handle them.

use super::SocketId;
use super::verbs::VerbsEvent;
use crate::runtime::NodeId;
use std::time::Duration;

/// Virtual nanoseconds.
pub(super) type Nanos = u64;

/// Returns `d` in virtual nanoseconds; a duration that does not fit becomes far more than any run takes.
pub(super) fn nanos(d: Duration) -> Nanos {
    u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 4)
}

/// A scheduled event.
#[derive(Debug)]
pub(super) enum Event {
    Net(NetEvent),
    Disk(DiskEvent),
    Verbs(VerbsEvent),
    /// The end of a cancelled operation that no other component completes.
    End {
        key: usize,
    },
}

/// An event on the network.
#[derive(Debug)]
pub(super) enum NetEvent {
    /// The packet at the front of a stream's wire arrives.
    Arrive(SocketId),
    /// A host that does not know the connection answers with a reset.
    Reset {
        to: SocketId,
        from: NodeId,
        errno: i32,
    },
    /// A sender has waited too long for an acknowledgement.
    GiveUp { id: SocketId, epoch: u64 },
    /// A keep-alive probe of a silent peer, which has not answered since `lost`.
    Probe { id: SocketId, lost: Option<Nanos> },
}

/// An event on a disk.
#[derive(Debug)]
pub(super) enum DiskEvent {
    /// Some blocks of a write reach the cache.
    Effect { serial: u64, from: u64, to: u64 },
    /// An operation ends.
    Done { serial: u64 },
}
