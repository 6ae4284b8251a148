//! The entries of a range of keys, in either direction.
//!
//! **Owns** the merged view of layers and tree. **Called by** reads of many records, directory listings, deletes of
//! what a range holds. **Invariants**: each key comes once, with its newest value; nodes are read only as the scan
//! comes to them, and not if a deleted range hides all that they may hold.

use std::ops::Range;
use std::sync::Arc;

use super::cursor::{Cursor, Head};
use super::layer::{self, Layer};
use super::need::{Need, Root};
use crate::Result;
use crate::format::{Key, Node, Value};

/// Where a scan goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To higher keys.
    Forward,
    /// To lower keys.
    Reverse,
}

/// How a scan goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanStep {
    /// Call [`Scan::supply`] with this node.
    Need(Need),
    /// The next key and its value.
    Entry(Key, Value),
    /// There are no more.
    Done,
}

/// A scan of a range of keys.
pub struct Scan {
    cursor: Cursor,
    direction: Direction,
    /// Keys to come.
    rest: Range<Key>,
    /// The nearest point of the layers in `rest`, once it has been looked for.
    point: Option<Option<(Key, Option<Value>)>>,
}

impl Scan {
    /// Starts to scan the entries with keys in `keys` of the tree at `root`, below the layers that each step is given.
    #[must_use]
    pub fn new(root: Root, keys: Range<Key>, direction: Direction) -> Self {
        Self {
            cursor: Cursor::new(root, keys.clone(), direction),
            direction,
            rest: keys,
            point: None,
        }
    }

    /// What is next, below `layers`, newest first: those that go with the root at every step. A change that is made
    /// between two steps is seen if it lies beyond the next entry; after a merge, the scan goes on with the old root
    /// and layers, or starts anew from [`Scan::rest`].
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

    /// The keys to come.
    #[must_use]
    pub fn rest(&self) -> Range<Key> {
        self.rest.clone()
    }

    /// Here is the node that is needed.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another one.
    ///
    /// # Panics
    /// If none is needed.
    pub fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        self.cursor.supply(node)
    }
}
