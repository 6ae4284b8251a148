//! Reaping of a destroyed tree: every block born after an epoch, children before their parents.
//!
//! **Owns** the order of visits. **Called by** checkpoints, for destroyed datasets. **Invariants**: a node is visited after
//! all blocks below it, so that the rest is still a tree, and reaping can be resumed at [`Reap::place`] even if visited
//! blocks are overwritten; memory is one path.

use std::sync::Arc;

use super::cursor::Frame;
use super::need::{Need, Root};
use crate::Result;
use crate::format::{Birth, BlockPtr, Key, Node};

/// Next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReapStep {
    /// Call [`Reap::supply`] with this node.
    Need(Need),
    /// A record's block.
    Record(BlockPtr),
    /// A node. All blocks below it were visited.
    Node(BlockPtr),
    /// No further blocks.
    Done,
}

/// The reaping of one tree.
pub struct Reap {
    since: Birth,
    from: Key,
    next: Option<Need>,
    /// The path, with the pointer to each node.
    frames: Vec<(BlockPtr, Frame)>,
}

impl Reap {
    /// Begins with the blocks born after `since` in the tree at `root`, of which entries below `from` were visited before.
    #[must_use]
    pub fn new(root: Root, since: Birth, from: Key) -> Self {
        Self {
            since,
            from,
            next: root.map(Need::root),
            frames: Vec::new(),
        }
    }

    /// Returns the next step.
    pub fn step(&mut self) -> ReapStep {
        loop {
            match self.next {
                Some(need) if need.ptr.birth > self.since => return ReapStep::Need(need),
                _ => self.next = None,
            }
            let Some((ptr, frame)) = self.frames.last_mut() else {
                return ReapStep::Done;
            };
            match frame.left.next() {
                None => {
                    let ptr = *ptr;
                    self.frames.pop();
                    return ReapStep::Node(ptr);
                }
                Some(index) if frame.node.is_leaf() => {
                    let value = frame.node.value(index).to_value();
                    if let Some(ptr) = value.block().filter(|ptr| ptr.birth > self.since) {
                        return ReapStep::Record(*ptr);
                    }
                }
                Some(index) => self.next = Some(Need::child(&frame.node, index, frame.end)),
            }
        }
    }

    /// If a node is needed: the key at which reaping can be resumed. All blocks below this key were visited.
    #[must_use]
    pub fn place(&self) -> Key {
        let first = self.next.and_then(|need| need.first());
        first.map_or(self.from, |first| first.max(self.from))
    }

    /// Supplies the needed node.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another node. Reaping may go on after [`Reap::skip`].
    ///
    /// # Panics
    /// If no node is needed.
    pub fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        let need = self.next.expect("a node is needed");
        need.check(&node)?;
        self.next = None;
        let keys = self.from..Key::END;
        let frame = Frame::new(node, need.end(), &keys);
        self.frames.push((need.ptr, frame));
        Ok(())
    }

    /// Skips the needed node, which cannot be read, and everything below it.
    pub fn skip(&mut self) {
        self.next = None;
    }
}
