//! Contents of test writes: every block carries the stamp of its write and depends on its address.
//!
//! **Invariants**: the bytes of a block depend only on its stamp and its address, and each word depends on both, so that a
//! mixture of two writes, a shifted block or a flipped bit is recognised. The blocks of every other write are compressible.

use std::fmt;

/// Number of the write that a block belongs to; 0 is a block of zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Stamp of a block of zeroes.
    pub const ZERO: Stamp = Stamp(0);
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => write!(f, "zeroes"),
            n => write!(f, "#{n}"),
        }
    }
}

fn word(stamp: Stamp, lba: u64, i: usize) -> u64 {
    if i == 0 {
        return stamp.0;
    }
    let x = (stamp.0 ^ lba.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    if stamp.0.is_multiple_of(2) {
        return x & !0xffff | (i as u64) << 1 | 1;
    }
    (x ^ i as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1
}

/// Fills the block at `lba`.
pub fn fill(block: &mut [u8], lba: u64, stamp: Stamp) {
    if stamp == Stamp::ZERO {
        block.fill(0);
        return;
    }
    for (i, w) in block.chunks_exact_mut(8).enumerate() {
        w.copy_from_slice(&word(stamp, lba, i).to_le_bytes());
    }
}

/// Returns the stamp of the block at `lba`. Errors: the defect of a block that no write can have left.
pub fn parse(block: &[u8], lba: u64) -> Result<Stamp, String> {
    let words: Vec<u64> = block
        .chunks_exact(8)
        .map(|w| u64::from_le_bytes(w.try_into().expect("8 bytes")))
        .collect();
    let stamp = Stamp(words[0]);
    let expected = |i: usize| {
        if stamp == Stamp::ZERO {
            0
        } else {
            word(stamp, lba, i)
        }
    };
    match (0..words.len()).find(|i| words[*i] != expected(*i)) {
        None => Ok(stamp),
        Some(i) => Err(format!(
            "starts like {stamp} and differs from byte {} on",
            i * 8
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_recognised_and_every_damage_too() {
        for stamp in [Stamp(7), Stamp(8)] {
            let mut block = vec![0; 512];
            fill(&mut block, 9, stamp);
            assert_eq!(parse(&block, 9), Ok(stamp));
            assert!(parse(&block, 8).is_err());
            for at in [0, 8, 300, 511] {
                let mut damaged = block.clone();
                damaged[at] ^= 16;
                assert!(parse(&damaged, 9).is_err());
            }
        }
        assert_eq!(parse(&[0; 512], 3), Ok(Stamp::ZERO));
    }
}
