//! Volumes on simulated disks: regressions.

mod atomic;
mod balance;
mod cache;
mod cache_device;
mod full_journal;
mod gathering;
mod journaled;
mod large;
mod logbias;
mod order;
mod part_reads;
mod ranges;
mod records;
mod recovery;
mod resize;
mod space_below;
mod sync;
mod workers;

use std::time::Duration;

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions};
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig, SimDisk};
use pool::format::Host;
use pool::vdev::{self, PoolSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

const BLOCK: usize = 4096;

fn host() -> Host {
    Host::new([1; 16], "here")
}

fn disk_config() -> DiskConfig {
    DiskConfig {
        size: 128 << 20,
        ..DiskConfig::default()
    }
}

/// Runs on a machine with one disk.
fn on_disk<F: Future<Output = ()> + 'static>(test: impl FnOnce(SimDisk) -> F + 'static) {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let disk = node.create_disk("disk", disk_config());
        node.spawn(test(disk)).await.expect("the power stays on");
    });
}

async fn create_pool(options: Options) -> Pool {
    let disk = Disk::open("disk", OpenOptions::default()).await;
    let members = vec![vec![disk.expect("the disk is there")]];
    let spec = PoolSpec::new("tank", members, host());
    let opened = create(spec).await.expect("a pool");
    let pool = Pool::open(opened, options).await;
    pool.expect("a pool")
}

/// The disk of a pool that was closed. Operations of the pool may hold it for a moment.
async fn free_disk() -> Disk {
    loop {
        match Disk::open("disk", OpenOptions::default()).await {
            Err(io::Error::Busy(_)) => {
                io::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            opened => return opened.expect("the disk is there"),
        }
    }
}

/// Opens the pool again.
async fn again() -> Pool {
    again_with(Options::default()).await
}

/// The same, with these options.
async fn again_with(options: Options) -> Pool {
    let pool_options = options;
    let found = vdev::scan(vec![free_disk().await]).await.pools.pop();
    let options = vdev::OpenOptions::new(host());
    let opened = vdev::open(found.expect("a pool"), options).await;
    let pool = Pool::open(opened.expect("opened"), pool_options).await;
    pool.expect("a pool")
}

async fn pool_with_volume() -> (Pool, Volume) {
    let pool = create_pool(Options::default()).await;
    let volume = pool.create_volume(NewVolume::new("volume", 64 << 20)).await;
    (pool, volume.expect("a volume"))
}

async fn read(volume: &Volume, block: u64, blocks: u64) -> Vec<u8> {
    let at = Extent {
        start: Lba(block),
        blocks,
    };
    let payload = volume.read(at).await.expect("read");
    let mut bytes = vec![0; payload.len()];
    payload.copy_to(&mut bytes);
    bytes
}

/// Regression: while two flushes and further durable writes were waiting, the owner's timer for write-back fired with nothing
/// to write back, and the owner searched for work for ever.
#[test]
fn writing_back_has_an_end_while_durable_writes_wait_for_their_flush() {
    on_disk(|disk| async move {
        let (pool, volume) = pool_with_volume().await;
        disk.slow(Some(Latency {
            base: Duration::from_millis(700),
            ..Latency::default()
        }));
        let mut writes = Vec::new();
        for n in 0..20 {
            let volume = volume.clone();
            writes.push(io::spawn(async move {
                let mut data = io::pool().alloc(BLOCK).await;
                data.fill(n + 1);
                volume.write_durable(Lba(n.into()), data).await
            }));
            io::time::sleep(Duration::from_millis(150)).await;
        }
        for write in writes {
            let _durable = write.await.expect("written").expect("durable");
        }
        disk.slow(None);
        pool.close().await.expect("closed");
    });
}

#[test]
fn allocated_ranges_are_known_before_and_after_write_back() {
    on_disk(|_| async move {
        let (pool, volume) = pool_with_volume().await;
        let blocks = volume.geometry().blocks;
        let runs = async |start: u64, blocks: u64| {
            let at = Extent {
                start: Lba(start),
                blocks,
            };
            let runs = volume.runs(at).await.expect("told");
            runs.iter()
                .map(|r| (r.blocks, r.mapped))
                .collect::<Vec<_>>()
        };
        assert_eq!(runs(0, 100).await, [(100, false)]);
        for n in [3, 4, 9] {
            let mut data = io::pool().alloc(BLOCK).await;
            data.fill(7);
            volume.write(Lba(n), data).await.expect("written");
        }
        let expected = [(3, false), (2, true), (4, false), (1, true), (90, false)];
        assert_eq!(runs(0, 100).await, expected);
        pool.checkpoint().await.expect("a checkpoint");
        assert_eq!(runs(0, 100).await, expected);
        let gone = Extent {
            start: Lba(4),
            blocks: 1,
        };
        volume.write_zeroes(gone, true).await.expect("unmapped");
        assert_eq!(runs(3, 4).await, [(1, true), (3, false)]);
        assert_eq!(runs(9, 1).await, [(1, true)]);
        let told: u64 = runs(0, blocks).await.iter().map(|(n, _)| n).sum();
        assert!(0 < told && told <= blocks);
        let beyond = volume.runs(Extent {
            start: Lba(blocks),
            blocks: 1,
        });
        assert!(beyond.await.is_err());
        pool.close().await.expect("closed");
    });
}

/// Regression: closing a pool succeeded although records could not be written, if the checkpoint after them could.
#[test]
fn a_pool_that_closes_without_an_error_has_all_acknowledged_writes() {
    let mut outcomes = (0, 0);
    for seed in 0..60 {
        let closed = Sim::new(seed, SimConfig::default()).block_on(async move {
            let node = Node::new();
            let disk = node.create_disk("disk", disk_config());
            let life = async move {
                let (pool, volume) = pool_with_volume().await;
                for n in 0..4 {
                    let mut data = io::pool().alloc(BLOCK).await;
                    data.fill(n + 1);
                    volume.write(Lba(n.into()), data).await.expect("in memory");
                }
                disk.error_rates(0.0, 0.2, 0.2);
                let closed = pool.close().await.is_ok();
                drop(volume);
                disk.heal();
                // Operations of the failed write still hold the disk.
                io::time::sleep(Duration::from_secs(1)).await;
                if closed {
                    let pool = again().await;
                    let volume = pool.volume("volume").expect("there");
                    for n in 0..4 {
                        let block = read(&volume, n, 1).await;
                        assert_eq!(block, [n as u8 + 1; BLOCK], "seed {seed}, block {n}");
                    }
                    pool.close().await.expect("closed");
                }
                closed
            };
            node.spawn(life).await.expect("the power stays on")
        });
        match closed {
            true => outcomes.0 += 1,
            false => outcomes.1 += 1,
        }
    }
    assert!(outcomes.0 > 0 && outcomes.1 > 0, "{outcomes:?}");
}
