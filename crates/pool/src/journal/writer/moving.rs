//! Move of the journal to another ring, at a checkpoint.
//!
//! **Owns** the pause of appends, and the change of the ring. **Called by** the owner and its checkpoints. **Invariant**: no batch is
//! appended between the begin of the checkpoint that moves the journal and its end. So each batch is in the ring in which the
//! newest durable checkpoint's journal starts. `docs/decisions/0181`.

use super::Writer;
use crate::format::VdevId;
use crate::journal::{Ring, Start};

impl Writer {
    /// Has the next checkpoint that begins move the journal to a ring that labels durably have.
    pub fn move_to(&mut self, ring: Ring) {
        self.next = Some(ring);
    }

    /// Whether the journal is to move to another ring: a checkpoint that moves it is running, or is still to begin.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.next.is_some()
    }

    /// A checkpoint begins: if it moves the journal, nothing is appended until its end.
    pub fn hold_for_move(&mut self) {
        self.is_held = self.next.is_some();
    }

    /// A checkpoint ends whose journal starts at `start`: the journal continues there, if this checkpoint moved it.
    ///
    /// # Panics
    /// If the old ring has batches that are not in the checkpoint.
    pub(super) fn move_at(&mut self, start: Start) {
        if !std::mem::take(&mut self.is_held) {
            return;
        }
        let is_empty = self.sealed.is_empty() && self.open.count == 0;
        assert!(is_empty && start.sequence == self.head.sequence);
        if let Some(ring) = self.next.take() {
            self.ring = ring;
            self.head = start;
            self.lost = None;
        }
    }

    /// The segments of the first batch that replay needs, and of the next one.
    #[must_use]
    pub fn segments(&self) -> (u64, u64) {
        (self.tail.position.segment, self.head.position.segment)
    }

    /// The vdevs that have the ring, by index.
    #[must_use]
    pub fn vdevs(&self) -> Vec<VdevId> {
        let mut vdevs: Vec<_> = self.ring.segments.iter().map(|at| at.vdev).collect();
        vdevs.sort_unstable();
        vdevs.dedup();
        vdevs
    }
}
