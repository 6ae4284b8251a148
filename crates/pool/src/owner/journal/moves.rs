//! Moves of the journal to other vdevs, while the pool is in use.
//!
//! Labels get the new ring. A checkpoint follows during which nothing is appended to the journal; its uberblock starts the journal in
//! the new ring. Then labels lose the old ring.
//!
//! A vdev for the journal gets it when the vdev is added. If that fails, or the machine crashes before, it is tried again.
//!
//! **Owns** the order of these steps. **Called by** the addition and the removal of a vdev, by the owner's tick, and by [`Pool::move_journal`]. **Invariants**: one move at a
//! time; a crash at any step leaves the journal in the ring in which the newest checkpoint's journal starts. `docs/decisions/0181`.

use std::rc::Rc;
use std::time::Duration;

use io::time::now;

use crate::format::{JOURNAL_SEGMENTS_MAX, VdevId};
use crate::owner::{Owner, Pool};
use crate::vdev::SetupError;

/// The time after which a move to the vdevs for the journal is tried again that failed.
const RETRY: Duration = Duration::from_secs(30);

impl Owner {
    /// Moves the journal to these vdevs, by index. Writes wait for one checkpoint, which has only the changes since another one.
    ///
    /// # Errors
    /// [`SetupError::NoVdev`], [`SetupError::NoJournalArea`], [`SetupError::JournalSegments`], with nothing changed;
    /// [`SetupError::Device`], [`SetupError::FileSystemFull`].
    pub(in crate::owner) async fn move_journal(&self, to: &[VdevId]) -> Result<(), SetupError> {
        let mut turn = self.journal_moves.turn.enter(0..1);
        turn.come().await;
        let vdevs = &self.shared.vdevs;
        let present = vdevs.status();
        let areas = vdevs.journal_areas();
        for vdev in to.iter().copied() {
            if present.iter().all(|status| status.id != vdev) {
                return Err(SetupError::NoVdev { vdev });
            }
            if !areas.contains(&vdev) {
                return Err(SetupError::NoJournalArea { vdev });
            }
        }
        let segments = vdevs.segments_on(to);
        if !(2..=JOURNAL_SEGMENTS_MAX).contains(&segments) {
            return Err(SetupError::JournalSegments { segments });
        }
        self.end_move().await?;
        if self.state.borrow().journal.vdevs() == to {
            return Ok(());
        }
        if !self.state.borrow().journal.is_lost() {
            // the checkpoint for which writes wait is a short one
            let written = self.write_checkpoint().await;
            written.map_err(SetupError::failed)?;
        }
        let (_, head) = self.state.borrow().journal.segments();
        let ring = vdevs.begin_journal_move(to, head).await?;
        self.state.borrow_mut().journal.move_to(ring);
        self.end_move().await?;
        tracing::info!(vdevs = ?to, "the journal was moved");
        Ok(())
    }

    /// Ends a move that was begun, if there is one: by this call, or by an earlier one that gave up while the file system below was full. Its
    /// checkpoint may come at any time, so labels have both rings until then.
    async fn end_move(&self) -> Result<(), SetupError> {
        if self.state.borrow().journal.is_moving() {
            let written = self.write_checkpoint().await;
            written.map_err(SetupError::failed)?;
        }
        self.settle_journal().await
    }

    /// Starts a move of the journal to the vdevs for it, if they have none of it, unless one is in progress or was tried a moment ago. Called once
    /// a second.
    pub(in crate::owner) fn wake_journal_mover(self: &Rc<Self>) {
        // also if nothing is written to it
        if self.has_lost_journal() {
            return;
        }
        let moves = &self.journal_moves;
        let rests = moves.rests_until.get().is_some_and(|until| now() < until);
        if rests || moves.is_running.get() {
            return;
        }
        if self.log_without_journal().is_some() || !self.unused_lost_logs().is_empty() {
            let this = self.clone();
            drop(io::spawn(async move {
                this.move_journal_to_log().await;
                this.drop_lost_logs().await;
            }));
        }
    }

    /// Moves the journal to the vdevs for it, if they have none of it.
    pub(in crate::owner) async fn move_journal_to_log(&self) {
        let Some(to) = self.log_without_journal() else {
            return;
        };
        let moves = &self.journal_moves;
        moves.is_running.set(true);
        let moved = self.move_journal(&to).await;
        moves.is_running.set(false);
        if let Err(error) = moved {
            moves.rests_until.set(Some(now() + RETRY));
            tracing::warn!(%error, "the journal did not move to the vdev for it: it is tried again");
        }
    }

    /// The vdevs for the journal, if it is not on them.
    fn log_without_journal(&self) -> Option<Vec<VdevId>> {
        let vdevs = &self.shared.vdevs;
        let is_able = !vdevs.is_read_only() && self.shared.trouble().is_none();
        if !is_able || self.journal_moves.is_ended.get() {
            return None;
        }
        let to = self.journal_places()?;
        let is_for_it = to.iter().all(|vdev| vdevs.is_log(*vdev));
        (is_for_it && to != self.state.borrow().journal.vdevs()).then_some(to)
    }

    /// The vdevs that the journal should be on. `None` if none can have it.
    pub(super) fn journal_places(&self) -> Option<Vec<VdevId>> {
        let leaving = self.state.borrow().leaving().map(|(vdev, _)| vdev);
        self.shared.vdevs.journal_vdevs(leaving)
    }

    /// Keeps the journal from further moves, and waits until the present one has ended.
    pub(in crate::owner) async fn end_journal_moves(&self) {
        let moves = &self.journal_moves;
        moves.is_ended.set(true);
        let mut turn = moves.turn.enter(0..1);
        turn.come().await;
    }

    /// Has labels lose the ring that the journal is not in.
    async fn settle_journal(&self) -> Result<(), SetupError> {
        let (tail, _) = self.state.borrow().journal.segments();
        let settled = self.shared.vdevs.settle_journal(tail).await;
        settled.map_err(SetupError::failed)
    }
}

impl Pool {
    /// Moves the journal to some vdevs, while the pool is in use. Writes wait for a short checkpoint.
    ///
    /// # Errors
    /// [`SetupError::NoVdev`]; [`SetupError::NoJournalArea`]; [`SetupError::JournalSegments`]; [`SetupError::Removing`] if one of the
    /// vdevs is being removed; [`SetupError::ReadOnly`]; [`SetupError::Device`] and [`SetupError::FileSystemFull`], after which the
    /// journal is on the old or on the new vdevs.
    pub async fn move_journal(&self, to: &[VdevId]) -> Result<(), SetupError> {
        if self.vdevs().is_read_only() {
            return Err(SetupError::ReadOnly);
        }
        let leaving = self.owner.state.borrow().leaving();
        if let Some((vdev, _)) = leaving.filter(|(vdev, _)| to.contains(vdev)) {
            return Err(SetupError::Removing { vdev });
        }
        let mut to = to.to_vec();
        to.sort_unstable();
        to.dedup();
        self.owner.move_journal(&to).await
    }

    /// The vdevs that the journal is on, by index.
    #[must_use]
    pub fn journal_vdevs(&self) -> Vec<VdevId> {
        self.owner.state.borrow().journal.vdevs()
    }
}
