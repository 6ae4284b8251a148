//! Walk: visits every block of a tree that was born after an epoch.
//!
//! **Owns** the walk. **Called by** send, scrub, and the freeing of a dropped subtree. **Invariants**: a parent is never
//! older than its child, so all blocks below an old pointer are old and are not read.

use std::ops::Range;
use std::sync::Arc;

use super::cursor::Frame;
use super::need::{Need, Root};
use crate::Result;
use crate::format::{Birth, BlockPtr, Key, Node, Value};

/// An element that a walk visits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Visit {
    /// A node born since; its contents follow.
    Node(BlockPtr),
    /// The node, which was visited before, is a stand-in for these lost keys.
    Lost(BlockPtr, Range<Key>),
    /// An entry of a leaf born since. It may be older itself.
    Entry(Key, Value),
    /// A node not born since; nothing below it is visited.
    Older(BlockPtr),
}

/// Next step of a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WalkStep {
    /// Call [`Walk::supply`] with this node.
    Need(Need),
    /// The next element.
    Visit(Visit),
    /// No further elements.
    Done,
}

/// A walk in key order, parents before children.
pub struct Walk {
    since: Birth,
    start: Key,
    next: Option<Need>,
    /// The node that was supplied and not visited yet.
    supplied: Option<BlockPtr>,
    /// The lost keys of the node that was visited last, which were not visited yet.
    lost: Option<(BlockPtr, Range<Key>)>,
    frames: Vec<Frame>,
}

impl Walk {
    /// Begins to walk the blocks born after `since` in the tree, or subtree, at `root`, from `start` on. A walk that is
    /// resumed visits the nodes above that key again.
    #[must_use]
    pub fn new(root: Root, since: Birth, start: Key) -> Self {
        Self {
            since,
            start,
            next: root.map(Need::root),
            supplied: None,
            lost: None,
            frames: Vec::new(),
        }
    }

    /// Returns the next step.
    pub fn step(&mut self) -> WalkStep {
        if let Some(ptr) = self.supplied.take() {
            return WalkStep::Visit(Visit::Node(ptr));
        }
        if let Some((ptr, keys)) = self.lost.take() {
            return WalkStep::Visit(Visit::Lost(ptr, keys));
        }
        loop {
            match self.next {
                Some(need) if need.ptr.birth > self.since => return WalkStep::Need(need),
                Some(need) => {
                    self.next = None;
                    return WalkStep::Visit(Visit::Older(need.ptr));
                }
                None => {}
            }
            let Some(frame) = self.frames.last_mut() else {
                return WalkStep::Done;
            };
            match frame.left.next() {
                None => {
                    self.frames.pop();
                }
                Some(index) if frame.node.is_leaf() => {
                    let value = frame.node.value(index).to_value();
                    return WalkStep::Visit(Visit::Entry(frame.node.key(index), value));
                }
                Some(index) => self.next = Some(Need::child(&frame.node, index, frame.end)),
            }
        }
    }

    /// Supplies the needed node.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another node. The walk may go on after [`Walk::skip`].
    ///
    /// # Panics
    /// If no node is needed.
    pub fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        let need = self.next.expect("a node is needed");
        need.check(&node)?;
        self.next = None;
        self.supplied = Some(need.ptr);
        self.lost = node.lost().map(|keys| (need.ptr, keys.clone()));
        let keys = self.start..Key::END;
        self.frames.push(Frame::new(node, need.end(), &keys));
        Ok(())
    }

    /// The keys below the node that was supplied last.
    #[must_use]
    pub fn keys(&self) -> Range<Key> {
        let of = |frame: &Frame| frame.node.first_key()..frame.end;
        self.frames.last().map_or(Key::START..Key::END, of)
    }

    /// Skips the needed node, which cannot be read, and everything below it.
    pub fn skip(&mut self) {
        self.next = None;
    }
}
