//! The initiator against a scripted peer, on io_uring over loopback and in the simulator.

mod commands;
mod fake;
mod lies;
mod peer;
mod recovery;

use std::sync::Arc;
use std::time::Duration;

use fake::Fake;
use io::sim::{Sim, SimConfig};
use io::{IoBuf, Runtime, RuntimeConfig};
use nvmf::initiator::{Config, Controller, Namespace, Reconnect};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};

/// Seeds that each test runs with in the simulator.
const SEEDS: u64 = 10;
/// No test takes so long, on either clock.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs a test on io_uring, then in the simulator.
fn run<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    run_real(&test);
    run_simulated(test);
}

/// Runs a test that needs a stream to arrive as it was sent, on io_uring alone.
fn run_real<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    runtime.block_on(limited(test()));
}

/// Runs a test that is about time, in the simulator alone.
fn run_simulated<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        Sim::new(seed, SimConfig::default()).block_on(limited(test()));
    }
}

async fn limited(test: impl Future<Output = ()>) {
    io::timeout(LIMIT, test).await.expect("no hang");
}

fn config(fake: &Fake) -> Config {
    let subnqn = Nqn::new("nqn.2026-11.test:disk").expect("valid");
    let hostnqn = Nqn::new("nqn.2026-11.test:host").expect("valid");
    Config {
        reconnect: Reconnect::NEVER,
        ..Config::new(fake.addr, subnqn, hostnqn, HostId([3; 16]))
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

async fn empty(len: usize) -> IoBuf {
    let mut buf = io::pool().alloc(len).await;
    buf.fill(0xee);
    buf
}
