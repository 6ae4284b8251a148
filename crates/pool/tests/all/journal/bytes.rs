//! Golden bytes of the journal; all other bytes are refused.

use pool::format::{
    BATCH_HEADER_SIZE, BLOCK_PTR_SIZE, Batch, BatchHeader, Birth, Block, BlockPtr, Checksum,
    ChecksumKind, Compression, Defect, Incarnation, Key, Kind, ObjectId, Record, Sequence, TreeId,
    Value, decode_segment, encode_segment,
};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::journal::disk::{POOL, SECTOR, at};

fn header() -> BatchHeader {
    BatchHeader {
        pool: POOL,
        sequence: Sequence(0x0a09),
        epoch: Birth(5),
        incarnation: Incarnation(6),
        durable_up_to: Sequence(0x0a08),
        previous: Checksum(*b"0123456789abcdef"),
    }
}

fn key(offset: u64) -> Key {
    Key::new(ObjectId(1), Kind(2), offset)
}

fn records() -> Vec<Record> {
    vec![
        Record::Put(TreeId(7), key(3), Value::Inline((*b"hello").into())),
        Record::Delete(TreeId(7), key(4)),
        Record::DeleteRange(TreeId(7), key(5)..Key::END),
        Record::Freeze(TreeId(7), Birth(9)),
        Record::State((*b"state").into()),
    ]
}

fn batch() -> Vec<u8> {
    let mut encoded = Vec::new();
    records().iter().for_each(|r| r.encode(&mut encoded));
    Batch::encode(&header(), 5, &encoded, at(0x1000), SECTOR).0
}

#[test]
fn golden_batch() {
    let mut want = Vec::new();
    want.extend(b"WPjb\x01\0\0\0");
    want.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    want.extend([9, 10, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    want.extend([6, 0, 0, 0, 0, 0, 0, 0, 8, 10, 0, 0, 0, 0, 0, 0]);
    want.extend(b"0123456789abcdef");
    want.extend([
        96 + 37 + 32 + 48 + 24 + 13,
        0,
        0,
        0,
        5,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    let key = |n| [0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, n];
    let tree = [7, 0, 0, 0, 0, 0, 0, 0];
    want.extend([2, 0, 0, 0, 29, 0, 0, 0]);
    want.extend(tree.iter().chain(&key(3)).chain(b"hello"));
    want.extend([3, 0, 0, 0, 24, 0, 0, 0]);
    want.extend(tree.iter().chain(&key(4)));
    want.extend([4, 0, 0, 0, 40, 0, 0, 0]);
    want.extend(tree.iter().chain(&key(5)).chain(&[0xff; 16]));
    want.extend([5, 0, 0, 0, 16, 0, 0, 0]);
    want.extend(tree.iter().chain(&[9, 0, 0, 0, 0, 0, 0, 0]));
    want.extend([6, 0, 0, 0, 5, 0, 0, 0]);
    want.extend(b"state");
    want.resize(SECTOR - 16, 0);
    let seed = (3 << 48) | (0x1000 / 512);
    let checksum = xxh3_128_with_seed(&want, seed).to_le_bytes();
    want.splice(80..80, checksum);
    assert_eq!(batch(), want);
    let decoded = Batch::decode(&want, at(0x1000), POOL, SECTOR).expect("sound");
    assert_eq!((decoded.header, decoded.records), (header(), records()));
    assert_eq!(BATCH_HEADER_SIZE, 96);
}

#[test]
fn no_flipped_byte_and_no_other_place_decodes() {
    let good = batch();
    let segment = encode_segment(POOL, 9, at(0), SECTOR);
    assert_eq!(decode_segment(&segment, at(0), POOL), Ok(9));
    for index in 0..SECTOR {
        for flip in [1, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[index] ^= flip;
            assert!(
                Batch::decode(&bytes, at(0x1000), POOL, SECTOR).is_err(),
                "{index}"
            );
            let mut bytes = segment.clone();
            bytes[index] ^= flip;
            assert!(decode_segment(&bytes, at(0), POOL).is_err(), "{index}");
        }
    }
    let elsewhere = Batch::decode(&good, at(0x1200), POOL, SECTOR);
    assert_eq!(elsewhere, Err(Defect::Checksum));
    assert!(decode_segment(&segment, at(512), POOL).is_err());
    for len in 0..SECTOR {
        assert!(Batch::decode(&good[..len], at(0x1000), POOL, SECTOR).is_err());
        assert!(decode_segment(&segment[..len], at(0), POOL).is_err());
    }
}

#[test]
fn a_record_that_is_not_known_is_refused_though_its_checksum_is_right() {
    let mut encoded = Vec::new();
    Record::Freeze(TreeId(7), Birth(9)).encode(&mut encoded);
    for (index, byte) in [
        (0, 0),
        (0, 7),
        (0, 8),
        (1, 1),
        (2, 1),
        (4, 15),
        (4, 17),
        (7, 0xff),
    ] {
        let mut wrong = encoded.clone();
        wrong[index] = byte;
        let (bytes, _) = Batch::encode(&header(), 1, &wrong, at(0), SECTOR);
        let decoded = Batch::decode(&bytes, at(0), POOL, SECTOR);
        assert!(matches!(decoded, Err(Defect::Value { .. })), "{decoded:?}");
    }
    let (bytes, _) = Batch::encode(&header(), 2, &encoded, at(0), SECTOR);
    assert!(Batch::decode(&bytes, at(0), POOL, SECTOR).is_err());
}

/// A block of 17 KiB, in parts of 4 KiB.
fn in_parts() -> Block {
    let bytes: Vec<u8> = (0..17 << 10).map(|n| (n / 1000) as u8).collect();
    let plain = (Compression::Off, bytes.len());
    let ptr = BlockPtr::to(at(0x8000), &bytes, plain, ChecksumKind::Xxh3, Birth(5));
    Block::in_parts(ptr, &bytes)
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut encoded = Vec::new();
    record.encode(&mut encoded);
    assert_eq!(encoded.len(), record.size());
    encoded
}

fn decoded(record: &[u8]) -> Result<Vec<Record>, Defect> {
    let (bytes, _) = Batch::encode(&header(), 1, record, at(0), SECTOR);
    Batch::decode(&bytes, at(0), POOL, SECTOR).map(|batch| batch.records)
}

/// Kind 7: tree, key, pointer, and 8 bytes for each part; kind 1 for a block without parts.
#[test]
fn a_block_with_checksums_of_parts_has_a_kind_of_its_own() {
    let block = in_parts();
    assert_eq!(block.sums().len(), 5 * 8);
    for (record, flags) in [
        (
            Record::Put(TreeId(7), key(3), Value::Block(block.clone())),
            0,
        ),
        (Record::PutFresh(TreeId(7), key(3), block.clone()), 1),
    ] {
        let mut want = vec![
            7,
            flags,
            0,
            0,
            24 + 48 + 40,
            0,
            0,
            0,
            7,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
        ];
        want.extend([0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 3]);
        want.extend(block.ptr().encode());
        want.extend(block.sums());
        assert_eq!(encoded(&record), want);
        assert_eq!(decoded(&want), Ok(vec![record]));
    }
    let plain = Record::PutFresh(TreeId(7), key(3), (*block.ptr()).into());
    assert_eq!(encoded(&plain)[..2], [1, 1]);
    assert_eq!(decoded(&encoded(&plain)), Ok(vec![plain]));
}

#[test]
fn a_block_with_other_checksums_of_parts_than_it_may_have_is_refused() {
    let good = encoded(&Record::PutFresh(TreeId(7), key(3), in_parts()));
    let pointer = 8 + 24;
    // too few, too many, none, no pointer
    for len in [
        good.len() - 8,
        good.len() + 8,
        pointer + BLOCK_PTR_SIZE,
        pointer + 40,
        pointer,
    ] {
        let mut wrong = good.clone();
        wrong.resize(len, 0);
        wrong[4] = (len - 8) as u8;
        assert!(decoded(&wrong).is_err(), "{len} bytes");
    }
    // another flag; compressed; a keyed checksum; a size below the least; a size of another number of parts
    for (index, bytes) in [
        (1, &[2][..]),
        (pointer + 2, &[1]),
        (pointer + 3, &[2]),
        (pointer + 4, &[0xff, 0x3f, 0, 0, 0xff, 0x3f, 0, 0]),
        (pointer + 4, &[0, 0x40, 0, 0, 0, 0x40, 0, 0]),
    ] {
        let mut wrong = good.clone();
        wrong[index..index + bytes.len()].copy_from_slice(bytes);
        assert!(decoded(&wrong).is_err(), "{bytes:?} at {index}");
    }
    let mut moved = good;
    moved[4] -= 8;
    moved.truncate(pointer + BLOCK_PTR_SIZE + 4 * 8);
    moved[pointer + 4..pointer + 12].copy_from_slice(&[0, 0x40, 0, 0, 0, 0x40, 0, 0]);
    assert!(decoded(&moved).is_ok(), "four parts of 16 KiB");
}
