//! Checks and answers that many commands share.
//!
//! **Called by** the commands.

use crate::sense::{Asc, Sense, SenseKey};
use crate::status::Refusal;
use crate::task::Cancel;
use crate::unit::Unit;
use backend::{Durable, Extent, Geometry, Lba, StorageError};
use io::Payload;

/// Result of a command.
pub(super) type Result<T> = std::result::Result<T, Refusal>;

/// Errors: WRITE PROTECTED, SOFTWARE WRITE PROTECTED.
pub(super) fn check_writable(unit: &Unit) -> Result<()> {
    if !unit.is_write_protected() {
        return Ok(());
    }
    let asc = if unit.is_software_write_protected() {
        Asc::SOFTWARE_WRITE_PROTECTED
    } else {
        Asc::WRITE_PROTECTED
    };
    Err(Sense::new(SenseKey::DataProtect, asc).into())
}

/// Checks a range that may be empty. Errors: LBA OUT OF RANGE.
pub(super) fn check_range(g: &Geometry, lba: u64, count: u64) -> Result<Extent> {
    let end = lba.checked_add(count);
    if lba > g.blocks || end.is_none_or(|end| end > g.blocks) {
        return Err(StorageError::OutOfRange.into());
    }
    Ok(Extent {
        start: Lba(lba),
        blocks: count,
    })
}

/// Parameter data, truncated at ALLOCATION LENGTH.
pub(super) fn reply(mut data: Vec<u8>, allocation: u32) -> Result<Payload> {
    data.truncate(allocation as usize);
    Ok(Payload::from(data))
}

/// Between two chunks of a long command: yields to other tasks, and ends an aborted command. Otherwise a disk that
/// answers at once would monopolise the shard.
pub(super) async fn next_piece(cancel: &Cancel) -> Result<()> {
    io::yield_now().await;
    cancel.check()
}

/// An answer without data.
pub(super) fn nothing() -> Result<Payload> {
    Ok(Payload::from(Vec::new()))
}

/// The answer to a command that promises stable storage.
pub(super) fn durable(proof: Durable) -> Result<Payload> {
    let _ = proof;
    nothing()
}

/// An ASCII field, left-aligned and padded with blanks; other characters become blanks.
pub(super) fn ascii(out: &mut [u8], text: &str) {
    let bytes = text.bytes().chain(std::iter::repeat(b' '));
    for (o, b) in out.iter_mut().zip(bytes) {
        *o = if b.is_ascii_graphic() { b } else { b' ' };
    }
}
