//! Blocks of which no side has a right copy.
//!
//! **Owns** the list of those that somebody came by: reads of clients, checkpoints, scrub, resilver. **Called by** whatever
//! reads a block, and by whoever says what clients lose. **Invariants**: a block is on it once; it has [`LOST_MAX`] blocks
//! at most, and says if there were more; a block that is read again, or that a scrub came by and found right, leaves it.
//! A scrub that came to its end has met every block that it did not find lost again, or nothing holds it any more.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;
use crate::format::{Address, BLOCK_PTR_SIZE, Birth, BlockPtr, KEY_SIZE, Key, TreeId};
use crate::shared::lock;

/// Blocks that are remembered.
pub const LOST_MAX: usize = 1000;

/// Bytes of an encoded [`LostBlock`].
const ENCODED_SIZE: usize = 10 + 2 * KEY_SIZE + BLOCK_PTR_SIZE;

/// A block of which no side has a right copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostBlock {
    /// The tree in which it was met.
    pub tree: TreeId,
    /// Whether it is a node of the tree, and not a record.
    pub is_node: bool,
    /// The first key that hangs on it.
    pub first: Key,
    /// All keys that hang on it are below this.
    pub end: Key,
    /// Where it should be.
    pub ptr: BlockPtr,
    /// A scrub is under way that has not come by it.
    is_doubted: bool,
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
        }
    }

    /// Bytes to keep it as; they are no part of the pool's format.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.is_node), u8::from(self.is_doubted)];
        bytes.extend(self.tree.0.to_le_bytes());
        bytes.extend(self.first.encode());
        bytes.extend(self.end.encode());
        bytes.extend(self.ptr.encode());
        bytes
    }

    /// What was encoded; none if these bytes are something else.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENCODED_SIZE] = bytes.try_into().ok()?;
        let (flags, rest) = bytes.split_first_chunk::<2>()?;
        let (tree, rest) = rest.split_first_chunk::<8>()?;
        let (first, rest) = rest.split_first_chunk::<KEY_SIZE>()?;
        let (end, ptr) = rest.split_first_chunk::<KEY_SIZE>()?;
        Some(Self {
            tree: TreeId(u64::from_le_bytes(*tree)),
            is_node: flags[0] != 0,
            first: Key::decode(*first),
            end: Key::decode(*end),
            ptr: BlockPtr::decode(ptr.try_into().ok()?).ok()?,
            is_doubted: flags[1] != 0,
        })
    }
}

#[derive(Default)]
struct List {
    blocks: BTreeMap<Address, LostBlock>,
    /// There was no room for one.
    more: bool,
}

/// The list of a pool.
#[derive(Default)]
pub(crate) struct Lost {
    /// Something is on it; reads look no further if not.
    any: AtomicBool,
    list: Mutex<List>,
}

impl Lost {
    /// Says that a block is lost, if that is what a read failed of.
    pub(crate) fn note(&self, error: &Error, block: LostBlock) {
        if !matches!(error, Error::Corrupt { .. } | Error::Unreadable { .. }) {
            return;
        }
        let mut list = lock(&self.list);
        let at = block.ptr.address();
        if list.blocks.len() >= LOST_MAX && !list.blocks.contains_key(&at) {
            list.more = true;
            return;
        }
        list.blocks.insert(at, block);
        self.any.store(true, Ordering::Release);
    }

    /// A block is right.
    pub(crate) fn is_right(&self, ptr: &BlockPtr) {
        if self.any.load(Ordering::Acquire) {
            self.forget(ptr);
        }
    }

    /// Whether a block is worth telling of.
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether somebody came by a block, since the last scrub began if one goes on.
    pub(crate) fn has(&self, ptr: &BlockPtr) -> bool {
        let list = lock(&self.list);
        let known = list.blocks.get(&ptr.address());
        known.is_some_and(|b| b.ptr == *ptr && !b.is_doubted)
    }

    pub(crate) fn forget(&self, ptr: &BlockPtr) {
        let mut list = lock(&self.list);
        let at = ptr.address();
        if list.blocks.get(&at).is_some_and(|b| b.ptr == *ptr) {
            list.blocks.remove(&at);
        }
        self.any.store(!list.blocks.is_empty(), Ordering::Release);
    }

    /// A scrub begins.
    pub(crate) fn doubt(&self) {
        let mut list = lock(&self.list);
        list.more = false;
        list.blocks.values_mut().for_each(|b| b.is_doubted = true);
    }

    /// A scrub of all that was born up to here came to its end.
    pub(crate) fn settle(&self, up_to: Birth) {
        let mut list = lock(&self.list);
        list.blocks
            .retain(|_, b| !b.is_doubted || b.ptr.birth > up_to);
        self.any.store(!list.blocks.is_empty(), Ordering::Release);
    }

    /// All of them, by address; and whether there were more.
    pub(crate) fn all(&self) -> (Vec<LostBlock>, bool) {
        let list = lock(&self.list);
        (list.blocks.values().copied().collect(), list.more)
    }

    /// What was known before a restart.
    pub(crate) fn restore(&self, blocks: impl IntoIterator<Item = LostBlock>) {
        let mut list = lock(&self.list);
        for block in blocks.into_iter().take(LOST_MAX) {
            list.blocks.entry(block.ptr.address()).or_insert(block);
        }
        self.any.store(!list.blocks.is_empty(), Ordering::Release);
    }
}
