//! Records whose contents go to the journal first, and to blocks later.
//!
//! **Owns** the choice of these records, and the groups with which they get their blocks. **Called by** write-back. **Invariants**:
//! such a record has free space, a reserve of the journal and memory for its block, because snapshots and checkpoints wait for it; it
//! stays admitted until it has the block. `docs/decisions/0171`.

use std::rc::Rc;
use std::sync::Arc;

use super::commit::{GROUP_BYTES, Taken};
use super::durable_way::DurableTimes;
use super::group_batch::block_bytes_max;
use super::place::Deletes;
use super::waits::DurableWaits;
use crate::dataset::{self, OpenDataset};
use crate::dirty::{Dirty, Group};
use crate::format::{
    BlockSpace, CONTENTS_SIZE_MAX, FEATURE_JOURNAL_CONTENTS, INLINE_SIZE_MAX, Record,
};
use crate::journal::{Pressure, Reserve};
use crate::owner::{Owner, Pool, State};
use crate::record::Contents;
use io::sync::lock;

/// The most bytes of a group whose contents go to the journal. A larger one costs more bytes than seeks.
const SMALL_BYTES: usize = 32 << 10;
/// Bytes of one dataset from which they get blocks without waiting for others.
const MANY_BYTES: usize = 1 << 20;

const _: () = assert!(SMALL_BYTES <= CONTENTS_SIZE_MAX);

/// Whether the next group of `bytes` bytes is a small one that a client waits for.
pub(super) fn is_small(state: &dataset::State, bytes: usize, lazy: bool) -> bool {
    !lazy
        && state.pending_snapshot.is_none()
        && !state.dirty.next_is_large(lazy)
        && (1..=SMALL_BYTES).contains(&bytes)
}

/// Whether the records of a dataset that only the journal has get blocks now. `all` of the dirty records are being written.
pub(super) fn is_due(state: &dataset::State, all: bool) -> bool {
    let bytes = state.journaled.bytes();
    bytes > 0 && (all || bytes >= MANY_BYTES || state.pending_snapshot.is_some())
}

/// Whether a pending snapshot waits only for blocks of records that the journal has. Later writes wait for the snapshot.
pub(super) fn holds_snapshot_up(state: &dataset::State) -> bool {
    let pending = state.pending_snapshot.as_ref();
    !state.journaled.is_empty() && pending.is_some_and(Dirty::is_empty)
}

/// The appends with which `records` records of a dataset get their blocks, each alone; and the mark of fragments before them.
fn reserve_for(state: &dataset::State, records: usize, space: BlockSpace) -> Reserve {
    if records == 0 {
        return Reserve::default();
    }
    let mark = usize::from(!state.dataset.has_fragments);
    let has_files = state.dataset.kind.has_files();
    let len = match has_files {
        // files may have records of other sizes than the dataset
        true => SMALL_BYTES as u32,
        false => state.dataset.record_size.min(SMALL_BYTES as u32),
    };
    let bytes = block_bytes_max(std::iter::once(len), has_files, space);
    Reserve {
        appends: records + mark,
        bytes: bytes.max(Record::PUT_INLINE_SIZE + INLINE_SIZE_MAX),
    }
}

impl State {
    /// Whether the contents of the next group go to the journal: `records` small records, for which the batch has up to `bytes` bytes. The
    /// journal keeps room for the batches with their blocks then.
    pub(super) fn takes_journal(
        &mut self,
        state: &dataset::State,
        (records, bytes): (usize, usize),
    ) -> bool {
        if self.checkpointer.waits_for_journaled()
            || self.journal.pressure() == Pressure::Slow
            || !self.shared.budget.may_hold()
        {
            return false;
        }
        let more = reserve_for(state, records, self.shared.vdevs.block_space());
        let reserve = self.journal.reserve().with(more);
        let takes = bytes.max(reserve.bytes) <= self.journal.append_max()
            && self.journal.may_reserve(reserve, bytes)
            && self.committer.way.takes_journal();
        if takes {
            self.journal.set_reserve(reserve);
        }
        takes
    }

    /// Has the journal keep room for the blocks of the records that only it has, and no longer for overwritten ones. `datasets`
    /// are all that have such records.
    pub(in crate::owner) fn reserve_journal(&mut self, datasets: &[Arc<OpenDataset>]) {
        let space = self.shared.vdevs.block_space();
        let reserves = datasets.iter().map(|dataset| {
            let state = lock(&dataset.state);
            reserve_for(&state, state.journaled.len(), space)
        });
        let reserve = reserves.fold(Reserve::default(), Reserve::with);
        self.journal.set_reserve(reserve);
    }
}

impl Owner {
    /// Gives blocks to all records that a checkpoint waits for, before other groups take the rest of the journal.
    pub(super) fn write_awaited(self: &Rc<Self>, volumes: &[&Arc<OpenDataset>]) {
        if !self.state.borrow().checkpointer.waits_for_journaled() {
            return;
        }
        for volume in volumes {
            while !lock(&volume.state).journaled.is_empty() && self.write_journaled(volume) {}
        }
    }

    /// Gives blocks to records of a volume that only the journal has. False if there is no room for them now.
    pub(super) fn write_journaled(self: &Rc<Self>, volume: &Arc<OpenDataset>) -> bool {
        let may_write = {
            let state = self.state.borrow();
            state.committer.may_write_journaled(&state.journal)
        };
        if !may_write {
            return false;
        }
        let next = lock(&volume.state).journaled.next(GROUP_BYTES);
        for contents in next {
            contents.pack();
        }
        let mut owner = self.state.borrow_mut();
        let taken = {
            let mut state = lock(&volume.state);
            let mut next = state.journaled.next(GROUP_BYTES);
            let reserve = owner.journal.reserve();
            // A batch of one append of the reserve has room. A larger one must leave room for all others, because it may get extents for
            // fewer records.
            owner.journal.set_reserve(reserve.without(1));
            let space = self.shared.vdevs.block_space();
            let has_files = state.dataset.kind.has_files();
            let bytes_of = |next: &[Contents]| {
                let lens = next.iter().map(|contents| contents.len() as u32);
                block_bytes_max(lens, has_files, space)
            };
            let fits = |bytes| bytes <= owner.journal.append_max() && owner.journal.has_room(bytes);
            while next.len() > 1 && !fits(bytes_of(&next)) {
                next.truncate(next.len() / 2);
            }
            let bytes = bytes_of(&next);
            if !fits(bytes) {
                owner.journal.set_reserve(reserve);
                owner.checkpointer.request_journal();
                return false;
            }
            let had_mark = state.dataset.has_fragments;
            owner
                .journal
                .set_reserve(reserve.without(1 + usize::from(!had_mark)));
            let placed = self.place_next(&mut owner, volume, &mut state, (&next, bytes), false);
            let marks = usize::from(state.dataset.has_fragments != had_mark);
            let Ok((count, destination)) = placed else {
                owner.journal.set_reserve(reserve.without(marks));
                return false;
            };
            owner.journal.set_reserve(reserve.without(count + marks));
            let group = Group {
                records: state.journaled.take(count),
                ..Group::default()
            };
            let deletes = Deletes::with(&group, &state.dataset);
            let group = Arc::new(group);
            state.in_flight.begin(group.clone());
            Taken {
                group,
                done: None,
                destination,
                inodes: Vec::new(),
                charges: Vec::new(),
                deletes,
                is_small: false,
            }
        };
        self.write_group(owner, volume, taken);
        true
    }

    /// Sets the feature of contents in the journal, if the choice of the way wants it.
    pub(super) fn allow_journaled(self: &Rc<Self>) {
        if self.shared.vdevs.is_read_only() || !self.state.borrow_mut().committer.way.take_wish() {
            return;
        }
        let this = self.clone();
        drop(io::spawn(async move {
            let set = this.shared.vdevs.require(FEATURE_JOURNAL_CONTENTS).await;
            this.state
                .borrow_mut()
                .committer
                .way
                .feature_ended(set.is_ok());
            if let Err(error) = set {
                tracing::warn!(%error, "the journal takes no contents: the labels of the pool cannot be written");
            }
        }));
    }
}

impl Pool {
    /// The measured times of small durable writes, and the records whose contents went to the journal.
    #[must_use]
    pub fn durable_times(&self) -> DurableTimes {
        self.owner.state.borrow().committer.way.times()
    }

    /// The waits of clients for durable data.
    #[must_use]
    pub fn durable_waits(&self) -> DurableWaits {
        self.owner.state.borrow().committer.waits.read()
    }
}
