//! Connections that have not logged in yet, by age.
//!
//! **Called by** connections. **Invariants**: no more of them stay than are allowed. The oldest makes way for a new one,
//! since an honest login is over in milliseconds: whoever opens connections and says nothing keeps nobody else out.

use super::counters::CloseReason;
use super::session::Signal;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Those that have not logged in yet.
#[derive(Default)]
pub(crate) struct HalfOpen {
    by_age: BTreeMap<u64, Arc<Signal>>,
    next: u64,
}

impl HalfOpen {
    /// Takes a place among `most`; its number.
    pub(crate) fn enter(&mut self, signal: Arc<Signal>, most: usize) -> u64 {
        while self.by_age.len() >= most.max(1) {
            if let Some((_, oldest)) = self.by_age.pop_first() {
                oldest.close(CloseReason::Limit);
            }
        }
        let place = self.next;
        self.next += 1;
        self.by_age.insert(place, signal);
        place
    }

    /// Gives a place back, if it is still there.
    pub(crate) fn leave(&mut self, place: u64) {
        self.by_age.remove(&place);
    }
}
