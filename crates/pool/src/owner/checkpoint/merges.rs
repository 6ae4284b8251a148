//! Merges of datasets: layers into the trees; replaced blocks are freed or added to deadlists.
//!
//! A volume's layers are merged oldest first, up to each of its snapshots in turn. The result up to a snapshot is the
//! snapshot's root; the last result is the volume's.
//!
//! **Owns** the merges of a checkpoint, and the replacement of merged layers. **Called by** checkpoints.
//! **Invariants**: a dataset that held a merged layer holds the root of the merge instead; a block is freed when no
//! dataset holds it, by the rule of [`Fate`].

use std::rc::Rc;
use std::sync::Arc;

use super::checkpoint_snapshot::{ChangedVolume, CheckpointSnapshot};
use super::yielder::Yielder;
use crate::format::{
    Birth, BlockPtr, BlockSizes, DEAD_CHUNK_MAX, DatasetRoot, Key, NEVER, PrevSnapshot, TreeId,
    Value,
};
use crate::owner::destroy::deadlists::{DeadlistChanges, Fate};
use crate::owner::{Owner, State};
use crate::shared::DESTROYED;
use crate::space::BlockKind;
use crate::tree::{Freed, Layer, Visit, Walk, WalkStep};
use crate::{Error, Result};
use io::sync::lock;

/// The layers of a volume between two snapshots, or between the newest snapshot and now.
struct Segment {
    /// The snapshot at its end, or the volume.
    id: TreeId,
    /// The birth of its youngest block at most.
    birth: Birth,
    /// Newest first.
    layers: Vec<Arc<Layer>>,
    /// The snapshot before it.
    prev: PrevSnapshot,
}

/// Bytes of blocks that a dataset began or ceased to hold.
#[derive(Default)]
pub(in crate::owner) struct Bytes {
    /// Of records, as stored.
    records: u64,
    /// Of records, once decompressed.
    logical: u64,
    /// Of records and nodes, in whole sectors.
    allocated: u64,
    /// Nodes, and records by size.
    sizes: BlockSizes,
}

impl Bytes {
    fn record(&mut self, ptr: &BlockPtr) {
        self.records += u64::from(ptr.physical_size);
        self.logical += u64::from(ptr.logical_size);
        self.sizes.count_record(ptr.physical_size);
    }
}

/// The result of a segment.
struct Merged {
    segment: Segment,
    root: DatasetRoot,
}

impl CheckpointSnapshot {
    /// The segments of a volume's layers between its snapshots, oldest first. A segment without layers is there for
    /// its root.
    fn segments(&self, volume: &ChangedVolume) -> Vec<Segment> {
        let frozen = &volume.frozen;
        let snapshots = volume.snapshots.iter().map(|s| (s.birth, s.id, s.list));
        let head = std::iter::once((self.birth, volume.id, volume.list));
        let mut prev = volume.before;
        let mut after = Birth(0);
        let mut segments = Vec::new();
        for (birth, id, list) in snapshots.chain(head) {
            let within = frozen.iter();
            let within = within.filter(|f| f.epoch > after && f.epoch <= birth);
            let layers: Vec<_> = within.map(|f| f.layer.clone()).collect();
            // the volume's own root changes with that of its newest snapshot
            let follows = id == volume.id && !segments.is_empty();
            if follows || !layers.is_empty() || self.rootless.contains(&id) {
                segments.push(Segment {
                    id,
                    birth,
                    layers,
                    prev,
                });
            }
            after = birth;
            prev = PrevSnapshot {
                floor: birth,
                list: Some(list),
            };
        }
        segments
    }
}

impl State {
    /// Replaces merged layers by the roots of their merges: in the volume, in its snapshots that hold them, and in
    /// pending destroys.
    fn replace_layers(&mut self, volume: &ChangedVolume, merged: &[Merged]) {
        // the root of the newest merged segment of which a dataset holds the layers
        let root_of = |holds: &dyn Fn(&Arc<Layer>) -> bool| {
            let mut newest_first = merged.iter().rev();
            let held = newest_first.find(|m| m.segment.layers.first().is_some_and(holds));
            held.map(|m| m.root)
        };
        let is_merged = |layer: &Arc<Layer>| {
            let mut all = merged.iter().flat_map(|m| &m.segment.layers);
            all.any(|l| Arc::ptr_eq(l, layer))
        };
        // snapshots that were taken during the checkpoint hold layers too
        let snapshots = self.datasets.born(volume.id, volume.oldest..=NEVER);
        for holder in self.datasets.get(volume.id).into_iter().chain(snapshots) {
            let layers = &mut lock(&holder.state).layers;
            layers.replace_merged(root_of, is_merged);
        }
        self.destroyer.replace_layers(
            |layers| root_of(&|l| layers.iter().any(|held| Arc::ptr_eq(held, l))),
            is_merged,
        );
        for Merged { segment, root } in merged {
            // a snapshot that holds no layers gets a root of its own
            if segment.layers.is_empty()
                && segment.id != volume.id
                && let Some(snapshot) = self.datasets.get(segment.id)
            {
                lock(&snapshot.state).layers.set_held(*root);
            }
        }
    }
}

impl Owner {
    /// Merges all changed volumes. Returns the new roots.
    pub(super) async fn merge_volumes(
        self: Rc<Self>,
        checkpoint: &CheckpointSnapshot,
        deadlists: &mut DeadlistChanges,
    ) -> Result<Vec<(TreeId, DatasetRoot)>> {
        let mut roots = Vec::new();
        for volume in &checkpoint.volumes {
            let mut merged: Vec<Merged> = Vec::new();
            for segment in checkpoint.segments(volume) {
                let before = merged.last().map_or(volume.root, |m| m.root);
                let merge = self
                    .clone()
                    .merge_segment(volume.id, &segment, before, deadlists);
                let root = merge.await?;
                roots.push((segment.id, root));
                merged.push(Merged { segment, root });
            }
            self.state.borrow_mut().replace_layers(volume, &merged);
        }
        Ok(roots)
    }

    /// Merges one segment. Frees the blocks that it replaces, or adds them to deadlists. Returns the new root.
    async fn merge_segment(
        self: Rc<Self>,
        tree: TreeId,
        segment: &Segment,
        before: DatasetRoot,
        deadlists: &mut DeadlistChanges,
    ) -> Result<DatasetRoot> {
        if segment.layers.is_empty() {
            return Ok(before);
        }
        let points = segment.layers.iter().flat_map(|l| l.points());
        let mut records = Bytes::default();
        let mut allocated = before.allocated;
        let mut yielder = Yielder::default();
        for (_, delta) in points {
            if let Some(ptr) = delta.value().and_then(Value::block) {
                records.record(ptr);
                allocated += self.allocated(ptr);
            }
            self.advance(1);
            yielder.step().await;
        }
        let (root, freed, new) = self
            .clone()
            .merge(
                tree,
                before.root,
                &segment.layers,
                segment.birth,
                BlockKind::Tree,
            )
            .await?;
        allocated += new.bytes;
        {
            let mut state = self.state.borrow_mut();
            state.allocator.count_spilled(new.spilled);
            if let Some(dataset) = state.datasets.get(tree) {
                dataset.counters.merged(new.bytes);
                dataset.counters.spilled(new.spilled);
            }
        }
        let mut released = Bytes::default();
        let mut listed = Vec::new();
        for freed in freed {
            self.advance(1);
            yielder.step().await;
            match freed {
                Freed::Data(ptr) => {
                    released.record(&ptr);
                    released.allocated += self.allocated(&ptr);
                    self.give_up(&ptr, segment.prev, &mut listed);
                }
                Freed::Node(ptr) => {
                    released.allocated += self.allocated(&ptr);
                    released.sizes.count_node(ptr.physical_size);
                    self.give_up(&ptr, segment.prev, &mut listed);
                }
                Freed::Subtree(ptr) => {
                    let below = self.give_up_tree(ptr, segment.prev, &mut listed).await?;
                    released.records += below.records;
                    released.logical += below.logical;
                    released.allocated += below.allocated;
                    released.sizes = released.sizes.plus(below.sizes);
                }
            }
        }
        if let Some(list) = segment.prev.list {
            for ptrs in listed.chunks(DEAD_CHUNK_MAX) {
                deadlists.add(list, ptrs);
                yielder.step().await;
            }
        }
        let referenced = before.referenced + records.records;
        let logical = before.logical + records.logical;
        Ok(DatasetRoot {
            root,
            referenced: referenced.saturating_sub(released.records),
            logical: logical.saturating_sub(released.logical),
            allocated: allocated.saturating_sub(released.allocated),
            sizes: before.sizes.map(|sizes| {
                sizes
                    .plus(records.sizes)
                    .plus(new.sizes)
                    .without(released.sizes)
            }),
        })
    }

    /// A dataset no longer holds a block: frees it, or adds it to `listed`.
    fn give_up(&self, ptr: &BlockPtr, prev: PrevSnapshot, listed: &mut Vec<BlockPtr>) {
        match Fate::of(prev, ptr.birth) {
            Fate::Free => self.state.borrow_mut().allocator.free(ptr),
            Fate::Listed => listed.push(*ptr),
        }
    }

    /// Bytes that a block takes, in whole sectors.
    pub(in crate::owner) fn allocated(&self, ptr: &BlockPtr) -> u64 {
        self.shared.vdevs.allocated(ptr)
    }

    /// A dataset no longer holds the blocks of a subtree: as [`Owner::give_up`] for each. Returns their bytes.
    pub(super) async fn give_up_tree(
        &self,
        root: BlockPtr,
        prev: PrevSnapshot,
        listed: &mut Vec<BlockPtr>,
    ) -> Result<Bytes> {
        let mut walk = Walk::new(Some(root), Birth(0), Key::START);
        let (mut released, mut yielder) = (Bytes::default(), Yielder::default());
        loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let node = self.shared.node(DESTROYED, &need).await;
                    match node.and_then(|node| walk.supply(node)) {
                        Ok(()) => {}
                        Err(error @ Error::Corrupt { .. }) => {
                            tracing::error!(%error, "the space below a damaged node stays used");
                            released.allocated += self.allocated(&need.ptr);
                            self.give_up(&need.ptr, prev, listed);
                            walk.skip();
                        }
                        Err(other) => return Err(other),
                    }
                }
                WalkStep::Visit(Visit::Node(ptr)) => {
                    released.allocated += self.allocated(&ptr);
                    released.sizes.count_node(ptr.physical_size);
                    self.give_up(&ptr, prev, listed);
                }
                WalkStep::Visit(Visit::Entry(_, value)) => {
                    if let Some(ptr) = value.block() {
                        released.record(ptr);
                        released.allocated += self.allocated(ptr);
                        self.give_up(ptr, prev, listed);
                    }
                }
                WalkStep::Visit(Visit::Lost(..) | Visit::Older(_)) => {}
                WalkStep::Done => return Ok(released),
            }
            yielder.step().await;
        }
    }
}
