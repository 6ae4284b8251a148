//! A time without checkpoints, for operations that compare or change what a checkpoint reads.
//!
//! **Owns** the guard [`Pause`]. **Called by** verification and by the addition of disks. **Invariant**: checkpoints go on
//! when the last guard is dropped.

use std::time::Duration;

use crate::owner::Owner;

/// How often a pause checks whether the checkpoint has ended.
const PAUSE_POLL: Duration = Duration::from_millis(1);

/// No checkpoint is written before this is dropped.
pub(in crate::owner) struct Pause<'a>(&'a Owner);

impl Owner {
    /// Waits for the end of the checkpoint that is being written, and keeps the next one from its begin.
    pub(in crate::owner) async fn pause(&self) -> Pause<'_> {
        self.state.borrow_mut().checkpointer.pause();
        let pause = Pause(self);
        while self.state.borrow().checkpointer.is_running() {
            io::time::sleep(PAUSE_POLL).await;
        }
        pause
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().checkpointer.resume();
        self.0.shared.bell.ring();
    }
}
