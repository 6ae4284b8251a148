//! Reads of replay: only data that no flush is known to cover, in large reads.

use pool::format::{
    Address, Birth, BlockPtr, Checksum, ChecksumKind, Compression, Incarnation, Key, Kind,
    ObjectId, Record, TreeId,
};
use pool::journal::{Replayed, Start, Store, Writer, replay};

use crate::journal::disk::{DATA_START, Mirror, SECTOR, at, now, ring};

const SEGMENTS: u64 = 4;
const SEGMENT_SIZE: u32 = 16 << 10;
/// Number of batches, and of blocks in each.
const BATCHES: u64 = 40;
const BLOCKS: u64 = 10;

fn block(place: Address) -> (BlockPtr, Vec<u8>) {
    let bytes = vec![place.offset.0 as u8 ^ 0x3c; SECTOR];
    let ptr = BlockPtr {
        vdev: place.vdev,
        offset: place.offset,
        logical_size: SECTOR as u32,
        physical_size: SECTOR as u32,
        compression: Compression::Off,
        checksum_kind: ChecksumKind::Xxh3,
        is_fragment: false,
        birth: Birth(1),
        placed: Birth(1),
        checksum: Checksum::of(ChecksumKind::Xxh3, place, &bytes),
    };
    (ptr, bytes)
}

fn start() -> Start {
    ring(SEGMENTS, SEGMENT_SIZE).start()
}

/// The sector of block `n`, if every `stride`th sector has a block. Later blocks are at lower addresses, as blocks of several
/// volumes may be.
fn sector_of(n: u64, stride: u64) -> u64 {
    let count = BATCHES * BLOCKS;
    (n * 7 % count) * stride
}

/// Writes [`BATCHES`] batches with [`BLOCKS`] blocks each. The first `flushed` batches were flushed before the next one was
/// sealed.
fn written(disk: &Mirror, stride: u64, flushed: u64) -> Vec<BlockPtr> {
    let mut writer = Writer::new(
        ring(SEGMENTS, SEGMENT_SIZE),
        start(),
        start(),
        Incarnation(1),
        Birth(1),
    );
    let mut ptrs = Vec::new();
    for batch in 0..BATCHES {
        let mut records = Vec::new();
        for n in 0..BLOCKS {
            let sector = sector_of(batch * BLOCKS + n, stride);
            let (ptr, bytes) = block(at(DATA_START + sector * SECTOR as u64));
            now(disk.write(ptr.address(), &bytes)).expect("a good disk");
            let key = Key::new(ObjectId(1), Kind(1), batch * BLOCKS + n);
            records.push(Record::PutFresh(TreeId(16), key, ptr.into()));
            ptrs.push(ptr);
        }
        writer.append(&records, 0).expect("room");
        let write = writer.next_write(true).expect("a batch");
        now(disk.write(write.at, &write.bytes)).expect("a good disk");
        writer.written(write.sequence);
        if batch + 1 == flushed {
            let flush = writer.begin_flush().expect("something to flush");
            writer.flushed(flush);
        }
    }
    ptrs
}

fn replayed(disk: &Mirror) -> Replayed {
    let ring = ring(SEGMENTS, SEGMENT_SIZE);
    now(replay(disk, &ring, start())).expect("nothing is rotten")
}

fn spoil(disk: &Mirror, member: usize, ptr: &BlockPtr) {
    disk.members.borrow_mut()[member][ptr.offset.0 as usize] ^= 1;
}

/// Regression: each block was read by itself on each member: 593,000 reads after six seconds of random writes.
#[test]
fn blocks_that_no_flush_covers_are_read_together() {
    for (members, stride) in [(1, 1), (2, 1), (2, 4)] {
        let disk = Mirror::new(members);
        written(&disk, stride, 0);
        assert_eq!(replayed(&disk).batches.len() as u64, BATCHES);
        let bytes = BATCHES * BLOCKS * stride * SECTOR as u64;
        let most = members as u64 * (bytes / (256 << 10) + 1);
        let reads = u64::from(disk.data_reads.get());
        assert!(
            reads <= most,
            "{reads} reads of {bytes} bytes on {members} members"
        );
    }
}

#[test]
fn blocks_that_a_flush_covers_are_not_read() {
    let disk = Mirror::new(2);
    let ptrs = written(&disk, 1, BATCHES - 1);
    // Known to have been flushed: scrub reads it, replay does not.
    spoil(&disk, 0, &ptrs[0]);
    assert_eq!(replayed(&disk).batches.len() as u64, BATCHES);
    assert!(disk.data_reads.get() <= BLOCKS as u32 * 2);
}

/// The journal ends before the first batch with a block that no member has, at any address. Before that, blocks that a member
/// lacks are rewritten, and nothing else.
#[test]
fn one_missing_block_among_others_ends_the_journal() {
    for (lost, stride) in [(0, 1), (17, 2), (BATCHES - 1, 3)] {
        let disk = Mirror::new(2);
        let ptrs = written(&disk, stride, 0);
        let of = |batch: u64, n: u64| &ptrs[(batch * BLOCKS + n) as usize];
        for member in 0..2 {
            spoil(&disk, member, of(lost, 3));
        }
        let mut lacking = 0;
        for batch in (0..lost).step_by(3) {
            spoil(&disk, (batch % 2) as usize, of(batch, 5));
            lacking += 1;
        }
        let before = disk.members.borrow().clone();
        let found = replayed(&disk);
        assert_eq!(
            (found.batches.len() as u64, found.repaired),
            (lost, lacking)
        );
        let again = replayed(&disk);
        assert_eq!((again.batches.len() as u64, again.repaired), (lost, 0));
        let after = disk.members.borrow();
        for (member, (before, after)) in before.iter().zip(after.iter()).enumerate() {
            let data = DATA_START as usize..before.len();
            let changed = data.filter(|i| before[*i] != after[*i]).count() as u64;
            let expected = (0..lost).step_by(3).filter(|b| b % 2 == member as u64);
            assert_eq!(
                changed,
                expected.count() as u64,
                "bytes written on member {member}"
            );
        }
    }
}

/// Returns whether a flush is due after 16 blocks that are not adjacent, if replay may cost 1 MiB.
fn is_flush_due(on_hard_disks: bool) -> bool {
    let ring = ring(SEGMENTS, SEGMENT_SIZE);
    let mut writer = Writer::new(ring, start(), start(), Incarnation(1), Birth(1));
    writer.limit_unproven(1 << 20);
    writer.count_seeks(on_hard_disks);
    let record = |n: u64| {
        let (ptr, _) = block(at(DATA_START + sector_of(n, 4) * SECTOR as u64));
        Record::PutFresh(TreeId(16), Key::new(ObjectId(1), Kind(1), n), ptr.into())
    };
    let records: Vec<Record> = (0..16).map(record).collect();
    writer.append(&records, 0).expect("room");
    writer.is_flush_due()
}

/// Regression: scattered writes were flushed after each 252 of them, on flash too.
#[test]
fn blocks_that_lie_apart_cost_seeks_on_hard_disks_alone() {
    assert!(is_flush_due(true));
    assert!(!is_flush_due(false));
}
