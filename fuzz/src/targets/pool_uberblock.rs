//! Uberblocks: a decoded uberblock encodes to the same bytes. The checksum is recomputed, so that the fields are
//! reached.

use pool::format::{UBERBLOCK_SIZE, Uberblock, VdevOffset};

const AT: VdevOffset = VdevOffset(0);

pub fn run(input: &[u8]) {
    let mut bytes = [0; UBERBLOCK_SIZE];
    crate::sealed::change(&mut bytes, AT, input);
    let Ok(uberblock) = Uberblock::decode(&bytes, AT) else { return };
    assert!(uberblock.encode(AT) == bytes);
}
