//! Receives of simulated queue pairs: their own, and those of shared queues.
//!
//! **Called by** the table, the connection manager and the transport. **Invariants**: a queue pair that is removed gives the receives of messages
//! back that nothing took.

use super::message::{QueuePairId, SharedId};
use super::shared::SharedReceives;
use super::table::Verbs;
use crate::rdma::ReceiveBuffer;
use crate::runtime::NodeId;

impl Verbs {
    /// A queue pair begins to take receives.
    pub(super) fn join_shared(&mut self, id: QueuePairId) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if let Some(of) = queue_pair.shared() {
            queue_pair.has_joined = true;
            let shared = self.shared.entry(of);
            shared
                .or_insert_with(|| SharedReceives::new(of.count))
                .users += 1;
        }
    }

    /// A receive for a message to `id`: of the shared queue, or of its own.
    pub(super) fn take_receive(&mut self, id: QueuePairId) -> Option<Vec<u8>> {
        let queue_pair = self.queue_pairs.get_mut(&id)?;
        let Some(of) = queue_pair.shared() else {
            return queue_pair.receives.pop_front();
        };
        self.shared.get_mut(&of)?.take()
    }

    /// A message in a receive of a shared queue was dropped.
    pub(super) fn post_shared(&mut self, of: SharedId, buffer: Vec<u8>) {
        if let Some(shared) = self.shared.get_mut(&of) {
            shared.post(buffer);
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
        self.shared.get(&of).map_or(0, SharedReceives::posted)
    }

    /// Receives that all shared queues of a node have posted.
    pub(super) fn shared_receives(&self, node: NodeId) -> usize {
        let of_node = self.shared.iter().filter(|(id, _)| id.node == node);
        of_node.map(|(_, shared)| shared.posted() as usize).sum()
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
