//! Loss of the ring: no vdev that the journal is on takes writes any longer.
//!
//! Batches are numbered as before, but not written. A checkpoint that has all of them moves the journal to another ring. They are durable when
//! it is.
//!
//! **Owns** the state between loss and move. **Called by** the owner. **Invariant**: a batch that was not durable before the loss
//! is not reported as durable before the journal is in another ring. `docs/decisions/0184`.

use super::{Ticket, Writer};

impl Writer {
    /// The ring takes no writes any longer. False if this is known.
    pub fn lose_ring(&mut self) -> bool {
        if self.lost.is_some() {
            return false;
        }
        self.lost = Some(self.durable);
        true
    }

    /// Whether the ring is lost, and the journal is not in another one yet.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// Whether a checkpoint may have a ticket's records: they are durable, or their data is and the checkpoint makes them so.
    #[must_use]
    pub fn may_be_in_checkpoint(&self, ticket: Ticket) -> bool {
        ticket.0 <= self.durable
    }

    /// Takes all batches that wait for the ring as written.
    pub(super) fn skip_writes(&mut self) {
        if self.open.count > 0 {
            self.seal();
        }
        for write in std::mem::take(&mut self.queue) {
            self.in_flight += 1;
            self.written(write.sequence);
        }
    }
}
