//! Deltas: the changes of several layers, merged in key order.
//!
//! **Owns** the choice of the delta that wins. **Called by** the merge. **Invariants**: for each key the newest delta wins; a
//! range delete masks points of older layers, and every entry of the tree; a losing value was never in a tree, so it is
//! reported as freed, once.

use std::collections::btree_map::Iter;
use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use super::layer::{Delta, Layer};
use crate::format::{BlockPtr, Key, Value};

/// A block of the old tree that the new tree lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freed {
    /// The block of a value.
    Data(BlockPtr),
    /// One node. Its children are in the new tree, or are reported by themselves.
    Node(BlockPtr),
    /// A node with all blocks below it, which were not read. [`super::Walk`] visits them.
    Subtree(BlockPtr),
}

struct Source<'a> {
    points: Peekable<Iter<'a, Key, Delta>>,
    /// Position in the ranges, for the union of all layers' ranges.
    ranges: Peekable<Iter<'a, Key, Key>>,
    /// Position in the ranges, to mask points of older layers. It is separate from `ranges` because points and ranges are not
    /// consumed in step.
    masks: Peekable<Iter<'a, Key, Key>>,
}

impl Source<'_> {
    fn masks(&mut self, key: Key) -> bool {
        while self.masks.next_if(|(_, end)| **end <= key).is_some() {}
        self.masks.peek().is_some_and(|(start, _)| **start <= key)
    }
}

/// The merged deltas.
pub(super) struct Deltas<'a> {
    /// Newest first.
    sources: Vec<Source<'a>>,
    point: Option<(Key, &'a Delta)>,
    range: Option<Range<Key>>,
}

impl<'a> Deltas<'a> {
    /// Merges the deltas of `layers`, newest first.
    pub(super) fn new(layers: &'a [Arc<Layer>], freed: &mut Vec<Freed>) -> Self {
        let sources = layers.iter().map(|layer| Source {
            points: layer.points().peekable(),
            ranges: layer.ranges().peekable(),
            masks: layer.ranges().peekable(),
        });
        let mut deltas = Self {
            sources: sources.collect(),
            point: None,
            range: None,
        };
        deltas.next_point(freed);
        deltas.next_range();
        deltas
    }

    /// The next point, if its key is below `end`.
    pub(super) fn point_below(&self, end: Key) -> Option<(Key, &'a Delta)> {
        self.point.filter(|(key, _)| *key < end)
    }

    /// The first deleted range that ends above `key`, which must not decrease from call to call.
    pub(super) fn range_above(&mut self, key: Key) -> Option<&Range<Key>> {
        while self.range.as_ref().is_some_and(|r| r.end <= key) {
            self.next_range();
        }
        self.range.as_ref()
    }

    /// The longest run of keys from `key` on, up to `until`, that are all deleted or all not: whether they are, and the end of the run. The
    /// key must not decrease from call to call.
    pub(super) fn run(&mut self, key: Key, until: Key) -> (bool, Key) {
        match self.range_above(key) {
            Some(range) if range.start <= key => (true, until.min(range.end)),
            Some(range) => (false, until.min(range.start)),
            None => (false, until),
        }
    }

    /// Whether no points and ranges remain.
    pub(super) fn is_empty(&self) -> bool {
        self.point.is_none() && self.range.is_none()
    }

    /// Advances to the next point that is not masked. Values that lose go to `freed`.
    pub(super) fn next_point(&mut self, freed: &mut Vec<Freed>) {
        self.point = None;
        while self.point.is_none() {
            let heads = self.sources.iter_mut().filter_map(|s| s.points.peek());
            let Some(key) = heads.map(|(key, _)| **key).min() else {
                return;
            };
            let mut masked = false;
            for source in &mut self.sources {
                if let Some((_, delta)) = source.points.next_if(|(k, _)| **k == key) {
                    match self.point {
                        None if !masked => self.point = Some((key, delta)),
                        winner => report_loser(delta, winner.map(|(_, d)| d), freed),
                    }
                }
                masked = masked || source.masks(key);
            }
        }
    }

    fn next_range(&mut self) {
        let heads = self.sources.iter_mut().filter_map(|s| s.ranges.peek());
        let Some(mut range) = heads.map(|(s, e)| **s..**e).min_by_key(|r| r.start) else {
            self.range = None;
            return;
        };
        let mut grew = true;
        while grew {
            grew = false;
            for source in &mut self.sources {
                while let Some((_, end)) = source.ranges.next_if(|(s, _)| **s <= range.end) {
                    grew = true;
                    range.end = range.end.max(*end);
                }
            }
        }
        self.range = Some(range);
    }
}

fn report_loser(loser: &Delta, winner: Option<&Delta>, freed: &mut Vec<Freed>) {
    let lost = loser.value().and_then(Value::block);
    let won = winner.and_then(Delta::value).and_then(Value::block);
    if let Some(ptr) = lost.filter(|ptr| won != Some(ptr)) {
        freed.push(Freed::Data(*ptr));
    }
}
