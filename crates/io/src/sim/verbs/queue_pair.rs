//! One end of a simulated connection.
//!
//! **Called by** the table, the connection manager and the transport. **Invariants**: requests end in their order; an end is an event if it
//! was asked for or is an error.

use super::message::{Lane, QueuePairId, SharedId};
use crate::rdma::{
    ConnectError, Ending, QueuePairConfig, QueuePairEvent, Raised, Returned, Verb, WorkError,
};
use crate::runtime::NodeId;
use crate::sim::core::Core;
use crate::sim::event::Nanos;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::task::Waker;

/// The stage of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The request was sent; no answer has come.
    Connecting,
    /// A request came; it was not answered.
    Requested,
    /// The request was accepted; the peer has not said that it heard so.
    Accepting,
    /// Both ends are connected.
    Established,
    /// Failed or disconnected: requests end.
    Ended(Ending),
    /// All requests have ended.
    Flushed,
}

/// A posted request.
pub(super) struct Outstanding {
    pub(super) serial: u64,
    pub(super) tag: Option<u64>,
    pub(super) work: Verb,
    pub(super) result: Option<Result<(), WorkError>>,
    /// Memory that the request withdrew.
    pub(super) returned: Returned,
}

/// What a request asks the other end for.
#[derive(Debug)]
pub(super) enum Packet {
    Send {
        bytes: Vec<u8>,
        invalidate: Option<u32>,
    },
    Write {
        bytes: Vec<u8>,
        address: u64,
        key: u32,
    },
    Read {
        address: u64,
        key: u32,
        len: usize,
    },
    /// The answer to a Send or Write.
    Ack,
    /// The answer to a Read.
    Data {
        bytes: Vec<u8>,
    },
}

impl Packet {
    /// Bytes that take time on the link.
    pub(super) fn len(&self) -> usize {
        match self {
            Packet::Send { bytes, .. } | Packet::Write { bytes, .. } | Packet::Data { bytes } => {
                bytes.len()
            }
            Packet::Read { .. } | Packet::Ack => 0,
        }
    }
}

/// Why the other end did not carry a request out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// No access to this memory.
    Access,
    /// The message is longer than its receive.
    TooLong,
}

impl From<Refused> for WorkError {
    fn from(why: Refused) -> WorkError {
        match why {
            Refused::Access => WorkError::RemoteAccess,
            Refused::TooLong => WorkError::RemoteInvalid,
        }
    }
}

/// Packets that travel in order.
#[derive(Default)]
pub(super) struct Wire {
    /// When it arrives, the request's serial, and the packet.
    pub(super) packets: VecDeque<(Nanos, u64, Packet)>,
    pub(super) last_arrival: Nanos,
    /// The link is cut: the first packet waits for it.
    pub(super) is_stuck: bool,
}

/// One end of a connection.
pub(super) struct QueuePair {
    pub(super) node: NodeId,
    pub(super) remote_node: NodeId,
    pub(super) local: SocketAddr,
    pub(super) remote: SocketAddr,
    pub(super) peer: Option<QueuePairId>,
    pub(super) stage: Stage,
    pub(super) config: QueuePairConfig,
    /// READs that may be outstanding, as both ends agreed.
    pub(super) reads_out: u8,
    pub(super) reads_in: u8,
    /// How often the peer lets us send a message again that found no receive.
    pub(super) rnr_limit: u8,
    /// The answer to a connection request.
    pub(super) answer: Option<Result<Vec<u8>, ConnectError>>,
    /// Buffers of posted receives.
    pub(super) receives: VecDeque<Vec<u8>>,
    /// Whether it is counted among the users of its shared queue.
    pub(super) has_joined: bool,
    pub(super) outstanding: VecDeque<Outstanding>,
    /// The first of the outstanding requests that were sent.
    pub(super) issued: usize,
    /// READs that were sent and not answered.
    pub(super) reads: usize,
    pub(super) next_serial: u64,
    pub(super) requests: Wire,
    pub(super) answers: Wire,
    /// Answers that came; shows whether the peer is there.
    pub(super) progress: u64,
    pub(super) is_watched: bool,
    /// Messages that found no receive, in all, and the first in the wire.
    pub(super) rnr_retries: u64,
    pub(super) rnr_tries: u8,
    pub(super) events: VecDeque<Raised>,
    pub(super) waker: Option<Waker>,
    /// Its handle was dropped: it is removed when its requests have ended.
    pub(super) is_orphan: bool,
}

impl QueuePair {
    pub(super) fn new(
        (node, local): (NodeId, SocketAddr),
        (remote_node, remote): (NodeId, SocketAddr),
        stage: Stage,
    ) -> QueuePair {
        QueuePair {
            node,
            remote_node,
            local,
            remote,
            peer: None,
            stage,
            config: QueuePairConfig::default(),
            reads_out: 0,
            reads_in: 0,
            rnr_limit: 0,
            answer: None,
            receives: VecDeque::new(),
            has_joined: false,
            outstanding: VecDeque::new(),
            issued: 0,
            reads: 0,
            next_serial: 1,
            requests: Wire::default(),
            answers: Wire::default(),
            progress: 0,
            is_watched: false,
            rnr_retries: 0,
            rnr_tries: 0,
            events: VecDeque::new(),
            waker: None,
            is_orphan: false,
        }
    }

    /// Takes the caller's sizes, and posts all receives that are its own.
    pub(super) fn configure(&mut self, config: QueuePairConfig) {
        self.config = config;
        let own = match config.shared_receives {
            0 => config.receives,
            _ => 0,
        };
        self.receives = (0..own)
            .map(|_| Vec::with_capacity(config.receive_len as usize))
            .collect();
    }

    /// The shared queue that it takes receives from.
    pub(super) fn shared(&self) -> Option<SharedId> {
        SharedId::of(self.node, &self.config)
    }

    /// The wire of a lane.
    pub(super) fn wire(&mut self, lane: Lane) -> &mut Wire {
        match lane {
            Lane::Requests => &mut self.requests,
            Lane::Answers => &mut self.answers,
        }
    }

    /// Whether requests go out.
    pub(super) fn carries(&self) -> bool {
        self.stage == Stage::Established
    }

    /// Whether it has ended, flushed or not.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self.stage, Stage::Ended(_) | Stage::Flushed)
    }

    /// Wakes its task.
    pub(super) fn wake(&mut self, core: &mut Core) {
        if let Some(waker) = self.waker.take() {
            core.wake(&waker);
        }
    }

    /// Appends an event, and wakes its task.
    pub(super) fn raise(&mut self, core: &mut Core, event: Raised) {
        self.events.push_back(event);
        self.wake(core);
    }

    /// The outstanding request with this serial.
    pub(super) fn find(&mut self, serial: u64) -> Option<&mut Outstanding> {
        let first = self.outstanding.front()?.serial;
        let at = usize::try_from(serial.checked_sub(first)?).ok()?;
        self.outstanding.get_mut(at)
    }

    /// Ends the requests at the front that have a result. Returns the first error.
    pub(super) fn end_requests(&mut self, core: &mut Core) -> Option<WorkError> {
        let mut failed = None;
        while let Some(result) = self.outstanding.front().and_then(|o| o.result) {
            if let Some(ended) = self.outstanding.pop_front() {
                self.issued = self.issued.saturating_sub(1);
                self.end(core, ended, result);
            }
            failed = failed.or(result.err());
        }
        failed
    }

    /// Ends one request, which was taken out of the queue.
    pub(super) fn end(
        &mut self,
        core: &mut Core,
        ended: Outstanding,
        result: Result<(), WorkError>,
    ) {
        if ended.tag.is_none() && result.is_ok() {
            return;
        }
        let returned = match ended.work {
            Verb::Read { into, .. } => Returned::Buffer(into),
            _ => ended.returned,
        };
        let event = QueuePairEvent::Done {
            tag: ended.tag.unwrap_or(0),
            result,
            returned,
        };
        self.raise(core, Err(event));
    }
}
