//! Removal of a vdev: its blocks are copied to other vdevs in the background, and then its disks leave the pool.
//!
//! The vdev gives out no space from the begin on. A walk over all trees copies its blocks. Block pointers do not change: the pool's own tree has
//! a map from old addresses to the places of the copies. When every used sector of the vdev has a copy, labels say that it is removed.
//!
//! **Owns** the order of these steps. **Called by** the owner's tick; people begin a removal by [`Pool::remove_vdev`]. **Invariants**: labels
//! say that the vdev is removed only after a durable checkpoint that has all copies, and none of whose own nodes is on it; until then the
//! vdev itself is read. `docs/decisions/0180`.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use io::time::now;

use super::state::{RemovalWait, Removing};
use crate::format::{
    Birth, FEATURE_REMOVED_VDEVS, RemovalEntry, RemovalStep, VdevClass, VdevId, removal_key,
};
use crate::owner::half_pace::HalfPace;
use crate::owner::{Owner, POLL, Pool, State};
use crate::space::Service;
use crate::vdev::SetupError;
use crate::{Error, Result};

/// The time after which a removal is tried again that waits for something.
const RETRY: Duration = Duration::from_secs(30);

impl State {
    /// The vdev that is being removed.
    pub(in crate::owner) fn leaving(&self) -> Option<(VdevId, RemovalEntry)> {
        let removals = self.pool_tree.removals().iter();
        let mut leaving = removals.filter(|(vdev, _)| !self.shared.vdevs.is_removed(**vdev));
        leaving.next().map(|(vdev, entry)| (*vdev, *entry))
    }

    /// Has vdevs that are being removed, or were removed, give out no space. For the opening.
    pub(in crate::owner) fn close_vdevs(&mut self) {
        if let Some((vdev, _)) = self.leaving() {
            self.allocator.space_mut().serve(vdev, Service::Leaving);
        }
        for info in self.shared.vdevs.table().iter().filter(|i| i.is_removed) {
            self.allocator.space_mut().serve(info.id, Service::Removed);
        }
    }

    /// Notes for the next checkpoint that all blocks of a vdev have copies. False if the removal was given up.
    fn note_copied(&mut self, vdev: VdevId) -> bool {
        let leaving = self.leaving().filter(|(of, _)| *of == vdev);
        let Some((_, entry)) = leaving.filter(|(_, e)| e.step != RemovalStep::Stopping) else {
            return false;
        };
        let step = RemovalStep::Copied;
        self.pool_tree
            .note_removal(vdev, RemovalEntry { step, ..entry });
        true
    }

    /// Why a vdev cannot be removed now.
    fn check_removal(&self, vdev: VdevId) -> std::result::Result<(), SetupError> {
        let vdevs = &self.shared.vdevs;
        if let Some((vdev, _)) = self.leaving() {
            return Err(SetupError::Removing { vdev });
        }
        let present = vdevs.status();
        let Some(status) = present.iter().find(|status| status.id == vdev) else {
            return Err(SetupError::NoVdev { vdev });
        };
        let mut others = present.iter().filter(|status| status.id != vdev);
        if !others.any(|status| status.class == VdevClass::Normal) {
            return Err(SetupError::LastVdev { vdev });
        }
        if status.has_journal && vdevs.journal_vdevs(Some(vdev)).is_none() {
            return Err(SetupError::HasJournal { vdev });
        }
        if vdevs.expansion(vdev).is_some() {
            return Err(SetupError::Expanding { vdev });
        }
        let space = self.allocator.space();
        let needed = vdevs.extent_space().most(space.used_on(vdev));
        let movable = space.movable_without(vdev);
        let free = self.shared.budget.left_for_moves(movable);
        let free = match space.is_special(vdev) {
            true => free + space.special_free_without(vdev),
            false => free,
        };
        match needed > free {
            true => Err(SetupError::NoRoom { vdev, needed, free }),
            false => Ok(()),
        }
    }
}

impl Owner {
    /// Starts the remover if there is a vdev to remove, unless it works already or waits. Called once a second.
    pub(in crate::owner) fn wake_remover(self: &Rc<Self>) {
        let remover = &self.remover;
        let rests = remover.rests_until.get().is_some_and(|until| now() < until);
        let is_idle = self.may_remove() && !remover.is_running.get() && !rests;
        if !is_idle || self.state.borrow().leaving().is_none() {
            return;
        }
        remover.is_running.set(true);
        let this = self.clone();
        drop(io::spawn(async move {
            let remover = &this.remover;
            let waits_for = this.go_on_removing().await.unwrap_or_else(|error| {
                tracing::warn!(%error, "a step of the removal of a vdev failed");
                Some(RemovalWait::Failed)
            });
            remover.waits_for.set(waits_for);
            let until = waits_for.map(|_| now() + RETRY);
            remover.rests_until.set(until);
            remover.is_running.set(false);
        }));
    }

    pub(super) fn may_remove(&self) -> bool {
        !self.remover.is_ended.get()
            && !self.shared.vdevs.is_read_only()
            && self.shared.trouble().is_none()
    }

    /// Keeps the remover from further steps, and waits until it has ended the present one.
    pub(in crate::owner) async fn end_remover(&self) {
        self.remover.is_ended.set(true);
        while self.remover.is_running.get() && !self.shared.has_failed() {
            io::time::sleep(POLL).await;
        }
    }

    /// Copies the blocks that have no copy, and ends the removal if all have one. Returns the reason why it has to wait.
    async fn go_on_removing(self: &Rc<Self>) -> Result<Option<RemovalWait>> {
        let Some((vdev, entry)) = self.state.borrow().leaving() else {
            return Ok(None);
        };
        if entry.step == RemovalStep::Stopping {
            return self.undo_removal(vdev).await.map(|()| None);
        }
        if self.shared.vdevs.journal_rings().has(vdev) {
            let others = self
                .shared
                .vdevs
                .journal_vdevs(Some(vdev))
                .ok_or(Error::Unknown)?;
            self.move_journal(&others).await.map_err(|error| {
                tracing::warn!(%error, "the journal does not move from a vdev that is being removed");
                Error::Device
            })?;
        }
        if !self.remover.is_settled.get() {
            // groups and nodes that got extents on the vdev before are on it, and in trees, after these
            self.write_checkpoint().await?;
            self.write_checkpoint().await?;
            self.remover.is_settled.set(true);
        }
        let pace = HalfPace::new(self);
        let active = &self.remover.active;
        let count = || active.set(active.get() + pace.took());
        let rest = async || {
            count();
            pace.rest(self.may_remove()).await;
            io::yield_now().await;
            pace.begin();
        };
        let walk = self.copy_blocks(vdev, rest).await?;
        count();
        if walk.is_stopped {
            return Ok(None);
        }
        self.write_checkpoint().await?;
        if walk.is_short {
            // the checkpoint may have freed some space
            return Ok((walk.copied == 0).then_some(RemovalWait::Space));
        }
        if self.lacks_copies(vdev).await? {
            let is_damaged = walk.damaged > 0;
            return Ok(is_damaged.then_some(RemovalWait::Damaged));
        }
        if !self.state.borrow_mut().note_copied(vdev) {
            return Ok(None);
        }
        // Afterwards all copies are durable, and so is each free of a block without one. Nobody reads such a block any longer.
        self.write_checkpoint().await?;
        self.shared.readers.quiesce().await;
        self.finish_removal(vdev).await?;
        Ok(None)
    }

    /// Whether a used sector of a vdev has no copy.
    async fn lacks_copies(self: &Rc<Self>, vdev: VdevId) -> Result<bool> {
        let regions = self.state.borrow().allocator.space().used_regions(vdev);
        let copies = self.shared.vdevs.copies();
        for region in regions {
            let _loaded = self.load_regions(&[(vdev, region)]).await?;
            let live = self
                .state
                .borrow()
                .allocator
                .space()
                .live_runs(vdev, region);
            for (at, bytes) in live.unwrap_or_default() {
                let range = at.offset.0..at.offset.0 + bytes;
                let runs = copies.within(vdev, range);
                if runs.iter().map(|run| run.bytes).sum::<u64>() < bytes {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Takes a vdev out of the pool whose blocks all have durable copies.
    async fn finish_removal(self: &Rc<Self>, vdev: VdevId) -> Result<()> {
        // no uberblock is written to its disks while their labels are wiped
        let _pause = self.pause().await;
        {
            let state = self.state.borrow();
            let entry = state.leaving().map(|(_, entry)| entry.step);
            let has_nodes = state.allocator.space().has_pool_nodes(vdev);
            if entry != Some(RemovalStep::Copied) || has_nodes || !self.may_remove() {
                return Ok(());
            }
        }
        self.remover.finishes.set(Some(vdev));
        let removed = self.shared.vdevs.remove(vdev).await;
        self.remover.finishes.set(None);
        let mut state = self.state.borrow_mut();
        state.allocator.space_mut().serve(vdev, Service::Removed);
        let extents = self.shared.vdevs.extent_space();
        state.shared.budget.set_extents(extents);
        state.supply_budget();
        drop(state);
        match removed {
            Ok(()) => tracing::info!(vdev = vdev.0, "a vdev was removed from the pool"),
            Err(error) => {
                tracing::error!(vdev = vdev.0, %error, "the removal of a vdev did not end");
                return Err(Error::Device);
            }
        }
        Ok(())
    }
}

impl Pool {
    /// Begins to remove a vdev: it gives out no space from now on, and its blocks are copied to the other vdevs in the background, also
    /// after a restart. Then its disks leave the pool.
    ///
    /// # Errors
    /// [`SetupError::NoVdev`], [`SetupError::LastVdev`], [`SetupError::HasJournal`], [`SetupError::NoRoom`], [`SetupError::Removing`],
    /// [`SetupError::Expanding`], [`SetupError::ReadOnly`], [`SetupError::Device`].
    pub async fn remove_vdev(&self, vdev: VdevId) -> std::result::Result<(), SetupError> {
        if self.vdevs().is_read_only() {
            return Err(SetupError::ReadOnly);
        }
        self.owner.state.borrow().check_removal(vdev)?;
        let required = self.vdevs().require(FEATURE_REMOVED_VDEVS).await;
        required.map_err(SetupError::failed)?;
        let refused: Cell<Option<SetupError>> = Cell::new(None);
        let begin = |state: &mut State| {
            if let Err(error) = state.check_removal(vdev) {
                refused.set(Some(error));
                return Err(Error::Unknown);
            }
            let entry = RemovalEntry {
                step: RemovalStep::Copying,
                up_to: Birth(0),
            };
            let changes = vec![(removal_key(vdev), Some(entry.encode()))];
            let ticket = state.change(Vec::new(), changes)?;
            state.allocator.space_mut().serve(vdev, Service::Leaving);
            state.supply_budget();
            let remover = &self.owner.remover;
            remover.is_settled.set(false);
            remover.waits_for.set(None);
            remover.rests_until.set(None);
            remover.copied.set(0);
            remover.active.set(Duration::ZERO);
            Ok(((), ticket))
        };
        let begun = self.owner.change_durably(begin).await;
        if let Some(error) = refused.take() {
            return Err(error);
        }
        begun.map_err(SetupError::failed)?;
        self.owner.wake_remover();
        Ok(())
    }

    /// Gives up the removal of a vdev: it gives out space again as soon as the copies are freed, which is done in the background.
    ///
    /// # Errors
    /// [`SetupError::NotRemoving`]; [`SetupError::RemovalEnds`] if the labels without the vdev are being written;
    /// [`SetupError::ReadOnly`], [`SetupError::Device`].
    pub async fn stop_removal(&self) -> std::result::Result<(), SetupError> {
        if self.vdevs().is_read_only() {
            return Err(SetupError::ReadOnly);
        }
        let refused: Cell<Option<SetupError>> = Cell::new(None);
        let stop = |state: &mut State| {
            if let Some(vdev) = self.owner.remover.finishes.get() {
                refused.set(Some(SetupError::RemovalEnds { vdev }));
                return Err(Error::Unknown);
            }
            let Some((vdev, entry)) = state.leaving() else {
                refused.set(Some(SetupError::NotRemoving));
                return Err(Error::Unknown);
            };
            let entry = RemovalEntry {
                step: RemovalStep::Stopping,
                ..entry
            };
            let changes = vec![(removal_key(vdev), Some(entry.encode()))];
            Ok(((), state.change(Vec::new(), changes)?))
        };
        let stopped = self.owner.change_durably(stop).await;
        if let Some(error) = refused.take() {
            return Err(error);
        }
        stopped.map_err(SetupError::failed)?;
        self.owner.remover.rests_until.set(None);
        self.owner.wake_remover();
        Ok(())
    }

    /// The removal in progress.
    #[must_use]
    pub fn removing(&self) -> Option<Removing> {
        let state = self.owner.state.borrow();
        let (vdev, entry) = state.leaving()?;
        let remover = &self.owner.remover;
        let copied = self.vdevs().copies().bytes(vdev);
        let used = state.allocator.space().used_on(vdev);
        Some(Removing {
            vdev,
            copied,
            left: used.saturating_sub(copied),
            is_stopping: entry.step == RemovalStep::Stopping,
            waits_for: remover.waits_for.get(),
            copied_now: remover.copied.get(),
            active: remover.active.get(),
        })
    }
}
