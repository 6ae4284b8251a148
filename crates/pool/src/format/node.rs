//! Tree nodes.
//!
//! **Owns** their layout, and [`Node`], which reads it in place; [`super::NodeBuilder`] writes it. **Called by** the trees.
//! **Invariants**: a [`Node`] was checked completely (lengths, order of keys, every value, births), so reading it cannot
//! fail; the bytes of a builder pass this check. `docs/format.md`, "Tree node".

use std::fmt;
use std::ops::Range;

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{BLOCK_PTR_SIZE, Birth, Block, BlockPtr, Compression, Defect, KEY_SIZE, Key, layout};

/// Length of a node header, bytes.
pub const NODE_HEADER_SIZE: usize = 32;
/// Most bytes of a node, unless the tree has another limit.
pub const NODE_SIZE_DEFAULT: u32 = 16 << 10;
/// Smallest limit of a tree.
pub const NODE_SIZE_MIN: u32 = 4 << 10;
/// Largest limit of a tree.
pub const NODE_SIZE_MAX: u32 = 64 << 10;
/// Most bytes of an inline value.
pub const INLINE_SIZE_MAX: usize = 1024;
/// Highest level. With 21 children per node, the fewest in full nodes of 4 KiB, it is enough for 2^52 leaves.
pub const LEVEL_MAX: u8 = 12;
/// Length of an entry above the leaves, bytes.
pub const BRANCH_ENTRY_SIZE: usize = KEY_SIZE + BLOCK_PTR_SIZE;
/// Length of a leaf entry without its value's payload, bytes: key, end, tag.
pub const LEAF_ENTRY_OVERHEAD: usize = KEY_SIZE + END_SIZE + 1;

/// Significant bits of a distance between keys. Times an index, it fits into 64 bits.
const GUESS_BITS: u32 = 48;

pub(super) const END_SIZE: usize = 2;
pub(super) const MAGIC: [u8; 4] = *b"WPtn";
pub(super) const VERSION: u8 = 1;
/// Flag of a stand-in for lost keys.
pub(super) const FLAG_LOST: u32 = 1;
pub(super) const TAG_BLOCK: u8 = 1;
pub(super) const TAG_INLINE: u8 = 2;
pub(super) const TAG_PARTS: u8 = 3;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawHeader {
    pub(super) magic: [u8; 4],
    pub(super) version: u8,
    pub(super) level: u8,
    pub(super) count: U16,
    pub(super) body_size: U32,
    pub(super) flags: U32,
    pub(super) tree: U64,
    pub(super) birth: U64,
}
layout!(RawHeader, NODE_HEADER_SIZE, magic @ 0, version @ 4, level @ 5, count @ 6, body_size @ 8, flags @ 12,
    tree @ 16, birth @ 24);

/// The tree that wrote a node. Clones share nodes, so it may differ from the tree that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TreeId(pub u64);

/// Most bytes of a tree's nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeSize(u32);

impl NodeSize {
    /// A size of `bytes`; `None` unless it is a multiple of 4 KiB from [`NODE_SIZE_MIN`] to [`NODE_SIZE_MAX`].
    #[must_use]
    pub fn new(bytes: u32) -> Option<Self> {
        let fits = (NODE_SIZE_MIN..=NODE_SIZE_MAX).contains(&bytes);
        (fits && bytes.is_multiple_of(NODE_SIZE_MIN)).then_some(Self(bytes))
    }

    /// The size in bytes.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }

    /// Bytes of entries in a full node.
    #[must_use]
    pub fn capacity(self) -> usize {
        self.0 as usize - NODE_HEADER_SIZE
    }
}

impl Default for NodeSize {
    fn default() -> Self {
        Self(NODE_SIZE_DEFAULT)
    }
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A block with the data.
    Block(Block),
    /// The data itself, at most [`INLINE_SIZE_MAX`] bytes.
    Inline(Box<[u8]>),
}

/// A [`Value`] inside a node's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueRef<'a> {
    /// A pointer to a block with the data, and the encoded checksums of its parts: empty if it has none.
    Block(BlockPtr, &'a [u8]),
    /// The data itself.
    Inline(&'a [u8]),
}

impl ValueRef<'_> {
    /// Copies the value.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            ValueRef::Block(ptr, sums) => Value::Block(Block::of(ptr, sums)),
            ValueRef::Inline(bytes) => Value::Inline(bytes.into()),
        }
    }
}

impl Value {
    /// The block that it points to, with the checksums of its parts; `None` for an inline value.
    #[must_use]
    pub fn as_block(&self) -> Option<&Block> {
        match self {
            Value::Block(block) => Some(block),
            Value::Inline(_) => None,
        }
    }

    /// The pointer to its block; `None` for an inline value.
    #[must_use]
    pub fn block(&self) -> Option<&BlockPtr> {
        self.as_block().map(Block::ptr)
    }
}

/// A node that was read and checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Node {
    bytes: Box<[u8]>,
    level: u8,
    count: usize,
    tree: TreeId,
    birth: Birth,
    /// The lost keys, in a stand-in for a part of a lost node. Such a node has no entries.
    lost: Option<Range<Key>>,
    /// Copies of the first and last key. Every visit of a node needs them, and reading them from the node costs a cache miss.
    first_key: Key,
    last_key: Key,
}

impl Node {
    /// Returns the node in `bytes`, which were read for `ptr`, after a check of checksum and structure.
    ///
    /// # Errors
    /// The first defect.
    pub fn load(ptr: &BlockPtr, bytes: Vec<u8>) -> Result<Self, Defect> {
        if ptr.compression != Compression::Off {
            return Err(Defect::Field {
                field: "compression of a node",
                value: 1,
            });
        }
        ptr.verify(&bytes)?;
        Self::decode(bytes)
    }

    /// Returns the node in `bytes`, after a check of its structure.
    ///
    /// # Errors
    /// The first defect.
    pub fn decode(bytes: Vec<u8>) -> Result<Self, Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let Ok((header, body)) = RawHeader::ref_from_prefix(&bytes) else {
            return Err(Defect::Length {
                what: "node header",
                got: bytes.len(),
                want: NODE_HEADER_SIZE,
            });
        };
        if header.magic != MAGIC {
            return field("node's magic", u32::from_le_bytes(header.magic).into());
        }
        if header.version != VERSION {
            return field("node's version", header.version.into());
        }
        if header.level > LEVEL_MAX {
            return field("node's level", header.level.into());
        }
        let is_lost = header.flags.get() == FLAG_LOST;
        if header.flags != U32::ZERO && !is_lost {
            return field("node's flags", header.flags.get().into());
        }
        if header.birth.get() == 0 {
            return field("node's birth", 0);
        }
        let body_size = header.body_size.get() as usize;
        if bytes.len() > NODE_SIZE_MAX as usize || body.len() != body_size {
            return Err(Defect::Length {
                what: "node body",
                got: body.len(),
                want: body_size.min(NODE_SIZE_MAX as usize - NODE_HEADER_SIZE),
            });
        }
        let count = usize::from(header.count.get());
        if count == 0 {
            return field("node's count", 0);
        }
        let mut node = Self {
            level: header.level,
            count,
            tree: TreeId(header.tree.get()),
            birth: Birth(header.birth.get()),
            bytes: bytes.into_boxed_slice(),
            lost: None,
            first_key: Key::START,
            last_key: Key::START,
        };
        if node.is_leaf() {
            node.check_leaf()?;
        } else {
            node.check_branch()?;
        }
        node.first_key = node.key(0);
        node.last_key = node.key(count - 1);
        if is_lost {
            node.lost = Some(node.lost_keys()?);
            node.count = 0;
        }
        Ok(node)
    }

    /// The keys of a stand-in: its only entry has the first one, and the end of the keys as its value.
    fn lost_keys(&self) -> Result<Range<Key>, Defect> {
        let wrong = |what| Err(Defect::Value { index: 0, what });
        if !self.is_leaf() || self.count != 1 {
            return wrong("a stand-in with more than one entry");
        }
        let ValueRef::Inline(end) = self.value(0) else {
            return wrong("a stand-in with a block");
        };
        match end.try_into().map(Key::decode) {
            Ok(end) if end > self.first_key => Ok(self.first_key..end),
            _ => wrong("no end of the lost keys"),
        }
    }

    fn check_keys(&self) -> Result<(), Defect> {
        for index in 1..self.count {
            if self.key(index - 1) >= self.key(index) {
                return Err(Defect::KeyOrder { index });
            }
        }
        let last = self.count - 1;
        if self.key(last) == Key::END {
            return Err(Defect::KeyReserved { index: last });
        }
        Ok(())
    }

    fn check_branch(&self) -> Result<(), Defect> {
        let want = self.count * BRANCH_ENTRY_SIZE;
        self.check_body("node entries", want, |got| got == want)?;
        self.check_keys()?;
        for index in 0..self.count {
            let ptr = BlockPtr::decode(self.child_bytes(index))?;
            if ptr.placed > self.birth {
                return Err(Defect::Younger { index });
            }
        }
        Ok(())
    }

    fn check_leaf(&self) -> Result<(), Defect> {
        let fixed = self.count * (KEY_SIZE + END_SIZE);
        self.check_body("leaf entries", fixed, |got| got >= fixed)?;
        self.check_keys()?;
        let values_size = self.body().len() - fixed;
        let mut start = 0;
        for index in 0..self.count {
            let end = self.end(index);
            if end < start || end > values_size {
                return Err(Defect::Value {
                    index,
                    what: "its end is out of order",
                });
            }
            self.check_value(index, &self.values()[start..end])?;
            start = end;
        }
        self.check_body("leaf values", fixed + start, |got| got == fixed + start)
    }

    fn check_value(&self, index: usize, value: &[u8]) -> Result<(), Defect> {
        let wrong = |what| Err(Defect::Value { index, what });
        match value.split_first() {
            Some((&TAG_BLOCK, payload)) => {
                let Ok(payload) = payload.try_into() else {
                    return wrong("a block pointer of another length");
                };
                self.check_age(index, &BlockPtr::decode(payload)?)
            }
            Some((&TAG_PARTS, payload)) => {
                let (ptr, _sums) = Block::decode_in_parts(payload)?;
                self.check_age(index, &ptr)
            }
            Some((&TAG_INLINE, payload)) if payload.len() <= INLINE_SIZE_MAX => Ok(()),
            Some((&TAG_INLINE, _)) => wrong("an inline value that is too long"),
            Some(_) => wrong("a tag that is not known"),
            None => wrong("no tag"),
        }
    }

    fn check_age(&self, index: usize, ptr: &BlockPtr) -> Result<(), Defect> {
        match ptr.placed > self.birth {
            true => Err(Defect::Younger { index }),
            false => Ok(()),
        }
    }

    fn check_body(
        &self,
        what: &'static str,
        want: usize,
        fits: impl Fn(usize) -> bool,
    ) -> Result<(), Defect> {
        let got = self.body().len();
        if fits(got) {
            Ok(())
        } else {
            Err(Defect::Length { what, got, want })
        }
    }

    /// Level; 0 for a leaf.
    #[must_use]
    pub fn level(&self) -> u8 {
        self.level
    }

    /// Whether it is a leaf.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.level == 0
    }

    /// Number of entries: at least 1, or 0 in a stand-in for lost keys.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The lost keys for which the node stands. `docs/format.md`, "Lost keys".
    #[must_use]
    pub fn lost(&self) -> Option<&Range<Key>> {
        self.lost.as_ref()
    }

    /// The tree that wrote it.
    #[must_use]
    pub fn tree(&self) -> TreeId {
        self.tree
    }

    /// The epoch in which it was written.
    #[must_use]
    pub fn birth(&self) -> Birth {
        self.birth
    }

    /// The bytes on disk.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of its entries.
    #[must_use]
    pub fn body_size(&self) -> usize {
        self.body().len()
    }

    /// The key of entry `index`.
    ///
    /// # Panics
    /// If there is no such entry.
    #[must_use]
    pub fn key(&self, index: usize) -> Key {
        assert!(index < self.count);
        let at = NODE_HEADER_SIZE + index * KEY_SIZE;
        let bytes = self.bytes[at..at + KEY_SIZE].try_into();
        Key::decode(bytes.expect("a slice of that length"))
    }

    /// The first key.
    #[must_use]
    pub fn first_key(&self) -> Key {
        self.first_key
    }

    /// The last key.
    #[must_use]
    pub fn last_key(&self) -> Key {
        self.last_key
    }

    /// Number of keys below `key`, which is the index of the first key that is not.
    #[must_use]
    pub fn lower_bound(&self, key: Key) -> usize {
        self.partition(key, |k| k < key)
    }

    /// Number of keys up to `key`, which is the index of the first key above it.
    #[must_use]
    pub fn upper_bound(&self, key: Key) -> usize {
        self.partition(key, |k| k <= key)
    }

    /// Number of keys for which `is_before` is true; `key` is close to the last of them. Searches first at the index that
    /// evenly spread keys would have, as those of a volume have, and then at growing distances, so that few cache lines are
    /// read.
    fn partition(&self, key: Key, is_before: impl Fn(Key) -> bool) -> usize {
        let (mut low, mut high) = (0, self.count);
        let mut probe = self.guess(key);
        let mut step = 1;
        while low < high {
            if is_before(self.key(probe)) {
                low = probe + 1;
                probe = low + step - 1;
            } else {
                high = probe;
                probe = high.saturating_sub(step);
            }
            if probe >= low && probe < high {
                step *= 2;
            } else {
                probe = low + (high - low) / 2;
            }
        }
        low
    }

    /// The index of `key` if keys were spread evenly.
    fn guess(&self, key: Key) -> usize {
        let (first, last) = (self.first_key(), self.last_key());
        let of = first.up_to(last);
        let shift = (u128::BITS - of.leading_zeros()).saturating_sub(GUESS_BITS);
        let of = (of >> shift) as u64;
        let far = (first.up_to(key.min(last)) >> shift) as u64;
        let last = self.count.saturating_sub(1);
        (far * last as u64)
            .checked_div(of)
            .map_or(0, |at| at as usize)
    }

    /// The pointer of child `index`, in a node above the leaves.
    ///
    /// # Panics
    /// If there is no such child.
    #[must_use]
    pub fn child(&self, index: usize) -> BlockPtr {
        BlockPtr::decode(self.child_bytes(index)).expect("checked when decoded")
    }

    /// The value of entry `index`, in a leaf.
    ///
    /// # Panics
    /// If there is no such entry.
    #[must_use]
    pub fn value(&self, index: usize) -> ValueRef<'_> {
        let value = &self.values()[self.value_range(index..index + 1)];
        let (tag, payload) = value.split_first().expect("checked when decoded");
        match *tag {
            TAG_INLINE => ValueRef::Inline(payload),
            _ => {
                let (ptr, sums) = payload.split_first_chunk().expect("checked when decoded");
                ValueRef::Block(BlockPtr::decode(ptr).expect("checked when decoded"), sums)
            }
        }
    }

    fn body(&self) -> &[u8] {
        &self.bytes[NODE_HEADER_SIZE..]
    }

    fn child_bytes(&self, index: usize) -> &[u8; BLOCK_PTR_SIZE] {
        assert!(!self.is_leaf() && index < self.count);
        let at = self.count * KEY_SIZE + index * BLOCK_PTR_SIZE;
        let bytes = self.body()[at..at + BLOCK_PTR_SIZE].try_into();
        bytes.expect("a slice of that length")
    }

    pub(super) fn end(&self, index: usize) -> usize {
        let at = self.count * KEY_SIZE + index * END_SIZE;
        let bytes = self.body()[at..at + END_SIZE].try_into();
        usize::from(u16::from_le_bytes(bytes.expect("a slice of that length")))
    }

    pub(super) fn values(&self) -> &[u8] {
        &self.body()[self.count * (KEY_SIZE + END_SIZE)..]
    }

    /// Range of the entries' values in `values`.
    pub(super) fn value_range(&self, entries: Range<usize>) -> Range<usize> {
        assert!(self.is_leaf() && entries.start < entries.end && entries.end <= self.count);
        let start = entries.start.checked_sub(1).map_or(0, |i| self.end(i));
        start..self.end(entries.end - 1)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Node(level {}, {} entries {:?}..={:?}, tree {}, birth {})",
            self.level,
            self.count,
            self.first_key(),
            self.last_key(),
            self.tree.0,
            self.birth.0
        )
    }
}
