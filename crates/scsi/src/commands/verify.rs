//! VERIFY and WRITE AND VERIFY (SBC-3 5.28 to 5.31, 5.38 to 5.41).
//!
//! **Invariants**: data is compared with a read of the backend, not with a buffer.

use super::block::{extent, miscompare, pieces};
use super::common::{Result, durable, next_piece, nothing};
use crate::command::{Blocks, ByteCheck};
use crate::limits::READ_STEP_BYTES;
use crate::task::Cancel;
use crate::unit::Unit;
use backend::{Extent, Lba};
use io::IoBuf;
use io::Payload;

/// Reads an extent to check that it is readable.
async fn scan(unit: &Unit, at: Extent, cancel: &Cancel) -> Result<()> {
    for piece in pieces(at, unit.geometry().block_size, READ_STEP_BYTES) {
        next_piece(cancel).await?;
        drop(unit.backend.read(piece).await?);
    }
    Ok(())
}

/// Compares the stored data with `expected`, repeated over the extent.
async fn compare(unit: &Unit, at: Extent, expected: &[u8], cancel: &Cancel) -> Result<()> {
    let mut done = 0;
    for piece in pieces(at, unit.geometry().block_size, READ_STEP_BYTES) {
        next_piece(cancel).await?;
        let payload = unit.backend.read(piece).await?;
        let mut stored = vec![0; payload.len()];
        payload.copy_to(&mut stored);
        let repeated = expected.iter().cycle().skip(done % expected.len().max(1));
        if let Some(differs) = stored.iter().zip(repeated).position(|(a, b)| a != b) {
            return Err(miscompare((done + differs) as u64));
        }
        done += stored.len();
    }
    Ok(())
}

pub(super) async fn verify(
    unit: &Unit,
    at: Blocks,
    check: ByteCheck,
    data: Option<IoBuf>,
    cancel: &Cancel,
) -> Result<Payload> {
    match (check, data) {
        (ByteCheck::None, _) | (_, None) => scan(unit, extent(at), cancel).await?,
        (ByteCheck::All, Some(data)) => unit.backend.compare(Lba(at.lba), data).await?,
        (ByteCheck::One, Some(data)) => {
            let block = data.to_vec();
            drop(data);
            compare(unit, extent(at), &block, cancel).await?;
        }
    }
    nothing()
}

/// Writes to stable storage, then reads the data back, and with BYTCHK compares it. It runs to its end even if it is
/// aborted, because the write has happened.
pub(super) async fn write_and_verify(
    unit: &Unit,
    at: Blocks,
    check: ByteCheck,
    data: Option<IoBuf>,
) -> Result<Payload> {
    let Some(data) = data else { return nothing() };
    let wanted = match check {
        ByteCheck::None => None,
        ByteCheck::All | ByteCheck::One => Some(data.to_vec()),
    };
    let proof = unit.backend.write_durable(Lba(at.lba), data).await?;
    let never = Cancel::default();
    match wanted {
        Some(wanted) => compare(unit, extent(at), &wanted, &never).await?,
        None => scan(unit, extent(at), &never).await?,
    }
    durable(proof)
}
