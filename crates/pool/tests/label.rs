//! Labels: golden bytes, round trips, every flipped byte refused, another place refused, limits.

use pool::format::{
    Birth, Defect, FEATURE_SIZE_MAX, FEATURES_MAX, Features, HOST_NAME_SIZE, Host, JournalLayout,
    LABEL_SIZE, Label, LabelEpoch, Membership, NODE_SIZE_DEFAULT, NodeSize, PoolGuid, PoolState,
    SIDES_MAX, SideEntry, SideGuid, VDEVS_MAX, VdevEntry, VdevGuid, VdevId, VdevKind, VdevOffset,
    check_name,
};
use proptest::prelude::*;

const AT: VdevOffset = VdevOffset(0x4_0000);

fn side(guid: u64, membership: Membership) -> SideEntry {
    SideEntry {
        guid: SideGuid(guid),
        membership,
        held: match membership {
            Membership::In => Birth(0),
            Membership::Stale | Membership::Offline => Birth(0x0d0e),
        },
    }
}

fn vdev(guid: u64, sides: u16) -> VdevEntry {
    VdevEntry {
        guid: VdevGuid(guid),
        kind: match sides {
            1 => VdevKind::Disk,
            _ => VdevKind::Mirror,
        },
        ashift: 12,
        sides,
        data_size: 0x400_0000,
    }
}

fn label() -> Label {
    Label {
        pool: PoolGuid(0x1122_3344_5566_7788),
        name: "tank".to_owned(),
        state: PoolState::Exported,
        host: Host::new(*b"0123456789abcdef", "box one"),
        epoch: LabelEpoch(0x0506),
        disk: SideGuid(0x0708),
        vdev: VdevId(1),
        sides: vec![
            side(0x0708, Membership::In),
            side(0x090a, Membership::Stale),
            side(0x0b0c, Membership::Offline),
        ],
        vdevs: vec![vdev(0x21, 1), vdev(0x22, 3)],
        features: Features {
            compatible: vec!["a".to_owned()],
            read_compatible: vec!["b:c".to_owned(), "b_d".to_owned()],
            incompatible: Vec::new(),
        },
        node_size: NodeSize::new(NODE_SIZE_DEFAULT).expect("the default is allowed"),
        journal: JournalLayout {
            segment_size: 0x10_0000,
            segments: 4,
        },
        added: 1,
    }
}

#[test]
fn golden() {
    let mut want = b"WPlb\x01\0\0\0".to_vec();
    for field in [0x1122_3344_5566_7788_u64, 0x0708, 0x0506] {
        want.extend(field.to_le_bytes());
    }
    want.extend([1, 0, 2, 0, 3, 0, 2, 0]);
    for field in [0x4000_u32, 0x10_0000, 4, 1] {
        want.extend(field.to_le_bytes());
    }
    want.extend(b"0123456789abcdefboxone");
    want.resize(136, 0);
    want.extend(b"tank");
    want.resize(392, 0);
    for (guid, membership) in [(0x0708_u64, 1), (0x090a, 2), (0x0b0c, 3)] {
        want.extend(guid.to_le_bytes());
        want.extend([membership, 0, 0, 0, 0, 0, 0, 0]);
        let held: u64 = if membership == 1 { 0 } else { 0x0d0e };
        want.extend(held.to_le_bytes());
    }
    want.resize(776, 0);
    for (guid, kind, sides) in [(0x21_u64, 1, 1), (0x22, 2, 3)] {
        want.extend(guid.to_le_bytes());
        want.extend([kind, 12, sides, 0, 0, 0, 0, 0]);
        want.extend(0x400_0000_u64.to_le_bytes());
        want.extend([0; 8]);
    }
    for (list, entry, name) in [(0, 0, "a"), (1, 0, "b:c"), (1, 1, "b_d")] {
        want.resize(4872 + (list * FEATURES_MAX + entry) * FEATURE_SIZE_MAX, 0);
        want.extend(name.as_bytes());
    }
    want.resize(LABEL_SIZE - 16, 0);
    let seed = (0xffff << 48) | (AT.0 / 512);
    let checksum = xxhash_rust::xxh3::xxh3_128_with_seed(&want, seed);
    want.extend(checksum.to_le_bytes());
    assert!(label().encode(AT) == want, "other bytes");
    assert_eq!(Label::decode(&want, AT), Ok(label()));
}

#[test]
fn every_flipped_byte_is_refused() {
    let mut bytes = label().encode(AT);
    for index in 0..LABEL_SIZE {
        for flip in [1, 0x80, 0xff] {
            bytes[index] ^= flip;
            assert!(Label::decode(&bytes, AT).is_err(), "byte {index}");
            bytes[index] ^= flip;
        }
    }
    assert_eq!(Label::decode(&bytes, AT), Ok(label()));
}

#[test]
fn a_copy_in_another_place_and_a_part_are_refused() {
    let bytes = label().encode(AT);
    assert_eq!(Label::decode(&bytes, VdevOffset(0)), Err(Defect::Checksum));
    assert!(matches!(
        Label::decode(&bytes[1..], AT),
        Err(Defect::Length { .. })
    ));
}

#[test]
fn torn_between_two_is_refused_at_every_sector() {
    let old = label().encode(AT);
    let new = Label {
        epoch: LabelEpoch(0x0507),
        ..label()
    }
    .encode(AT);
    for cut in (512..LABEL_SIZE).step_by(512) {
        let torn = [&new[..cut], &old[cut..]].concat();
        assert_eq!(Label::decode(&torn, AT), Err(Defect::Checksum), "{cut}");
    }
}

/// A later version's label is told from a damaged one.
#[test]
fn another_version_is_named() {
    let mut bytes = label().encode(AT);
    bytes[4] = 2;
    let checked = LABEL_SIZE - 16;
    let seed = (0xffff << 48) | (AT.0 / 512);
    let checksum = xxhash_rust::xxh3::xxh3_128_with_seed(&bytes[..checked], seed);
    bytes[checked..].copy_from_slice(&checksum.to_le_bytes());
    let field = "label's version";
    let wanted = Defect::Field { field, value: 2 };
    assert_eq!(Label::decode(&bytes, AT), Err(wanted));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let changes: [fn(&mut Label); 29] = [
        |l| l.sides[0].held = Birth(1),
        |l| l.sides[1].held = Birth(1 << 62),
        |l| l.epoch = LabelEpoch(1 << 62),
        |l| l.pool = PoolGuid(0),
        |l| l.epoch = LabelEpoch(0),
        |l| l.name = String::new(),
        |l| l.host.name = "a b".to_owned(),
        |l| l.host.name = "h".repeat(HOST_NAME_SIZE + 1),
        |l| l.disk = SideGuid(1),
        |l| l.vdev = VdevId(2),
        |l| l.vdev = VdevId(0),
        |l| l.sides.truncate(2),
        |l| l.sides[1].guid = l.sides[0].guid,
        |l| l.sides[1].guid = SideGuid(0),
        |l| l.sides[0].membership = Membership::Stale,
        |l| l.vdevs.clear(),
        |l| l.vdevs[0].guid = l.vdevs[1].guid,
        |l| l.vdevs[0].guid = VdevGuid(0),
        |l| l.vdevs[0].kind = VdevKind::Mirror,
        |l| l.vdevs[1].kind = VdevKind::Disk,
        |l| l.vdevs[0].ashift = 8,
        |l| l.vdevs[0].ashift = 17,
        |l| l.vdevs[0].data_size = 0x3f_f000,
        |l| l.vdevs[0].data_size += 512,
        |l| l.journal.segment_size = 0x1000,
        |l| l.journal.segment_size = 0x10_0200,
        |l| l.journal.segments = 0,
        |l| l.added = 2,
        |l| l.features.incompatible = vec!["b".to_owned(), "a".to_owned()],
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut bad = label();
        change(&mut bad);
        assert!(bad.check().is_err(), "change {index}: {bad:?}");
    }
    for feature in [String::new(), "B".to_owned(), "f".repeat(49)] {
        let mut bad = label();
        bad.features.compatible = vec![feature];
        assert!(bad.check().is_err(), "{bad:?}");
    }
}

#[test]
fn names_are_plain() {
    for good in ["t", "tank", "0", "a_b-c.d:e", &"x".repeat(255)] {
        assert_eq!(check_name(good), Ok(()), "{good}");
    }
    for bad in [
        "",
        "a/b",
        "a b",
        "-a",
        ".",
        "_x",
        "tänk",
        "a\n",
        "a\0",
        &"x".repeat(256),
    ] {
        assert!(check_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_largest_fits() {
    let mut largest = label();
    largest.name = "n".repeat(255);
    largest.host.name = "h".repeat(HOST_NAME_SIZE);
    largest.sides = (1..=SIDES_MAX as u64)
        .map(|n| side(n, Membership::In))
        .collect();
    largest.disk = SideGuid(SIDES_MAX as u64);
    largest.vdevs = (1..=VDEVS_MAX as u64)
        .map(|n| vdev(n, SIDES_MAX as u16))
        .collect();
    let features: Vec<_> = (0..FEATURES_MAX)
        .map(|n| format!("{n:02}{}", "f".repeat(FEATURE_SIZE_MAX - 2)))
        .collect();
    largest.features = Features {
        compatible: features.clone(),
        read_compatible: features.clone(),
        incompatible: features,
    };
    let bytes = largest.encode(AT);
    assert_eq!(Label::decode(&bytes, AT), Ok(largest));
}

proptest! {
    #[test]
    fn round_trip(
        name in "[a-zA-Z0-9][a-zA-Z0-9_.:-]{0,254}", host in "[!-~]{0,64}", epoch in 1_u64..1 << 62, pool in 1_u64..,
        sides in 1_u64..=16, ashift in 9_u8..=16, size in 64_u64..1 << 40, slot in 0_u64..1 << 40,
        features in prop::collection::btree_set("[a-z0-9_.:]{1,48}", 0..32),
    ) {
        let mut value = label();
        value.name = name;
        value.host.name = host;
        value.epoch = LabelEpoch(epoch);
        value.pool = PoolGuid(pool);
        value.sides = (1..=sides).map(|n| side(n, Membership::In)).collect();
        value.disk = SideGuid(sides);
        value.vdevs[1] = VdevEntry { ashift, data_size: size << 16, ..vdev(7, sides as u16) };
        value.features.incompatible = features.into_iter().collect();
        let at = VdevOffset(slot * 512);
        prop_assert_eq!(Label::decode(&value.encode(at), at), Ok(value));
    }
}
