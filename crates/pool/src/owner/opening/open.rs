//! Opening a pool.
//!
//! **Owns** the steps from open devices to a pool that serves: newest uberblock, the pool's own tree, replay of the
//! journal. **Called by** [`Pool`]'s users. **Invariants**: only checksummed data is used; before the end of replay
//! nothing is written but repairs by replay itself and, for a rewind, one uberblock (`docs/decisions/0119`).

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::directory::{Open, OpenDatasets, corrupt, open_datasets, read_tree};
use super::rewind::{EPOCH_GAP, go_back};
use crate::dataset::{self, Journaled, OpenDataset};
use crate::format::{
    Birth, Dataset, FEATURE_BLOCK_SIZES, FEATURE_FOLDED_CHECKSUMS, FEATURE_RECORD_PARTS,
    FEATURE_RECORD_SIZES, FEATURE_SPACE_SUMMARIES, Incarnation, KIND_DATASET, Key, PoolProperty,
    Record, TreeId, Uberblock, Value, dataset_key,
};
use crate::journal::{Replayed, Ring, Writer, replay, salvage};
use crate::options::Options;
use crate::owner::capacity::allocator::Allocator;
use crate::owner::capacity::maps::Maps;
use crate::owner::checkpoint::checkpointer::Checkpointer;
use crate::owner::datasets::index::Datasets;
use crate::owner::destroy::deadlists::{DEAD_TREE, Deadlists};
use crate::owner::destroy::destroyer::Destroyer;
use crate::owner::expansion::state::Expander;
use crate::owner::journal::state::JournalMoves;
use crate::owner::mover::state::Mover;
use crate::owner::removal::state::Remover;
use crate::owner::snapshots::lineage::promoted;
use crate::owner::snapshots::pending_snapshots::PendingSnapshots;
use crate::owner::snapshots::snapshot::{StateChange, after_origin, after_snapshot};
use crate::owner::sweep::resilver_window::ResilverWindows;
use crate::owner::write_back::committer::Committer;
use crate::owner::{Owner, POOL_TREE, Pool, State};
use crate::record::Contents;
use crate::shared::Shared;
use crate::space::{Space, VdevSpace};
use crate::tree::Need;
use crate::vdev::{Opened, Vdevs};
use crate::{Error, Result};
use io::sync::lock;

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
            lacks_journal,
        } = opened;
        let vdevs = Arc::new(vdevs);
        let opened_at = uberblock;
        let ring = vdevs.ring_with(uberblock.journal.position.segment);
        // if its ring is gone, the journal has moved since: later checkpoints are damaged, and the batches before them are lost
        let is_rewound = uberblock.sequence < newest || is_chosen && ring.is_none();
        if is_rewound && !vdevs.is_read_only() {
            uberblock = go_back(&vdevs, &uberblock, newest, &checkpoints).await?;
            newest = uberblock.sequence;
        }
        let shared = Arc::new(Shared::new(vdevs.clone(), &options));
        let table: Vec<VdevSpace> = vdevs.table().iter().map(VdevSpace::from).collect();
        let mut space = Space::new(&table);
        space.set_budget(options.space_bytes as u64);
        let load = async |need: &Need| shared.node(POOL_TREE, need).await;
        let mut directory = read_tree(load, &uberblock, &mut space).await?;
        let doubted = directory.doubt_summaries(&table, &mut space);
        directory.tell_copies(&vdevs)?;
        let journal = read_journal(&vdevs, &uberblock, is_rewound, is_chosen).await?;
        let (ring, replayed) = journal;
        let confirmed = match vdevs.is_read_only() {
            true => None,
            false => Some(vdevs.flush().await?),
        };
        let dead_root = directory.roots.remove(&DEAD_TREE).and_then(|r| r.root);
        let left = std::mem::take(&mut directory.freeing);
        let maps = Maps::new(uberblock.root, directory.pages.take());
        require_features(&vdevs, &maps, &options).await?;
        let mut state = State {
            shared: shared.clone(),
            journal: writer(ring, &vdevs, &uberblock, &replayed, &options),
            datasets: Datasets::default(),
            pool_tree: std::mem::take(&mut directory.pool_tree),
            pending_snapshots: PendingSnapshots::default(),
            allocator: Allocator::new(space, maps, vdevs.copies().clone()),
            deadlists: Deadlists::new(dead_root, std::mem::take(&mut directory.lists)),
            committer: Committer::new(confirmed, options.durable_writes),
            checkpointer: Checkpointer::new(uberblock, newest),
            destroyer: Destroyer::new(left, options.freeing_max),
        };
        shared.set_opened_in(state.journal.epoch());
        let mut opened = open_datasets(directory, uberblock.root)?;
        for batch in &replayed.batches {
            for record in &batch.records {
                state.apply(record, &mut opened)?;
            }
        }
        state.allocator.free_replaced();
        state.close_vdevs();
        let autotrim = state.pool_tree.is_on(PoolProperty::Autotrim);
        state.allocator.set_autotrim(autotrim);
        for (id, open) in opened {
            if !open.state.layers.is_merged() || state.checkpointer.is_rootless(id) {
                let volume = open.state.dataset.of.unwrap_or(id);
                state.datasets.mark_changed(volume);
            }
            let volume = OpenDataset::new(id, shared.clone(), open.state);
            state.datasets.insert(volume);
        }
        let _no_client_yet = state.inherit_again(None);
        if state.has_record_sizes() && !vdevs.is_read_only() {
            // an earlier release gave filesystems sizes, which others below them inherit now
            vdevs.require(FEATURE_RECORD_SIZES).await?;
        }
        state.open_accounts();
        state.adopt_journaled();
        state.supply_budget();
        vdevs.wait_for_space(true);
        let lost_changes = lacks_journal.then(|| state.lost_changes(&opened_at, &checkpoints));
        let owner = Rc::new(Owner {
            shared,
            state: RefCell::new(state),
            doubtful_rows: RefCell::default(),
            resilver_windows: ResilverWindows::new(options.resilver_blocks),
            mover: Mover::new(options.relocations_max),
            expander: Expander::default(),
            remover: Remover::default(),
            journal_moves: JournalMoves::default(),
        });
        owner.load_doubted(doubted);
        owner.tell_dead();
        owner.look_at_class();
        *owner.journal_moves.lost_changes.borrow_mut() = lost_changes;
        let tasks = vec![
            io::spawn(owner.clone().run()),
            io::spawn(owner.clone().tick()),
            io::spawn(owner.clone().run_mover()),
        ];
        Ok(Pool { owner, tasks })
    }
}

/// Sets the features of summaries, checksums, parts and sizes, before the open pool writes any.
///
/// # Errors
/// [`Error::Device`] if too few labels can be written.
async fn require_features(vdevs: &Vdevs, maps: &Maps, options: &Options) -> Result<()> {
    if vdevs.is_read_only() {
        return Ok(());
    }
    let mut features = vec![FEATURE_FOLDED_CHECKSUMS, FEATURE_BLOCK_SIZES];
    features.extend(maps.lacks_summaries().then_some(FEATURE_SPACE_SUMMARIES));
    features.extend(options.record_parts.then_some(FEATURE_RECORD_PARTS));
    vdevs.require_all(&features).await
}

/// Replays the journal. Returns its ring, which is the only one in labels from then on, and the batches.
///
/// # Errors
/// Those of replay; [`Error::JournalCorrupt`] if the ring is gone.
async fn read_journal(
    vdevs: &Vdevs,
    uberblock: &Uberblock,
    is_rewound: bool,
    is_chosen: bool,
) -> Result<(Ring, Replayed)> {
    let start = uberblock.journal;
    let ring = vdevs.ring_with(start.position.segment);
    if is_rewound && vdevs.is_read_only() {
        // Writes since an older uberblock are not part of the pool.
        return Ok((ring.unwrap_or(vdevs.ring()), Replayed::nothing(start, 0)));
    }
    let ring = ring.ok_or_else(|| {
        let ring = vdevs.ring();
        Error::JournalCorrupt {
            sequence: start.sequence,
            at: ring.address(ring.start().position),
        }
    })?;
    let replayed = match is_chosen {
        true => salvage(vdevs, &ring, start).await?,
        false => replay(vdevs, &ring, start).await?,
    };
    if !vdevs.is_read_only() {
        // a crash may have cut a move of the journal off
        vdevs.settle_journal(start.position.segment).await?;
    }
    Ok((ring, replayed))
}

/// The journal's writing end, where replay left it.
fn writer(
    ring: Ring,
    vdevs: &Vdevs,
    uberblock: &Uberblock,
    replayed: &Replayed,
    options: &Options,
) -> Writer {
    let epochs = replayed.batches.iter().map(|batch| batch.header.epoch);
    let newest = epochs.fold(uberblock.epoch, Birth::max);
    let incarnation = Incarnation(io::rng::u64());
    // batches that were lost may have had later epochs
    let gap = if replayed.lost > 0 { EPOCH_GAP } else { 0 };
    let (tail, epoch) = (uberblock.journal, Birth(newest.0 + gap + 1));
    let mut writer = Writer::new(ring, tail, replayed.head, incarnation, epoch);
    writer.limit_unproven(options.unproven_bytes);
    writer.count_seeks(vdevs.has_hard_disks());
    writer
}

impl State {
    /// Records that only the journal has, as replay found them, are dirty: they get blocks.
    fn adopt_journaled(&mut self) {
        let volumes: Vec<_> = self.datasets.volumes().cloned().collect();
        self.reserve_journal(&volumes);
        for volume in volumes {
            let mut state = lock(&volume.state);
            if state.journaled.is_empty() {
                continue;
            }
            state.journaled.pack_with(volume.packer());
            let bytes = state.journaled.bytes() as u64;
            self.shared.budget.replayed(volume.id, bytes);
            volume.ask(&mut state);
        }
    }

    /// Applies a record of the journal.
    fn apply(&mut self, record: &Record, opened: &mut OpenDatasets) -> Result<()> {
        match record {
            Record::Put(POOL_TREE, key, value) => self.replay_pool(*key, Some(value), opened)?,
            Record::Delete(POOL_TREE, key) => self.replay_pool(*key, None, opened)?,
            Record::PutFresh(tree, ..)
            | Record::Put(tree, _, Value::Inline(_))
            | Record::Delete(tree, _)
            | Record::DeleteRange(tree, _) => {
                if let Some(ptr) = record.fresh() {
                    let marked = self.allocator.mark_replayed(ptr);
                    marked.map_err(|defect| corrupt(Some(*ptr), defect))?;
                }
                // the blocks of a dataset that was destroyed later are freed with it
                if let Some(open) = opened.get_mut(tree) {
                    open.state.journaled.supersede(record);
                    let allocator = &mut self.allocator;
                    open.state.layers.apply(record, |old| {
                        allocator.note_replaced(old.block());
                    });
                }
            }
            Record::PutContents(tree, key, bytes) => {
                if let Some(open) = opened.get_mut(tree) {
                    if open.state.has_journaled_record_of(*key) {
                        return Err(Error::Unknown);
                    }
                    open.state.journaled.put(*key, Contents::inline(bytes));
                }
            }
            Record::Freeze(tree, epoch) => {
                if let Some(open) = opened.get_mut(tree) {
                    if !open.state.journaled.is_empty() {
                        return Err(Error::Unknown);
                    }
                    open.state.layers.freeze(*epoch);
                }
            }
            Record::State(bytes) => {
                self.replay_state(StateChange::decode(bytes)?, opened)?;
            }
            Record::Put(_, _, Value::Block(_)) => return Err(Error::Unknown),
        }
        Ok(())
    }

    fn replay_state(&mut self, change: StateChange, opened: &mut OpenDatasets) -> Result<()> {
        match change {
            StateChange::Rollback(id, snapshot_id) => {
                let snapshot = opened.remove(&snapshot_id).ok_or(Error::Unknown)?;
                let volume = opened.get_mut(&id).ok_or(Error::Unknown)?;
                volume.state.journaled = Journaled::default();
                self.roll_back(&mut volume.state, &snapshot.state);
                self.checkpointer.add_rootless(id);
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
    ) -> dataset::State {
        if let Some(volume) = dataset.of.and_then(|of| opened.get(&of)) {
            self.checkpointer.add_rootless(id);
            return volume.state.snapshot(dataset);
        }
        let origin = dataset.origin.and_then(|origin| opened.get(&origin));
        let held = origin.map(|o| o.state.layers.held()).unwrap_or_default();
        if origin.is_some() {
            self.checkpointer.add_rootless(id);
        }
        dataset::State::new(dataset, held)
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
            let shared = shared.map_or(0, |o| o.state.layers.held().allocated);
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
