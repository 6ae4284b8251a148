//! Labels: golden bytes, round trips, refusal of every flipped byte and of another place, limits.

use pool::format::{
    Birth, Defect, Expansion, FEATURE_SIZE_MAX, FEATURES_MAX, FORKS_MAX, Features, Fork,
    HOST_NAME_SIZE, Host, JournalLayout, JournalRing, JournalRings, LABEL_SIZE, Label, LabelBranch,
    LabelEpoch, LabelHistory, MEMBERS_MAX, MemberEntry, MemberGuid, Membership, NODE_SIZE_DEFAULT,
    NodeSize, PoolGuid, PoolState, VDEVS_MAX, VdevClass, VdevEntry, VdevGuid, VdevId, VdevKind,
    VdevOffset, check_name,
};
use proptest::prelude::*;

const AT: VdevOffset = VdevOffset(0x4_0000);

fn member(guid: u64, membership: Membership) -> MemberEntry {
    MemberEntry {
        guid: MemberGuid(guid),
        membership,
        held: match membership {
            Membership::In => Birth(0),
            Membership::Stale | Membership::Offline => Birth(0x0d0e),
        },
    }
}

fn vdev(guid: u64, members: u16) -> VdevEntry {
    VdevEntry {
        guid: VdevGuid(guid),
        kind: match members {
            1 => VdevKind::Disk,
            _ => VdevKind::Mirror,
        },
        ashift: 12,
        members,
        first_members: 0,
        expansion: None,
        has_journal: guid == 0x21,
        data_size: 0x400_0000,
        is_removed: false,
        class: VdevClass::Normal,
    }
}

fn label() -> Label {
    Label {
        pool: PoolGuid(0x1122_3344_5566_7788),
        name: "tank".to_owned(),
        state: PoolState::Exported,
        host: Host::new(*b"0123456789abcdef", "box one"),
        epoch: LabelEpoch(0x0506),
        disk: MemberGuid(0x0708),
        vdev: VdevId(1),
        members: vec![
            member(0x0708, Membership::In),
            member(0x090a, Membership::Stale),
            member(0x0b0c, Membership::Offline),
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
        rings: JournalRings::new(vec![VdevId(0)]),
        history: LabelHistory::default(),
    }
}

/// The bytes of [`label`] up to its features.
fn golden_bytes(version: u8) -> Vec<u8> {
    let mut want = [&b"WPlb"[..], &[version, 0, 0, 0]].concat();
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
    for (guid, kind, members) in [(0x21_u64, 1, 1), (0x22, 2, 3)] {
        want.extend(guid.to_le_bytes());
        want.extend([kind, 12, members, 0, 0, 0, 0, 0]);
        want.extend(0x400_0000_u64.to_le_bytes());
        want.extend([0; 8]);
    }
    for (list, entry, name) in [(0, 0, "a"), (1, 0, "b:c"), (1, 1, "b_d")] {
        want.resize(4872 + (list * FEATURES_MAX + entry) * FEATURE_SIZE_MAX, 0);
        want.extend(name.as_bytes());
    }
    want
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(LABEL_SIZE - 16, 0);
    let seed = (0xffff << 48) | (AT.0 / 512);
    let checksum = xxhash_rust::xxh3::xxh3_128_with_seed(&bytes, seed);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// Labels of version 1, as earlier releases without branches wrote them.
#[test]
fn golden_without_a_branch() {
    let want = with_checksum(golden_bytes(1));
    assert!(label().encode(AT) == want, "other bytes");
    assert_eq!(Label::decode(&want, AT), Ok(label()));
}

fn label_with_forks() -> Label {
    let history = LabelHistory::new(LabelBranch(0x31))
        .fork(LabelBranch(0x32), LabelEpoch(0x0401), LabelEpoch(0x0302))
        .fork(LabelBranch(0x33), LabelEpoch(0x0502), LabelEpoch(0));
    Label { history, ..label() }
}

#[test]
fn golden() {
    let mut want = golden_bytes(2);
    want.resize(9480, 0);
    want.extend(0x33_u64.to_le_bytes());
    want.extend([2, 0, 0, 0, 0, 0, 0, 0]);
    for field in [0x31_u64, 0x0401, 0x0302, 0x32, 0x0502, 0] {
        want.extend(field.to_le_bytes());
    }
    let want = with_checksum(want);
    assert!(label_with_forks().encode(AT) == want, "other bytes");
    assert_eq!(Label::decode(&want, AT), Ok(label_with_forks()));
}

/// The second vdev is a raidz, and has the journal.
fn label_with_places() -> Label {
    let mut label = label_with_forks();
    label.vdevs[0].has_journal = false;
    label.vdevs[1].kind = VdevKind::Raidz { parity: 2 };
    label.vdevs[1].has_journal = true;
    label.rings = JournalRings::new(vec![VdevId(1)]);
    label
}

/// Labels of version 3 say of each vdev whether it has segments of the journal, and have no number of added vdevs.
#[test]
fn golden_with_places_of_the_journal() {
    let mut want = label_with_forks().encode(AT)[..LABEL_SIZE - 16].to_vec();
    want[4] = 3;
    want[52] = 0;
    want[808 + 8] = 4;
    want[808 + 12] = 1;
    let want = with_checksum(want);
    let label = label_with_places();
    assert!(label.encode(AT) == want, "other bytes");
    assert_eq!(Label::decode(&want, AT), Ok(label));
}

/// The second vdev is a raidz1 of three that was created with two members.
fn label_with_expansion(expansion: Option<Expansion>) -> Label {
    let mut label = label_with_places();
    label.vdevs[1].kind = VdevKind::Raidz { parity: 1 };
    label.vdevs[1].first_members = 2;
    label.vdevs[1].expansion = expansion;
    label.members[1].membership = Membership::In;
    label.members[1].held = Birth(0);
    label
}

/// Labels of version 5 have the number of first members, and the position of an expansion.
#[test]
fn golden_with_an_expansion() {
    let position = 0x1234;
    let states = [
        (None, 0, 0),
        (Some(false), 1, position),
        (Some(true), 2, position),
    ];
    for (has_scratch, state, position) in states {
        let mut want = label_with_places().encode(AT)[..LABEL_SIZE - 16].to_vec();
        want[4] = 5;
        // the second member is in
        want[416 + 8] = 1;
        want[416 + 16..416 + 24].fill(0);
        want[808 + 8] = 3;
        (want[808 + 13], want[808 + 14]) = (2, state);
        want[808 + 24..808 + 32].copy_from_slice(&u64::to_le_bytes(position));
        let want = with_checksum(want);
        let label = label_with_expansion(has_scratch.map(|has_scratch| Expansion {
            position,
            has_scratch,
        }));
        assert!(label.encode(AT) == want, "other bytes");
        assert_eq!(Label::decode(&want, AT), Ok(label));
    }
}

/// The fields of an expansion are consistent, and reserved in labels of earlier versions.
#[test]
fn an_expansion_that_cannot_be_is_refused() {
    let expansion = |position, has_scratch| {
        Some(Expansion {
            position,
            has_scratch,
        })
    };
    let changes: [fn(&mut VdevEntry); 6] = [
        |v| v.first_members = 0,
        |v| v.first_members = 1,
        |v| v.first_members = 3,
        |v| v.kind = VdevKind::Mirror,
        |v| v.data_size = 0x1233 << 12,
        |v| {
            v.expansion = Some(Expansion {
                position: 0,
                has_scratch: true,
            })
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut label = label_with_expansion(expansion(0x1234, true));
        assert_eq!(label.check(), Ok(()));
        change(&mut label.vdevs[1]);
        assert!(label.check().is_err(), "change {number}");
    }
    for at in [808 + 13, 808 + 14, 808 + 15, 808 + 24] {
        let mut bytes = label_with_places().encode(AT)[..LABEL_SIZE - 16].to_vec();
        bytes[at] = 1;
        let decoded = Label::decode(&with_checksum(bytes), AT);
        assert!(decoded.is_err(), "byte {at} of version 3");
    }
    let mut bytes = label_with_places().encode(AT)[..LABEL_SIZE - 16].to_vec();
    bytes[4] = 5;
    let decoded = Label::decode(&with_checksum(bytes), AT);
    assert!(decoded.is_err(), "one value has one encoding");
}

/// Each vdev alone needs version 3: a mirror with the journal behind one without, and a raidz.
#[test]
fn only_labels_that_need_places_have_them() {
    let mut raidz = label_with_places();
    (raidz.vdevs[0].has_journal, raidz.vdevs[1].has_journal) = (true, false);
    raidz.rings = JournalRings::new(vec![VdevId(0)]);
    let mut later = label_with_places();
    later.vdevs[1].kind = VdevKind::Mirror;
    for label in [raidz, later] {
        let bytes = label.encode(AT);
        assert_eq!(bytes[4], 3);
        assert_eq!(Label::decode(&bytes, AT), Ok(label));
    }
    let mut bytes = label_with_forks().encode(AT)[..LABEL_SIZE - 16].to_vec();
    (bytes[4], bytes[52], bytes[776 + 12]) = (3, 0, 1);
    let unneeded = with_checksum(bytes);
    assert!(
        Label::decode(&unneeded, AT).is_err(),
        "one value has one encoding"
    );
}

/// Fields that only labels of version 3 have are reserved in earlier ones, and the number of added vdevs in version 3.
#[test]
fn fields_of_another_version_are_refused() {
    for (label, at) in [
        (label(), 788),
        (label_with_forks(), 820),
        (label_with_places(), 52),
    ] {
        let mut bytes = label.encode(AT)[..LABEL_SIZE - 16].to_vec();
        bytes[at] = 1;
        assert!(
            Label::decode(&with_checksum(bytes), AT).is_err(),
            "byte {at}"
        );
    }
}

/// The journal moves from the second vdev to the first one.
fn label_with_rings() -> Label {
    let mut label = label_with_places();
    label.vdevs[0].has_journal = true;
    label.rings.now.first = 0x0405_0607;
    label.rings.next = Some(JournalRing {
        first: 0x1_0405_0607,
        vdevs: vec![VdevId(0)],
    });
    label
}

/// Labels of version 7 have the rings of the journal, and say of each vdev in which it is.
#[test]
fn golden_with_rings_of_the_journal() {
    let mut want = label_with_places().encode(AT)[..LABEL_SIZE - 16].to_vec();
    want[4] = 7;
    (want[776 + 12], want[808 + 12]) = (5, 3);
    want[15640..15648].copy_from_slice(&0x0405_0607_u64.to_le_bytes());
    want[15648..15656].copy_from_slice(&0x1_0405_0607_u64.to_le_bytes());
    let want = with_checksum(want);
    let label = label_with_rings();
    assert!(label.encode(AT) == want, "other bytes");
    assert_eq!(Label::decode(&want, AT), Ok(label));
}

/// Each of the three reasons alone needs version 7; without one, a label is of an earlier version.
#[test]
fn only_labels_that_need_rings_have_them() {
    let mut moved = label_with_places();
    moved.rings.now.first = 1;
    let mut moves = label_with_places();
    moves.rings.next = Some(JournalRing {
        first: 1,
        vdevs: vec![VdevId(1)],
    });
    let mut area = label_with_places();
    area.vdevs[0].has_journal = true;
    for label in [moved, moves, area] {
        let bytes = label.encode(AT);
        assert_eq!(bytes[4], 7);
        assert_eq!(Label::decode(&bytes, AT), Ok(label));
    }
    let mut bytes = label_with_places().encode(AT)[..LABEL_SIZE - 16].to_vec();
    (bytes[4], bytes[808 + 12]) = (7, 3);
    let decoded = Label::decode(&with_checksum(bytes), AT);
    assert!(decoded.is_err(), "one value has one encoding");
    for at in [15640, 15648, 776 + 12] {
        let mut bytes = label_with_places().encode(AT)[..LABEL_SIZE - 16].to_vec();
        bytes[at] = 2;
        let decoded = Label::decode(&with_checksum(bytes), AT);
        assert!(decoded.is_err(), "byte {at} of version 3");
    }
}

/// The first vdev takes blocks, and the second one the journal only.
fn label_with_classes() -> Label {
    let mut label = label_with_rings();
    label.vdevs[1].kind = VdevKind::Mirror;
    label.vdevs[1].class = VdevClass::Log;
    label
}

/// Labels of version 8 have the class of each vdev.
#[test]
fn golden_with_classes() {
    let label = label_with_classes();
    let mut want = label_with_rings().encode(AT)[..LABEL_SIZE - 16].to_vec();
    (want[4], want[808 + 8], want[808 + 15]) = (8, 2, 2);
    let want = with_checksum(want);
    assert!(label.encode(AT) == want, "other bytes");
    assert_eq!(Label::decode(&want, AT), Ok(label));
    for (at, byte) in [(4, 7), (4, 9), (808 + 15, 8), (808 + 15, 0), (808 + 15, 6)] {
        let mut bytes = want[..LABEL_SIZE - 16].to_vec();
        bytes[at] = byte;
        let decoded = Label::decode(&with_checksum(bytes), AT);
        assert!(decoded.is_err(), "byte {at}: {byte}");
    }
}

/// A special vdev is another class, and may have no area for the journal.
#[test]
fn golden_with_a_special_vdev() {
    let mut label = label_with_classes();
    label.vdevs[1].class = VdevClass::Special;
    let mut want = label_with_classes().encode(AT)[..LABEL_SIZE - 16].to_vec();
    want[808 + 15] = 4;
    let want = with_checksum(want);
    assert!(label.encode(AT) == want, "other bytes");
    assert_eq!(Label::decode(&want, AT), Ok(label.clone()));
    assert_eq!(label.check(), Ok(()));
    label.vdevs[1].kind = VdevKind::Raidz { parity: 1 };
    assert!(label.check().is_err(), "a special vdev has no parity");
}

/// A vdev for the journal has a place for it, and is no raidz. A pool has a vdev for blocks.
#[test]
fn classes_that_cannot_be_are_refused() {
    assert_eq!(label_with_classes().check(), Ok(()));
    let changes: [fn(&mut Label); 4] = [
        |l| l.vdevs[1].has_journal = false,
        |l| l.vdevs[1].kind = VdevKind::Raidz { parity: 1 },
        |l| l.vdevs[0].class = VdevClass::Log,
        |l| l.history = LabelHistory::default(),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut bad = label_with_classes();
        change(&mut bad);
        assert!(bad.check().is_err(), "change {index}: {bad:?}");
    }
}

/// A ring is on vdevs that have an area and were not removed, and begins behind the one before.
#[test]
fn rings_that_cannot_be_are_refused() {
    assert_eq!(label_with_rings().check(), Ok(()));
    let changes: [fn(&mut Label); 8] = [
        |l| l.vdevs[0].has_journal = false,
        |l| l.vdevs[0].is_removed = true,
        |l| l.rings.now.vdevs.clear(),
        |l| l.rings.now.vdevs = vec![VdevId(2)],
        |l| l.rings.now.first = 0x1_0405_0607,
        |l| l.rings.next.as_mut().expect("there").vdevs.clear(),
        |l| l.rings.next.as_mut().expect("there").first = 1 << 62,
        |l| l.history = LabelHistory::default(),
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut bad = label_with_rings();
        change(&mut bad);
        assert!(bad.check().is_err(), "change {index}: {bad:?}");
    }
}

/// A raidz has more members than parity, and enough of them in.
#[test]
fn a_raidz_with_too_few_members_is_refused() {
    let mut label = label_with_places();
    assert_eq!(label.check(), Ok(()), "one of three is enough for parity 2");
    for parity in [0, 1, 3, 4] {
        label.vdevs[1].kind = VdevKind::Raidz { parity };
        assert!(label.check().is_err(), "parity {parity}");
    }
}

/// Version 2 has a branch, version 1 has none; reserved bytes are zero in both.
#[test]
fn bytes_of_another_version_are_refused() {
    for (version, at) in [
        (1, 9480),
        (1, 9490),
        (1, 9496),
        (1, 15640),
        (2, 9490),
        (2, 15640),
    ] {
        let mut bytes = label().encode(AT);
        if version == 2 {
            bytes = label_with_forks().encode(AT);
        }
        bytes[at] = 1;
        bytes.truncate(LABEL_SIZE - 16);
        let decoded = Label::decode(&with_checksum(bytes), AT);
        assert!(decoded.is_err(), "version {version}, byte {at}");
    }
}

#[test]
fn a_label_replaces_its_branch_and_those_before_it() {
    let own = LabelEpoch(0x0506);
    let replaces = |branch, epoch| {
        let history = label_with_forks().history;
        history.replaces(own, LabelBranch(branch), LabelEpoch(epoch))
    };
    assert!(replaces(0x33, 0x0506) && !replaces(0x33, 0x0507));
    assert!(replaces(0x32, 0x0502) && !replaces(0x32, 0x0503));
    assert!(replaces(0x31, 0x0001) && !replaces(0x31, 0x0402));
    assert!(!replaces(0x34, 1) && !replaces(0, 1));
    let on_vdev = |branch, epoch| {
        let history = label_with_forks().history;
        history.replaces_on_vdev(own, LabelBranch(branch), LabelEpoch(epoch))
    };
    assert!(on_vdev(0x33, 0x0506) && !on_vdev(0x32, 1));
    assert!(on_vdev(0x31, 0x0302) && !on_vdev(0x31, 0x0303));
    let mut many = LabelHistory::new(LabelBranch(1));
    for n in 2..FORKS_MAX as u64 + 5 {
        many = many.fork(LabelBranch(n), LabelEpoch(n), LabelEpoch(1));
    }
    assert_eq!(many.forks.len(), FORKS_MAX);
    let newest = Fork {
        branch: LabelBranch(FORKS_MAX as u64 + 3),
        last: LabelEpoch(FORKS_MAX as u64 + 4),
        vdev_last: LabelEpoch(1),
    };
    assert_eq!(many.forks.last(), Some(&newest), "the oldest are forgotten");
    let full = Label {
        history: many,
        ..label()
    };
    assert_eq!(Label::decode(&full.encode(AT), AT), Ok(full));
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

/// A label of a later version is distinguished from a damaged one.
#[test]
fn another_version_is_named() {
    let mut bytes = label().encode(AT);
    bytes[4] = 4;
    let checked = LABEL_SIZE - 16;
    let seed = (0xffff << 48) | (AT.0 / 512);
    let checksum = xxhash_rust::xxh3::xxh3_128_with_seed(&bytes[..checked], seed);
    bytes[checked..].copy_from_slice(&checksum.to_le_bytes());
    let field = "label's version";
    let wanted = Defect::Field { field, value: 4 };
    assert_eq!(Label::decode(&bytes, AT), Err(wanted));
}

#[test]
fn inconsistent_fields_are_refused() {
    let changes: [fn(&mut Label); 34] = [
        |l| l.members[0].held = Birth(1),
        |l| l.members[1].held = Birth(1 << 62),
        |l| l.epoch = LabelEpoch(1 << 62),
        |l| l.pool = PoolGuid(0),
        |l| l.epoch = LabelEpoch(0),
        |l| l.name = String::new(),
        |l| l.host.name = "a b".to_owned(),
        |l| l.host.name = "h".repeat(HOST_NAME_SIZE + 1),
        |l| l.disk = MemberGuid(1),
        |l| l.vdev = VdevId(2),
        |l| l.vdev = VdevId(0),
        |l| l.members.truncate(2),
        |l| l.members[1].guid = l.members[0].guid,
        |l| l.members[1].guid = MemberGuid(0),
        |l| l.members[0].membership = Membership::Stale,
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
        |l| l.vdevs[0].has_journal = false,
        |l| l.history.branch = LabelBranch(0),
        |l| l.history.forks[0].branch = l.history.branch,
        |l| l.history.forks[0].branch = l.history.forks[1].branch,
        |l| l.history.forks[0].last = LabelEpoch(0),
        |l| l.history.forks[0].vdev_last = LabelEpoch(0x0402),
        |l| l.features.incompatible = vec!["b".to_owned(), "a".to_owned()],
    ];
    for (index, change) in changes.iter().enumerate() {
        let mut bad = label_with_forks();
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
    largest.members = (1..=MEMBERS_MAX as u64)
        .map(|n| member(n, Membership::In))
        .collect();
    largest.disk = MemberGuid(MEMBERS_MAX as u64);
    largest.vdevs = (1..=VDEVS_MAX as u64)
        .map(|n| vdev(n, MEMBERS_MAX as u16))
        .collect();
    let features: Vec<_> = (0..FEATURES_MAX)
        .map(|n| format!("{n:02}{}", "f".repeat(FEATURE_SIZE_MAX - 2)))
        .collect();
    largest.vdevs[0].has_journal = true;
    largest.vdevs[32].has_journal = false;
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
        members in 1_u64..=16, ashift in 9_u8..=16, size in 64_u64..1 << 40, slot in 0_u64..1 << 40,
        features in prop::collection::btree_set("[a-z0-9_.:]{1,48}", 0..32),
    ) {
        let mut value = label();
        value.name = name;
        value.host.name = host;
        value.epoch = LabelEpoch(epoch);
        value.pool = PoolGuid(pool);
        value.members = (1..=members).map(|n| member(n, Membership::In)).collect();
        value.disk = MemberGuid(members);
        value.vdevs[1] = VdevEntry { ashift, data_size: size << 16, ..vdev(7, members as u16) };
        value.features.incompatible = features.into_iter().collect();
        let at = VdevOffset(slot * 512);
        prop_assert_eq!(Label::decode(&value.encode(at), at), Ok(value));
    }
}
