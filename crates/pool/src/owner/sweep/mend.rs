//! Resilver: copies to a stale member the blocks that it missed, in the order of disk addresses.
//!
//! A sweep over all trees visits every block that the member may lack. A window keeps those with the lowest addresses, up to a fixed
//! number. They are copied in runs of adjacent blocks; the next window begins where this one ended.
//!
//! **Owns** the order of these steps. **Called by** [`Pool`]'s users. **Invariants**: a block that is freed is not reused while
//! its run is copied, and no task waits for more than a run or a part of a sweep; a member is in again only after it has every
//! block of the pool; the member has every block below a noted position on stable storage; blocks younger than the checkpoint
//! with which the resilver begins are not visited, since the member gets them as they are written. `docs/decisions/0160`.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;

use io::runtime::JoinHandle;

use super::blocks::{Holds, VisitedBlock, Visitor};
use super::position::Sweep;
use super::resilver_window::{Due, ResilverWindow};
use crate::format::{
    Address, Birth, BlockPtr, MemberGuid, OFFSET_END, ResilverPosition, TreeId, VdevId,
    resilver_key,
};
use crate::owner::pool_tree::Changes;
use crate::owner::{Owner, Pool, State};
use crate::shared::DESTROYED;
use crate::vdev::{Fault, PlacedBlock, Resilvered, SetupError, Vdevs};
use crate::{Error, Result};

/// Bytes that are copied between two calls of `progress`.
const PART_BYTES: u64 = 4 << 20;
/// Stored bytes of the blocks that one part of a sweep visits, about.
const SWEEP_BYTES: u64 = 64 << 20;
/// Bytes that are copied before the position is noted.
const NOTE_BYTES: u64 = 256 << 20;
/// Runs that are copied concurrently, so that one disk is read while another one is written.
const RUNS_MAX: usize = 3;

/// The progress of the resilver of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resilvering {
    /// The member.
    pub member: MemberGuid,
    /// The member has every block born up to this epoch; these are not visited.
    pub held: Birth,
    /// Stored bytes of the blocks that were compared.
    pub done: u64,
    /// Stored bytes of all blocks that the member may lack, about.
    pub of: u64,
    /// Blocks that were copied to the member.
    pub copied: u64,
    /// The member has every block below this address of its vdev.
    pub position: u64,
}

/// Counts the bytes that a member may lack.
struct Count<'a> {
    vdevs: &'a Vdevs,
    due: Due,
    bytes: u64,
}

impl Visitor for Count<'_> {
    async fn block(&mut self, _: TreeId, block: VisitedBlock<'_>, _: Holds) -> Result<u64> {
        let places = self.due.lacking(block.ptr, self.vdevs).len() as u64;
        let bytes = places * u64::from(block.ptr.physical_size);
        self.bytes += bytes;
        Ok(bytes)
    }

    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {}
}

/// Collects the blocks of a window.
struct Gather<'a> {
    vdevs: &'a Vdevs,
    window: Rc<RefCell<ResilverWindow>>,
    /// Parts of trees that could not be read: when they are readable again, the member lacks blocks below them.
    damaged: u64,
}

impl Visitor for Gather<'_> {
    async fn block(&mut self, _: TreeId, block: VisitedBlock<'_>, _: Holds) -> Result<u64> {
        self.window.borrow_mut().add(block.ptr, self.vdevs);
        Ok(u64::from(block.ptr.physical_size))
    }

    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {
        self.damaged += 1;
    }
}

/// Visits blocks again that no member had, and notes the loss where it lasts.
struct SecondLook<'a> {
    pool: &'a Pool,
    member: MemberGuid,
    due: Due,
    /// The addresses in their pointers.
    blocks: BTreeSet<Address>,
    copied: u64,
    lost: u64,
    failed: Option<SetupError>,
}

impl Visitor for SecondLook<'_> {
    async fn block(&mut self, tree: TreeId, block: VisitedBlock<'_>, holds: Holds) -> Result<u64> {
        let ptr = block.ptr;
        if !self.blocks.contains(&ptr.address()) {
            return Ok(u64::from(ptr.physical_size));
        }
        let vdevs = self.pool.vdevs();
        let places = self.due.lacking(ptr, &vdevs);
        match vdevs.resilver_at(self.member, places).await {
            Ok(done) => {
                self.copied += done.copied;
                self.lost += done.lost.len() as u64;
                if !done.lost.is_empty() && tree != DESTROYED {
                    let list = &self.pool.owner.shared.lost;
                    let at = ptr.address();
                    list.note(&Error::Unreadable { at }, block.lost(tree, holds));
                }
                Ok(u64::from(ptr.physical_size))
            }
            Err(e) => {
                self.failed = Some(e);
                Err(Error::Device)
            }
        }
    }

    /// The sweep that filled the window has counted it.
    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {}
}

/// A run that is being copied: its bytes, and the result.
type Copying = (u64, JoinHandle<std::result::Result<Resilvered, SetupError>>);

/// Copies missing blocks to a stale member.
struct Resilver<'a, F> {
    pool: &'a Pool,
    vdevs: Arc<Vdevs>,
    due: Due,
    /// End of the vdev's addresses.
    end: u64,
    done: Resilvering,
    progress: F,
    running: VecDeque<Copying>,
    /// Blocks of the window that no member has.
    lost_here: BTreeSet<Address>,
    lost: u64,
}

impl<F: AsyncFnMut(&Resilvering)> Resilver<'_, F> {
    /// Visits all blocks born after the member's epoch.
    async fn run(&mut self) -> std::result::Result<(), SetupError> {
        let mut next = Some(self.done.position);
        while let Some(start) = next {
            let window = self.gather(start).await?;
            let copied = self.copy(&window).await;
            let ended = self.end_runs(0).await;
            copied.and(ended)?;
            self.look_again().await?;
            next = window.borrow().next_start();
            if let Some(next) = next {
                self.note(next).await?;
            }
            (self.progress)(&self.done).await;
        }
        Ok(())
    }

    /// The blocks of the window from this address on.
    async fn gather(
        &mut self,
        start: u64,
    ) -> std::result::Result<Rc<RefCell<ResilverWindow>>, SetupError> {
        let vdevs = self.vdevs.clone();
        let mut gather = Gather {
            vdevs: &vdevs,
            window: self.pool.owner.resilver_windows.open(self.due, start),
            damaged: 0,
        };
        let mut next = Some(Sweep::new(self.due.since()));
        while let Some(sweep) = next {
            let swept = self.pool.owner.sweep(sweep, SWEEP_BYTES, &mut gather);
            next = swept.await.map_err(SetupError::failed)?;
            (self.progress)(&self.done).await;
        }
        self.lost = self.lost.max(gather.damaged);
        Ok(gather.window)
    }

    /// Copies all blocks of a window. Some runs may be in flight when this returns.
    async fn copy(
        &mut self,
        window: &RefCell<ResilverWindow>,
    ) -> std::result::Result<(), SetupError> {
        let owner = &self.pool.owner;
        let mut last: Option<PlacedBlock> = None;
        let (mut part, mut noted) = (0, 0);
        loop {
            self.done.position = window.borrow().position(&self.vdevs).min(self.end);
            if noted >= NOTE_BYTES {
                noted = 0;
                self.end_runs(0).await?;
                self.note(self.done.position).await?;
            }
            let (taken, reader) = {
                let state = owner.state.borrow();
                let space = state.allocator.space();
                let taken = window.borrow_mut().take_run(&self.vdevs, space);
                (taken, owner.shared.readers.enter())
            };
            let Some((run, bytes)) = taken else {
                return Ok(());
            };
            let joins = match (&last, run.first()) {
                (Some(last), Some(first)) => self.vdevs.shares_row(last, first),
                _ => false,
            };
            self.end_runs(if joins { 0 } else { RUNS_MAX - 1 }).await?;
            last = run.last().copied().or(last);
            let (vdevs, member) = (self.vdevs.clone(), self.done.member);
            let copy = async move {
                let _reader = reader;
                match run.is_empty() {
                    true => Ok(Resilvered::default()),
                    false => vdevs.rebuild(member, &run).await,
                }
            };
            self.running.push_back((bytes, io::spawn(copy)));
            (part, noted) = (part + bytes, noted + bytes);
            if part >= PART_BYTES {
                part = 0;
                (self.progress)(&self.done).await;
            }
        }
    }

    /// Waits until at most `most` runs are in flight.
    async fn end_runs(&mut self, most: usize) -> std::result::Result<(), SetupError> {
        let mut result = Ok(());
        while self.running.len() > most
            && let Some((bytes, run)) = self.running.pop_front()
        {
            match run.await.unwrap_or(Err(SetupError::Device)) {
                Ok(copied) => {
                    self.done.done += bytes;
                    // some blocks are new
                    self.done.of = self.done.of.max(self.done.done);
                    self.done.copied += copied.copied;
                    let lost = copied.lost.iter().map(BlockPtr::address);
                    self.lost_here.extend(lost);
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// Notes in the pool's own tree that the member has all blocks below this address, so that a resilver after a restart goes
    /// on there. Does nothing if an earlier resilver came further, or if a block below it is lost.
    async fn note(&self, next: u64) -> std::result::Result<(), SetupError> {
        let Due {
            held,
            up_to,
            position,
            ..
        } = self.due;
        let is_behind = |p: ResilverPosition| p.held <= held && next < p.next;
        let is_whole = self.lost == 0 && self.lost_here.is_empty();
        if !is_whole || position.is_some_and(is_behind) || !(1..OFFSET_END).contains(&next) {
            return Ok(());
        }
        self.vdevs.flush_stale(self.done.member).await?;
        let position = ResilverPosition { held, up_to, next };
        let owner = &self.pool.owner;
        let noted = owner.note_resilver(self.done.member, Some(position));
        noted.await.map_err(SetupError::failed)
    }

    /// Looks for the trees that hold the blocks which no member had.
    async fn look_again(&mut self) -> std::result::Result<(), SetupError> {
        if self.lost_here.is_empty() {
            return Ok(());
        }
        let mut look = SecondLook {
            pool: self.pool,
            member: self.done.member,
            due: self.due,
            blocks: std::mem::take(&mut self.lost_here),
            copied: 0,
            lost: 0,
            failed: None,
        };
        let mut next = Some(Sweep::new(self.due.since()));
        while let Some(sweep) = next {
            let swept = self.pool.owner.sweep(sweep, SWEEP_BYTES, &mut look).await;
            next = swept.map_err(|e| look.failed.take().unwrap_or(SetupError::failed(e)))?;
            io::yield_now().await;
        }
        self.done.copied += look.copied;
        self.lost += look.lost;
        Ok(())
    }
}

impl State {
    /// Forgets the positions of resilvers of members that were detached, and of members that lost data.
    pub(in crate::owner) fn forget_resilvers(&mut self) {
        if self.pool_tree.resilvers().is_empty() || self.shared.vdevs.is_read_only() {
            return;
        }
        let vdevs = self.shared.vdevs.status();
        let members = vdevs.iter().flat_map(|v| &v.members);
        let whole = members.filter(|m| !matches!(m.fault, Some(Fault::Short(_))));
        let kept: BTreeSet<MemberGuid> = whole.map(|m| m.guid).collect();
        let noted = self.pool_tree.resilvers().keys();
        let gone = noted.filter(|member| !kept.contains(member));
        let changes: Changes = gone.map(|member| (resilver_key(*member), None)).collect();
        if !changes.is_empty() {
            // The next tick repeats what the journal has no room for.
            let _again = self.change(Vec::new(), changes);
        }
    }
}

impl Owner {
    /// Notes the position of a member's resilver, or that it has none, durably.
    async fn note_resilver(
        &self,
        member: MemberGuid,
        position: Option<ResilverPosition>,
    ) -> Result<()> {
        let known = self
            .state
            .borrow()
            .pool_tree
            .resilvers()
            .get(&member)
            .copied();
        if known == position {
            return Ok(());
        }
        let note = |state: &mut State| {
            let value = position.as_ref().map(ResilverPosition::encode);
            let ticket = state.change(Vec::new(), vec![(resilver_key(member), value)])?;
            Ok(((), ticket))
        };
        self.change_durably(note).await
    }
}

impl Pool {
    /// Resilvers every stale member that is present. Returns the number of copied blocks. `progress` is called after
    /// each part.
    ///
    /// # Errors
    /// [`SetupError::Missed`] if a member missed another write meanwhile: it stays stale. [`SetupError::Lost`] if no
    /// member has a block that it lacks. [`SetupError::Device`].
    pub async fn resilver(
        &self,
        mut progress: impl FnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        self.resilver_paced(async |r: &Resilvering| progress(r))
            .await
    }

    /// As [`Pool::resilver`]; the next part begins when `progress` returns.
    ///
    /// # Errors
    /// As [`Pool::resilver`]. An error of one member does not stop the resilver of the others.
    pub async fn resilver_paced(
        &self,
        mut progress: impl AsyncFnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        let mut copied = Ok(0);
        for (vdev, member, held) in self.vdevs().stale_members() {
            let done = Resilvering {
                member,
                held,
                done: 0,
                of: 0,
                copied: 0,
                position: 0,
            };
            let one = self.resilver_member(vdev, done, &mut progress).await;
            copied = copied.and_then(|before| Ok(before + one?));
        }
        copied
    }

    async fn resilver_member(
        &self,
        vdev: VdevId,
        begun: Resilvering,
        progress: &mut impl AsyncFnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        let (vdevs, member) = (self.vdevs(), begun.member);
        // an expansion moves no row while the member lacks some
        let _hold = vdevs.hold_places(vdev).await;
        vdevs.begin_resilver(member)?;
        // later batches go to the member too, so that it has all that replay needs
        let checkpoint = self.checkpoint().await;
        checkpoint.map_err(SetupError::failed)?;
        let up_to = self.owner.state.borrow().checkpointer.uberblock().epoch;
        let (position, copies) = {
            let state = self.owner.state.borrow();
            let removals = state.pool_tree.removals().values();
            let copies = removals.map(|removal| removal.up_to).max();
            let position = state.pool_tree.resilvers().get(&member).copied();
            (position, copies.unwrap_or(Birth(0)))
        };
        let due = Due {
            vdev,
            held: begun.held,
            up_to,
            position,
            copies,
            relocations: vdevs.copies().relocations().youngest_on(vdev),
        };
        let of = self.count(due).await.map_err(SetupError::failed)?;
        let mut resilver = Resilver {
            pool: self,
            vdevs: vdevs.clone(),
            due,
            end: vdevs.end_of_vdev(vdev),
            done: Resilvering { of, ..begun },
            progress,
            running: VecDeque::new(),
            lost_here: BTreeSet::new(),
            lost: 0,
        };
        resilver.run().await?;
        if resilver.lost > 0 {
            let blocks = resilver.lost;
            return Err(SetupError::Lost { member, blocks });
        }
        let copied = resilver.done.copied;
        // A crash brings the durable state back, with blocks that were replaced before the sweep came to them.
        let checkpoint = self.checkpoint().await;
        checkpoint.map_err(SetupError::failed)?;
        vdevs.resilvered(member).await?;
        let ended = self.owner.note_resilver(member, None).await;
        ended.map_err(SetupError::failed)?;
        Ok(copied)
    }

    /// Stored bytes of the blocks that a member may lack.
    async fn count(&self, due: Due) -> Result<u64> {
        let vdevs = self.vdevs();
        let mut count = Count {
            vdevs: &vdevs,
            due,
            bytes: 0,
        };
        let mut next = Some(Sweep::new(due.since()));
        while let Some(sweep) = next {
            next = self.owner.sweep(sweep, SWEEP_BYTES, &mut count).await?;
            io::yield_now().await;
        }
        Ok(count.bytes)
    }
}
