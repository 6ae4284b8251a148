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

use super::nodes::NodeWriter;
use super::{Dying, Owner, POOL_TREE, Stage, State};
use crate::Result;
use crate::format::{Birth, DatasetRoot, Key, TreeId, Uberblock, Value, root_key, space_key};
use crate::journal::Ticket;
use crate::shared::lock;
use crate::space::Class;
use crate::tree::{Freed, Layer, Merge, MergeStep, Root, TreeParams, Visit, Walk, WalkStep};
use crate::volume::Volume;

/// Steps of a merge between which others run.
const STEPS_MAX: u32 = 32;

/// A volume whose layers are frozen.
struct Frozen {
    volume: Volume,
    layers: Vec<Arc<Layer>>,
    root: Root,
    referenced: u64,
}

/// What a checkpoint holds: everything up to one batch.
struct Cut {
    birth: Birth,
    up_to: Ticket,
    volumes: Vec<Frozen>,
    dying: Vec<Dying>,
    pool: Arc<Layer>,
    uberblock: Uberblock,
}

impl State {
    /// Freezes everything.
    fn cut(&mut self) -> Cut {
        let birth = self.epoch;
        self.epoch = Birth(birth.0 + 1);
        self.journal.set_epoch(self.epoch);
        self.short = false;
        let freeze = |volume: &Volume| {
            let mut state = lock(&volume.0.state);
            if !state.top.is_empty() {
                let top = std::mem::take(&mut state.top).freeze();
                state.frozen.push_front(top);
            }
            Frozen {
                volume: volume.clone(),
                layers: state.frozen.iter().cloned().collect(),
                root: state.root,
                referenced: state.referenced,
            }
        };
        let volumes = self.volumes.values().map(freeze);
        Cut {
            birth,
            volumes: volumes.filter(|f| !f.layers.is_empty()).collect(),
            up_to: self.journal.last(),
            dying: std::mem::take(&mut self.dying).into_values().collect(),
            pool: std::mem::take(&mut self.top).freeze(),
            uberblock: self.uberblock,
        }
    }

    /// Takes a volume's blocks over, to be freed by the next checkpoint.
    pub(super) fn bury(&mut self, volume: &Volume) {
        let id = volume.0.id;
        self.volumes.remove(&id);
        let mut state = lock(&volume.0.state);
        let dirty = std::mem::take(&mut state.dirty);
        volume.0.shared.room.replaced(dirty.bytes() as u64);
        let top = std::mem::take(&mut state.top).freeze();
        let frozen = std::mem::take(&mut state.frozen);
        let layers = std::iter::once(top).chain(frozen).collect();
        let root = state.root.take();
        self.dying.insert(id, Dying { root, layers });
    }

    /// Puts a volume's new tree in the place of its old one and of the layers that it holds.
    fn swap(&mut self, frozen: &Frozen, root: Root, referenced: u64) {
        let mut state = lock(&frozen.volume.0.state);
        let keep = |l: &Arc<Layer>| !frozen.layers.iter().any(|merged| Arc::ptr_eq(l, merged));
        if let Some(dying) = self.dying.get_mut(&frozen.volume.0.id) {
            dying.root = root;
            dying.layers.retain(keep);
        } else {
            state.root = root;
            state.referenced = referenced;
            state.frozen.retain(keep);
        }
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
        let mut own = Layer::new();
        for frozen in &cut.volumes {
            let (root, referenced) = self.clone().merge_volume(frozen, cut.birth).await?;
            let value = DatasetRoot { root, referenced }.encode();
            own.put(root_key(frozen.volume.0.id), Value::Inline(value));
        }
        for dying in &cut.dying {
            self.free_dying(dying).await?;
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
        self.shared.readers.quiesce().await;
        let mut state = self.state.borrow_mut();
        state.uberblock = uberblock;
        state.journal.release(uberblock.journal);
        for freed in &freed {
            if let Freed::Node(ptr) = freed {
                let gone = state
                    .space
                    .free_with(&mut sealed, ptr.address(), ptr.physical_size);
                state.check_freed(ptr, gone);
            }
        }
        state.space.release(sealed);
        let settled = state.is_settled();
        self.shared
            .room
            .checkpointed(state.space.allocatable(), settled);
        Ok(())
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
            sequence: cut.uberblock.sequence + 1,
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

    /// Merges a volume's frozen layers and frees what they replace. Returns its new root and what it refers to.
    async fn merge_volume(self: Rc<Self>, frozen: &Frozen, birth: Birth) -> Result<(Root, u64)> {
        let put: u64 = frozen
            .layers
            .iter()
            .flat_map(|l| l.points())
            .filter_map(|(_, delta)| delta.value()?.block().map(|p| u64::from(p.physical_size)))
            .sum();
        let id = frozen.volume.0.id;
        let (root, freed) = self
            .clone()
            .merge(id, frozen.root, &frozen.layers, birth, Class::Tree)
            .await?;
        let mut gone = 0;
        for freed in &freed {
            match freed {
                Freed::Data(ptr) => gone += u64::from(ptr.physical_size),
                Freed::Node(_) => {}
                Freed::Subtree(ptr) => gone += self.free_tree(Some(*ptr)).await?,
            }
        }
        let referenced = (frozen.referenced + put).saturating_sub(gone);
        let mut state = self.state.borrow_mut();
        for freed in &freed {
            state.free_node(freed);
        }
        for freed in &freed {
            if let Freed::Node(ptr) = freed {
                self.shared.forget(ptr);
            }
        }
        state.swap(frozen, root, referenced);
        Ok((root, referenced))
    }

    async fn merge(
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

    async fn free_dying(&self, dying: &Dying) -> Result<()> {
        {
            let mut state = self.state.borrow_mut();
            let points = dying.layers.iter().flat_map(|l| l.points());
            for (_, delta) in points {
                if let Some(ptr) = delta.value().and_then(Value::block) {
                    state.free(ptr);
                }
            }
        }
        self.free_tree(dying.root).await?;
        Ok(())
    }

    /// Frees a tree with all that it points to. Returns the bytes of its records.
    async fn free_tree(&self, root: Root) -> Result<u64> {
        let mut walk = Walk::new(root, Birth(0), Key::START);
        let mut bytes = 0;
        loop {
            match walk.step() {
                WalkStep::Need(need) => walk.supply(self.shared.node(&need.ptr).await?)?,
                WalkStep::Visit(Visit::Node(ptr)) => self.state.borrow_mut().free(&ptr),
                WalkStep::Visit(Visit::Entry(_, value)) => {
                    if let Some(ptr) = value.block() {
                        bytes += u64::from(ptr.physical_size);
                        self.state.borrow_mut().free(ptr);
                    }
                }
                WalkStep::Visit(Visit::Older(_)) => {}
                WalkStep::Done => return Ok(bytes),
            }
        }
    }
}

impl State {
    /// Frees what a merge reported, but for subtrees, which are walked.
    fn free_node(&mut self, freed: &Freed) {
        match freed {
            Freed::Data(ptr) | Freed::Node(ptr) => self.free(ptr),
            Freed::Subtree(_) => {}
        }
    }

    /// Whether another checkpoint would free nothing.
    fn is_settled(&self) -> bool {
        let clean = |volume: &Volume| {
            let state = lock(&volume.0.state);
            state.dirty.is_empty() && state.top.is_empty() && state.frozen.is_empty()
        };
        self.dying.is_empty() && self.space.pending() == 0 && self.volumes.values().all(clean)
    }
}
