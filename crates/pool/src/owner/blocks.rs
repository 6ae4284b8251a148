//! Every block of the pool.
//!
//! **Owns** the way through all trees, at once or in parts. **Called by** verification and resilver, while a reader's guard
//! keeps what they come by from being reused. **Invariants**: each block that a dataset, a snapshot, or something on its way
//! out holds is met; a tree that is damaged is passed over from there on, and told. A part is of all datasets and some keys:
//! a block comes from one tree to another (snapshot, clone, rollback) only under its key, and so what something holds when
//! the last part ends, and was there when the first began, was met in one of them.

use super::dead::{DEAD_TREE, list_keys, pointers};
use super::freeing::each_layered;
use super::{Owner, POOL_TREE, State};
use crate::format::{Birth, BlockPtr, Dataset, Freeing, Key, ListId, TreeId, Value};
use crate::shared::{GONE, lock};
use crate::tree::{Delta, Direction, Layer, Root, Scan, ScanStep, Visit, Walk, WalkStep};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Bytes of a part, about.
const PART_BYTES: u64 = 4 << 20;
const PART_HALF: u64 = PART_BYTES / 2;
/// Keys of the first part.
const PART_KEYS: u128 = 256;
/// Keys of a part at most: where keys are few, those between them cost nothing.
const PART_KEYS_MAX: u128 = 1 << 16;

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

/// Which blocks are come by.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Those born after this.
    since: Birth,
    /// In trees of datasets, those that hang on these keys, and the nodes above.
    keys: Range<Key>,
    /// What a snapshot shares with an older one, or a volume with a snapshot, only there.
    once: bool,
    /// Also those of the pool's own trees, and those that only layers and lists point to.
    others: bool,
}

impl Wanted {
    /// All there are, those that are shared once for each tree.
    pub(super) fn all() -> Self {
        Self {
            since: Birth(0),
            keys: Key::START..Key::END,
            once: false,
            others: true,
        }
    }
}

/// The way through all blocks in parts of about [`PART_BYTES`].
#[derive(Debug)]
pub(super) struct Sweep {
    since: Birth,
    /// The first key of the next part; none if it is of all others.
    next: Option<Key>,
    /// How many keys the next part has.
    keys: u128,
    has_ended: bool,
}

impl Sweep {
    /// By what was born after `since`.
    pub(super) fn new(since: Birth) -> Self {
        Self {
            since,
            next: Some(Key::START),
            keys: PART_KEYS,
            has_ended: false,
        }
    }

    /// The next part; none if it has ended.
    pub(super) fn part(&self) -> Option<Wanted> {
        let start = self.next.unwrap_or(Key::START);
        let count = self.next.map_or(0, |_| self.keys);
        (!self.has_ended).then_some(Wanted {
            since: self.since,
            keys: start..start.after(count),
            once: true,
            others: self.next.is_none(),
        })
    }

    /// A part had so many bytes, and this is the first key behind it that a tree has.
    pub(super) fn went(&mut self, bytes: u64, next: Option<Key>) {
        self.has_ended = self.next.is_none();
        self.next = next;
        self.keys = match bytes {
            0..PART_HALF => (self.keys * 2).min(PART_KEYS_MAX),
            _ => (self.keys * u128::from(PART_BYTES) / u128::from(bytes)).clamp(1, PART_KEYS_MAX),
        };
    }
}

/// A tree, and blocks that only layers above it point to.
struct Held {
    tree: TreeId,
    root: Root,
    /// Only what was born after this is its own.
    floor: Birth,
    /// Those that are wanted, and left.
    keys: Range<Key>,
    layered: Vec<(Option<Key>, BlockPtr)>,
}

impl Owner {
    fn held(&self, wanted: &Wanted) -> Vec<Held> {
        let state = self.state.borrow();
        let of_pool = |tree, root| Held {
            tree,
            root,
            floor: Birth(0),
            keys: Key::START..Key::END,
            layered: Vec::new(),
        };
        let own = |tree, root: Root, floor, layered| Held {
            tree,
            root: root.filter(|_| !wanted.keys.is_empty()),
            floor,
            keys: wanted.keys.clone(),
            layered,
        };
        let mut held = Vec::new();
        if wanted.others {
            held.push(of_pool(POOL_TREE, state.uberblock.root));
            held.push(of_pool(DEAD_TREE, state.dead_root));
        }
        let shared = match wanted.once {
            true => state.shared_up_to(),
            false => BTreeMap::new(),
        };
        for volume in state.volumes.values() {
            let floor = shared.get(&volume.0.id).copied().unwrap_or(Birth(0));
            let inner = lock(&volume.0.state);
            if !wanted.others {
                held.push(own(volume.0.id, inner.root, floor, Vec::new()));
                continue;
            }
            let frozen = inner.frozen.iter().flat_map(|f| f.layer.points());
            let values = inner.top.points().chain(frozen);
            let block = |delta: &Delta| delta.value().and_then(Value::block).copied();
            let layered = values.filter_map(|(key, d)| Some((Some(*key), block(d)?)));
            let layered = layered.collect();
            held.push(own(volume.0.id, inner.root, floor, layered));
        }
        for job in state.freeing.values() {
            let mut layered = Vec::new();
            if wanted.others {
                each_layered(&job.layers, |ptr| {
                    layered.extend((ptr.birth > job.floor).then_some((None, *ptr)));
                });
            }
            let (root, from) = match job.left {
                Some(Freeing::Tree { root, from, .. }) => (Some(root), from),
                _ => (None, Key::START),
            };
            let mut gone = own(GONE, root, job.floor, layered);
            gone.keys.start = gone.keys.start.max(from);
            held.push(gone);
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

    /// Comes by every block that is wanted. The caller is a reader. Returns a key behind those wanted below which no tree has
    /// one that is not; none if no tree has any.
    pub(super) async fn each_block(
        &self,
        wanted: &Wanted,
        visitor: &mut impl Visitor,
    ) -> Result<Option<Key>> {
        let lists = match wanted.others {
            true => self.lists(),
            false => Vec::new(),
        };
        let dead_root = self.state.borrow().dead_root;
        let since = wanted.since;
        let mut behind: Option<Key> = None;
        for held in self.held(wanted) {
            let next = self.each_of(&held, wanted, visitor).await?;
            behind = behind.into_iter().chain(next).min();
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
        Ok(behind)
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

    /// The same of one tree.
    async fn each_of(
        &self,
        held: &Held,
        wanted: &Wanted,
        visitor: &mut impl Visitor,
    ) -> Result<Option<Key>> {
        let Range { start, end } = held.keys;
        let (tree, since) = (held.tree, wanted.since.max(held.floor));
        let mut walk = Walk::new(held.root, since, start);
        loop {
            match walk.step() {
                WalkStep::Need(need) if need.keys().start >= end => {
                    return Ok(Some(need.keys().start));
                }
                WalkStep::Visit(Visit::Entry(key, _)) if key >= end => return Ok(Some(key)),
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
                WalkStep::Done => return Ok(None),
            }
        }
    }
}

impl State {
    /// For each dataset, the birth up to which an older snapshot holds what it does, under the same keys.
    fn shared_up_to(&self) -> BTreeMap<TreeId, Birth> {
        let datasets: Vec<_> = self
            .volumes
            .values()
            .map(|v| (v.0.id, v.dataset()))
            .collect();
        let snapshots = datasets.iter().filter_map(|(_, d)| Some((d.of?, d.birth)));
        let snapshots: BTreeSet<(TreeId, Birth)> = snapshots.collect();
        let floor = |(id, dataset): &(TreeId, Dataset)| {
            let (family, end) = match dataset.of {
                Some(family) => (family, dataset.birth),
                None => (*id, Birth(u64::MAX)),
            };
            let older = snapshots
                .range((family, Birth(0))..(family, end))
                .next_back();
            let older = older.map_or(Birth(0), |(_, birth)| *birth);
            (*id, older.max(self.origin(dataset).floor))
        };
        datasets.iter().map(floor).collect()
    }
}
