//! A top-level vdev: its members and their membership.
//!
//! **Owns** the membership, and with it the success of a write, flush or read. **Called by** `Vdevs`.
//! **Invariants**: a write succeeds if as many members have it as the layout needs, which are still in when all members have
//! answered; a member that missed it is out before the write returns; no member leaves without which fewer are in than the
//! layout needs; every change of membership is counted in [`Changes`], and no write is reported durable before labels
//! record the change. `docs/decisions/0101`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use io::{BufPool, SharedBuf, spawn};

use super::geometry::DATA_START;
use super::layout::Layout;
use super::leaf::Leaf;
use super::limits::{ROW_BYTES, SPACE_RETRY};
use super::member::{Attempt, Changes, Member, MemberState, MemberStatus, Reach};
use super::row_places::RowPlaces;
use super::rows::Rows;
use super::space_below::SpaceBelow;
use crate::error::{Error, Result};
use crate::format::{
    Birth, JournalLayout, MemberEntry, Membership, VdevClass, VdevEntry, VdevId, VdevOffset,
};
use crate::written::WriteClass;

/// A top-level vdev.
pub(super) struct TopVdev {
    id: VdevId,
    entry: VdevEntry,
    layout: Layout,
    /// The places of a raidz; `None` for a mirror.
    rows: Option<RowPlaces>,
    /// Buffers for rows.
    row_buffers: BufPool,
    journal: JournalLayout,
    /// Size of the data of each member, bytes. It may grow.
    data_size: AtomicU64,
    members: Mutex<Vec<Member>>,
    changes: Changes,
    below: SpaceBelow,
    /// Number of completed writes, and number of writes that a flush covers.
    written: AtomicU64,
    flushed: AtomicU64,
    /// Whether a flush failed on every member.
    lost: AtomicBool,
    /// Whether it is for the journal, and no member takes writes any longer: the pool goes on without it.
    gone: AtomicBool,
    /// Its entry once it was removed: no member counts from then on.
    removed: OnceLock<VdevEntry>,
}

impl TopVdev {
    pub(super) fn new(
        id: VdevId,
        entry: VdevEntry,
        journal: JournalLayout,
        members: Vec<Member>,
        changes: Changes,
        below: SpaceBelow,
    ) -> Self {
        Self {
            id,
            layout: Layout::from(entry.kind),
            rows: Rows::of(&entry, journal).map(RowPlaces::new),
            row_buffers: BufPool::new(ROW_BYTES),
            journal,
            removed: match entry.is_removed {
                true => OnceLock::from(entry),
                false => OnceLock::new(),
            },
            entry,
            data_size: AtomicU64::new(entry.data_size),
            members: Mutex::new(members),
            changes,
            below,
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// The pool's writes that wait for space in a file system.
    pub(super) fn below(&self) -> SpaceBelow {
        self.below.clone()
    }

    pub(super) fn id(&self) -> VdevId {
        self.id
    }

    /// Whether it was removed: its blocks are read from the places of their copies.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.get().is_some()
    }

    /// Removes it: the next labels record this. No member counts from now on.
    pub(super) fn set_removed(&self) {
        let entry = VdevEntry {
            is_removed: true,
            ..self.entry()
        };
        let _is_removed = self.removed.set(entry);
    }

    /// Whether it is for the journal, and no member takes writes any longer.
    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::SeqCst)
    }

    /// The pool goes on without it. Labels have it until the journal is on other vdevs.
    pub(super) fn set_gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    /// Whether it is for the journal only.
    pub(super) fn is_log(&self) -> bool {
        self.entry.class == VdevClass::Log
    }

    /// Whether it is for nodes and small records.
    pub(super) fn is_special(&self) -> bool {
        self.entry.class == VdevClass::Special
    }

    /// Its entry in labels, with its present members.
    pub(super) fn entry(&self) -> VdevEntry {
        if let Some(entry) = self.removed.get() {
            return *entry;
        }
        let members = self.members().len();
        VdevEntry {
            members: members as u16,
            kind: self.layout.kind(members),
            data_size: self.data_size(),
            first_members: self.rows().map_or(0, |rows| rows.first_members()),
            expansion: self.rows.as_ref().and_then(RowPlaces::labelled),
            ..self.entry
        }
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    /// The places of a raidz; `None` for a mirror. An expansion writes over no place of these rows while the result is kept.
    pub(super) fn rows(&self) -> Option<Arc<Rows>> {
        self.rows.as_ref().map(RowPlaces::now)
    }

    /// The places of a raidz, to change them; `None` for a mirror.
    pub(super) fn places(&self) -> Option<&RowPlaces> {
        self.rows.as_ref()
    }

    /// Buffers for rows. No task waits for one while it holds another.
    pub(super) fn row_buffers(&self) -> &BufPool {
        &self.row_buffers
    }

    /// Bytes of each member's data that the journal takes.
    pub(super) fn journal_on_member(&self) -> u64 {
        self.journal.size_on_member(&self.entry)
    }

    /// End of its addresses.
    pub(super) fn end(&self) -> u64 {
        let size = self.data_size();
        self.rows().map_or(size, |rows| rows.end(size))
    }

    pub(super) fn sector(&self) -> u32 {
        self.entry.sector()
    }

    /// Bytes in which its extents are given out, at most: the data of a row; one sector on a mirror.
    pub(super) fn extent_unit(&self) -> u32 {
        let row = self.rows().map(|rows| rows.row_size() as u32);
        row.unwrap_or(self.sector())
    }

    /// As [`TopVdev::extent_unit`], for an extent at this address.
    pub(super) fn extent_unit_at(&self, at: VdevOffset) -> u32 {
        let rows = self.rows().filter(|rows| !rows.is_journal(at.0));
        rows.map_or(self.sector(), |rows| rows.row_size_at(at.0) as u32)
    }

    /// Whether a present member is a hard disk.
    pub(super) fn has_hard_disks(&self) -> bool {
        self.members().iter().any(|m| m.leaf.is_hard_disk())
    }

    /// Size of the data of each member, bytes.
    pub(super) fn data_size(&self) -> u64 {
        self.data_size.load(Ordering::Acquire)
    }

    /// Sets the size of its data, after it grew.
    pub(super) fn set_data_size(&self, size: u64) {
        self.data_size.store(size, Ordering::Release);
    }

    /// Records that the members that are in durably have every block born up to this epoch.
    pub(super) fn set_held(&self, epoch: Birth) {
        let mut members = self.members();
        for member in members
            .iter_mut()
            .filter(|m| m.state == MemberState::Online)
        {
            member.held = epoch;
        }
    }

    pub(super) fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn member_entries(&self) -> Vec<MemberEntry> {
        let entry = |member: &Member| MemberEntry {
            guid: member.leaf.guid(),
            membership: member.membership(),
            held: match member.membership() {
                Membership::In => Birth(0),
                Membership::Stale | Membership::Offline => member.held,
            },
        };
        self.members().iter().map(entry).collect()
    }

    pub(super) fn status(&self) -> Vec<MemberStatus> {
        let status = |member: &Member| MemberStatus {
            guid: member.leaf.guid(),
            path: member.leaf.path().clone(),
            state: member.state,
            held: member.held,
            fault: member.leaf.fault(),
            counters: member.leaf.counters(),
            times: member.leaf.times(),
        };
        self.members().iter().map(status).collect()
    }

    /// The index of a member; `None` if it is no member any longer.
    pub(super) fn index_of(&self, leaf: &Arc<Leaf>) -> Option<usize> {
        let members = self.members();
        members.iter().position(|m| Arc::ptr_eq(&m.leaf, leaf))
    }

    /// Members that take writes.
    pub(super) fn targets(&self) -> Vec<Arc<Leaf>> {
        let members = self.members();
        let targets = members.iter().filter(|m| m.state.takes_writes());
        targets.map(|m| m.leaf.clone()).collect()
    }

    /// Members that take writes: the members that are in, and the stale ones.
    pub(super) fn targets_split(&self) -> (Vec<Arc<Leaf>>, Vec<Arc<Leaf>>) {
        let members = self.members();
        let of_state = |state| {
            let some = members.iter().filter(move |m| m.state == state);
            some.map(|m| m.leaf.clone()).collect()
        };
        (of_state(MemberState::Online), of_state(MemberState::Stale))
    }

    /// Members that are in, in the order of the label.
    pub(super) fn members_in(&self) -> Vec<Arc<Leaf>> {
        let members = self.members();
        let online = members.iter().filter(|m| m.state == MemberState::Online);
        online.map(|m| m.leaf.clone()).collect()
    }

    /// Members in the order in which a read tries them, and whether each is in: the least loaded first, stale ones last.
    pub(super) fn readable(&self, at: VdevOffset) -> Vec<(Arc<Leaf>, bool)> {
        let members = self.members();
        let mut readable: Vec<_> = members
            .iter()
            .filter(|m| m.state.takes_writes())
            .map(|m| (m.leaf.clone(), m.state == MemberState::Online))
            .collect();
        drop(members);
        if readable.len() > 1 {
            let turn = (at.0 / READ_TURN) as usize % readable.len();
            readable.rotate_left(turn);
            // The keys are cached because loads change during the sort.
            readable.sort_by_cached_key(|(leaf, is_in)| (!is_in, leaf.load()));
        }
        readable
    }

    /// Records that a member did not take a block of its resilver.
    pub(super) fn miss(&self, leaf: &Arc<Leaf>) {
        let mut members = self.members();
        for member in members.iter_mut().filter(|m| Arc::ptr_eq(&m.leaf, leaf)) {
            if member.miss() {
                self.changes.count();
            }
        }
        self.fault_condemned(&mut members);
    }

    /// Judges the results of a write or flush on several members: members that are in and failed are out, if as many members
    /// that are in succeeded as the layout needs.
    ///
    /// # Errors
    /// If fewer succeeded: [`Error::FileSystemFull`] if one of them found no space, else [`Error::Device`].
    pub(super) fn judge(&self, attempts: &[Attempt], reach: Reach) -> Result<()> {
        self.judge_locked(&mut self.members(), attempts, reach)
    }

    /// As [`TopVdev::judge`], with the lock of the members.
    pub(super) fn judge_locked(
        &self,
        members: &mut [Member],
        attempts: &[Attempt],
        reach: Reach,
    ) -> Result<()> {
        let outcome = |m: &Member| {
            let attempt = attempts.iter().find(|a| a.is_of(&m.leaf));
            attempt.map(|a| a.has_it)
        };
        let holds = |m: &&Member| m.state == MemberState::Online && outcome(m) == Some(true);
        let mut stay = members.iter().filter(holds).count();
        if reach == Reach::Some && stay > 0 {
            let has_no_part = |m: &&Member| m.state == MemberState::Online && outcome(m).is_none();
            stay += members.iter().filter(has_no_part).count();
        }
        let held = stay >= self.layout.needed(members.len());
        for member in members.iter_mut() {
            let may_leave = match member.state {
                MemberState::Online => held,
                MemberState::Stale => true,
                MemberState::Offline | MemberState::Faulted | MemberState::Missing => false,
            };
            if may_leave && outcome(member) == Some(false) && member.miss() {
                self.changes.count();
            }
        }
        self.fault_condemned(members);
        if held {
            return Ok(());
        }
        let failed = |m: &&Member| m.state == MemberState::Online && outcome(m) == Some(false);
        let full = members.iter().filter(failed).find(|m| m.leaf.is_full());
        if self.is_log() && full.is_none() && members.iter().any(|m| failed(&m)) {
            self.set_gone();
        }
        Err(full.map_or(Error::Device, |member| member.leaf.write_error()))
    }

    /// Faults members with too many errors, but none without which fewer are in than the layout needs.
    pub(super) fn fault(&self) {
        self.fault_condemned(&mut self.members());
    }

    /// Faults members that hang, and releases the operations that wait for them. No member is given up without which fewer
    /// are in than the layout needs; a vdev for the journal is given up then.
    pub(super) fn give_up_hung(&self) {
        let mut members = self.members();
        let needed = self.layout.needed(members.len());
        let is_in = |m: &Member| m.state == MemberState::Online;
        let mut rest = members.iter().filter(|m| is_in(m)).count();
        for index in 0..members.len() {
            let member = &members[index];
            if !member.state.takes_writes() || !member.leaf.hangs() {
                continue;
            }
            if is_in(member) {
                if rest <= needed {
                    if self.is_log() {
                        self.set_gone();
                        member.leaf.give_up();
                    }
                    continue;
                }
                rest -= 1;
            }
            member.leaf.give_up();
            self.fault_condemned(&mut members);
        }
    }

    fn fault_condemned(&self, members: &mut [Member]) {
        let needed = self.layout.needed(members.len());
        let is_in = |m: &&Member| m.state == MemberState::Online;
        let mut rest = members.iter().filter(is_in).count();
        for member in members.iter_mut().filter(|m| m.leaf.is_condemned()) {
            match member.state {
                MemberState::Online if rest > needed => rest -= 1,
                MemberState::Stale => {}
                _ => continue,
            }
            member.miss();
            member.state = MemberState::Faulted;
            if member.leaf.is_short() {
                // Data at its end is lost, of any age.
                member.held = Birth(0);
            }
            self.changes.count();
        }
    }

    /// Writes to every member that takes writes, including one that began to during the write. If no member that is in has
    /// space, the write is repeated until one has, as long as waiting is allowed.
    ///
    /// # Errors
    /// [`Error::Device`] if no member that is in has it; [`Error::FileSystemFull`] if one of those has no space for it.
    pub(super) async fn write(
        &self,
        at: VdevOffset,
        data: &SharedBuf,
        class: WriteClass,
    ) -> Result<()> {
        let mut waiting = None;
        loop {
            let written = self.write_once(at, data, class).await;
            match &written {
                Err(Error::FileSystemFull { .. }) if self.below.may_wait() => {
                    waiting.get_or_insert_with(|| self.below.wait());
                    io::time::sleep(SPACE_RETRY).await;
                }
                _ => return written,
            }
        }
    }

    /// One attempt of [`TopVdev::write`].
    async fn write_once(&self, at: VdevOffset, data: &SharedBuf, class: WriteClass) -> Result<()> {
        if let Some(rows) = self.rows() {
            return Box::pin(self.write_parts(&rows, at, data, class)).await;
        }
        let offset = DATA_START + at.0;
        let mut attempts: Vec<Attempt> = Vec::new();
        loop {
            let mut targets = {
                let mut members = self.members();
                let untried = |m: &&Member| {
                    m.state.takes_writes()
                        && !attempts.iter().any(|a| Arc::ptr_eq(&a.leaf, &m.leaf))
                };
                let targets: Vec<_> = members
                    .iter()
                    .filter(untried)
                    .map(|m| m.leaf.clone())
                    .collect();
                if targets.is_empty() {
                    self.written.fetch_add(1, Ordering::SeqCst);
                    return self.judge_locked(&mut members, &attempts, Reach::All);
                }
                targets
            };
            let own = targets.pop().expect("it is not empty");
            let mut running = Vec::with_capacity(targets.len());
            for leaf in targets {
                let (member, data) = (leaf.clone(), data.clone());
                let write = async move { member.write(&data, offset, class).await.is_ok() };
                running.push((leaf, spawn(write)));
            }
            let result = own.write(data, offset, class).await;
            attempts.extend(Attempt::all(running).await);
            attempts.push(Attempt::new(own, result.is_ok()));
        }
    }

    /// Counts a write that bypassed [`TopVdev::write`].
    pub(super) fn count_write(&self) {
        self.written.fetch_add(1, Ordering::SeqCst);
    }

    /// Number of the last completed write, if no flush covers it.
    pub(super) fn unflushed(&self) -> Option<u64> {
        let written = self.written.load(Ordering::SeqCst);
        (self.flushed.load(Ordering::SeqCst) < written).then_some(written)
    }

    /// Ends a flush of the writes up to number `up_to`, with the judged result. After a flush failed on every member, all
    /// later flushes fail: a device that lost data in its cache may report success for the next flush.
    pub(super) fn end_flush(&self, up_to: u64, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.lost.store(true, Ordering::SeqCst);
        }
        if self.lost.load(Ordering::SeqCst) {
            return Err(Error::Device);
        }
        self.flushed.fetch_max(up_to, Ordering::SeqCst);
        Ok(())
    }
}

/// Bytes of consecutive reads that go to the same member if all members are equally loaded.
const READ_TURN: u64 = 1 << 20;
