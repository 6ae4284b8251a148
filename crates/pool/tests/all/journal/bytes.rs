//! Golden bytes of the journal; all other bytes are refused.

use pool::format::{
    BATCH_HEADER_SIZE, Batch, BatchHeader, Birth, Checksum, Defect, Incarnation, Key, Kind,
    ObjectId, Record, Sequence, TreeId, Value, decode_segment, encode_segment,
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
    for (index, byte) in [(0, 0), (0, 7), (1, 1), (2, 1), (4, 15), (4, 17), (7, 0xff)] {
        let mut wrong = encoded.clone();
        wrong[index] = byte;
        let (bytes, _) = Batch::encode(&header(), 1, &wrong, at(0), SECTOR);
        let decoded = Batch::decode(&bytes, at(0), POOL, SECTOR);
        assert!(matches!(decoded, Err(Defect::Value { .. })), "{decoded:?}");
    }
    let (bytes, _) = Batch::encode(&header(), 2, &encoded, at(0), SECTOR);
    assert!(Batch::decode(&bytes, at(0), POOL, SECTOR).is_err());
}
