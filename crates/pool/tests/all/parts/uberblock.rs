//! Uberblocks: golden bytes, round trips, refusal of every flipped bit and of another place.

use pool::format::{
    Birth, BlockPtr, COUNT_END, Checksum, ChecksumKind, Compression, Defect, JournalPosition,
    JournalStart, LabelEpoch, NODE_SIZE_MIN, NodeSize, PoolGuid, Sequence, UBERBLOCK_SIZE,
    Uberblock, VdevId, VdevOffset,
};
use proptest::prelude::*;

const AT: VdevOffset = VdevOffset(0x3000);

fn pointer(birth: u64) -> BlockPtr {
    BlockPtr {
        vdev: VdevId(1),
        offset: VdevOffset(0x5600),
        logical_size: 0x1000,
        physical_size: 0x1000,
        compression: Compression::Off,
        checksum_kind: ChecksumKind::Xxh3,
        is_fragment: false,
        birth: Birth(birth),
        placed: Birth(birth),
        checksum: Checksum(*b"0123456789abcdef"),
    }
}

fn uberblock() -> Uberblock {
    Uberblock {
        pool: PoolGuid(0x1122_3344_5566_7788),
        epoch: Birth(0x0102),
        sequence: 0x0304,
        time: 0x0506,
        label_epoch: LabelEpoch(0x07),
        node_size: NodeSize::new(NODE_SIZE_MIN).expect("the least is allowed"),
        root: Some(pointer(0x0102)),
        journal: JournalStart {
            sequence: Sequence(0x08),
            position: JournalPosition {
                segment: 0x09,
                offset: 0x0a00,
            },
            previous: Checksum(*b"fedcba9876543210"),
        },
    }
}

#[test]
fn golden() {
    let mut want = b"WPub\x01\0\0\0".to_vec();
    for field in [
        0x1122_3344_5566_7788,
        0x0102_u64,
        0x0304,
        0x0506,
        0x07,
        0x1000,
    ] {
        want.extend(field.to_le_bytes());
    }
    want.extend(pointer(0x0102).encode());
    want.extend([8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    want.extend([0, 10, 0, 0, 0, 0, 0, 0]);
    want.extend(b"fedcba9876543210");
    let bytes = uberblock().encode(AT);
    assert_eq!(bytes[..want.len()], want);
    assert!(bytes[want.len()..4080].iter().all(|&byte| byte == 0));
    let seed = (0xffff << 48) | (AT.0 / 512);
    let checksum = xxhash_rust::xxh3::xxh3_128_with_seed(&bytes[..4080], seed);
    assert_eq!(bytes[4080..], checksum.to_le_bytes());
    assert_eq!(Uberblock::decode(&bytes, AT), Ok(uberblock()));
}

#[test]
fn every_flipped_bit_is_refused() {
    let good = uberblock().encode(AT);
    for bit in 0..UBERBLOCK_SIZE * 8 {
        let mut bytes = good;
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(Uberblock::decode(&bytes, AT).is_err(), "bit {bit}");
    }
}

#[test]
fn a_copy_in_another_slot_is_refused() {
    let other = VdevOffset(AT.0 + UBERBLOCK_SIZE as u64);
    assert_eq!(
        Uberblock::decode(&uberblock().encode(AT), other),
        Err(Defect::Checksum)
    );
}

#[test]
fn the_higher_sequence_is_newer_and_of_equal_ones_the_newer_labels() {
    let old = uberblock();
    let new = Uberblock {
        sequence: old.sequence + 1,
        time: 0,
        label_epoch: LabelEpoch(1),
        ..old
    };
    let relabelled = Uberblock {
        label_epoch: LabelEpoch(8),
        ..old
    };
    assert!(new.is_newer_than(&old) && !old.is_newer_than(&new) && !old.is_newer_than(&old));
    assert!(relabelled.is_newer_than(&old) && new.is_newer_than(&relabelled));
}

#[test]
fn torn_between_two_is_refused_at_every_sector() {
    let old = uberblock().encode(AT);
    let new = Uberblock {
        sequence: 0x0305,
        ..uberblock()
    }
    .encode(AT);
    for cut in (512..UBERBLOCK_SIZE).step_by(512) {
        let mut torn = old;
        torn[..cut].copy_from_slice(&new[..cut]);
        assert_eq!(
            Uberblock::decode(&torn, AT),
            Err(Defect::Checksum),
            "cut at {cut}"
        );
    }
}

#[test]
fn inconsistent_fields_are_refused() {
    let good = uberblock();
    let starting = |change: fn(&mut JournalStart)| {
        let mut journal = good.journal;
        change(&mut journal);
        Uberblock { journal, ..good }
    };
    for bad in [
        Uberblock {
            epoch: Birth(0),
            ..good
        },
        Uberblock {
            sequence: 0,
            ..good
        },
        Uberblock {
            sequence: COUNT_END,
            ..good
        },
        Uberblock {
            label_epoch: LabelEpoch(0),
            ..good
        },
        Uberblock {
            root: Some(pointer(0x0103)),
            ..good
        },
        starting(|start| start.sequence = Sequence(0)),
        starting(|start| start.sequence = Sequence(1 << 62)),
        starting(|start| start.position.segment = 1 << 62),
        starting(|start| start.position.offset = 0),
        starting(|start| start.position.offset = 513),
    ] {
        assert!(matches!(bad.check(), Err(Defect::Field { .. })), "{bad:?}");
    }
}

proptest! {
    #[test]
    fn round_trip(
        epoch in 1_u64..1 << 62, sequence in 1_u64..1 << 62, time: u64, pool: u64, segment in 0_u64..1 << 62, slot in 0_u64..256,
    ) {
        let value = Uberblock {
            pool: PoolGuid(pool),
            epoch: Birth(epoch),
            sequence,
            time,
            label_epoch: LabelEpoch(COUNT_END - 1),
            root: (time % 2 == 0).then(|| pointer(epoch)),
            journal: JournalStart {
                position: JournalPosition { segment, ..uberblock().journal.position },
                ..uberblock().journal
            },
            ..uberblock()
        };
        let at = VdevOffset(slot * UBERBLOCK_SIZE as u64);
        prop_assert_eq!(Uberblock::decode(&value.encode(at), at), Ok(value));
    }
}
