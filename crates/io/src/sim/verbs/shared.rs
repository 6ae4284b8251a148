//! Shared receive queues of the simulated devices (IBA 10.2.9).
//!
//! **Called by** the table, the connection manager and the transport. **Invariants**: a queue is made with the first queue pair that uses it, and
//! ends with the last one; each of its receives is posted, or has a message that was not dropped; a receive whose queue pair has ended returns
//! as any other.

use super::message::QueuePairId;
use super::table::Verbs;
use crate::rdma::{DeviceEvent, QueuePairConfig, ReceiveBuffer, count_device_event};
use crate::runtime::NodeId;
use std::collections::VecDeque;

/// A shared queue: of one device, and for one number and length of receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sim) struct SharedId {
    pub(super) node: NodeId,
    count: u32,
    len: u32,
}

impl SharedId {
    /// The queue for a queue pair of `node`, if its configuration wants one.
    pub(super) fn of(node: NodeId, config: &QueuePairConfig) -> Option<SharedId> {
        let (count, len) = (config.shared_receives, config.receive_len);
        (count > 0).then_some(SharedId { node, count, len })
    }
}

/// A shared receive queue.
pub(super) struct SharedReceives {
    /// Buffers of posted receives.
    posted: VecDeque<Vec<u8>>,
    /// Queue pairs that take from it.
    users: usize,
    /// Whether the event of few receives is to be raised.
    is_armed: bool,
}

/// The part of the receives that is few.
const LOW: u32 = 8;

impl SharedReceives {
    fn new(id: SharedId) -> SharedReceives {
        SharedReceives {
            posted: (0..id.count).map(|_| Vec::new()).collect(),
            users: 0,
            is_armed: true,
        }
    }
}

impl Verbs {
    /// A queue pair begins to take receives.
    pub(super) fn join_shared(&mut self, id: QueuePairId) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if let Some(of) = queue_pair.shared() {
            queue_pair.has_joined = true;
            let shared = self.shared.entry(of);
            shared.or_insert_with(|| SharedReceives::new(of)).users += 1;
        }
    }

    /// A receive for a message to `id`: of the shared queue, or of its own.
    pub(super) fn take_receive(&mut self, id: QueuePairId) -> Option<Vec<u8>> {
        let queue_pair = self.queue_pairs.get_mut(&id)?;
        let Some(of) = queue_pair.shared() else {
            return queue_pair.receives.pop_front();
        };
        let shared = self.shared.get_mut(&of)?;
        let taken = shared.posted.pop_front();
        let is_low = (shared.posted.len() as u32) < of.count / LOW;
        if is_low && std::mem::take(&mut shared.is_armed) {
            count_device_event(DeviceEvent::SharedReceivesLow);
        }
        taken
    }

    /// A message in a receive of a shared queue was dropped.
    pub(super) fn post_shared(&mut self, of: SharedId, mut buffer: Vec<u8>) {
        if let Some(shared) = self.shared.get_mut(&of)
            && (shared.posted.len() as u32) < of.count
        {
            buffer.clear();
            shared.posted.push_back(buffer);
            shared.is_armed |= shared.posted.len() as u32 >= 2 * of.count / LOW;
        }
    }

    /// The receive of a message that was not taken: one of a shared queue returns to it, and one of a queue pair ends with it.
    pub(super) fn flush_receive(&mut self, shared: Option<SharedId>, buffer: Vec<u8>) {
        if let Some(of) = shared {
            self.post_shared(of, buffer);
        }
    }

    /// Receives that a shared queue has posted.
    pub(super) fn shared_posted(&self, of: SharedId) -> u32 {
        self.shared.get(&of).map_or(0, |s| s.posted.len() as u32)
    }

    /// Receives that all shared queues of a node have posted.
    pub(super) fn shared_receives(&self, node: NodeId) -> usize {
        let of_node = self.shared.iter().filter(|(id, _)| id.node == node);
        of_node.map(|(_, shared)| shared.posted.len()).sum()
    }

    /// Removes a queue pair. Messages that nothing took give their receives back.
    pub(super) fn remove(&mut self, id: QueuePairId) {
        let Some(queue_pair) = self.queue_pairs.remove(&id) else {
            return;
        };
        let has_joined = queue_pair.has_joined;
        let Some(of) = queue_pair.shared().filter(|_| has_joined) else {
            return;
        };
        for event in queue_pair.events {
            if let Ok((ReceiveBuffer::Heap(buffer), _)) = event {
                self.post_shared(of, buffer);
            }
        }
        if let Some(shared) = self.shared.get_mut(&of) {
            shared.users -= 1;
            if shared.users == 0 {
                self.shared.remove(&of);
            }
        }
    }
}
