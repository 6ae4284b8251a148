//! Space bitmaps: used sectors of a vdev, by regions.
//!
//! **Owns** their entries in the pool's own tree. **Called by** the allocator and offline readers.
//! **Invariants**: a region without used sectors has no entry; bits outside the vdev's space are zero. `docs/format.md`,
//! "Space".

use super::{Defect, Key, Kind, ObjectId, VdevId};

/// Kind of the keys of bitmaps. The object is the vdev, the offset the region.
pub const KIND_SPACE: Kind = Kind(1);
/// Number of sectors of a region.
pub const REGION_SECTORS: u32 = 8192;
/// Length of a region's bitmap, bytes. Bit `n % 8` of byte `n / 8` is set if sector `n` is used.
pub const REGION_BITMAP_SIZE: usize = REGION_SECTORS as usize / 8;

const WORDS: usize = REGION_BITMAP_SIZE / 8;

/// The key of a region's bitmap.
#[must_use]
pub fn space_key(vdev: VdevId, region: u32) -> Key {
    Key::new(ObjectId(vdev.0.into()), KIND_SPACE, region.into())
}

/// A bit for each sector of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionBits(pub(crate) [u64; WORDS]);

impl Default for RegionBits {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl RegionBits {
    /// Encodes the value in the pool's own tree.
    #[must_use]
    pub fn encode(&self) -> [u8; REGION_BITMAP_SIZE] {
        let mut bytes = [0; REGION_BITMAP_SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a bitmap.
    ///
    /// # Errors
    /// A wrong length, or no set bit.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        if bytes.len() != REGION_BITMAP_SIZE {
            return Err(Defect::Length {
                what: "region's bitmap",
                got: bytes.len(),
                want: REGION_BITMAP_SIZE,
            });
        }
        let mut bits = Self::default();
        for (word, chunk) in bits.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        if bits.is_empty() {
            return Err(Defect::Field {
                field: "sectors used of a region that has an entry",
                value: 0,
            });
        }
        Ok(bits)
    }

    /// Whether no bit is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Number of set bits.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether any of `count` bits from `start` on is set.
    #[must_use]
    pub fn any(&self, start: u32, count: u32) -> bool {
        spans(start, count).any(|(word, mask)| self.0[word] & mask != 0)
    }

    /// Whether all of `count` bits from `start` on are set.
    #[must_use]
    pub fn all(&self, start: u32, count: u32) -> bool {
        spans(start, count).all(|(word, mask)| self.0[word] & mask == mask)
    }

    pub(crate) fn set(&mut self, start: u32, count: u32) {
        spans(start, count).for_each(|(word, mask)| self.0[word] |= mask);
    }

    pub(crate) fn clear(&mut self, start: u32, count: u32) {
        spans(start, count).for_each(|(word, mask)| self.0[word] &= !mask);
    }

    /// Sets the bits that are set in `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word |= other);
    }

    /// Clears the bits that are not set in `other`.
    pub(crate) fn keep(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word &= other);
    }

    /// Clears the bits that are set in `other`.
    pub(crate) fn remove(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word &= !other);
    }

    /// The first sector from `start` on, below `end`, whose bit equals `set`; `end` if there is none.
    pub(crate) fn next(&self, start: u32, end: u32, set: bool) -> u32 {
        let mut at = start;
        while at < end {
            let word = self.0[at as usize / 64];
            let word = if set { word } else { !word } >> (at % 64);
            if word != 0 {
                return (at + word.trailing_zeros()).min(end);
            }
            at = (at / 64 + 1) * 64;
        }
        end
    }
}

/// The words with these bits, each with the mask of the bits.
fn spans(start: u32, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = start + count;
    let mut at = start;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let bit = at % 64;
            let n = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - n)) << bit;
            let word = at as usize / 64;
            at += n;
            (word, mask)
        })
    })
}
