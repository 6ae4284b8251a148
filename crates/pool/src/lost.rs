//! Lost blocks: blocks of which no member has a right copy.
//!
//! **Owns** the list of lost blocks found by reads, checkpoints, scrub and resilver. **Called by** all code that reads
//! blocks, and by the report of damage. **Invariants**: a block is on the list once; the list has at most [`LOST_MAX`]
//! blocks, and records whether there were more; a block that is read successfully, or that a scrub finds intact, is removed.
//! A complete scrub removes every block that it did not find lost again, because no dataset holds it any longer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;
use crate::format::{BLOCK_PTR_SIZE, Birth, BlockName, BlockPtr, KEY_SIZE, Key, TreeId};
use io::sync::lock;

/// Most blocks on the list.
pub const LOST_MAX: usize = 1000;

/// Length of an encoded [`LostBlock`], bytes.
const ENCODED_SIZE: usize = 10 + 2 * KEY_SIZE + BLOCK_PTR_SIZE;

/// A block of which no member has a right copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostBlock {
    /// The tree in which it was found.
    pub tree: TreeId,
    /// Whether it is a node of the tree; otherwise a record.
    pub is_node: bool,
    /// First key below it.
    pub first: Key,
    /// Exclusive upper bound of the keys below it.
    pub end: Key,
    /// Its pointer.
    pub ptr: BlockPtr,
    /// Whether a scrub is in progress that has not visited it.
    is_doubted: bool,
    /// Whether it is an intact stand-in for lost keys.
    is_stand_in: bool,
}

impl LostBlock {
    pub(crate) fn record(tree: TreeId, key: Key, ptr: BlockPtr) -> Self {
        Self {
            tree,
            is_node: false,
            first: key,
            end: key.next(),
            ptr,
            is_doubted: false,
            is_stand_in: false,
        }
    }

    /// Keys for which a node stands in.
    pub(crate) fn stand_in(tree: TreeId, keys: Range<Key>, ptr: BlockPtr) -> Self {
        Self {
            is_stand_in: true,
            ..Self::node(tree, keys, ptr)
        }
    }

    pub(crate) fn node(tree: TreeId, keys: Range<Key>, ptr: BlockPtr) -> Self {
        Self {
            tree,
            is_node: true,
            first: keys.start,
            end: keys.end,
            ptr,
            is_doubted: false,
            is_stand_in: false,
        }
    }

    /// Encodes the block, for the server's own file. Not part of the pool's format.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let kind = u8::from(self.is_node) | u8::from(self.is_stand_in) << 1;
        let mut bytes = vec![kind, u8::from(self.is_doubted)];
        bytes.extend(self.tree.0.to_le_bytes());
        bytes.extend(self.first.encode());
        bytes.extend(self.end.encode());
        bytes.extend(self.ptr.encode());
        bytes
    }

    /// Decodes a block; `None` if the bytes are invalid.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENCODED_SIZE] = bytes.try_into().ok()?;
        let (flags, rest) = bytes.split_first_chunk::<2>()?;
        let (tree, rest) = rest.split_first_chunk::<8>()?;
        let (first, rest) = rest.split_first_chunk::<KEY_SIZE>()?;
        let (end, ptr) = rest.split_first_chunk::<KEY_SIZE>()?;
        Some(Self {
            tree: TreeId(u64::from_le_bytes(*tree)),
            is_node: flags[0] & 1 != 0,
            is_stand_in: flags[0] & 2 != 0,
            first: Key::decode(*first),
            end: Key::decode(*end),
            ptr: BlockPtr::decode(ptr.try_into().ok()?).ok()?,
            is_doubted: flags[1] != 0,
        })
    }
}

#[derive(Default)]
struct List {
    blocks: BTreeMap<BlockName, LostBlock>,
    /// Whether a block did not fit.
    more: bool,
}

/// The lost blocks of a pool.
#[derive(Default)]
pub(crate) struct Lost {
    /// Whether the list has blocks. Reads check nothing else if it is empty.
    any: AtomicBool,
    list: Mutex<List>,
}

impl Lost {
    /// Adds a block, if `error` says that no member has it.
    pub(crate) fn note(&self, error: &Error, block: LostBlock) {
        if !matches!(error, Error::Corrupt { .. } | Error::Unreadable { .. }) {
            return;
        }
        let mut list = lock(&self.list);
        let name = BlockName::from(&block.ptr);
        if list.blocks.len() >= LOST_MAX && !list.blocks.contains_key(&name) {
            list.more = true;
            return;
        }
        list.blocks.insert(name, block);
        self.any.store(true, Ordering::Release);
    }

    /// Removes a block that is intact, unless it is a stand-in, whose keys are lost nevertheless.
    pub(crate) fn is_right(&self, ptr: &BlockPtr) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let is_stand_in = |b: &LostBlock| b.ptr == *ptr && b.is_stand_in;
        if !lock(&self.list)
            .blocks
            .get(&BlockName::from(ptr))
            .is_some_and(is_stand_in)
        {
            self.forget(ptr);
        }
    }

    /// Whether the list has blocks.
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether a block is on the list, also if a scrub in progress has not visited it.
    pub(crate) fn lists(&self, ptr: &BlockPtr) -> bool {
        let find = || lock(&self.list).blocks.contains_key(&BlockName::from(ptr));
        self.is_any() && find()
    }

    /// Whether a block is on the list; during a scrub, whether it was found since the scrub began.
    pub(crate) fn has(&self, ptr: &BlockPtr) -> bool {
        let list = lock(&self.list);
        let known = list.blocks.get(&BlockName::from(ptr));
        known.is_some_and(|b| b.ptr == *ptr && !b.is_doubted)
    }

    pub(crate) fn forget(&self, ptr: &BlockPtr) {
        let mut list = lock(&self.list);
        let name = BlockName::from(ptr);
        if list.blocks.get(&name).is_some_and(|b| b.ptr == *ptr) {
            list.blocks.remove(&name);
        }
        self.any.store(!list.blocks.is_empty(), Ordering::Release);
    }

    /// Begins a scrub: marks all blocks as not visited.
    pub(crate) fn begin_scrub(&self) {
        let mut list = lock(&self.list);
        list.more = false;
        list.blocks.values_mut().for_each(|b| b.is_doubted = true);
    }

    /// Ends a complete scrub of all blocks placed up to this epoch.
    pub(crate) fn end_scrub(&self, up_to: Birth) {
        let mut list = lock(&self.list);
        list.blocks
            .retain(|_, b| !b.is_doubted || b.ptr.placed > up_to);
        self.any.store(!list.blocks.is_empty(), Ordering::Release);
    }

    /// All blocks, by address; and whether there were more.
    pub(crate) fn all(&self) -> (Vec<LostBlock>, bool) {
        let list = lock(&self.list);
        (list.blocks.values().copied().collect(), list.more)
    }

    /// Adds blocks that were known before a restart.
    pub(crate) fn restore(&self, blocks: impl IntoIterator<Item = LostBlock>) {
        let mut list = lock(&self.list);
        for block in blocks.into_iter().take(LOST_MAX) {
            let name = BlockName::from(&block.ptr);
            list.blocks.entry(name).or_insert(block);
        }
        self.any.store(!list.blocks.is_empty(), Ordering::Release);
    }
}
