//! Test helpers that several crates share. A development dependency only.
//!
//! **Owns** runs of a test on io_uring and in the simulator, buffers with a pattern, listeners, connections that break,
//! the fixture of the fairness tests, the conformance suite of file systems, and a store in memory for filesystems of the
//! pool, certificates. **Invariants**: it knows no protocol; every run has a time limit, so that no test
//! hangs.

#![forbid(unsafe_code)]

pub mod breaks;
pub mod certificates;
pub mod fairness;
pub mod files;
pub mod store;

use io::net::{TcpListener, TcpStream};
use io::sim::{Sim, SimConfig};
use io::{IoBuf, Runtime, RuntimeConfig};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Settings for the tests of a test binary.
#[derive(Debug, Clone, Copy)]
pub struct Runs {
    /// Seeds with which each test runs in the simulator.
    pub seeds: u64,
    /// Time limit of a test, on either clock.
    pub limit: Duration,
}

impl Runs {
    /// Runs a test on io_uring, then in the simulator.
    pub fn both<F: Future<Output = ()> + 'static>(self, test: impl Fn() -> F) {
        self.real(&test);
        self.simulated(test);
    }

    /// Runs a test on io_uring only: it needs a stream that arrives as it was sent.
    pub fn real<F: Future<Output = ()> + 'static>(self, test: impl Fn() -> F) {
        let runtime = Runtime::new(RuntimeConfig::default()).expect("io_uring is there");
        runtime.block_on(self.limited(test()));
    }

    /// Runs a test in the simulator only: it needs the simulator's network or clock.
    pub fn simulated<F: Future<Output = ()> + 'static>(self, test: impl Fn() -> F) {
        for seed in 0..self.seeds {
            eprintln!("seed {seed}");
            Sim::new(seed, SimConfig::default()).block_on(self.limited(test()));
        }
    }

    async fn limited(self, test: impl Future<Output = ()>) {
        io::timeout(self.limit, test).await.expect("no hang");
    }
}

/// Returns a buffer of `len` bytes that depend on `seed` and their position.
pub async fn pattern(len: usize, seed: u64) -> Arc<IoBuf> {
    let mut buf = io::pool().alloc(len).await;
    io::rng::Prng::new(seed).fill(&mut buf);
    Arc::new(buf)
}

/// Returns a buffer of `len` bytes that a read must overwrite.
pub async fn empty(len: usize) -> IoBuf {
    let mut buf = io::pool().alloc(len).await;
    buf.fill(0xee);
    buf
}

/// Serves every connection to `addr` until the test ends. Returns the address.
pub fn listen<F: Future<Output = ()> + 'static>(
    addr: SocketAddr,
    serve: impl Fn(TcpStream) -> F + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(addr).expect("bind");
    let addr = listener.local_addr();
    drop(io::spawn(async move {
        loop {
            match listener.accept().await {
                Ok(stream) => drop(io::spawn(serve(stream))),
                // The connection ended before it was accepted.
                Err(io::Error::Closed) => {}
                Err(error) => panic!("accept: {error}"),
            }
        }
    }));
    addr
}
