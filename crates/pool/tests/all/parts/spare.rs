//! Spares: golden bytes of their entry and label, refusal of every flipped byte and of another place.

use crate::hex::hex;
use pool::format::{
    Host, Key, Kind, LABEL_SIZE, Label, MemberGuid, ObjectId, PoolGuid, SPARE_POOLS_MAX,
    SpareEntry, SpareGuid, SpareLabel, SparePool, SpareUse, VdevOffset, is_of_later_version,
    spare_key,
};

const AT: VdevOffset = VdevOffset(0x4_0000);

fn of_pool(guid: u64, name: &str) -> SparePool {
    SparePool {
        guid: PoolGuid(guid),
        name: name.to_owned(),
    }
}

fn label() -> SpareLabel {
    SpareLabel {
        spare: SpareGuid(0x1122_3344_5566_7788),
        epoch: 0x0506,
        host: Host::new(*b"0123456789abcdef", "box one"),
        pools: vec![of_pool(0x0708, "tank"), of_pool(0x090a, "home")],
    }
}

#[test]
fn golden_entry() {
    let mut entry = SpareEntry {
        size: 0x0001_0203_0405_0607,
        used: None,
    };
    let free = "0706050403020100 0000000000000000 0000000000000000";
    assert_eq!(hex(&entry.encode()), free);
    assert_eq!(SpareEntry::decode(&entry.encode()), Ok(entry));
    entry.used = Some(SpareUse {
        member: MemberGuid(0x1112),
        instead_of: MemberGuid(0x2122),
    });
    let used = "0706050403020100 1211000000000000 2221000000000000";
    assert_eq!(hex(&entry.encode()), used);
    assert_eq!(SpareEntry::decode(&entry.encode()), Ok(entry));
    let key = Key::new(ObjectId(7), Kind(11), 0);
    assert_eq!(spare_key(SpareGuid(7)), key);
    for member in [8, 16] {
        let mut bytes = entry.encode();
        bytes[member..member + 2].fill(0);
        assert!(SpareEntry::decode(&bytes).is_err(), "a use with one member");
    }
    assert!(SpareEntry::decode(&entry.encode()[1..]).is_err());
}

#[test]
fn golden_label() {
    let mut want = [&b"WPlb"[..], &[4, 0, 0, 0]].concat();
    want.extend([0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]);
    want.extend([6, 5, 0, 0, 0, 0, 0, 0]);
    want.extend([2, 0]);
    want.resize(48, 0);
    want.extend(b"0123456789abcdef");
    want.extend(b"boxone");
    want.resize(128, 0);
    want.extend([8, 7, 0, 0, 0, 0, 0, 0]);
    want.extend(b"tank");
    want.resize(128 + 264, 0);
    want.extend([10, 9, 0, 0, 0, 0, 0, 0]);
    want.extend(b"home");
    want.resize(LABEL_SIZE - 16, 0);
    let bytes = label().encode(AT);
    assert_eq!(bytes.len(), LABEL_SIZE);
    assert_eq!(hex(&bytes[..LABEL_SIZE - 16]), hex(&want));
    assert_eq!(SpareLabel::decode(&bytes, AT), Ok(label()));
}

/// A release without spares must not overwrite the disk, and this one must not take it for one of a later version.
#[test]
fn a_spares_label_is_no_members() {
    let defect = Label::decode(&label().encode(AT), AT).expect_err("another kind of label");
    assert!(!is_of_later_version(&defect));
    assert!(defect.to_string().contains("label's version"), "{defect}");
}

#[test]
fn wrong_labels_are_refused() {
    let bytes = label().encode(AT);
    for at in (0..LABEL_SIZE).step_by(7) {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        assert!(SpareLabel::decode(&bytes, AT).is_err(), "byte {at}");
    }
    assert!(
        SpareLabel::decode(&bytes, VdevOffset(0)).is_err(),
        "elsewhere"
    );
    assert!(SpareLabel::decode(&bytes[1..], AT).is_err());
    let wrong = |change: fn(&mut SpareLabel)| {
        let mut label = label();
        change(&mut label);
        assert!(label.check().is_err(), "{label:?}");
    };
    wrong(|l| l.spare = SpareGuid(0));
    wrong(|l| l.epoch = 0);
    wrong(|l| l.pools.clear());
    wrong(|l| l.pools[1].guid = l.pools[0].guid);
    wrong(|l| l.pools[1].name = "a b".into());
    wrong(|l| {
        let more = (1..=SPARE_POOLS_MAX as u64 + 1).map(|guid| of_pool(guid, "tank"));
        l.pools = more.collect();
    });
}
