//! The whole pool against itself: every block can be read, and space is what the trees say.
//!
//! **Owns** that comparison. **Called by** simulations and whoever wants to know. **Invariant**: it changes nothing. It
//! wants a quiet pool: what changes meanwhile may look wrong.

use std::collections::BTreeMap;

use super::dead::{DEAD_TREE, pointers};
use super::{POOL_TREE, Pool};
use crate::Result;
use crate::format::{Address, Birth, BlockPtr, Key, TreeId, Value};
use crate::shared::lock;
use crate::tree::{Root, Visit, Walk, WalkStep};

/// What a verification found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verified {
    /// Blocks that were read: records and nodes.
    pub blocks: u64,
    /// Their bytes, in whole sectors.
    pub bytes: u64,
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
}

/// Stands for what is being destroyed.
const GONE: TreeId = TreeId(0);

/// Blocks by where they begin, and who came by.
type Blocks = BTreeMap<Address, (u32, TreeId)>;

impl Pool {
    /// Reads everything that the pool's checkpoint and its layers point to, and compares space with it.
    ///
    /// # Errors
    /// [`crate::Error::Device`]. Damage is no error here: it is reported.
    pub async fn verify(&self) -> Result<Verified> {
        let _reader = self.owner.shared.readers.enter();
        let mut found = Verified::default();
        let mut blocks = Blocks::new();
        let (pool_root, trees, listed) = {
            let state = self.owner.state.borrow();
            let mut trees: Vec<(TreeId, Root, Vec<BlockPtr>)> = Vec::new();
            for volume in state.volumes.values() {
                let inner = lock(&volume.0.state);
                let top = inner.top.points();
                let frozen = inner.frozen.iter().flat_map(|f| f.layer.points());
                let values = top.chain(frozen).filter_map(|(_, delta)| delta.value());
                let layered = values.filter_map(Value::block).copied().collect();
                trees.push((volume.0.id, inner.root, layered));
            }
            for dying in &state.dying {
                let points = dying.layers.iter().flat_map(|l| l.points());
                let values = points.filter_map(|(_, delta)| delta.value());
                let layered = values.filter_map(Value::block).copied().collect();
                trees.push((GONE, dying.root, layered));
            }
            trees.push((DEAD_TREE, state.dead_root, Vec::new()));
            // what only a snapshot held that is being destroyed is on lists alone
            let listed = state
                .dead_root
                .filter(|_| !state.dying_snapshots.is_empty());
            (state.uberblock.root, trees, listed)
        };
        self.visit(POOL_TREE, pool_root, &mut blocks, &mut found)
            .await;
        for (id, root, layered) in trees {
            self.visit(id, root, &mut blocks, &mut found).await;
            for ptr in layered {
                self.block(id, &ptr, true, &mut blocks, &mut found).await;
            }
        }
        if let Some(ptr) = listed {
            self.visit_lists(ptr, &mut blocks, &mut found).await;
        }
        self.compare_space(&blocks, &mut found);
        Ok(found)
    }

    async fn visit(&self, id: TreeId, root: Root, blocks: &mut Blocks, found: &mut Verified) {
        let mut walk = Walk::new(root, Birth(0), Key::START);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let node = self.owner.shared.node(&need.ptr).await;
                    if let Err(e) = node.and_then(|node| walk.supply(node)) {
                        found.problems.push(format!("tree {}: {e}", id.0));
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) => {
                    self.block(id, &ptr, false, blocks, found).await;
                }
                WalkStep::Visit(Visit::Entry(_, value)) => {
                    if let Some(ptr) = value.block() {
                        self.block(id, ptr, true, blocks, found).await;
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return,
            }
        }
    }

    async fn visit_lists(&self, root: BlockPtr, blocks: &mut Blocks, found: &mut Verified) {
        let mut walk = Walk::new(Some(root), Birth(0), Key::START);
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let node = self.owner.shared.node(&need.ptr).await;
                    if let Err(e) = node.and_then(|node| walk.supply(node)) {
                        found.problems.push(format!("lists of dead blocks: {e}"));
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Entry(_, value)) => match pointers(&value) {
                    Ok(ptrs) => {
                        for ptr in ptrs {
                            self.block(DEAD_TREE, &ptr, true, blocks, found).await;
                        }
                    }
                    Err(e) => found.problems.push(format!("lists of dead blocks: {e}")),
                },
                WalkStep::Visit(Visit::Node(_) | Visit::Older(_)) => {}
                WalkStep::Done => return,
            }
        }
    }

    async fn block(
        &self,
        id: TreeId,
        ptr: &BlockPtr,
        read: bool,
        blocks: &mut Blocks,
        found: &mut Verified,
    ) {
        let sector = self.owner.shared.vdevs.sector();
        let bytes = ptr.physical_size.next_multiple_of(sector);
        // what snapshots and clones share is met again
        match blocks.insert(ptr.address(), (bytes, id)) {
            None => {
                found.blocks += 1;
                found.bytes += u64::from(bytes);
            }
            Some((before, _)) if before == bytes => return,
            Some((before, other)) => {
                let what = format!(
                    "{} has {before} bytes in tree {} and {bytes} in tree {}",
                    ptr.address(),
                    other.0,
                    id.0
                );
                found.problems.push(what);
            }
        }
        if read && let Err(e) = self.owner.shared.vdevs.read(ptr).await {
            found.problems.push(format!("tree {}: {e}", id.0));
        }
    }

    /// Blocks neither overlap nor lie in free space, and nothing else is used.
    fn compare_space(&self, blocks: &Blocks, found: &mut Verified) {
        let state = self.owner.state.borrow();
        let mut end: Option<Address> = None;
        for (at, (bytes, id)) in blocks {
            if end.is_some_and(|end| end.vdev == at.vdev && end.offset > at.offset) {
                found
                    .problems
                    .push(format!("{at} of tree {} overlaps another block", id.0));
            }
            if !state.space.is_used(*at) {
                found
                    .problems
                    .push(format!("{at} of tree {} is free", id.0));
            }
            let mut after = *at;
            after.offset.0 += u64::from(*bytes);
            end = Some(after);
        }
        let used = state.space.used();
        if used != found.bytes {
            let what = format!("{used} bytes are used and {} are pointed to", found.bytes);
            found.problems.push(what);
        }
        if state.leaked > 0 {
            found
                .problems
                .push(format!("{} blocks were freed twice", state.leaked));
        }
    }
}
