//! Layers: sorted changes in memory that a tree does not have yet.
//!
//! **Owns** one layer's deltas in key order, and their memory. **Called by** a dataset, which changes the top layer, freezes
//! it at snapshots and checkpoints, and has frozen ones merged. **Invariants**: within a layer a point delta is newer than
//! the range deletes that cover it; ranges neither overlap nor touch; a value of this layer that a later change replaces is
//! returned at once; the merge finds replaced values of older layers and of the tree.

use std::collections::BTreeMap;
use std::mem::size_of;
use std::ops::{Bound, Range};
use std::sync::Arc;

use crate::format::{INLINE_SIZE_MAX, Key, Value};

/// Approximate memory of a map's entry besides key and value, bytes: B-tree nodes are two thirds full.
const ENTRY_OVERHEAD: usize = 32;

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// The key gets this value.
    Put(Value),
    /// The key gets no value.
    Delete,
}

impl Delta {
    /// The new value; `None` for a delete.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match self {
            Delta::Put(value) => Some(value),
            Delta::Delete => None,
        }
    }

    fn into_value(self) -> Option<Value> {
        match self {
            Delta::Put(value) => Some(value),
            Delta::Delete => None,
        }
    }

    fn memory(&self) -> usize {
        let inline = match self {
            Delta::Put(Value::Inline(bytes)) => bytes.len(),
            Delta::Put(Value::Block(block)) => block.sums().len(),
            Delta::Delete => 0,
        };
        size_of::<(Key, Delta)>() + ENTRY_OVERHEAD + inline
    }
}

const RANGE_MEMORY: usize = size_of::<(Key, Key)>() + ENTRY_OVERHEAD;

/// Changes of one layer.
#[derive(Debug, Clone, Default)]
pub struct Layer {
    points: BTreeMap<Key, Delta>,
    /// Deleted ranges: start, and exclusive end.
    ranges: BTreeMap<Key, Key>,
    memory: usize,
}

impl Layer {
    /// Creates a layer without changes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the value of `key`. Returns its previous value in this layer.
    ///
    /// # Panics
    /// If the key is [`Key::END`] or an inline value is too long.
    pub fn put(&mut self, key: Key, value: Value) -> Option<Value> {
        assert!(key < Key::END);
        if let Value::Inline(bytes) = &value {
            assert!(bytes.len() <= INLINE_SIZE_MAX, "{} bytes", bytes.len());
        }
        self.set(key, Delta::Put(value))
    }

    /// Deletes `key`. Returns its previous value in this layer.
    ///
    /// # Panics
    /// If the key is [`Key::END`].
    pub fn delete(&mut self, key: Key) -> Option<Value> {
        assert!(key < Key::END);
        if self.covers(key) {
            return self.forget(key);
        }
        self.set(key, Delta::Delete)
    }

    /// Deletes all keys in `keys`. Calls `replaced` with their previous values in this layer.
    pub fn delete_range(&mut self, keys: Range<Key>, mut replaced: impl FnMut(Value)) {
        if keys.is_empty() {
            return;
        }
        while let Some(key) = self.points.range(keys.clone()).next().map(|(k, _)| *k) {
            if let Some(value) = self.forget(key) {
                replaced(value);
            }
        }
        let Range { mut start, mut end } = keys;
        while let Some((s, e)) = self.range_touching(start, end) {
            self.ranges.remove(&s);
            self.memory -= RANGE_MEMORY;
            start = start.min(s);
            end = end.max(e);
        }
        self.ranges.insert(start, end);
        self.memory += RANGE_MEMORY;
    }

    fn range_touching(&self, start: Key, end: Key) -> Option<(Key, Key)> {
        let (s, e) = self.ranges.range(..=end).next_back()?;
        (*e >= start).then_some((*s, *e))
    }

    fn set(&mut self, key: Key, delta: Delta) -> Option<Value> {
        self.memory += delta.memory();
        let old = self.points.insert(key, delta)?;
        self.memory -= old.memory();
        old.into_value()
    }

    fn forget(&mut self, key: Key) -> Option<Value> {
        let old = self.points.remove(&key)?;
        self.memory -= old.memory();
        old.into_value()
    }

    /// Makes the layer immutable and shared.
    #[must_use]
    pub fn freeze(self) -> Arc<Layer> {
        Arc::new(self)
    }

    /// The layer's change of `key`: its value, or `Some(None)` if it was deleted; `None` if the layer does not change it.
    #[must_use]
    pub fn get(&self, key: Key) -> Option<Option<&Value>> {
        match self.points.get(&key) {
            Some(delta) => Some(delta.value()),
            None => self.covers(key).then_some(None),
        }
    }

    /// Whether a range delete covers `key`; a point delta of the same layer is newer than it.
    #[must_use]
    pub fn covers(&self, key: Key) -> bool {
        let before = self.ranges.range(..=key).next_back();
        before.is_some_and(|(_, end)| key < *end)
    }

    /// Whether a range delete covers all of `keys`; point deltas of the same layer are newer than it.
    #[must_use]
    pub fn covers_all(&self, keys: &Range<Key>) -> bool {
        let before = self.ranges.range(..=keys.start).next_back();
        before.is_some_and(|(_, end)| keys.end <= *end)
    }

    /// Whether it has no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.ranges.is_empty()
    }

    /// Number of changes: points and ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points.len() + self.ranges.len()
    }

    /// A copy of the changes of these keys, with at most `max` points. Returns the key where the copy ends, too.
    pub(crate) fn part(&self, keys: &Range<Key>, max: usize) -> (Layer, Key) {
        let mut part = Layer::new();
        let mut points = self.points.range(keys.clone());
        for (key, delta) in points.by_ref().take(max) {
            part.set(*key, delta.clone());
        }
        let end = points.next().map_or(keys.end, |(key, _)| *key);
        let before = self.ranges.range(..=keys.start).next_back();
        let within = self
            .ranges
            .range(keys.start.next()..end.max(keys.start.next()));
        for (start, range_end) in before.into_iter().chain(within) {
            let (start, range_end) = ((*start).max(keys.start), (*range_end).min(end));
            if start < range_end {
                part.ranges.insert(start, range_end);
                part.memory += RANGE_MEMORY;
            }
        }
        (part, end)
    }

    /// Approximate memory, bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.memory
    }

    /// Point deltas in key order.
    pub fn points(&self) -> std::collections::btree_map::Iter<'_, Key, Delta> {
        self.points.iter()
    }

    /// Consumes the layer: point deltas in key order.
    pub(crate) fn into_points(self) -> impl Iterator<Item = (Key, Delta)> {
        self.points.into_iter()
    }

    /// Deleted ranges in key order: start, and exclusive end.
    pub fn ranges(&self) -> std::collections::btree_map::Iter<'_, Key, Key> {
        self.ranges.iter()
    }

    /// The first point in `keys`; the last one if `last`.
    pub(super) fn nearest(&self, keys: &Range<Key>, last: bool) -> Option<(Key, &Delta)> {
        if keys.is_empty() {
            return None;
        }
        let bounds = (Bound::Included(keys.start), Bound::Excluded(keys.end));
        let mut found = self.points.range(bounds);
        let found = if last {
            found.next_back()
        } else {
            found.next()
        };
        found.map(|(k, d)| (*k, d))
    }
}

/// The change of `key` by several layers, newest first; `None` if none changes it.
pub(super) fn get<'a>(layers: &[&'a Layer], key: Key) -> Option<Option<&'a Value>> {
    layers.iter().find_map(|layer| layer.get(key))
}

/// The first point in `keys` of several layers, newest first; the last one if `last`. Its value is `None` if it is deleted.
pub(super) fn nearest<'a>(
    layers: &[&'a Layer],
    keys: &Range<Key>,
    last: bool,
) -> Option<(Key, Option<&'a Value>)> {
    let found = layers.iter().filter_map(|l| l.nearest(keys, last));
    let keys = found.map(|(key, _)| key);
    let key = if last { keys.max() } else { keys.min() }?;
    Some((key, get(layers, key).flatten()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Kind, ObjectId};

    fn key(offset: u64) -> Key {
        Key::new(ObjectId(1), Kind(0), offset)
    }

    fn value(n: u8) -> Value {
        Value::Inline([n].into())
    }

    #[test]
    fn a_replaced_value_is_returned() {
        let mut layer = Layer::new();
        assert_eq!(layer.put(key(1), value(1)), None);
        assert_eq!(layer.put(key(1), value(2)), Some(value(1)));
        assert_eq!(layer.delete(key(1)), Some(value(2)));
        assert_eq!(layer.delete(key(1)), None);
        assert_eq!(layer.get(key(1)), Some(None));
        assert_eq!(layer.get(key(2)), None);
    }

    #[test]
    fn ranges_join_and_points_stay_above_them() {
        let mut layer = Layer::new();
        layer.put(key(5), value(5));
        let mut replaced = Vec::new();
        layer.delete_range(key(0)..key(10), |v| replaced.push(v));
        assert_eq!(replaced, [value(5)]);
        layer.put(key(7), value(7));
        layer.delete_range(key(10)..key(20), |_| unreachable!());
        layer.delete_range(key(30)..key(40), |_| unreachable!());
        layer.delete_range(key(15)..key(30), |_| unreachable!());
        assert_eq!(layer.ranges().collect::<Vec<_>>(), [(&key(0), &key(40))]);
        assert_eq!(layer.get(key(7)), Some(Some(&value(7))));
        assert_eq!(layer.get(key(8)), Some(None));
        assert_eq!(layer.get(key(40)), None);
        assert_eq!(layer.delete(key(7)), Some(value(7)));
        assert_eq!(layer.len(), 1);
    }

    #[test]
    fn memory_is_the_same_after_put_and_delete() {
        let mut layer = Layer::new();
        layer.put(key(1), Value::Inline([0; 100].into()));
        assert!(layer.memory() >= 100 + size_of::<(Key, Delta)>());
        layer.delete_range(key(0)..key(9), |_| {});
        assert_eq!(layer.memory(), RANGE_MEMORY);
        assert!(Layer::new().is_empty() && !layer.is_empty());
    }
}
