//! Ends of clients' requests.
//!
//! A client that reads a record in order with short requests gains from the whole record in the record cache; a client that reads
//! at random does not. A request that begins where another one ended tells the first from the second.
//!
//! **Owns** the last such ends, by a hash of their place. **Called by** reads and acknowledged writes, on all shards. **Invariant**: only speed and
//! statistics depend on it; an end may be replaced by another one at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ends that are kept, about. Few: a request at random must rarely begin at one of them.
const ENDS: usize = 64;

/// See the module header.
pub(crate) struct Ends([AtomicU64; ENDS]);

impl Default for Ends {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; ENDS])
    }
}

impl Ends {
    fn slot(&self, place: u64) -> &AtomicU64 {
        &self.0[place as usize % ENDS]
    }

    /// Whether a request ended here lately.
    pub(crate) fn has(&self, place: u64) -> bool {
        self.slot(place).load(Ordering::Relaxed) == place
    }

    /// A request ends here.
    pub(crate) fn note(&self, place: u64) {
        self.slot(place).store(place, Ordering::Relaxed);
    }
}
