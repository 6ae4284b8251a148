//! What was destroyed is freed over many checkpoints.
//!
//! A volume that goes, or what a rollback gives up, leaves its tree; a snapshot leaves its list of dead blocks. Either is
//! gone as soon as a batch of the journal says so. What is left of it is noted in the pool's own tree by each checkpoint,
//! which frees a bounded part of it.
//!
//! **Owns** what is being freed. **Called by** whoever destroys, and by checkpoints. **Invariants**: what a checkpoint
//! frees and what it notes to be left go to the disks together; while one runs, the state has what was left before it; a
//! block that somebody may hold is never freed.

use super::checkpoint::{CheckpointSnapshot, NEVER};
use super::deadlists::{DEAD_TREE, DeadlistChanges, Fate, list_keys, pointers};
use super::destroyer::{DestroyProgress, PendingDestroy};
use super::{Owner, Pool, State};
use crate::format::{Birth, Edge, Freeing, Key, ListId, Value};
use crate::shared::{GONE, lock};
use crate::tree::{Direction, Reap, ReapStep, Scan, ScanStep};
use crate::volume::{self, Volume};
use crate::{Error, Result};

/// Blocks between which others run.
const STEP_BLOCKS: usize = 256;

impl State {
    /// Frees the blocks of a dataset from the next checkpoint on.
    fn add_destroy(&mut self, destroy: PendingDestroy) {
        if self.destroyer.add(destroy) {
            self.shared.room.destroyed();
        }
    }

    /// Removes a volume. Checkpoints free its blocks.
    pub(super) fn begin_destroy(&mut self, volume: &Volume) {
        self.datasets.remove(volume.0.id);
        self.checkpointer.forget(volume.0.id);
        self.committer.forget(volume.0.id);
        let mut state = lock(&volume.0.state);
        let dirty = std::mem::take(&mut state.dirty);
        let room = &volume.0.shared.room;
        room.replaced(volume.0.id, dirty.all_bytes() as u64);
        room.close(volume.0.id);
        let origin = state.dataset.origin.and_then(|id| self.datasets.get(id));
        let origin = origin.map(|v| lock(&v.0.state));
        let floor = origin.as_ref().map_or(Birth(0), |o| o.dataset.birth);
        let shared = origin.map_or(0, |o| o.allocated);
        self.destroy_volume(&mut state, floor, shared);
    }

    /// Frees the blocks of a volume that is in no index. Its origin holds the blocks born up to `floor`, `shared` bytes.
    pub(super) fn destroy_volume(&mut self, volume: &mut volume::State, floor: Birth, shared: u64) {
        volume.freeze(self.journal.epoch());
        let list = volume.dataset.list;
        let bytes = (volume.allocated + self.deadlists.bytes(list)).saturating_sub(shared);
        let layers = std::mem::take(&mut volume.frozen);
        let root = volume.root.take();
        self.add_destroy(PendingDestroy::of_dataset(layers, root, floor, bytes));
        // the origin holds the blocks on the volume's list
        let edge = Edge {
            floor: NEVER,
            list: None,
        };
        self.destroyer.redirect(list, None);
        self.add_destroy(PendingDestroy::of_list(list, edge));
    }

    /// Frees the blocks on the deadlist of a destroyed snapshot, or hands them over to `edge`.
    pub(super) fn destroy_snapshot(&mut self, list: ListId, edge: Edge) {
        self.destroyer.redirect(list, Some(edge));
        self.add_destroy(PendingDestroy::of_list(list, edge));
    }

    /// Makes a volume what its newest snapshot is, which has its own root. Later blocks are freed.
    pub(super) fn roll_back(&mut self, volume: &mut volume::State, snapshot: &volume::State) {
        volume.freeze(self.journal.epoch());
        let list = snapshot.dataset.list;
        let bytes = volume.allocated + self.deadlists.bytes(list);
        let destroy = PendingDestroy::of_dataset(
            std::mem::take(&mut volume.frozen),
            volume.root,
            snapshot.dataset.birth,
            bytes.saturating_sub(snapshot.allocated),
        );
        self.add_destroy(destroy);
        self.destroyer.redirect(list, None);
        self.deadlists.forget(list);
        volume.hold(snapshot.held());
        volume.dataset.size = snapshot.dataset.size;
    }
}

impl Owner {
    /// Frees a part of what was destroyed: about as many blocks as one checkpoint may.
    pub(super) async fn free_some(
        &self,
        cut: &CheckpointSnapshot,
        dead: &mut DeadlistChanges,
    ) -> Result<Vec<DestroyProgress>> {
        let mut budget = cut.destroy_blocks_max;
        let mut advances = Vec::new();
        for (number, job) in &cut.destroys {
            {
                let mut state = self.state.borrow_mut();
                job.each_layered(|ptr| state.allocator.free(ptr));
            }
            let left = match job.left() {
                left if budget == 0 => left,
                Some(tree @ Freeing::Tree { .. }) => self.free_tree_part(tree, &mut budget).await?,
                Some(list @ Freeing::List { .. }) => {
                    self.free_list_part(list, cut, dead, &mut budget).await?
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

    /// Frees what is next of a tree. Returns what is left.
    async fn free_tree_part(&self, job: Freeing, budget: &mut usize) -> Result<Option<Freeing>> {
        let Freeing::Tree {
            root,
            floor,
            from,
            mut left,
        } = job
        else {
            return Ok(Some(job));
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
                    let node = self.shared.node(GONE, &need).await;
                    match node.and_then(|node| reap.supply(node)) {
                        Ok(()) => {}
                        Err(error @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                            tracing::error!(%error, "what hangs below a damaged node stays used");
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

    /// Frees, or hands on, what is next of a list. Returns what is left.
    async fn free_list_part(
        &self,
        job: Freeing,
        cut: &CheckpointSnapshot,
        dead: &mut DeadlistChanges,
        budget: &mut usize,
    ) -> Result<Option<Freeing>> {
        let Freeing::List { list, edge } = job else {
            return Ok(Some(job));
        };
        let mut scan = Scan::new(cut.dead_root(), list_keys(list), Direction::Forward);
        let mut steps = 0;
        while *budget > 0 {
            let (key, value) = match scan.step(&[&dead.layer]) {
                ScanStep::Need(need) => {
                    scan.supply(self.shared.node(DEAD_TREE, &need).await?)?;
                    continue;
                }
                ScanStep::Entry(key, value) => (key, value),
                ScanStep::Done => return Ok(None),
            };
            self.pass_chunk(cut, dead, (key, &value), edge, budget)?;
            steps += 1;
            if steps % (STEP_BLOCKS / 16) == 0 {
                io::yield_now().await;
            }
        }
        Ok(Some(job))
    }

    fn pass_chunk(
        &self,
        cut: &CheckpointSnapshot,
        dead: &mut DeadlistChanges,
        (key, value): (Key, &Value),
        edge: Edge,
        budget: &mut usize,
    ) -> Result<()> {
        let at = cut.dead_root().map(|ptr| ptr.address());
        let ptrs = pointers(value).map_err(|defect| match at {
            Some(at) => Error::Corrupt { at, defect },
            None => Error::Invalid(defect),
        })?;
        dead.take(key, &ptrs);
        self.advance(ptrs.len() as u64);
        *budget = budget.saturating_sub(ptrs.len());
        let mut kept = Vec::new();
        let mut state = self.state.borrow_mut();
        for ptr in ptrs {
            match Fate::of(edge, ptr.birth) {
                Fate::Free => state.allocator.free(&ptr),
                Fate::Listed => kept.push(ptr),
            }
        }
        if let Some(to) = edge.list {
            dead.add(to, &kept);
        }
        Ok(())
    }
}

impl Pool {
    /// Whether something that was destroyed is not all free yet. Checkpoints go on with it by themselves.
    #[must_use]
    pub fn is_freeing(&self) -> bool {
        !self.owner.state.borrow().destroyer.is_empty()
    }
}
