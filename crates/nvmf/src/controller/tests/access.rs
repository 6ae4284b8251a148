//! Access that is taken away between a Connect's checks and the controller's or queue's entry into the lists.
//!
//! Each test stops a Connect at that point, which in a server lasts microseconds, makes the change, and goes on.

use super::*;
use crate::controller::association::{Association, Controller, ControllerKind};
use crate::controller::queue_handle::{QueueHandle, Signal};
use crate::controller::subsystem::Subsystem;
use crate::wire::fabrics::Csts;
use crate::wire::nqn::HostId;
use crate::wire::pdu::Digests;
use std::net::{IpAddr, SocketAddr};

fn name(s: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-11.test:{s}")).expect("a name")
}

fn target() -> (Target, Arc<Subsystem>) {
    let target = Target::new(TargetConfig::default());
    target.add_subsystem(config(HostPolicy::Any)).expect("new");
    let subsystem = target.0.subsystem(&name("disk")).expect("there");
    (target, subsystem)
}

fn config(hosts: HostPolicy) -> SubsystemConfig {
    SubsystemConfig {
        nqn: name("disk"),
        serial: "1".into(),
        model: "1".into(),
        hosts,
        transports: Transports::ALL,
    }
}

fn queue(qid: u16) -> Arc<QueueHandle> {
    let addr = SocketAddr::from(([127, 0, 0, 1], 4420));
    let signal = Arc::new(Signal::default());
    Arc::new(QueueHandle::new(
        (qid, 32),
        (addr, addr),
        Digests::default(),
        signal,
    ))
}

/// The rest of a Connect whose checks have passed.
fn enter(target: &Target, subsystem: &Arc<Subsystem>) -> Option<Arc<Controller>> {
    let association = Association {
        transport: Transport::Tcp,
        kind: ControllerKind::Io(subsystem.clone()),
        host_nqn: name("host"),
        host_id: HostId([1; 16]),
        kato_ms: 0,
        reconnects: 0,
    };
    let from = IpAddr::from([127, 0, 0, 1]);
    let shared = &target.0;
    let place = shared
        .connections
        .admission
        .enter(from, Arc::new(Signal::default()));
    let mut place = place.expect("a place");
    let made = shared.add_controller(association, &name("disk"), queue(0), &mut place);
    made.ok()
}

/// Runs in the simulated world, for its clock.
fn simulated(test: impl FnOnce() + 'static) {
    io::sim::Sim::new(1, io::sim::SimConfig::default()).block_on(async move { test() });
}

#[test]
fn a_host_taken_off_the_list_amid_its_connect_stays_out() {
    simulated(|| {
        let (target, subsystem) = target();
        assert!(subsystem.allows(&name("host")));
        let nobody = HostPolicy::List([].into());
        target.set_hosts(&name("disk"), nobody).expect("there");
        assert!(enter(&target, &subsystem).is_none());
        assert!(target.sessions().is_empty());
    });
}

#[test]
fn a_subsystem_removed_amid_a_connect_gets_no_controller() {
    simulated(|| {
        let (target, subsystem) = target();
        target.remove_subsystem(&name("disk")).expect("there");
        assert!(enter(&target, &subsystem).is_none());
        // Nor does one of the same name that came in its place.
        target.add_subsystem(config(HostPolicy::Any)).expect("new");
        assert!(enter(&target, &subsystem).is_none());
        assert!(target.sessions().is_empty());
    });
}

#[test]
fn no_queue_joins_a_controller_that_ends() {
    simulated(|| {
        let (target, subsystem) = target();
        let controller = enter(&target, &subsystem).expect("admitted");
        controller.state().csts = Csts::READY;
        assert!(controller.state().join(queue(1)).is_ok());
        target.disconnect(controller.cntlid).expect("there");
        let late = controller.state().join(queue(2));
        assert_eq!(late, Err(association::NotJoined::Ending));
    });
}

#[test]
fn a_queue_that_was_told_to_end_makes_way_and_takes_nothing_with_it() {
    simulated(|| {
        let (target, subsystem) = target();
        let controller = enter(&target, &subsystem).expect("admitted");
        controller.state().csts = Csts::READY;
        let (old, new) = (queue(1), queue(1));
        assert!(controller.state().join(old.clone()).is_ok());
        let taken = controller.state().join(new.clone());
        assert_eq!(taken, Err(association::NotJoined::Taken));
        controller.close_io(CloseReason::ControllerEnded);
        assert!(controller.state().join(new.clone()).is_ok());
        // The old connection ends only now.
        controller.remove_queue(1, &old);
        let state = controller.state();
        assert!(state.queues.get(&1).is_some_and(|q| Arc::ptr_eq(q, &new)));
    });
}
