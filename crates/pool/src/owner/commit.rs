//! Dirty records become blocks and batches; flushes make them durable.
//!
//! **Owns** the way of a group: taken from a volume, compressed, given one extent, checksummed, written side by side with the batch
//! that points to it. **Called by** the owner's loop, one action at a time; nothing here waits but the tasks that it
//! starts. **Invariants**: a group's address, its pointers in the layer and its records in the journal come into being
//! in one step; whoever waits is answered with what a device confirmed after all of that was written.

use std::rc::Rc;
use std::sync::Arc;

use io::{IoBuf, SharedBuf};

use super::{Owner, Stage, State};
use crate::dirty::Group;
use crate::format::{
    Address, Birth, BlockPtr, Checksum, ChecksumKind, Packing, Record, Value, VdevOffset,
};
use crate::journal::{Flush, Pressure, Ticket};
use crate::record::Contents;
use crate::shared::lock;
use crate::space::Class;
use crate::volume::{self, Demand, LAZY_BYTES, Volume, record_key};

/// Bytes of records that leave together at most.
const GROUP_BYTES: usize = 1 << 20;
/// Groups on their way to the devices at most.
const GROUPS_MAX: usize = 8;
/// Flushes that may have waiters before more demands are taken up, so that these come together.
const ROUNDS_MAX: usize = 2;
/// A checkpoint is not written for less than this part of the pool.
const FREED_PART: u64 = 16;
/// Records of one append to the journal.
const APPEND_MAX: usize = 1024;

/// Where a group goes.
#[derive(Default)]
struct Room {
    /// None if it has no records.
    at: Option<Address>,
    /// Bytes of each record there, in whole sectors.
    sizes: Vec<u32>,
    /// For what does not lie as it is stored already.
    buf: Option<IoBuf>,
}

impl Owner {
    /// Does what can be done now.
    pub(super) fn act(self: &Rc<Self>) {
        let volumes: Vec<Volume> = self.state.borrow().heads.values().cloned().collect();
        for volume in &volumes {
            self.commit_urgent(volume);
        }
        self.answer_snapshots();
        let all = self.state.borrow().write_back;
        let mut left = false;
        for volume in &volumes {
            left |= self.commit_lazy(volume, all);
        }
        self.state.borrow_mut().write_back &= left;
        self.write_journal(all);
        self.flush();
    }

    /// Answers those who flush snapshots, of which nothing is dirty.
    fn answer_snapshots(&self) {
        let asking = std::mem::take(&mut *lock(&self.shared.asking));
        let mut state = self.state.borrow_mut();
        for id in asking {
            let Some(snapshot) = state.volumes.get(&id).cloned() else {
                continue;
            };
            let demands = std::mem::take(&mut lock(&snapshot.0.state).demands);
            for demand in demands {
                state.wait(None, demand);
            }
        }
    }

    /// Whether another group may leave now.
    fn may_commit(&self) -> bool {
        let state = self.state.borrow();
        state.groups < GROUPS_MAX && state.journal.pressure() < Pressure::Slow
    }

    /// Takes what is urgent, and those who wait for it.
    fn commit_urgent(self: &Rc<Self>, volume: &Volume) {
        if self.state.borrow().rounds() >= ROUNDS_MAX {
            return;
        }
        while lock(&volume.0.state).has_urgent() {
            if !self.may_commit() || !self.commit(volume, false) {
                return;
            }
            self.finish_snapshot(volume);
        }
        self.finish_snapshot(volume);
        let demands = std::mem::take(&mut lock(&volume.0.state).demands);
        if demands.is_empty() {
            return;
        }
        let mut state = self.state.borrow_mut();
        let ticket = state.last.get(&volume.0.id).copied();
        for demand in demands {
            state.wait(ticket, demand);
        }
    }

    /// Writes back what nobody waits for: all, or as much as is too much. Whether some is left.
    fn commit_lazy(self: &Rc<Self>, volume: &Volume, all: bool) -> bool {
        loop {
            let (bytes, has_lazy) = {
                let mut state = lock(&volume.0.state);
                let has_lazy = state.aging.is_some() || state.leaving().has_lazy();
                (state.dirty.bytes(), has_lazy)
            };
            if !has_lazy || !(all || bytes >= LAZY_BYTES) {
                return false;
            }
            if !self.may_commit() || !self.commit(volume, true) {
                return true;
            }
            self.finish_snapshot(volume);
        }
    }

    /// Compresses what is to leave next, without the volume's lock. What changes meanwhile is compressed under it.
    fn pack_next(volume: &Volume, lazy: bool) {
        if volume.0.packer().packing != Packing::Off {
            let next = lock(&volume.0.state).next(GROUP_BYTES, lazy);
            for contents in next {
                contents.pack();
            }
        }
    }

    /// Finds memory and space for what is to leave next; none if there is none now.
    fn room_for_next(
        &self,
        owner: &mut State,
        state: &mut volume::State,
        lazy: bool,
    ) -> Option<Room> {
        let sector = self.shared.vdevs.sector();
        let next = state.next(GROUP_BYTES, lazy);
        let stored = |contents: &Contents| contents.stored().1.len() as u32;
        let sizes = next.iter().map(|c| stored(c).next_multiple_of(sector));
        let mut sizes: Vec<u32> = sizes.collect();
        let mut both = next.iter().zip(&sizes);
        let is_whole = state.next_is_large(lazy)
            && both.all(|(contents, size)| contents.len() == *size as usize);
        if sizes.is_empty() {
            return Some(Room::default());
        }
        let bytes = sizes.iter().sum::<u32>() as usize;
        let buf = match is_whole {
            true => None,
            false => Some(self.shared.buffers.try_alloc(bytes)?),
        };
        let Some((at, count)) = owner.place(&sizes) else {
            owner.short = true;
            return None;
        };
        sizes.truncate(count);
        Some(Room {
            at: Some(at),
            sizes,
            buf,
        })
    }

    /// Sends one group on its way; false if there is no buffer or no space for it now.
    fn commit(self: &Rc<Self>, volume: &Volume, lazy: bool) -> bool {
        Self::pack_next(volume, lazy);
        let mut owner = self.state.borrow_mut();
        let mut state = lock(&volume.0.state);
        let Some(Room { at, sizes, buf }) = self.room_for_next(&mut owner, &mut state, lazy) else {
            return false;
        };
        let mut group = state.take(sizes.len(), lazy);
        if group.is_empty() {
            return true;
        }
        let done = group.done.take();
        let kind = state.dataset.checksum;
        let ptrs = at.map_or_else(Vec::new, |at| point(&group, at, &sizes, owner.epoch, kind));
        let write = at.map(|at| match buf {
            Some(buf) => (at, lay_out(&group, buf, &sizes)),
            None => (at, group.whole.take().expect("what has no buffer lies so")),
        });
        let group = Arc::new(group);
        let ticket = owner.journal_group(volume, &group, &ptrs);
        for range in &group.ranges {
            let keys = record_key(range.start)..record_key(range.end);
            state
                .top
                .delete_range(keys, |old| owner.freed.extend(old.block()));
        }
        for ((record, _), ptr) in group.records.iter().zip(ptrs) {
            let old = state.top.put(record_key(*record), Value::Block(ptr));
            owner.freed.extend(old.as_ref().and_then(Value::block));
        }
        owner.free_now();
        state.begin_writing(group.clone(), write.is_none());
        drop(state);
        let stored = sizes.iter().map(|size| u64::from(*size)).sum();
        let room = &self.shared.room;
        let left = owner.space.allocatable();
        room.placed(volume.0.id, group.bytes() as u64, stored, left);
        if let Some((at, data)) = write {
            owner.groups += 1;
            let (this, volume) = (self.clone(), volume.clone());
            drop(io::spawn(async move {
                if this.shared.vdevs.write(at, data).await.is_err() {
                    // what is dirty stays in memory, and can be read
                    return this.fail();
                }
                this.end_group(&volume, &group, ticket);
                if let Some(done) = done {
                    done.send(());
                }
            }));
        }
        true
    }

    fn end_group(&self, volume: &Volume, group: &Arc<Group>, ticket: Ticket) {
        lock(&volume.0.state).end_writing(group);
        self.shared.room.written(group.bytes() as u64);
        let mut state = self.state.borrow_mut();
        state.groups -= 1;
        state.journal.data_written(ticket);
        drop(state);
        self.shared.bell.ring();
    }

    fn write_journal(self: &Rc<Self>, all: bool) {
        loop {
            let mut state = self.state.borrow_mut();
            let now = all || !state.waiters.is_empty();
            let Some(write) = state.journal.next_write(now) else {
                return;
            };
            drop(state);
            let this = self.clone();
            drop(io::spawn(async move {
                let mut buf = this.shared.buffers.alloc(write.bytes.len()).await;
                buf.copy_from_slice(&write.bytes);
                match this.shared.vdevs.write(write.at, buf).await {
                    Ok(()) => {
                        this.state.borrow_mut().journal.written(write.sequence);
                        this.shared.bell.ring();
                    }
                    Err(_) => this.fail(),
                }
            }));
        }
    }

    /// Flushes if that answers somebody.
    fn flush(self: &Rc<Self>) {
        let mut state = self.state.borrow_mut();
        state.answer();
        if state.flushing || state.waiters.is_empty() {
            return;
        }
        let Some(flush) = state.journal.begin_flush() else {
            return;
        };
        if !state
            .waiters
            .iter()
            .any(|(ticket, _)| flush.covers(*ticket))
        {
            return;
        }
        state.flushing = true;
        drop(state);
        let this = self.clone();
        drop(io::spawn(async move { this.finish_flush(flush).await }));
    }

    async fn finish_flush(&self, flush: Flush) {
        match self.shared.vdevs.flush().await {
            Ok(confirmed) => {
                let mut state = self.state.borrow_mut();
                state.flushing = false;
                state.journal.flushed(flush);
                state.confirmed = Some(confirmed);
                state.answer();
                drop(state);
                self.shared.bell.ring();
            }
            Err(_) => self.fail(),
        }
    }
}

impl State {
    /// A place for the first of blocks that lie one behind the other and have so many bytes each, whole sectors: where, and
    /// for how many of them.
    fn place(&mut self, sizes: &[u32]) -> Option<(Address, usize)> {
        let first = *sizes.first()?;
        // in pieces of the first one's size, so that it fits; what is too much goes back
        let want = sizes.iter().sum::<u32>().next_multiple_of(first);
        let (at, got) = self.space.allocate(want, first, Class::Data)?;
        let (mut used, mut count) = (0, 0);
        for size in sizes {
            if used + size > got {
                break;
            }
            used += size;
            count += 1;
        }
        let end = VdevOffset(at.offset.0 + u64::from(used));
        self.space
            .give_back(Address { offset: end, ..at }, got - used);
        Some((at, count))
    }

    /// Puts a group into the journal. Ranges come first; records of one volume stay in order.
    fn journal_group(&mut self, volume: &Volume, group: &Group, ptrs: &[BlockPtr]) -> Ticket {
        let tree = volume.0.id;
        let ranges = group
            .ranges
            .iter()
            .map(|r| Record::DeleteRange(tree, record_key(r.start)..record_key(r.end)));
        let puts = group
            .records
            .iter()
            .zip(ptrs)
            .map(|((record, _), ptr)| Record::PutFresh(tree, record_key(*record), *ptr));
        let records: Vec<Record> = ranges.chain(puts).collect();
        let mut chunks = records.chunks(APPEND_MAX).peekable();
        let mut ticket = None;
        while let Some(chunk) = chunks.next() {
            let data_writes = u32::from(chunks.peek().is_none() && !ptrs.is_empty());
            let appended = self.journal.append(chunk, data_writes);
            ticket = Some(appended.expect("groups leave only while the journal has room"));
        }
        let ticket = ticket.expect("a group is not empty");
        self.last.insert(tree, ticket);
        ticket
    }

    /// Answers `demand` once `ticket` is durable; at once without one.
    pub(super) fn wait(&mut self, ticket: Option<Ticket>, demand: Demand) {
        match ticket.filter(|t| !self.journal.is_durable(*t)) {
            Some(ticket) => self.waiters.push((ticket, demand)),
            None => self.answer_now(demand),
        }
    }

    fn answer_now(&self, demand: Demand) {
        if let Some(confirmed) = &self.confirmed {
            demand.send(Ok(confirmed.into()));
        }
    }

    /// Answers everybody whose batch is durable.
    fn answer(&mut self) {
        let (journal, confirmed) = (&self.journal, &self.confirmed);
        let Some(confirmed) = confirmed else { return };
        let durable = self
            .waiters
            .extract_if(.., |(ticket, _)| journal.is_durable(*ticket));
        for (_, demand) in durable {
            demand.send(Ok(confirmed.into()));
        }
    }

    /// How many batches are waited for.
    fn rounds(&self) -> usize {
        let mut tickets: Vec<Ticket> = self.waiters.iter().map(|(ticket, _)| *ticket).collect();
        tickets.dedup();
        tickets.len()
    }

    /// Gives back what a change of the newest layer replaced: no snapshot knows of it.
    pub(super) fn free_now(&mut self) {
        for ptr in std::mem::take(&mut self.freed) {
            let freed = self.space.free_young(ptr.address(), ptr.physical_size);
            self.check_freed(&ptr, freed);
        }
    }

    /// Whether more waits for a checkpoint than is free: what is left would be ever smaller pieces.
    fn is_much_freed(&self) -> bool {
        let pending = self.space.pending();
        pending > self.space.allocatable() && pending > self.space.size() / FREED_PART
    }

    /// Whether a checkpoint is due for what the journal or memory hold.
    pub(super) fn is_checkpoint_due(&self) -> bool {
        matches!(self.stage, Stage::Idle)
            && (self.short
                || self.freeing_due
                || self.journal.pressure() >= Pressure::Checkpoint
                || self.is_much_freed())
    }
}

/// Copies a group's records, as they are stored, into a buffer, one behind the other in so many bytes each.
fn lay_out(group: &Group, mut buf: IoBuf, sizes: &[u32]) -> SharedBuf {
    buf.set_len(sizes.iter().sum::<u32>() as usize);
    let mut rest = &mut buf[..];
    for ((_, data), size) in group.records.iter().zip(sizes) {
        let (place, behind) = rest.split_at_mut(*size as usize);
        let (_, stored) = data.stored();
        place[..stored.len()].copy_from_slice(stored);
        place[stored.len()..].fill(0);
        rest = behind;
    }
    buf.into()
}

/// The pointers of a group's records, which lie from `at` on, in so many bytes each.
fn point(
    group: &Group,
    at: Address,
    sizes: &[u32],
    birth: Birth,
    kind: ChecksumKind,
) -> Vec<BlockPtr> {
    let mut offset = at.offset.0;
    let mut ptrs = Vec::with_capacity(group.records.len());
    for ((_, data), size) in group.records.iter().zip(sizes) {
        let address = Address {
            offset: VdevOffset(offset),
            ..at
        };
        let (compression, stored) = data.stored();
        ptrs.push(BlockPtr {
            vdev: at.vdev,
            offset: address.offset,
            logical_size: data.len() as u32,
            physical_size: stored.len() as u32,
            compression,
            checksum_kind: kind,
            birth,
            checksum: Checksum::of(kind, address, stored),
        });
        offset += u64::from(*size);
    }
    ptrs
}
