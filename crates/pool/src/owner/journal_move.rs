//! Moves of the journal to other vdevs, while the pool is in use.
//!
//! Labels get the new ring. A checkpoint follows during which nothing is appended to the journal; its uberblock starts the journal in
//! the new ring. Then labels lose the old ring.
//!
//! **Owns** the order of these steps. **Called by** the removal of a vdev, and by [`Pool::move_journal`]. **Invariants**: one move at a
//! time; a crash at any step leaves the journal in the ring in which the newest checkpoint's journal starts. `docs/decisions/0181`.

use crate::format::{JOURNAL_SEGMENTS_MAX, VdevId};
use crate::owner::{Owner, Pool};
use crate::vdev::SetupError;

impl Owner {
    /// Moves the journal to these vdevs, by index. Writes wait for one checkpoint, which has only the changes since another one.
    ///
    /// # Errors
    /// [`SetupError::NoVdev`], [`SetupError::NoJournalArea`], [`SetupError::JournalSegments`], with nothing changed;
    /// [`SetupError::Device`], [`SetupError::FileSystemFull`].
    pub(in crate::owner) async fn move_journal(&self, to: &[VdevId]) -> Result<(), SetupError> {
        let mut turn = self.journal_moves.enter(0..1);
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
        self.settle_journal().await?;
        if self.state.borrow().journal.vdevs() == to {
            return Ok(());
        }
        let failed = SetupError::failed;
        // the checkpoint for which writes wait is a short one
        self.write_checkpoint().await.map_err(failed)?;
        let (_, head) = self.state.borrow().journal.segments();
        let ring = vdevs.begin_journal_move(to, head).await?;
        self.state.borrow_mut().journal.move_to(ring);
        self.write_checkpoint().await.map_err(failed)?;
        self.settle_journal().await?;
        tracing::info!(vdevs = ?to, "the journal was moved");
        Ok(())
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
