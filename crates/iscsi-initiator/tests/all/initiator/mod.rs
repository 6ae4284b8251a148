//! The initiator against a scripted target, in the simulator and, for damaged bytes, on io_uring.

mod fake;
mod lies;
mod login;
mod peers;
mod trouble;

use fake::Fake;
use iscsi::wire::IscsiName;
use iscsi_initiator::{Config, Proposal, Reconnect, Session, Unit};
use std::time::Duration;
use testkit::Runs;

/// Time limit of a test, and the simulator's network.
const RUNS: Runs = Runs {
    seeds: 3,
    limit: Duration::from_secs(600),
};
/// Block size, bytes.
const BLOCK: usize = 512;

/// Runs a test in the simulator.
fn run<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.simulated(test);
}

/// Runs a test on io_uring.
fn run_real<F: Future<Output = ()> + 'static>(test: impl Fn() -> F) {
    RUNS.real(test);
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
