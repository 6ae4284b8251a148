//! READ, WRITE, ORWRITE, COMPARE AND WRITE, SYNCHRONIZE CACHE, PRE-FETCH (SBC-3 clause 5).
//!
//! **Invariants**: payloads are passed to and from the backend without a copy; a status that promises stable storage
//! is made from a [`backend::Durable`].

use super::common::{Result, durable, nothing};
use crate::command::Blocks;
use crate::limits::READ_STEP_BYTES;
use crate::sense::{Asc, Sense, SenseKey};
use crate::status::Refusal;
use crate::task::Cancel;
use crate::unit::Unit;
use backend::{Extent, Lba, StorageError};
use io::{IoBuf, Payload};

/// Attempts of ORWRITE if other writes interfere; then the status is BUSY.
const OR_WRITE_ATTEMPTS_MAX: u32 = 16;

pub(super) fn extent(at: Blocks) -> Extent {
    Extent {
        start: Lba(at.lba),
        blocks: at.count.into(),
    }
}

/// The chunks of an extent, each of at most `bytes`.
pub(super) fn pieces(at: Extent, block_size: u32, bytes: u32) -> impl Iterator<Item = Extent> {
    let step = u64::from((bytes / block_size.max(1)).max(1));
    (0..at.blocks.div_ceil(step)).map(move |i| Extent {
        start: Lba(at.start.0 + i * step),
        blocks: step.min(at.blocks - i * step),
    })
}

/// READ (SBC-3 5.11 to 5.15). With FUA the data must be on the medium, so the cache is flushed first.
pub(super) async fn read(unit: &Unit, at: Blocks) -> Result<Payload> {
    if at.count == 0 {
        return nothing();
    }
    if at.fua && unit.write_cache() {
        let _ = unit.backend.flush().await?;
    }
    Ok(unit.backend.read(extent(at)).await?)
}

/// WRITE (SBC-3 5.32 to 5.36). Without data it is a transfer of zero blocks.
pub(super) async fn write(unit: &Unit, at: Blocks, data: Option<IoBuf>) -> Result<Payload> {
    let Some(data) = data else { return nothing() };
    if at.fua || !unit.write_cache() {
        return durable(unit.backend.write_durable(Lba(at.lba), data).await?);
    }
    unit.backend.write(Lba(at.lba), data).await?;
    nothing()
}

/// Makes the written data durable if the command or the caching mode page requires it.
pub(super) async fn make_durable(unit: &Unit, fua: bool) -> Result<Payload> {
    if fua || !unit.write_cache() {
        return durable(unit.backend.flush().await?);
    }
    nothing()
}

/// SYNCHRONIZE CACHE (SBC-3 5.25): the whole cache, for any range. With IMMED it is started and not waited for.
pub(super) async fn synchronize(unit: &Unit, immediate: bool) -> Result<Payload> {
    let reply = unit.backend.flush();
    if immediate {
        drop(io::spawn(async move {
            if let Err(e) = reply.await {
                tracing::warn!(error = %e, "a flush that nobody waits for failed");
            }
        }));
        return nothing();
    }
    durable(reply.await?)
}

/// PRE-FETCH (SBC-3 5.9): reads, so that a cache below has the blocks. GOOD instead of CONDITION MET, because the
/// blocks may not stay there.
pub(super) async fn pre_fetch(
    unit: &Unit,
    at: Blocks,
    immediate: bool,
    cancel: &Cancel,
) -> Result<Payload> {
    if immediate {
        return nothing();
    }
    let g = unit.geometry();
    let whole = match at.count {
        0 => Extent {
            start: Lba(at.lba),
            blocks: g.blocks.saturating_sub(at.lba),
        },
        _ => extent(at),
    };
    // Reading more than one buffer would only evict the first blocks.
    if let Some(first) = pieces(whole, g.block_size, READ_STEP_BYTES).next() {
        cancel.check()?;
        drop(unit.backend.read(first).await?);
    }
    nothing()
}

/// COMPARE AND WRITE (SBC-3 5.2), as one atomic step.
pub(super) async fn compare_and_write(
    unit: &Unit,
    at: Blocks,
    data: Option<IoBuf>,
) -> Result<Payload> {
    let Some(mut expected) = data else {
        return nothing();
    };
    let half = expected.len() / 2;
    let mut new = io::pool().try_alloc(half).ok_or(Refusal::Busy)?;
    new.copy_from_slice(&expected[half..]);
    expected.set_len(half);
    unit.backend
        .compare_and_write(Lba(at.lba), expected, new)
        .await?;
    make_durable(unit, at.fua).await
}

/// ORWRITE (SBC-3 5.8), with its original set operation: stored OR data. Each attempt replaces the data only if it is
/// unchanged since it was read.
pub(super) async fn or_write(
    unit: &Unit,
    at: Blocks,
    data: Option<IoBuf>,
    cancel: &Cancel,
) -> Result<Payload> {
    let Some(data) = data else { return nothing() };
    let mask = data.to_vec();
    drop(data);
    for _ in 0..OR_WRITE_ATTEMPTS_MAX {
        cancel.check()?;
        let mut stored = vec![0; mask.len()];
        unit.backend.read(extent(at)).await?.copy_to(&mut stored);
        let mut expected = io::pool().alloc(mask.len()).await;
        let Some(mut new) = io::pool().try_alloc(mask.len()) else {
            break;
        };
        expected.copy_from_slice(&stored);
        for (n, (a, b)) in new.iter_mut().zip(stored.iter().zip(&mask)) {
            *n = a | b;
        }
        match unit
            .backend
            .compare_and_write(Lba(at.lba), expected, new)
            .await
        {
            Ok(()) => return make_durable(unit, at.fua).await,
            Err(StorageError::Miscompare(_)) => {}
            Err(e) => return Err(e.into()),
        }
    }
    Err(Refusal::Busy)
}

/// A miscompare at a byte of the data.
pub(super) fn miscompare(at: u64) -> Refusal {
    let sense = Sense::new(SenseKey::Miscompare, Asc::MISCOMPARE_DURING_VERIFY);
    sense.with_information(at).into()
}
