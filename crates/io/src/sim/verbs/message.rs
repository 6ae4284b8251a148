//! Identifiers, messages of the connection manager, and events of the simulated verbs devices.
//!
//! **Called by** the world's events and by the modules beside this one.

use crate::rdma::{QueuePairConfig, WorkError};
use crate::runtime::NodeId;

/// A simulated queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::sim) struct QueuePairId(pub(super) u32);

/// A simulated listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::sim) struct ListenerId(pub(super) u32);

/// A shared queue: of one device, and for one number and length of receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sim) struct SharedId {
    pub(super) node: NodeId,
    pub(super) count: u32,
    pub(super) len: u32,
}

impl SharedId {
    /// The queue for a queue pair of `node`, if its configuration wants one.
    pub(super) fn of(node: NodeId, config: &QueuePairConfig) -> Option<SharedId> {
        let (count, len) = (config.shared_receives, config.receive_len);
        (count > 0).then_some(SharedId { node, count, len })
    }
}

/// A message of the connection manager.
#[derive(Debug, Clone)]
pub(super) enum CmMessage {
    /// REQ.
    Request {
        private: Vec<u8>,
        config: QueuePairConfig,
    },
    /// REP.
    Accepted {
        private: Vec<u8>,
        config: QueuePairConfig,
    },
    /// RTU.
    Ready,
    /// REJ with private data.
    Rejected(Vec<u8>),
    /// REJ: there is no listener, or its backlog is full.
    Unknown,
    /// DREQ.
    Disconnect,
    /// A request cannot be carried out (NAK). It travels here, so that it does not vanish with its sender.
    Refused { serial: u64, error: WorkError },
}

/// A message on its way.
#[derive(Debug)]
pub(in crate::sim) struct Letter {
    pub(super) from: QueuePairId,
    /// Itself for a connection request: the other end does not exist yet.
    pub(super) to: QueuePairId,
    pub(super) nodes: (NodeId, NodeId),
    pub(super) said: CmMessage,
    pub(super) tries: u8,
}

impl Letter {
    pub(super) fn new(from: QueuePairId, to: QueuePairId, said: CmMessage) -> Letter {
        Letter {
            from,
            to,
            nodes: (0, 0),
            said,
            tries: 0,
        }
    }
}

/// The two wires of a queue pair: its requests, and its answers to requests of the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::sim) enum Lane {
    Requests,
    Answers,
}

/// An event of the verbs devices.
#[derive(Debug)]
pub(in crate::sim) enum VerbsEvent {
    /// The packet at the front of a wire arrives.
    Arrive(QueuePairId, Lane),
    /// A message of the connection manager arrives.
    Letter(Letter),
    /// A requester looks whether answers come.
    Watch { id: QueuePairId, progress: u64 },
    /// The requests of a queue pair that has ended are flushed.
    Flush(QueuePairId),
    /// A connection request was not answered in time.
    Unanswered(QueuePairId),
}
