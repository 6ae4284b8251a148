//! Control of the simulated network by tests. Call inside [`super::Sim::block_on`].

use super::control::with_world;
use super::verbs::control as verbs;
use super::{LinkConfig, Node};

fn change(a: Node, b: Node, change: impl Fn(&mut LinkConfig)) {
    with_world(|w| {
        for (from, to) in [(a.id(), b.id()), (b.id(), a.id())] {
            let mut link = w.net.links.get(&w.core, from, to);
            change(&mut link);
            w.net.links.set(from, to, link);
        }
        w.unblock();
    });
}

/// Sets both directions between two nodes.
pub fn set_link(a: Node, b: Node, link: LinkConfig) {
    change(a, b, |l| *l = link);
}

/// Sets one direction.
pub fn set_one_way(from: Node, to: Node, link: LinkConfig) {
    with_world(|w| {
        w.net.links.set(from.id(), to.id(), link);
        w.unblock();
    });
}

/// Returns the present properties of one direction.
#[must_use]
pub fn link(from: Node, to: Node) -> LinkConfig {
    with_world(|w| w.net.links.get(&w.core, from.id(), to.id()))
}

/// Cuts the link between two nodes. Connections stay, and wait.
pub fn partition(a: Node, b: Node) {
    change(a, b, |l| l.cut = true);
}

/// Ends a partition. Packets that were sent meanwhile arrive after a pause.
pub fn heal(a: Node, b: Node) {
    change(a, b, |l| l.cut = false);
}

/// Resets every connection between two nodes; queue pairs fail at both ends.
pub fn reset_connections(a: Node, b: Node) {
    with_world(|w| w.net.reset_between(&mut w.core, a.id(), b.id()));
    verbs::fail_queue_pairs(a, b);
}
