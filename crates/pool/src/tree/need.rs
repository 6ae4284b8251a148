//! Requests for nodes, and the check of supplied nodes.
//!
//! **Owns** both. **Called by** every algorithm of the trees and by tasks that load nodes. **Invariant**: an algorithm gets
//! only nodes that match their parent's entry.

use std::ops::Range;
use std::sync::Arc;

use crate::format::{BlockPtr, Defect, Key, LEVEL_MAX, Node};
use crate::{Error, Result};

/// The root of a tree; `None` if it is empty.
pub type Root = Option<BlockPtr>;

/// A needed node, and its parent's description of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Its pointer.
    pub ptr: BlockPtr,
    /// Its level; unknown for a root.
    level: Option<u8>,
    /// Its first key; unknown for a root.
    first: Option<Key>,
    /// Exclusive upper bound of its keys.
    end: Key,
}

impl Need {
    pub(crate) fn root(ptr: BlockPtr) -> Self {
        Self {
            ptr,
            level: None,
            first: None,
            end: Key::END,
        }
    }

    /// Child `index` of `parent`, with keys below `end`.
    pub(crate) fn child(parent: &Node, index: usize, end: Key) -> Self {
        Self {
            ptr: parent.child(index),
            level: Some(parent.level() - 1),
            first: Some(parent.key(index)),
            end: child_end(parent, index, end),
        }
    }

    /// The keys below the node.
    pub(crate) fn keys(&self) -> Range<Key> {
        self.first.unwrap_or(Key::START)..self.end
    }

    /// Its first key; unknown for a root.
    pub(super) fn first(&self) -> Option<Key> {
        self.first
    }

    /// Exclusive upper bound of its keys.
    pub(super) fn end(&self) -> Key {
        self.end
    }

    /// Its level; unknown for a root.
    pub(crate) fn level(&self) -> Option<u8> {
        self.level
    }

    /// Fails if `node` is not the needed one, or stands for lost keys of `wanted`.
    pub(super) fn check_for(&self, node: &Node, wanted: &Range<Key>) -> Result<()> {
        self.check(node)?;
        let is_wanted = |lost: &Range<Key>| lost.start < wanted.end && wanted.start < lost.end;
        match node.lost().is_some_and(is_wanted) {
            true => Err(lost(&self.ptr)),
            false => Ok(()),
        }
    }

    /// Fails if `node` is not the needed one.
    pub(crate) fn check(&self, node: &Node) -> Result<()> {
        let differs = if node.birth() != self.ptr.birth {
            "its birth"
        } else if node.as_bytes().len() != self.ptr.logical_size as usize {
            "its size"
        } else if node.level() > LEVEL_MAX || self.level.is_some_and(|l| l != node.level()) {
            "its level"
        } else if self.first.is_some_and(|k| k != node.first_key()) {
            "its first key"
        } else if node.last_key() >= self.end || node.lost().is_some_and(|l| l.end > self.end) {
            "its last key"
        } else {
            return Ok(());
        };
        Err(corrupt(&self.ptr, Defect::OtherNode { what: differs }))
    }
}

/// Exclusive upper bound of the keys of child `index` of `parent`, whose own keys are below `end`.
pub(super) fn child_end(parent: &Node, index: usize, end: Key) -> Key {
    if index + 1 < parent.count() {
        parent.key(index + 1)
    } else {
        end
    }
}

/// Decodes the node of `ptr` from `bytes`.
///
/// # Errors
/// [`Error::Corrupt`] if they are not the bytes that were written.
pub fn load(ptr: &BlockPtr, bytes: Vec<u8>) -> Result<Arc<Node>> {
    let node = Node::load(ptr, bytes).map_err(|defect| corrupt(ptr, defect))?;
    Ok(Arc::new(node))
}

/// The error of keys for which a node stands in.
pub(crate) fn lost(ptr: &BlockPtr) -> Error {
    corrupt(ptr, Defect::Lost)
}

pub(super) fn corrupt(ptr: &BlockPtr, defect: Defect) -> Error {
    Error::Corrupt {
        at: ptr.address(),
        defect,
    }
}
