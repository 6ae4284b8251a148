//! The space that extents take: whole rows.
//!
//! **Owns** the rounding of an extent to the rows of a vdev. **Called by** the write budget, checkpoints and verification.
//! **Invariant**: an extent that the allocator gives out takes no more than this. A mirror has rows of one sector.
//! `docs/decisions/0156`, `docs/decisions/0157`.

/// The space that an extent takes on whichever vdev of a pool it lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExtentSpace {
    /// Bytes of data of a row, of each vdev; no size twice.
    rows: Vec<u64>,
}

impl ExtentSpace {
    /// The space on vdevs with rows of these sizes, bytes.
    #[must_use]
    pub fn new(rows: impl IntoIterator<Item = u64>) -> Self {
        let mut rows: Vec<u64> = rows.into_iter().filter(|row| *row > 0).collect();
        rows.sort_unstable();
        rows.dedup();
        Self { rows }
    }

    /// The most bytes that an extent of `bytes` bytes takes.
    #[must_use]
    pub fn most(&self, bytes: u64) -> u64 {
        let rounded = self.rows.iter().map(|row| bytes.next_multiple_of(*row));
        rounded.max().unwrap_or(bytes)
    }

    /// The most bytes that `bytes` bytes in extents of `size` bytes each take. The fragments of a record take
    /// as much as the record: all of them but the last are whole rows.
    #[must_use]
    pub fn in_extents(&self, bytes: u64, size: u64) -> u64 {
        let most = self.most(size);
        if most == size || size == 0 {
            return bytes;
        }
        let all = u128::from(bytes) * u128::from(most);
        u64::try_from(all.div_ceil(size.into())).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::ExtentSpace;

    #[test]
    fn an_extent_takes_whole_rows_of_the_vdev_that_is_worst_for_it() {
        let mirror = ExtentSpace::new([4096]);
        assert_eq!(mirror.most(8192), 8192);
        assert_eq!(mirror.in_extents(5 << 20, 4096), 5 << 20);
        // raidz of 6 and of 8 data columns
        let mixed = ExtentSpace::new([4096, 6 * 4096, 8 * 4096, 4096]);
        assert_eq!(mixed.most(4096), 8 * 4096);
        assert_eq!(mixed.most(8 * 4096), 12 * 4096);
        assert_eq!(mixed.in_extents(3 * 4096, 4096), 24 * 4096);
        assert_eq!(mixed.in_extents(2 * 8 * 4096, 8 * 4096), 24 * 4096);
        assert_eq!(mixed.in_extents(100, 0), 100, "no extents");
    }
}
