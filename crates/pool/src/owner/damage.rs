//! What clients lose with blocks that are lost.
//!
//! **Owns** the way from a block to the datasets that hold it. **Called by** whoever tells people. **Invariants**: what
//! nothing holds any more is no damage, and leaves the list of lost blocks; nothing but nodes is read for it.

use std::ops::Range;

use super::deadlists::DEAD_TREE;
use super::{Owner, POOL_TREE, Pool};
use crate::format::{Dataset, Value, record_of};
use crate::lost::LostBlock;
use crate::shared::lock;
use crate::tree::{Lookup, LookupStep};
use crate::volume::Volume;

/// Ranges that are told of.
const RANGES_MAX: usize = 1000;

/// What a client cannot read any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Damage {
    /// The volume, or the snapshot as `volume@name`; none if it is the pool's own.
    pub dataset: Option<String>,
    /// Bytes of it from here on; none if it is the pool's own.
    pub start: Option<u64>,
    /// To here.
    pub end: Option<u64>,
}

/// All that clients cannot read any more, as far as somebody came by it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damages {
    /// Ranges in order; those that touch are one.
    pub ranges: Vec<Damage>,
    /// There are more.
    pub more: bool,
}

/// Whether a dataset holds a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holding {
    Yes,
    No,
    /// A node above it is lost too.
    Unknown,
}

impl LostBlock {
    /// The bytes of a volume that hang on it.
    fn bytes(&self, dataset: &Dataset) -> Range<u64> {
        let size = u64::from(dataset.record_size);
        let first = record_of(self.first).unwrap_or(0);
        // a node with records and pieces has all records from its first on
        let last = self.end.prev().filter(|k| k.kind() == self.first.kind());
        let end = last.and_then(record_of).map_or(u64::MAX, |last| last + 1);
        let records = first..end;
        let to = |record: u64| record.saturating_mul(size).min(dataset.size);
        to(records.start)..to(records.end)
    }
}

impl Owner {
    /// Whether a dataset holds a block, as clients read it: what was overwritten since is not held.
    async fn holds(&self, volume: &Volume, lost: &LostBlock) -> Holding {
        let mut lookup = {
            let state = lock(&volume.0.state);
            let frozen = state.frozen.iter().map(|f| f.layer.as_ref());
            let layers = std::iter::once(&state.top).chain(frozen);
            // a node is the tree's, whatever lies above it
            let layers: Vec<_> = layers.filter(|_| !lost.is_node).collect();
            Lookup::new(&layers, state.root, lost.first)
        };
        loop {
            match lookup.step() {
                LookupStep::Need(need) if need.ptr == lost.ptr => return Holding::Yes,
                // a parent is never older than its child
                LookupStep::Need(need) if need.ptr.birth < lost.ptr.birth => return Holding::No,
                LookupStep::Need(need) => {
                    let node = self.shared.node(volume.0.id, &need).await;
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

    /// What clients lose with a block; none if nothing holds it any more.
    async fn damage(&self, lost: &LostBlock) -> Option<Vec<Damage>> {
        if [POOL_TREE, DEAD_TREE].contains(&lost.tree) {
            let root = match lost.tree {
                POOL_TREE => self.state.borrow().checkpointer.uberblock().root,
                _ => self.state.borrow().deadlists.root(),
            };
            // its trees are small, and written anew from the root down: what is no older than the root may be its
            let may_be = root.is_some_and(|root| root.birth >= lost.ptr.birth);
            let whole = Damage {
                dataset: None,
                start: None,
                end: None,
            };
            return may_be.then(|| vec![whole]);
        }
        let volumes: Vec<Volume> = self.state.borrow().datasets.all().cloned().collect();
        let (mut found, mut is_held) = (Vec::new(), false);
        for volume in volumes {
            match self.holds(&volume, lost).await {
                Holding::Yes => {
                    let dataset = volume.dataset();
                    let bytes = lost.bytes(&dataset);
                    found.push(Damage {
                        dataset: Some(self.name_of(&dataset)),
                        start: Some(bytes.start),
                        end: Some(bytes.end),
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

impl Pool {
    /// What clients cannot read any more, as far as a read, a checkpoint, a scrub or a resilver came by it. What was
    /// overwritten since, or destroyed, or is right again is not.
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
            let touches = before.dataset == next.dataset && before.end >= next.start;
            if touches {
                before.end = before.end.max(next.end);
            }
            touches
        });
        more |= ranges.len() > RANGES_MAX;
        ranges.truncate(RANGES_MAX);
        Damages { ranges, more }
    }

    /// Blocks that are lost, to be remembered; [`crate::LOST_MAX`] at most.
    #[must_use]
    pub fn lost_blocks(&self) -> Vec<LostBlock> {
        self.owner.shared.lost.all().0
    }

    /// What was lost before a restart. What is right by now leaves the list when it is read, or scrubbed.
    pub fn remember_lost(&self, blocks: impl IntoIterator<Item = LostBlock>) {
        self.owner.shared.lost.restore(blocks);
    }
}
