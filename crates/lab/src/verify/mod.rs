//! Verification: every block says what it is, and a journal says what it must be.
//!
//! **Owns** stamps ([`stamp`]), what is known of each block ([`ledger`]), the side file that survives us
//! ([`journal`]), and the runs that write and check. **Called by** `wirepool bench verify` and by tests.
//! **Invariants**: a block has at most one write in flight; a write is in the journal before it is sent, and as
//! acknowledged only after it was; so whatever is killed, acknowledged durable writes must be there, and every other
//! block is whole, old or new.

pub mod check;
pub mod journal;
pub mod ledger;
pub mod run;
pub mod stamp;

use serde::Serialize;
use std::fmt;

/// A block that is not what it must be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// Which block of the region.
    pub block: u64,
    /// Where it starts, bytes.
    pub offset: u64,
    /// What it must be.
    pub expected: String,
    /// What was read.
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

/// What a run or a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Writes acknowledged.
    pub writes: u64,
    /// Of those, how many were durable at once.
    pub durable: u64,
    /// Flushes acknowledged.
    pub flushes: u64,
    /// Blocks read and found as they must be.
    pub checked: u64,
    /// Blocks of which nothing is known: the run ended before they were written durably.
    pub unknown: u64,
    /// How often a connection was lost and made again.
    pub reconnects: u64,
    /// How many blocks are not what they must be.
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
