//! Counters of written bytes against the bytes that simulated disks got.

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use pool::format::Host;
use pool::vdev::{self, DATA_START, MemberCounters, OpenOptions, PoolSpec, create};
use pool::{NewVolume, Options, Pool, Volume};
use std::time::Duration;

const BLOCK: usize = 4096;
const MIB: usize = 1 << 20;

async fn disks() -> Vec<Disk> {
    let mut opened = Vec::new();
    for name in ["d0", "d1"] {
        let disk = Disk::open(name, DiskOptions::default()).await;
        opened.push(disk.expect("the disk is there"));
    }
    opened
}

fn host() -> Host {
    Host::new([1; 16], "here")
}

async fn new_pool() {
    let opened = create(PoolSpec::new("tank", vec![disks().await], host())).await;
    let pool = Pool::open(opened.expect("made"), Options::default()).await;
    let pool = pool.expect("open");
    for name in ["one", "two"] {
        let volume = pool.create_volume(NewVolume::new(name, 64 << 20)).await;
        drop(volume.expect("a volume"));
    }
    pool.close().await.expect("closed");
    settle().await;
}

async fn open_pool() -> Pool {
    let found = vdev::scan(disks().await).await.pools.pop();
    let opened = vdev::open(found.expect("a pool"), OpenOptions::new(host())).await;
    let options = Options {
        record_cache_bytes: 0,
        ..Options::default()
    };
    let pool = Pool::open(opened.expect("opened"), options).await;
    pool.expect("open")
}

async fn write(volume: &Volume, block: u64, bytes: usize, is_durable: bool) {
    let mut data = io::pool().alloc(bytes).await;
    for (n, chunk) in data.chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&(block * 7919 + n as u64 + 1).to_le_bytes());
    }
    match is_durable {
        true => drop(
            volume
                .write_durable(Lba(block), data)
                .await
                .expect("durable"),
        ),
        false => volume.write(Lba(block), data).await.expect("written"),
    }
}

fn counters(pool: &Pool) -> Vec<MemberCounters> {
    let status = pool.vdevs().status();
    let members = status.iter().flat_map(|vdev| &vdev.members);
    members.map(|member| member.counters).collect()
}

/// Waits until no write is in flight, and a closed pool has released its disks: a write in parts is counted at its beginning.
async fn settle() {
    io::time::sleep(Duration::from_secs(10)).await;
}

/// Runs on a machine with a mirror, whose disks sometimes write less than they were asked for.
fn on_mirror<F: Future<Output = ()> + 'static>(
    seed: u64,
    test: impl FnOnce([SimDisk; 2]) -> F + 'static,
) {
    Sim::new(seed, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let config = DiskConfig {
            size: 128 << 20,
            short: 0.2,
            ..DiskConfig::default()
        };
        let disks = ["d0", "d1"].map(|name| node.create_disk(name, config.clone()));
        node.spawn(test(disks)).await.expect("the power stays on");
    });
}

#[test]
fn the_classes_of_a_disk_add_up_to_the_bytes_that_it_got() {
    for seed in 0..4 {
        on_mirror(seed, |disks| async move {
            new_pool().await;
            let before = disks.map(SimDisk::written);
            let pool = open_pool().await;
            let one = pool.volume("one").expect("a volume");
            let two = pool.volume("two").expect("a volume");
            for n in 0..40 {
                write(&one, n * 31 % 1024, BLOCK, n % 3 == 0).await;
                write(&two, n * 64, 64 * BLOCK, n % 5 == 0).await;
            }
            pool.checkpoint().await.expect("a checkpoint");
            let zeroed = Extent {
                start: Lba(0),
                blocks: 512,
            };
            two.write_zeroes(zeroed, true).await.expect("zeroed");
            write(&one, 0, BLOCK, true).await;
            pool.checkpoint().await.expect("a checkpoint");
            settle().await;
            let counters = counters(&pool);
            for (n, disk) in disks.into_iter().enumerate() {
                let counted = counters[n].written;
                assert_eq!(counted.total(), disk.written() - before[n], "{counted:?}");
                let all = [counted.data, counted.journal, counted.nodes, counted.labels];
                assert!(all.iter().all(|bytes| *bytes > 0), "{counted:?}");
            }
            let writes = pool.writes();
            let of = |name: &str| writes.datasets[name];
            assert_eq!(of("one").client, 41 * BLOCK as u64);
            assert_eq!(of("two").client, 40 * 64 * BLOCK as u64);
            // no compression: each record takes the bytes of its client, at most once for each write
            assert!((40 * 64 * BLOCK as u64) >= of("two").data && of("two").data > 8 * MIB as u64);
            assert_eq!(of("one").data + of("two").data, writes.all.data);
            for (classes, pools) in [
                ([of("one").journal, of("two").journal], writes.all.journal),
                ([of("one").nodes, of("two").nodes], writes.all.nodes),
            ] {
                assert!(classes.iter().all(|bytes| *bytes > 0), "{writes:?}");
                assert!(classes.iter().sum::<u64>() < pools, "{writes:?}");
            }
            // both members got every block and batch once
            for member in &counters {
                let (once, member) = (writes.all, member.written);
                assert_eq!(
                    (once.data, once.journal, once.nodes),
                    (member.data, member.journal, member.nodes)
                );
            }
            drop((one, two));
            pool.close().await.expect("closed");
        });
    }
}

#[test]
fn repairs_are_a_class_of_their_own() {
    on_mirror(7, |disks| async move {
        new_pool().await;
        let pool = open_pool().await;
        let one = pool.volume("one").expect("a volume");
        for n in 0..64 {
            write(&one, n, BLOCK, false).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        drop(one);
        let first = pool.vdevs().table()[0].first_free.0;
        pool.close().await.expect("closed");
        settle().await;
        let before = disks.map(SimDisk::written);
        let pool = open_pool().await;
        let one = pool.volume("one").expect("a volume");
        disks[0].rot(DATA_START + first..DATA_START + first + 16 * MIB as u64);
        let all = Extent {
            start: Lba(0),
            blocks: 64,
        };
        for _ in 0..4 {
            let read = one.read(all).await.expect("the other member has it");
            assert_eq!(read.len(), 64 * BLOCK);
        }
        settle().await;
        let mut repaired = 0;
        for (n, member) in counters(&pool).iter().enumerate() {
            repaired += member.written.repair;
            let got = disks[n].written() - before[n];
            assert_eq!(member.written.total(), got, "{:?}", member.written);
        }
        assert!(repaired > 0, "nothing was repaired");
        assert_eq!(
            pool.writes().datasets["one"].client,
            0,
            "a read is no write"
        );
        drop(one);
        pool.close().await.expect("closed");
    });
}
