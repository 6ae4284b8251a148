//! Scan of a range of keys, in either direction.
//!
//! **Owns** the merged view of layers and tree. **Called by** reads of many records, directory listings, and deletes of a
//! range's blocks. **Invariants**: each key is returned once, with its newest value; a node is read only when the scan
//! reaches it, and not if a deleted range hides all its keys.

use std::ops::Range;
use std::sync::Arc;

use super::cursor::{Cursor, Direction, Head};
use super::layer::{self, Layer};
use super::need::{Need, Root};
use crate::Result;
use crate::format::{Key, Node, Value};

/// Next step of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanStep {
    /// Call [`Scan::supply`] with this node.
    Need(Need),
    /// The next key and its value.
    Entry(Key, Value),
    /// No further entries.
    Done,
}

/// A scan of a range of keys.
pub struct Scan {
    cursor: Cursor,
    direction: Direction,
    /// Keys that remain.
    rest: Range<Key>,
    /// The nearest point of the layers in `rest`; the outer `None` if it was not searched yet.
    point: Option<Option<(Key, Option<Value>)>>,
}

impl Scan {
    /// Begins to scan the keys in `keys` of the tree at `root`, below the layers that each step gets.
    #[must_use]
    pub fn new(root: Root, keys: Range<Key>, direction: Direction) -> Self {
        Self {
            cursor: Cursor::new(root, keys.clone(), direction),
            direction,
            rest: keys,
            point: None,
        }
    }

    /// Returns the next step, with `layers`, newest first, above the tree. The layers must belong to the root at every step.
    /// A change between two steps is seen if it is behind the next entry. After a merge, continue with the old root and
    /// layers, or begin another scan from [`Scan::rest`].
    pub fn step(&mut self, layers: &[&Layer]) -> ScanStep {
        let reverse = self.direction == Direction::Reverse;
        loop {
            let hidden = |keys: &Range<Key>| layers.iter().any(|l| l.covers_all(keys));
            let entry = match self.cursor.head(hidden) {
                Head::Need(need) => return ScanStep::Need(need),
                Head::Entry(leaf, index) => Some((leaf.key(index), leaf, index)),
                Head::End => None,
            };
            let rest = &self.rest;
            let point = self.point.get_or_insert_with(|| {
                let found = layer::nearest(layers, rest, reverse);
                found.map(|(key, value)| (key, value.cloned()))
            });
            let entry_key = entry.map(|(key, ..)| key);
            let point_key = point.as_ref().map(|(key, _)| *key);
            let keys = entry_key.into_iter().chain(point_key);
            let Some(key) = (if reverse { keys.max() } else { keys.min() }) else {
                return ScanStep::Done;
            };
            let value = if point_key == Some(key) {
                let value = point.take().and_then(|(_, value)| value);
                self.point = None;
                value
            } else {
                let visible = entry.filter(|_| !layers.iter().any(|l| l.covers(key)));
                visible.map(|(_, leaf, index)| leaf.value(index).to_value())
            };
            if entry_key == Some(key) {
                self.cursor.advance();
            }
            if reverse {
                self.rest.end = key;
            } else {
                self.rest.start = key.next();
            }
            if let Some(value) = value {
                return ScanStep::Entry(key, value);
            }
        }
    }

    /// The keys that remain.
    #[must_use]
    pub fn rest(&self) -> Range<Key> {
        self.rest.clone()
    }

    /// Supplies the needed node.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another node, or keys of the scan are lost.
    ///
    /// # Panics
    /// If no node is needed.
    pub fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        self.cursor.supply(node)
    }
}
