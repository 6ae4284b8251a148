//! Cache devices: golden bytes of their label and of the table of a segment, refusal of every flipped byte and of another place.

use crate::hex::hex;
use pool::format::{
    CacheGuid, CacheLabel, CacheTable, CachedBlock, Host, LABEL_SIZE, Label, PoolGuid, SpareLabel,
    VdevOffset, is_of_later_version,
};

const AT: VdevOffset = VdevOffset(0x4_0000);
const SEGMENT: u32 = 512 << 10;

fn label() -> CacheLabel {
    CacheLabel {
        cache: CacheGuid(0x1122_3344_5566_7788),
        pool: PoolGuid(0x0708),
        name: "tank".to_owned(),
        host: Host::new(*b"0123456789abcdef", "box one"),
        segment_size: SEGMENT,
    }
}

#[test]
fn golden_label() {
    let mut want = [&b"WPlb"[..], &[9, 0, 0, 0]].concat();
    want.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    want.extend([8, 7, 0, 0, 0, 0, 0, 0]);
    want.extend([0, 0, 8, 0]);
    want.resize(48, 0);
    want.extend(b"0123456789abcdef");
    want.extend(b"boxone");
    want.resize(128, 0);
    want.extend(b"tank");
    want.resize(LABEL_SIZE - 16, 0);
    let bytes = label().encode(AT);
    assert_eq!(bytes.len(), LABEL_SIZE);
    assert_eq!(hex(&bytes[..LABEL_SIZE - 16]), hex(&want));
    assert_eq!(CacheLabel::decode(&bytes, AT), Ok(label()));
}

/// A release without cache devices must not overwrite the disk, and this one must not take it for one of a later version.
#[test]
fn the_label_is_no_members_and_no_spares() {
    let bytes = label().encode(AT);
    let defect = Label::decode(&bytes, AT).expect_err("another kind of label");
    assert!(!is_of_later_version(&defect));
    assert!(defect.to_string().contains("label's version"), "{defect}");
    assert!(SpareLabel::decode(&bytes, AT).is_err());
}

#[test]
fn wrong_labels_are_refused() {
    let bytes = label().encode(AT);
    for at in (0..LABEL_SIZE).step_by(7) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        assert!(CacheLabel::decode(&bytes, AT).is_err(), "byte {at}");
    }
    assert!(
        CacheLabel::decode(&bytes, VdevOffset(0)).is_err(),
        "elsewhere"
    );
    assert!(CacheLabel::decode(&bytes[1..], AT).is_err());
    let wrong = |change: fn(&mut CacheLabel)| {
        let mut label = label();
        change(&mut label);
        assert!(label.check().is_err(), "{label:?}");
    };
    wrong(|l| l.cache = CacheGuid(0));
    wrong(|l| l.pool = PoolGuid(0));
    wrong(|l| l.name = "a b".into());
    wrong(|l| l.segment_size = 4 << 20);
    wrong(|l| l.segment_size = 200_000);
}

fn table() -> CacheTable {
    let block = |name, offset, len| CachedBlock { name, offset, len };
    CacheTable {
        cache: CacheGuid(0x0102),
        sequence: 0x0304,
        time_ms: 0x0506,
        blocks: vec![block(0x0708, 0x1000, 0x1000), block(0x090a, 0x2000, 0x200)],
    }
}

#[test]
fn golden_table() {
    let mut segment = vec![7; SEGMENT as usize];
    table().encode(SEGMENT, &mut segment, AT);
    let size = CacheTable::size_in(SEGMENT);
    assert_eq!((size, CacheTable::blocks_max(SEGMENT)), (4096, 252));
    let mut want = b"WPct".to_vec();
    want.extend([2, 0, 0, 0]);
    want.extend([2, 1, 0, 0, 0, 0, 0, 0]);
    want.extend([4, 3, 0, 0, 0, 0, 0, 0]);
    want.extend([6, 5, 0, 0, 0, 0, 0, 0]);
    want.extend([0; 16]);
    want.extend([8, 7, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 16, 0, 0]);
    want.extend([10, 9, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 2, 0, 0]);
    want.resize(size - 16, 0);
    assert_eq!(hex(&segment[..size - 16]), hex(&want));
    assert!(
        segment[size..].iter().all(|byte| *byte == 7),
        "the blocks stay"
    );
    let bytes = &segment[..size];
    assert_eq!(CacheTable::decode(SEGMENT, bytes, AT), Ok(table()));
    for at in (0..size).step_by(3) {
        let mut bytes = bytes.to_vec();
        bytes[at] ^= 1;
        assert!(
            CacheTable::decode(SEGMENT, &bytes, AT).is_err(),
            "byte {at}"
        );
    }
    assert!(CacheTable::decode(SEGMENT, bytes, VdevOffset(0)).is_err());
    assert!(CacheTable::decode(SEGMENT, &bytes[1..], AT).is_err());
    assert!(CacheTable::decode(2 * SEGMENT, bytes, AT).is_err());
}

/// A table with the right checksum and a block outside of its segment is refused.
#[test]
fn blocks_outside_of_the_segment_are_refused() {
    for (offset, len) in [
        (0, 512),
        (4095, 512),
        (SEGMENT - 512, 1024),
        (u32::MAX, 512),
        (4096, 0),
    ] {
        let mut wrong = table();
        wrong.blocks[1] = CachedBlock {
            name: 1,
            offset,
            len,
        };
        let mut segment = vec![0; SEGMENT as usize];
        wrong.encode(SEGMENT, &mut segment, AT);
        let bytes = &segment[..CacheTable::size_in(SEGMENT)];
        assert!(
            CacheTable::decode(SEGMENT, bytes, AT).is_err(),
            "{offset} {len}"
        );
    }
}
