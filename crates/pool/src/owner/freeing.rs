//! What was destroyed is freed over many checkpoints.
//!
//! A volume that goes, or what a rollback gives up, leaves its tree; a snapshot leaves its list of dead blocks. Either is
//! gone as soon as a batch of the journal says so. What is left of it is noted in the pool's own tree by each checkpoint,
//! which frees a bounded part of it.
//!
//! **Owns** what is being freed. **Called by** whoever destroys, and by checkpoints. **Invariants**: what a checkpoint
//! frees and what it notes to be left go to the disks together; while one runs, the state has what was left before it; a
//! block that somebody may hold is never freed.

use std::sync::Arc;

use super::checkpoint::CheckpointSnapshot;
use super::dead::{DEAD_TREE, DeadLists, Fate, list_keys, pointers};
use super::{Owner, Pool, State};
use crate::format::{Birth, BlockPtr, DatasetRoot, Edge, Freeing, Key, ListId, Value};
use crate::shared::GONE;
use crate::tree::{Direction, Layer, Reap, ReapStep, Scan, ScanStep};
use crate::{Error, Result};

/// Blocks between which others run.
const STEP_BLOCKS: usize = 256;

/// Something that was destroyed.
#[derive(Clone)]
pub(super) struct Job {
    /// Changes above a tree: their blocks go first, all at once. The journal bounds them.
    pub(super) layers: Vec<Arc<Layer>>,
    /// Others hold what was born up to here.
    pub(super) floor: Birth,
    /// None if nothing but layers is left.
    pub(super) left: Option<Freeing>,
}

/// What a checkpoint did to a job.
pub(super) struct Advance {
    pub(super) number: u64,
    /// None if nothing.
    pub(super) left: Option<Freeing>,
}

impl Job {
    /// What an earlier life left.
    pub(super) fn resumed(left: Freeing) -> Self {
        let (Freeing::Tree { floor, .. }
        | Freeing::List {
            edge: Edge { floor, .. },
            ..
        }) = left;
        Self {
            layers: Vec::new(),
            floor,
            left: Some(left),
        }
    }

    /// A list whose snapshot is gone.
    pub(super) fn of_list(list: ListId, edge: Edge) -> Self {
        Self::resumed(Freeing::List { list, edge })
    }

    /// A checkpoint that was on its way made a tree of its layers.
    pub(super) fn replace_root(&mut self, held: &DatasetRoot) {
        self.left = held.root.map(|root| Freeing::Tree {
            root,
            floor: self.floor,
            from: Key::START,
            left: held.allocated,
        });
    }
}

impl State {
    /// Takes over what is left of something that was destroyed.
    pub(super) fn begin_freeing(&mut self, job: Job) {
        if job.layers.is_empty() && job.left.is_none() {
            return;
        }
        self.shared.room.destroyed();
        let last = self.freeing.last_key_value().map_or(0, |(n, _)| *n);
        self.freeing.insert(last + 1, job);
    }

    /// A list has no place to be any more: what was to go to it goes to `to`, or nowhere with the floor that it has.
    pub(super) fn redirect(&mut self, gone: ListId, to: Option<Edge>) {
        for job in self.freeing.values_mut() {
            if let Some(Freeing::List { edge, .. }) = &mut job.left
                && edge.list == Some(gone)
            {
                match to {
                    Some(to) => *edge = to,
                    None => edge.list = None,
                }
            }
        }
    }

    /// A checkpoint is durable: what it left is what there is.
    pub(super) fn advance(&mut self, advances: &[Advance]) {
        for Advance { number, left } in advances {
            let Some(job) = self.freeing.get_mut(number) else {
                continue;
            };
            job.layers.clear();
            match (left, &mut job.left) {
                (None, _) => drop(self.freeing.remove(number)),
                // where it goes may have changed meanwhile
                (Some(Freeing::List { .. }), _) => {}
                (Some(tree), now) => *now = Some(*tree),
            }
        }
    }
}

impl Owner {
    /// Frees a part of what was destroyed: about as many blocks as one checkpoint may.
    pub(super) async fn free_some(
        &self,
        cut: &CheckpointSnapshot,
        dead: &mut DeadLists,
    ) -> Result<Vec<Advance>> {
        let mut budget = cut.freeing_max;
        let mut advances = Vec::new();
        for (number, job) in &cut.freeing {
            self.free_layers(job);
            let left = match job.left {
                left if budget == 0 => left,
                Some(tree @ Freeing::Tree { .. }) => self.free_tree_part(tree, &mut budget).await?,
                Some(list @ Freeing::List { .. }) => {
                    self.free_list_part(list, cut, dead, &mut budget).await?
                }
                None => None,
            };
            advances.push(Advance {
                number: *number,
                left,
            });
        }
        Ok(advances)
    }

    fn free_layers(&self, job: &Job) {
        let mut state = self.state.borrow_mut();
        each_layered(&job.layers, |ptr| {
            if ptr.birth > job.floor {
                state.free(ptr);
            }
        });
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
            self.state.borrow_mut().free(&freed);
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
        dead: &mut DeadLists,
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
        dead: &mut DeadLists,
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
                Fate::Free => state.free(&ptr),
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
        !self.owner.state.borrow().freeing.is_empty()
    }
}

/// The blocks that layers put.
pub(super) fn each_layered(layers: &[Arc<Layer>], mut each: impl FnMut(&BlockPtr)) {
    let points = layers.iter().flat_map(|l| l.points());
    for (_, delta) in points {
        if let Some(ptr) = delta.value().and_then(Value::block) {
            each(ptr);
        }
    }
}
