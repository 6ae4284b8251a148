//! Output of a merge: one node builder per level.
//!
//! **Owns** the boundaries of new nodes. **Called by** the merge. **Invariants**: a builder that is not full has less than
//! one and a third node, so that a full node can always be taken from its front and leave a third of a node; all builders
//! below a level are empty when an old subtree of that level is passed. The capacity may change between nodes; then a builder
//! may have more than two nodes until the next ones are taken.

use super::super::need::Root;
use crate::format::{BRANCH_ENTRY_SIZE, Birth, BlockPtr, Key, NodeBuilder, NodeSize, TreeId};

/// Parameters of new nodes.
#[derive(Debug, Clone, Copy)]
pub struct TreeParams {
    /// Most bytes of a node.
    pub node_size: NodeSize,
    /// The tree that they belong to.
    pub tree: TreeId,
    /// Their birth. It must not be before the birth of any of their entries.
    pub birth: Birth,
}

/// A node to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewNode {
    /// 0 for a leaf.
    pub level: u8,
    /// Its bytes. Not compressed: both sizes in its pointer are equal.
    pub bytes: Vec<u8>,
}

/// Divisor of the least fill of a node: one third.
const FILL_MIN_DIVISOR: usize = 3;

/// Next step at the end of the tree.
pub(super) enum Finish {
    /// Write this node; has its first key.
    Write(Key, NewNode),
    /// All nodes are written.
    Root(Root),
}

pub(super) struct Output {
    params: TreeParams,
    levels: Vec<NodeBuilder>,
    /// Bytes of entries in a full node.
    capacity: usize,
    /// Least bytes of entries in a node.
    fill_min: usize,
}

impl Output {
    pub(super) fn new(params: TreeParams) -> Self {
        let mut output = Self {
            params,
            levels: vec![NodeBuilder::new(0)],
            capacity: 0,
            fill_min: 0,
        };
        output.limit(params.node_size);
        output
    }

    /// Limits the size of later nodes.
    pub(super) fn limit(&mut self, size: NodeSize) {
        self.capacity = size.capacity();
        self.fill_min = self.capacity.div_ceil(FILL_MIN_DIVISOR);
    }

    pub(super) fn leaves(&mut self) -> &mut NodeBuilder {
        &mut self.levels[0]
    }

    pub(super) fn push_child(&mut self, level: u8, key: Key, ptr: &BlockPtr) {
        while self.levels.len() <= usize::from(level) {
            self.levels.push(NodeBuilder::new(self.levels.len() as u8));
        }
        self.levels[usize::from(level)].push_child(key, ptr);
    }

    /// Whether a node must be taken before more is added to `level`.
    pub(super) fn is_full(&self, level: usize) -> bool {
        self.levels[level].size() >= self.capacity + self.fill_min
    }

    /// Takes a node of a full level. The rest of the level is enough for another node.
    pub(super) fn take_full(&mut self) -> Option<(Key, NewNode)> {
        let level = (0..self.levels.len()).find(|l| self.is_full(*l))?;
        let count = self.levels[level].fitting(self.capacity);
        Some(self.take(level, count))
    }

    /// Whether an old subtree of `level` may be passed now: the entries held at and below that level make nodes that are full
    /// enough.
    pub(super) fn may_end_before(&self, level: u8) -> bool {
        let mut added = 0;
        for builder in self.levels.iter().take(usize::from(level) + 1) {
            let size = builder.size() + added * BRANCH_ENTRY_SIZE;
            added = match size {
                0 => 0,
                _ if size < self.fill_min => return false,
                _ => size.div_ceil(self.capacity),
            };
        }
        true
    }

    /// Takes the next node that must be written before an old subtree of `level` can be passed: one node if that is enough,
    /// else one of two nodes of equal size.
    pub(super) fn take_before(&mut self, level: u8) -> Option<(Key, NewNode)> {
        let below = self.levels.iter().take(usize::from(level) + 1);
        let level = below.into_iter().position(|b| !b.is_empty())?;
        let builder = &self.levels[level];
        let count = if builder.size() <= self.capacity {
            builder.len()
        } else if builder.size() <= self.capacity + self.fill_min {
            half(builder)
        } else {
            builder.fitting(self.capacity)
        };
        Some(self.take(level, count))
    }

    /// Takes the next node at the end of the tree. The last node of a level may be nearly empty, so that keys in ascending
    /// order leave full nodes.
    pub(super) fn finish(&mut self) -> Finish {
        let Some(level) = self.levels.iter().position(|b| !b.is_empty()) else {
            return Finish::Root(None);
        };
        let is_top = self.levels[level + 1..].iter().all(NodeBuilder::is_empty);
        if let Some(root) = self.levels[level].only_child().filter(|_| is_top) {
            return Finish::Root(Some(root));
        }
        let count = self.levels[level].fitting(self.capacity);
        let (key, node) = self.take(level, count);
        Finish::Write(key, node)
    }

    fn take(&mut self, level: usize, count: usize) -> (Key, NewNode) {
        let builder = &mut self.levels[level];
        let key = builder.first_key().expect("a level that is not empty");
        let bytes = builder.take_node(count, self.params.tree, self.params.birth);
        let level = level as u8;
        (key, NewNode { level, bytes })
    }
}

/// Number of entries from the front whose bytes are closest to half.
fn half(builder: &NodeBuilder) -> usize {
    let size = builder.size();
    let below = builder.fitting(size / 2);
    let missed_below = size - 2 * builder.size_of(below);
    let missed_above = 2 * builder.size_of(below + 1) - size;
    if missed_below <= missed_above {
        below
    } else {
        below + 1
    }
}
