//! The time of requests to a pool by stage.

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::{DiskConfig, Latency, Node, Sim, SimConfig};
use io::stage::{Spent, Stage, Trail};
use io::time::now;
use pool::format::Host;
use pool::vdev::{PoolSpec, create};
use pool::{NewVolume, Options, Pool};
use std::future::Future;
use std::time::Duration;

/// Time of each operation of the disk.
const DISK: Duration = Duration::from_micros(500);

/// Runs a request. Returns its result, its time by stage, and its time.
async fn timed<F: Future>(request: F) -> (F::Output, Spent, u64) {
    let began = now();
    let (result, trail) = Trail::begin(began).follow(request).await;
    let ended = now();
    (
        result,
        trail.end(ended),
        ended.since(began).as_nanos() as u64,
    )
}

#[test]
fn a_durable_write_waits_for_devices_and_flush_and_a_read_for_devices() {
    Sim::new(1, SimConfig::default()).block_on(async {
        let node = Node::new();
        let latency = Latency {
            base: DISK,
            jitter: Duration::ZERO,
            tail_chance: 0.0,
            tail: Duration::ZERO,
        };
        let config = DiskConfig {
            latency,
            read_latency: None,
            flush_latency: None,
            short: 0.0,
            ..DiskConfig::default()
        };
        node.create_disk("d0", config);
        let work = node.spawn(async {
            let disk = Disk::open("d0", DiskOptions::default()).await;
            let disk = disk.expect("the disk is there");
            let host = Host::new([1; 16], "here");
            let opened = create(PoolSpec::new("tank", vec![vec![disk]], host)).await;
            let options = Options {
                cache_bytes: 0,
                record_cache_bytes: 0,
                ..Options::default()
            };
            let pool = Pool::open(opened.expect("made"), options)
                .await
                .expect("open");
            let volume = pool.create_volume(NewVolume::new("one", 1 << 30)).await;
            let volume = volume.expect("a volume");
            let disk_ns = DISK.as_nanos() as u64;
            let mut data = io::pool().alloc(4096).await;
            data.fill(7);
            let (written, spent, all) = timed(volume.write_durable(Lba(0), data)).await;
            let _proof = written.expect("written");
            assert_eq!(spent.total(), all, "{spent:?}");
            assert!(
                spent.of(Stage::Device) >= disk_ns,
                "data and batch: {spent:?}"
            );
            assert!(spent.of(Stage::Flush) >= disk_ns, "{spent:?}");
            pool.checkpoint().await.expect("checkpoint");
            let at = Extent {
                start: Lba(0),
                blocks: 1,
            };
            let (read, spent, all) = timed(volume.read(at)).await;
            read.expect("read");
            assert_eq!(spent.total(), all, "{spent:?}");
            assert!(spent.of(Stage::Device) >= disk_ns, "{spent:?}");
            assert_eq!(spent.of(Stage::Device) + spent.of(Stage::Compute), all);
        });
        work.await.expect("the power stays on");
    });
}
