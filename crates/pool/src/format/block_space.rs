//! The space that blocks take.
//!
//! **Owns** the rounding of a block's stored bytes to sectors. **Called by** everything that counts, places or reads blocks.
//! **Invariant**: a block takes whole sectors in every layout of a vdev. `docs/format.md`, "Space"; `docs/decisions/0150`.

use super::BlockPtr;

/// The space that blocks take on the vdevs of a pool: whole sectors, in every layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSpace {
    sector: u32,
}

impl BlockSpace {
    /// Space in sectors of `sector` bytes, a power of two.
    #[must_use]
    pub fn new(sector: u32) -> Self {
        Self { sector }
    }

    /// Bytes that the stored bytes of a block take.
    #[must_use]
    pub fn of(self, stored: u32) -> u32 {
        stored.next_multiple_of(self.sector)
    }

    /// Bytes that a block takes.
    #[must_use]
    pub fn of_block(self, ptr: &BlockPtr) -> u64 {
        self.of(ptr.physical_size).into()
    }
}
