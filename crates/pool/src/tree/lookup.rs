//! The value of one key.
//!
//! **Owns** the way from layers and root to a value. **Called by** reads. **Invariant**: it reads one node of each
//! level at most, and none if a layer knows.

use std::sync::Arc;

use super::layer::{self, Layer};
use super::need::{Need, Root};
use crate::Result;
use crate::format::{Key, Node, Value};

/// How a lookup goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupStep {
    /// Call [`Lookup::supply`] with this node.
    Need(Need),
    /// The key's value, if it has one.
    Done(Option<Value>),
}

/// A lookup of one key.
pub struct Lookup {
    key: Key,
    next: LookupStep,
}

impl Lookup {
    /// Looks for `key` in `layers`, newest first, then in the tree at `root`.
    #[must_use]
    pub fn new(layers: &[&Layer], root: Root, key: Key) -> Self {
        let next = match (layer::get(layers, key), root) {
            (Some(value), _) => LookupStep::Done(value.cloned()),
            (None, Some(ptr)) => LookupStep::Need(Need::root(ptr)),
            (None, None) => LookupStep::Done(None),
        };
        Self { key, next }
    }

    /// What is next.
    #[must_use]
    pub fn step(&self) -> LookupStep {
        self.next.clone()
    }

    /// Here is the node that is needed.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another one.
    ///
    /// # Panics
    /// If none is needed.
    pub fn supply(&mut self, node: &Arc<Node>) -> Result<()> {
        let LookupStep::Need(need) = self.next else {
            panic!("no node is needed");
        };
        need.check(node)?;
        let above = node.upper_bound(self.key);
        self.next = match above.checked_sub(1) {
            Some(index) if !node.is_leaf() => {
                LookupStep::Need(Need::child(node, index, need.end()))
            }
            Some(index) if node.key(index) == self.key => {
                LookupStep::Done(Some(node.value(index).to_value()))
            }
            _ => LookupStep::Done(None),
        };
        Ok(())
    }
}
