//! Receiving task of a connection over RDMA: replies and memory that comes back.
//!
//! **Invariants**: a command ends after its memory has come back, so that its caller gets its buffer whole.

use std::rc::Rc;

use initiator::rdma::{Arrival, arrival};
use io::rdma::{Memory, Received, RemoteKey};
use zerocopy::FromBytes;

use super::shared::QueueShared;
use super::slots::find;
use crate::error::Error;
use crate::rdma::{RdmaLink, put_back};
use nvmf::wire::completion::Cqe;
use nvmf::wire::pdu::PduError;

/// Receives until the queue pair has ended and all memory is back, and records the reason.
pub(super) async fn run(queue: Rc<QueueShared>, link: Rc<RdmaLink>) {
    loop {
        let handled = match arrival(link.queue_pair()).await {
            Arrival::Message(message) => reply(&queue, &link, message),
            Arrival::Memory(key, memory) => came_back(&queue, &link, key, memory),
            Arrival::Ended(why) => {
                tracing::debug!(queue = queue.qid, %why, "queue pair ended");
                return queue.fail(Error::Disconnected);
            }
        };
        if let Err(violation) = handled {
            queue.fail(Error::Protocol(violation));
        }
    }
}

/// A reply came. Its command ends now, or when its memory is back.
fn reply(queue: &QueueShared, link: &RdmaLink, mut message: Received) -> Result<(), PduError> {
    let Ok(cqe) = Cqe::read_from_bytes(&message) else {
        return Err(PduError::out_of_range("a message that is no reply"));
    };
    let slot = find(&queue.slots.borrow(), cqe.cid())?;
    if let Some((key, memory)) = message.withdrawn.take() {
        if link.came_back(key).is_none_or(|(of, _)| of != slot) {
            return Err(PduError::sequence(
                "a reply that invalidates the key of another command",
            ));
        }
        put_back(&mut queue.slots.borrow_mut(), slot, memory);
    }
    match link.keep_reply(slot, cqe) {
        true => Ok(()),
        false => finish(queue, slot, cqe),
    }
}

/// Memory came back without a message.
fn came_back(
    queue: &QueueShared,
    link: &RdmaLink,
    key: RemoteKey,
    memory: Memory,
) -> Result<(), PduError> {
    let Some((slot, reply)) = link.came_back(key) else {
        return Ok(());
    };
    put_back(&mut queue.slots.borrow_mut(), slot, memory);
    match reply {
        Some(cqe) => finish(queue, slot, cqe),
        None => Ok(()),
    }
}

/// Ends a command. The controller does not say how much it transferred: with success, all.
fn finish(queue: &QueueShared, slot: u16, cqe: Cqe) -> Result<(), PduError> {
    if cqe.status().is_success() {
        let mut slots = queue.slots.borrow_mut();
        let command = slots.get_mut(slot);
        command.moved = command.data_len;
    }
    queue.finish(slot, cqe)
}
