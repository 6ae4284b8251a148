//! Damage: the ranges of volumes, and the files of filesystems, that lost blocks held.
//!
//! **Owns** the search for the datasets that hold a lost block. **Called by** status requests. **Invariants**: a block
//! that no dataset holds is no damage, and leaves the list of lost blocks; the search reads nodes only; a path is reported
//! only if every directory on it can be read.

use std::ops::Range;
use std::sync::Arc;

use crate::dataset::OpenDataset;
use crate::files::FileStore;
use crate::filesystem::Store as _;
use crate::format::filesystem::{FilePart, HEADER_OBJECT};
use crate::format::{Dataset, ObjectId, Value, record_of};
use crate::lost::LostBlock;
use crate::owner::destroy::deadlists::DEAD_TREE;
use crate::owner::{Owner, POOL_TREE, Pool};
use crate::tree::{Lookup, LookupStep};
use io::sync::lock;

/// The most ranges in a report.
const RANGES_MAX: usize = 1000;

/// A range that a client cannot read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The volume or filesystem, or the snapshot as `volume@name`. None if the pool's own trees are damaged.
    pub dataset: Option<String>,
    /// The objects of a filesystem. None for a volume.
    pub objects: Option<DamagedObjects>,
    /// The first damaged byte of the volume or file. None if other parts are damaged.
    pub start: Option<u64>,
    /// The byte behind the range.
    pub end: Option<u64>,
}

/// Objects of a filesystem that a client may not be able to read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DamagedObjects {
    /// The number of the first one. Object 0 is the filesystem itself.
    pub first: u64,
    /// The number behind the last one; [`u64::MAX`] if no number is an upper bound.
    pub end: u64,
    /// The path of the only object, from the root directory, if it can be found.
    pub path: Option<String>,
}

/// All known damage.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damages {
    /// Ranges in order. Ranges that touch are merged.
    pub ranges: Vec<Damage>,
    /// Whether more ranges are damaged than `ranges` has.
    pub more: bool,
}

/// Whether a dataset holds a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holding {
    Yes,
    No,
    /// A node above the block is lost too.
    Unknown,
}

impl LostBlock {
    fn damage_of_volume(&self, dataset: &Dataset) -> Damage {
        let bytes = self.bytes(dataset);
        Damage {
            dataset: None,
            objects: None,
            start: Some(bytes.start),
            end: Some(bytes.end),
        }
    }

    /// The bytes of a volume that the block holds.
    fn bytes(&self, dataset: &Dataset) -> Range<u64> {
        let size = u64::from(dataset.record_size);
        let first = record_of(self.first).unwrap_or(0);
        // a node with records and fragments has all records from its first on
        let last = self.end.prev().filter(|k| k.kind() == self.first.kind());
        let end = last.and_then(record_of).map_or(u64::MAX, |last| last + 1);
        let records = first..end;
        let to = |record: u64| record.saturating_mul(size).min(dataset.size);
        to(records.start)..to(records.end)
    }
}

impl Owner {
    /// Whether a dataset holds a block for its clients. Overwritten blocks do not count.
    async fn holds(&self, volume: &OpenDataset, lost: &LostBlock) -> Holding {
        let mut lookup = {
            let state = lock(&volume.state);
            let layers = std::iter::once(state.staged.layer()).chain(state.layers.iter());
            // a node is the tree's, independent of the layers above it
            let layers: Vec<_> = layers.filter(|_| !lost.is_node).collect();
            Lookup::new(&layers, state.layers.root(), lost.first)
        };
        loop {
            match lookup.step() {
                LookupStep::Need(need) if need.ptr == lost.ptr => return Holding::Yes,
                // a parent is never older than its child
                LookupStep::Need(need) if need.ptr.birth < lost.ptr.placed => return Holding::No,
                LookupStep::Need(need) => {
                    let node = self.shared.node(volume.id, &need).await;
                    if node.and_then(|node| lookup.supply(&node)).is_err() {
                        return Holding::Unknown;
                    }
                }
                LookupStep::Done(value) => {
                    let found = value.as_ref().and_then(Value::block);
                    return match found {
                        Some(ptr) if *ptr == lost.ptr => Holding::Yes,
                        _ => Holding::No,
                    };
                }
            }
        }
    }

    fn name_of(&self, dataset: &Dataset) -> String {
        let of = dataset.of.and_then(|of| {
            let state = self.state.borrow();
            state.datasets.get(of).map(|v| v.dataset().name)
        });
        match of {
            Some(volume) => format!("{volume}@{}", dataset.name),
            None => dataset.name.clone(),
        }
    }

    /// The damage by a lost block, or none if no dataset holds the block.
    async fn damage(&self, lost: &LostBlock) -> Option<Vec<Damage>> {
        if [POOL_TREE, DEAD_TREE].contains(&lost.tree) {
            let root = match lost.tree {
                POOL_TREE => self.state.borrow().checkpointer.uberblock().root,
                _ => self.state.borrow().deadlists.root(),
            };
            // these trees are small and rewritten from the root down: a block no younger than the root may belong to
            // them
            let may_be = root.is_some_and(|root| root.birth >= lost.ptr.placed);
            let whole = Damage {
                dataset: None,
                objects: None,
                start: None,
                end: None,
            };
            return may_be.then(|| vec![whole]);
        }
        let datasets: Vec<Arc<OpenDataset>> = self.state.borrow().datasets.all().cloned().collect();
        let (mut found, mut is_held) = (Vec::new(), false);
        for volume in datasets {
            match self.holds(&volume, lost).await {
                Holding::Yes => {
                    let dataset = volume.dataset();
                    let damage = match dataset.kind.has_files() {
                        true => damaged_files(&volume, lost).await,
                        false => lost.damage_of_volume(&dataset),
                    };
                    found.push(Damage {
                        dataset: Some(self.name_of(&dataset)),
                        ..damage
                    });
                }
                Holding::Unknown => {}
                Holding::No => continue,
            }
            is_held = true;
            if found.len() >= RANGES_MAX {
                break;
            }
        }
        is_held.then_some(found)
    }
}

/// The damage of a filesystem by a lost block that it holds.
async fn damaged_files(volume: &Arc<OpenDataset>, lost: &LostBlock) -> Damage {
    let (dataset, files) = (volume.dataset(), FileStore(volume.clone()));
    let part = FilePart::of(&(lost.first..lost.end), dataset.record_size);
    let mut bytes = part.bytes.clone();
    let mut path = None;
    if let Some(object) = part.object().filter(|object| *object != HEADER_OBJECT.0) {
        path = files.path(ObjectId(object)).await;
        // bytes behind the size have no meaning
        if let Some(bytes) = &mut bytes
            && let Ok(Some(inode)) = files.inode(ObjectId(object)).await
        {
            bytes.end = bytes.end.min(inode.size.max(bytes.start));
        }
    }
    Damage {
        dataset: None,
        objects: Some(DamagedObjects {
            first: part.objects.start,
            end: part.objects.end,
            path,
        }),
        start: bytes.as_ref().map(|bytes| bytes.start),
        end: bytes.map(|bytes| bytes.end),
    }
}

impl Pool {
    /// The damage that reads, checkpoints, scrubs or resilvers found. Ranges that were overwritten, destroyed or
    /// repaired since are not damage.
    pub async fn damages(&self) -> Damages {
        let owner = &self.owner;
        let _reader = owner.shared.readers.enter();
        let (blocks, mut more) = owner.shared.lost.all();
        let mut ranges = Vec::new();
        for lost in blocks {
            match owner.damage(&lost).await {
                Some(found) => ranges.extend(found),
                None => owner.shared.lost.forget(&lost.ptr),
            }
        }
        ranges.sort();
        ranges.dedup_by(|next, before| {
            let is_same = before.dataset == next.dataset && before.objects == next.objects;
            let touches = is_same && before.end >= next.start;
            if touches {
                before.end = before.end.max(next.end);
            }
            touches
        });
        more |= ranges.len() > RANGES_MAX;
        ranges.truncate(RANGES_MAX);
        Damages { ranges, more }
    }

    /// The lost blocks, [`crate::LOST_MAX`] at most. The caller keeps them for the next opening.
    #[must_use]
    pub fn lost_blocks(&self) -> Vec<LostBlock> {
        self.owner.shared.lost.all().0
    }

    /// Restores the lost blocks of an earlier opening. A block that was repaired leaves the list when it is read or
    /// scrubbed.
    pub fn remember_lost(&self, blocks: impl IntoIterator<Item = LostBlock>) {
        self.owner.shared.lost.restore(blocks);
    }
}
