//! An open dataset: what volumes and filesystems have in common.
//!
//! **Owns** the identity, the state in memory, the settings and the turns of one dataset, and requests for durability.
//! **Called by** volumes, on any shard, and by the pool's owner, which writes dirty records back. **Invariants**: a
//! change is visible to every read from the moment it is in the state; a promise of stable storage carries the
//! [`Durable`] that the owner made of a device's confirmation, or is a waiver ([`mod@sync`]).

mod bytes;
mod charges;
mod demands;
mod gate;
mod in_flight;
mod journaled;
mod keys;
mod large;
mod layers;
mod lookup;
mod moves;
mod noted;
mod part_choice;
mod part_reads;
mod read;
mod runs;
mod settings;
mod staged;
mod state;
mod sync;
mod tails;
mod walk;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backend::{Durable, RangeLock};
use io::stage::{self, Stage};
use io::sync::oneshot;

use crate::accesses::AccessCounters;
use crate::compress::Packer;
use crate::format::{Dataset, ObjectId, TreeId};
use crate::shared::Shared;
use crate::written::DatasetCounters;
use crate::{Error, Result};
use io::sync::lock;

pub(crate) use bytes::{ObjectBytes, is_zero};
pub(crate) use charges::{Charges, Loaded, Move};
pub(crate) use demands::{Demand, Promise};
pub(crate) use gate::ClosedGate;
pub(crate) use journaled::Journaled;
pub(crate) use keys::{
    RECORDS_END, block_keys, blocks_of, data_keys, fragment_key, fragments_of, record_key,
};
pub(crate) use layers::Frozen;
pub(crate) use moves::Move as RecordMove;
pub(crate) use read::Location;
pub(crate) use settings::Settings;
pub(crate) use staged::{STAGED_LAZY_BYTES, StagedTransaction};
pub(crate) use state::State;
pub(crate) use walk::Walked;

/// Dirty bytes at which the owner is woken for write-back; and the most acknowledged bytes of large writes in flight.
pub(crate) const LAZY_BYTES: usize = 4 << 20;

/// See the module header.
pub(crate) struct OpenDataset {
    pub(crate) id: TreeId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Mutex<State>,
    pub(crate) settings: Settings,
    /// Turns of changes that overlap: of bytes of a volume.
    pub(crate) turns: RangeLock,
    generation: AtomicU64,
    /// Bytes that were written for it.
    pub(crate) counters: DatasetCounters,
    /// Requests of its clients.
    pub(crate) accesses: AccessCounters,
    /// Bytes of large writes that were acknowledged, and that no device has yet.
    ahead: AtomicUsize,
}

impl OpenDataset {
    pub(crate) fn new(id: TreeId, shared: Arc<Shared>, state: State) -> Arc<Self> {
        let settings = Settings::new(&state.dataset, shared.opened_in());
        shared.caches.set_nodes(id, settings.has_nodes_on_devices());
        Arc::new(Self {
            id,
            settings,
            shared,
            state: Mutex::new(state),
            turns: RangeLock::default(),
            generation: AtomicU64::new(0),
            counters: DatasetCounters::default(),
            accesses: AccessCounters::default(),
            ahead: AtomicUsize::new(0),
        })
    }

    /// Its class, size and properties.
    pub(crate) fn dataset(&self) -> Dataset {
        lock(&self.state).dataset.clone()
    }

    /// Sets its properties. [`OpenDataset::changed`] tells clients.
    pub(crate) fn set_dataset(&self, dataset: Dataset) {
        self.shared.budget.resized(self.id, dataset.size);
        self.shared.budget.set_refquota(self.id, dataset.refquota);
        let mut state = lock(&self.state);
        self.settings.publish(&dataset);
        let has_nodes = self.settings.has_nodes_on_devices();
        self.shared.caches.set_nodes(self.id, has_nodes);
        state.dataset = dataset;
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        self.settings.is_snapshot()
    }

    /// Tells clients that size or settings changed.
    pub(crate) fn changed(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Grows with each change of size or settings.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Answers waiting requests with an error, and refuses later ones.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        state.demands.end();
        self.settings.end();
        state.give_up();
    }

    /// Asks the owner to look at this dataset: it has dirty records, zeroed ranges or demands.
    pub(crate) fn ask(&self, state: &mut State) {
        if state.demands.ask() {
            lock(&self.shared.asking).push(self.id);
        }
    }

    /// The compression and the checksums of its new records.
    pub(crate) fn packer(&self) -> Packer {
        Packer {
            packing: self.settings.compression(),
            checksum: self.settings.checksum(),
            has_parts: self.shared.has_record_parts,
            sector: self.shared.vdevs.sector(),
        }
    }

    /// Closes the gate of a filesystem, and has almost all changes written.
    ///
    /// # Errors
    /// As [`OpenDataset::durable`].
    pub(crate) async fn quiet(self: &Arc<Self>) -> Result<ClosedGate> {
        // most of the writing is done while changes go on
        let _proof = self.durable(true).await?;
        let gate = ClosedGate::of(self);
        let _proof = self.durable(true).await?;
        Ok(gate)
    }

    /// Waits until urgent records, or with `all` all dirty records, are durable.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Closed`].
    pub(crate) async fn durable(&self, all: bool) -> Result<Durable> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            state.demands.check()?;
            if all {
                state.dirty.make_urgent();
                state.tails.await_all(ObjectId(0)..ObjectId(u64::MAX));
            }
            state.demands.add(sender);
            self.ask(&mut state);
        }
        self.shared.bell.ring();
        let journal = stage::wait(Stage::Journal);
        let promise = receiver.await.unwrap_or(Err(Error::Closed))?;
        stage::enter_at(Stage::Device, promise.taken_at);
        stage::enter_at(Stage::Flush, promise.flush_at);
        drop(journal);
        Ok(promise.proof)
    }
}
