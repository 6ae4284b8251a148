//! Lookup of one key in layers and tree.
//!
//! **Owns** the search from the layers to the leaf. **Called by** reads. **Invariant**: it reads at most one node per level,
//! and none if a layer has the key.

use std::sync::Arc;

use super::layer::{self, Layer};
use super::need::{Need, Root};
use crate::Result;
use crate::format::{Key, Node, Value};

/// Next step of a lookup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LookupStep {
    /// Call [`Lookup::supply`] with this node.
    Need(Need),
    /// The key's value; `None` if it has none.
    Done(Option<Value>),
}

/// A lookup of one key.
pub struct Lookup {
    key: Key,
    next: LookupStep,
}

impl Lookup {
    /// Searches `key` in `layers`, newest first, then in the tree at `root`.
    #[must_use]
    pub fn new(layers: &[&Layer], root: Root, key: Key) -> Self {
        let next = match (layer::get(layers, key), root) {
            (Some(value), _) => LookupStep::Done(value.cloned()),
            (None, Some(ptr)) => LookupStep::Need(Need::root(ptr)),
            (None, None) => LookupStep::Done(None),
        };
        Self { key, next }
    }

    /// Returns the next step.
    #[must_use]
    pub fn step(&self) -> LookupStep {
        self.next.clone()
    }

    /// Supplies the needed node.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is another node, or the key is lost.
    ///
    /// # Panics
    /// If no node is needed.
    pub fn supply(&mut self, node: &Arc<Node>) -> Result<()> {
        let LookupStep::Need(need) = self.next else {
            panic!("no node is needed");
        };
        need.check_for(node, &(self.key..self.key.next()))?;
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
