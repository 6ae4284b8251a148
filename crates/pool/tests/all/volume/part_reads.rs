//! Short reads of long records: the parts that they need, verified, and nothing else.

use std::time::Duration;

use backend::{BlockBackend, Extent, Lba};
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use pool::format::{Block, Packing};
use pool::vdev::{self, DATA_START, Layout, MemberCounters, PoolSpec, VdevSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

use crate::blocks::{byte, sound, write};
use crate::volume::order::blocks_on;
use crate::volume::{BLOCK, again, create_pool, disk_config, free_disk, host, on_disk, read};

const RECORD: usize = 128 << 10;

async fn volume(pool: &Pool, record_size: usize) -> Volume {
    let new = NewVolume {
        record_size: record_size as u32,
        compression: Packing::Off,
        ..NewVolume::new("vm", 16 << 20)
    };
    pool.create_volume(new).await.expect("a volume")
}

/// Writes one record of random bytes in one request, durably.
async fn put_record(pool: &Pool) -> Vec<u8> {
    let volume = volume(pool, RECORD).await;
    let mut buf = io::pool().alloc(RECORD).await;
    Prng::new(7).fill(&mut buf);
    let contents = buf.to_vec();
    volume.write(Lba(0), buf).await.expect("written");
    let _durable = volume.flush().await.expect("flushed");
    contents
}

async fn filled(pool: &Pool) -> Vec<u8> {
    let contents = put_record(pool).await;
    pool.checkpoint().await.expect("a checkpoint");
    contents
}

fn opened(pool: &Pool) -> Volume {
    pool.volume("vm").expect("the volume")
}

fn counters(pool: &Pool) -> Vec<MemberCounters> {
    let members = pool.vdevs().status().remove(0).members;
    members.into_iter().map(|member| member.counters).collect()
}

fn read_bytes(pool: &Pool) -> u64 {
    counters(pool).iter().map(|c| c.read_bytes).sum()
}

/// The bytes of these blocks, and the bytes that the disks read for them. The leaf is in memory.
async fn cost(pool: &Pool, block: u64, blocks: u64) -> (Vec<u8>, u64) {
    let before = read_bytes(pool);
    let bytes = read(&opened(pool), block, blocks).await;
    (bytes, read_bytes(pool) - before)
}

/// One block, or two, or a read across the ends of parts; a read that continues another one gets the whole record.
#[test]
fn a_short_read_reads_its_parts() {
    on_disk(|_| async {
        let pool = create_pool(Options::default()).await;
        let contents = filled(&pool).await;
        let _leaf = read(&opened(&pool), 31, 1).await;
        for (block, blocks, wanted) in [
            (3, 1, BLOCK),
            (3, 1, 0),
            (7, 2, 2 * BLOCK),
            (8, 1, 0),
            (20, 8, 8 * BLOCK),
            (28, 1, RECORD),
            (11, 1, 0),
        ] {
            let (bytes, cost) = cost(&pool, block, blocks).await;
            let from = block as usize * BLOCK;
            assert!(bytes == contents[from..from + bytes.len()], "block {block}");
            assert_eq!(cost, wanted as u64, "{blocks} blocks from {block} on");
        }
        pool.close().await.expect("closed");
    });
}

/// Rot in another part is not the reader's: on the only disk, a block of a damaged record is read as long as its part is right.
#[test]
fn rot_in_one_part_leaves_the_others_readable() {
    on_disk(|disk| async move {
        let pool = create_pool(Options::default()).await;
        let contents = filled(&pool).await;
        pool.close().await.expect("closed");
        let at = DATA_START + blocks_on(&["disk"]).await[0].ptr().offset.0;
        let rotten = at + 5 * BLOCK as u64;
        disk.rot(rotten..rotten + BLOCK as u64);
        let pool = again().await;
        let volume = opened(&pool);
        assert!(read(&volume, 2, 1).await == contents[2 * BLOCK..3 * BLOCK]);
        let damaged = Extent {
            start: Lba(5),
            blocks: 1,
        };
        assert!(
            volume.read(damaged).await.is_err(),
            "no part is returned unverified"
        );
        assert!(read(&volume, 9, 1).await == contents[9 * BLOCK..10 * BLOCK]);
        drop(volume);
        pool.close().await.expect("closed");
    });
}

/// Records of a pool without the feature are read whole, also after the pool got it.
#[test]
fn records_of_older_pools_are_read_whole() {
    on_disk(|_| async {
        let options = Options {
            record_parts: false,
            ..Options::default()
        };
        let pool = create_pool(options).await;
        let contents = filled(&pool).await;
        pool.close().await.expect("closed");
        let pool = again().await;
        let before = read_bytes(&pool);
        assert!(read(&opened(&pool), 3, 1).await == contents[3 * BLOCK..4 * BLOCK]);
        assert!(read_bytes(&pool) - before >= RECORD as u64);
        pool.close().await.expect("closed");
    });
}

const DISKS: [&str; 4] = ["d0", "d1", "d2", "d3"];

fn make_disks(count: usize) -> Vec<SimDisk> {
    let config = DiskConfig {
        logical_block: 4096,
        physical_block: 4096,
        atomic_unit: 4096,
        ..disk_config()
    };
    let paths = DISKS[..count].iter();
    let disks = paths.map(|path| Node::current().create_disk(*path, config.clone()));
    disks.collect()
}

async fn open_disks(count: usize) -> Vec<Disk> {
    let mut disks = Vec::new();
    for path in &DISKS[..count] {
        let disk = Disk::open(*path, OpenOptions::default()).await;
        disks.push(disk.expect("the disk is there"));
    }
    disks
}

async fn create_on(count: usize, layout: Layout) -> Pool {
    let members = open_disks(count).await;
    let spec = PoolSpec::new("tank", vec![VdevSpec::new(layout, members)], host());
    let opened = create(spec).await.expect("a pool");
    let pool = Pool::open(opened, Options::default()).await;
    pool.expect("a pool")
}

async fn open_on(count: usize) -> Pool {
    let found = vdev::scan(open_disks(count).await).await.pools.pop();
    let options = vdev::OpenOptions::new(host());
    let opened = vdev::open(found.expect("a pool"), options).await;
    let pool = Pool::open(opened.expect("opened"), Options::default()).await;
    pool.expect("a pool")
}

fn on_machine<F: Future<Output = ()> + 'static>(test: impl FnOnce() -> F + 'static) {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let test = node.spawn(async move { test().await });
        test.await.expect("the power stays on");
    });
}

/// The member that reads a part which is not cached.
async fn reader_of(pool: &Pool, contents: &[u8], block: usize) -> usize {
    let before = counters(pool);
    right(pool, contents, block).await;
    let after = counters(pool);
    let mut grown = before
        .iter()
        .zip(&after)
        .map(|(b, a)| a.read_bytes - b.read_bytes);
    let member = grown.position(|bytes| bytes == BLOCK as u64);
    member.expect("one member read one part")
}

async fn right(pool: &Pool, contents: &[u8], block: usize) {
    let from = block * BLOCK;
    let bytes = read(&opened(pool), block as u64, 1).await;
    assert!(bytes == contents[from..from + BLOCK], "block {block}");
}

fn part_at(block: &Block, number: usize) -> std::ops::Range<u64> {
    let from = DATA_START + block.ptr().offset.0 + (number * BLOCK) as u64;
    from..from + BLOCK as u64
}

/// A wrong part is read from the other member and repaired, though neither member has the whole record. Rot in parts that nobody reads
/// changes nothing.
#[test]
fn a_wrong_part_is_repaired_from_another_member() {
    on_machine(|| async {
        let disks = make_disks(2);
        let pool = create_on(2, Layout::Mirror).await;
        let contents = filled(&pool).await;
        pool.close().await.expect("closed");
        let block = blocks_on(&DISKS[..2]).await.remove(0);
        assert!(block.has_parts());
        let pool = open_on(2).await;
        right(&pool, &contents, 1).await;
        let member = reader_of(&pool, &contents, 3).await;
        let other = 1 - member;
        for number in [5, 12] {
            disks[member].rot(part_at(&block, number));
        }
        disks[other].rot(part_at(&block, 20));
        right(&pool, &contents, 10).await;
        right(&pool, &contents, 20).await;
        let repairs = |pool: &Pool| counters(pool).iter().map(|c| c.repairs).sum::<u64>();
        assert_eq!(repairs(&pool), 0);
        let before = counters(&pool);
        right(&pool, &contents, 5).await;
        let after = counters(&pool);
        assert_eq!(after[member].checksum_errors, 1);
        assert_eq!(after[member].repairs, 1);
        assert_eq!(after[other].checksum_errors, 0);
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(after.read_bytes - before.read_bytes, BLOCK as u64);
        }
        // a member that cannot be read is no other case
        disks[member].fail_reads(part_at(&block, 12));
        right(&pool, &contents, 12).await;
        disks[member].heal();
        let whole = read(&opened(&pool), 0, 32).await;
        assert!(whole == contents, "the repairs made the record whole");
        pool.scrub(|_| ()).await.expect("scrubbed");
        pool.close().await.expect("closed");
    });
}

/// A part of a record on a raidz is one unit of one member. A wrong or unreadable one is reconstructed and rewritten.
#[test]
fn a_raidz_reads_the_units_of_a_part() {
    on_machine(|| async {
        let disks = make_disks(4);
        let pool = create_on(4, Layout::Raidz { parity: 1 }).await;
        let contents = filled(&pool).await;
        right(&pool, &contents, 31).await;
        let mut members = Vec::new();
        for number in (22..30).rev() {
            members.push(reader_of(&pool, &contents, number).await);
        }
        members.sort_unstable();
        members.dedup();
        assert!(members.len() >= 3, "all columns are read: {members:?}");
        disks[0].rot(DATA_START..128 << 20);
        for number in (10..20).rev() {
            right(&pool, &contents, number).await;
        }
        let found = counters(&pool);
        assert!(found[0].repairs > 0, "{found:?}");
        assert!(found[1..].iter().all(|c| c.repairs == 0), "{found:?}");
        disks[1].fail_reads(DATA_START..128 << 20);
        for number in (0..10).rev() {
            right(&pool, &contents, number).await;
        }
        disks[1].heal();
        pool.close().await.expect("closed");
    });
}

/// A record that only the journal has keeps the checksums of its parts.
#[test]
fn replay_keeps_the_checksums_of_parts() {
    Sim::new(1, SimConfig::default()).block_on(async move {
        let node = Node::new();
        node.create_disk("disk", disk_config());
        let first = node.spawn(async {
            let pool = create_pool(Options::default()).await;
            let contents = put_record(&pool).await;
            Box::leak(Box::new(pool));
            contents
        });
        let contents = first.await.expect("the power stays on");
        node.power_cut();
        node.power_on();
        let second = node.spawn(async move {
            let pool = again().await;
            right(&pool, &contents, 30).await;
            for number in [3, 9] {
                let (bytes, cost) = cost(&pool, number, 1).await;
                let from = number as usize * BLOCK;
                assert!(bytes == contents[from..from + BLOCK]);
                assert_eq!(cost, BLOCK as u64);
            }
            pool.close().await.expect("closed");
            assert!(blocks_on(&["disk"]).await[0].has_parts());
        });
        second.await.expect("the power stays on");
    });
}

/// A moved record has checksums of its parts, for its new address.
#[test]
fn moved_records_keep_checksums_of_parts() {
    on_disk(|_| async move {
        let pool = create_pool(Options::default()).await;
        let volume = volume(&pool, 16 << 10).await;
        for n in 0..256 {
            let at = n * 101 % 256 * 4;
            write(&volume, at, 4, byte(at)).await.expect("written");
            if n % 8 == 7 {
                let _durable = volume.flush().await.expect("flushed");
            }
        }
        pool.checkpoint().await.expect("a checkpoint");
        for at in (0..1024).step_by(32) {
            read(&volume, at, 32).await;
        }
        while pool.order_moves().waiting > 0 || pool.order_moves().is_moving {
            io::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(pool.order_moves().moved > 1 << 20);
        sound(&pool).await;
        drop(volume);
        pool.close().await.expect("closed");
        let blocks = blocks_on(&["disk"]).await;
        assert_eq!(blocks.len(), 256);
        assert!(blocks.iter().all(Block::has_parts));
        let pool = again().await;
        // all leaves
        for at in (2..1024).step_by(32) {
            read(&opened(&pool), at, 1).await;
        }
        for at in (4..1024).step_by(44) {
            let (bytes, cost) = cost(&pool, at, 1).await;
            assert!(bytes == [byte(at / 4 * 4); BLOCK]);
            assert_eq!(cost, BLOCK as u64, "block {at}");
        }
        pool.close().await.expect("closed");
    });
}

/// The bytes of another record, or of another part, at the place of a record are not returned: as after a misdirected write.
#[test]
fn bytes_of_another_place_are_not_returned() {
    on_disk(|_| async {
        let pool = create_pool(Options::default()).await;
        let first = put_record(&pool).await;
        let mut buf = io::pool().alloc(RECORD).await;
        Prng::new(8).fill(&mut buf);
        let second = buf.to_vec();
        let written = opened(&pool).write(Lba(32), buf).await;
        written.expect("written");
        pool.close().await.expect("closed");
        let blocks = blocks_on(&["disk"]).await;
        let places = [0, 1].map(|n| DATA_START + blocks[n].ptr().offset.0);
        let part = (BLOCK * 5) as u64;
        let disk = free_disk().await;
        for (bytes, at) in [
            (&second[..], places[0]),
            (&second[..BLOCK], places[1] + part),
        ] {
            let mut buf = io::pool().alloc(bytes.len()).await;
            buf.copy_from_slice(bytes);
            disk.write(buf, at).await.expect("written");
        }
        drop(disk);
        let pool = again().await;
        let volume = opened(&pool);
        let wrong = async |block, blocks| {
            let start = Lba(block);
            let read = volume.read(Extent { start, blocks }).await;
            assert!(read.is_err(), "{blocks} blocks from {block} on");
        };
        for (block, blocks) in [(3, 1), (0, 32), (37, 1), (32, 32)] {
            wrong(block, blocks).await;
        }
        assert!(read(&volume, 32, 1).await == second[..BLOCK]);
        // the right bytes at the right place are right again
        drop(volume);
        pool.close().await.expect("closed");
        let disk = free_disk().await;
        let mut buf = io::pool().alloc(RECORD).await;
        buf.copy_from_slice(&first);
        disk.write(buf, places[0]).await.expect("written");
        drop(disk);
        let pool = again().await;
        assert!(read(&opened(&pool), 0, 32).await == first);
        pool.close().await.expect("closed");
    });
}

/// Requests at random are short, and those of a sequence are not; an append to a file is no overwrite.
#[test]
fn short_requests_are_counted_and_sequences_are_not() {
    on_disk(|_| async {
        let pool = create_pool(Options::default()).await;
        let volume = volume(&pool, RECORD).await;
        let accesses = || pool.accesses()["vm"].1;
        for block in 0..64 {
            write(&volume, block, 1, 1).await.expect("written");
        }
        let written = accesses();
        assert_eq!((written.writes, written.short_overwrites), (64, 1));
        for block in [77, 5, 99, 41] {
            write(&volume, block, 1, 2).await.expect("written");
        }
        let written = accesses();
        assert_eq!((written.writes, written.short_overwrites), (68, 5));
        assert_eq!(written.short_overwrite_bytes, 5 * BLOCK as u64);
        drop(volume);
        pool.close().await.expect("closed");

        let pool = again().await;
        let accesses = || pool.accesses()["vm"];
        let volume = opened(&pool);
        for block in 0..32 {
            read(&volume, block, 1).await;
        }
        let (record_size, in_turn) = accesses();
        assert_eq!(record_size as usize, RECORD);
        // the second read continues the first one, and reads the whole record
        assert_eq!(in_turn.reads, 32);
        assert!(in_turn.short_reads <= 2, "{in_turn:?}");
        read(&volume, 45, 1).await;
        read(&volume, 99, 1).await;
        let at_random = accesses().1;
        assert_eq!(at_random.short_reads, in_turn.short_reads + 2);
        pool.close().await.expect("closed");
    });
}
