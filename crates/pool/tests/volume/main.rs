//! A volume on simulated disks, where it once went wrong.

mod cache;
mod records;
mod sync;

use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions};
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig, SimDisk};
use pool::format::Host;
use pool::vdev::{PoolSpec, create};
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
    let sides = vec![vec![disk.expect("the disk is there")]];
    let spec = PoolSpec::new("tank", sides, host());
    let opened = create(spec).await.expect("a pool");
    let pool = Pool::open(opened, options).await;
    pool.expect("a pool")
}

async fn pool_with_volume() -> (Pool, Volume) {
    let pool = create_pool(Options::default()).await;
    let volume = pool.create_volume(NewVolume::new("volume", 64 << 20)).await;
    (pool, volume.expect("a volume"))
}

/// Two flushes were waited for and more durable writes had come when the time for writing back what nobody waits for
/// came too: of that there was none, and the owner looked for it for ever.
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
