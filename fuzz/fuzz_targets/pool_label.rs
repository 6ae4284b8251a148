#![no_main]
//! Labels: whatever decodes encodes to the same bytes. The checksum is made right, so that the fields are reached.

use libfuzzer_sys::fuzz_target;
use pool::format::{Address, Checksum, ChecksumKind, LABEL_SIZE, Label, VdevId, VdevOffset};

const AT: VdevOffset = VdevOffset(0);

fuzz_target!(|input: &[u8]| {
    let mut bytes = vec![0; LABEL_SIZE];
    bytes[..8].copy_from_slice(b"WPlb\x01\0\0\0");
    let checked = LABEL_SIZE - 16;
    let len = input.len().min(checked - 8);
    bytes[8..8 + len].copy_from_slice(&input[..len]);
    let at = Address { vdev: VdevId(u16::MAX), offset: AT };
    let checksum = Checksum::of(ChecksumKind::Xxh3, at, &bytes[..checked]);
    bytes[checked..].copy_from_slice(&checksum.0);
    let Ok(label) = Label::decode(&bytes, AT) else { return };
    assert!(label.encode(AT) == bytes);
});
