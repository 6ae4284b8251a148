//! Labels: a decoded label encodes to the same bytes. The input is a difference to a valid label, whose checksum is
//! recomputed, so that the fields are reached.

use pool::format::{
    Birth, Expansion, Features, Host, JournalLayout, JournalRing, JournalRings, Label, LabelBranch, LabelEpoch, LabelHistory, Membership, NodeSize, PoolGuid, PoolState, MemberEntry, MemberGuid, VdevClass, VdevEntry, VdevGuid, VdevId, VdevKind, VdevOffset,
};

const AT: VdevOffset = VdevOffset(0);

/// The label of a member of a vdev of this kind. That of a raidz has a later version.
fn label(kind: VdevKind) -> Label {
    let member = |guid, membership| MemberEntry { guid: MemberGuid(guid), membership, held: Birth(0) };
    let vdev = |guid, kind, members| VdevEntry {
        guid: VdevGuid(guid),
        kind,
        ashift: 12,
        members,
        first_members: 0,
        expansion: None,
        data_size: 62 << 20,
        has_journal: true,
        is_removed: false,
        class: VdevClass::Normal,
    };
    let mut members = vec![member(2, Membership::In), member(3, Membership::Stale)];
    if kind != VdevKind::Mirror {
        members.push(member(4, Membership::In));
    }
    Label {
        pool: PoolGuid(1),
        name: "tank".to_owned(),
        state: PoolState::Active,
        host: Host::new([1; 16], "host"),
        epoch: LabelEpoch(1),
        disk: MemberGuid(2),
        vdev: VdevId(0),
        vdevs: vec![vdev(4, kind, members.len() as u16), vdev(5, VdevKind::Disk, 1)],
        members,
        features: Features { compatible: vec!["a".to_owned(), "b".to_owned()], ..Features::default() },
        node_size: NodeSize::default(),
        journal: JournalLayout { segment_size: 1 << 20, segments: 4 },
        rings: JournalRings::new(vec![VdevId(0), VdevId(1)]),
        history: LabelHistory::new(LabelBranch(6)).fork(LabelBranch(7), LabelEpoch(1), LabelEpoch(1)),
    }
}

/// The label of a pool from which a vdev was removed.
fn label_without_vdev() -> Label {
    let mut label = label(VdevKind::Mirror);
    (label.vdevs[1].is_removed, label.vdevs[1].has_journal) = (true, false);
    label.rings = JournalRings::new(vec![VdevId(0)]);
    label
}

/// The label of a pool whose journal moved to the first vdev, and moves to the second one.
fn label_with_rings() -> Label {
    let mut label = label(VdevKind::Mirror);
    let ring = |first, vdev| JournalRing { first, vdevs: vec![VdevId(vdev)] };
    label.rings = JournalRings { now: ring(9, 0), next: Some(ring(20, 1)) };
    label
}

pub fn run(input: &[u8]) {
    check(label(VdevKind::Mirror), input);
    check(label_without_vdev(), input);
    check(label_with_rings(), input);
    check(label(VdevKind::Raidz { parity: 1 }), input);
    let mut expanding = label(VdevKind::Raidz { parity: 1 });
    expanding.vdevs[0].first_members = 2;
    expanding.vdevs[0].expansion = Some(Expansion { position: 7, has_scratch: true });
    check(expanding, input);
}

fn check(label: Label, input: &[u8]) {
    let mut bytes = label.encode(AT);
    crate::sealed::change(&mut bytes, AT, input);
    match Label::decode(&bytes, AT) {
        Ok(label) => assert!(label.encode(AT) == bytes),
        Err(_) => assert!(input.iter().any(|&change| change != 0)),
    }
}
