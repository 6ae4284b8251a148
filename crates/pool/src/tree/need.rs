//! Nodes that a tree's algorithm asks for.
//!
//! **Owns** the request and the check of what is supplied for it. **Called by** every algorithm of the trees and by
//! who loads nodes. **Invariant**: an algorithm sees only nodes that are what their parent says they are.

use std::ops::Range;
use std::sync::Arc;

use crate::format::{BlockPtr, Defect, Key, LEVEL_MAX, Node};
use crate::{Error, Result};

/// A tree by its root; none for an empty one.
pub type Root = Option<BlockPtr>;

/// A node that is needed, and what its parent says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Where it is.
    pub ptr: BlockPtr,
    /// Its level; not known of a root.
    level: Option<u8>,
    /// Its first key; not known of a root.
    first: Option<Key>,
    /// All its keys are below this.
    end: Key,
}

impl Need {
    pub(super) fn root(ptr: BlockPtr) -> Self {
        Self {
            ptr,
            level: None,
            first: None,
            end: Key::END,
        }
    }

    /// Child `index` of `parent`, all of whose keys are below `end`.
    pub(super) fn child(parent: &Node, index: usize, end: Key) -> Self {
        Self {
            ptr: parent.child(index),
            level: Some(parent.level() - 1),
            first: Some(parent.key(index)),
            end: child_end(parent, index, end),
        }
    }

    /// The keys that hang on it.
    pub(crate) fn keys(&self) -> Range<Key> {
        self.first.unwrap_or(Key::START)..self.end
    }

    /// Its first key; not known of a root.
    pub(super) fn first(&self) -> Option<Key> {
        self.first
    }

    /// All keys of the node are below this.
    pub(super) fn end(&self) -> Key {
        self.end
    }

    /// Whether `node` is the one that is needed.
    pub(super) fn check(&self, node: &Node) -> Result<()> {
        let differs = if node.birth() != self.ptr.birth {
            "its birth"
        } else if node.as_bytes().len() != self.ptr.logical_size as usize {
            "its size"
        } else if node.level() > LEVEL_MAX || self.level.is_some_and(|l| l != node.level()) {
            "its level"
        } else if self.first.is_some_and(|k| k != node.first_key()) {
            "its first key"
        } else if node.last_key() >= self.end {
            "its last key"
        } else {
            return Ok(());
        };
        Err(corrupt(&self.ptr, Defect::OtherNode { what: differs }))
    }
}

/// All keys of child `index` of `parent` are below this, if those of `parent` are below `end`.
pub(super) fn child_end(parent: &Node, index: usize, end: Key) -> Key {
    if index + 1 < parent.count() {
        parent.key(index + 1)
    } else {
        end
    }
}

/// The node that was read for `ptr` as `bytes`.
///
/// # Errors
/// [`Error::Corrupt`] if they are not what was written.
pub fn load(ptr: &BlockPtr, bytes: Vec<u8>) -> Result<Arc<Node>> {
    let node = Node::load(ptr, bytes).map_err(|defect| corrupt(ptr, defect))?;
    Ok(Arc::new(node))
}

pub(super) fn corrupt(ptr: &BlockPtr, defect: Defect) -> Error {
    Error::Corrupt {
        at: ptr.address(),
        defect,
    }
}
