//! Yields to other tasks of a shard in long loops.
//!
//! **Owns** the count of steps between two yields. **Called by** checkpoints and merges. **Invariant**: a loop that takes each of
//! its steps here runs at most `most` steps at once.

/// Yields to other tasks from time to time: a checkpoint may merge millions of records.
pub(super) struct Yielder {
    steps: u32,
    most: u32,
}

impl Yielder {
    /// Yields after each `most` steps.
    pub(in crate::owner) fn every(most: u32) -> Self {
        Self { steps: 0, most }
    }

    pub(in crate::owner) async fn step(&mut self) {
        self.steps += 1;
        if self.steps.is_multiple_of(self.most) {
            io::yield_now().await;
        }
    }
}

impl Default for Yielder {
    /// For steps that look at one record.
    fn default() -> Self {
        Self::every(1024)
    }
}
