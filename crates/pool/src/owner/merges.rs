//! What a checkpoint does with datasets: new roots, and blocks that go.
//!
//! A volume's layers are merged in the order in which they were frozen, up to each snapshot in turn: what comes out is
//! the snapshot's root, and then the volume's.
//!
//! **Owns** these merges, and who holds which blocks. **Called by** checkpoints. **Invariants**: whoever holds a layer
//! that has been merged, holds from then on the root that came of it instead; a block is given back once nobody holds
//! it, by the rule of [`Fate`].

use std::rc::Rc;
use std::sync::Arc;

use super::checkpoint::{ChangedVolume, CheckpointSnapshot, NEVER};
use super::deadlists::{DeadlistChanges, Fate};
use super::{Owner, State};
use crate::Result;
use crate::format::{Birth, BlockPtr, DEAD_CHUNK_MAX, DatasetRoot, Edge, Key, TreeId, Value};
use crate::shared::{GONE, lock};
use crate::space::Class;
use crate::tree::{Freed, Layer, Visit, Walk, WalkStep};

/// Lets others run from time to time: what a checkpoint merged may be millions of records.
pub(super) struct Turn {
    steps: u32,
    most: u32,
}

impl Turn {
    /// Others run after so many steps.
    pub(super) fn every(most: u32) -> Self {
        Self { steps: 0, most }
    }

    pub(super) async fn step(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(self.most) {
            io::yield_now().await;
        }
    }
}

impl Default for Turn {
    /// For steps that look at one record.
    fn default() -> Self {
        Self::every(1024)
    }
}

/// Layers of a volume up to a snapshot, or up to now.
struct Segment {
    /// The snapshot, or the volume.
    id: TreeId,
    /// Nothing in it is younger.
    birth: Birth,
    /// Newest first.
    layers: Vec<Arc<Layer>>,
    /// What lies before it.
    edge: Edge,
}

/// Bytes that a dataset holds no more, or holds now.
#[derive(Default)]
pub(super) struct Bytes {
    /// Of records, as stored.
    records: u64,
    /// Of records, once decompressed.
    logical: u64,
    /// Of records and nodes, in whole sectors.
    allocated: u64,
}

impl Bytes {
    fn record(&mut self, ptr: &BlockPtr) {
        self.records += u64::from(ptr.physical_size);
        self.logical += u64::from(ptr.logical_size);
    }
}

/// What came of a segment.
struct Merged {
    segment: Segment,
    root: DatasetRoot,
}

impl CheckpointSnapshot {
    /// A volume's layers, cut at its snapshots, oldest first. A segment without layers is there for its root.
    fn segments(&self, volume: &ChangedVolume) -> Vec<Segment> {
        let frozen = &volume.frozen;
        let snapshots = volume.snapshots.iter().map(|s| (s.birth, s.id, s.list));
        let head = std::iter::once((self.birth, volume.id, volume.list));
        let mut edge = volume.before;
        let mut after = Birth(0);
        let mut segments = Vec::new();
        for (birth, id, list) in snapshots.chain(head) {
            let within = frozen.iter();
            let within = within.filter(|f| f.epoch > after && f.epoch <= birth);
            let layers: Vec<_> = within.map(|f| f.layer.clone()).collect();
            // the volume's own root changes with that of its newest snapshot
            let follows = id == volume.id && !segments.is_empty();
            if follows || !layers.is_empty() || self.unsettled.contains(&id) {
                segments.push(Segment {
                    id,
                    birth,
                    layers,
                    edge,
                });
            }
            after = birth;
            edge = Edge {
                floor: birth,
                list: Some(list),
            };
        }
        segments
    }
}

impl State {
    /// Puts the roots that came of a volume's layers in their place: in the volume, in its snapshots that hold them, and in
    /// what is being freed.
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
            let mut state = lock(&holder.0.state);
            let state = &mut *state;
            let frozen = &state.frozen;
            if let Some(held) = root_of(&|l| frozen.iter().any(|f| Arc::ptr_eq(&f.layer, l))) {
                state.hold(held);
            }
            state.frozen.retain(|f| !is_merged(&f.layer));
        }
        self.destroyer.replace_layers(
            |layers| root_of(&|l| layers.iter().any(|held| Arc::ptr_eq(held, l))),
            is_merged,
        );
        for Merged { segment, root } in merged {
            // one that holds no layers, and has a root of its own from now on
            if segment.layers.is_empty()
                && segment.id != volume.id
                && let Some(snapshot) = self.datasets.get(segment.id)
            {
                lock(&snapshot.0.state).hold(*root);
            }
        }
    }
}

impl Owner {
    /// Merges all volumes that changed. Returns the roots that are new.
    pub(super) async fn merge_volumes(
        self: Rc<Self>,
        cut: &CheckpointSnapshot,
        dead: &mut DeadlistChanges,
    ) -> Result<Vec<(TreeId, DatasetRoot)>> {
        let mut roots = Vec::new();
        for volume in &cut.volumes {
            let mut merged: Vec<Merged> = Vec::new();
            for segment in cut.segments(volume) {
                let before = merged.last().map_or(volume.root, |m| m.root);
                let merge = self
                    .clone()
                    .merge_segment(volume.id, &segment, before, dead);
                let root = merge.await?;
                roots.push((segment.id, root));
                merged.push(Merged { segment, root });
            }
            self.state.borrow_mut().replace_layers(volume, &merged);
        }
        Ok(roots)
    }

    /// Merges one segment and frees, or lists, what it replaces.
    async fn merge_segment(
        self: Rc<Self>,
        tree: TreeId,
        segment: &Segment,
        before: DatasetRoot,
        dead: &mut DeadlistChanges,
    ) -> Result<DatasetRoot> {
        if segment.layers.is_empty() {
            return Ok(before);
        }
        let points = segment.layers.iter().flat_map(|l| l.points());
        let mut records = Bytes::default();
        let mut allocated = before.allocated;
        let mut turn = Turn::default();
        for (_, delta) in points {
            if let Some(ptr) = delta.value().and_then(Value::block) {
                records.record(ptr);
                allocated += self.allocated(ptr);
            }
            self.advance(1);
            turn.step().await;
        }
        let (root, freed, written) = self
            .clone()
            .merge(
                tree,
                before.root,
                &segment.layers,
                segment.birth,
                Class::Tree,
            )
            .await?;
        allocated += written;
        let mut gone = Bytes::default();
        let mut listed = Vec::new();
        for freed in freed {
            self.advance(1);
            turn.step().await;
            match freed {
                Freed::Data(ptr) => {
                    gone.record(&ptr);
                    gone.allocated += self.allocated(&ptr);
                    self.give_up(&ptr, segment.edge, &mut listed);
                }
                Freed::Node(ptr) => {
                    gone.allocated += self.allocated(&ptr);
                    self.give_up(&ptr, segment.edge, &mut listed);
                }
                Freed::Subtree(ptr) => {
                    let below = self.give_up_tree(ptr, segment.edge, &mut listed).await?;
                    gone.records += below.records;
                    gone.logical += below.logical;
                    gone.allocated += below.allocated;
                }
            }
        }
        if let Some(list) = segment.edge.list {
            for ptrs in listed.chunks(DEAD_CHUNK_MAX) {
                dead.add(list, ptrs);
                turn.step().await;
            }
        }
        let referenced = before.referenced + records.records;
        let logical = before.logical + records.logical;
        Ok(DatasetRoot {
            root,
            referenced: referenced.saturating_sub(gone.records),
            logical: logical.saturating_sub(gone.logical),
            allocated: allocated.saturating_sub(gone.allocated),
        })
    }

    /// A dataset holds a block no more.
    fn give_up(&self, ptr: &BlockPtr, edge: Edge, listed: &mut Vec<BlockPtr>) {
        match Fate::of(edge, ptr.birth) {
            Fate::Free => self.state.borrow_mut().allocator.free(ptr),
            Fate::Listed => listed.push(*ptr),
        }
    }

    /// Bytes that a block takes: whole sectors.
    pub(super) fn allocated(&self, ptr: &BlockPtr) -> u64 {
        let sector = self.shared.vdevs.sector();
        u64::from(ptr.physical_size.next_multiple_of(sector))
    }

    /// The same of everything below a node.
    pub(super) async fn give_up_tree(
        &self,
        root: BlockPtr,
        edge: Edge,
        listed: &mut Vec<BlockPtr>,
    ) -> Result<Bytes> {
        let mut walk = Walk::new(Some(root), Birth(0), Key::START);
        let (mut gone, mut turn) = (Bytes::default(), Turn::default());
        loop {
            match walk.step() {
                WalkStep::Need(need) => walk.supply(self.shared.node(GONE, &need).await?)?,
                WalkStep::Visit(Visit::Node(ptr)) => {
                    gone.allocated += self.allocated(&ptr);
                    self.give_up(&ptr, edge, listed);
                }
                WalkStep::Visit(Visit::Entry(_, value)) => {
                    if let Some(ptr) = value.block() {
                        gone.record(ptr);
                        gone.allocated += self.allocated(ptr);
                        self.give_up(ptr, edge, listed);
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return Ok(gone),
            }
            turn.step().await;
        }
    }
}
