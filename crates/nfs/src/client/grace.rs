//! The grace period after a restart (§8.4.2): only clients that had state before may reclaim it, and nobody else may take it.
//!
//! **Owns** [`Grace`]: the clients that may reclaim, and the end of the period. **Called by** the service. **Invariants**: the
//! period ends at its deadline, or as soon as every client that may reclaim has sent RECLAIM_COMPLETE.

use io::time::Instant;
use std::collections::BTreeSet;

/// The grace period.
#[derive(Debug)]
pub struct Grace {
    ends_at: Instant,
    /// Owners of the clients that have not reclaimed everything.
    waiting: BTreeSet<Vec<u8>>,
}

impl Grace {
    /// A grace period until `ends_at` for these client owners. It is over at once if there are none.
    pub fn new(owners: impl IntoIterator<Item = Vec<u8>>, ends_at: Instant) -> Self {
        Self {
            ends_at,
            waiting: owners.into_iter().collect(),
        }
    }

    /// Whether it goes on.
    pub fn is_active(&self, now: Instant) -> bool {
        !self.waiting.is_empty() && now < self.ends_at
    }

    /// Whether this client may reclaim.
    pub fn may_reclaim(&self, owner: &[u8], now: Instant) -> bool {
        self.is_active(now) && self.waiting.contains(owner)
    }

    /// This client has reclaimed everything. Returns whether it might have had more to reclaim.
    pub fn completed(&mut self, owner: &[u8]) -> bool {
        self.waiting.remove(owner)
    }

    /// Takes the owners of clients that have not reclaimed everything in time.
    pub fn take_late(&mut self, now: Instant) -> BTreeSet<Vec<u8>> {
        match now < self.ends_at {
            true => BTreeSet::new(),
            false => std::mem::take(&mut self.waiting),
        }
    }
}
