//! The initiator against a scripted peer, over loopback.

mod commands;
mod fake;
mod lies;
mod peer;
mod recovery;

use std::sync::Arc;

use fake::Fake;
use io::{IoBuf, Runtime, RuntimeConfig};
use nvmf::initiator::{Config, Controller, Namespace, Reconnect};
use nvmf::wire::command::Nsid;
use nvmf::wire::nqn::{HostId, Nqn};

/// Runs a test on the real driver.
fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F) {
    let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
    let test = test();
    runtime.block_on(async move {
        io::timeout(std::time::Duration::from_secs(60), test)
            .await
            .expect("no hang")
    });
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
