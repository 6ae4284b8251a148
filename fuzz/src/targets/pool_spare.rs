//! Spares: a decoded entry and a decoded label encode to the same bytes. For the label, the input is a difference to a valid one, whose
//! checksum is recomputed, so that the fields are reached.

use pool::format::{
    Address, Checksum, ChecksumKind, Host, LABEL_SIZE, PoolGuid, SpareEntry, SpareGuid, SpareLabel, SparePool, VdevId, VdevOffset,
};

const AT: VdevOffset = VdevOffset(0);

pub fn run(input: &[u8]) {
    if let Ok(entry) = SpareEntry::decode(input) {
        assert_eq!(&*entry.encode(), input);
    }
    let pool = |guid, name: &str| SparePool { guid: PoolGuid(guid), name: name.to_owned() };
    let label = SpareLabel {
        spare: SpareGuid(1),
        epoch: 2,
        host: Host::new([1; 16], "host"),
        pools: vec![pool(3, "tank"), pool(4, "home")],
    };
    let mut bytes = label.encode(AT);
    let (checked, checksum) = bytes.split_at_mut(LABEL_SIZE - 16);
    checked.iter_mut().zip(input).for_each(|(byte, change)| *byte ^= change);
    let at = Address { vdev: VdevId(u16::MAX), offset: AT };
    checksum.copy_from_slice(&Checksum::of(ChecksumKind::Xxh3, at, checked).0);
    match SpareLabel::decode(&bytes, AT) {
        Ok(label) => assert!(label.encode(AT) == bytes),
        Err(_) => assert!(input.iter().any(|&change| change != 0)),
    }
}
