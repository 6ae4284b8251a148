//! Fairness of a target: 64 bad hosts beside a good one, whose latency stays as it is alone.
//!
//! **Called by** the fairness tests of both targets. Everything happens in simulated time, on a disk whose reads need buffers of
//! the pool.

use backend::raw::{RawDisk, RawOptions};
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig};
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

/// Hosts that hold buffers.
pub const BAD_HOSTS: u8 = 64;
/// How long a host that does not receive stays before it comes again.
pub const HELD: Duration = Duration::from_secs(5);
/// Bytes of the buffer pool, as a shard of the server has.
pub const POOL_SIZE: usize = 32 << 20;
/// Bytes of a block.
pub const BLOCK: u32 = 512;
/// Commands of which the 99th percentile is taken.
const COMMANDS: usize = 120;
/// Time between two of them: a phase lasts longer than buffers may be held while others wait.
const PAUSE: Duration = Duration::from_millis(40);
/// Bytes of the disk.
const DISK_SIZE: u64 = 16 << 20;

/// Makes and opens the disk of a machine: reads take time, and buffers. Call it on that machine.
pub async fn disk(machine: Node) -> RawDisk {
    let config = DiskConfig {
        size: DISK_SIZE,
        logical_block: BLOCK,
        latency: Latency {
            // The disk's own tail would hide what others cost.
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
    let config = SimConfig {
        buffer_limit: POOL_SIZE,
        ..SimConfig::default()
    };
    Sim::new(seed, config).block_on(test);
}

/// The 99th percentile of the latency of reads and of writes, µs. `command` does one of them, a write if told so.
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

/// Fails if a latency beside bad hosts is more than twice the one alone.
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
