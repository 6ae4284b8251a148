//! Data check of replay: verifies the blocks of batches that no flush is known to cover.
//!
//! **Owns** the reads of such blocks: sorted by address, merged, many at once on every candidate. **Called by** replay.
//! **Invariants**: a block is intact if its bytes verify on some candidate; memory does not depend on the number of bytes
//! checked; a repair writes only blocks, never bytes between them. `docs/decisions/0121`.

use futures_util::StreamExt;
use futures_util::stream;

use super::Store;
use crate::error::{Error, Result};
use crate::format::{Address, Batch, BlockPtr, BlockSpace, Record, Sequence};

/// Most bytes of one merged read.
const RUN_MAX: u64 = 512 << 10;
/// Most bytes between two blocks of one merged read: a hard disk reads them in less time than it seeks.
const GAP_MAX: u64 = 64 << 10;
/// Reads in flight on one candidate.
const DEPTH: usize = 16;
/// Reads in flight on all candidates. Times [`RUN_MAX`], it bounds the memory.
const DEPTH_ALL: usize = 64;

/// A block of a batch.
struct Block {
    ptr: BlockPtr,
    /// Length in bytes: whole sectors.
    size: u64,
    /// Index of its batch.
    batch: usize,
    /// Number of candidates that have it.
    sound: usize,
}

impl Block {
    fn start(&self) -> u64 {
        self.ptr.offset.0
    }

    fn end(&self) -> u64 {
        self.ptr.offset.0 + self.size
    }
}

/// The blocks of one merged read, by index, and its range.
struct Run {
    blocks: std::ops::Range<usize>,
    at: Address,
    size: u64,
}

/// Merges blocks that are at most `gap` bytes apart into reads of up to [`RUN_MAX`]. The blocks must be sorted by address.
fn runs(blocks: &[Block], gap: u64) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let joined = runs.last().and_then(|run| {
            let end = (run.at.offset.0 + run.size).max(block.end());
            let is_near = block.start() <= run.at.offset.0 + run.size + gap;
            let size = end - run.at.offset.0;
            (run.at.vdev == block.ptr.vdev && is_near && size <= RUN_MAX).then_some(size)
        });
        match (joined, runs.last_mut()) {
            (Some(size), Some(run)) => {
                run.size = size;
                run.blocks.end = index + 1;
            }
            _ => runs.push(Run {
                blocks: index..index + 1,
                at: block.ptr.address(),
                size: block.size,
            }),
        }
    }
    runs
}

/// Result of the data check.
pub(super) struct Checked {
    /// Number of batches before the first one with a block that no candidate has.
    pub(super) sound: usize,
    /// Blocks of those batches that some candidate lacks, by address.
    lacking: Vec<Block>,
    /// Blocks of those batches in rows, by address.
    in_rows: Vec<BlockPtr>,
}

fn is_right(ptr: &BlockPtr, bytes: &[u8]) -> bool {
    ptr.verify(&bytes[..ptr.physical_size as usize]).is_ok()
}

/// Returns the blocks of a merged read that one candidate has, by index.
async fn on_candidate<S: Store>(
    store: &S,
    blocks: &[Block],
    run: &Run,
    candidate: usize,
) -> Vec<usize> {
    let mut bytes = vec![0; run.size as usize];
    let is_read = store.read(candidate, run.at, &mut bytes).await.is_ok();
    let mut sound = Vec::with_capacity(run.blocks.len());
    for index in run.blocks.clone() {
        let block = &blocks[index];
        let size = block.size as usize;
        let is_sound = if is_read {
            let start = (block.start() - run.at.offset.0) as usize;
            is_right(&block.ptr, &bytes[start..start + size])
        } else {
            // If the merged read fails, single blocks may be readable.
            let alone = &mut bytes[..size];
            let read = store.read(candidate, block.ptr.address(), alone).await;
            read.is_ok() && is_right(&block.ptr, alone)
        };
        if is_sound {
            sound.push(index);
        }
    }
    sound
}

/// Checks the data of all batches after `durable`.
pub(super) async fn check<S: Store>(
    store: &S,
    space: BlockSpace,
    batches: &[Batch],
    durable: Sequence,
) -> Checked {
    let mut blocks = Vec::new();
    for (batch, found) in batches.iter().enumerate() {
        if found.header.sequence <= durable {
            continue;
        }
        blocks.extend(
            found
                .records
                .iter()
                .filter_map(Record::fresh)
                .map(|ptr| Block {
                    ptr: *ptr,
                    size: space.of_block(ptr),
                    batch,
                    sound: 0,
                }),
        );
    }
    blocks.sort_unstable_by_key(|b| (b.ptr.vdev, b.ptr.offset));
    let (mut in_rows, mut blocks): (Vec<Block>, Vec<Block>) =
        blocks.into_iter().partition(|b| store.has_rows(b.ptr.vdev));
    let checks = in_rows.iter().map(|block| store.is_sound(&block.ptr));
    let sound: Vec<bool> = stream::iter(checks).buffered(DEPTH).collect().await;
    for (block, sound) in in_rows.iter_mut().zip(sound) {
        block.sound = sound.into();
    }
    let (runs, candidates) = (runs(&blocks, GAP_MAX), store.candidates());
    let each = runs
        .iter()
        .flat_map(|run| (0..candidates).map(move |candidate| (run, candidate)));
    let reads = each.map(|(run, candidate)| on_candidate(store, &blocks, run, candidate));
    let depth = DEPTH.saturating_mul(candidates).clamp(1, DEPTH_ALL);
    let found: Vec<Vec<usize>> = stream::iter(reads).buffer_unordered(depth).collect().await;
    for index in found.into_iter().flatten() {
        blocks[index].sound += 1;
    }
    let all = blocks.iter().chain(&in_rows);
    let lost = all.filter(|b| b.sound == 0).map(|b| b.batch);
    let sound = lost.min().unwrap_or(batches.len());
    blocks.retain(|b| b.batch < sound && b.sound < candidates);
    let of_sound = in_rows.iter().filter(|b| b.batch < sound);
    Checked {
        sound,
        in_rows: of_sound.map(|b| b.ptr).collect(),
        lacking: blocks,
    }
}

/// Rewrites blocks that some candidate lacks from a candidate that has them, and torn rows. Returns their number.
///
/// # Errors
/// [`Error::Device`] if a block can no longer be read, or cannot be written.
pub(super) async fn repair<S: Store>(store: &S, checked: &Checked) -> Result<u64> {
    let blocks = &checked.lacking;
    let runs = runs(blocks, 0);
    let writes = runs
        .iter()
        .map(|run| repair_run(store, &blocks[run.blocks.clone()], run));
    let mut writes = stream::iter(writes).buffer_unordered(DEPTH);
    while let Some(written) = writes.next().await {
        written?;
    }
    Ok(blocks.len() as u64 + store.mend_rows(&checked.in_rows).await?)
}

/// Rewrites adjacent blocks of one merged read.
async fn repair_run<S: Store>(store: &S, blocks: &[Block], run: &Run) -> Result<()> {
    let mut good = vec![0; run.size as usize];
    let mut missing: Vec<&Block> = blocks.iter().collect();
    let place = |block: &Block| {
        let start = (block.start() - run.at.offset.0) as usize;
        start..start + block.size as usize
    };
    for candidate in 0..store.candidates() {
        let mut bytes = vec![0; run.size as usize];
        let is_read = store.read(candidate, run.at, &mut bytes).await.is_ok();
        let mut left = Vec::new();
        for block in missing {
            let place = place(block);
            if !is_read {
                let (at, alone) = (block.ptr.address(), &mut bytes[place.clone()]);
                if store.read(candidate, at, alone).await.is_err() {
                    left.push(block);
                    continue;
                }
            }
            match is_right(&block.ptr, &bytes[place.clone()]) {
                true => good[place.clone()].copy_from_slice(&bytes[place]),
                false => left.push(block),
            }
        }
        missing = left;
    }
    if !missing.is_empty() {
        return Err(Error::Device);
    }
    store.write(run.at, &good).await
}
