//! Cache devices: what enters, restarts, rot, devices that fail, and the write budget.

use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Latency, Node, SimDisk};
use pool::format::{DatasetProperty, Packing, Setting};
use pool::vdev::{self, DATA_START, PoolSpec, SetupError, cache_label, create};
use pool::{CacheFault, CacheStatus, NewVolume, Options, Pool, Volume};

use crate::volume::{BLOCK, again_with, create_pool, disk_config, host, on_disk, read};

/// Bytes of a segment of a small device, and of its table.
const SEGMENT: u64 = 512 << 10;
const TABLE: u64 = SEGMENT / 128;
const BLOCKS: u64 = 240;

/// Every read goes to a cache device or to the members.
fn options() -> Options {
    Options {
        record_cache_bytes: 0,
        ..Options::default()
    }
}

fn fast_disk(name: &str) -> SimDisk {
    Node::current().create_disk(name, disk_config())
}

async fn disk(name: &str) -> Disk {
    loop {
        match Disk::open(name, OpenOptions::default()).await {
            // an operation that was given up holds it for a moment
            Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
            opened => return opened.expect("the disk is there"),
        }
    }
}

fn status(pool: &Pool) -> CacheStatus {
    pool.caches().pop().expect("a cache device")
}

fn contents(block: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    Prng::new(block << 8 | version).fill(&mut bytes);
    bytes
}

async fn put(volume: &Volume, block: u64, version: u64) {
    let mut buf = io::pool().alloc(BLOCK).await;
    buf.copy_from_slice(&contents(block, version));
    volume.write(Lba(block), buf).await.expect("written");
}

async fn settle(pool: &Pool, volume: &Volume) {
    let _durable = volume.flush().await.expect("flushed");
    pool.checkpoint().await.expect("a checkpoint");
}

async fn is_right(volume: &Volume, block: u64, version: u64) {
    assert!(
        read(volume, block, 1).await == contents(block, version),
        "block {block}"
    );
}

async fn read_all(volume: &Volume, version: u64) {
    for block in 0..BLOCKS {
        is_right(volume, block, version).await;
    }
}

/// A pool with a cache device, whose volume has [`BLOCKS`] blocks that were not read yet.
async fn filled(options: Options) -> (Pool, Volume) {
    let pool = create_pool(options).await;
    let new = NewVolume {
        record_size: BLOCK as u32,
        compression: Packing::Off,
        ..NewVolume::new("vm", 16 << 20)
    };
    let volume = pool.create_volume(new).await.expect("a volume");
    for block in 0..BLOCKS {
        put(&volume, block, 0).await;
    }
    settle(&pool, &volume).await;
    pool.add_cache(disk("fast").await, false)
        .await
        .expect("added");
    (pool, volume)
}

/// The same, after a restart with the blocks on the device.
async fn warm() -> (Pool, Volume) {
    let (pool, volume) = filled(options()).await;
    for _ in 0..3 {
        read_all(&volume, 0).await;
    }
    drop(volume);
    pool.close().await.expect("closed");
    reopened(options()).await
}

async fn reopened(options: Options) -> (Pool, Volume) {
    // operations of a pool that was closed hold its disk for a moment
    drop(disk("disk").await);
    let pool = again_with(options).await;
    pool.open_cache(disk("fast").await).await.expect("opened");
    let volume = pool.volume("vm").expect("the volume");
    (pool, volume)
}

/// Reads of the only member.
fn member_reads(pool: &Pool) -> u64 {
    pool.vdevs().status()[0].members[0].counters.reads
}

#[test]
fn a_block_enters_at_its_second_read_and_survives_a_restart() {
    on_disk(|_| async {
        fast_disk("fast");
        let (pool, volume) = filled(options()).await;
        read_all(&volume, 0).await;
        let entered = status(&pool).counts.entered;
        assert!(
            entered < BLOCKS / 20,
            "{entered} blocks that were read once"
        );
        read_all(&volume, 0).await;
        let entered = status(&pool).counts.entered;
        assert!(entered > BLOCKS * 8 / 10, "{entered} of {BLOCKS} blocks");
        drop(volume);
        pool.close().await.expect("closed");
        let (pool, volume) = reopened(options()).await;
        assert_eq!(status(&pool).blocks, entered, "it is warm");
        let before = member_reads(&pool);
        read_all(&volume, 0).await;
        let counts = status(&pool).counts;
        assert!(counts.hits >= entered && counts.wrong == 0, "{counts:?}");
        let reads = member_reads(&pool) - before;
        assert!(reads < BLOCKS / 4, "{reads} reads of the member");
        assert_eq!(counts.hit_bytes, counts.hits * BLOCK as u64);
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// The contents of a block that was written again have another name.
#[test]
fn a_block_that_was_written_again_is_never_old() {
    on_disk(|_| async {
        fast_disk("fast");
        let (pool, volume) = warm().await;
        for version in 1..4 {
            for block in (0..BLOCKS).step_by(3) {
                put(&volume, block, version).await;
            }
            settle(&pool, &volume).await;
            for _ in 0..3 {
                for block in 0..BLOCKS {
                    let version = if block % 3 == 0 { version } else { 0 };
                    is_right(&volume, block, version).await;
                }
            }
        }
        assert!(status(&pool).counts.hits > 0);
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// After a rewind the device has blocks of a future that did not happen, and names of them may be given out again.
#[test]
fn a_rewind_finds_its_own_contents() {
    on_disk(|_| async {
        fast_disk("fast");
        let (pool, volume) = warm().await;
        let sequence = pool.sequence();
        for block in 0..BLOCKS {
            put(&volume, block, 1).await;
        }
        settle(&pool, &volume).await;
        for _ in 0..3 {
            read_all(&volume, 1).await;
        }
        drop(volume);
        pool.close().await.expect("closed");
        let found = vdev::scan(vec![disk("disk").await]).await.pools.pop();
        let mut at = vdev::OpenOptions::new(host());
        at.rewind = Some(sequence);
        let opened = vdev::open(found.expect("a pool"), at).await;
        let pool = Pool::open(opened.expect("opened"), options()).await;
        let pool = pool.expect("a pool");
        pool.open_cache(disk("fast").await).await.expect("opened");
        let volume = pool.volume("vm").expect("the volume");
        read_all(&volume, 0).await;
        assert!(status(&pool).counts.hits > BLOCKS / 2);
        for block in 0..BLOCKS {
            put(&volume, block, 2).await;
        }
        settle(&pool, &volume).await;
        for _ in 0..3 {
            read_all(&volume, 2).await;
        }
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// Rot on the device costs reads of the members, and nobody gets an error.
#[test]
fn a_rotten_block_is_a_miss() {
    on_disk(|_| async {
        let fast = fast_disk("fast");
        let (pool, volume) = warm().await;
        drop(volume);
        pool.close().await.expect("closed");
        fast.rot(DATA_START + TABLE..DATA_START + SEGMENT);
        let (pool, volume) = reopened(options()).await;
        read_all(&volume, 0).await;
        let wrong = status(&pool).counts.wrong;
        assert!(wrong > 40, "{wrong} blocks of a rotten segment");
        let blocks = status(&pool).blocks;
        read_all(&volume, 0).await;
        assert_eq!(status(&pool).counts.wrong, wrong, "a wrong block leaves");
        assert!(status(&pool).blocks >= blocks);
        let counters = pool.vdevs().status()[0].members[0].counters;
        assert_eq!((counters.repairs, counters.checksum_errors), (0, 0));
        drop(volume);
        pool.close().await.expect("closed");
        // with its tables
        fast.rot(DATA_START..DATA_START + 24 * SEGMENT);
        let (pool, volume) = reopened(options()).await;
        assert_eq!(status(&pool).blocks, 0);
        for _ in 0..3 {
            read_all(&volume, 0).await;
        }
        assert!(status(&pool).blocks > 0 && status(&pool).fault.is_none());
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// A device that does not answer delays one read by its limit, and is out.
#[test]
fn a_device_that_fails_is_out_and_reads_go_on() {
    type Break = fn(SimDisk);
    let hang: Break = |fast| {
        fast.slow(Some(Latency {
            base: Duration::from_secs(1000),
            ..Latency::default()
        }));
    };
    let breaks: [(Break, CacheFault); 3] = [
        (hang, CacheFault::Hung),
        (SimDisk::kill, CacheFault::Gone),
        (|fast| fast.fail_reads(0..fast.size()), CacheFault::Errors),
    ];
    for (break_it, fault) in breaks {
        on_disk(move |_| async move {
            let fast = fast_disk("fast");
            let (pool, volume) = warm().await;
            break_it(fast);
            let began = io::time::now();
            read_all(&volume, 0).await;
            assert!(began.elapsed() < Duration::from_secs(2), "{fault:?}");
            assert_eq!(status(&pool).fault, Some(fault));
            let hits = status(&pool).counts.hits;
            read_all(&volume, 0).await;
            assert_eq!(status(&pool).counts.hits, hits);
            let guid = status(&pool).guid;
            assert!(pool.remove_cache(guid).await.expect("removed").is_none());
            assert!(pool.caches().is_empty());
            drop(volume);
            pool.close().await.expect("closed");
        });
    }
}

/// The writes that fill a segment fail: the blocks come from the members.
#[test]
fn a_failed_write_takes_the_device_out() {
    on_disk(|_| async {
        let fast = fast_disk("fast");
        let (pool, volume) = filled(options()).await;
        fast.fail_writes(DATA_START..fast.size());
        for _ in 0..3 {
            read_all(&volume, 0).await;
        }
        assert_eq!(status(&pool).fault, Some(CacheFault::Errors));
        drop(volume);
        pool.close().await.expect("closed");
    });
}

#[test]
fn a_scan_does_not_enter() {
    on_disk(|_| async {
        fast_disk("fast");
        let (pool, volume) = warm().await;
        let before = status(&pool);
        for block in BLOCKS..4000 {
            put(&volume, block, 0).await;
        }
        settle(&pool, &volume).await;
        for block in BLOCKS..4000 {
            is_right(&volume, block, 0).await;
        }
        let entered = status(&pool).counts.entered - before.counts.entered;
        assert!(
            entered < 4000 / 50,
            "{entered} of 4000 blocks that were read once"
        );
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// A day has its budget, also over a restart.
#[test]
fn the_daily_budget_is_kept() {
    on_disk(|_| async {
        fast_disk("fast");
        let budget = Options {
            cache_daily_bytes: Some(SEGMENT + SEGMENT / 2),
            ..options()
        };
        let (mut pool, mut volume) = filled(budget).await;
        for _ in 0..2 {
            for _ in 0..4 {
                read_all(&volume, 0).await;
            }
            let now = status(&pool);
            assert!(now.counts.over_budget > 0, "{now:?}");
            assert!(now.counts.written <= SEGMENT && now.written_today <= now.daily);
            assert!(now.blocks + now.counts.entered > 0 && now.blocks <= SEGMENT / BLOCK as u64);
            drop(volume);
            pool.close().await.expect("closed");
            (pool, volume) = reopened(budget).await;
        }
        io::time::sleep(Duration::from_secs(25 * 3600)).await;
        assert_eq!(status(&pool).written_today, 0);
        for _ in 0..3 {
            read_all(&volume, 0).await;
        }
        assert!(status(&pool).counts.entered > 0);
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// Parts of long records are on the device as such.
#[test]
fn short_reads_of_long_records_come_from_the_device() {
    on_disk(|_| async {
        fast_disk("fast");
        let pool = create_pool(options()).await;
        let new = NewVolume {
            record_size: 128 << 10,
            compression: Packing::Off,
            ..NewVolume::new("vm", 16 << 20)
        };
        let volume = pool.create_volume(new).await.expect("a volume");
        let mut all = vec![0; 1 << 20];
        Prng::new(3).fill(&mut all);
        for (record, bytes) in all.chunks(128 << 10).enumerate() {
            let mut buf = io::pool().alloc(bytes.len()).await;
            buf.copy_from_slice(bytes);
            volume
                .write(Lba(record as u64 * 32), buf)
                .await
                .expect("written");
        }
        settle(&pool, &volume).await;
        pool.add_cache(disk("fast").await, false)
            .await
            .expect("added");
        let read_some = async |volume: &Volume| {
            for block in (0..255).step_by(3) {
                let at = block as usize * BLOCK;
                let found = read(volume, block, 2).await;
                assert!(
                    found == all[at..(at + 2 * BLOCK).min(all.len())],
                    "block {block}"
                );
            }
        };
        for _ in 0..2 {
            read_some(&volume).await;
        }
        drop(volume);
        pool.close().await.expect("closed");
        let (pool, volume) = reopened(options()).await;
        let before = member_reads(&pool);
        read_some(&volume).await;
        let reads = member_reads(&pool) - before;
        assert!(reads < 30, "{reads} reads of the member for 85 reads");
        assert!(status(&pool).counts.hits > 120);
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// Only a disk that is nobody's becomes a cache device, and a cache device becomes nothing else, unless forced.
#[test]
fn labels_keep_disks_apart() {
    on_disk(|_| async {
        fast_disk("fast");
        fast_disk("other");
        let small = DiskConfig {
            size: 2 << 20,
            ..disk_config()
        };
        Node::current().create_disk("small", small);
        let (pool, volume) = warm().await;
        let error = pool.open_cache(disk("other").await).await;
        assert!(
            matches!(error, Err(SetupError::NotCache { .. })),
            "{error:?}"
        );
        let error = pool.add_cache(disk("small").await, false).await;
        assert!(
            matches!(error, Err(SetupError::CacheTooSmall { .. })),
            "{error:?}"
        );
        let others = PoolSpec::new("home", vec![vec![disk("other").await]], host());
        drop(create(others).await.expect("a pool"));
        let error = pool.add_cache(disk("other").await, false).await;
        assert!(matches!(error, Err(SetupError::InUse { .. })), "{error:?}");
        drop(volume);
        pool.close().await.expect("closed");
        let fast = disk("fast").await;
        let label = cache_label(&fast).await.expect("its label");
        assert_eq!(label.name, "tank");
        let scan = vdev::scan(vec![fast.clone()]).await;
        assert_eq!(scan.caches[0].label, label);
        assert!(scan.pools.is_empty() && scan.unread.is_empty());
        let taken = |force| {
            let mut spec = PoolSpec::new("new", vec![vec![fast.clone()]], host());
            spec.force = force;
            create(spec)
        };
        let error = taken(false).await.err();
        assert!(
            matches!(error, Some(SetupError::IsCache { .. })),
            "{error:?}"
        );
        let opened = taken(true).await.expect("forced");
        assert!(cache_label(&fast).await.is_none());
        drop(opened);
    });
}

#[test]
fn a_device_is_removed_while_clients_read() {
    on_disk(|_| async {
        fast_disk("fast");
        let (pool, volume) = warm().await;
        let guid = status(&pool).guid;
        let reader = io::spawn(async move {
            for _ in 0..4 {
                read_all(&volume, 0).await;
            }
        });
        io::yield_now().await;
        let removed = pool.remove_cache(guid).await.expect("removed");
        assert!(cache_label(&removed.expect("its disk")).await.is_none());
        assert!(pool.caches().is_empty());
        reader.await.expect("read");
        let error = pool.open_cache(disk("fast").await).await;
        assert!(
            matches!(error, Err(SetupError::NotCache { .. })),
            "{error:?}"
        );
        pool.close().await.expect("closed");
    });
}

/// `secondarycache` keeps records, or records and nodes, off the devices; `primarycache` keeps records out of memory.
#[test]
fn properties_keep_records_out_of_caches() {
    on_disk(|_| async {
        fast_disk("fast");
        let in_memory = Options {
            record_cache_bytes: 4 << 20,
            ..options()
        };
        let (pool, volume) = filled(in_memory).await;
        let set = async |property: DatasetProperty, text: &str| {
            let setting = Setting {
                value: property.parse(text).expect("a value"),
                is_received: false,
            };
            let set = pool.set_own(Some("vm"), property, Some(setting));
            set.await.expect("set");
        };
        set(DatasetProperty::Primarycache, "metadata").await;
        for off in ["metadata", "none"] {
            set(DatasetProperty::Secondarycache, off).await;
            for _ in 0..3 {
                read_all(&volume, 0).await;
            }
            assert_eq!(status(&pool).counts.entered, 0, "{off}");
        }
        assert_eq!(pool.record_cache().inserts, 0);
        set(DatasetProperty::Secondarycache, "all").await;
        for _ in 0..3 {
            read_all(&volume, 0).await;
        }
        assert!(status(&pool).counts.entered > BLOCKS / 2);
        set(DatasetProperty::Primarycache, "all").await;
        read_all(&volume, 0).await;
        assert!(pool.record_cache().inserts > BLOCKS / 2);
        drop(volume);
        pool.close().await.expect("closed");
    });
}
