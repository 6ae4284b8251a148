//! Ends of reads of parts of records.
//!
//! A client that reads a record in order with short requests gains from the whole record in the record cache; a client that reads
//! at random does not. A read that begins where another one ended tells the first from the second.
//!
//! **Owns** the last such ends. **Called by** reads, on all shards. **Invariant**: only speed depends on it; an end may be
//! replaced by another one at any time.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::{Address, Birth};

/// Ends that are kept, about. Few: a read at random must rarely begin at one of them.
const ENDS: usize = 64;

/// See the module header.
pub(crate) struct PartEnds([AtomicU64; ENDS]);

impl Default for PartEnds {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; ENDS])
    }
}

/// The name of a place in bytes that were placed in an epoch, and its index.
fn name_of(at: Address, placed: Birth) -> (u64, usize) {
    let name = at.name_hash(placed);
    (name, name as usize % ENDS)
}

impl PartEnds {
    /// Whether a read ended here lately.
    pub(crate) fn has(&self, at: Address, placed: Birth) -> bool {
        let (name, index) = name_of(at, placed);
        self.0[index].load(Ordering::Relaxed) == name
    }

    /// A read ends here.
    pub(crate) fn note(&self, at: Address, placed: Birth) {
        let (name, index) = name_of(at, placed);
        self.0[index].store(name, Ordering::Relaxed);
    }
}
