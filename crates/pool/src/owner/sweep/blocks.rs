//! Sweep: visits every block of the pool, at once or in parts.
//!
//! **Owns** the order of the visits. **Called by** verification, resilver and scrub. **Invariants**: each block that
//! the pool, a dataset, a snapshot or a pending destroy holds is visited; below a damaged node nothing is visited, and
//! the damage is reported. A part covers a range of keys of all trees of one stage. Blocks move between these trees
//! (snapshot, clone, rollback) only under the same key, so a sweep visits every block that exists throughout it.
//! Blocks that a part visited are not reused before it ends; no state is kept between parts.

use super::position::{PartResult, Sweep, SweepStage, Wanted};
use crate::dataset::OpenDataset;
use crate::format::{Birth, BlockPtr, Key, ListId, TreeId, Value};
use crate::lost::LostBlock;
use crate::owner::destroy::deadlists::{DEAD_TREE, ListScan, pointers};
use crate::owner::{Owner, POOL_TREE, State};
use crate::shared::DESTROYED;
use crate::tree::{Delta, Layer, Root, Visit, Walk, WalkStep, lost};
use crate::{Error, Result};
use io::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Trees between two yields to other tasks: each of 10,000 snapshots has nodes above a part.
const TREES_AT_ONCE: usize = 32;

/// A visited block, and the keys below it.
#[derive(Debug, Clone)]
pub(in crate::owner) struct VisitedBlock<'a> {
    pub(in crate::owner) ptr: &'a BlockPtr,
    /// All keys if they are unknown, as of destroyed datasets.
    pub(in crate::owner) keys: Range<Key>,
}

impl<'a> VisitedBlock<'a> {
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

    /// The block for the list of lost blocks.
    pub(in crate::owner) fn lost(&self, tree: TreeId, holds: Holds) -> LostBlock {
        let mut block = LostBlock::node(tree, self.keys.clone(), *self.ptr);
        block.is_node = holds == Holds::Node;
        block
    }
}

/// The contents of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::owner) enum Holds {
    /// A node. The sweep has read it.
    Node,
    /// A record.
    Record,
    /// A record that a layer points to and no tree.
    Layered,
}

/// Takes the blocks of a sweep.
pub(in crate::owner) trait Visitor {
    /// Visits a block. Returns the bytes that it adds to the part; 0 for a node, which the sweep has read.
    async fn block(&mut self, tree: TreeId, block: VisitedBlock<'_>, holds: Holds) -> Result<u64>;
    /// The blocks below a node could not be visited. With `is_known`, an earlier part may have reported it.
    fn damaged(&mut self, tree: TreeId, error: Error, is_known: bool);
    /// The part ends: the blocks that it visited may be reused after this.
    async fn end_part(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A tree to visit.
struct Held {
    tree: TreeId,
    root: Root,
    /// Blocks born up to this are visited with an older snapshot.
    floor: Birth,
    /// The keys below this are destroyed.
    from: Key,
}

impl Held {
    fn new(tree: TreeId, root: Root, floor: Birth) -> Self {
        let from = Key::START;
        Self {
            tree,
            root,
            floor,
            from,
        }
    }
}

impl Owner {
    /// Visits a part of about `bytes` bytes. Returns the next position, or none if it was the last part.
    pub(in crate::owner) async fn sweep(
        &self,
        sweep: Sweep,
        bytes: u64,
        visitor: &mut impl Visitor,
    ) -> Result<Option<Sweep>> {
        let _reader = self.shared.readers.enter();
        let (mut next, mut visited) = (Some(sweep), 0);
        while let Some(sweep) = next {
            let wanted = sweep.part(bytes);
            let part = self.each_block(&wanted, visitor).await?;
            next = sweep.after(&wanted, part);
            visited += part.bytes;
            if visited >= bytes / 2 {
                break;
            }
        }
        visitor.end_part().await?;
        Ok(next)
    }

    /// The trees with wanted blocks.
    fn trees(&self, wanted: &Wanted) -> Vec<Held> {
        let state = self.state.borrow();
        let mut trees = Vec::new();
        if wanted.has(SweepStage::Pool) {
            trees.push(Held::new(
                POOL_TREE,
                state.checkpointer.uberblock().root,
                Birth(0),
            ));
        }
        if wanted.has(SweepStage::Dead) {
            trees.push(Held::new(DEAD_TREE, state.deadlists.root(), Birth(0)));
        }
        if wanted.has(SweepStage::Datasets) {
            let shared = match wanted.once {
                true => state.shared_up_to(),
                false => BTreeMap::new(),
            };
            let datasets = state.datasets.all().map(|volume| {
                let id = volume.id;
                let floor = shared.get(&id).copied().unwrap_or(Birth(0));
                Held::new(id, lock(&volume.state).layers.root(), floor)
            });
            trees.extend(datasets);
            let destroyed = state.destroyer.trees().map(|(root, from, floor)| Held {
                from,
                ..Held::new(DESTROYED, Some(root), floor)
            });
            trees.extend(destroyed);
        }
        trees
    }

    /// The blocks to which only layers point, and their keys where these are known.
    fn layered(&self) -> Vec<(TreeId, Option<Key>, BlockPtr)> {
        let state = self.state.borrow();
        let mut layered = Vec::new();
        for volume in state.datasets.all() {
            let inner = lock(&volume.state);
            let values = inner.layers.iter().flat_map(Layer::points);
            let block = |delta: &Delta| delta.value().and_then(Value::block).copied();
            let of = |(key, delta): (&Key, &Delta)| Some((volume.id, Some(*key), block(delta)?));
            layered.extend(values.filter_map(of));
        }
        for destroy in state.destroyer.pending() {
            destroy.each_layered(|ptr| layered.push((DESTROYED, None, *ptr)));
        }
        layered
    }

    /// The deadlists of destroyed snapshots, and the births up to which other datasets hold the blocks on them.
    fn lists(&self) -> Vec<(ListId, Birth)> {
        let state = self.state.borrow();
        let lists = state.destroyer.lists();
        lists.map(|(list, prev)| (list, prev.floor)).collect()
    }

    /// Visits every wanted block. The caller is a registered reader.
    pub(super) async fn each_block(
        &self,
        wanted: &Wanted,
        visitor: &mut impl Visitor,
    ) -> Result<PartResult> {
        let since = wanted.since;
        let mut part = PartResult::default();
        for some in self.trees(wanted).chunks(TREES_AT_ONCE) {
            for tree in some {
                self.each_of(tree, wanted, &mut part, visitor).await?;
            }
            io::yield_now().await;
        }
        if !wanted.has(SweepStage::Loose) {
            return Ok(part);
        }
        let (layered, lists) = (self.layered(), self.lists());
        let dead_root = self.state.borrow().deadlists.root();
        for (tree, key, ptr) in layered.iter().filter(|(.., ptr)| ptr.placed > since) {
            let block = key.map_or_else(
                || VisitedBlock::unknown(ptr),
                |key| VisitedBlock::entry(key, ptr),
            );
            visitor.block(*tree, block, Holds::Layered).await?;
        }
        // blocks that only a destroyed snapshot held are on its deadlist alone
        for (list, floor) in lists {
            self.each_listed(dead_root, (list, floor), since, visitor)
                .await?;
        }
        Ok(part)
    }

    async fn each_listed(
        &self,
        root: Root,
        (list, floor): (ListId, Birth),
        since: Birth,
        visitor: &mut impl Visitor,
    ) -> Result<()> {
        let is_wanted = |ptr: &&BlockPtr| ptr.birth > floor && ptr.placed > since;
        let none = Layer::new();
        let mut scan = ListScan::new(root, list);
        loop {
            match scan.next(&self.shared, &none).await {
                Ok(Some((_, value))) => match pointers(&value) {
                    Ok(ptrs) => {
                        for ptr in ptrs.iter().filter(is_wanted) {
                            let block = VisitedBlock::unknown(ptr);
                            visitor.block(DESTROYED, block, Holds::Record).await?;
                        }
                    }
                    Err(defect) => visitor.damaged(DEAD_TREE, Error::Invalid(defect), false),
                },
                Ok(None) => return Ok(()),
                Err(e) => {
                    visitor.damaged(DEAD_TREE, e, false);
                    return Ok(());
                }
            }
        }
    }

    /// Visits the wanted blocks of one tree.
    async fn each_of(
        &self,
        held: &Held,
        wanted: &Wanted,
        part: &mut PartResult,
        visitor: &mut impl Visitor,
    ) -> Result<()> {
        let (tree, floor, since) = (held.tree, held.floor, wanted.since);
        let is_wanted = |ptr: &&BlockPtr| ptr.birth > floor && ptr.placed > since;
        let Range { start, end } = wanted.keys;
        let mut end = part.next.map_or(end, |next| next.min(end));
        let before = part.bytes;
        let mut walk = Walk::new(held.root, since.max(floor), start.max(held.from));
        loop {
            match walk.step() {
                WalkStep::Need(need) if need.keys().start >= end => {
                    part.ends_at(need.keys().start);
                    return Ok(());
                }
                WalkStep::Need(need) => {
                    let lost = LostBlock::node(tree, need.keys(), need.ptr);
                    let is_known = lost.first < start && self.shared.lost.has(&need.ptr);
                    let node = self.shared.node(tree, &need).await;
                    if let Err(e) = node.and_then(|node| walk.supply(node)) {
                        if tree != DESTROYED {
                            self.shared.lost.note(&e, lost);
                        }
                        visitor.damaged(tree, e, is_known);
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(_)) if walk.keys().start >= end => {
                    part.ends_at(walk.keys().start);
                    return Ok(());
                }
                WalkStep::Visit(Visit::Node(ptr)) => {
                    let keys = walk.keys();
                    if keys.start >= start {
                        let block = VisitedBlock { ptr: &ptr, keys };
                        visitor.block(tree, block, Holds::Node).await?;
                        // the sweep read the node for itself
                        part.bytes += u64::from(ptr.physical_size);
                    }
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    if part.bytes - before >= wanted.bytes && key > start {
                        end = end.min(key);
                    }
                    if key >= end {
                        part.ends_at(key);
                        return Ok(());
                    }
                    if let Some(ptr) = value.block().filter(is_wanted) {
                        let block = VisitedBlock::entry(key, ptr);
                        part.bytes += visitor.block(tree, block, Holds::Record).await?;
                    }
                }
                WalkStep::Visit(Visit::Lost(ptr, keys)) if keys.start >= start => {
                    visitor.damaged(tree, lost(&ptr), false);
                }
                WalkStep::Visit(Visit::Lost(..)) => {}
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return Ok(()),
            }
        }
    }
}

impl State {
    /// For each dataset, the birth up to which an older snapshot holds its blocks, under the same keys.
    fn shared_up_to(&self) -> BTreeMap<TreeId, Birth> {
        let of = |v: &Arc<OpenDataset>| {
            let state = lock(&v.state);
            (v.id, state.dataset.of, state.dataset.birth)
        };
        let datasets: Vec<_> = self.datasets.all().map(of).collect();
        let snapshots = datasets
            .iter()
            .filter_map(|(_, of, birth)| Some(((*of)?, *birth)));
        let snapshots: BTreeSet<(TreeId, Birth)> = snapshots.collect();
        let volumes = datasets.iter().filter(|(_, of, _)| of.is_none());
        let origin = |(id, ..): &(TreeId, Option<TreeId>, Birth)| {
            let dataset = self.datasets.get(*id)?.dataset();
            Some((*id, self.origin(&dataset).floor))
        };
        let origins: BTreeMap<TreeId, Birth> = volumes.filter_map(origin).collect();
        let floor = |(id, of, birth): &(TreeId, Option<TreeId>, Birth)| {
            let (family, end) = match of {
                Some(family) => (*family, *birth),
                None => (*id, Birth(u64::MAX)),
            };
            let older = snapshots
                .range((family, Birth(0))..(family, end))
                .next_back();
            let older = older.map_or(Birth(0), |(_, birth)| *birth);
            let origin = origins.get(&family).copied();
            (*id, older.max(origin.unwrap_or(Birth(0))))
        };
        datasets.iter().map(floor).collect()
    }
}
