//! A time without checkpoints, for operations that compare or change what a checkpoint reads.
//!
//! **Owns** the guard [`Pause`]. **Called by** verification and by the addition of disks. **Invariant**: checkpoints go on
//! when the last guard is dropped.

use crate::owner::mover::state::MoverPause;
use crate::owner::{Owner, POLL};

/// No checkpoint is written, and no record is moved, before this is dropped.
pub(in crate::owner) struct Pause<'a> {
    owner: &'a Owner,
    _mover: MoverPause<'a>,
}

impl Owner {
    /// Waits for the end of the checkpoint that is being written, and keeps the next one from its begin. Waits for groups of the
    /// row mover, and keeps it from further ones.
    pub(in crate::owner) async fn pause(&self) -> Pause<'_> {
        let _mover = self.pause_mover().await;
        self.state.borrow_mut().checkpointer.pause();
        let pause = Pause {
            owner: self,
            _mover,
        };
        while self.state.borrow().checkpointer.is_running() {
            io::time::sleep(POLL).await;
        }
        pause
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.owner.state.borrow_mut().checkpointer.resume();
        self.owner.shared.bell.ring();
    }
}
