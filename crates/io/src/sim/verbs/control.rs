//! Control of the simulated verbs devices by tests. Call inside [`crate::sim::Sim::block_on`].

use super::message::QueuePairId;
use crate::rdma::{DeviceEvent, Ending, WorkError, count_device_event};
use crate::sim::Node;
use crate::sim::control::with_world;

/// Removes the device of a node: its queue pairs and listeners end, connection requests to it are not answered.
pub fn remove_device(node: Node) {
    with_world(|w| {
        let of_node = w.verbs.of_node(node.id());
        for id in of_node {
            w.verbs.fail(&mut w.core, id, Ending::DeviceRemoved);
        }
        let core = &mut w.core;
        w.verbs.listeners.retain(|_, l| {
            if l.node == node.id()
                && let Some(waker) = l.waker.take()
            {
                core.wake(&waker);
            }
            l.node != node.id()
        });
        w.verbs.removed.insert(node.id());
    });
}

/// Gives a node its device back. Listeners are to be made again.
pub fn restore_device(node: Node) {
    with_world(|w| {
        w.verbs.removed.remove(&node.id());
    });
}

/// Fails every queue pair between two nodes, at both ends, as lost packets without end do.
pub fn fail_queue_pairs(a: Node, b: Node) {
    with_world(|w| {
        let (a, b) = (a.id(), b.id());
        let queue_pairs = w.verbs.queue_pairs.iter();
        let between =
            queue_pairs.filter(|(_, q)| [(a, b), (b, a)].contains(&(q.node, q.remote_node)));
        let ids: Vec<QueuePairId> = between.map(|(id, _)| *id).collect();
        for id in ids {
            w.verbs
                .fail_request(&mut w.core, id, WorkError::RetriesExceeded);
        }
    });
}

/// The device of a node reports an event: a failed device ends all its queue pairs, events of ports end none, and the others end the queue
/// pairs to the node `peer`.
pub fn raise(node: Node, peer: Node, event: DeviceEvent) {
    count_device_event(event);
    with_world(|w| {
        let Some(why) = Ending::of_event(event) else {
            return;
        };
        let is_device = event == DeviceEvent::DeviceFatal;
        let queue_pairs = w.verbs.queue_pairs.iter();
        let hit = queue_pairs
            .filter(|(_, q)| q.node == node.id() && (is_device || q.remote_node == peer.id()));
        let ids: Vec<QueuePairId> = hit.map(|(id, _)| *id).collect();
        for id in ids {
            w.verbs.fail(&mut w.core, id, why);
        }
    });
}

/// Number of queue pairs that a node has.
#[must_use]
pub fn queue_pairs(node: Node) -> usize {
    with_world(|w| w.verbs.of_node(node.id()).len())
}
