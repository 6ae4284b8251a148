//! A place in a tree that moves from entry to entry.
//!
//! **Owns** the path from the root to an entry. **Called by** scans, walks and comparisons. **Invariant**: a frame's
//! `left` are the entries of its node that are to come.

use std::ops::Range;
use std::sync::Arc;

use super::need::{Need, Root, child_end};
use super::scan::Direction;
use crate::Result;
use crate::format::{Key, Node};

/// A node on the path.
pub(super) struct Frame {
    pub(super) node: Arc<Node>,
    /// Entries to come.
    pub(super) left: Range<usize>,
    /// All its keys are below this.
    pub(super) end: Key,
}

impl Frame {
    /// `node`, of which entries with keys in `keys`, or children that may hold such, are to come.
    pub(super) fn new(node: Arc<Node>, end: Key, keys: &Range<Key>) -> Self {
        let first = if node.is_leaf() {
            node.lower_bound(keys.start)
        } else {
            node.upper_bound(keys.start).saturating_sub(1)
        };
        let left = first..node.lower_bound(keys.end).max(first);
        Self { node, left, end }
    }

    /// The keys that child `index` may hold.
    pub(super) fn child_keys(&self, index: usize) -> Range<Key> {
        self.node.key(index)..child_end(&self.node, index, self.end)
    }
}

/// What is next.
pub(super) enum Head<'a> {
    /// A node must be supplied.
    Need(Need),
    /// This entry of this leaf.
    Entry(&'a Node, usize),
    /// Nothing.
    End,
}

/// A place in a tree.
pub(super) struct Cursor {
    keys: Range<Key>,
    direction: Direction,
    need: Option<Need>,
    frames: Vec<Frame>,
}

impl Cursor {
    /// Before the first, or last, entry with a key in `keys`.
    pub(super) fn new(root: Root, keys: Range<Key>, direction: Direction) -> Self {
        Self {
            need: root.filter(|_| !keys.is_empty()).map(Need::root),
            keys,
            direction,
            frames: Vec::new(),
        }
    }

    /// What is next. Subtrees all of whose keys are `hidden` are left out.
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

    /// Moves past the entry that is next.
    pub(super) fn advance(&mut self) {
        if let Some(frame) = self.frames.last_mut() {
            next(&mut frame.left, self.direction);
        }
    }

    /// Here is the node that is needed.
    pub(super) fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        let need = self.need.expect("a node is needed");
        need.check(&node)?;
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
