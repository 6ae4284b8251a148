//! Requests that have arrived.
//!
//! **Owns** [`Call`] and [`Record`]. **Called by** the receivers, which make them, and by the execution. **Invariants**: a long record lies in a buffer
//! of the pool whose bytes the ledger granted.

use super::framing::ReplyTo;
use io::SharedBuf;
use session::Hold;
use std::ops::Deref;

/// A whole record.
pub(super) enum Record {
    /// A short one.
    Small(SharedBuf),
    /// A long one, in a buffer of the pool.
    Large(SharedBuf),
}

impl Deref for Record {
    type Target = SharedBuf;

    fn deref(&self) -> &SharedBuf {
        match self {
            Record::Small(bytes) | Record::Large(bytes) => bytes,
        }
    }
}

/// A request that has arrived.
pub(super) struct Call {
    pub(super) record: Record,
    /// The bytes of the ledger that it and its reply take.
    pub(super) hold: Option<Hold>,
    pub(super) reply_to: ReplyTo,
}
