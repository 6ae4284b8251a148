//! A top-level vdev: one or more sides with the same data.
//!
//! **Owns** which sides are in, and with that what a write, a flush or a read needs to succeed. **Called by** `Vdevs`.
//! **Invariants**: something is written if a side has it that is still in when all sides have answered; a side that
//! does not have it is out from then on, before the write returns; the last side that is in never leaves; every
//! change of membership is counted in [`Changes`], and what is durable waits for labels that say so. A plain disk is
//! a mirror of one side. `docs/decisions/0101`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use io::{JoinHandle, SharedBuf, spawn};

use super::area::DATA_START;
use super::leaf::{Fault, Leaf, SideCounters, SideTimes};
use super::limits::SPACE_RETRY;
use super::space_below::SpaceBelow;
use crate::error::{Error, Result};
use crate::format::{
    Birth, Membership, SideEntry, SideGuid, VdevEntry, VdevId, VdevKind, VdevOffset,
};

/// What a side is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SideState {
    /// In: it has everything, and takes part in everything.
    Online,
    /// It missed something. It takes every write and counts for none, and is read only where no other side helps.
    Stale,
    /// The operator took it out. Nothing is sent to it.
    Offline,
    /// Its errors were too many. Nothing is sent to it.
    Faulted,
    /// There is no such disk.
    Missing,
}

impl SideState {
    fn takes_writes(self) -> bool {
        matches!(self, SideState::Online | SideState::Stale)
    }
}

/// A side, as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SideStatus {
    /// Which disk.
    pub guid: SideGuid,
    /// Where it was opened; empty if it is missing.
    pub path: std::path::PathBuf,
    /// What it is good for.
    pub state: SideState,
    /// Unless it is in: it has every block born up to this epoch, and is to be resilvered from there.
    pub held: Birth,
    /// What it is faulted for, or about to be.
    pub fault: Option<Fault>,
    /// What it did.
    pub counters: SideCounters,
    /// How long it took.
    pub times: SideTimes,
}

/// Counts changes of membership, of all vdevs together.
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

/// A side and its state.
#[derive(Clone)]
pub(super) struct Member {
    pub(super) leaf: Arc<Leaf>,
    pub(super) state: SideState,
    /// While it is resilvered and has missed nothing: the uberblocks that had been begun before.
    pub(super) resilvering: Option<u64>,
    /// It has everything, and labels are to say that it is in before it counts.
    pub(super) joining: bool,
    /// It has every block born up to this epoch.
    pub(super) held: Birth,
}

impl Member {
    pub(super) fn new(leaf: Leaf, state: SideState, held: Birth) -> Self {
        Self {
            leaf: Arc::new(leaf),
            state,
            resilvering: None,
            joining: false,
            held,
        }
    }

    /// What labels say of it.
    fn membership(&self) -> Membership {
        match self.state {
            SideState::Online => Membership::In,
            SideState::Stale if self.joining => Membership::In,
            SideState::Offline => Membership::Offline,
            SideState::Stale | SideState::Faulted | SideState::Missing => Membership::Stale,
        }
    }

    /// Something was not written to it. Whether labels may say otherwise.
    fn miss(&mut self) -> bool {
        self.resilvering = None;
        let told = std::mem::take(&mut self.joining) || self.state == SideState::Online;
        if self.state == SideState::Online {
            self.state = SideState::Stale;
        }
        told
    }
}

/// A side that was asked to take something.
pub(super) struct Attempt {
    leaf: Arc<Leaf>,
    has_it: bool,
}

impl Attempt {
    /// What an operation on each of these sides came to. They run at the same time.
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
pub(super) struct Mirror {
    id: VdevId,
    entry: VdevEntry,
    /// Bytes of its data. They may become more.
    data_size: AtomicU64,
    members: Mutex<Vec<Member>>,
    changes: Changes,
    below: SpaceBelow,
    /// Writes that completed, and how many of them a flush covers.
    written: AtomicU64,
    flushed: AtomicU64,
    /// A flush failed on every side.
    lost: AtomicBool,
}

impl Mirror {
    pub(super) fn new(
        id: VdevId,
        entry: VdevEntry,
        members: Vec<Member>,
        changes: Changes,
        below: SpaceBelow,
    ) -> Self {
        Self {
            id,
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

    /// Writes of the pool that wait for space.
    pub(super) fn below(&self) -> SpaceBelow {
        self.below.clone()
    }

    pub(super) fn id(&self) -> VdevId {
        self.id
    }

    /// What labels say of it, with the sides of now.
    pub(super) fn entry(&self) -> VdevEntry {
        let sides = self.members().len() as u16;
        VdevEntry {
            sides,
            kind: match sides {
                1 => VdevKind::Disk,
                _ => VdevKind::Mirror,
            },
            data_size: self.data_size(),
            ..self.entry
        }
    }

    pub(super) fn sector(&self) -> u32 {
        self.entry.sector()
    }

    /// Whether some member that is there is a hard disk.
    pub(super) fn has_hard_disks(&self) -> bool {
        self.members().iter().any(|m| m.leaf.is_hard_disk())
    }

    /// Bytes of its data.
    pub(super) fn data_size(&self) -> u64 {
        self.data_size.load(Ordering::Acquire)
    }

    /// It has more room.
    pub(super) fn set_data_size(&self, size: u64) {
        self.data_size.store(size, Ordering::Release);
    }

    /// The sides that are in have every block born up to this epoch, durably.
    pub(super) fn hold(&self, epoch: Birth) {
        let mut members = self.members();
        for member in members.iter_mut().filter(|m| m.state == SideState::Online) {
            member.held = epoch;
        }
    }

    pub(super) fn members(&self) -> MutexGuard<'_, Vec<Member>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn side_entries(&self) -> Vec<SideEntry> {
        let entry = |member: &Member| SideEntry {
            guid: member.leaf.guid(),
            membership: member.membership(),
            held: match member.membership() {
                Membership::In => Birth(0),
                Membership::Stale | Membership::Offline => member.held,
            },
        };
        self.members().iter().map(entry).collect()
    }

    pub(super) fn status(&self) -> Vec<SideStatus> {
        let status = |member: &Member| SideStatus {
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

    /// Sides that take writes.
    pub(super) fn targets(&self) -> Vec<Arc<Leaf>> {
        let members = self.members();
        let targets = members.iter().filter(|m| m.state.takes_writes());
        targets.map(|m| m.leaf.clone()).collect()
    }

    /// Sides that take writes: those that are in, and those that are stale.
    pub(super) fn targets_split(&self) -> (Vec<Arc<Leaf>>, Vec<Arc<Leaf>>) {
        let members = self.members();
        let of_state = |state| {
            let some = members.iter().filter(move |m| m.state == state);
            some.map(|m| m.leaf.clone()).collect()
        };
        (of_state(SideState::Online), of_state(SideState::Stale))
    }

    /// Sides that are in, in the order of the label.
    pub(super) fn sides_in(&self) -> Vec<Arc<Leaf>> {
        let members = self.members();
        let sides = members.iter().filter(|m| m.state == SideState::Online);
        sides.map(|m| m.leaf.clone()).collect()
    }

    /// Sides in the order in which a read tries them, and whether each is in: the idlest first, stale ones last.
    pub(super) fn readable(&self, at: VdevOffset) -> Vec<(Arc<Leaf>, bool)> {
        let members = self.members();
        let mut sides: Vec<_> = members
            .iter()
            .filter(|m| m.state.takes_writes())
            .map(|m| (m.leaf.clone(), m.state == SideState::Online))
            .collect();
        drop(members);
        if sides.len() > 1 {
            let turn = (at.0 / READ_TURN) as usize % sides.len();
            sides.rotate_left(turn);
            // Cached: loads change while this sorts.
            sides.sort_by_cached_key(|(leaf, is_in)| (!is_in, leaf.load()));
        }
        sides
    }

    /// A side that is being resilvered did not take a block.
    pub(super) fn miss(&self, leaf: &Arc<Leaf>) {
        let mut members = self.members();
        for member in members.iter_mut().filter(|m| Arc::ptr_eq(&m.leaf, leaf)) {
            if member.miss() {
                self.changes.count();
            }
        }
        self.fault_condemned(&mut members);
    }

    /// Decides what attempts to write or flush on sides mean: those that are in and failed are out, if another that
    /// is in succeeded.
    ///
    /// # Errors
    /// If none that is in succeeded: [`Error::FileSystemFull`] if one of them found no space, else [`Error::Device`].
    pub(super) fn settle(&self, attempts: &[Attempt]) -> Result<()> {
        self.settle_locked(&mut self.members(), attempts)
    }

    fn settle_locked(&self, members: &mut [Member], attempts: &[Attempt]) -> Result<()> {
        let outcome = |m: &Member| {
            let attempt = attempts.iter().find(|a| Arc::ptr_eq(&a.leaf, &m.leaf));
            attempt.map(|a| a.has_it)
        };
        let holds = |m: &Member| m.state == SideState::Online && outcome(m) == Some(true);
        let held = members.iter().any(holds);
        for member in members.iter_mut() {
            let may_leave = match member.state {
                SideState::Online => held,
                SideState::Stale => true,
                SideState::Offline | SideState::Faulted | SideState::Missing => false,
            };
            if may_leave && outcome(member) == Some(false) && member.miss() {
                self.changes.count();
            }
        }
        self.fault_condemned(members);
        if held {
            return Ok(());
        }
        let failed = |m: &&Member| m.state == SideState::Online && outcome(m) == Some(false);
        let full = members.iter().filter(failed).find(|m| m.leaf.is_full());
        Err(full.map_or(Error::Device, |member| member.leaf.write_error()))
    }

    /// Faults sides with too many errors, but never the last that is in.
    pub(super) fn fault(&self) {
        self.fault_condemned(&mut self.members());
    }

    /// Faults sides that hang, and releases whoever waits for them. The last that is in is waited for.
    pub(super) fn give_up_hung(&self) {
        let mut members = self.members();
        let is_in = |m: &Member| m.state == SideState::Online;
        let mut rest = members.iter().filter(|m| is_in(m)).count();
        for index in 0..members.len() {
            let member = &members[index];
            if !member.state.takes_writes() || !member.leaf.hangs() {
                continue;
            }
            if is_in(member) {
                if rest == 1 {
                    continue;
                }
                rest -= 1;
            }
            member.leaf.give_up();
            self.fault_condemned(&mut members);
        }
    }

    fn fault_condemned(&self, members: &mut [Member]) {
        let is_in = |m: &&Member| m.state == SideState::Online;
        let mut rest = members.iter().filter(is_in).count();
        for member in members.iter_mut().filter(|m| m.leaf.is_condemned()) {
            match member.state {
                SideState::Online if rest > 1 => rest -= 1,
                SideState::Stale => {}
                _ => continue,
            }
            member.miss();
            member.state = SideState::Faulted;
            if member.leaf.is_short() {
                // What was at its end is lost, whenever it was written.
                member.held = Birth(0);
            }
            self.changes.count();
        }
    }

    /// Writes to every side that takes writes, also to one that began to while this was under way. If no side that is in has
    /// space for it, it is tried again until one has, as long as that is allowed.
    ///
    /// # Errors
    /// [`Error::Device`] if no side that is in has it; [`Error::FileSystemFull`] if one of those has no space for it.
    pub(super) async fn write(&self, at: VdevOffset, data: &SharedBuf) -> Result<()> {
        let mut waiting = None;
        loop {
            let written = self.write_once(at, data).await;
            match &written {
                Err(Error::FileSystemFull { .. }) if self.below.may_wait() => {
                    waiting.get_or_insert_with(|| self.below.wait());
                    io::time::sleep(SPACE_RETRY).await;
                }
                _ => return written,
            }
        }
    }

    /// The same, once.
    async fn write_once(&self, at: VdevOffset, data: &SharedBuf) -> Result<()> {
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
                let (side, data) = (leaf.clone(), data.clone());
                let write = async move { side.write(&data, offset).await.is_ok() };
                running.push((leaf, spawn(write)));
            }
            let result = own.write(data, offset).await;
            attempts.extend(Attempt::all(running).await);
            attempts.push(Attempt {
                leaf: own,
                has_it: result.is_ok(),
            });
        }
    }

    /// Something was written past [`Mirror::write`].
    pub(super) fn count_write(&self) {
        self.written.fetch_add(1, Ordering::SeqCst);
    }

    /// Whether something completed that no flush covers, up to which write.
    pub(super) fn unflushed(&self) -> Option<u64> {
        let written = self.written.load(Ordering::SeqCst);
        (self.flushed.load(Ordering::SeqCst) < written).then_some(written)
    }

    /// A flush of what was written up to `up_to` ended, and was settled. Once one failed on every side, all fail: a
    /// device that lost what it had taken may say that the next flush went well.
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

/// Reads of so many bytes in a row go to the same side if all are as idle, bytes.
const READ_TURN: u64 = 1 << 20;
