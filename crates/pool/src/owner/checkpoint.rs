//! Checkpoints: what the journal holds becomes trees.
//!
//! The layers of all volumes are frozen in one step, together with the place in the journal; then they are merged into
//! new trees, while new groups go to new layers. The pool's own tree takes the new roots and the space that is used.
//! When all of it and the journal up to then are durable, an uberblock makes it the pool; what was freed is reusable,
//! and the journal begins behind the frozen layers.
//!
//! **Owns** that course. **Called by** the owner's loop. **Invariants**: until its uberblock is durable, nothing that
//! the one before points to is overwritten; what the saved space says to be used includes blocks of batches after the
//! frozen layers only if these batches are durable before the uberblock is.

use std::rc::Rc;
use std::sync::Arc;

use super::dead::{DEAD_TREE, DeadLists};
use super::nodes::NodeWriter;
use super::snapshot::DyingSnapshot;
use super::{Dying, Owner, POOL_TREE, Stage, State};
use crate::Result;
use crate::format::{Birth, Dataset, DatasetRoot, TreeId, Uberblock, Value, root_key, space_key};
use crate::journal::Ticket;
use crate::shared::lock;
use crate::space::{Class, Sealed};
use crate::tree::{Freed, Layer, Merge, MergeStep, Root, TreeParams};
use crate::volume::{Frozen, Volume};

/// Steps of a merge between which others run.
const STEPS_MAX: u32 = 32;

/// A dataset as it is when a checkpoint begins, whatever becomes of it meanwhile.
pub(super) struct Held {
    pub(super) id: TreeId,
    pub(super) dataset: Dataset,
    /// Newest first.
    pub(super) frozen: Vec<Frozen>,
    pub(super) root: DatasetRoot,
    /// Of the snapshot that it is a clone of.
    pub(super) origin: Birth,
}

/// What a checkpoint holds: everything up to one batch.
pub(super) struct Cut {
    pub(super) birth: Birth,
    up_to: Ticket,
    pub(super) datasets: Vec<Held>,
    /// Snapshots that have no root of their own yet, and clones and volumes that were rolled back.
    pub(super) unsettled: Vec<TreeId>,
    pub(super) dying: Vec<Dying>,
    pub(super) dying_snapshots: Vec<DyingSnapshot>,
    forgotten: Vec<TreeId>,
    pool: Arc<Layer>,
    dead_root: Root,
    uberblock: Uberblock,
    newest: u64,
}

impl Cut {
    pub(super) fn dead_root(&self) -> Root {
        self.dead_root
    }
}

impl State {
    /// Freezes everything.
    fn cut(&mut self) -> Cut {
        let birth = self.epoch;
        self.epoch = Birth(birth.0 + 1);
        self.journal.set_epoch(self.epoch);
        self.short = false;
        self.settling = std::mem::take(&mut self.unsettled);
        let hold = |volume: &Volume| {
            let origin = self.origin_birth(&volume.dataset());
            let mut state = lock(&volume.0.state);
            state.freeze(birth);
            Held {
                id: volume.0.id,
                dataset: state.dataset.clone(),
                frozen: state.frozen.iter().cloned().collect(),
                root: DatasetRoot {
                    root: state.root,
                    referenced: state.referenced,
                },
                origin,
            }
        };
        let datasets = self.volumes.values().map(hold).collect();
        Cut {
            birth,
            datasets,
            unsettled: self.settling.iter().copied().collect(),
            up_to: self.journal.last(),
            dying: std::mem::take(&mut self.dying),
            dying_snapshots: std::mem::take(&mut self.dying_snapshots),
            forgotten: std::mem::take(&mut self.forgotten),
            pool: std::mem::take(&mut self.top).freeze(),
            dead_root: self.dead_root,
            uberblock: self.uberblock,
            newest: self.newest,
        }
    }

    /// Takes a volume's blocks over, to be freed by the next checkpoint.
    pub(super) fn bury(&mut self, volume: &Volume) {
        let since = self.origin_birth(&volume.dataset());
        self.volumes.remove(&volume.0.id);
        self.unsettled.remove(&volume.0.id);
        let mut state = lock(&volume.0.state);
        let dirty = std::mem::take(&mut state.dirty);
        volume.0.shared.room.replaced(dirty.all_bytes() as u64);
        let epoch = self.epoch;
        state.freeze(epoch);
        let layers = std::mem::take(&mut state.frozen);
        self.dying.push(Dying {
            root: state.root.take(),
            layers: layers.into_iter().map(|f| f.layer).collect(),
            since,
        });
    }
}

impl Owner {
    pub(super) async fn run_checkpoint(self: Rc<Self>) {
        let wanted = std::mem::take(&mut self.state.borrow_mut().checkpoint_wanted);
        let done = self.clone().checkpoint().await;
        if let Err(error) = &done {
            tracing::error!(%error, "a checkpoint failed: the pool takes no more changes");
            self.fail();
        }
        self.state.borrow_mut().stage = Stage::Idle;
        for sender in wanted {
            sender.send(done.clone());
        }
        self.shared.bell.ring();
    }

    async fn checkpoint(self: Rc<Self>) -> Result<()> {
        let cut = self.state.borrow_mut().cut();
        let mut dead = DeadLists::new(cut.birth);
        for id in &cut.forgotten {
            dead.clear(*id);
        }
        let mut own = Layer::new();
        for (id, root) in self.clone().merge_volumes(&cut, &mut dead).await? {
            own.put(root_key(id), Value::Inline(root.encode()));
        }
        for dying in &cut.dying {
            self.free_dying(dying).await?;
        }
        for snapshot in &cut.dying_snapshots {
            self.free_snapshot(*snapshot, &cut, &mut dead).await?;
        }
        let dead_root = self.clone().merge_dead(&cut, dead).await?;
        if dead_root != cut.dead_root {
            let root = DatasetRoot {
                root: dead_root,
                referenced: 0,
            };
            own.put(root_key(DEAD_TREE), Value::Inline(root.encode()));
        }
        let (mut sealed, up_to) = {
            let mut state = self.state.borrow_mut();
            let sealed = state.space.seal();
            for (vdev, region, bits) in sealed.regions() {
                let key = space_key(vdev, region);
                match bits {
                    Some(bits) => drop(own.put(key, Value::Inline(bits.into()))),
                    None => drop(own.delete(key)),
                }
            }
            (sealed, state.journal.last())
        };
        let layers = [own.freeze(), cut.pool.clone()];
        let (root, freed) = self
            .clone()
            .merge(
                POOL_TREE,
                cut.uberblock.root,
                &layers,
                cut.birth,
                Class::PoolTree,
            )
            .await?;
        // what the saved space includes of newer batches must not be lost; and replay begins after a durable one
        self.durable(up_to).await?;
        let uberblock = self.write_uberblock(&cut, root).await?;
        let mut state = self.state.borrow_mut();
        state.uberblock = uberblock;
        state.newest = uberblock.sequence;
        state.dead_root = dead_root;
        state.settling.clear();
        state.journal.release(uberblock.journal);
        for freed in &freed {
            if let Freed::Node(ptr) = freed {
                let gone = state
                    .space
                    .free_with(&mut sealed, ptr.address(), ptr.physical_size);
                state.check_freed(ptr, gone);
            }
        }
        drop(state);
        // readers may take long, and the next checkpoint is not to wait for them
        drop(io::spawn(async move { self.release(sealed).await }));
        Ok(())
    }

    /// Gives free what a durable checkpoint freed, once nobody reads it any more.
    async fn release(&self, sealed: Sealed) {
        self.shared.readers.quiesce().await;
        let mut state = self.state.borrow_mut();
        state.space.release(sealed);
        let settled = state.is_settled();
        let room = &self.shared.room;
        room.checkpointed(state.space.allocatable(), settled);
    }

    /// Makes the trees the pool.
    async fn write_uberblock(&self, cut: &Cut, root: Root) -> Result<Uberblock> {
        let start = self
            .state
            .borrow()
            .journal
            .start_after(cut.up_to.sequence());
        let uberblock = Uberblock {
            epoch: cut.birth,
            sequence: cut.newest + 1,
            time: io::time::wall_clock_ms() * 1_000_000,
            root,
            journal: start.expect("what a checkpoint holds is durable and was not released"),
            ..cut.uberblock
        };
        let _nodes = self.shared.vdevs.flush().await?;
        self.shared.vdevs.write_uberblock(&uberblock).await?;
        let _uberblock = self.shared.vdevs.flush().await?;
        Ok(uberblock)
    }

    /// Merges layers into a tree. Returns its new root and what is not in it any more.
    pub(super) async fn merge(
        self: Rc<Self>,
        tree: TreeId,
        root: Root,
        layers: &[Arc<Layer>],
        birth: Birth,
        class: Class,
    ) -> Result<(Root, Vec<Freed>)> {
        let node_size = self.state.borrow().node_size;
        let params = TreeParams {
            node_size,
            tree,
            birth,
        };
        let mut writer = NodeWriter::new(self.clone(), class, birth);
        let mut merge = Merge::new(params, root, layers)?;
        let mut freed = Vec::new();
        let mut steps = 0;
        let root = loop {
            match merge.step() {
                MergeStep::Need(need) => merge.supply(self.shared.node(&need.ptr).await?)?,
                MergeStep::Write(node) => merge.wrote(&writer.write(&node).await?),
                MergeStep::Done(root) => break root,
            }
            freed.extend(merge.freed());
            steps += 1;
            if steps % STEPS_MAX == 0 {
                io::yield_now().await;
            }
        };
        freed.extend(merge.freed());
        writer.finish().await?;
        Ok((root, freed))
    }

    /// Merges what the checkpoint adds to the lists of dead blocks. Their tree has no snapshots.
    async fn merge_dead(self: Rc<Self>, cut: &Cut, dead: DeadLists) -> Result<Root> {
        let layers = [dead.layer.freeze()];
        let (root, freed) = self
            .clone()
            .merge(DEAD_TREE, cut.dead_root, &layers, cut.birth, Class::Tree)
            .await?;
        for freed in &freed {
            match freed {
                Freed::Node(ptr) | Freed::Data(ptr) => self.state.borrow_mut().free(ptr),
                Freed::Subtree(ptr) => self.free_tree(Some(*ptr), Birth(0)).await?,
            }
        }
        Ok(root)
    }
}

impl State {
    /// Whether another checkpoint would free nothing.
    fn is_settled(&self) -> bool {
        let clean = |volume: &Volume| {
            let state = lock(&volume.0.state);
            state.dirty.is_empty() && state.top.is_empty() && state.frozen.is_empty()
        };
        self.dying.is_empty()
            && self.dying_snapshots.is_empty()
            && self.space.pending() == 0
            && self.volumes.values().all(clean)
    }
}
