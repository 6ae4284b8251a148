//! Unproven data: the data of batches that no flush is known to cover, which replay would have to read.
//!
//! **Owns** the cost of reading that data, by batch. **Called by** the journal's writer. **Invariant**: a sealed batch
//! records the last batch that was flushed by then. So replay of a journal that ends with this batch checks at most the
//! batches counted here when it was sealed. `docs/decisions/0121`.

use std::collections::VecDeque;

use crate::format::{Address, BlockSpace, Record, Sequence, VdevOffset};

/// Most unproven data that replay may have to read, as bytes that a disk reads sequentially in the same time.
pub const UNPROVEN_MAX: u64 = 128 << 20;
/// Bytes that a hard disk reads sequentially in the time of one seek.
const SEEK_BYTES: u64 = 256 << 10;
/// The same for flash, which serves many reads at once: the cost of a small read beyond its bytes.
const FLASH_READ_BYTES: u64 = 8 << 10;

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Unproven {
    /// Cost of each batch with unproven data, oldest first.
    batches: VecDeque<(Sequence, u64)>,
    /// Their sum.
    cost: u64,
    /// End of the last block.
    end: Option<Address>,
    /// Whether a member is a hard disk.
    seeks: bool,
}

impl Unproven {
    /// Sets whether blocks that are not adjacent cost seeks.
    pub(super) fn set_seeks(&mut self, seeks: bool) {
        self.seeks = seeks;
    }

    /// Adds the data of these records to a batch.
    pub(super) fn add(&mut self, batch: Sequence, records: &[Record], space: BlockSpace) {
        let apart = match self.seeks {
            true => SEEK_BYTES,
            false => FLASH_READ_BYTES,
        };
        let mut cost = 0;
        for ptr in records.iter().filter_map(Record::fresh) {
            let size = space.of_block(ptr);
            let seek = match self.end == Some(ptr.address()) {
                true => 0,
                false => apart,
            };
            cost += size + seek;
            self.end = Some(Address {
                offset: VdevOffset(ptr.offset.0 + size),
                ..ptr.address()
            });
        }
        if cost == 0 {
            return;
        }
        self.cost += cost;
        match self.batches.back_mut() {
            Some((last, sum)) if *last == batch => *sum += cost,
            _ => self.batches.push_back((batch, cost)),
        }
    }

    /// Removes all batches up to this one, which were flushed.
    pub(super) fn flushed(&mut self, up_to: Sequence) {
        while let Some((_, cost)) = self.batches.pop_front_if(|(batch, _)| *batch <= up_to) {
            self.cost -= cost;
        }
    }

    /// Cost of reading all unproven data, bytes.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }
}
