//! Loss of the vdevs for the journal, while the pool is in use: nothing is lost, since memory has all that only they have.
//!
//! Batches that were not durable wait for a checkpoint, which has all of them and moves the journal to other vdevs. Then labels say that the lost
//! vdevs are removed.
//!
//! **Owns** the order of these steps. **Called by** write-back when a write or flush of the journal fails, and by the owner's tick.
//! **Invariants**: until the journal is on other vdevs, labels name the lost ones, so that a pool whose machine crashes is not opened without them by
//! mistake; no demand is answered meanwhile. `docs/decisions/0184`.

use std::rc::Rc;

use crate::format::VdevId;
use crate::owner::{Owner, Pool};
use crate::space::Service;
use crate::vdev::SetupError;
use crate::vdev::limits::SPACE_RETRY;

impl Owner {
    /// Whether the journal is on a vdev that takes no writes any longer. Then a move to other vdevs is in progress when the call returns.
    pub(in crate::owner) fn has_lost_journal(self: &Rc<Self>) -> bool {
        let vdevs = &self.shared.vdevs;
        let gone = vdevs.gone_logs();
        if gone.is_empty() {
            return self.state.borrow().journal.is_lost();
        }
        let mut state = self.state.borrow_mut();
        let mut on = state.journal.vdevs().into_iter();
        if !on.any(|vdev| gone.contains(&vdev)) {
            return false;
        }
        if state.journal.lose_ring() {
            tracing::error!(
                vdevs = ?gone,
                "a vdev for the journal takes no writes: the journal moves to other vdevs, and durable writes wait for that"
            );
            let this = self.clone();
            drop(io::spawn(async move { this.leave_lost_journal().await }));
        }
        true
    }

    /// Moves the journal from the vdevs that are lost, and removes them. While the file system below is full, it waits.
    async fn leave_lost_journal(self: Rc<Self>) {
        loop {
            let moved = match self.journal_places() {
                Some(to) => self.move_journal(&to).await,
                None => Err(SetupError::Device),
            };
            let may_wait = !self.shared.has_failed() && !self.journal_moves.is_ended.get();
            match moved {
                Ok(()) => return self.drop_lost_logs().await,
                Err(SetupError::FileSystemFull { .. }) if may_wait => {
                    io::time::sleep(SPACE_RETRY).await;
                }
                Err(error) => {
                    tracing::error!(%error, "the journal did not move from a vdev that is lost");
                    return self.fail(crate::Error::Device);
                }
            }
        }
    }

    /// Removes the vdevs for the journal that take no writes any longer, and that the journal is not on. Called once a second too, because a
    /// crash may come between.
    pub(in crate::owner) async fn drop_lost_logs(&self) {
        // the owner's tick may come while the end of a move does the same
        let mut turn = self.journal_moves.turn.enter(0..1);
        turn.come().await;
        let is_able = !self.shared.vdevs.is_read_only() && self.shared.trouble().is_none();
        if !is_able || self.journal_moves.is_ended.get() {
            return;
        }
        for vdev in self.unused_lost_logs() {
            match self.shared.vdevs.remove(vdev).await {
                Ok(()) => {
                    let mut state = self.state.borrow_mut();
                    state.allocator.space_mut().serve(vdev, Service::Removed);
                    self.journal_moves.lost.borrow_mut().push(vdev);
                    tracing::error!(
                        vdev = vdev.0,
                        "a vdev for the journal was lost and left the pool; nothing else was lost"
                    );
                }
                Err(error) => tracing::warn!(vdev = vdev.0, %error, "a lost vdev was not removed"),
            }
        }
    }

    /// The vdevs for the journal that are lost, and that neither the journal nor a move needs.
    pub(in crate::owner) fn unused_lost_logs(&self) -> Vec<VdevId> {
        let vdevs = &self.shared.vdevs;
        let mut lost = vdevs.gone_logs();
        if !lost.is_empty() {
            let used = self.state.borrow().journal.vdevs();
            let rings = vdevs.journal_rings();
            lost.retain(|vdev| !used.contains(vdev) && !rings.has(*vdev));
        }
        lost
    }
}

impl Pool {
    /// The vdevs for the journal that failed and have not left the pool yet, since the journal moves to other vdevs.
    #[must_use]
    pub fn leaving_logs(&self) -> Vec<VdevId> {
        let lost = self.lost_logs();
        let failed = self.owner.shared.vdevs.failed_logs().into_iter();
        failed.filter(|log| !lost.contains(log)).collect()
    }

    /// The vdevs for the journal that were lost and left the pool since it was opened.
    #[must_use]
    pub fn lost_logs(&self) -> Vec<VdevId> {
        self.owner.journal_moves.lost.borrow().clone()
    }
}
