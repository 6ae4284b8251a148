//! Uberblocks: a decoded uberblock encodes to the same bytes. The checksum is recomputed, so that the fields are
//! reached.

use pool::format::{Address, Checksum, ChecksumKind, UBERBLOCK_SIZE, Uberblock, VdevId, VdevOffset};

const AT: VdevOffset = VdevOffset(0);

pub fn run(input: &[u8]) {
    let mut bytes = [0; UBERBLOCK_SIZE];
    let checked = UBERBLOCK_SIZE - 16;
    let len = input.len().min(checked);
    bytes[..len].copy_from_slice(&input[..len]);
    let at = Address { vdev: VdevId(u16::MAX), offset: AT };
    let checksum = Checksum::of(ChecksumKind::Xxh3, at, &bytes[..checked]);
    bytes[checked..].copy_from_slice(&checksum.0);
    let Ok(uberblock) = Uberblock::decode(&bytes, AT) else { return };
    assert!(uberblock.encode(AT) == bytes);
}
