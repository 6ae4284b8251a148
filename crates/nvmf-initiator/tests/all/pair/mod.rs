//! The initiator against our server, on io_uring over loopback and in the simulator.

mod breaks;
mod commands;
mod events;
mod stages;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backend::BlockBackend;
use backend::memory::MemoryDisk;
use io::IoBuf;
use nvmf::controller::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, SubsystemConfig, Target,
    TargetConfig, Transports,
};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf_initiator::{Config, Controller, Namespace, Reconnect};
use testkit::{Runs, pattern};

/// Time limit of a test, and the simulator's network.
const RUNS: Runs = Runs {
    seeds: 10,
    limit: Duration::from_secs(120),
};
/// Block size, bytes.
const BLOCK: usize = 512;
/// Blocks of a disk.
const BLOCKS: u64 = 16 << 10;

/// Runs a test on io_uring, then in the simulator.
fn run<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.both(test);
}

/// Runs a test that needs the simulator's network or clock.
fn run_simulated<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.simulated(test);
}

fn nqn(name: &str) -> Nqn {
    Nqn::new(&format!("nqn.2026-11.test:{name}")).expect("valid")
}

fn disk() -> Arc<dyn BlockBackend> {
    Arc::new(MemoryDisk::new(BLOCKS * BLOCK as u64, BLOCK as u32).expect("a disk"))
}

fn namespace_config(nsid: u32) -> NamespaceConfig {
    NamespaceConfig {
        nsid,
        uuid: uuid::Uuid::from_u128(u128::from(nsid)),
        backend: disk(),
        reservations: Arc::new(NoReservationStore),
    }
}

/// A server with one subsystem, `disk`, of one namespace that any host may use.
fn target(config: TargetConfig) -> Target {
    let target = Target::new(config);
    target.add_subsystem(subsystem("disk")).expect("a new name");
    target
        .add_namespace(&nqn("disk"), namespace_config(1))
        .expect("a new ID");
    target
}

fn subsystem(name: &str) -> SubsystemConfig {
    SubsystemConfig {
        nqn: nqn(name),
        serial: name.into(),
        model: "test".into(),
        hosts: HostPolicy::Any,
        transports: Transports::ALL,
    }
}

/// Serves a target on `addr` until the test ends. Returns the address.
fn listen(target: &Target, addr: SocketAddr) -> SocketAddr {
    let target = target.clone();
    testkit::listen(addr, move |stream| {
        let target = target.clone();
        async move { target.serve(stream, PortRole::Io).await }
    })
}

fn serve(target: &Target) -> SocketAddr {
    listen(target, "127.0.0.1:0".parse().expect("an address"))
}

fn config(addr: SocketAddr) -> Config {
    Config {
        reconnect: Reconnect::NEVER,
        ..Config::new(addr, nqn("disk"), nqn("host"), HostId([3; 16]))
    }
}

async fn connect(config: Config) -> (Controller, Namespace) {
    let controller = Controller::connect(config).await.expect("connect");
    let namespace = controller.namespace(Nsid(1)).await.expect("namespace");
    (controller, namespace)
}

async fn read(ns: &Namespace, slba: u64, len: usize) -> IoBuf {
    let buf = testkit::empty(len).await;
    let (result, buf) = ns.read(slba, buf).await;
    result.expect("read");
    buf
}
