//! Preconditioning: fills a target before a measurement, so that reads find data and not holes.

use super::{Run, Setup, run};
use crate::Result;
use crate::limits::{BLOCK_SIZE_MAX, RUNTIME_MAX};
use crate::targets::{Session, Target};
use crate::workload::{Access, Workload};
use std::time::Duration;

/// I/Os in flight while filling.
const DEPTH: u32 = 8;

/// Writes the first `region` bytes of `target` (all of it if `None`) once, with incompressible bytes, and flushes.
/// Errors: those of [`run()`].
pub async fn fill<T: Target>(
    target: &T,
    region: Option<u64>,
    seed: u64,
    setup: &Setup,
) -> Result<Run> {
    let facts = target.facts();
    let block = u64::from(facts.block_size);
    let bytes = region.unwrap_or(facts.size).min(facts.size) / block * block;
    let block_size = largest_divisor(bytes, facts.block_size, facts.transfer_max);
    let w = Workload {
        access: Access::Sequential,
        read_percent: 0,
        block_size,
        depth: DEPTH,
        ramp: Duration::ZERO,
        runtime: RUNTIME_MAX,
        bytes: Some(bytes),
        region: Some(bytes),
        seed,
        ..Workload::default()
    };
    let done = run(target, &w, setup).await?;
    let session = target.connect(1).await?;
    let flushed = session.flush().await;
    session.close().await;
    flushed.map(|()| done)
}

/// The largest power of two that divides `bytes`, at most the largest I/O of the engine and of the target.
fn largest_divisor(bytes: u64, least: u32, most: u32) -> u32 {
    let mut size = BLOCK_SIZE_MAX;
    while size > least && (size > most || !bytes.is_multiple_of(u64::from(size))) {
        size /= 2;
    }
    size
}
