//! Verification: stamped blocks, and a journal of their writes.
//!
//! **Owns** stamps ([`stamp`]), the state of each block ([`ledger`]), the state file that survives a crash
//! ([`journal`]), and the runs that write and check. **Called by** `wirepool bench verify` and by tests.
//! **Invariants**: a block has at most one write in flight; a write is in the journal before it is sent, and as
//! acknowledged only after its acknowledgement. So after a crash of either side, acknowledged durable writes must be
//! there, and every other block is whole, old or new.

pub mod check;
pub mod journal;
pub mod ledger;
pub mod run;
pub mod stamp;

use serde::Serialize;
use std::fmt;

/// A wrong block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Number of the block in the region.
    pub block: u64,
    /// Its offset, bytes.
    pub offset: u64,
    /// Expected contents.
    pub expected: String,
    /// Found contents.
    pub found: String,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "block {} (byte {}): expected {}, found {}",
            self.block, self.offset, self.expected, self.found
        )
    }
}

/// Result of a run or a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Writes acknowledged.
    pub writes: u64,
    /// Of those, durable ones.
    pub durable: u64,
    /// Flushes acknowledged.
    pub flushes: u64,
    /// Blocks that were read and correct.
    pub checked: u64,
    /// Blocks without an expectation: the run ended before they were written durably.
    pub unknown: u64,
    /// Number of reconnects.
    pub reconnects: u64,
    /// Number of wrong blocks.
    pub wrong: u64,
    /// The first of them.
    pub mismatches: Vec<Mismatch>,
}

impl Outcome {
    pub(crate) fn merge(&mut self, other: Outcome) {
        self.writes += other.writes;
        self.durable += other.durable;
        self.flushes += other.flushes;
        self.checked += other.checked;
        self.unknown += other.unknown;
        self.reconnects += other.reconnects;
        self.wrong += other.wrong;
        self.mismatches.extend(other.mismatches);
        self.mismatches.truncate(crate::limits::MISMATCHES_TOLD);
    }

    pub(crate) fn wrong(&mut self, m: Mismatch) {
        self.wrong += 1;
        if self.mismatches.len() < crate::limits::MISMATCHES_TOLD {
            self.mismatches.push(m);
        }
    }
}
