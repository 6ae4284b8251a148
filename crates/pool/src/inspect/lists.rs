//! Lists of dead blocks, as they are kept.
//!
//! **Owns** their sums. **Called by** verification, which knows what they should be. **Invariant**: a list is read one
//! chunk at a time. `docs/format.md`, "Lists of dead blocks".

use std::collections::BTreeMap;

use super::disks::Image;
use super::found::{Finding, FindingKind, Findings};
use super::sums::Sums;
use crate::format::{
    Birth, BlockPtr, DEAD_TREE, Defect, KIND_DEAD, Key, TreeId, Value, decode_dead,
};
use crate::tree::{Root, Visit, Walk, WalkStep};

/// What the tree of lists is called in what is told.
const LISTS: &str = "the lists of dead blocks";

/// A snapshot's list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct List {
    /// What is on it.
    pub(super) sums: Sums,
    /// Bytes of it that no older snapshot holds.
    pub(super) unique: u64,
}

/// All lists.
#[derive(Default)]
pub(super) struct Lists {
    pub(super) lists: BTreeMap<TreeId, List>,
    /// Nodes of their tree.
    pub(super) nodes: Vec<BlockPtr>,
    pub(super) whole: bool,
}

impl Lists {
    /// Reads them. `since` says up to which birth older snapshots hold a snapshot's blocks.
    pub(super) async fn read(
        image: &Image,
        root: Root,
        since: &BTreeMap<TreeId, Birth>,
        findings: &mut Findings,
    ) -> Self {
        let mut found = Self {
            whole: true,
            ..Self::default()
        };
        let mut walk = Walk::new(root, Birth(0), Key::START);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let node = image.node(&need.ptr, LISTS, None, findings).await;
                    if node.is_none_or(|node| walk.supply(node).is_err()) {
                        found.whole = false;
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) => found.nodes.push(ptr),
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    if let Err(defect) = found.take(image, key, &value, since) {
                        found.whole = false;
                        let text = format!("entry {key:?} of tree {}: {defect}", DEAD_TREE.0);
                        findings.add(Finding::new(FindingKind::DeadList, text));
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return found,
            }
        }
    }

    fn take(
        &mut self,
        image: &Image,
        key: Key,
        value: &Value,
        since: &BTreeMap<TreeId, Birth>,
    ) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let (Value::Inline(bytes), KIND_DEAD) = (value, key.kind()) else {
            return field("kind of an entry of the lists", key.kind().0.into());
        };
        let id = TreeId(key.object().0);
        let Some(since) = since.get(&id) else {
            return field("a list of what is no snapshot", id.0);
        };
        let list = self.lists.entry(id).or_default();
        for ptr in decode_dead(bytes)? {
            let space = image.space_of(&ptr)?;
            list.sums += Sums::of(&ptr, space, false);
            if ptr.birth > *since {
                list.unique += space;
            }
        }
        Ok(())
    }
}
