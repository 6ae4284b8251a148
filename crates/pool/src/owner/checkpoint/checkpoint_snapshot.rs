//! Checkpoint snapshot: the frozen state that a checkpoint writes.
//!
//! **Owns** the freezing of all changes since the last checkpoint, in one step: layers of changed volumes, the pool's own tree,
//! pending destroys, and the place in the journal. **Called by** checkpoints. **Invariant**: the snapshot holds exactly the
//! changes of the batches up to its place in the journal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::yielder::Yielder;
use crate::dataset::{Frozen, OpenDataset};
use crate::format::{Birth, DatasetRoot, ListId, PrevSnapshot, TreeId, Uberblock};
use crate::journal::Ticket;
use crate::owner::State;
use crate::owner::destroy::destroyer::PendingDestroy;
use crate::tree::{Layer, Root};
use io::sync::lock;

/// Progress steps for each change: one when it is counted, [`MERGE_STEPS`] when it is merged, one when the block that
/// it replaces is freed.
const CHANGE_STEPS: u64 = 1 + MERGE_STEPS + 1;
/// Progress steps of the merge, which takes the most time.
pub(super) const MERGE_STEPS: u64 = 2;

/// A volume that changed since the last checkpoint, as it was when this checkpoint began.
pub(in crate::owner) struct ChangedVolume {
    pub(in crate::owner) id: TreeId,
    pub(in crate::owner) list: ListId,
    /// Newest first.
    pub(in crate::owner) frozen: Vec<Frozen>,
    pub(in crate::owner) root: DatasetRoot,
    /// Snapshots born before this neither hold the volume's layers nor need a root of their own.
    pub(in crate::owner) oldest: Birth,
    /// The snapshots born at `oldest` or later, oldest first.
    pub(in crate::owner) snapshots: Vec<ChangedSnapshot>,
    /// The snapshot before the first of `snapshots`, or before the volume if there are none.
    pub(in crate::owner) before: PrevSnapshot,
}

/// A snapshot of a [`ChangedVolume`].
pub(in crate::owner) struct ChangedSnapshot {
    pub(in crate::owner) id: TreeId,
    pub(in crate::owner) birth: Birth,
    pub(in crate::owner) list: ListId,
}

/// The frozen state that a checkpoint writes: all changes up to one batch, and the datasets that changed.
pub(in crate::owner) struct CheckpointSnapshot {
    pub(in crate::owner) birth: Birth,
    /// The last batch whose changes it holds.
    pub(in crate::owner) up_to: Ticket,
    /// The changed volumes, by number.
    pub(in crate::owner) volumes: Vec<ChangedVolume>,
    /// Datasets whose root this checkpoint must write: snapshots without a root of their own, clones, and volumes that
    /// were rolled back.
    pub(super) rootless: BTreeSet<TreeId>,
    /// Pending destroys, by number.
    pub(in crate::owner) destroys: BTreeMap<u64, PendingDestroy>,
    /// Blocks of pending destroys that this checkpoint frees at most, and the rest of the last node or deadlist entry.
    pub(in crate::owner) destroy_blocks_max: usize,
    /// Deadlists that this checkpoint empties.
    pub(in crate::owner) forgotten: Vec<ListId>,
    /// Changes of the pool's own tree.
    pub(in crate::owner) pool: Arc<Layer>,
    /// Root of the deadlists' tree.
    pub(in crate::owner) dead_root: Root,
    /// The previous checkpoint.
    pub(in crate::owner) uberblock: Uberblock,
    /// The highest sequence of an uberblock on the disks.
    pub(in crate::owner) newest: u64,
}

impl CheckpointSnapshot {
    /// Frees the memory of merged layers, with yields to other tasks.
    pub(super) async fn dissolve(self) {
        let mut yielder = Yielder::default();
        let layers = self.volumes.into_iter().flat_map(|volume| volume.frozen);
        for layer in layers.filter_map(|frozen| Arc::into_inner(frozen.layer)) {
            for delta in layer.into_points() {
                drop(delta);
                yielder.step().await;
            }
        }
    }
}

impl State {
    /// Freezes all changes since the last checkpoint.
    pub(in crate::owner) fn freeze(&mut self) -> CheckpointSnapshot {
        let birth = self.journal.end_epoch();
        // Members may have been attached since the last checkpoint.
        self.journal.count_seeks(self.shared.vdevs.has_hard_disks());
        self.destroyer.begin_checkpoint();
        self.allocator.begin_checkpoint();
        let rootless = self.checkpointer.freeze().clone();
        let volumes = self.freeze_volumes(birth, &rootless);
        let ids: Vec<TreeId> = volumes.iter().map(|volume| volume.id).collect();
        self.shared.budget.begin_checkpoint(&ids);
        let steps = self.steps(&volumes);
        self.checkpointer.begin_progress(steps);
        self.journal.begin_checkpoint();
        self.journal.hold_for_move();
        CheckpointSnapshot {
            birth,
            volumes,
            rootless,
            up_to: self.journal.last(),
            destroys: self.destroyer.snapshot(),
            destroy_blocks_max: self.destroyer.blocks_max(),
            forgotten: self.deadlists.take_forgotten(),
            pool: self.pool_tree.freeze(),
            dead_root: self.deadlists.root(),
            uberblock: *self.checkpointer.uberblock(),
            newest: self.checkpointer.newest(),
        }
    }

    /// Freezes the layers of the changed volumes.
    fn freeze_volumes(&mut self, birth: Birth, rootless: &BTreeSet<TreeId>) -> Vec<ChangedVolume> {
        let mut oldest: BTreeMap<TreeId, Birth> = BTreeMap::new();
        for snapshot in rootless.iter().filter_map(|id| self.datasets.get(*id)) {
            let state = lock(&snapshot.state);
            if let Some(of) = state.dataset.of {
                let oldest = oldest.entry(of).or_insert(state.dataset.birth);
                *oldest = state.dataset.birth.min(*oldest);
            }
        }
        let changed = self.datasets.take_changed();
        let volumes = changed.iter().map(|volume| {
            let rootless = oldest.get(&volume.id).copied();
            self.freeze_volume(volume, birth, rootless)
        });
        volumes.collect()
    }

    /// Freezes a volume's layers. Its oldest snapshot without a root of its own was born at `rootless`.
    fn freeze_volume(
        &self,
        volume: &OpenDataset,
        birth: Birth,
        rootless: Option<Birth>,
    ) -> ChangedVolume {
        let id = volume.id;
        let (dataset, frozen, root) = {
            let mut state = lock(&volume.state);
            assert!(
                state.journaled.is_empty(),
                "a checkpoint waits until contents of the journal have blocks"
            );
            state.layers.freeze(birth);
            let frozen: Vec<Frozen> = state.layers.frozen().cloned().collect();
            (state.dataset.clone(), frozen, state.layers.held())
        };
        let first = frozen.last().map_or(birth, |layer| layer.epoch);
        let oldest = rootless.map_or(first, |birth| birth.min(first));
        let snapshots = self.datasets.born(id, oldest..=birth).map(|snapshot| {
            let dataset = &lock(&snapshot.state).dataset;
            ChangedSnapshot {
                id: snapshot.id,
                birth: dataset.birth,
                list: dataset.list,
            }
        });
        ChangedVolume {
            id,
            list: dataset.list,
            frozen,
            root,
            oldest,
            snapshots: snapshots.collect(),
            before: self.prev_at(id, &dataset, oldest),
        }
    }

    /// Progress steps of a checkpoint that holds these volumes, about.
    fn steps(&self, volumes: &[ChangedVolume]) -> u64 {
        let layers = volumes.iter().flat_map(|volume| &volume.frozen);
        let changes: usize = layers.map(|f| f.layer.points().len()).sum();
        let blocks = self.bytes_left() / u64::from(self.shared.vdevs.sector());
        CHANGE_STEPS * changes as u64 + blocks.min(self.destroyer.blocks_max() as u64)
    }
}
