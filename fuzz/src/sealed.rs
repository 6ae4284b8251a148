//! Blocks of a pool's disk that end with a checksum of 16 bytes.

use pool::format::{Address, Checksum, ChecksumKind, VdevId, VdevOffset};

/// Changes the bytes before the checksum by `input`, and makes the checksum right again, so that the fields are reached.
pub fn change(block: &mut [u8], at: VdevOffset, input: &[u8]) {
    let (checked, checksum) = block.split_last_chunk_mut::<16>().expect("a checksum");
    checked.iter_mut().zip(input).for_each(|(byte, change)| *byte ^= change);
    let at = Address { vdev: VdevId(u16::MAX), offset: at };
    *checksum = Checksum::of(ChecksumKind::Xxh3, at, checked).0;
}
