//! Sums of the blocks below a node, which distinguish sets of blocks.
//!
//! **Owns** the sums, and a memo of them by node. **Called by** the walk of datasets' trees. **Invariants**: two sets of
//! blocks with equal sums are equal, except with probability 2^-128; the sums of parts add up to the sums of the whole.

use std::collections::HashMap;
use std::ops::{Add, AddAssign, Sub};

use xxhash_rust::xxh3::xxh3_128;

use super::limits::MEMO_MAX;
use crate::format::{Address, BlockPtr, BlockSizes, Checksum};

/// A set of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes in whole sectors.
    pub space: u64,
    /// Bytes of records as stored, without the padding of their last sectors.
    pub records: u64,
    /// Bytes of records after decompression.
    pub logical: u64,
    /// Nodes, and records by size as stored. On a deadlist all blocks count as nodes.
    pub sizes: BlockSizes,
    /// Identity of the set: sum of the hashes of its pointers.
    pub(super) identity: u128,
    /// Number of nodes that could not be read. The blocks below them are in no sum.
    pub(super) unread: u64,
}

impl Sums {
    /// The sums of one block.
    pub(super) fn of(ptr: &BlockPtr, space: u64, is_record: bool) -> Self {
        let of_record = |size: u32| if is_record { size.into() } else { 0 };
        let mut sizes = BlockSizes::default();
        match is_record {
            true => sizes.count_record(ptr.physical_size),
            false => sizes.count_node(ptr.physical_size),
        }
        Self {
            blocks: 1,
            space,
            records: of_record(ptr.physical_size),
            logical: of_record(ptr.logical_size),
            sizes,
            identity: xxh3_128(&ptr.encode()),
            unread: 0,
        }
    }

    /// The sums of a node that could not be read.
    pub(super) fn unread() -> Self {
        Self {
            unread: 1,
            ..Self::default()
        }
    }

    /// Whether both are the same set of blocks. Bytes of records are not compared, because a deadlist does not record them.
    pub(super) fn are(&self, other: &Self) -> bool {
        (self.blocks, self.space, self.identity) == (other.blocks, other.space, other.identity)
    }
}

impl Add for Sums {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            blocks: self.blocks.wrapping_add(other.blocks),
            space: self.space.wrapping_add(other.space),
            records: self.records.wrapping_add(other.records),
            logical: self.logical.wrapping_add(other.logical),
            sizes: self.sizes.plus(other.sizes),
            identity: self.identity.wrapping_add(other.identity),
            unread: self.unread.wrapping_add(other.unread),
        }
    }
}

impl AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Sums {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            blocks: self.blocks.wrapping_sub(other.blocks),
            space: self.space.wrapping_sub(other.space),
            records: self.records.wrapping_sub(other.records),
            logical: self.logical.wrapping_sub(other.logical),
            sizes: self.sizes.minus(other.sizes),
            identity: self.identity.wrapping_sub(other.identity),
            // Nothing is known about unread nodes on either side.
            unread: self.unread.wrapping_add(other.unread),
        }
    }
}

/// Sums of the nodes that were visited.
#[derive(Default)]
pub(super) struct Memo(HashMap<Address, (Checksum, Sums)>);

impl Memo {
    pub(super) fn get(&self, ptr: &BlockPtr) -> Option<Sums> {
        let (checksum, below) = self.0.get(&ptr.address())?;
        (*checksum == ptr.checksum).then_some(*below)
    }

    pub(super) fn put(&mut self, ptr: &BlockPtr, below: Sums) {
        if self.0.len() < MEMO_MAX {
            self.0.insert(ptr.address(), (ptr.checksum, below));
        }
    }
}
