//! Fairness of a server: 64 bad hosts must not raise the latency of a good one.
//!
//! **Called by** the fairness tests of the protocols. They run in simulated time, on a disk whose reads need buffers of the
//! pool.

use backend::raw::{RawDisk, RawOptions};
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig};
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

/// Hosts that hold buffers.
pub const BAD_HOSTS: u8 = 64;
/// Time after which a host that does not receive reconnects.
pub const HELD: Duration = Duration::from_secs(5);
/// Size of the buffer pool, bytes: that of a shard of the server.
pub const POOL_SIZE: usize = 32 << 20;
/// Block size, bytes.
pub const BLOCK: u32 = 512;
/// Number of commands of which the 99th percentile is taken.
const COMMANDS: usize = 120;
/// Pause between two commands, so that a phase is longer than the time for which buffers may be held while others wait.
const PAUSE: Duration = Duration::from_millis(40);
/// Size of the disk, bytes.
const DISK_SIZE: u64 = 16 << 20;

/// Creates and opens the disk of a machine, whose reads take time and need buffers. Must be called on that machine.
pub async fn disk(machine: Node) -> RawDisk {
    let config = DiskConfig {
        size: DISK_SIZE,
        logical_block: BLOCK,
        latency: Latency {
            // A latency tail of the disk itself would hide the delays that the bad hosts cause.
            tail_chance: 0.0,
            ..Latency::default()
        },
        ..DiskConfig::default()
    };
    let _ = machine.create_disk("disk", config);
    let options = RawOptions {
        block_size: Some(BLOCK),
        ..RawOptions::default()
    };
    RawDisk::open("disk", options).await.expect("it is there")
}

/// Runs a test in a world whose shards have a buffer pool of [`POOL_SIZE`].
pub fn run(seed: u64, test: impl Future<Output = ()> + 'static) {
    run_slowly(seed, Duration::ZERO, test);
}

/// Like [`run`], with turns that take time: `read_cost` for each reading of the clock.
pub fn run_slowly(seed: u64, read_cost: Duration, test: impl Future<Output = ()> + 'static) {
    let config = SimConfig {
        buffer_limit: POOL_SIZE,
        read_cost,
        ..SimConfig::default()
    };
    Sim::new(seed, config).block_on(test);
}

/// Returns the 99th percentile of the latency of reads and of writes, µs. `command` runs one command: a write if its argument
/// is true.
pub async fn p99(mut command: impl AsyncFnMut(bool)) -> [u64; 2] {
    let mut all = [Vec::new(), Vec::new()];
    for n in 0..2 * COMMANDS {
        let began = io::time::now();
        command(n % 2 == 1).await;
        all[n % 2].push(began.elapsed().as_micros() as u64);
        io::time::sleep(PAUSE).await;
    }
    all.map(|mut us| {
        us.sort_unstable();
        us[(us.len() * 99).div_ceil(100) - 1]
    })
}

/// Panics if a latency beside bad hosts is more than twice the latency alone.
pub fn compare(attack: &impl Debug, len: u32, alone: [u64; 2], beside: [u64; 2]) {
    for (alone, beside) in alone.iter().zip(beside) {
        assert!(
            beside <= 2 * alone,
            "{attack:?}, {len} bytes: p99 of {beside} µs, alone {alone} µs"
        );
    }
}

/// Waits for the good host's task.
pub async fn finish(good: impl Future<Output = Option<()>>) {
    io::timeout(Duration::from_secs(120), good)
        .await
        .expect("the good host gets its answers")
        .expect("not killed");
}
