//! A pool that takes no changes: for good since a device failed, or for now since the file system below is full.
//!
//! **Owns** the answers to waiting requests. **Called by** the owner's loop and its tasks. **Invariants**: while the
//! file system below is full, groups and the checkpoint wait, and only demands for durability get an error; once a
//! device failed, nothing more is acknowledged. `docs/decisions/0123`.

use super::{Owner, Pool};
use crate::dataset::Demand;
use crate::journal::Ticket;
use crate::vdev::limits::SPACE_RETRY;
use crate::{Error, Result};
use io::sync::{lock, oneshot};

impl Owner {
    /// A write or flush failed for good: nothing more is acknowledged.
    pub(super) fn fail(&self, error: Error) {
        self.refuse(&self.shared.fail(error));
    }

    /// Answers all waiting requests with an error.
    pub(super) fn refuse(&self, error: &Error) {
        let mut state = self.state.borrow_mut();
        let has_failed = self.shared.has_failed();
        if has_failed {
            state.journal.fail();
        }
        state.committer.refuse(error);
        state.checkpointer.refuse(error);
        for volume in state.asking() {
            let mut volume = lock(&volume.state);
            volume.demands.refuse(|| error.clone());
            if has_failed {
                volume.give_up();
            }
        }
    }

    fn wait_for_checkpoint(&self, ticket: Ticket, demand: Demand) {
        let mut state = self.state.borrow_mut();
        state.committer.wait_for_checkpoint(ticket, demand);
    }

    /// Waits until a checkpoint may have a batch, even while the file system below is full.
    ///
    /// # Errors
    /// Why the pool has failed.
    pub(super) async fn durable_at_last(&self, ticket: Ticket) -> Result<()> {
        loop {
            let (sender, receiver) = oneshot::channel();
            self.wait_for_checkpoint(ticket, sender);
            self.shared.bell.ring();
            let durable = receiver.await.unwrap_or(Err(Error::Device));
            match durable.map(drop) {
                Err(Error::FileSystemFull { .. }) if !self.shared.has_failed() => {
                    io::time::sleep(SPACE_RETRY).await;
                }
                done => return done,
            }
        }
    }
}

impl Pool {
    /// Why the pool takes no changes: for good since a device failed, or for now since the file system below is full.
    #[must_use]
    pub fn trouble(&self) -> Option<Error> {
        self.owner.shared.trouble()
    }
}
