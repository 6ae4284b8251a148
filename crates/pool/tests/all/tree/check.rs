//! The invariants of a whole tree.

use std::collections::BTreeSet;

use pool::format::{BlockPtr, Key, NodeSize, ValueRef};
use pool::tree::Root;
use pool::tree::memory::MemoryStore;

/// Contents of a tree.
#[derive(Default)]
pub(crate) struct Parts {
    /// Addresses of all blocks, nodes and data.
    pub(crate) blocks: BTreeSet<u64>,
    /// Number of nodes on each level, leaves first.
    pub(crate) nodes: Vec<usize>,
    /// Bytes of entries in leaves.
    pub(crate) leaf_bytes: usize,
    /// Number of entries in leaves.
    pub(crate) entries: usize,
}

/// Checks the tree at `root`, whose nodes have one size. Returns its contents.
pub(crate) fn check(store: &mut MemoryStore, root: Root, node_size: NodeSize) -> Parts {
    check_between(store, root, node_size, node_size)
}

/// As [`check`], for a tree whose full nodes have between `least` and `most` bytes.
pub(crate) fn check_between(
    store: &mut MemoryStore,
    root: Root,
    least: NodeSize,
    most: NodeSize,
) -> Parts {
    let mut parts = Parts::default();
    if let Some(ptr) = root {
        let mut checker = Checker {
            store,
            least,
            most,
            parts: &mut parts,
        };
        checker.check(&ptr, None, None, Key::END, true);
    }
    parts
}

struct Checker<'a> {
    store: &'a mut MemoryStore,
    least: NodeSize,
    most: NodeSize,
    parts: &'a mut Parts,
}

impl Checker<'_> {
    fn check(
        &mut self,
        ptr: &BlockPtr,
        level: Option<u8>,
        first: Option<Key>,
        end: Key,
        is_last: bool,
    ) {
        let node = self.store.load(ptr).expect("a sound node");
        assert!(self.parts.blocks.insert(ptr.offset.0), "held twice");
        assert_eq!(node.birth(), ptr.birth);
        assert!(level.is_none_or(|l| l == node.level()));
        assert!(first.is_none_or(|key| key == node.first_key()));
        assert!(node.last_key() < end);
        assert!(node.body_size() <= self.most.capacity());
        let capacity = self.least.capacity();
        let is_root = level.is_none();
        assert!(
            is_root || is_last || node.body_size() * 3 >= capacity,
            "{node:?} is too empty: {} of {capacity}",
            node.body_size()
        );
        let level = usize::from(node.level());
        if self.parts.nodes.len() <= level {
            self.parts.nodes.resize(level + 1, 0);
        }
        self.parts.nodes[level] += 1;
        if node.is_leaf() {
            self.parts.leaf_bytes += node.body_size();
            self.parts.entries += node.count();
        }
        for index in 0..node.count() {
            if !node.is_leaf() {
                let last = index + 1 == node.count();
                let child_end = if last { end } else { node.key(index + 1) };
                let child = node.child(index);
                assert!(child.birth <= node.birth());
                let first = Some(node.key(index));
                let level = Some(node.level() - 1);
                self.check(&child, level, first, child_end, is_last && last);
            } else if let ValueRef::Block(data, _) = node.value(index) {
                assert!(data.birth <= node.birth());
                assert!(self.parts.blocks.insert(data.offset.0), "held twice");
            }
        }
    }
}
