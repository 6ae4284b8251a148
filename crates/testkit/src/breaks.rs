//! Load on connections that break.
//!
//! **Called by** tests of an initiator against our server, in the simulator.

use crate::pattern;
use io::IoBuf;
use io::rng::Prng;
use io::sim::{Node, network};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Block size, bytes.
const BLOCK: usize = 512;
/// Number of blocks of each worker.
const BLOCKS_OF_WORKER: u64 = 128;

/// Writes a worker's own blocks repeatedly, in all sizes, and reads each back, until told to stop. Returns the number of
/// rounds.
pub async fn write_and_read(
    worker: u64,
    stop: Rc<Cell<bool>>,
    pause: Duration,
    write: impl AsyncFn(u64, Arc<IoBuf>),
    read: impl AsyncFn(u64, usize) -> IoBuf,
) -> u64 {
    let mut rng = Prng::new(worker);
    let mut rounds = 0;
    while !stop.get() {
        let blocks = 1 + rng.below(64);
        let start = worker * BLOCKS_OF_WORKER + rng.below(BLOCKS_OF_WORKER - blocks);
        let data = pattern(blocks as usize * BLOCK, rng.u64()).await;
        write(start, data.clone()).await;
        let buf = read(start, data.len()).await;
        assert!(
            buf[..] == data[..],
            "worker {worker}, round {rounds}, block {start}"
        );
        rounds += 1;
        if !pause.is_zero() {
            io::time::sleep(pause).await;
        }
    }
    rounds
}

/// Breaks connections `times` times, with pauses of up to `pause`: resets all connections between two machines, or partitions
/// them for less time than a connection's timeout. Returns the number of resets.
pub async fn disturb(here: Node, server: Node, times: u32, pause: Duration) -> u64 {
    let mut resets = 0;
    for _ in 0..times {
        let pause_us = io::rng::u64() % pause.as_micros() as u64;
        io::time::sleep(Duration::from_micros(pause_us)).await;
        if io::rng::u64().is_multiple_of(4) {
            // Everything arrives late, and once.
            network::partition(here, server);
            io::time::sleep(Duration::from_millis(io::rng::u64() % 500)).await;
            network::heal(here, server);
        } else {
            network::reset_connections(here, server);
            resets += 1;
        }
    }
    resets
}
