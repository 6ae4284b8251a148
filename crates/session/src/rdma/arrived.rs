//! Arrivals: what the receiver of a connection takes from its queue pair.
//!
//! **Owns** the meaning of the queue pair's events. **Called by** a protocol's receiver, once per turn. **Invariants**: ends of requests are
//! taken also while no command is taken, because they are what makes room; a failed request is no arrival, because the end of the queue
//! pair follows and names the reason.

use super::carrier::RdmaCarrier;
use super::chain::slot_of;
use crate::link::Link;
use crate::signal::{CloseReason, Ended};
use crate::turn::Turns;
use io::IoBuf;
use io::rdma::{Ending, QueuePairEvent, Received, Returned, WorkError};
use std::collections::VecDeque;
use std::task::{Context, Poll};

/// An arrival.
enum Arrived {
    /// A message.
    Message(Received),
    /// A READ for the command in this slot has ended: its bytes are in the buffer.
    Read(usize, IoBuf),
    /// The queue pair ended.
    Ended(Ending),
}

/// Reasons for a connection's end that only RDMA has.
pub trait RdmaReason: CloseReason {
    /// The peer broke the protocol.
    const PROTOCOL: Self;
    /// The RDMA device failed or was removed.
    const DEVICE: Self;
    /// The peer's memory gave no access.
    const MEMORY_ACCESS: Self;
}

/// A connection that takes arrivals.
pub trait Arrivals: Turns<Reason: RdmaReason> {
    /// A message of `bytes` bytes arrived.
    fn arrived(&mut self, bytes: usize);

    /// A READ for the command in `slot` has ended: its bytes are in `buf`.
    fn data_read(&mut self, slot: usize, buf: IoBuf);
}

/// Takes everything that arrived; messages are added to `messages`. Returns why the connection ends, if its queue pair has ended.
pub fn take_arrivals<C: Arrivals>(
    core: &mut C,
    carrier: &RdmaCarrier,
    messages: &mut VecDeque<Received>,
    cx: &mut Context<'_>,
) -> Poll<C::Reason> {
    let mut ended = Poll::Pending;
    while let Poll::Ready(arrived) = poll_arrived(carrier, core.link(), cx) {
        match arrived {
            Arrived::Message(message) => {
                core.arrived(message.len());
                messages.push_back(message);
            }
            Arrived::Read(slot, buf) => core.data_read(slot, buf),
            Arrived::Ended(why) => ended = Poll::Ready(reason(why)),
        }
    }
    ended
}

/// The next arrival. Ends of chains are counted in `link`.
fn poll_arrived<R: CloseReason>(
    carrier: &RdmaCarrier,
    link: &mut Link<R>,
    cx: &mut Context<'_>,
) -> Poll<Arrived> {
    while let Poll::Ready(event) = carrier.queue_pair().poll_event(cx) {
        carrier.heard(link.now());
        match event {
            QueuePairEvent::Received(message) => return Poll::Ready(Arrived::Message(message)),
            QueuePairEvent::Ended(why) => return Poll::Ready(Arrived::Ended(why)),
            // A target exposes no memory.
            QueuePairEvent::Released { .. } => {}
            QueuePairEvent::Done {
                tag,
                result,
                returned,
            } => {
                if carrier.probe_ended(tag) || result.is_err() {
                    continue;
                }
                match (slot_of(tag), returned) {
                    (Some(slot), Returned::Buffer(buf)) => {
                        return Poll::Ready(Arrived::Read(slot, buf));
                    }
                    _ => link.sent(),
                }
            }
        }
    }
    Poll::Pending
}

/// Why a connection ends with its queue pair.
fn reason<R: RdmaReason>(why: Ending) -> R {
    match why {
        Ending::Peer => Ended::Peer.into(),
        Ending::Here => Ended::Network.into(),
        Ending::DeviceRemoved | Ending::Device(_) => R::DEVICE,
        Ending::BadRequest => R::PROTOCOL,
        Ending::Failed(WorkError::RemoteAccess | WorkError::RemoteInvalid) => R::MEMORY_ACCESS,
        Ending::Failed(WorkError::RnrExceeded) => Ended::SendStall.into(),
        Ending::Failed(
            WorkError::RetriesExceeded
            | WorkError::Flushed
            | WorkError::LocalKey
            | WorkError::LocalMemory,
        ) => Ended::Network.into(),
    }
}
