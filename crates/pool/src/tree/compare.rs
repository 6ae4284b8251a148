//! Comparison of two trees.
//!
//! **Owns** the comparison. **Called by** [`super::memory`]. **Invariant**: shared subtrees are not read: a shared subtree
//! has the same first key in both trees, so both sides reach it at the same time.

use std::sync::Arc;

use super::cursor::Frame;
use super::need::{Need, Root};
use crate::Result;
use crate::format::{Key, Node, Value};

/// A key whose values differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Key,
    /// Its value in the old tree.
    pub old: Option<Value>,
    /// Its value in the new tree.
    pub new: Option<Value>,
}

/// Next step of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompareStep {
    /// Call [`Compare::supply`] with this node.
    Need(Need),
    /// The next difference.
    Change(Change),
    /// No further differences.
    Done,
}

/// The next element of one tree.
#[derive(Clone, Copy)]
enum Head {
    /// A root, whose first key and level are unknown.
    Root(Need),
    /// A subtree: its first key and level.
    Subtree(Key, u8, Need),
    /// An entry.
    Entry(Key),
    /// No further elements.
    End,
}

struct Side {
    root: Option<Need>,
    frames: Vec<Frame>,
}

impl Side {
    fn new(root: Root) -> Self {
        Self {
            root: root.map(Need::root),
            frames: Vec::new(),
        }
    }

    fn head(&mut self) -> Head {
        if let Some(need) = self.root {
            return Head::Root(need);
        }
        while self.frames.last().is_some_and(|f| f.left.is_empty()) {
            self.frames.pop();
        }
        let Some(frame) = self.frames.last() else {
            return Head::End;
        };
        let index = frame.left.start;
        let key = frame.node.key(index);
        if frame.node.is_leaf() {
            return Head::Entry(key);
        }
        let need = Need::child(&frame.node, index, frame.end);
        Head::Subtree(key, frame.node.level() - 1, need)
    }

    /// Advances past the next element.
    fn skip(&mut self) {
        if self.root.take().is_none()
            && let Some(frame) = self.frames.last_mut()
        {
            frame.left.next();
        }
    }

    /// Takes the value of the next entry if `wanted`, and advances. Otherwise returns `None` and does not advance.
    fn take_if(&mut self, wanted: bool) -> Option<Value> {
        let frame = self.frames.last_mut().filter(|_| wanted)?;
        let index = frame.left.next()?;
        Some(frame.node.value(index).to_value())
    }
}

/// A comparison of two trees, in key order.
pub struct Compare {
    old: Side,
    new: Side,
    /// The needed node, and whether it is of the new tree.
    need: Option<(Need, bool)>,
}

impl Compare {
    /// Begins to compare the tree at `old` with that at `new`.
    #[must_use]
    pub fn new(old: Root, new: Root) -> Self {
        let same = old == new;
        Self {
            old: Side::new(old.filter(|_| !same)),
            new: Side::new(new.filter(|_| !same)),
            need: None,
        }
    }

    /// Returns the next step.
    pub fn step(&mut self) -> CompareStep {
        loop {
            if let Some((need, _)) = self.need {
                return CompareStep::Need(need);
            }
            match (self.old.head(), self.new.head()) {
                (Head::End, Head::End) => return CompareStep::Done,
                (Head::Root(need), _) => self.need = Some((need, false)),
                (_, Head::Root(need)) => self.need = Some((need, true)),
                (Head::Subtree(.., a), Head::Subtree(.., b)) if a.ptr == b.ptr => {
                    self.old.skip();
                    self.new.skip();
                }
                (Head::Subtree(key_a, level_a, a), Head::Subtree(key_b, level_b, b)) => {
                    // Open the subtree that starts first, or else the higher one, which may contain the other.
                    let open_new = key_b < key_a || key_a == key_b && level_b > level_a;
                    self.need = Some(if open_new { (b, true) } else { (a, false) });
                }
                (Head::Subtree(first, _, need), Head::Entry(key)) if first <= key => {
                    self.need = Some((need, false));
                }
                (Head::Entry(key), Head::Subtree(first, _, need)) if first <= key => {
                    self.need = Some((need, true));
                }
                (Head::Subtree(.., need), Head::End) => self.need = Some((need, false)),
                (Head::End, Head::Subtree(.., need)) => self.need = Some((need, true)),
                (a, b) => {
                    if let Some(change) = self.take_entry(a, b) {
                        return CompareStep::Change(change);
                    }
                }
            }
        }
    }

    /// Takes the lower entry, or both if they have the same key. `None` if both are equal.
    fn take_entry(&mut self, a: Head, b: Head) -> Option<Change> {
        let entry = |head| match head {
            Head::Entry(key) => Some(key),
            Head::Root(_) | Head::Subtree(..) | Head::End => None,
        };
        let (a, b) = (entry(a), entry(b));
        let key = a.into_iter().chain(b).min()?;
        let old = self.old.take_if(a == Some(key));
        let new = self.new.take_if(b == Some(key));
        (old != new).then_some(Change { key, old, new })
    }

    /// Supplies the needed node.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another node, or one for lost keys.
    ///
    /// # Panics
    /// If no node is needed.
    pub fn supply(&mut self, node: Arc<Node>) -> Result<()> {
        let (need, is_new) = self.need.expect("a node is needed");
        let keys = Key::START..Key::END;
        need.check_for(&node, &keys)?;
        self.need = None;
        let side = if is_new { &mut self.new } else { &mut self.old };
        side.skip();
        side.frames.push(Frame::new(node, need.end(), &keys));
        Ok(())
    }
}
