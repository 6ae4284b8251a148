//! A host that connects and leaves repeatedly while the host list changes.
//!
//! **Owns** that machine, the changes of the list, and the check. **Called by** scenario `shards`, over NVMe/TCP.
//! **Invariants** that it checks: when a list without the guest was set and its connections had time to end, the guest has no
//! session; a guest that left has no session.

use super::server::{Server, subsystem};
use crate::model::Model;
use io::rng::Prng;
use io::sim::Node;
use io::time::sleep;
use io::{JoinHandle, spawn, timeout};
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf_initiator::{Config, Controller};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Time in which connections end: their tasks need some turns, and shards pause.
const GRACE: Duration = Duration::from_secs(1);
/// Longest time between two changes of the list, and longest visit of the guest, microseconds.
const PAUSE_US: u64 = 20_000;

/// Most I/O queues of the guest.
const QUEUES_MAX: u64 = 8;

/// The guest's name.
pub(super) fn guest() -> Nqn {
    Nqn::new("nqn.2026-01.example:guest").expect("a valid name")
}

/// The guest's tasks.
pub(super) struct Guest {
    node: Node,
    changes: JoinHandle<()>,
}

impl Guest {
    /// Starts the guest.
    pub(super) fn start(server: &Rc<Server>, model: &Rc<RefCell<Model>>, seed: u64) -> Guest {
        let node = Node::new();
        drop(node.spawn(visit(server.address(), seed)));
        let changes = change_lists(server.clone(), model.clone(), seed ^ 0x11);
        Guest {
            node,
            changes: spawn(changes),
        }
    }

    /// Ends the guest, and checks that it has no session.
    pub(super) async fn end(self, server: &Server, model: &Rc<RefCell<Model>>) {
        self.changes.abort();
        self.node.kill();
        server.admit_guest(true);
        sleep(GRACE).await;
        let left = server.guest_sessions();
        if left > 0 {
            let what = format!("{left} sessions of a guest that went are left\n{server}");
            model.borrow_mut().blame(what);
        }
    }
}

/// Connects, sometimes only in part, and leaves, repeatedly.
async fn visit(to: SocketAddr, seed: u64) {
    let mut rng = Prng::new(seed);
    loop {
        let config = Config {
            io_queues: 1 + rng.below(QUEUES_MAX) as u16,
            ..Config::new(to, subsystem(), guest(), HostId([0x60; 16]))
        };
        let patience = Duration::from_micros(rng.below(PAUSE_US));
        let connected = timeout(patience, Controller::connect(config)).await;
        if let Ok(Ok(controller)) = connected {
            sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
            match rng.chance(0.5) {
                true => drop(timeout(GRACE, controller.shutdown()).await),
                false => drop(controller),
            }
        }
        sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
    }
}

/// Removes the guest from the list and adds it, repeatedly.
async fn change_lists(server: Rc<Server>, model: Rc<RefCell<Model>>, seed: u64) {
    let mut rng = Prng::new(seed);
    loop {
        sleep(Duration::from_micros(rng.below(PAUSE_US))).await;
        let life = server.admit_guest(false);
        if rng.chance(0.5) {
            sleep(GRACE).await;
            let left = server.guest_sessions();
            if left > 0 && life.is_some() && life == server.life_number() {
                let what = format!("{left} sessions of a host that is not on the list\n{server}");
                model.borrow_mut().blame(what);
                return;
            }
        }
        server.admit_guest(true);
    }
}
