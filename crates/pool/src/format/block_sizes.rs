//! Numbers and bytes of a dataset's nodes, and of its records by their size as stored.
//!
//! **Owns** the classes of sizes, and their encoding at the end of a dataset's root. **Called by** merges, which count the blocks that they add and
//! remove, and by the offline reader. **Invariants**: the bytes of all classes of records add up to the bytes that the dataset refers to. `docs/format.md`,
//! "Datasets".

use super::Defect;
use super::block_ptr::SECTOR_SIZE_MIN;

/// Number of classes: up to 512 bytes, up to 1 KiB, and so on up to the largest record.
pub const SIZE_CLASSES: usize = 12;
/// Pairs of numbers in the encoding: nodes, and the classes of records.
const PAIRS: usize = 1 + SIZE_CLASSES;
/// Largest record of the last class, bytes.
pub(super) const CLASS_MAX: u64 = SECTOR_SIZE_MIN << (SIZE_CLASSES - 1);
/// Length of the encoding.
pub(super) const BLOCK_SIZES_SIZE: usize = PAIRS * 16;

/// Blocks of one class, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SizeClass {
    /// Number of blocks.
    pub blocks: u64,
    /// Their bytes, as stored, without the padding of their last sectors.
    pub bytes: u64,
}

impl SizeClass {
    fn count(&mut self, size: u32) {
        self.blocks += 1;
        self.bytes += u64::from(size);
    }
}

/// The nodes of a dataset, and its records by size as stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockSizes([SizeClass; PAIRS]);

impl BlockSizes {
    /// Counts a record of `size` bytes as stored.
    pub(crate) fn count_record(&mut self, size: u32) {
        let sectors = u64::from(size).div_ceil(SECTOR_SIZE_MIN).max(1);
        let index = sectors.next_power_of_two().trailing_zeros() as usize;
        self.0[1 + index.min(SIZE_CLASSES - 1)].count(size);
    }

    /// Counts a node of `size` bytes as stored.
    pub(crate) fn count_node(&mut self, size: u32) {
        self.0[0].count(size);
    }

    /// The nodes of the tree: of a filesystem also directories and inodes.
    #[must_use]
    pub fn nodes(self) -> SizeClass {
        self.0[0]
    }

    /// The classes of records, each with the largest size of its records, bytes.
    pub fn classes(self) -> impl Iterator<Item = (u64, SizeClass)> {
        let bounds = (0..).map(|index| SECTOR_SIZE_MIN << index);
        bounds.zip(self.0.into_iter().skip(1))
    }

    /// The records of at most `size` bytes as stored. Exact for the sizes of classes; else those of the classes below.
    #[must_use]
    pub fn up_to(self, size: u64) -> SizeClass {
        let classes = self.classes().filter(|(bound, _)| *bound <= size);
        classes.fold(SizeClass::default(), |sum, (_, class)| SizeClass {
            blocks: sum.blocks + class.blocks,
            bytes: sum.bytes + class.bytes,
        })
    }

    fn each(self, other: Self, with: fn(u64, u64) -> u64) -> Self {
        let pairs = std::array::from_fn(|i| (self.0[i], other.0[i]));
        Self(pairs.map(|(own, other): (SizeClass, SizeClass)| SizeClass {
            blocks: with(own.blocks, other.blocks),
            bytes: with(own.bytes, other.bytes),
        }))
    }

    /// The blocks of both.
    #[must_use]
    pub(crate) fn plus(self, other: Self) -> Self {
        self.each(other, u64::wrapping_add)
    }

    /// These blocks without others, which are among them.
    #[must_use]
    pub(crate) fn minus(self, other: Self) -> Self {
        self.each(other, u64::wrapping_sub)
    }

    /// These blocks without others; none where others are more, because some of them were on damaged nodes.
    #[must_use]
    pub(crate) fn without(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let numbers = self.0.iter().flat_map(|class| [class.blocks, class.bytes]);
        numbers.flat_map(u64::to_le_bytes).collect()
    }

    /// Decodes. Errors: a wrong length.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        if bytes.len() != BLOCK_SIZES_SIZE {
            return Err(Defect::Length {
                what: "sizes of a dataset's records",
                got: bytes.len(),
                want: BLOCK_SIZES_SIZE,
            });
        }
        let number = |at: usize| {
            let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        };
        Ok(Self(std::array::from_fn(|i| SizeClass {
            blocks: number(16 * i),
            bytes: number(16 * i + 8),
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_in_the_class_of_its_size() {
        let mut sizes = BlockSizes::default();
        for size in [1, 512, 513, 4096, 4097, 131_072, 1 << 20] {
            sizes.count_record(size);
        }
        sizes.count_node(4096);
        let class = |blocks, bytes| SizeClass { blocks, bytes };
        let counted: Vec<(u64, SizeClass)> =
            sizes.classes().filter(|(_, c)| c.blocks > 0).collect();
        let want = [
            (512, class(2, 513)),
            (1024, class(1, 513)),
            (4096, class(1, 4096)),
            (8192, class(1, 4097)),
            (131_072, class(1, 131_072)),
            (1 << 20, class(1, 1 << 20)),
        ];
        assert_eq!(counted, want);
        assert_eq!(sizes.nodes(), class(1, 4096));
        assert_eq!(sizes.up_to(4096), class(4, 513 + 513 + 4096));
        assert_eq!(sizes.up_to(6000), sizes.up_to(4096));
        assert_eq!(sizes.plus(sizes).minus(sizes), sizes);
        assert_eq!(sizes.without(sizes.plus(sizes)), BlockSizes::default());
    }

    #[test]
    fn sizes_decode_or_are_refused() {
        let mut sizes = BlockSizes::default();
        (1..40).for_each(|i| sizes.count_record(i * 4096));
        let bytes = sizes.encode();
        assert_eq!(bytes.len(), BLOCK_SIZES_SIZE);
        assert_eq!(BlockSizes::decode(&bytes), Ok(sizes));
        assert!(BlockSizes::decode(&bytes[1..]).is_err());
    }
}
