//! The initiator and the target together, on io_uring over loopback and in the simulator.

mod breaks;
mod commands;
mod events;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backend::BlockBackend;
use backend::memory::MemoryDisk;
use io::net::TcpListener;
use io::sim::{Sim, SimConfig};
use io::{IoBuf, Runtime, RuntimeConfig};
use nvmf::initiator::{Config, Controller, Namespace, Reconnect};
use nvmf::target::{
    HostPolicy, NamespaceConfig, NoReservationStore, PortRole, SubsystemConfig, Target,
    TargetConfig,
};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};

/// Seeds that each test runs with in the simulator.
const SEEDS: u64 = 10;
/// No test takes so long, on either clock.
const LIMIT: Duration = Duration::from_secs(120);
/// Bytes of a block.
const BLOCK: usize = 512;
/// Blocks of a disk.
const BLOCKS: u64 = 16 << 10;

/// Runs a test on io_uring, then in the simulator.
fn run<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    runtime.block_on(limited(test()));
    drop(runtime);
    run_simulated(test);
}

/// Runs a test that needs the simulator's network or clock.
fn run_simulated<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        Sim::new(seed, SimConfig::default()).block_on(limited(test()));
    }
}

async fn limited(test: impl Future<Output = ()>) {
    io::timeout(LIMIT, test).await.expect("no hang");
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

/// A target with one subsystem, `disk`, of one namespace, which any host may use.
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
    }
}

/// Serves a target on an address of this machine until the test ends.
fn listen(target: &Target, addr: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind(addr).expect("bind");
    let addr = listener.local_addr();
    let target = target.clone();
    drop(io::spawn(async move {
        loop {
            match listener.accept().await {
                Ok(stream) => {
                    let target = target.clone();
                    drop(io::spawn(async move {
                        target.serve(stream, PortRole::Io).await
                    }));
                }
                // A connection that ended before it was accepted.
                Err(io::Error::Closed) => {}
                Err(error) => panic!("accept: {error}"),
            }
        }
    }));
    addr
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

/// A buffer of `len` bytes that depend on `seed` and place.
async fn pattern(len: usize, seed: u64) -> Arc<IoBuf> {
    let mut buf = io::pool().alloc(len).await;
    io::rng::Prng::new(seed).fill(&mut buf);
    Arc::new(buf)
}

async fn read(ns: &Namespace, slba: u64, len: usize) -> IoBuf {
    let mut buf = io::pool().alloc(len).await;
    buf.fill(0xee);
    let (result, buf) = ns.read(slba, buf).await;
    result.expect("read");
    buf
}
