//! Spares: a decoded entry and a decoded label encode to the same bytes. For the label, the input is a difference to a valid one, whose
//! checksum is recomputed, so that the fields are reached.

use pool::format::{Host, PoolGuid, SpareEntry, SpareGuid, SpareLabel, SparePool, VdevOffset};

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
    crate::sealed::change(&mut bytes, AT, input);
    match SpareLabel::decode(&bytes, AT) {
        Ok(label) => assert!(label.encode(AT) == bytes),
        Err(_) => assert!(input.iter().any(|&change| change != 0)),
    }
}
