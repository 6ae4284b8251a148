//! The data check of replay: blocks that were written side by side with batches which no flush is known to cover.
//!
//! **Owns** how such blocks are read: sorted by address, merged, many reads at once on every side. **Called by** replay.
//! **Invariants**: a block is sound if its bytes verify on some side; memory does not grow with the number of bytes that
//! are checked; only bytes of blocks are written again, never those between them. `docs/decisions/0121`.

use futures_util::StreamExt;
use futures_util::stream;

use super::Store;
use crate::error::{Error, Result};
use crate::format::{Address, Batch, BlockPtr, Record, Sequence};

/// Bytes of one merged read.
const RUN_MAX: u64 = 512 << 10;
/// Bytes between two blocks that are read rather than skipped: a hard disk reads them in less time than it seeks.
const GAP_MAX: u64 = 64 << 10;
/// Reads under way on one side.
const DEPTH: usize = 16;
/// Reads under way on all sides: bounds memory, times [`RUN_MAX`].
const DEPTH_ALL: usize = 64;

/// A block of a batch.
struct Block {
    ptr: BlockPtr,
    /// Bytes: whole sectors.
    size: u64,
    /// The index of its batch.
    batch: usize,
    /// How many sides have it.
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

/// Blocks that one read takes, by index, and what it reads.
struct Run {
    blocks: std::ops::Range<usize>,
    at: Address,
    size: u64,
}

/// Blocks that lie at most `gap` bytes apart, in reads of up to [`RUN_MAX`]. They are sorted by address.
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

/// What the data check found.
pub(super) struct Checked {
    /// Batches before the first one with a block that no side has.
    pub(super) sound: usize,
    /// Blocks of those batches that a side lacks, by address.
    lacking: Vec<Block>,
}

fn is_right(ptr: &BlockPtr, bytes: &[u8]) -> bool {
    ptr.verify(&bytes[..ptr.physical_size as usize]).is_ok()
}

/// Which blocks of a run one side has.
async fn on_side<S: Store>(store: &S, blocks: &[Block], run: &Run, side: usize) -> Vec<usize> {
    let mut bytes = vec![0; run.size as usize];
    let is_read = store.read(side, run.at, &mut bytes).await.is_ok();
    let mut sound = Vec::with_capacity(run.blocks.len());
    for index in run.blocks.clone() {
        let block = &blocks[index];
        let size = block.size as usize;
        let is_sound = if is_read {
            let start = (block.start() - run.at.offset.0) as usize;
            is_right(&block.ptr, &bytes[start..start + size])
        } else {
            // the others of the run may be readable
            let alone = &mut bytes[..size];
            let read = store.read(side, block.ptr.address(), alone).await;
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
    sector: u32,
    batches: &[Batch],
    durable: Sequence,
) -> Checked {
    let mut blocks = Vec::new();
    for (batch, found) in batches.iter().enumerate() {
        if found.header.sequence <= durable {
            continue;
        }
        blocks.extend(found.records.iter().filter_map(Record::fresh).map(|ptr| {
            let size = u64::from(ptr.physical_size).next_multiple_of(u64::from(sector));
            Block {
                ptr: *ptr,
                size,
                batch,
                sound: 0,
            }
        }));
    }
    blocks.sort_unstable_by_key(|b| (b.ptr.vdev, b.ptr.offset));
    let (runs, sides) = (runs(&blocks, GAP_MAX), store.sides());
    let each = runs
        .iter()
        .flat_map(|run| (0..sides).map(move |side| (run, side)));
    let reads = each.map(|(run, side)| on_side(store, &blocks, run, side));
    let depth = DEPTH.saturating_mul(sides).clamp(1, DEPTH_ALL);
    let found: Vec<Vec<usize>> = stream::iter(reads).buffer_unordered(depth).collect().await;
    for index in found.into_iter().flatten() {
        blocks[index].sound += 1;
    }
    let lost = blocks.iter().filter(|b| b.sound == 0).map(|b| b.batch);
    let sound = lost.min().unwrap_or(batches.len());
    blocks.retain(|b| b.batch < sound && b.sound < sides);
    Checked {
        sound,
        lacking: blocks,
    }
}

/// Writes blocks that a side lacks again, from one that has them. How many there were.
///
/// # Errors
/// [`Error::Device`] if a block cannot be read any more, or cannot be written.
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
    Ok(blocks.len() as u64)
}

/// `blocks` lie one behind the other, without gaps.
async fn repair_run<S: Store>(store: &S, blocks: &[Block], run: &Run) -> Result<()> {
    let mut good = vec![0; run.size as usize];
    let mut missing: Vec<&Block> = blocks.iter().collect();
    let place = |block: &Block| {
        let start = (block.start() - run.at.offset.0) as usize;
        start..start + block.size as usize
    };
    for side in 0..store.sides() {
        let mut bytes = vec![0; run.size as usize];
        let is_read = store.read(side, run.at, &mut bytes).await.is_ok();
        let mut left = Vec::new();
        for block in missing {
            let place = place(block);
            if !is_read {
                let (at, alone) = (block.ptr.address(), &mut bytes[place.clone()]);
                if store.read(side, at, alone).await.is_err() {
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
