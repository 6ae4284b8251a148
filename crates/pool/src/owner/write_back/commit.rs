//! Write-back: dirty records become blocks and batches; flushes make them durable.
//!
//! **Owns** the steps of a group: taken from a volume, compressed, given extents, checksummed, and written at the same
//! time as the batch that points to it; [`Committer`](super::committer::Committer) has the counts. **Called by** the
//! owner's loop, one action at a time; only the tasks that it starts wait. **Invariants**: a group's extents, its
//! pointers in the layer and its records in the journal are made in one step; a demand is answered with a confirmation
//! that the devices gave after all of these were written.

use std::rc::Rc;
use std::sync::{Arc, MutexGuard};

use io::sync::oneshot;
use io::time::now;

use super::group_batch::journal_bytes_max;
use super::journaled;
use super::place::{Deletes, Destination};
use crate::dataset::{self, Demand, LAZY_BYTES, OpenDataset, STAGED_LAZY_BYTES};
use crate::dirty::Group;
use crate::format::filesystem::Inode;
use crate::format::{Address, ObjectId, Packing, Record, TreeId};
use crate::journal::{Flush, Ticket};
use crate::owner::capacity::allocator::Placement;
use crate::owner::{Owner, State};
use crate::record::Contents;
use crate::written::WriteClass;
use io::sync::lock;

/// The most bytes of records in one group.
pub(super) const GROUP_BYTES: usize = 1 << 20;

/// Why no group was taken.
pub(super) enum NotTaken {
    /// There is no memory, or no space of the pool or its journal, now.
    NoRoom,
    /// A transaction was staged meanwhile, which the journal must have first.
    Staged,
}

/// A group that was taken from a volume.
pub(super) struct Taken {
    pub(super) group: Arc<Group>,
    /// Answered when the devices have the group's data.
    pub(super) done: Option<oneshot::Sender<()>>,
    pub(super) destination: Destination,
    /// Inodes of files that the journal gets with it.
    pub(super) inodes: Vec<(ObjectId, Inode)>,
    /// The space of their owners, where it changes.
    pub(super) charges: Vec<Record>,
    /// The keys that it deletes.
    pub(super) deletes: Deletes,
    /// Whether a client waits for it, it is small, and its contents might go to the journal.
    pub(super) is_small: bool,
}

impl Taken {
    /// Takes ranges and `count` records from a volume.
    fn take(
        state: &mut dataset::State,
        (tree, count): (TreeId, usize),
        lazy: bool,
        destination: Destination,
        is_small: bool,
    ) -> Self {
        let mut group = state.take(count, lazy);
        let done = group.done.take();
        let base = state.dataset.record_size;
        let inodes = state.tails.leaving(&state.dirty, base, &group);
        let charges = state.charge_leaving(tree, &inodes);
        let deletes = Deletes::with(&group, &state.dataset);
        let group = Arc::new(group);
        if !group.is_empty() {
            state.in_flight.begin(group.clone());
        }
        Self {
            group,
            done,
            destination,
            inodes,
            charges,
            deletes,
            is_small,
        }
    }
}

impl Owner {
    /// One turn of the owner: writes groups and batches back, answers demands, and begins a flush if one is due.
    pub(in crate::owner) fn take_turn(self: &Rc<Self>) {
        let asking = self.state.borrow_mut().asking();
        let (snapshots, volumes): (Vec<&Arc<OpenDataset>>, Vec<&Arc<OpenDataset>>) =
            asking.iter().partition(|dataset| dataset.is_snapshot());
        {
            let mut state = self.state.borrow_mut();
            state.committer.begin_turn();
            state.reserve_journal(&asking);
        }
        self.write_awaited(&volumes);
        for volume in &volumes {
            self.commit_urgent(volume);
        }
        for snapshot in snapshots {
            self.answer_snapshot(snapshot);
        }
        let all = self.state.borrow().committer.writes_all();
        let mut left = false;
        for volume in &volumes {
            left |= self.commit_lazy(volume, all);
        }
        let mut state = self.state.borrow_mut();
        state.committer.end_write_back(left);
        let outstanding = state.outstanding(&asking);
        state.datasets.let_rest(&asking);
        drop(state);
        self.stock_regions();
        let gathers = self.gathers(outstanding);
        self.write_journal(all, gathers);
        self.flush(gathers);
        self.allow_journaled();
    }

    /// Answers flushes of a snapshot, which has no dirty records.
    fn answer_snapshot(&self, snapshot: &Arc<OpenDataset>) {
        let demands = lock(&snapshot.state).demands.take();
        let mut state = self.state.borrow_mut();
        for demand in demands {
            state.answer_when_durable(None, demand);
        }
    }

    /// Takes the urgent records of a volume, then the demands that wait for them.
    fn commit_urgent(self: &Rc<Self>, volume: &Arc<OpenDataset>) {
        if !self.state.borrow().may_take_demands() {
            return;
        }
        loop {
            if self.finish_snapshot(volume) {
                return;
            }
            if journaled::holds_snapshot_up(&lock(&volume.state)) {
                if !self.write_journaled(volume) {
                    return;
                }
                continue;
            }
            if !lock(&volume.state).has_urgent() {
                break;
            }
            if !self.state.borrow().may_take_group() || !self.commit(volume, false) {
                return;
            }
        }
        let has_demands = !lock(&volume.state).demands.is_empty();
        if has_demands && !self.append_staged(volume) {
            return;
        }
        let demands = lock(&volume.state).demands.take();
        if demands.is_empty() {
            return;
        }
        let state = &mut *self.state.borrow_mut();
        let journal = &state.journal;
        state.committer.wait_for_volume(journal, volume.id, demands);
    }

    /// Writes lazy records of a volume back: all of them, or those above [`LAZY_BYTES`]. Returns whether some stay
    /// dirty that should not.
    fn commit_lazy(self: &Rc<Self>, volume: &Arc<OpenDataset>, all: bool) -> bool {
        if (all || lock(&volume.state).staged.bytes() >= STAGED_LAZY_BYTES)
            && !self.append_staged(volume)
        {
            return true;
        }
        loop {
            if self.finish_snapshot(volume) {
                return true;
            }
            if journaled::is_due(&lock(&volume.state), all) {
                if !self.write_journaled(volume) {
                    return true;
                }
                continue;
            }
            let (bytes, has_lazy) = {
                let mut state = lock(&volume.state);
                let has_lazy = state.pending_snapshot.is_some() || state.leaving().has_lazy();
                (state.dirty.bytes(), has_lazy)
            };
            if !has_lazy || !(all || bytes >= LAZY_BYTES) {
                return false;
            }
            if !self.state.borrow().may_take_group() || !self.commit(volume, true) {
                return true;
            }
        }
    }

    /// Compresses the records of the next group, without the volume's lock.
    fn pack_next(volume: &Arc<OpenDataset>, lazy: bool) {
        if volume.packer().packing != Packing::Off {
            let next = lock(&volume.state).next(GROUP_BYTES, lazy);
            for contents in next {
                contents.pack();
            }
        }
    }

    /// The volume, locked, and the contents of the records of the next group, all of which are compressed.
    fn next_packed(
        volume: &Arc<OpenDataset>,
        lazy: bool,
    ) -> (MutexGuard<'_, dataset::State>, Vec<Contents>) {
        loop {
            let mut state = lock(&volume.state);
            let mut next = state.next(GROUP_BYTES, lazy);
            let packed = next.iter().take_while(|contents| contents.is_packed());
            let packed = packed.count();
            if packed > 0 || next.is_empty() {
                next.truncate(packed);
                return (state, next);
            }
            drop(state);
            for contents in next {
                contents.pack();
            }
        }
    }

    /// Takes the next group from a volume, and allocates its extents. Readers find its records in the group from here on.
    fn take_next(
        &self,
        owner: &mut State,
        volume: &Arc<OpenDataset>,
        lazy: bool,
    ) -> Result<Taken, NotTaken> {
        let (mut state, mut next) = Self::next_packed(volume, lazy);
        let has_files = state.dataset.kind.has_files();
        if !state.staged.is_empty() && state.pending_snapshot.is_none() {
            return Err(NotTaken::Staged);
        }
        while next.len() > 1
            && journal_bytes_max(next.iter(), has_files) > owner.journal.append_max()
        {
            next.truncate(next.len() / 2);
        }
        let journal_bytes = journal_bytes_max(next.iter(), has_files);
        let gets_blocks = volume.settings.has_blocks() && !state.dataset.has_blocks;
        if gets_blocks && !owner.mark(volume, &mut state, |dataset| &mut dataset.has_blocks) {
            return Err(NotTaken::NoRoom);
        }
        if !owner.journal.has_room(journal_bytes) {
            // a running checkpoint may free some of the journal; the group is tried again after it
            owner.checkpointer.request_journal();
            return Err(NotTaken::NoRoom);
        }
        let contents = next.iter().map(|contents| contents.len()).sum();
        let is_small = volume.settings.has_contents_in_journal()
            && journaled::is_small(&state, contents, lazy);
        let (count, destination) = match next.is_empty() {
            true => (0, Destination::Nowhere),
            false
                if is_small
                    && owner.takes_journal(&state, (next.len(), journal_bytes + contents)) =>
            {
                (next.len(), Destination::Journal)
            }
            false => {
                let in_place = state.next_is_large(lazy);
                self.place_next(owner, volume, &mut state, (&next, journal_bytes), in_place)?
            }
        };
        Ok(Taken::take(
            &mut state,
            (volume.id, count),
            lazy,
            destination,
            is_small,
        ))
    }

    /// Finds extents and, unless the records can be written from the memory in which they lie (`in_place`), a buffer for the first of
    /// these records: all of them, or as many as one run of extents takes, or the first one in fragments. Their group takes at most
    /// `journal_bytes` bytes of the journal. Returns their number and destination.
    pub(super) fn place_next(
        &self,
        owner: &mut State,
        volume: &Arc<OpenDataset>,
        state: &mut dataset::State,
        (next, journal_bytes): (&[Contents], usize),
        in_place: bool,
    ) -> Result<(usize, Destination), NotTaken> {
        let space = self.shared.vdevs.block_space();
        let stored = |contents: &Contents| contents.stored().1.len() as u32;
        let sizes = next.iter().map(|c| space.of(stored(c)));
        let mut sizes: Vec<u32> = sizes.collect();
        let mut both = next.iter().zip(&sizes);
        let lie_together =
            in_place && both.all(|(contents, size)| contents.len() == *size as usize);
        let buffers = &self.shared.buffers;
        let buf = match lie_together {
            true => None,
            false => {
                let buf = buffers.try_alloc(sizes.iter().sum::<u32>() as usize);
                Some(buf.ok_or(NotTaken::NoRoom)?)
            }
        };
        let first_len = next.first().map_or(0, |first| first.len()) as u32;
        let small = volume.settings.special_small_blocks();
        let placed = owner.allocator.place((&sizes, small), first_len, space);
        match placed {
            Some(Placement::Whole(extents)) => {
                let count = extents.iter().map(|(_, count)| count).sum();
                sizes.truncate(count);
                owner.count_spilled(volume, (&extents, &sizes), small);
                let destination = Destination::Whole {
                    extents,
                    sizes,
                    buf,
                };
                Ok((count, destination))
            }
            Some(Placement::Fragments(fragments)) => {
                let bytes = fragments.iter().map(|(_, bytes)| *bytes as usize).sum();
                let buf = buffers.try_alloc(bytes);
                let is_ready = buf.is_some()
                    && owner.mark(volume, state, |dataset| &mut dataset.has_fragments)
                    && owner.journal.has_room(journal_bytes);
                let Some(buf) = buf.filter(|_| is_ready) else {
                    owner.allocator.give_back(&fragments);
                    return Err(NotTaken::NoRoom);
                };
                owner.count_spilled(volume, (&[(fragments[0].0, 1)], &sizes), small);
                Ok((1, Destination::Fragments { fragments, buf }))
            }
            // regions are loaded at the end of the turn; then the group is tried again
            Some(Placement::NotLoaded) => Err(NotTaken::NoRoom),
            None => {
                owner.checkpointer.request_space();
                Err(NotTaken::NoRoom)
            }
        }
    }

    /// Writes one group. False if there is no buffer or no space for it now, or its records are still being prepared.
    fn commit(self: &Rc<Self>, volume: &Arc<OpenDataset>, lazy: bool) -> bool {
        let (owner, taken) = loop {
            let has_pending_snapshot = lock(&volume.state).pending_snapshot.is_some();
            if !has_pending_snapshot && !self.append_staged(volume) {
                return false;
            }
            if self.is_preparing(volume, lazy) {
                return false;
            }
            Self::pack_next(volume, lazy);
            let mut owner = self.state.borrow_mut();
            match self.take_next(&mut owner, volume, lazy) {
                Ok(taken) => break (owner, taken),
                Err(NotTaken::NoRoom) => return false,
                Err(NotTaken::Staged) => drop(owner),
            }
        };
        if !taken.group.is_empty() {
            self.write_group(owner, volume, taken);
        }
        true
    }

    /// Whether the next batch and its flush wait for further demands. The end of the wait wakes the owner.
    fn gathers(self: &Rc<Self>, outstanding: usize) -> bool {
        let state = &mut *self.state.borrow_mut();
        let gathering = &mut state.committer.gathering;
        let waits = gathering.waits_for_demands(outstanding, now());
        if let Some(until) = gathering.take_timer() {
            let this = self.clone();
            drop(io::spawn(async move {
                io::time::sleep_until(until).await;
                this.shared.bell.ring();
            }));
        }
        waits && !state.journal.is_flush_due()
    }

    fn write_journal(self: &Rc<Self>, all: bool, gathers: bool) {
        loop {
            let mut state = self.state.borrow_mut();
            let is_awaited = state.committer.waiters() > 0 && !gathers;
            let now = all || is_awaited || state.journal.is_flush_due();
            let Some(write) = state.journal.next_write(now) else {
                return;
            };
            drop(state);
            let this = self.clone();
            drop(io::spawn(async move {
                let mut buf = this.shared.buffers.alloc(write.bytes.len()).await;
                buf.copy_from_slice(&write.bytes);
                let vdevs = &this.shared.vdevs;
                match vdevs.write(write.at, buf, WriteClass::Journal).await {
                    Ok(()) => {
                        this.state.borrow_mut().journal.written(write.sequence);
                        this.shared.bell.ring();
                    }
                    Err(_) if this.has_lost_journal() => {
                        this.state.borrow_mut().journal.written(write.sequence);
                        this.shared.bell.ring();
                    }
                    Err(error) => this.fail(error),
                }
            }));
        }
    }

    /// Begins a flush if it answers a demand and gathers no further ones, or if replay would have to read too much data otherwise.
    fn flush(self: &Rc<Self>, gathers: bool) {
        let flush = {
            let state = &mut *self.state.borrow_mut();
            state.committer.answer(&state.journal);
            match gathers {
                true => None,
                false => state.committer.begin_flush(&mut state.journal),
            }
        };
        let Some(flush) = flush else { return };
        let this = self.clone();
        drop(io::spawn(async move { this.finish_flush(flush).await }));
    }

    async fn finish_flush(self: Rc<Self>, flush: Flush) {
        match self.shared.vdevs.flush().await {
            Ok(confirmed) => {
                // then it makes no batch durable that was not before
                let _is_lost = self.has_lost_journal();
                let state = &mut *self.state.borrow_mut();
                let asking = state.asking();
                let outstanding = state.outstanding(&asking);
                let (committer, journal) = (&mut state.committer, &mut state.journal);
                committer.end_flush(journal, (flush, confirmed), outstanding);
                self.shared.bell.ring();
            }
            Err(error) => self.fail(error),
        }
    }
}

impl State {
    /// Datasets that have work for the owner, by number.
    pub(in crate::owner) fn asking(&mut self) -> Vec<Arc<OpenDataset>> {
        let new = std::mem::take(&mut *lock(&self.shared.asking));
        self.datasets.asking(new)
    }

    /// Number of demands that wait for a flush. `asking` are the datasets with work.
    fn outstanding(&self, asking: &[Arc<OpenDataset>]) -> usize {
        let of_dataset = |dataset: &Arc<OpenDataset>| lock(&dataset.state).demands.len();
        self.committer.waiters() + asking.iter().map(of_dataset).sum::<usize>()
    }

    /// Answers `demand` once the batch `ticket` is durable; at once without a ticket.
    pub(in crate::owner) fn answer_when_durable(&mut self, ticket: Option<Ticket>, demand: Demand) {
        self.committer
            .answer_when_durable(&self.journal, ticket, demand);
    }

    /// Counts [`State::spilled`], for the dataset and for the pool.
    fn count_spilled(
        &mut self,
        volume: &OpenDataset,
        placed: (&[(Address, usize)], &[u32]),
        small: u32,
    ) {
        let spilled = self.spilled(placed, small);
        volume.counters.spilled(spilled);
        self.allocator.count_spilled(spilled);
    }

    /// Bytes of the records of at most `small` bytes that are on normal vdevs because special ones have no room.
    pub(super) fn spilled(
        &self,
        (extents, sizes): (&[(Address, usize)], &[u32]),
        small: u32,
    ) -> u64 {
        let (mut spilled, mut sizes) = (0, sizes.iter());
        for (at, count) in extents {
            let of_extent = sizes.by_ref().take(*count).copied();
            let of_extent: u64 = of_extent.filter(|size| *size <= small).map(u64::from).sum();
            if of_extent > 0 && self.allocator.space().spills_to(at.vdev) {
                spilled += of_extent;
            }
        }
        spilled
    }

    /// Whether demands may be taken from the volumes now.
    fn may_take_demands(&self) -> bool {
        self.committer.may_take_demands(&self.journal)
    }

    /// Whether another group may be taken now.
    pub(super) fn may_take_group(&self) -> bool {
        self.committer.may_take_group(&self.journal)
    }
}
