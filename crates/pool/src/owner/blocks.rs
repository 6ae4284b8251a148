//! Every block of the pool.
//!
//! **Owns** the way through all trees, at once or in parts. **Called by** verification, resilver and scrub. **Invariants**:
//! each block that the pool, a dataset, a snapshot, or something on its way out holds is met; a tree that is damaged is
//! passed over from there on, and told. A part is of some keys of all trees of a stage: a block comes from one of these to
//! another (snapshot, clone, rollback) only under its key, and so what something holds when the last part ends, and was there
//! when the first began, was met in one of them. What is met is not reused before its part ends; nothing is kept between parts.

use super::deadlists::{DEAD_TREE, list_keys, pointers};
use super::{Owner, POOL_TREE, State};
use crate::format::{Birth, BlockPtr, Key, ListId, TreeId, Value};
use crate::lost::LostBlock;
use crate::shared::{GONE, lock};
use crate::tree::{Delta, Direction, Layer, Root, Scan, ScanStep, Visit, Walk, WalkStep};
use crate::volume::Volume;
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Keys of the first part of datasets, by half.
const PART_KEYS: u64 = 128;
/// Trees between two pauses for others: of 10,000 snapshots each has nodes above a part.
const TREES_AT_ONCE: usize = 32;

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

    /// The same, in case that it is lost.
    pub(super) fn block(&self, tree: TreeId, holds: Holds) -> LostBlock {
        let mut block = LostBlock::node(tree, self.keys.clone(), *self.ptr);
        block.is_node = holds == Holds::Node;
        block
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

/// Whoever looks at blocks.
pub(super) trait Visitor {
    /// A block. Returns the bytes that it adds to the part, unless it is a node: that has been read already.
    async fn block(&mut self, tree: TreeId, met: Met<'_>, holds: Holds) -> Result<u64>;
    /// What hangs below is not met. If it `is_known`, a part before may have told of it.
    fn damaged(&mut self, tree: TreeId, error: Error, is_known: bool);
    /// The last block before what was met may be reused.
    async fn end_part(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Which trees a part is of: blocks do not go from one of these to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    /// The pool's own.
    Pool,
    /// Lists of dead blocks, themselves.
    Dead,
    /// Datasets, and what is left of them.
    Datasets,
    /// None: what only layers and lists point to.
    Loose,
}

/// In the order in which a sweep comes to them; the number of each is its place here.
pub(super) const STAGES: [Stage; 4] = [Stage::Pool, Stage::Dead, Stage::Datasets, Stage::Loose];

/// Which blocks are come by.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Those born after this.
    since: Birth,
    /// Those of one stage, or all.
    stage: Option<Stage>,
    /// In trees, records that hang on these keys, and nodes that begin there.
    keys: Range<Key>,
    /// If one tree has more bytes there, keys end early, behind the first at least.
    bytes: u64,
    /// What a snapshot shares with an older one, or a volume with a snapshot, only there.
    once: bool,
}

impl Wanted {
    /// All there are, those that are shared once for each tree.
    pub(super) fn all() -> Self {
        Self {
            since: Birth(0),
            stage: None,
            keys: Key::START..Key::END,
            bytes: u64::MAX,
            once: false,
        }
    }

    fn has(&self, stage: Stage) -> bool {
        self.stage.is_none_or(|one| one == stage)
    }
}

/// How far a part got.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Went {
    bytes: u64,
    /// A key behind those met below which no tree has one that was not; none if no tree has any.
    next: Option<Key>,
}

impl Went {
    fn ends_at(&mut self, key: Key) {
        self.next = Some(self.next.map_or(key, |next| next.min(key)));
    }
}

/// A way through all blocks, in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sweep {
    pub(super) since: Birth,
    /// Of the next part.
    pub(super) stage: Stage,
    pub(super) next: Key,
    /// How many keys the last part of datasets had, and how many bytes.
    pub(super) keys: u64,
    pub(super) bytes: u64,
}

impl Sweep {
    /// By what was born after `since`.
    pub(super) fn new(since: Birth) -> Self {
        Self {
            since,
            stage: Stage::Pool,
            next: Key::START,
            keys: PART_KEYS,
            bytes: 0,
        }
    }

    /// The next part, of about so many bytes as far as one can tell.
    fn part(&self, bytes: u64) -> Wanted {
        let wanted = |keys, bytes| Wanted {
            since: self.since,
            stage: Some(self.stage),
            keys: self.next..keys,
            bytes,
            once: true,
        };
        match self.stage {
            Stage::Pool | Stage::Dead | Stage::Loose => wanted(Key::END, bytes),
            Stage::Datasets => {
                let more = u128::from(self.keys.max(1)) * 2;
                let of = |met| u128::from(self.keys) * u128::from(bytes) / u128::from(met);
                let keys = match self.bytes {
                    0 => more,
                    met => of(met).clamp(1, more),
                };
                wanted(self.next.after(keys), bytes.saturating_mul(2))
            }
        }
    }

    /// What is behind a part; none if that was the last.
    fn after(self, wanted: &Wanted, went: Went) -> Option<Self> {
        let Range { start, end } = wanted.keys;
        let Some(next) = went.next else {
            let stage = *STAGES.get(self.stage as usize + 1)?;
            return Some(Self {
                stage,
                ..Self::new(self.since)
            });
        };
        let keys = start.up_to(next.min(end)).min(u128::from(u64::MAX));
        Some(Self {
            next,
            keys: keys as u64,
            bytes: went.bytes,
            ..self
        })
    }
}

/// A tree.
struct Held {
    tree: TreeId,
    root: Root,
    /// Only what was born after this is its own.
    floor: Birth,
    /// What hung on keys below is gone.
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
    /// A part of about so many bytes. Where to go on unless that was the last.
    pub(super) async fn sweep(
        &self,
        sweep: Sweep,
        bytes: u64,
        visitor: &mut impl Visitor,
    ) -> Result<Option<Sweep>> {
        let _reader = self.shared.readers.enter();
        let (mut next, mut met) = (Some(sweep), 0);
        while let Some(sweep) = next {
            let wanted = sweep.part(bytes);
            let went = self.each_block(&wanted, visitor).await?;
            next = sweep.after(&wanted, went);
            met += went.bytes;
            if met >= bytes / 2 {
                break;
            }
        }
        visitor.end_part().await?;
        Ok(next)
    }

    /// Trees of which something is wanted.
    fn trees(&self, wanted: &Wanted) -> Vec<Held> {
        let state = self.state.borrow();
        let mut trees = Vec::new();
        if wanted.has(Stage::Pool) {
            trees.push(Held::new(
                POOL_TREE,
                state.checkpointer.uberblock().root,
                Birth(0),
            ));
        }
        if wanted.has(Stage::Dead) {
            trees.push(Held::new(DEAD_TREE, state.deadlists.root(), Birth(0)));
        }
        if wanted.has(Stage::Datasets) {
            let shared = match wanted.once {
                true => state.shared_up_to(),
                false => BTreeMap::new(),
            };
            let datasets = state.datasets.all().map(|volume| {
                let id = volume.0.id;
                let floor = shared.get(&id).copied().unwrap_or(Birth(0));
                Held::new(id, lock(&volume.0.state).root, floor)
            });
            trees.extend(datasets);
            let destroyed = state.destroyer.trees().map(|(root, from, floor)| Held {
                from,
                ..Held::new(GONE, Some(root), floor)
            });
            trees.extend(destroyed);
        }
        trees
    }

    /// What only layers point to, and the keys where they are known.
    fn layered(&self) -> Vec<(TreeId, Option<Key>, BlockPtr)> {
        let state = self.state.borrow();
        let mut layered = Vec::new();
        for volume in state.datasets.all() {
            let inner = lock(&volume.0.state);
            let frozen = inner.frozen.iter().flat_map(|f| f.layer.points());
            let values = inner.top.points().chain(frozen);
            let block = |delta: &Delta| delta.value().and_then(Value::block).copied();
            let of = |(key, delta): (&Key, &Delta)| Some((volume.0.id, Some(*key), block(delta)?));
            layered.extend(values.filter_map(of));
        }
        for destroy in state.destroyer.pending() {
            destroy.each_layered(|ptr| layered.push((GONE, None, *ptr)));
        }
        layered
    }

    /// The lists of snapshots that are gone, and births up to which others hold what is on them.
    fn lists(&self) -> Vec<(ListId, Birth)> {
        let state = self.state.borrow();
        let lists = state.destroyer.lists();
        lists.map(|(list, edge)| (list, edge.floor)).collect()
    }

    /// Comes by every block that is wanted. The caller is a reader.
    pub(super) async fn each_block(
        &self,
        wanted: &Wanted,
        visitor: &mut impl Visitor,
    ) -> Result<Went> {
        let since = wanted.since;
        let mut went = Went::default();
        for some in self.trees(wanted).chunks(TREES_AT_ONCE) {
            for tree in some {
                self.each_of(tree, wanted, &mut went, visitor).await?;
            }
            io::yield_now().await;
        }
        if !wanted.has(Stage::Loose) {
            return Ok(went);
        }
        let (layered, lists) = (self.layered(), self.lists());
        let dead_root = self.state.borrow().deadlists.root();
        for (tree, key, ptr) in layered.iter().filter(|(.., ptr)| ptr.birth > since) {
            let met = key.map_or_else(|| Met::unknown(ptr), |key| Met::entry(key, ptr));
            visitor.block(*tree, met, Holds::Layered).await?;
        }
        // what only a snapshot held that is gone is on lists alone
        for (list, floor) in lists {
            let floor = floor.max(since);
            self.each_listed(dead_root, list, floor, visitor).await?;
        }
        Ok(went)
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
                        visitor.damaged(DEAD_TREE, e, false);
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
                    Err(defect) => visitor.damaged(DEAD_TREE, Error::Invalid(defect), false),
                },
                ScanStep::Done => return Ok(()),
            }
        }
    }

    /// The same of one tree.
    async fn each_of(
        &self,
        held: &Held,
        wanted: &Wanted,
        went: &mut Went,
        visitor: &mut impl Visitor,
    ) -> Result<()> {
        let (tree, since) = (held.tree, wanted.since.max(held.floor));
        let Range { start, end } = wanted.keys;
        let mut end = went.next.map_or(end, |next| next.min(end));
        let before = went.bytes;
        let mut walk = Walk::new(held.root, since, start.max(held.from));
        loop {
            match walk.step() {
                WalkStep::Need(need) if need.keys().start >= end => {
                    went.ends_at(need.keys().start);
                    return Ok(());
                }
                WalkStep::Need(need) => {
                    let lost = LostBlock::node(tree, need.keys(), need.ptr);
                    let is_known = lost.first < start && self.shared.lost.has(&need.ptr);
                    let node = self.shared.node(tree, &need).await;
                    if let Err(e) = node.and_then(|node| walk.supply(node)) {
                        if tree != GONE {
                            self.shared.lost.note(&e, lost);
                        }
                        visitor.damaged(tree, e, is_known);
                        walk.skip();
                    }
                }
                WalkStep::Visit(Visit::Node(_)) if walk.keys().start >= end => {
                    went.ends_at(walk.keys().start);
                    return Ok(());
                }
                WalkStep::Visit(Visit::Node(ptr)) => {
                    let keys = walk.keys();
                    if keys.start >= start {
                        let met = Met { ptr: &ptr, keys };
                        visitor.block(tree, met, Holds::Node).await?;
                        // it was read in any case
                        went.bytes += u64::from(ptr.physical_size);
                    }
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    if went.bytes - before >= wanted.bytes && key > start {
                        end = end.min(key);
                    }
                    if key >= end {
                        went.ends_at(key);
                        return Ok(());
                    }
                    if let Some(ptr) = value.block().filter(|ptr| ptr.birth > since) {
                        let met = Met::entry(key, ptr);
                        went.bytes += visitor.block(tree, met, Holds::Record).await?;
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return Ok(()),
            }
        }
    }
}

impl State {
    /// For each dataset, the birth up to which an older snapshot holds what it does, under the same keys.
    fn shared_up_to(&self) -> BTreeMap<TreeId, Birth> {
        let of = |v: &Volume| {
            let state = lock(&v.0.state);
            (v.0.id, state.dataset.of, state.dataset.birth)
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
