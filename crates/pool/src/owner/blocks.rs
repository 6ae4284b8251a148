//! Every block of the pool.
//!
//! **Owns** the way through all trees. **Called by** verification, scrub and resilver, while a reader's guard keeps what
//! they come by from being reused. **Invariants**: each block that a dataset, a snapshot, or something on its way out
//! holds is met, those that are shared once for each tree; a tree that is damaged is passed over from there on, and told.

use super::dead::{DEAD_TREE, list_keys, pointers};
use super::freeing::each_layered;
use super::{Owner, POOL_TREE};
use crate::format::{Birth, BlockPtr, Freeing, Key, ListId, TreeId, Value};
use crate::shared::{GONE, lock};
use crate::tree::{Delta, Direction, Layer, Root, Scan, ScanStep, Visit, Walk, WalkStep};
use crate::{Error, Result};
use std::ops::Range;

/// A block, and the keys that hang on it.
#[derive(Debug, Clone)]
pub(super) struct Met<'a> {
    pub(super) ptr: &'a BlockPtr,
    /// Not known of what is being destroyed.
    pub(super) keys: Range<Key>,
}

impl<'a> Met<'a> {
    fn entry(key: Key, ptr: &'a BlockPtr) -> Self {
        Self {
            ptr,
            keys: key..key.next(),
        }
    }

    fn unknown(ptr: &'a BlockPtr) -> Self {
        Self {
            ptr,
            keys: Key::START..Key::END,
        }
    }
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    /// A node; it has been read.
    Node,
    /// A record.
    Record,
    /// A record that only a layer points to.
    Layered,
}

/// Whoever looks at all blocks.
pub(super) trait Visitor {
    /// A block.
    async fn block(&mut self, tree: TreeId, met: Met<'_>, holds: Holds) -> Result<()>;
    /// What hangs below is not met.
    fn damaged(&mut self, tree: TreeId, error: Error);
}

/// A tree, and blocks that only layers above it point to.
struct Held {
    tree: TreeId,
    root: Root,
    /// Only what was born after this is its own.
    floor: Birth,
    /// Only from this key on is something left.
    from: Key,
    layered: Vec<(Option<Key>, BlockPtr)>,
}

impl Owner {
    fn held(&self) -> Vec<Held> {
        let state = self.state.borrow();
        let whole = |tree, root, layered| Held {
            tree,
            root,
            floor: Birth(0),
            from: Key::START,
            layered,
        };
        let mut held = vec![
            whole(POOL_TREE, state.uberblock.root, Vec::new()),
            whole(DEAD_TREE, state.dead_root, Vec::new()),
        ];
        for volume in state.volumes.values() {
            let inner = lock(&volume.0.state);
            let frozen = inner.frozen.iter().flat_map(|f| f.layer.points());
            let values = inner.top.points().chain(frozen);
            let block = |delta: &Delta| delta.value().and_then(Value::block).copied();
            let layered = values.filter_map(|(key, d)| Some((Some(*key), block(d)?)));
            let layered = layered.collect();
            held.push(whole(volume.0.id, inner.root, layered));
        }
        for job in state.freeing.values() {
            let mut layered = Vec::new();
            each_layered(&job.layers, |ptr| {
                layered.extend((ptr.birth > job.floor).then_some((None, *ptr)));
            });
            let (root, from) = match job.left {
                Some(Freeing::Tree { root, from, .. }) => (Some(root), from),
                _ => (None, Key::START),
            };
            held.push(Held {
                tree: GONE,
                root,
                floor: job.floor,
                from,
                layered,
            });
        }
        held
    }

    /// The lists of snapshots that are gone, and births up to which others hold what is on them.
    fn lists(&self) -> Vec<(ListId, Birth)> {
        let state = self.state.borrow();
        let jobs = state.freeing.values();
        let lists = jobs.filter_map(|job| match job.left {
            Some(Freeing::List { list, edge }) => Some((list, edge.floor)),
            _ => None,
        });
        lists.collect()
    }

    /// Comes by every block born after `since`. The caller is a reader.
    pub(super) async fn each_block(&self, since: Birth, visitor: &mut impl Visitor) -> Result<()> {
        let lists = self.lists();
        let dead_root = self.state.borrow().dead_root;
        for held in self.held() {
            let floor = since.max(held.floor);
            self.each_of(held.tree, held.root, floor, held.from, visitor)
                .await?;
            for (key, ptr) in held.layered.iter().filter(|(_, ptr)| ptr.birth > since) {
                let met = key.map_or_else(|| Met::unknown(ptr), |key| Met::entry(key, ptr));
                visitor.block(held.tree, met, Holds::Layered).await?;
            }
        }
        // what only a snapshot held that is gone is on lists alone
        for (list, floor) in lists {
            let floor = floor.max(since);
            self.each_listed(dead_root, list, floor, visitor).await?;
        }
        Ok(())
    }

    async fn each_listed(
        &self,
        root: Root,
        list: ListId,
        floor: Birth,
        visitor: &mut impl Visitor,
    ) -> Result<()> {
        let none = Layer::new();
        let mut scan = Scan::new(root, list_keys(list), Direction::Forward);
        loop {
            match scan.step(&[&none]) {
                ScanStep::Need(need) => {
                    let node = self.shared.node(DEAD_TREE, &need).await;
                    if let Err(e) = node.and_then(|node| scan.supply(node)) {
                        visitor.damaged(DEAD_TREE, e);
                        return Ok(());
                    }
                }
                ScanStep::Entry(_, value) => match pointers(&value) {
                    Ok(ptrs) => {
                        for ptr in ptrs.iter().filter(|ptr| ptr.birth > floor) {
                            let met = Met::unknown(ptr);
                            visitor.block(GONE, met, Holds::Record).await?;
                        }
                    }
                    Err(defect) => visitor.damaged(DEAD_TREE, Error::Invalid(defect)),
                },
                ScanStep::Done => return Ok(()),
            }
        }
    }

    async fn each_of(
        &self,
        tree: TreeId,
        root: Root,
        since: Birth,
        from: Key,
        visitor: &mut impl Visitor,
    ) -> Result<()> {
        let mut walk = Walk::new(root, since, from);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let node = self.shared.node(tree, &need).await;
                    if let Err(e) = node.and_then(|node| walk.supply(node)) {
                        visitor.damaged(tree, e);
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) => {
                    let keys = walk.keys();
                    let met = Met { ptr: &ptr, keys };
                    visitor.block(tree, met, Holds::Node).await?;
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    if let Some(ptr) = value.block().filter(|ptr| ptr.birth > since) {
                        let met = Met::entry(key, ptr);
                        visitor.block(tree, met, Holds::Record).await?;
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return Ok(()),
            }
        }
    }
}
