//! Cursor: a position in a tree that advances from entry to entry.
//!
//! **Owns** the path from the root to an entry. **Called by** scans, walks and comparisons. **Invariant**: a frame's `left`
//! is the range of its node's entries that remain.

use std::ops::Range;
use std::sync::Arc;

use super::need::{Need, Root, child_end};
use crate::Result;
use crate::format::{Key, Node};

/// Direction of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To higher keys.
    Forward,
    /// To lower keys.
    Reverse,
}

/// A node on the path.
pub(super) struct Frame {
    pub(super) node: Arc<Node>,
    /// Entries that remain.
    pub(super) left: Range<usize>,
    /// Exclusive upper bound of its keys.
    pub(super) end: Key,
}

impl Frame {
    /// The entries of `node` that remain for `keys`: entries with such keys, or children that may have them.
    pub(super) fn new(node: Arc<Node>, end: Key, keys: &Range<Key>) -> Self {
        let first = if node.is_leaf() {
            node.lower_bound(keys.start)
        } else {
            node.upper_bound(keys.start).saturating_sub(1)
        };
        let left = first..node.lower_bound(keys.end).max(first);
        Self { node, left, end }
    }

    /// The keys that child `index` may have.
    pub(super) fn child_keys(&self, index: usize) -> Range<Key> {
        self.node.key(index)..child_end(&self.node, index, self.end)
    }
}

/// The next element.
pub(super) enum Head<'a> {
    /// A node must be supplied.
    Need(Need),
    /// This entry of this leaf.
    Entry(&'a Node, usize),
    /// No further entries.
    End,
}

/// A position in a tree.
pub(super) struct Cursor {
    keys: Range<Key>,
    direction: Direction,
    need: Option<Need>,
    frames: Vec<Frame>,
}

impl Cursor {
    /// Creates a cursor before the first entry in `keys`, or behind the last one.
    pub(super) fn new(root: Root, keys: Range<Key>, direction: Direction) -> Self {
        Self {
            need: root.filter(|_| !keys.is_empty()).map(Need::root),
            keys,
            direction,
            frames: Vec::new(),
        }
    }

    /// Returns the next element. Skips subtrees whose keys are all `hidden`.
    pub(super) fn head(&mut self, hidden: impl Fn(&Range<Key>) -> bool) -> Head<'_> {
        while self.need.is_none() {
            let Some(frame) = self.frames.last_mut() else {
                return Head::End;
            };
            if frame.left.is_empty() {
                self.frames.pop();
            } else if frame.node.is_leaf() {
                break;
            } else {
                let index = next(&mut frame.left, self.direction);
                if !hidden(&frame.child_keys(index)) {
                    self.need = Some(Need::child(&frame.node, index, frame.end));
                }
            }
        }
        match (self.need, self.frames.last()) {
            (Some(need), _) => Head::Need(need),
            (None, Some(frame)) => {
                let index = next(&mut frame.left.clone(), self.direction);
                Head::Entry(&frame.node, index)
            }
            (None, None) => Head::End,
        }
    }

    /// Advances past the next entry.
    pub(super) fn advance(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            next(&mut frame.left, self.direction);
        }
    }

    /// Supplies the needed node.
    pub(super) fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        let need = self.need.expect("a node is needed");
        need.check_for(&node, &self.keys)?;
        self.need = None;
        self.frames.push(Frame::new(node, need.end(), &self.keys));
        Ok(())
    }
}

fn next(left: &mut Range<usize>, direction: Direction) -> usize {
    let index = match direction {
        Direction::Forward => left.next(),
        Direction::Reverse => left.next_back(),
    };
    index.expect("entries are left")
}
