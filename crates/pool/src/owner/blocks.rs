//! Every block of the pool.
//!
//! **Owns** the way through all trees. **Called by** verification, scrub and resilver, while a reader's guard keeps what
//! they come by from being reused. **Invariants**: each block that a dataset, a snapshot, or something on its way out
//! holds is met, those that are shared once for each tree; a tree that is damaged is passed over from there on, and told.

use super::dead::{DEAD_TREE, pointers};
use super::{Owner, POOL_TREE};
use crate::format::{Birth, BlockPtr, Key, TreeId, Value};
use crate::shared::lock;
use crate::tree::{Root, Visit, Walk, WalkStep};
use crate::{Error, Result};

/// Stands for what is being destroyed.
const GONE: TreeId = TreeId(0);

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// A node; it has been read.
    Node,
    /// A record.
    Record,
}

/// Whoever looks at all blocks.
pub(super) trait Visitor {
    /// A block.
    async fn block(&mut self, tree: TreeId, ptr: &BlockPtr, holds: Holds) -> Result<()>;
    /// What hangs below is not met.
    fn damaged(&mut self, tree: TreeId, error: Error);
}

/// A tree, and blocks that only layers above it point to.
struct Held {
    tree: TreeId,
    root: Root,
    layered: Vec<BlockPtr>,
}

impl Owner {
    fn held(&self) -> Vec<Held> {
        let state = self.state.borrow();
        let mut held = vec![
            Held {
                tree: POOL_TREE,
                root: state.uberblock.root,
                layered: Vec::new(),
            },
            Held {
                tree: DEAD_TREE,
                root: state.dead_root,
                layered: Vec::new(),
            },
        ];
        for volume in state.volumes.values() {
            let inner = lock(&volume.0.state);
            let frozen = inner.frozen.iter().flat_map(|f| f.layer.points());
            let values = inner.top.points().chain(frozen);
            let values = values.filter_map(|(_, delta)| delta.value());
            held.push(Held {
                tree: volume.0.id,
                root: inner.root,
                layered: values.filter_map(Value::block).copied().collect(),
            });
        }
        for dying in &state.dying {
            let points = dying.layers.iter().flat_map(|l| l.points());
            let values = points.filter_map(|(_, delta)| delta.value());
            held.push(Held {
                tree: GONE,
                root: dying.root,
                layered: values.filter_map(Value::block).copied().collect(),
            });
        }
        held
    }

    /// Comes by every block born after `since`. The caller is a reader.
    pub(super) async fn each_block(&self, since: Birth, visitor: &mut impl Visitor) -> Result<()> {
        // what only a snapshot held that is being destroyed is on lists alone
        let has_lists = !self.state.borrow().dying_snapshots.is_empty();
        for Held {
            tree,
            root,
            layered,
        } in self.held()
        {
            // the lists themselves are small, and old ones may hold young chunks
            let lists = has_lists && tree == DEAD_TREE;
            let since = if lists { Birth(0) } else { since };
            self.each_of(tree, root, since, lists, visitor).await?;
            for ptr in layered.iter().filter(|ptr| ptr.birth > since) {
                visitor.block(tree, ptr, Holds::Record).await?;
            }
        }
        Ok(())
    }

    async fn each_of(
        &self,
        tree: TreeId,
        root: Root,
        since: Birth,
        lists: bool,
        visitor: &mut impl Visitor,
    ) -> Result<()> {
        let mut walk = Walk::new(root, since, Key::START);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let node = self.shared.node(&need.ptr).await;
                    if let Err(e) = node.and_then(|node| walk.supply(node)) {
                        visitor.damaged(tree, e);
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) => {
                    visitor.block(tree, &ptr, Holds::Node).await?;
                }
                WalkStep::Visit(Visit::Entry(_, value)) if lists => match pointers(&value) {
                    Ok(ptrs) => {
                        for ptr in ptrs {
                            visitor.block(tree, &ptr, Holds::Record).await?;
                        }
                    }
                    Err(defect) => visitor.damaged(tree, Error::Invalid(defect)),
                },
                WalkStep::Visit(Visit::Entry(_, value)) => {
                    if let Some(ptr) = value.block().filter(|ptr| ptr.birth > since) {
                        visitor.block(tree, ptr, Holds::Record).await?;
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return Ok(()),
            }
        }
    }
}
