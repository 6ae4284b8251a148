//! The initiator against a scripted peer, on io_uring over loopback and in the simulator.

mod commands;
mod fake;
mod lies;
mod peer;
mod recovery;

use std::time::Duration;

use fake::Fake;
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};
use nvmf_initiator::{Config, Controller, Namespace, Reconnect};
use testkit::{Runs, empty, pattern};

/// Time limit of a test, and the simulator's network.
const RUNS: Runs = Runs {
    seeds: 10,
    limit: Duration::from_secs(60),
};

/// Runs a test on io_uring, then in the simulator.
fn run<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.both(test);
}

/// Runs a test on io_uring only: it needs a stream that arrives as it was sent.
fn run_real<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.real(test);
}

/// Runs a test that depends on time in the simulator only.
fn run_simulated<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.simulated(test);
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
