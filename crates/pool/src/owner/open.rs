//! Opening a pool.
//!
//! **Owns** the steps from open devices to a pool that serves: newest uberblock, the pool's own tree, replay of the
//! journal. **Called by** [`Pool`]'s users. **Invariants**: only checksummed data is used; before the end of replay
//! nothing is written but repairs by replay itself and, for a rewind, one uberblock (`docs/decisions/0119`).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use super::allocator::Allocator;
use super::checkpointer::Checkpointer;
use super::committer::Committer;
use super::datasets::Datasets;
use super::deadlists::{DEAD_TREE, Deadlists};
use super::destroyer::Destroyer;
use super::lineage::promoted;
use super::pool_tree::{PoolTree, number};
use super::rewind::go_back;
use super::snapshot::{
    PendingSnapshots, StateChange, after_origin, after_snapshot, snapshot_state,
};
use super::{Owner, POOL_TREE, Pool, State};
use crate::format::{
    Birth, BlockPtr, Dataset, DatasetRoot, Defect, Freeing, Incarnation, KIND_DATASET,
    KIND_FREEING, KIND_LIST, KIND_ROOT, KIND_SPACE, Key, ListId, Node, PoolProperty, Record,
    TreeId, Uberblock, Value, dataset_key,
};
use crate::journal::{Replayed, UNPROVEN_MAX, Writer, replay, salvage};
use crate::shared::Shared;
use crate::space::{Space, VdevSpace};
use crate::tree::{Need, Visit, Walk, WalkStep};
use crate::vdev::{Opened, Vdevs};
use crate::volume::{self, Volume};
use crate::{Error, Result};

/// Limits of an open pool: bytes of memory, and the work of one checkpoint.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes for tree nodes.
    pub cache_bytes: usize,
    /// Bytes for records that were read; 0 for none.
    pub record_cache_bytes: usize,
    /// Bytes for records that are not written yet.
    pub dirty_bytes: u64,
    /// Bytes for buffers of writes in flight.
    pub buffer_bytes: usize,
    /// Blocks of destroyed datasets that one checkpoint frees, about.
    pub freeing_max: usize,
    /// Bytes of unproven data that the next opening may have to read after a crash. A seek counts as 256 KiB.
    pub unproven_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 128 << 20,
            record_cache_bytes: 64 << 20,
            dirty_bytes: 64 << 20,
            buffer_bytes: 32 << 20,
            freeing_max: 128 << 10,
            unproven_bytes: UNPROVEN_MAX,
        }
    }
}

/// The contents of the pool's own tree.
#[derive(Default)]
pub(super) struct Directory {
    datasets: BTreeMap<TreeId, Dataset>,
    pub(super) roots: BTreeMap<TreeId, DatasetRoot>,
    freeing: BTreeMap<u64, Freeing>,
    pool_tree: PoolTree,
    lists: BTreeMap<ListId, u64>,
}

/// A dataset during replay.
pub(super) struct Open {
    state: volume::State,
}

/// The datasets during replay.
pub(super) type OpenDatasets = BTreeMap<TreeId, Open>;

fn corrupt(root: Option<BlockPtr>, defect: Defect) -> Error {
    let at = root.map(|ptr| ptr.address());
    Error::Corrupt {
        at: at.expect("what was read has an address"),
        defect,
    }
}

impl Pool {
    /// Opens a pool whose devices are open, and replays its journal. If the operator chose the checkpoint, a damaged
    /// journal is applied up to the damage; at an older checkpoint it is discarded.
    ///
    /// # Errors
    /// [`Error::Corrupt`], [`Error::JournalCorrupt`], [`Error::Device`].
    pub async fn open(opened: Opened, options: Options) -> Result<Pool> {
        let Opened {
            vdevs,
            mut uberblock,
            mut newest,
            checkpoints,
            is_chosen,
        } = opened;
        let vdevs = Arc::new(vdevs);
        let is_rewound = uberblock.sequence < newest;
        if is_rewound && !vdevs.is_read_only() {
            uberblock = go_back(&vdevs, &uberblock, newest, &checkpoints).await?;
            newest = uberblock.sequence;
        }
        let shared = Arc::new(Shared::new(vdevs.clone(), &options));
        let table: Vec<VdevSpace> = vdevs.table().iter().map(VdevSpace::from).collect();
        let mut space = Space::new(&table);
        let load = async |need: &Need| shared.node(POOL_TREE, need).await;
        let mut directory = read_tree(load, &uberblock, &mut space).await?;
        let ring = vdevs.ring();
        // Writes since an older uberblock are not part of the pool.
        let replayed = match is_rewound && vdevs.is_read_only() {
            true => Replayed {
                batches: Vec::new(),
                head: uberblock.journal,
                repaired: 0,
                lost: 0,
            },
            false if is_chosen => salvage(&*vdevs, &ring, uberblock.journal).await?,
            false => replay(&*vdevs, &ring, uberblock.journal).await?,
        };
        let confirmed = match vdevs.is_read_only() {
            true => None,
            false => Some(vdevs.flush().await?),
        };
        let dead_root = directory.roots.remove(&DEAD_TREE).and_then(|r| r.root);
        let left = std::mem::take(&mut directory.freeing);
        let mut state = State {
            shared: shared.clone(),
            journal: writer(&vdevs, &uberblock, &replayed, &options),
            datasets: Datasets::default(),
            pool_tree: std::mem::take(&mut directory.pool_tree),
            pending_snapshots: PendingSnapshots::default(),
            allocator: Allocator::new(space),
            deadlists: Deadlists::new(dead_root, std::mem::take(&mut directory.lists)),
            committer: Committer::new(confirmed),
            checkpointer: Checkpointer::new(uberblock, newest),
            destroyer: Destroyer::new(left, options.freeing_max),
        };
        let mut opened = open_datasets(directory, uberblock.root)?;
        for batch in &replayed.batches {
            for record in &batch.records {
                state.apply(record, &mut opened)?;
            }
        }
        state.allocator.free_replaced();
        let autotrim = state.pool_tree.is_on(PoolProperty::Autotrim);
        state.allocator.set_autotrim(autotrim);
        for (id, open) in opened {
            let has_layers = !open.state.top.is_empty() || !open.state.frozen.is_empty();
            if has_layers || state.checkpointer.is_unsettled(id) {
                let volume = open.state.dataset.of.unwrap_or(id);
                state.datasets.mark_changed(volume);
            }
            let volume = Volume::new(id, shared.clone(), open.state);
            state.datasets.insert(volume);
        }
        state.open_accounts();
        state.supply_budget();
        vdevs.wait_for_space(true);
        let owner = Rc::new(Owner {
            shared,
            state: RefCell::new(state),
        });
        let tasks = vec![
            io::spawn(owner.clone().run()),
            io::spawn(owner.clone().tick()),
        ];
        Ok(Pool { owner, tasks })
    }
}

/// The journal's writing end, where replay left it.
fn writer(vdevs: &Vdevs, uberblock: &Uberblock, replayed: &Replayed, options: &Options) -> Writer {
    let epochs = replayed.batches.iter().map(|batch| batch.header.epoch);
    let newest = epochs.fold(uberblock.epoch, Birth::max);
    let incarnation = Incarnation(io::rng::u64());
    let (tail, epoch) = (uberblock.journal, Birth(newest.0 + 1));
    let mut writer = Writer::new(vdevs.ring(), tail, replayed.head, incarnation, epoch);
    writer.limit_unproven(options.unproven_bytes);
    writer.count_seeks(vdevs.has_hard_disks());
    writer
}

/// Reads the pool's own tree. Marks the used space in `space`.
pub(super) async fn read_tree(
    load: impl AsyncFn(&Need) -> Result<Arc<Node>>,
    uberblock: &Uberblock,
    space: &mut Space,
) -> Result<Directory> {
    let mut directory = Directory::default();
    let mut nodes = Vec::new();
    let mut walk = Walk::new(uberblock.root, Birth(0), Key::START);
    loop {
        match walk.step() {
            WalkStep::Need(need) => walk.supply(load(&need).await?)?,
            WalkStep::Visit(Visit::Node(ptr)) => nodes.push(ptr),
            WalkStep::Visit(Visit::Entry(key, value)) => {
                let Value::Inline(bytes) = value else {
                    return Err(corrupt(uberblock.root, Defect::Checksum));
                };
                let read = directory.take(key, &bytes, space);
                read.map_err(|defect| corrupt(uberblock.root, defect))?;
            }
            WalkStep::Visit(Visit::Older(_)) => {}
            WalkStep::Done => break,
        }
    }
    for ptr in nodes {
        let marked = space.mark_pool_node(ptr.address(), ptr.physical_size);
        marked.map_err(|defect| corrupt(Some(ptr), defect))?;
    }
    Ok(directory)
}

impl Directory {
    fn take(
        &mut self,
        key: Key,
        bytes: &[u8],
        space: &mut Space,
    ) -> std::result::Result<(), Defect> {
        let id = TreeId(key.object().0);
        match key.kind() {
            KIND_SPACE => space.load(key, bytes)?,
            KIND_DATASET => drop(self.datasets.insert(id, Dataset::decode(bytes)?)),
            KIND_ROOT => drop(self.roots.insert(id, DatasetRoot::decode(bytes)?)),
            KIND_FREEING => drop(self.freeing.insert(id.0, Freeing::decode(bytes)?)),
            KIND_LIST => drop(self.lists.insert(ListId(id.0), number(bytes)?)),
            _ if self.pool_tree.load(key, Some(bytes))? => {}
            other => {
                return Err(Defect::Field {
                    field: "kind of an entry of the pool's tree",
                    value: other.0.into(),
                });
            }
        }
        Ok(())
    }
}

pub(super) fn open_datasets(
    mut directory: Directory,
    root: Option<BlockPtr>,
) -> Result<OpenDatasets> {
    let mut opened = BTreeMap::new();
    for (id, dataset) in directory.datasets {
        let found = directory.roots.remove(&id);
        let state = volume::State::new(dataset, found.unwrap_or_default());
        opened.insert(id, Open { state });
    }
    if let Some((id, _)) = directory.roots.first_key_value() {
        return Err(corrupt(
            root,
            Defect::Field {
                field: "root of a dataset that is not there",
                value: id.0,
            },
        ));
    }
    Ok(opened)
}

impl State {
    /// Applies a record of the journal.
    fn apply(&mut self, record: &Record, opened: &mut OpenDatasets) -> Result<()> {
        match record {
            Record::Put(POOL_TREE, key, value) => self.replay_pool(*key, Some(value), opened)?,
            Record::Delete(POOL_TREE, key) => self.replay_pool(*key, None, opened)?,
            Record::PutFresh(tree, key, ptr) => {
                let marked = self.allocator.mark_replayed(ptr);
                marked.map_err(|defect| corrupt(Some(*ptr), defect))?;
                // the blocks of a volume that was destroyed later are freed with it
                let open = opened.get_mut(tree);
                let old = open.and_then(|o| o.state.top.put(*key, Value::Block(*ptr)));
                self.allocator
                    .note_replaced(old.as_ref().and_then(Value::block));
            }
            Record::DeleteRange(tree, keys) => {
                if let Some(open) = opened.get_mut(tree) {
                    let allocator = &mut self.allocator;
                    let top = &mut open.state.top;
                    top.delete_range(keys.clone(), |old| allocator.note_replaced(old.block()));
                }
            }
            Record::Freeze(tree, epoch) => {
                if let Some(open) = opened.get_mut(tree) {
                    open.state.freeze(*epoch);
                }
            }
            Record::State(bytes) => {
                self.replay_state(StateChange::decode(bytes)?, opened)?;
            }
            Record::Put(..) | Record::Delete(..) => return Err(Error::Unknown),
        }
        Ok(())
    }

    fn replay_state(&mut self, change: StateChange, opened: &mut OpenDatasets) -> Result<()> {
        match change {
            StateChange::Rollback(id, snapshot_id) => {
                let snapshot = opened.remove(&snapshot_id).ok_or(Error::Unknown)?;
                let volume = opened.get_mut(&id).ok_or(Error::Unknown)?;
                self.roll_back(&mut volume.state, &snapshot.state);
                self.checkpointer.add_unsettled(id);
                opened.insert(snapshot_id, snapshot);
            }
            StateChange::Promote(clone) => {
                let datasets = opened.iter().map(|(id, o)| (*id, o.state.dataset.clone()));
                for (id, dataset) in promoted(&datasets.collect(), clone)? {
                    self.pool_tree.put(dataset_key(id), Some(dataset.encode()));
                    if let Some(open) = opened.get_mut(&id) {
                        open.state.dataset = dataset;
                    }
                }
            }
        }
        Ok(())
    }

    fn replay_pool(
        &mut self,
        key: Key,
        value: Option<&Value>,
        opened: &mut OpenDatasets,
    ) -> Result<()> {
        let id = TreeId(key.object().0);
        match (key.kind(), value) {
            (KIND_DATASET, Some(Value::Inline(bytes))) => {
                let dataset = Dataset::decode(bytes).map_err(Error::Invalid)?;
                self.pool_tree.put(key, Some(bytes.clone()));
                match opened.get_mut(&id) {
                    Some(open) => open.state.dataset = dataset,
                    None => {
                        let state = self.replay_create(id, dataset, opened);
                        opened.insert(id, Open { state });
                    }
                }
            }
            (KIND_DATASET, None) => {
                self.pool_tree.put(key, None);
                if let Some(open) = opened.remove(&id) {
                    self.replay_destroy(id, open, opened);
                }
            }
            _ => {
                let bytes = match value {
                    Some(Value::Inline(bytes)) => Some(&**bytes),
                    Some(Value::Block(_)) => return Err(Error::Unknown),
                    None => None,
                };
                let is_known = self.pool_tree.replay(key, bytes).map_err(Error::Invalid)?;
                if !is_known {
                    return Err(Error::Unknown);
                }
            }
        }
        Ok(())
    }

    /// The state of a created dataset: empty, or the state of the dataset that it is a snapshot or clone of.
    fn replay_create(
        &mut self,
        id: TreeId,
        dataset: Dataset,
        opened: &OpenDatasets,
    ) -> volume::State {
        if let Some(volume) = dataset.of.and_then(|of| opened.get(&of)) {
            self.checkpointer.add_unsettled(id);
            return snapshot_state(dataset, &volume.state);
        }
        let origin = dataset.origin.and_then(|origin| opened.get(&origin));
        let held = origin.map(|o| o.state.held()).unwrap_or_default();
        if origin.is_some() {
            self.checkpointer.add_unsettled(id);
        }
        volume::State::new(dataset, held)
    }

    /// Applies the destroy of a dataset.
    fn replay_destroy(&mut self, id: TreeId, mut open: Open, opened: &OpenDatasets) {
        self.checkpointer.forget(id);
        let origin = |dataset: &Dataset| {
            let origin = dataset.origin.and_then(|id| opened.get(&id));
            after_origin(dataset, origin.map(|o| o.state.dataset.birth))
        };
        let dataset = &open.state.dataset;
        let Some(of) = dataset.of else {
            let floor = origin(dataset).floor;
            let shared = dataset.origin.and_then(|id| opened.get(&id));
            let shared = shared.map_or(0, |o| o.state.allocated);
            return self.destroy_volume(&mut open.state, floor, shared);
        };
        let others = opened.values().map(|o| &o.state.dataset);
        let before = others.filter(|d| d.of == Some(of) && d.birth < dataset.birth);
        let prev = match (before.max_by_key(|d| d.birth), opened.get(&of)) {
            (Some(before), _) => after_snapshot(before),
            (None, Some(volume)) => origin(&volume.state.dataset),
            (None, None) => after_origin(dataset, None),
        };
        self.destroy_snapshot(dataset.list, prev);
    }
}
