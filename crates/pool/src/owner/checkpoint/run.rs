//! Checkpoints: merge all layers into the trees, and make the result the pool.
//!
//! In one step the layers of all changed volumes, the pool's own tree, the allocator and the place in the journal are
//! frozen. The frozen layers are merged into new trees, while later groups go to new layers. The pool's own tree gets
//! the new roots and the used space. When the trees and the journal up to the frozen place are durable, an uberblock
//! makes the trees the pool. Then the replaced blocks are reusable, and the journal begins behind the frozen place.
//!
//! **Owns** the steps of a checkpoint; [`Checkpointer`](super::checkpointer::Checkpointer) has its state. **Called
//! by** the owner's loop. **Invariants**: no block of the previous checkpoint is overwritten before the new uberblock
//! is durable; the batches that a checkpoint holds are durable before its uberblock is.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::checkpoint_snapshot::{CheckpointSnapshot, MERGE_STEPS};
use super::checkpointer::CheckpointRequest;
use super::nodes::NodeWriter;
use super::yielder::Yielder;
use crate::dataset::OpenDataset;
use crate::format::{
    Birth, BlockSizes, DatasetRoot, Freeing, Key, ListId, PrevSnapshot, TreeId, Uberblock, Value,
    freeing_key, list_key, root_key,
};
use crate::journal::Pressure;
use crate::owner::destroy::deadlists::{DEAD_TREE, DeadlistChanges};
use crate::owner::destroy::destroyer::DestroyProgress;
use crate::owner::{Owner, POOL_TREE, State};
use crate::space::{BlockKind, Sealed};
use crate::tree::{Freed, Layer, Merge, MergeStep, Root, TreeParams};
use crate::vdev::MemberState;
use crate::{Error, Result};
use io::sync::lock;

/// Steps of a merge between two yields to other tasks.
const STEPS_MAX: u32 = 32;

/// A checkpoint that is written because space is short frees at least this part of the pool.
const SPACE_PART: u64 = 64;

/// The results of a checkpoint's merges, before the pool's own tree is merged.
struct CheckpointResult {
    /// New roots, by dataset.
    roots: Vec<(TreeId, DatasetRoot)>,
    destroys: Vec<DestroyProgress>,
    /// Bytes on each changed deadlist.
    list_sizes: BTreeMap<ListId, u64>,
    dead_root: Root,
}

impl CheckpointResult {
    /// Adds the entries of the pool's own tree for these results to others.
    fn pool_layer(&self, checkpoint: &CheckpointSnapshot, mut own: Layer) -> Layer {
        for (id, root) in &self.roots {
            put(&mut own, root_key(*id), Some(root.encode()));
        }
        for DestroyProgress { number, left } in &self.destroys {
            let left = left.as_ref().map(Freeing::encode);
            put(&mut own, freeing_key(*number), left);
        }
        for (list, bytes) in &self.list_sizes {
            let bytes = (*bytes > 0).then(|| bytes.to_le_bytes().into());
            put(&mut own, list_key(*list), bytes);
        }
        if self.dead_root != checkpoint.dead_root {
            let root = DatasetRoot {
                root: self.dead_root,
                ..DatasetRoot::default()
            };
            put(&mut own, root_key(DEAD_TREE), Some(root.encode()));
        }
        own
    }
}

/// Puts an entry into a layer, or deletes it.
fn put(layer: &mut Layer, key: Key, value: Option<Box<[u8]>>) {
    match value {
        Some(value) => drop(layer.put(key, Value::Inline(value))),
        None => drop(layer.delete(key)),
    }
}

impl State {
    /// `parts` parts of the checkpoint are left; 0 after its end.
    fn set_parts_left(&mut self, parts: u64) {
        self.journal.set_parts_left(parts);
        self.shared.budget.set_parts_left(parts);
    }
}

impl Owner {
    /// Begins a checkpoint if one is due. What it holds is frozen in the same step as the decision: the records that it waited for have
    /// blocks then, and none has joined them in the journal.
    pub(in crate::owner) fn begin_checkpoint(self: &Rc<Self>) {
        if self.shared.vdevs.is_read_only() {
            return;
        }
        let mut state = self.state.borrow_mut();
        if !state.may_begin_checkpoint() {
            return;
        }
        let requests = state.checkpointer.begin();
        let checkpoint = state.freeze();
        let this = self.clone();
        drop(io::spawn(async move {
            this.run_checkpoint(checkpoint, requests).await;
        }));
    }

    /// Writes a checkpoint, and answers the requests for it.
    async fn run_checkpoint(
        self: Rc<Self>,
        checkpoint: CheckpointSnapshot,
        requests: Vec<CheckpointRequest>,
    ) {
        let done = self.clone().checkpoint(checkpoint).await;
        if let Err(error) = &done {
            tracing::error!(%error, "a checkpoint failed: the pool takes no more changes");
            self.fail(error.clone());
        }
        let end_requests = {
            let mut state = self.state.borrow_mut();
            state.set_parts_left(0);
            state.checkpointer.end()
        };
        for request in requests.into_iter().chain(end_requests) {
            request.send(done.clone());
        }
        self.shared.bell.ring();
    }

    /// The checkpoint did `steps` progress steps. Passes its progress to the throttles of journal and write budget.
    pub(in crate::owner) fn advance(&self, steps: u64) {
        let mut state = self.state.borrow_mut();
        if let Some(parts) = state.checkpointer.advance(steps) {
            state.set_parts_left(parts);
            self.shared.bell.ring();
        }
    }

    async fn checkpoint(self: Rc<Self>, checkpoint: CheckpointSnapshot) -> Result<()> {
        let mut deadlists = DeadlistChanges::new(checkpoint.birth, self.shared.vdevs.block_space());
        for id in &checkpoint.forgotten {
            deadlists.clear(*id);
        }
        let merges = self.clone().merge_volumes(&checkpoint, &mut deadlists);
        let roots = merges.await?;
        let destroys = self.free_some(&checkpoint, &mut deadlists).await?;
        self.advance(u64::MAX);
        let list_sizes = deadlists.sizes(self.state.borrow().deadlists.sizes());
        let dead_root = self.clone().merge_dead(&checkpoint, deadlists).await?;
        let result = CheckpointResult {
            roots,
            destroys,
            list_sizes,
            dead_root,
        };
        let rewritten = self.entries_to_rewrite(&checkpoint.pool).await?;
        let own = result.pool_layer(&checkpoint, rewritten);
        let sealed = self.state.borrow_mut().allocator.seal();
        let root = self.save_space(&checkpoint, &sealed, own).await?;
        // replay begins behind a durable batch
        self.durable_at_last(checkpoint.up_to).await?;
        let uberblock = self.write_uberblock(&checkpoint, root).await?;
        let mut state = self.state.borrow_mut();
        state.end_checkpoint(&checkpoint, result, uberblock);
        drop(state);
        // a checkpoint that the journal needs does not wait for long reads
        drop(io::spawn(async move { self.release(sealed).await }));
        drop(io::spawn(checkpoint.dissolve()));
        Ok(())
    }

    /// Makes the blocks reusable that a durable checkpoint freed, once no reader can come to them.
    async fn release(self: Rc<Self>, sealed: Sealed) {
        self.shared.readers.quiesce().await;
        let mut state = self.state.borrow_mut();
        let before = state.allocator.space().allocatable();
        let sector = self.shared.vdevs.sector().into();
        let space = state.allocator.space();
        self.resilver_windows.forget(space, &sealed, sector);
        state.allocator.release(sealed);
        state.checkpointer.released();
        let all_freed = state.frees_nothing_more();
        let freeing = !state.destroyer.is_empty();
        let allocatable = state.allocator.space().allocatable();
        let budget = &self.shared.budget;
        drop(state);
        // before writes that wait decide whether the row mover may help
        self.tell_dead();
        budget.checkpointed(before, allocatable, all_freed, freeing);
        self.trim_freed();
    }

    /// Writes the uberblock that makes the trees the pool.
    async fn write_uberblock(
        &self,
        checkpoint: &CheckpointSnapshot,
        root: Root,
    ) -> Result<Uberblock> {
        let start = self
            .state
            .borrow()
            .journal
            .start_after(checkpoint.up_to.sequence());
        let uberblock = Uberblock {
            epoch: checkpoint.birth,
            sequence: checkpoint.newest + 1,
            time: io::time::wall_clock_ms() * 1_000_000,
            root,
            journal: start.expect("what a checkpoint holds is durable and was not released"),
            ..checkpoint.uberblock
        };
        let _nodes = self.shared.vdevs.flush().await?;
        self.shared.vdevs.write_uberblock(&uberblock).await?;
        let _uberblock = self.shared.vdevs.flush().await?;
        Ok(uberblock)
    }

    /// Whether a node may be given up that cannot be read although changes touch it. Otherwise one damaged node would end all changes of
    /// the pool. Errors: `error`, if the node is not damaged but its disks do not answer, if a disk that is away may have a right copy,
    /// or if the pool itself needs the node.
    fn may_give_up(&self, tree: TreeId, error: Error) -> Result<()> {
        if !matches!(error, Error::Corrupt { .. }) || matches!(tree, POOL_TREE | DEAD_TREE) {
            return Err(error);
        }
        let is_away = |s: MemberState| !matches!(s, MemberState::Online | MemberState::Stale);
        let vdevs = self.shared.vdevs.status();
        let mut members = vdevs.iter().flat_map(|v| &v.members);
        if members.any(|s| is_away(s.state)) {
            tracing::error!(
                %error,
                "a damaged node must change, and a disk that is away may have a right copy of it: connect the disk, or detach it"
            );
            return Err(error);
        }
        tracing::error!(%error, dataset = tree.0, "a damaged node was given up: its keys that did not change are lost");
        Ok(())
    }

    /// Merges layers into a tree. Returns its new root, the blocks that it no longer holds, and its new nodes.
    pub(in crate::owner) async fn merge(
        self: Rc<Self>,
        tree: TreeId,
        root: Root,
        layers: &[Arc<Layer>],
        birth: Birth,
        kind: BlockKind,
    ) -> Result<(Root, Vec<Freed>, NewNodes)> {
        let node_size = self.state.borrow().checkpointer.uberblock().node_size;
        let params = TreeParams {
            node_size,
            tree,
            birth,
        };
        let mut writer = NodeWriter::new(self.clone(), kind, params);
        let mut merge = Merge::new(params, root, layers)?;
        let mut freed = Vec::new();
        let mut new = NewNodes::default();
        let mut yielder = Yielder::every(STEPS_MAX);
        let root = loop {
            if !merge.is_done() {
                merge.limit(writer.room().await?);
            }
            match merge.step() {
                MergeStep::Need(need) => {
                    let node = self.shared.node(tree, &need).await;
                    if let Err(error) = node.and_then(|node| merge.supply(node)) {
                        self.may_give_up(tree, error)?;
                        merge.give_up();
                    }
                }
                MergeStep::Write(node) => {
                    let ptr = writer.write(&node);
                    new.bytes += self.allocated(&ptr);
                    new.sizes.count_node(ptr.physical_size);
                    merge.wrote(&ptr);
                }
                MergeStep::Done(root) => break root,
            }
            freed.extend(merge.freed());
            self.advance(MERGE_STEPS * merge.taken());
            yielder.step().await;
        };
        freed.extend(merge.freed());
        new.spilled = writer.finish().await?;
        Ok((root, freed, new))
    }

    /// Merges the changes of deadlists into their tree. That tree has no snapshots.
    async fn merge_dead(
        self: Rc<Self>,
        checkpoint: &CheckpointSnapshot,
        deadlists: DeadlistChanges,
    ) -> Result<Root> {
        let layers = [deadlists.layer.freeze()];
        let (root, freed, new) = self
            .clone()
            .merge(
                DEAD_TREE,
                checkpoint.dead_root,
                &layers,
                checkpoint.birth,
                BlockKind::Tree,
            )
            .await?;
        self.state
            .borrow_mut()
            .allocator
            .count_spilled_of_pool(new.spilled);
        for freed in &freed {
            match freed {
                Freed::Node(ptr) | Freed::Data(ptr) => self.state.borrow_mut().allocator.free(ptr),
                Freed::Subtree(ptr) => {
                    let alone = PrevSnapshot {
                        floor: Birth(0),
                        list: None,
                    };
                    self.give_up_tree(*ptr, alone, &mut Vec::new()).await?;
                }
            }
        }
        Ok(root)
    }
}

/// The nodes of a tree that a checkpoint writes.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::owner) struct NewNodes {
    /// Bytes of all of them, in whole sectors.
    pub(in crate::owner) bytes: u64,
    /// Their number, and their bytes as stored.
    pub(super) sizes: BlockSizes,
    /// Bytes of nodes on normal vdevs that special ones had no room for.
    pub(in crate::owner) spilled: u64,
}

impl State {
    /// A checkpoint is durable.
    fn end_checkpoint(
        &mut self,
        checkpoint: &CheckpointSnapshot,
        result: CheckpointResult,
        uberblock: Uberblock,
    ) {
        self.checkpointer.durable(uberblock);
        self.destroyer.advance(&result.destroys);
        for list in result.list_sizes.keys() {
            self.datasets.mark_list(*list);
        }
        self.deadlists.durable(result.dead_root, result.list_sizes);
        for volume in &checkpoint.volumes {
            self.datasets.mark_unaccounted(volume.id);
        }
        self.account();
        self.journal.release(uberblock.journal);
    }

    /// Whether another checkpoint would free nothing.
    fn frees_nothing_more(&mut self) -> bool {
        let is_written = |volume: &Arc<OpenDataset>| lock(&volume.state).is_written();
        let is_merged = |volume: &Arc<OpenDataset>| lock(&volume.state).layers.is_merged();
        self.destroyer.is_empty()
            && self.allocator.space().pending() == 0
            && self.checkpointer.takes_all_roots()
            && self.asking().iter().all(is_written)
            && self.datasets.changed().all(is_merged)
    }

    /// Whether more freed space waits for a checkpoint than is free. Free space would come in ever smaller runs.
    fn is_much_freed(&self) -> bool {
        let space = self.allocator.space();
        let pending = space.pending();
        pending > space.allocatable() && pending > space.size() / SPACE_PART
    }

    /// Whether more than half of the free space is kept for nodes. If all were, writers would have to wait.
    fn is_much_kept(&self) -> bool {
        let kept = self.shared.budget.kept_for_nodes();
        let space = self.allocator.space();
        kept > space.allocatable() / 2 && kept > space.size() / SPACE_PART
    }

    /// Whether a checkpoint is due because space is short. That is known only after the last checkpoint released its
    /// freed blocks.
    fn is_space_due(&self) -> bool {
        !self.checkpointer.is_releasing()
            && (self.is_much_freed() || self.is_much_kept() || self.shared.budget.is_running_out())
    }

    /// Whether a checkpoint is due and may begin. If records are only in the journal, they get blocks first, and no more join them.
    fn may_begin_checkpoint(&mut self) -> bool {
        let is_due = self.is_checkpoint_due();
        let may_begin = self.checkpointer.may_begin(is_due);
        let has_journaled = |dataset: &Arc<OpenDataset>| !lock(&dataset.state).journaled.is_empty();
        let waits = may_begin && self.asking().iter().any(has_journaled);
        if self.checkpointer.wait_for_journaled(waits) {
            self.committer.write_all();
            self.shared.bell.ring();
        }
        may_begin && !waits
    }

    /// Whether a checkpoint is due, unless one is being written.
    fn is_checkpoint_due(&self) -> bool {
        !self.checkpointer.is_running()
            && (self.checkpointer.is_due()
                || self.destroyer.is_due()
                || self.allocator.space().is_much_changed()
                || self.journal.pressure() >= Pressure::Checkpoint
                || self.is_space_due())
    }
}
