//! The owner: the one task that holds a pool's state.
//!
//! **Owns** the allocator, the journal, the pool's own tree, the datasets, and the course of write-back, checkpoints
//! and destroys: each is a type with private fields. **Called by** the server, through [`Pool`]; volumes put their
//! number on a list and ring a bell. **Invariants**: the state is borrowed between two waits and never across one;
//! each action leaves it consistent; once a write or a flush failed on all members of a vdev, nothing more is
//! acknowledged.

mod block_copier;
mod caches;
mod capacity;
mod checkpoint;
mod datasets;
mod destroy;
mod expansion;
mod half_pace;
mod journal;
mod mover;
mod opening;
mod pool_tree;
mod removal;
mod snapshots;
mod spares;
mod sweep;
mod trouble;
mod write_back;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::sync::oneshot;

use crate::cache::RecordCacheStats;
use crate::format::{Record, Value};
use crate::journal::{Ticket, Writer};
use crate::node_reads::NodeReads;
use crate::shared::Shared;
use crate::tree::CacheStats;
use crate::vdev::Vdevs;
use crate::volume::Volume;
use crate::{Error, Result};

use capacity::allocator::Allocator;
use checkpoint::checkpointer::Checkpointer;
use datasets::index::Datasets;
use destroy::deadlists::Deadlists;
use destroy::destroyer::Destroyer;
use expansion::state::Expander;
use journal::state::JournalMoves;
use mover::state::Mover;
use pool_tree::{Changes, PoolTree};
use removal::state::Remover;
use snapshots::pending_snapshots::PendingSnapshots;
use sweep::doubtful_rows::DoubtfulRows;
use sweep::resilver_window::ResilverWindows;
use write_back::committer::Committer;

/// How often a task looks whether another one has ended: a checkpoint, a trim, the load of a region, a group of moves.
const POLL: Duration = Duration::from_millis(1);

pub use capacity::allocator::Placements;
pub use capacity::special::SpecialClass;
pub use capacity::trim::{TrimPosition, Trimmed};
pub use capacity::usage::{PoolSpace, SpaceMaps, VolumeSpace};
pub use capacity::writes::PoolWrites;
pub use datasets::filesystems::NewFilesystem;
pub use datasets::inherit::Source;
pub use datasets::volumes::NewVolume;
pub use expansion::state::{Expanding, ExpansionWait};
pub use journal::state::{LastChange, LostChanges};
pub use mover::balance::BalanceMoves;
pub use mover::order::OrderMoves;
pub use mover::regions::RegionMoves;
pub use mover::state::RowMoves;
pub use mover::walks::ClassReason;
pub use opening::choices::Choice;
pub use removal::state::{RemovalWait, Removing};
pub use snapshots::used::SnapshotUse;
pub use sweep::damage::{Damage, DamagedObjects, Damages};
pub use sweep::mend::Resilvering;
pub use sweep::scrub::{ScrubPosition, Scrubbed};
pub use sweep::verify::Verified;
pub use write_back::durable_way::DurableTimes;
pub use write_back::waits::DurableWaits;

pub(crate) use crate::format::POOL_TREE;

/// Dirty records are written back after this time, even if they are few.
const WRITE_BACK_AFTER: Duration = Duration::from_secs(1);

/// The owner's state: parts with private fields. An operation that needs several parts is a method of `State` or [`Owner`]
/// in the file of that operation. `docs/decisions/0128`.
struct State {
    shared: Arc<Shared>,
    journal: Writer,
    datasets: Datasets,
    pool_tree: PoolTree,
    pending_snapshots: PendingSnapshots,
    allocator: Allocator,
    deadlists: Deadlists,
    committer: Committer,
    checkpointer: Checkpointer,
    destroyer: Destroyer,
}

/// The owner: its state, and what it shares with volumes.
struct Owner {
    shared: Arc<Shared>,
    state: RefCell<State>,
    /// Rows that the scrub in progress found not to be valid.
    doubtful_rows: RefCell<DoubtfulRows>,
    /// Blocks that resilvers in progress copy next.
    resilver_windows: ResilverWindows,
    mover: Mover,
    expander: Expander,
    remover: Remover,
    journal_moves: JournalMoves,
}

/// A pool that is open. It lives on the shard that opened it.
pub struct Pool {
    owner: Rc<Owner>,
    tasks: Vec<io::runtime::JoinHandle<()>>,
}

impl State {
    /// Changes the pool's own tree. The records `first` and the changes go to the journal in one batch.
    ///
    /// # Errors
    /// As [`Shared::trouble`]; [`Error::JournalFull`] until the checkpoint that is due then: [`Owner::change_durably`] waits
    /// for it. Nothing is changed.
    fn change(&mut self, first: Vec<Record>, changes: Changes) -> Result<Ticket> {
        self.change_with(first, changes, Vec::new())
    }

    /// As [`State::change`], with further records behind the changes.
    fn change_with(
        &mut self,
        first: Vec<Record>,
        changes: Changes,
        last: Vec<Record>,
    ) -> Result<Ticket> {
        if let Some(trouble) = self.shared.trouble() {
            return Err(trouble);
        }
        let records = changes.iter().map(|(key, value)| match value {
            Some(value) => Record::Put(POOL_TREE, *key, Value::Inline(value.clone())),
            None => Record::Delete(POOL_TREE, *key),
        });
        let records: Vec<Record> = first.into_iter().chain(records).chain(last).collect();
        let appended = self.journal.append(&records, 0);
        if appended == Err(Error::JournalFull) {
            self.checkpointer.request_journal();
        }
        let ticket = appended?;
        self.pool_tree.apply(changes);
        Ok(ticket)
    }
}

impl Owner {
    /// The owner's loop: a turn for each ring of the bell, and checkpoints when they are due.
    async fn run(self: Rc<Self>) {
        loop {
            self.shared.bell.rung().await;
            if let Some(trouble) = self.shared.trouble() {
                self.refuse(&trouble);
                if self.shared.has_failed() {
                    continue;
                }
            }
            if self.shared.budget.take_shortage() {
                let mut state = self.state.borrow_mut();
                // a write that does not fit when the blocks of the last checkpoint are free asks again
                if !state.checkpointer.is_releasing() {
                    state.checkpointer.request_space_if_idle();
                }
                state.committer.write_all();
            }
            self.wake_mover();
            self.take_turn();
            if self.state.borrow().committer.has_much_ready() {
                self.shared.bell.ring();
                io::yield_now().await;
            }
            self.begin_checkpoint();
        }
    }

    /// Has dirty records written back once a second.
    async fn tick(self: Rc<Self>) {
        loop {
            io::time::sleep(WRITE_BACK_AFTER).await;
            self.shared.vdevs.give_up_hung();
            if self.shared.vdevs.full().is_some() {
                // writes that wait for memory would wait until the file system has space
                self.shared.budget.wake();
            }
            {
                let mut state = self.state.borrow_mut();
                state.committer.write_all();
                state.destroyer.tick();
                state.forget_resilvers();
                let journal = state.journal.to_replay();
                let pool_size = state.allocator.space().size();
                let frees = (self.shared.budget.pending_frees(), pool_size);
                state.checkpointer.tick(journal, frees);
            }
            self.trim_freed();
            self.wake_expander();
            self.wake_remover();
            self.wake_journal_mover();
            self.tell_dead();
            self.shared.bell.ring();
        }
    }

    /// Runs a step of an operation. If the journal is full, waits for the next end of a checkpoint and runs the step again,
    /// which checks all its conditions again.
    ///
    /// # Errors
    /// Those of the step but [`Error::JournalFull`]; why no checkpoint ends.
    async fn with_room<T>(&self, mut step: impl AsyncFnMut() -> Result<T>) -> Result<T> {
        loop {
            match step().await {
                Err(Error::JournalFull) => self.checkpoint_ends().await?,
                done => return done,
            }
        }
    }

    /// Runs a step that changes the state, as [`Owner::with_room`] does, and waits until its batch is durable.
    ///
    /// # Errors
    /// Those of [`Owner::with_room`] and [`Owner::durable`].
    async fn change_durably<T>(
        &self,
        mut step: impl FnMut(&mut State) -> Result<(T, Ticket)>,
    ) -> Result<T> {
        let step = async || step(&mut self.state.borrow_mut());
        let (done, ticket) = self.with_room(step).await?;
        self.durable(ticket).await?;
        Ok(done)
    }

    /// Waits for the end of the current checkpoint, or of the next one if none is being written.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::FileSystemFull`], [`Error::ReadOnly`].
    async fn checkpoint_ends(&self) -> Result<()> {
        if self.shared.vdevs.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let (sender, receiver) = oneshot::channel();
        self.state.borrow_mut().checkpointer.request_end(sender);
        self.shared.bell.ring();
        receiver.await.unwrap_or(Err(Error::Device))
    }

    /// Writes a checkpoint that begins after this call.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::FileSystemFull`].
    async fn write_checkpoint(&self) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.state.borrow_mut().checkpointer.request(sender);
        self.shared.bell.ring();
        receiver.await.unwrap_or(Err(Error::Device))
    }

    /// Waits until a batch is durable.
    async fn durable(&self, ticket: Ticket) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.state
            .borrow_mut()
            .answer_when_durable(Some(ticket), sender);
        self.shared.bell.ring();
        let _proof = receiver.await.unwrap_or(Err(Error::Device))?;
        Ok(())
    }
}

impl Pool {
    /// The volume of this name.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<Volume> {
        let state = self.owner.state.borrow();
        let found = state.datasets.volume(name);
        let found = found.filter(|dataset| !dataset.settings.has_files());
        found.cloned().map(Volume)
    }

    /// All datasets: volumes, filesystems, and their snapshots.
    #[must_use]
    pub fn volumes(&self) -> Vec<Volume> {
        let state = self.owner.state.borrow();
        state.datasets.all().cloned().map(Volume).collect()
    }

    /// Writes a checkpoint, which empties the journal.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::ReadOnly`].
    pub async fn checkpoint(&self) -> Result<()> {
        if self.vdevs().is_read_only() {
            return Err(Error::ReadOnly);
        }
        self.owner.write_checkpoint().await
    }

    /// The sequence of the newest uberblock, which names the last checkpoint to a rewind.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.owner.state.borrow().checkpointer.newest()
    }

    /// Counts and sizes of the pool's node cache.
    #[must_use]
    pub fn cache(&self) -> CacheStats {
        self.owner.shared.cache_stats()
    }

    /// Counts and sizes of the pool's record cache.
    #[must_use]
    pub fn record_cache(&self) -> RecordCacheStats {
        self.owner.shared.records.stats()
    }

    /// Nodes of trees that the members had to read.
    #[must_use]
    pub fn node_reads(&self) -> NodeReads {
        self.owner.shared.node_reads.read()
    }

    /// Bytes of acknowledged records that have no block yet: in memory only, or in the journal too.
    #[must_use]
    pub fn dirty(&self) -> u64 {
        self.owner.shared.budget.dirty()
    }

    /// How often groups and records were split because free space lay in small runs.
    #[must_use]
    pub fn placements(&self) -> Placements {
        self.owner.state.borrow().allocator.placements()
    }

    /// Sets the other shards that do a part of this pool's work: copies, compression, hashes, parity and submission of data. Without
    /// any, the shard that opened the pool does all of it.
    pub fn set_workers(&self, others: Vec<io::runtime::Shard>) {
        self.owner.shared.workers.set(others);
    }

    /// Bytes of records that other shards prepared or wrote for the owner; bytes that were prepared and written count twice.
    #[must_use]
    pub fn bytes_on_workers(&self) -> u64 {
        self.owner.shared.workers.done()
    }

    /// The devices.
    #[must_use]
    pub fn vdevs(&self) -> Arc<Vdevs> {
        self.owner.shared.vdevs.clone()
    }

    /// Closes the pool: all acknowledged writes are made durable, then volumes answer with errors.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::FileSystemFull`]: writes that were not durable may be lost.
    pub async fn close(self) -> Result<()> {
        let writes = !self.vdevs().is_read_only();
        self.owner.mover.end();
        self.owner.end_expander().await;
        self.owner.end_remover().await;
        self.owner.end_journal_moves().await;
        // a close does not wait until the file system below has space
        self.vdevs().wait_for_space(false);
        // A successful checkpoint does not prove that all records were written before it.
        let mut flushed = Ok(());
        for volume in self.volumes() {
            if writes && !volume.dataset().kind.is_snapshot() {
                let proof = volume.flush_all().await;
                flushed = flushed.and(proof.map(drop));
            }
        }
        self.owner.shared.caches.close().await;
        self.end_trims().await;
        let done = match writes {
            true => self.checkpoint().await,
            false => Ok(()),
        };
        self.owner.end_stocking().await;
        for volume in self.volumes() {
            volume.0.end();
        }
        for task in self.tasks {
            task.abort();
        }
        flushed.and(done)
    }
}
