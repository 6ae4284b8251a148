//! Node builder: encodes tree nodes.
//!
//! **Owns** [`NodeBuilder`], the writing side of a tree node. **Called by** the merge. **Invariant**: its bytes decode, if no
//! entry is younger than the node. `docs/format.md`, "Tree node".

use std::ops::Range;

use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::node::{
    END_SIZE, FLAG_LOST, MAGIC, RawHeader, TAG_BLOCK, TAG_INLINE, TAG_PARTS, VERSION,
};
use super::{
    Birth, BlockPtr, INLINE_SIZE_MAX, KEY_SIZE, Key, LEVEL_MAX, NODE_HEADER_SIZE, NODE_SIZE_MAX,
    Node, TreeId, Value,
};

/// Entries of one level in key order. Nodes are taken from the front.
#[derive(Debug, Clone)]
pub struct NodeBuilder {
    level: u8,
    keys: Vec<Key>,
    /// End of each value in `values`.
    ends: Vec<u32>,
    values: Vec<u8>,
}

impl NodeBuilder {
    /// Creates a builder for nodes of `level`, without entries.
    ///
    /// # Panics
    /// If the level is above [`LEVEL_MAX`].
    #[must_use]
    pub fn new(level: u8) -> Self {
        assert!(level <= LEVEL_MAX, "level {level}");
        Self {
            level,
            keys: Vec::new(),
            ends: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Bytes of the first `count` entries in a node's body.
    ///
    /// # Panics
    /// If there are fewer entries.
    #[must_use]
    pub fn size_of(&self, count: usize) -> usize {
        let fixed = if self.level == 0 {
            KEY_SIZE + END_SIZE
        } else {
            KEY_SIZE
        };
        count * fixed + count.checked_sub(1).map_or(0, |i| self.ends[i] as usize)
    }

    /// Bytes of all entries in a node's body.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size_of(self.len())
    }

    /// Appends an entry of a leaf.
    ///
    /// # Panics
    /// If the key is not above the last one, or the value is malformed.
    pub fn push_value(&mut self, key: Key, value: &Value) {
        assert!(self.level == 0);
        self.push_key(key);
        match value {
            Value::Block(block) => {
                self.values.push(match block.has_parts() {
                    true => TAG_PARTS,
                    false => TAG_BLOCK,
                });
                block.encode(&mut self.values);
            }
            Value::Inline(bytes) => {
                assert!(bytes.len() <= INLINE_SIZE_MAX, "{} bytes", bytes.len());
                self.values.push(TAG_INLINE);
                self.values.extend_from_slice(bytes);
            }
        }
        self.ends.push(self.values.len() as u32);
    }

    /// Appends a child.
    ///
    /// # Panics
    /// If the key is not above the last one, or the pointer is malformed.
    pub fn push_child(&mut self, key: Key, ptr: &BlockPtr) {
        assert!(self.level > 0);
        self.push_key(key);
        self.values.extend_from_slice(&ptr.encode());
        self.ends.push(self.values.len() as u32);
    }

    /// Appends entries of another leaf unchanged.
    ///
    /// # Panics
    /// If the keys are not above the last one, or there are no such entries.
    pub fn push_entries(&mut self, leaf: &Node, entries: Range<usize>) {
        assert!(self.level == 0);
        let from = leaf.value_range(entries.clone());
        let base = self.values.len();
        for index in entries {
            self.push_key(leaf.key(index));
            self.ends.push((base + leaf.end(index) - from.start) as u32);
        }
        self.values.extend_from_slice(&leaf.values()[from]);
    }

    fn push_key(&mut self, key: Key) {
        assert!(key < Key::END && self.keys.last().is_none_or(|last| *last < key));
        self.keys.push(key);
    }

    /// The first key; `None` if there are no entries.
    #[must_use]
    pub fn first_key(&self) -> Option<Key> {
        self.keys.first().copied()
    }

    /// The child, if it is the only entry.
    #[must_use]
    pub fn only_child(&self) -> Option<BlockPtr> {
        let bytes = self.values.as_slice().try_into().ok()?;
        let only = self.level > 0 && self.len() == 1;
        only.then(|| BlockPtr::decode(bytes).expect("encoded here"))
    }

    /// Number of entries from the front that fit into `capacity` bytes.
    #[must_use]
    pub fn fitting(&self, capacity: usize) -> usize {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high).div_ceil(2);
            if self.size_of(middle) <= capacity {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// Returns the encoded stand-in for lost keys.
    ///
    /// # Panics
    /// If there are no keys.
    #[must_use]
    pub fn stand_in(keys: &Range<Key>, tree: TreeId, birth: Birth) -> Vec<u8> {
        assert!(keys.start < keys.end);
        let mut builder = Self::new(0);
        builder.push_value(keys.start, &Value::Inline(keys.end.encode().into()));
        let mut bytes = builder.take_node(1, tree, birth);
        let flags = std::mem::offset_of!(RawHeader, flags);
        bytes[flags..flags + 4].copy_from_slice(&FLAG_LOST.to_le_bytes());
        bytes
    }

    /// Removes the first `count` entries. Returns them as an encoded node.
    ///
    /// # Panics
    /// If there are fewer entries, or they do not fit into the largest node.
    #[must_use]
    pub fn take_node(&mut self, count: usize, tree: TreeId, birth: Birth) -> Vec<u8> {
        let body_size = self.size_of(count);
        assert!(count > 0 && birth.0 > 0);
        assert!(body_size <= NODE_SIZE_MAX as usize - NODE_HEADER_SIZE);
        let header = RawHeader {
            magic: MAGIC,
            version: VERSION,
            level: self.level,
            count: U16::new(count as u16),
            body_size: U32::new(body_size as u32),
            flags: U32::ZERO,
            tree: U64::new(tree.0),
            birth: U64::new(birth.0),
        };
        let mut bytes = Vec::with_capacity(NODE_HEADER_SIZE + body_size);
        bytes.extend_from_slice(header.as_bytes());
        for key in self.keys.drain(..count) {
            bytes.extend_from_slice(&key.encode());
        }
        let values_size = self.ends[count - 1];
        for end in self.ends.drain(..count) {
            if self.level == 0 {
                bytes.extend_from_slice(&(end as u16).to_le_bytes());
            }
        }
        bytes.extend(self.values.drain(..values_size as usize));
        for end in &mut self.ends {
            *end -= values_size;
        }
        bytes
    }
}
