//! Blocks of records, with checksums of their parts.
//!
//! A long record that is stored as it is has a checksum of each part beside the pointer, so that a short read verifies only the
//! parts that it needs.
//!
//! **Owns** the size of parts, and the encoding of their checksums. **Called by** values of trees, the journal, write-back and
//! reads. **Invariants**: a block has the checksums of all of its parts or of none; the checksum in its pointer covers all of
//! its bytes in both cases. `docs/format.md`, "Checksums of parts"; `docs/decisions/0177`.

use std::ops::Range;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use super::checksum::place_of;
use super::{Address, BLOCK_PTR_SIZE, Birth, BlockPtr, ChecksumKind, Compression, Defect, Digest};

/// Smallest block that may have checksums of parts, bytes.
pub const PARTED_SIZE_MIN: u32 = 16 << 10;
/// Most parts of a block.
pub const PARTS_MAX: usize = 32;
/// Smallest part, bytes.
pub const PART_SIZE_MIN: u32 = 4 << 10;
/// Length of the checksum of a part, bytes.
const PART_SUM_SIZE: usize = 8;

/// Bytes of a part of a block of `size` bytes: the smallest power of two of which [`PARTS_MAX`] are enough.
fn part_size(size: u32) -> u32 {
    let least = size.div_ceil(PARTS_MAX as u32).next_power_of_two();
    least.max(PART_SIZE_MIN)
}

/// Bytes of the checksums of the parts of a block of `size` bytes, if it has any.
#[must_use]
pub fn part_sums_size(size: u32) -> usize {
    match size < PARTED_SIZE_MIN {
        true => 0,
        false => size.div_ceil(part_size(size)) as usize * PART_SUM_SIZE,
    }
}

/// The hashes of the parts of a block of these bytes.
fn part_hashes(stored: &[u8]) -> Box<[u64]> {
    let part = part_size(stored.len() as u32) as usize;
    stored.chunks(part).map(xxh3_64).collect()
}

/// The hashes of the stored bytes of a block, which do not depend on its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hashes {
    digest: Digest,
    /// Of each part; empty if the block gets no checksums of parts.
    parts: Box<[u64]>,
}

impl Hashes {
    /// The hashes of a block's stored bytes, for a checksum of the folded kind of `kind`. With those of parts if `has_parts` says that the
    /// bytes are not compressed, and parts are wanted, and if they may have parts.
    ///
    /// # Panics
    /// If there are 4 GiB or more.
    #[must_use]
    pub fn of(kind: ChecksumKind, stored: &[u8], has_parts: bool) -> Self {
        let digest = Digest::of(kind, stored);
        let has_parts = has_parts
            && digest.kind() == ChecksumKind::FoldedXxh3
            && stored.len() >= PARTED_SIZE_MIN as usize;
        Self {
            digest,
            parts: match has_parts {
                true => part_hashes(stored),
                false => Box::default(),
            },
        }
    }

    /// The hashes of a block's bytes, from its checksums. `None` if the kind of its checksum is not a folded one.
    #[must_use]
    pub fn of_block(block: &Block) -> Option<Self> {
        let ptr = block.ptr();
        let (at, len) = (ptr.address(), ptr.physical_size);
        let digest = Digest::of_checksum(ptr.checksum_kind, ptr.checksum, at, len)?;
        let (sums, _) = block.sums().as_chunks::<PART_SUM_SIZE>();
        let sums = sums.iter().enumerate();
        // folding a checksum with its address again gives the hash
        let hashes = sums.map(|(number, sum)| part_sum(ptr, number, u64::from_le_bytes(*sum)));
        Some(Self {
            digest,
            parts: hashes.map(u64::from_le_bytes).collect(),
        })
    }

    /// The kind of the checksum that they become.
    #[must_use]
    pub fn kind(&self) -> ChecksumKind {
        self.digest.kind()
    }

    /// Whether they have those of parts.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        !self.parts.is_empty()
    }
}

/// A block of a record: its pointer, and the checksums of its parts if it has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    ptr: BlockPtr,
    /// As on disk: one little-endian number for each part.
    sums: Option<Arc<[u8]>>,
}

impl From<BlockPtr> for Block {
    /// A block without checksums of parts.
    fn from(ptr: BlockPtr) -> Self {
        Self { ptr, sums: None }
    }
}

impl Block {
    /// The block of `ptr`, whose bytes are `stored`, with checksums of its parts if it may have them.
    #[must_use]
    pub fn in_parts(ptr: BlockPtr, stored: &[u8]) -> Self {
        match Self::may_have_parts(&ptr) {
            true => Self::with_parts(ptr, &part_hashes(stored)),
            false => ptr.into(),
        }
    }

    /// A block that is stored at `at`, whose stored bytes have these hashes.
    #[must_use]
    pub fn placed(at: Address, hashes: &Hashes, form: (Compression, usize), birth: Birth) -> Self {
        let ptr = BlockPtr::to_digest(at, hashes.digest, form, birth);
        match hashes.parts.is_empty() {
            true => ptr.into(),
            false => Self::with_parts(ptr, &hashes.parts),
        }
    }

    fn with_parts(ptr: BlockPtr, hashes: &[u64]) -> Self {
        let sums = hashes.iter().enumerate();
        let sums = sums.flat_map(|(number, hash)| part_sum(&ptr, number, *hash));
        Self {
            ptr,
            sums: Some(sums.collect()),
        }
    }

    /// As [`BlockPtr::with_contents_of`].
    ///
    /// # Panics
    /// As [`BlockPtr::with_contents_of`].
    #[must_use]
    pub fn with_contents_of(self, birth: Birth) -> Self {
        Self {
            ptr: self.ptr.with_contents_of(birth),
            ..self
        }
    }

    /// Whether the block of a pointer may have checksums of parts: it is long, not compressed, and has no keyed checksum,
    /// which a checksum of 64 bits could not replace.
    pub(crate) fn may_have_parts(ptr: &BlockPtr) -> bool {
        ptr.compression == Compression::Off
            && matches!(
                ptr.checksum_kind,
                ChecksumKind::Xxh3 | ChecksumKind::FoldedXxh3
            )
            && ptr.logical_size >= PARTED_SIZE_MIN
    }

    /// Its pointer.
    #[must_use]
    pub fn ptr(&self) -> &BlockPtr {
        &self.ptr
    }

    /// The encoded checksums of its parts; empty if it has none.
    #[must_use]
    pub fn sums(&self) -> &[u8] {
        self.sums.as_deref().unwrap_or_default()
    }

    /// Whether it has checksums of its parts.
    #[must_use]
    pub fn has_parts(&self) -> bool {
        self.sums.is_some()
    }

    /// Number of its parts with a checksum of their own; 0 if it has none.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.sums().len() / PART_SUM_SIZE
    }

    /// Length of [`Block::encode`], bytes.
    #[must_use]
    pub fn encoded_size(&self) -> usize {
        BLOCK_PTR_SIZE + self.sums().len()
    }

    /// Appends the pointer and the checksums of its parts.
    ///
    /// # Panics
    /// If the pointer's fields are inconsistent.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.ptr.encode());
        out.extend(self.sums());
    }

    /// Splits an encoded block with checksums of parts into the pointer and the checksums.
    ///
    /// # Errors
    /// A malformed pointer, a pointer to a block that may have no parts, or a wrong number of checksums.
    pub(super) fn decode_in_parts(bytes: &[u8]) -> Result<(BlockPtr, &[u8]), Defect> {
        let length = |want| Defect::Length {
            what: "block with checksums of parts",
            got: bytes.len(),
            want,
        };
        let (ptr, sums) = bytes
            .split_first_chunk()
            .ok_or(length(BLOCK_PTR_SIZE + PART_SUM_SIZE))?;
        let ptr = BlockPtr::decode(ptr)?;
        if !Self::may_have_parts(&ptr) {
            return Err(Defect::Field {
                field: "size of a block with checksums of parts, which is short, compressed or has a keyed checksum,",
                value: ptr.logical_size.into(),
            });
        }
        let want = part_sums_size(ptr.logical_size);
        match sums.len() == want {
            true => Ok((ptr, sums)),
            false => Err(length(BLOCK_PTR_SIZE + want)),
        }
    }

    /// The block of a decoded pointer with these encoded checksums of parts; none if they are empty.
    pub(super) fn of(ptr: BlockPtr, sums: &[u8]) -> Self {
        Self {
            ptr,
            sums: (!sums.is_empty()).then(|| sums.into()),
        }
    }

    /// Bytes of each of its parts, except the last one, which may be shorter.
    #[must_use]
    pub fn part_size(&self) -> usize {
        part_size(self.ptr.logical_size) as usize
    }

    /// The bytes of the whole parts that have these bytes of the block. `None` if it has no checksums of parts.
    #[must_use]
    pub fn parts_of(&self, bytes: &Range<usize>) -> Option<Range<usize>> {
        self.sums.as_ref()?;
        let (size, part) = (self.ptr.logical_size as usize, self.part_size());
        let start = bytes.start / part * part;
        Some(start..bytes.end.next_multiple_of(part).min(size))
    }

    /// Checks `bytes`, which are those of the parts from byte `from` of the block on.
    ///
    /// # Errors
    /// [`Defect::PartChecksum`] of the first part that is wrong.
    ///
    /// # Panics
    /// If the block has no checksums of parts, or `bytes` are not whole parts of it.
    pub fn verify_parts(&self, from: usize, bytes: &[u8]) -> Result<(), Defect> {
        let part = self.part_size();
        let sums = self.sums.as_deref().expect("a block with parts");
        let end = from + bytes.len();
        assert!(from.is_multiple_of(part) && end <= self.ptr.logical_size as usize);
        assert!(end.is_multiple_of(part) || end == self.ptr.logical_size as usize);
        let (sums, _) = sums.as_chunks::<PART_SUM_SIZE>();
        for (number, bytes) in (from / part..).zip(bytes.chunks(part)) {
            if part_sum(&self.ptr, number, xxh3_64(bytes)) != sums[number] {
                return Err(Defect::PartChecksum { number });
            }
        }
        Ok(())
    }
}

/// The checksum of a part of this hash, folded with its address and length.
fn part_sum(ptr: &BlockPtr, number: usize, hash: u64) -> [u8; PART_SUM_SIZE] {
    let part = part_size(ptr.logical_size) as usize;
    let start = number * part;
    let len = part.min(ptr.logical_size as usize - start);
    let place = xxh3_64(&place_of(ptr.address().behind(start), len));
    (hash ^ place).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 parts are enough for every size, and no value is larger than an inline one may be.
    #[test]
    fn parts_are_few() {
        for (size, part, sums) in [
            (PARTED_SIZE_MIN, 4 << 10, 4 * 8),
            ((16 << 10) + 1, 4 << 10, 5 * 8),
            (128 << 10, 4 << 10, 32 * 8),
            ((128 << 10) + 1, 8 << 10, 17 * 8),
            (1 << 20, 32 << 10, 32 * 8),
            (16 << 20, 512 << 10, 32 * 8),
        ] {
            assert_eq!(
                (part_size(size), part_sums_size(size)),
                (part, sums),
                "{size}"
            );
        }
        assert_eq!(part_sums_size(PARTED_SIZE_MIN - 1), 0);
    }
}
