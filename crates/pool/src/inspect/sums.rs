//! What hangs below a node, in numbers that tell sets of blocks apart.
//!
//! **Owns** the sums and the memory of them. **Called by** the way through datasets' trees. **Invariants**: two sets of
//! blocks with equal sums are equal, but for a chance of 2^-128; sums of parts add up to that of the whole.

use std::collections::HashMap;
use std::ops::{Add, AddAssign, Sub};

use xxhash_rust::xxh3::xxh3_128;

use super::limits::MEMO_MAX;
use crate::format::{Address, BlockPtr, Checksum};

/// A set of blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Blocks.
    pub blocks: u64,
    /// Their bytes in whole sectors.
    pub space: u64,
    /// Of them, bytes of records as stored, without what fills their last sectors.
    pub records: u64,
    /// The same once decompressed.
    pub logical: u64,
    /// Which they are: the sum of their pointers' hashes.
    pub(super) identity: u128,
    /// Nodes that could not be read: what hangs below them is in no sum.
    pub(super) unread: u64,
}

impl Sums {
    /// One block.
    pub(super) fn of(ptr: &BlockPtr, space: u64, is_record: bool) -> Self {
        let of_record = |size: u32| if is_record { size.into() } else { 0 };
        Self {
            blocks: 1,
            space,
            records: of_record(ptr.physical_size),
            logical: of_record(ptr.logical_size),
            identity: xxh3_128(&ptr.encode()),
            unread: 0,
        }
    }

    /// A node that could not be read.
    pub(super) fn unread() -> Self {
        Self {
            unread: 1,
            ..Self::default()
        }
    }

    /// Whether both are the same blocks. What records are among them is not compared: a list does not tell.
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
            identity: self.identity.wrapping_sub(other.identity),
            // of what could not be read nothing is known on either side
            unread: self.unread.wrapping_add(other.unread),
        }
    }
}

/// Nodes that were come by.
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
