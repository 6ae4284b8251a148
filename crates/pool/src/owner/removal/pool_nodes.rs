//! Nodes of the pool's own tree leave a vdev that is being removed.
//!
//! An opening reads this tree before it knows any copies, so its nodes are never read by a copy. Checkpoints write them again elsewhere: an
//! entry of each node that is on the vdev is put again, unchanged.
//!
//! **Owns** the choice of these entries. **Called by** checkpoints. **Invariant**: an entry that the checkpoint changes is not among them.

use crate::format::{Birth, Key, Value};
use crate::owner::{Owner, POOL_TREE};
use crate::tree::{Layer, Visit, Walk, WalkStep};
use crate::{Error, Result};

/// Nodes that one checkpoint writes again, at most.
const NODES_MAX: usize = 4096;

impl Owner {
    /// Entries of the pool's own tree whose nodes are on a vdev that is being removed, with their present values. `changes` are those of
    /// the checkpoint.
    ///
    /// # Errors
    /// Why a node of the tree cannot be read.
    pub(in crate::owner) async fn entries_to_rewrite(&self, changes: &Layer) -> Result<Layer> {
        let mut entries = Layer::new();
        let (vdev, root) = {
            let state = self.state.borrow();
            let leaving = state.leaving().map(|(vdev, _)| vdev);
            let space = state.allocator.space();
            let Some(vdev) = leaving.filter(|vdev| space.has_pool_nodes(*vdev)) else {
                return Ok(entries);
            };
            (vdev, state.allocator.maps().root)
        };
        let _reader = self.shared.readers.enter();
        let mut is_on_vdev = false;
        let mut walk = Walk::new(root, Birth(0), Key::START);
        while entries.len() < NODES_MAX {
            match walk.step() {
                WalkStep::Need(need) => {
                    walk.supply(self.shared.node(POOL_TREE, &need).await?)?;
                }
                WalkStep::Visit(Visit::Node(ptr)) => is_on_vdev |= ptr.vdev == vdev,
                WalkStep::Visit(Visit::Entry(key, Value::Inline(value))) if is_on_vdev => {
                    is_on_vdev = false;
                    // an entry that changes has its nodes written in any case
                    if changes.get(key).is_none() {
                        drop(entries.put(key, Value::Inline(value)));
                    }
                }
                WalkStep::Visit(Visit::Lost(..)) => return Err(Error::Unknown),
                WalkStep::Visit(_) => {}
                WalkStep::Done => break,
            }
        }
        Ok(entries)
    }
}
