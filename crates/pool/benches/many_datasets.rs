//! Cost of a checkpoint and of a write in a pool of many datasets, of which one volume is busy.
//!
//! `cargo bench -p wirepool-pool --bench many_datasets`. Disks are simulated and times are processor time, so that other load
//! on the machine has little effect. The simulation's own share is the same in each row.

use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions};
use io::linux::thread_cpu_time;
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::Host;
use pool::vdev::{PoolSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

const BLOCK: usize = 4096;
const VOLUME_BYTES: u64 = 64 << 20;
/// Records of the busy volume that change before each measured checkpoint.
const CHANGED: u64 = 64;

/// Number of datasets of a pool, and number of measurements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) volumes: u64,
    /// Snapshots of each volume.
    pub(crate) snapshots: u64,
    pub(crate) checkpoints: u64,
    pub(crate) writes: u64,
}

/// Processor time, nanoseconds.
struct Cost {
    checkpoint_ns: u64,
    write_ns: u64,
}

/// Processor time of this thread, nanoseconds.
fn cpu_ns() -> u64 {
    thread_cpu_time().as_nanos() as u64
}

async fn write(volume: &Volume, block: u64) {
    let mut data = io::pool().alloc(BLOCK).await;
    data.fill(block as u8 + 1);
    let _proof = volume
        .write_durable(Lba(block), data)
        .await
        .expect("written");
}

async fn make(scale: Scale) -> (Pool, Volume) {
    let config = DiskConfig {
        size: 8 << 30,
        ..DiskConfig::default()
    };
    Node::current().create_disk("disk", config);
    let disk = Disk::open("disk", OpenOptions::default()).await;
    let host = Host::new([1; 16], "here");
    let spec = PoolSpec::new("tank", vec![vec![disk.expect("the disk is there")]], host);
    let opened = create(spec).await.expect("a pool");
    let pool = Pool::open(opened, Options::default())
        .await
        .expect("a pool");
    for n in 0..scale.volumes {
        let name = format!("volume{n}");
        let volume = pool
            .create_volume(NewVolume::new(&name, VOLUME_BYTES))
            .await;
        write(&volume.expect("a volume"), 0).await;
        for n in 0..scale.snapshots {
            let taken = pool.create_snapshot(&name, &format!("s{n}")).await;
            taken.expect("a snapshot");
        }
    }
    let busy = pool.volume("volume0").expect("a volume");
    for _ in 0..3 {
        pool.checkpoint().await.expect("a checkpoint");
    }
    (pool, busy)
}

async fn measure(scale: Scale) -> Cost {
    let (pool, busy) = make(scale).await;
    let mut checkpoints = 0;
    for _ in 0..scale.checkpoints {
        for block in 0..CHANGED {
            write(&busy, block).await;
        }
        let start = cpu_ns();
        pool.checkpoint().await.expect("a checkpoint");
        // Time for the work that follows the checkpoint.
        io::time::sleep(Duration::from_millis(1)).await;
        checkpoints += cpu_ns() - start;
    }
    let start = cpu_ns();
    for n in 0..scale.writes {
        write(&busy, n % CHANGED).await;
    }
    let writes = cpu_ns() - start;
    pool.close().await.expect("closed");
    Cost {
        checkpoint_ns: checkpoints / scale.checkpoints,
        write_ns: writes / scale.writes,
    }
}

/// Measures pools of these sizes, and prints the results.
pub(crate) fn run(scales: &[Scale]) {
    println!(
        "{:>8} {:>10} {:>14} {:>14}",
        "volumes", "snapshots", "checkpoint us", "write us"
    );
    for scale in scales {
        let scale = *scale;
        let sim = Sim::new(1, SimConfig::default());
        let cost = sim.block_on(async move {
            let done = Node::new().spawn(measure(scale)).await;
            done.expect("it ran to its end")
        });
        println!(
            "{:>8} {:>10} {:>14.1} {:>14.1}",
            scale.volumes,
            scale.volumes * scale.snapshots,
            cost.checkpoint_ns as f64 / 1e3,
            cost.write_ns as f64 / 1e3
        );
    }
}

#[allow(dead_code, reason = "the tests call `run` themselves")]
fn main() {
    let scale = |volumes, snapshots| Scale {
        volumes,
        snapshots,
        checkpoints: 50,
        writes: 5000,
    };
    run(&[scale(1, 0), scale(200, 0), scale(200, 50)]);
}
