//! A top-level vdev: its members and their membership.
//!
//! **Owns** the membership, and with it the success of a write, flush or read. **Called by** `Vdevs`.
//! **Invariants**: a write succeeds if as many members have it as the layout needs, which are still in when all members have
//! answered; a member that missed it is out before the write returns; no member leaves without which fewer are in than the
//! layout needs; every change of membership is counted in [`Changes`], and no write is reported durable before labels
//! record the change. `docs/decisions/0101`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::{JoinHandle, SharedBuf, spawn};

use super::geometry::DATA_START;
use super::layout::Layout;
use super::leaf::{Fault, Leaf, MemberCounters, MemberTimes};
use super::limits::SPACE_RETRY;
use super::space_below::SpaceBelow;
use crate::error::{Error, Result};
use crate::format::{Birth, MemberEntry, MemberGuid, Membership, VdevEntry, VdevId, VdevOffset};
use crate::written::WriteClass;

/// State of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberState {
    /// In: it has all data.
    Online,
    /// It missed writes. It takes every write but does not count for success, and is read only if no other member has the
    /// block.
    Stale,
    /// The operator took it offline. Nothing is sent to it.
    Offline,
    /// It had too many errors. Nothing is sent to it.
    Faulted,
    /// Its disk is missing.
    Missing,
}

impl MemberState {
    fn takes_writes(self) -> bool {
        matches!(self, MemberState::Online | MemberState::Stale)
    }
}

/// A member, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its identifier.
    pub guid: MemberGuid,
    /// Path of its disk; empty if it is missing.
    pub path: std::path::PathBuf,
    /// Its state.
    pub state: MemberState,
    /// Of a member that is not in: it has every block born up to this epoch, from which a resilver begins.
    pub held: Birth,
    /// The reason why it is faulted, or about to be.
    pub fault: Option<Fault>,
    /// Its operations.
    pub counters: MemberCounters,
    /// Its latencies.
    pub times: MemberTimes,
}

/// Number of changes of membership, over all vdevs.
#[derive(Clone, Default)]
pub(super) struct Changes(Arc<AtomicU64>);

impl Changes {
    pub(super) fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn so_far(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A member and its state.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) leaf: Arc<Leaf>,
    pub(super) state: MemberState,
    /// While it is resilvered and has missed nothing: the number of uberblocks begun before the resilver.
    pub(super) resilvering: Option<u64>,
    /// Whether it has everything, and waits only for labels to record that it is in.
    pub(super) joining: bool,
    /// It has every block born up to this epoch.
    pub(super) held: Birth,
}

impl Member {
    pub(super) fn new(leaf: Leaf, state: MemberState, held: Birth) -> Self {
        Self {
            leaf: Arc::new(leaf),
            state,
            resilvering: None,
            joining: false,
            held,
        }
    }

    /// The membership that labels record.
    fn membership(&self) -> Membership {
        match self.state {
            MemberState::Online => Membership::In,
            MemberState::Stale if self.joining => Membership::In,
            MemberState::Offline => Membership::Offline,
            MemberState::Stale | MemberState::Faulted | MemberState::Missing => Membership::Stale,
        }
    }

    /// Records that it missed a write. Returns whether labels may record otherwise.
    fn miss(&mut self) -> bool {
        self.resilvering = None;
        let told = std::mem::take(&mut self.joining) || self.state == MemberState::Online;
        if self.state == MemberState::Online {
            self.state = MemberState::Stale;
        }
        told
    }
}

/// A member and the result of an operation on it.
pub(super) struct Attempt {
    leaf: Arc<Leaf>,
    has_it: bool,
}

impl Attempt {
    /// Waits for an operation on several members, which runs concurrently. Returns the results.
    pub(super) async fn all(running: Vec<(Arc<Leaf>, JoinHandle<bool>)>) -> Vec<Attempt> {
        let mut attempts = Vec::with_capacity(running.len());
        for (leaf, handle) in running {
            let has_it = handle.await.unwrap_or(false);
            attempts.push(Attempt { leaf, has_it });
        }
        attempts
    }
}

/// A top-level vdev.
pub(super) struct TopVdev {
    id: VdevId,
    entry: VdevEntry,
    layout: Layout,
    /// Size of its data, bytes. It may grow.
    data_size: AtomicU64,
    members: Mutex<Vec<Member>>,
    changes: Changes,
    below: SpaceBelow,
    /// Number of completed writes, and number of writes that a flush covers.
    written: AtomicU64,
    flushed: AtomicU64,
    /// Whether a flush failed on every member.
    lost: AtomicBool,
}

impl TopVdev {
    pub(super) fn new(
        id: VdevId,
        entry: VdevEntry,
        members: Vec<Member>,
        changes: Changes,
        below: SpaceBelow,
    ) -> Self {
        Self {
            id,
            layout: Layout::from(entry.kind),
            entry,
            data_size: AtomicU64::new(entry.data_size),
            members: Mutex::new(members),
            changes,
            below,
            written: AtomicU64::new(0),
            flushed: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        }
    }

    /// The pool's writes that wait for space in a file system.
    pub(super) fn below(&self) -> SpaceBelow {
        self.below.clone()
    }

    pub(super) fn id(&self) -> VdevId {
        self.id
    }

    /// Its entry in labels, with its present members.
    pub(super) fn entry(&self) -> VdevEntry {
        let members = self.members().len();
        VdevEntry {
            members: members as u16,
            kind: self.layout.kind(members),
            data_size: self.data_size(),
            ..self.entry
        }
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    pub(super) fn sector(&self) -> u32 {
        self.entry.sector()
    }

    /// Whether a present member is a hard disk.
    pub(super) fn has_hard_disks(&self) -> bool {
        self.members().iter().any(|m| m.leaf.is_hard_disk())
    }

    /// Size of its data, bytes.
    pub(super) fn data_size(&self) -> u64 {
        self.data_size.load(Ordering::Acquire)
    }

    /// Sets the size of its data, after it grew.
    pub(super) fn set_data_size(&self, size: u64) {
        self.data_size.store(size, Ordering::Release);
    }

    /// Records that the members that are in durably have every block born up to this epoch.
    pub(super) fn hold(&self, epoch: Birth) {
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

    /// Settles the results of a write or flush on several members: members that are in and failed are out, if as many members
    /// that are in succeeded as the layout needs.
    ///
    /// # Errors
    /// If fewer succeeded: [`Error::FileSystemFull`] if one of them found no space, else [`Error::Device`].
    pub(super) fn settle(&self, attempts: &[Attempt]) -> Result<()> {
        self.settle_locked(&mut self.members(), attempts)
    }

    fn settle_locked(&self, members: &mut [Member], attempts: &[Attempt]) -> Result<()> {
        let outcome = |m: &Member| {
            let attempt = attempts.iter().find(|a| Arc::ptr_eq(&a.leaf, &m.leaf));
            attempt.map(|a| a.has_it)
        };
        let holds = |m: &Member| m.state == MemberState::Online && outcome(m) == Some(true);
        let held = members.iter().filter(|m| holds(m)).count() >= self.layout.needed();
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
        Err(full.map_or(Error::Device, |member| member.leaf.write_error()))
    }

    /// Faults members with too many errors, but none without which fewer are in than the layout needs.
    pub(super) fn fault(&self) {
        self.fault_condemned(&mut self.members());
    }

    /// Faults members that hang, and releases the operations that wait for them. No member is given up without which fewer
    /// are in than the layout needs.
    pub(super) fn give_up_hung(&self) {
        let mut members = self.members();
        let is_in = |m: &Member| m.state == MemberState::Online;
        let mut rest = members.iter().filter(|m| is_in(m)).count();
        for index in 0..members.len() {
            let member = &members[index];
            if !member.state.takes_writes() || !member.leaf.hangs() {
                continue;
            }
            if is_in(member) {
                if rest <= self.layout.needed() {
                    continue;
                }
                rest -= 1;
            }
            member.leaf.give_up();
            self.fault_condemned(&mut members);
        }
    }

    fn fault_condemned(&self, members: &mut [Member]) {
        let is_in = |m: &&Member| m.state == MemberState::Online;
        let mut rest = members.iter().filter(is_in).count();
        for member in members.iter_mut().filter(|m| m.leaf.is_condemned()) {
            match member.state {
                MemberState::Online if rest > self.layout.needed() => rest -= 1,
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
                    return self.settle_locked(&mut members, &attempts);
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
            attempts.push(Attempt {
                leaf: own,
                has_it: result.is_ok(),
            });
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

    /// Ends a flush of the writes up to number `up_to`, with the settled result. After a flush failed on every member, all
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
