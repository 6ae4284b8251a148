//! Contents of a verified block.
//!
//! **Owns** the layout: 48 bytes of header, then bytes that are computed from seed, block and generation.
//! **Invariants**: any change of any byte is found (CRC-64/NVME over the whole block); a block has the identity of
//! its run, its address and its write, so that a misdirected, stale or torn write is recognised.
//!
//! | bytes | field |
//! |---|---|
//! | 0–8 | magic |
//! | 8–16 | seed of the run |
//! | 16–24 | number of the block within the region |
//! | 24–28 | generation: 1 for the block's first write |
//! | 28–32 | block size, bytes |
//! | 32–40 | zero |
//! | 40–48 | CRC-64/NVME of the block with this field zero |

use crc_fast::{CrcAlgorithm, Digest};
use io::rng::Prng;
use std::fmt;

const MAGIC: [u8; 8] = *b"WPSTAMP1";
const CHECKSUM: std::ops::Range<usize> = 40..48;
/// Bytes of the header.
pub const HEADER: usize = 48;

/// The expected identity of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Seed of the run.
    pub seed: u64,
    /// Number of the block.
    pub block: u64,
    /// Generation.
    pub generation: u32,
}

/// The found identity of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A whole block of this run in its place, from this generation.
    Whole(u32),
    /// A whole block of this run in a wrong place.
    Misplaced(Stamp),
    /// A torn or damaged block of this run, with the identity in its header.
    Damaged(Stamp),
    /// A whole block of another run.
    OtherRun(u64),
    /// Only zeroes.
    Zero,
    /// Other contents.
    Foreign,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Found::Whole(g) => write!(f, "generation {g}"),
            Found::Misplaced(s) => write!(
                f,
                "block {} of generation {} in the wrong place",
                s.block, s.generation
            ),
            Found::Damaged(s) => {
                write!(
                    f,
                    "torn or damaged bytes (the header says block {}, generation {})",
                    s.block, s.generation
                )
            }
            Found::OtherRun(seed) => write!(f, "a block of another run (seed {seed:#x})"),
            Found::Zero => f.write_str("zeroes"),
            Found::Foreign => f.write_str("bytes that no run wrote"),
        }
    }
}

fn u64_at(block: &[u8], at: usize) -> u64 {
    block[at..]
        .first_chunk()
        .map_or(0, |b| u64::from_le_bytes(*b))
}

fn u32_at(block: &[u8], at: usize) -> u32 {
    block[at..]
        .first_chunk()
        .map_or(0, |b| u32::from_le_bytes(*b))
}

fn checksum(block: &[u8]) -> u64 {
    let mut d = Digest::new(CrcAlgorithm::Crc64Nvme);
    d.update(&block[..CHECKSUM.start]);
    d.update(&[0; CHECKSUM.end - CHECKSUM.start]);
    d.update(&block[CHECKSUM.end..]);
    d.finalize()
}

impl Stamp {
    /// Fills `block` (at least [`HEADER`] bytes).
    pub fn write(self, block: &mut [u8]) {
        assert!(block.len() >= HEADER, "a block holds a header");
        let mix =
            self.block.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (u64::from(self.generation) << 40);
        Prng::new(self.seed ^ mix).fill(&mut block[HEADER..]);
        block[..8].copy_from_slice(&MAGIC);
        block[8..16].copy_from_slice(&self.seed.to_le_bytes());
        block[16..24].copy_from_slice(&self.block.to_le_bytes());
        block[24..28].copy_from_slice(&self.generation.to_le_bytes());
        let len = block.len() as u32;
        block[28..32].copy_from_slice(&len.to_le_bytes());
        block[32..CHECKSUM.end].fill(0);
        let sum = checksum(block);
        block[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Identifies `data`, which was read at block `block` of the run with `seed`.
#[must_use]
pub fn examine(data: &[u8], seed: u64, block: u64) -> Found {
    if data.len() < HEADER || data[..8] != MAGIC {
        return if data.iter().all(|b| *b == 0) {
            Found::Zero
        } else {
            Found::Foreign
        };
    }
    let stamp = Stamp {
        seed: u64_at(data, 8),
        block: u64_at(data, 16),
        generation: u32_at(data, 24),
    };
    let whole =
        u64_at(data, CHECKSUM.start) == checksum(data) && u32_at(data, 28) as usize == data.len();
    match (whole, stamp.seed == seed, stamp.block == block) {
        (true, true, true) => Found::Whole(stamp.generation),
        (true, true, false) => Found::Misplaced(stamp),
        (true, false, _) => Found::OtherRun(stamp.seed),
        (false, true, _) => Found::Damaged(stamp),
        (false, false, _) => Found::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stamped(seed: u64, block: u64, generation: u32, len: usize) -> Vec<u8> {
        let mut b = vec![0xee; len];
        Stamp {
            seed,
            block,
            generation,
        }
        .write(&mut b);
        b
    }

    proptest! {
        #[test]
        fn whatever_is_stamped_is_recognised(seed: u64, block: u64, generation: u32, len in prop::sample::select(vec![512usize, 4096, 65_536])) {
            let b = stamped(seed, block, generation, len);
            prop_assert_eq!(examine(&b, seed, block), Found::Whole(generation));
            prop_assert_eq!(examine(&b, seed, block.wrapping_add(1)), Found::Misplaced(Stamp { seed, block, generation }));
            prop_assert_eq!(examine(&b, seed ^ 1, block), Found::OtherRun(seed));
        }

        #[test]
        fn any_corruption_is_detected(block: u64, at in 0usize..4096, flip in 1u8..=255, more in prop::collection::vec((0usize..4096, any::<u8>()), 0..8)) {
            let good = stamped(7, block, 3, 4096);
            let mut bad = good.clone();
            for (i, v) in more {
                bad[i] = v;
            }
            bad[at] = good[at] ^ flip;
            prop_assert!(!matches!(examine(&bad, 7, block), Found::Whole(_)));
        }

        #[test]
        fn a_torn_write_is_detected(sector in 1usize..8, old in 1u32..100, new in 101u32..200) {
            let (a, b) = (stamped(7, 5, old, 4096), stamped(7, 5, new, 4096));
            let torn = [&b[..sector * 512], &a[sector * 512..]].concat();
            prop_assert_eq!(examine(&torn, 7, 5), Found::Damaged(Stamp { seed: 7, block: 5, generation: new }));
        }

        #[test]
        fn foreign_bytes_never_panic_nor_pass(data in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(!matches!(examine(&data, 7, 5), Found::Whole(_)));
        }
    }

    #[test]
    fn zeroes_are_told_apart() {
        assert_eq!(examine(&[0; 4096], 7, 5), Found::Zero);
        assert_eq!(examine(&[1; 4096], 7, 5), Found::Foreign);
    }
}
