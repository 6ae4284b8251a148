//! The initiator against a scripted target, in the simulator and, where bytes are damaged, on io_uring.

mod fake;
mod lies;
mod login;
mod trouble;

use fake::Fake;
use io::sim::{Sim, SimConfig};
use io::{Runtime, RuntimeConfig};
use iscsi::initiator::{Config, Proposal, Reconnect, Session, Unit};
use iscsi::wire::IscsiName;
use std::time::Duration;

/// Seeds that each test runs with in the simulator.
const SEEDS: u64 = 3;
/// No test takes so long, on either clock.
const LIMIT: Duration = Duration::from_secs(600);
/// Bytes of a block.
const BLOCK: usize = 512;

/// Runs a test in the simulator.
fn run<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    for seed in 0..SEEDS {
        eprintln!("seed {seed}");
        Sim::new(seed, SimConfig::default()).block_on(limited(test()));
    }
}

/// Runs a test on io_uring.
fn run_real<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    runtime.block_on(limited(test()));
}

async fn limited(test: impl Future<Output = ()>) {
    io::timeout(LIMIT, test).await.expect("no hang");
}

fn name(text: &str) -> IscsiName {
    IscsiName::new(text).expect("valid")
}

fn config(fake: &Fake) -> Config {
    let target = name("iqn.2026-11.test:disk");
    Config {
        reconnect: Reconnect::NEVER,
        proposal: Proposal {
            header_digest: fake.digests,
            data_digest: fake.digests,
            ..Proposal::default()
        },
        ..Config::new(fake.addr, target, name("iqn.2026-11.test:initiator"))
    }
}

async fn connect(config: Config) -> (Session, Unit) {
    let session = Session::connect(config).await.expect("login");
    let unit = session.unit(0).await.expect("a disk");
    (session, unit)
}
