//! A pool on files whose file system is full.

use std::time::Duration;

use backend::{BlockBackend, Lba, StorageError};
use io::disk::{Disk, DiskKind, OpenOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use io::time::sleep;
use pool::format::VdevId;
use pool::vdev::{self, MemberState, PoolSpec, VdevSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

use crate::volume::{BLOCK, again, disk_config, host, pool_with_volume, read};

/// Message of a full file system.
const FULL: &str = "the file system below disk is full";
/// Most writes until a full file system is noticed.
const WRITES_MAX: u64 = 4096;

fn file_config() -> DiskConfig {
    DiskConfig {
        kind: DiskKind::File,
        ..disk_config()
    }
}

/// Runs on a machine with these files.
fn on_files<const N: usize, F: Future<Output = ()> + 'static>(
    names: [&'static str; N],
    test: impl FnOnce(Node, [SimDisk; N]) -> F + 'static,
) {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let disks = names.map(|name| node.create_disk(name, file_config()));
        test(node, disks).await;
    });
}

/// Fills the file system below a file.
fn fill(disk: SimDisk) {
    disk.set_space(Some(disk.used()));
}

async fn open_disk(name: &str) -> Disk {
    let disk = Disk::open(name, OpenOptions::default()).await;
    disk.expect("the disk is there")
}

async fn make(names: &[&str]) -> (Pool, Volume) {
    let mut members = Vec::new();
    for name in names {
        members.push(open_disk(name).await);
    }
    make_of(vec![members.into()]).await
}

async fn make_of(vdevs: Vec<VdevSpec>) -> (Pool, Volume) {
    let opened = create(PoolSpec::new("tank", vdevs, host())).await;
    let pool = Pool::open(opened.expect("a pool"), Options::default()).await;
    let pool = pool.expect("a pool");
    let volume = pool.create_volume(NewVolume::new("volume", 64 << 20)).await;
    (pool, volume.expect("a volume"))
}

async fn write(volume: &Volume, block: u64) -> Result<(), StorageError> {
    let mut data = io::pool().alloc(BLOCK).await;
    data.fill(content(block));
    volume.write_durable(Lba(block), data).await.map(drop)
}

fn content(block: u64) -> u8 {
    block as u8 | 1
}

/// Writes durably until a write fails. Returns the number of successful writes, and the error.
async fn write_until_full(volume: &Volume) -> (u64, StorageError) {
    for block in 0..WRITES_MAX {
        if let Err(error) = write(volume, block).await {
            return (block, error);
        }
    }
    panic!("nothing noticed that the file system is full");
}

async fn check(volume: &Volume, blocks: u64) {
    for block in 0..blocks {
        let bytes = read(volume, block, 1).await;
        assert_eq!(bytes, [content(block); BLOCK], "block {block}");
    }
}

fn states(pool: &Pool) -> Vec<MemberState> {
    let vdevs = pool.vdevs().status();
    let members = vdevs.iter().flat_map(|v| &v.members);
    members.map(|s| s.state).collect()
}

/// Regression: opening overwrites the next place of the journal, which had no space in the sparse file yet. After a kill the
/// pool did not open until the file system had space.
#[test]
fn a_pool_opens_though_the_file_system_below_is_full() {
    on_files(["disk"], |node, [disk]| async move {
        let work = node.spawn(async move {
            let (_pool, volume) = pool_with_volume().await;
            for block in 0..50 {
                write(&volume, block).await.expect("written");
            }
            fill(disk);
        });
        work.await.expect("it has power");
        for crash in 0..20 {
            match crash % 2 {
                0 => node.kill(),
                _ => {
                    node.power_cut();
                    node.power_on();
                }
            }
            let next = node.spawn(async move {
                // Requests of a killed process still hold the disk.
                sleep(Duration::from_secs(1)).await;
                let pool = again().await;
                let volume = pool.volume("volume").expect("it is there");
                check(&volume, 50).await;
                if crash == 19 {
                    disk.set_space(None);
                    write(&volume, 50).await.expect("there is space");
                    pool.close().await.expect("closed");
                }
            });
            next.await.expect("it has power");
        }
    });
}

/// Regression: writes failed permanently with "the device failed".
#[test]
fn a_full_file_system_is_named() {
    on_files(["disk"], |node, [disk]| async move {
        let work = node.spawn(async move {
            let (pool, volume) = pool_with_volume().await;
            fill(disk);
            let (written, error) = write_until_full(&volume).await;
            assert_eq!(error, StorageError::NoSpace);
            assert_eq!(states(&pool), [MemberState::Online]);
            let refused = pool.create_volume(NewVolume::new("other", 1 << 20)).await;
            let text = refused.map(drop).expect_err("refused").to_string();
            assert!(text.contains(FULL), "{text}");
            check(&volume, written).await;
            assert_eq!(volume.flush().await.map(drop), Err(StorageError::NoSpace));
            // Any time is possible.
            sleep(Duration::from_secs(600)).await;
            assert_eq!(write(&volume, 1).await, Err(StorageError::NoSpace));
            disk.set_space(None);
            sleep(Duration::from_secs(5)).await;
            write(&volume, written).await.expect("there is space");
            check(&volume, written + 1).await;
            pool.checkpoint().await.expect("a checkpoint");
            pool.close().await.expect("closed");
            drop(volume);
            // Tasks of the checkpoint still hold the disk.
            sleep(Duration::from_secs(1)).await;
            let pool = again().await;
            let volume = pool.volume("volume").expect("it is there");
            check(&volume, written + 1).await;
        });
        work.await.expect("it has power");
    });
}

/// Regression: a pool that lost its log while the file system below its other disks was full failed for good.
#[test]
fn a_log_is_lost_while_the_file_system_below_is_full() {
    on_files(["disk", "log"], |node, [disk, log]| async move {
        let work = node.spawn(async move {
            let vdevs = vec![
                VdevSpec::from(vec![open_disk("disk").await]),
                VdevSpec::log(vec![open_disk("log").await]),
            ];
            let (pool, volume) = make_of(vdevs).await;
            for block in 0..100 {
                write(&volume, block).await.expect("there is space");
            }
            fill(disk);
            log.kill();
            assert_eq!(write(&volume, 100).await, Err(StorageError::NoSpace));
            // Any time is possible.
            sleep(Duration::from_secs(600)).await;
            let trouble = pool.trouble().expect("it waits for space").to_string();
            assert!(trouble.contains(FULL), "{trouble}");
            assert_eq!(write(&volume, 101).await, Err(StorageError::NoSpace));
            check(&volume, 100).await;
            disk.set_space(None);
            sleep(Duration::from_secs(5)).await;
            for block in 100..200 {
                write(&volume, block).await.expect("there is space");
            }
            assert_eq!(pool.journal_vdevs(), [VdevId(0)]);
            assert_eq!(pool.lost_logs(), [VdevId(1)]);
        });
        work.await.expect("it has power");
        node.power_cut();
        node.power_on();
        let next = node.spawn(async move {
            let pool = again().await;
            let volume = pool.volume("volume").expect("it is there");
            check(&volume, 200).await;
            pool.close().await.expect("closed");
        });
        next.await.expect("it has power");
    });
}

/// A pool that closes while the file system is full reports why writes are not durable.
#[test]
fn closing_a_pool_on_a_full_file_system_reports_it() {
    on_files(["disk"], |node, [disk]| async move {
        let work = node.spawn(async move {
            let (pool, volume) = pool_with_volume().await;
            fill(disk);
            let (written, _) = write_until_full(&volume).await;
            let text = pool.close().await.expect_err("not all is durable");
            assert!(text.to_string().contains(FULL), "{text}");
            drop(volume);
            sleep(Duration::from_secs(2)).await;
            let pool = again().await;
            check(&pool.volume("volume").expect("it is there"), written).await;
        });
        work.await.expect("it has power");
    });
}

/// A member whose file system is full is not damaged: it is not faulted, and gets the missed blocks when there is space. If
/// both have no space, both stay.
#[test]
fn a_member_on_a_full_file_system_is_not_faulted() {
    on_files(["disk", "twin"], |node, [disk, twin]| async move {
        let work = node.spawn(async move {
            let (pool, volume) = make(&["disk", "twin"]).await;
            let both = [MemberState::Online; 2];
            disk.set_space(Some(disk.used() + (1 << 20)));
            twin.set_space(Some(twin.used() + (1 << 20)));
            let (written, error) = write_until_full(&volume).await;
            assert_eq!(error, StorageError::NoSpace);
            sleep(Duration::from_secs(600)).await;
            let online = states(&pool)
                .iter()
                .filter(|s| **s == MemberState::Online)
                .count();
            assert!(online > 0, "{:?}", states(&pool));
            disk.set_space(None);
            twin.set_space(None);
            sleep(Duration::from_secs(5)).await;
            pool.resilver(|_| {}).await.expect("resilvered");
            assert_eq!(states(&pool), both);
            // One of the two.
            fill(disk);
            for block in written..written + 100 {
                write(&volume, block).await.expect("the twin has space");
            }
            assert_eq!(states(&pool), [MemberState::Stale, MemberState::Online]);
            let missed = pool.resilver(|_| {}).await.expect_err("it has no space");
            assert!(missed.to_string().contains(FULL), "{missed}");
            assert_eq!(states(&pool), [MemberState::Stale, MemberState::Online]);
            disk.set_space(None);
            pool.resilver(|_| {}).await.expect("resilvered");
            assert_eq!(states(&pool), both);
            pool.close().await.expect("closed");
        });
        work.await.expect("it has power");
    });
}

/// Regression: a pool could be created, and a disk attached, where the next opening would have found no space.
#[test]
fn a_pool_is_not_created_where_it_could_not_be_opened() {
    on_files(["disk", "twin"], |node, [disk, twin]| async move {
        let work = node.spawn(async move {
            disk.set_space(Some(3 << 20));
            let spec = PoolSpec::new("tank", vec![vec![open_disk("disk").await]], host());
            let refused = create(spec).await.map(drop).expect_err("refused");
            assert!(refused.to_string().contains(FULL), "{refused}");
            let found = vdev::scan(vec![open_disk("disk").await]).await.pools;
            assert!(found.is_empty(), "something was written");
            disk.set_space(Some(9 << 20));
            let (pool, volume) = pool_with_volume().await;
            write(&volume, 0).await.expect("there is space");
            twin.set_space(Some(1 << 20));
            let vdevs = pool.vdevs();
            let attached = vdevs.attach(VdevId(0), open_disk("twin").await, false);
            let text = attached.await.expect_err("refused").to_string();
            assert!(text.contains("below twin is full"), "{text}");
            let added = pool.add_vdev(vec![open_disk("twin").await], false);
            twin.set_space(Some(1 << 18));
            let text = added.await.expect_err("refused").to_string();
            assert!(text.contains("below twin is full"), "{text}");
            assert_eq!(states(&pool), [MemberState::Online]);
            pool.close().await.expect("closed");
        });
        work.await.expect("it has power");
    });
}
