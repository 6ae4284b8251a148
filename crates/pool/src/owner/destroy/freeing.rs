//! Destroys: datasets disappear at once, and checkpoints free their blocks.
//!
//! A destroyed volume, or the state that a rollback gives up, leaves its tree; a destroyed snapshot leaves its
//! deadlist. The dataset is gone when its batch is durable. Each checkpoint frees a bounded number of blocks, and
//! notes the rest in the pool's own tree.
//!
//! **Owns** the steps of a destroy; [`Destroyer`](super::destroyer::Destroyer) has the pending ones. **Called by** the
//! operations that destroy, and by checkpoints. **Invariants**: the blocks that a checkpoint frees and the rest that
//! it notes become durable together; a block that another dataset may hold is never freed.

use super::deadlists::{DeadlistChanges, Fate, ListScan, pointers};
use super::destroyer::{DestroyProgress, PendingDestroy};
use crate::dataset::{self, OpenDataset};
use crate::format::{Birth, Freeing, Key, ListId, NEVER, PrevSnapshot, Value};
use crate::owner::checkpoint::checkpoint_snapshot::CheckpointSnapshot;
use crate::owner::{Owner, Pool, State};
use crate::shared::DESTROYED;
use crate::tree::{Reap, ReapStep};
use crate::{Error, Result};
use io::sync::lock;

/// Blocks freed between two yields to other tasks.
const STEP_BLOCKS: usize = 256;

impl State {
    /// Frees the blocks of a dataset from the next checkpoint on.
    fn add_destroy(&mut self, destroy: PendingDestroy) {
        if self.destroyer.add(destroy) {
            self.shared.budget.destroyed();
        }
    }

    /// Removes a volume. Checkpoints free its blocks.
    pub(in crate::owner) fn begin_destroy(&mut self, volume: &OpenDataset) {
        self.datasets.remove(volume.id);
        self.checkpointer.forget(volume.id);
        self.committer.forget(volume.id);
        let mut state = lock(&volume.state);
        let dirty = std::mem::take(&mut state.dirty);
        let journaled = std::mem::take(&mut state.journaled);
        let budget = &volume.shared.budget;
        budget.replaced(volume.id, (dirty.all_bytes() + journaled.bytes()) as u64);
        budget.close(volume.id);
        let origin = state.dataset.origin.and_then(|id| self.datasets.get(id));
        let origin = origin.map(|v| lock(&v.state));
        let floor = origin.as_ref().map_or(Birth(0), |o| o.dataset.birth);
        let shared = origin.map_or(0, |o| o.layers.held().allocated);
        self.destroy_volume(&mut state, floor, shared);
    }

    /// Frees the blocks of a volume that is in no index. Its origin holds the blocks born up to `floor`, `shared` bytes.
    pub(in crate::owner) fn destroy_volume(
        &mut self,
        volume: &mut dataset::State,
        floor: Birth,
        shared: u64,
    ) {
        let (layers, held) = volume.layers.take(self.journal.epoch());
        let list = volume.dataset.list;
        let bytes = (held.allocated + self.deadlists.bytes(list)).saturating_sub(shared);
        self.add_destroy(PendingDestroy::of_dataset(layers, held.root, floor, bytes));
        // the origin holds the blocks on the volume's list
        let prev = PrevSnapshot {
            floor: NEVER,
            list: None,
        };
        self.destroyer.redirect(list, None);
        self.add_destroy(PendingDestroy::of_list(list, prev));
    }

    /// Frees the blocks on the deadlist of a destroyed snapshot, or hands them over to `prev`.
    pub(in crate::owner) fn destroy_snapshot(&mut self, list: ListId, prev: PrevSnapshot) {
        self.destroyer.redirect(list, Some(prev));
        self.add_destroy(PendingDestroy::of_list(list, prev));
    }

    /// Makes a volume what its newest snapshot is, which has its own root. Later blocks are freed.
    pub(in crate::owner) fn roll_back(
        &mut self,
        volume: &mut dataset::State,
        snapshot: &dataset::State,
    ) {
        let (layers, held) = volume.layers.take(self.journal.epoch());
        let list = snapshot.dataset.list;
        let back = snapshot.layers.held();
        let bytes = held.allocated + self.deadlists.bytes(list);
        let destroy = PendingDestroy::of_dataset(
            layers,
            held.root,
            snapshot.dataset.birth,
            bytes.saturating_sub(back.allocated),
        );
        self.add_destroy(destroy);
        self.destroyer.redirect(list, None);
        self.deadlists.forget(list);
        volume.layers.set_held(back);
        volume.dataset.size = snapshot.dataset.size;
    }
}

impl Owner {
    /// Frees blocks of pending destroys up to the checkpoint's limit (`destroy_blocks_max`); a node or deadlist entry that was
    /// begun is finished. Returns the progress of each destroy.
    pub(in crate::owner) async fn free_some(
        &self,
        checkpoint: &CheckpointSnapshot,
        deadlists: &mut DeadlistChanges,
    ) -> Result<Vec<DestroyProgress>> {
        let mut budget = checkpoint.destroy_blocks_max;
        let mut advances = Vec::new();
        for (number, destroy) in &checkpoint.destroys {
            {
                let mut state = self.state.borrow_mut();
                destroy.each_layered(|ptr| state.allocator.free(ptr));
            }
            let left = match destroy.left() {
                left if budget == 0 => left,
                Some(tree @ Freeing::Tree { .. }) => self.free_tree_part(tree, &mut budget).await?,
                Some(list @ Freeing::List { .. }) => {
                    self.free_list_part(list, checkpoint, deadlists, &mut budget)
                        .await?
                }
                None => None,
            };
            advances.push(DestroyProgress {
                number: *number,
                left,
            });
        }
        Ok(advances)
    }

    /// Frees the next blocks of a tree. Returns the rest.
    async fn free_tree_part(
        &self,
        destroy: Freeing,
        budget: &mut usize,
    ) -> Result<Option<Freeing>> {
        let Freeing::Tree {
            root,
            floor,
            from,
            mut left,
        } = destroy
        else {
            return Ok(Some(destroy));
        };
        let mut reap = Reap::new(Some(root), floor, from);
        let mut steps = 0;
        loop {
            let freed = match reap.step() {
                ReapStep::Need(_) if *budget == 0 => {
                    let from = reap.place();
                    return Ok(Some(Freeing::Tree {
                        root,
                        floor,
                        from,
                        left,
                    }));
                }
                ReapStep::Need(need) => {
                    let node = self.shared.node(DESTROYED, &need).await;
                    match node.and_then(|node| reap.supply(node)) {
                        Ok(()) => {}
                        Err(error @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                            tracing::error!(%error, "the space below a damaged node stays used");
                            reap.skip();
                        }
                        Err(other) => return Err(other),
                    }
                    continue;
                }
                ReapStep::Record(ptr) | ReapStep::Node(ptr) => ptr,
                ReapStep::Done => return Ok(None),
            };
            left = left.saturating_sub(self.allocated(&freed));
            self.state.borrow_mut().allocator.free(&freed);
            self.advance(1);
            *budget = budget.saturating_sub(1);
            steps += 1;
            if steps % STEP_BLOCKS == 0 {
                io::yield_now().await;
            }
        }
    }

    /// Frees the next blocks on a deadlist, or hands them over to the list before it. Returns the rest.
    async fn free_list_part(
        &self,
        destroy: Freeing,
        checkpoint: &CheckpointSnapshot,
        deadlists: &mut DeadlistChanges,
        budget: &mut usize,
    ) -> Result<Option<Freeing>> {
        let Freeing::List { list, prev } = destroy else {
            return Ok(Some(destroy));
        };
        let mut scan = ListScan::new(checkpoint.dead_root, list);
        let mut steps = 0;
        while *budget > 0 {
            let chunk = scan.next(&self.shared, &deadlists.layer).await?;
            let Some((key, value)) = chunk else {
                return Ok(None);
            };
            self.pass_chunk(checkpoint, deadlists, (key, &value), prev, budget)?;
            steps += 1;
            if steps % (STEP_BLOCKS / 16) == 0 {
                io::yield_now().await;
            }
        }
        Ok(Some(destroy))
    }

    fn pass_chunk(
        &self,
        checkpoint: &CheckpointSnapshot,
        deadlists: &mut DeadlistChanges,
        (key, value): (Key, &Value),
        prev: PrevSnapshot,
        budget: &mut usize,
    ) -> Result<()> {
        let at = checkpoint.dead_root.map(|ptr| ptr.address());
        let ptrs = pointers(value).map_err(|defect| match at {
            Some(at) => Error::Corrupt { at, defect },
            None => Error::Invalid(defect),
        })?;
        deadlists.take(key, &ptrs);
        self.advance(ptrs.len() as u64);
        *budget = budget.saturating_sub(ptrs.len());
        let mut kept = Vec::new();
        let mut state = self.state.borrow_mut();
        for ptr in ptrs {
            match Fate::of(prev, ptr.birth) {
                Fate::Free => state.allocator.free(&ptr),
                Fate::Listed => kept.push(ptr),
            }
        }
        if let Some(to) = prev.list {
            deadlists.add(to, &kept);
        }
        Ok(())
    }
}

impl Pool {
    /// Whether blocks of destroyed datasets are not free yet. Checkpoints free them in the background.
    #[must_use]
    pub fn is_freeing(&self) -> bool {
        !self.owner.state.borrow().destroyer.is_empty()
    }
}
