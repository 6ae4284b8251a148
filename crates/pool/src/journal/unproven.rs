//! The data that replay would have to read: that of batches which no flush is known to cover.
//!
//! **Owns** the cost of reading that data, by batch. **Called by** the journal's writing end. **Invariant**: a batch that is sealed
//! carries how far flushes came by then, so replay of a journal that ends with it checks the batches counted here when it was
//! sealed, or fewer. `docs/decisions/0121`.

use std::collections::VecDeque;

use crate::format::{Address, Record, Sequence, VdevOffset};

/// The most that replay may have to read of data that no flush is known to cover: the bytes that a disk reads in sequence in
/// the same time.
pub const UNPROVEN_MAX: u64 = 128 << 20;
/// Bytes that a hard disk reads in sequence in the time of one seek.
const SEEK_BYTES: u64 = 256 << 10;
/// The same for flash, which answers many reads at a time: the cost of a small read above that of its bytes.
const FLASH_READ_BYTES: u64 = 8 << 10;

/// See the module header.
#[derive(Debug, Default)]
pub(super) struct Unproven {
    /// The cost of each batch that has some, oldest first.
    batches: VecDeque<(Sequence, u64)>,
    /// Their sum.
    cost: u64,
    /// Where the last block ends.
    end: Option<Address>,
    /// Some member is a hard disk.
    seeks: bool,
}

impl Unproven {
    /// From now on blocks that do not follow each other cost seeks, or do not.
    pub(super) fn set_seeks(&mut self, seeks: bool) {
        self.seeks = seeks;
    }

    /// A batch gets these records.
    pub(super) fn add(&mut self, batch: Sequence, records: &[Record], sector: u32) {
        let apart = match self.seeks {
            true => SEEK_BYTES,
            false => FLASH_READ_BYTES,
        };
        let mut cost = 0;
        for ptr in records.iter().filter_map(Record::fresh) {
            let size = u64::from(ptr.physical_size.next_multiple_of(sector));
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

    /// All batches up to this one were flushed.
    pub(super) fn flushed(&mut self, up_to: Sequence) {
        while let Some((_, cost)) = self.batches.pop_front_if(|(batch, _)| *batch <= up_to) {
            self.cost -= cost;
        }
    }

    /// What reading all of it would cost.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }
}
