//! A tree goes: every block of it that was born after an epoch, children before their parents.
//!
//! **Owns** that course. **Called by** checkpoints, for what was destroyed. **Invariants**: a node is told of after
//! everything below it, so that what is left is a tree still, and the course may begin anew at [`Reap::place`], also
//! when what was told of is overwritten; it holds one path.

use std::sync::Arc;

use super::cursor::Frame;
use super::need::{Need, Root};
use crate::Result;
use crate::format::{Birth, BlockPtr, Key, Node};

/// How it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReapStep {
    /// Call [`Reap::supply`] with this node.
    Need(Need),
    /// A record's block.
    Record(BlockPtr),
    /// A node; nothing below it is left.
    Node(BlockPtr),
    /// There is no more.
    Done,
}

/// The course.
pub struct Reap {
    since: Birth,
    from: Key,
    next: Option<Need>,
    /// The path, with the pointer to each node.
    frames: Vec<(BlockPtr, Frame)>,
}

impl Reap {
    /// Begins with what was born after `since` in the tree at `root`, of which entries below `from` are gone.
    #[must_use]
    pub fn new(root: Root, since: Birth, from: Key) -> Self {
        Self {
            since,
            from,
            next: root.map(Need::root),
            frames: Vec::new(),
        }
    }

    /// What is next.
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

    /// Where it may begin anew, if a node is needed: all that is below this key was told of.
    #[must_use]
    pub fn place(&self) -> Key {
        let first = self.next.and_then(|need| need.first());
        first.map_or(self.from, |first| first.max(self.from))
    }

    /// Here is the node that is needed.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another one. It may go on after [`Reap::skip`].
    ///
    /// # Panics
    /// If none is needed.
    pub fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        let need = self.next.expect("a node is needed");
        need.check(&node)?;
        self.next = None;
        let keys = self.from..Key::END;
        let frame = Frame::new(node, need.end(), &keys);
        self.frames.push((need.ptr, frame));
        Ok(())
    }

    /// The node that is needed cannot be had: what is below it is left out.
    pub fn skip(&mut self) {
        self.next = None;
    }
}
