//! Block contents that identify their write.
//!
//! **Owns** the pattern. **Called by** writers and checks. **Invariants**: each eight bytes have block number, write
//! number and place in the block, so that a mixture, a block at a wrong place and old data are recognised; a block of
//! zeroes is write 0, which does not exist.

/// Bits of a word below the block's number: a block has at most 8 KiB of words.
const BLOCK_SHIFT: u32 = 10;
/// Bits below the write's number.
const WRITE_SHIFT: u32 = 24;

fn word(block: u64, write: u64, at: usize) -> u64 {
    write << WRITE_SHIFT ^ block << BLOCK_SHIFT ^ at as u64
}

/// Fills `out` (whole words) with write number `write` of a block.
pub fn fill(block: u64, write: u64, out: &mut [u8]) {
    for (at, bytes) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        *bytes = word(block, write, at).to_le_bytes();
    }
}

/// The write of a block that these bytes are; none if they are not one, or parts of several.
#[must_use]
pub fn which(block: u64, bytes: &[u8]) -> Option<u64> {
    if bytes.iter().all(|byte| *byte == 0) {
        return Some(0);
    }
    let words = bytes.as_chunks::<8>().0;
    let write = (u64::from_le_bytes(*words.first()?) ^ block << BLOCK_SHIFT) >> WRITE_SHIFT;
    let right = |(at, bytes): (usize, &[u8; 8])| *bytes == word(block, write, at).to_le_bytes();
    words.iter().enumerate().all(right).then_some(write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_tells_its_write_and_a_mixture_tells_none() {
        let (mut one, mut two) = ([0; 4096], [0; 4096]);
        assert_eq!(which(7, &one), Some(0));
        fill(7, 1, &mut one);
        fill(7, 2, &mut two);
        assert_eq!((which(7, &one), which(7, &two)), (Some(1), Some(2)));
        assert_eq!(which(8, &one), None);
        one[512..1024].copy_from_slice(&two[512..1024]);
        assert_eq!(which(7, &one), None);
        two[4000..].fill(0);
        assert_eq!(which(7, &two), None);
    }
}
