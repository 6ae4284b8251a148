//! Sparse contents of a file.
//!
//! **Owns** [`Blocks`]. **Called by** the operations on contents. **Invariants**: a byte that is in no block is zero; bytes
//! behind the end of the file are zero or in no block.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::file::Seek;

/// Unit of allocation and of holes, bytes.
pub(super) const BLOCK: u64 = 4096;

type Block = Box<[u8; BLOCK as usize]>;

/// Blocks of a file, by number.
#[derive(Default)]
pub(super) struct Blocks(BTreeMap<u64, Block>);

/// The parts of a range by block: number of the block, and the part's place in it.
fn parts(range: Range<u64>) -> impl Iterator<Item = (u64, Range<usize>)> {
    let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
    blocks.map(move |block| {
        let first = range.start.max(block * BLOCK) - block * BLOCK;
        let end = range.end.min((block + 1) * BLOCK) - block * BLOCK;
        (block, first as usize..end as usize)
    })
}

impl Blocks {
    /// Number of blocks.
    pub(super) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// Number of blocks that a write of this range adds.
    pub(super) fn missing(&self, range: Range<u64>) -> u64 {
        parts(range)
            .filter(|(block, _)| !self.0.contains_key(block))
            .count() as u64
    }

    /// The bytes of a range, which the caller bounds.
    pub(super) fn read(&self, range: Range<u64>) -> Vec<u8> {
        let mut out = Vec::with_capacity((range.end - range.start) as usize);
        for (block, part) in parts(range) {
            match self.0.get(&block) {
                Some(data) => out.extend_from_slice(&data[part]),
                None => out.resize(out.len() + part.len(), 0),
            }
        }
        out
    }

    /// Writes bytes, and adds the blocks that are missing.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        for (block, part) in parts(offset..offset + bytes.len() as u64) {
            let (now, later) = rest.split_at(part.len());
            let empty = || Box::new([0; BLOCK as usize]);
            self.0.entry(block).or_insert_with(empty)[part].copy_from_slice(now);
            rest = later;
        }
    }

    /// Zeroes a range: removes whole blocks, zeroes parts of others. Returns the number of removed blocks.
    pub(super) fn zero(&mut self, range: Range<u64>) -> u64 {
        let touched = range.start / BLOCK..range.end.div_ceil(BLOCK).max(range.start / BLOCK);
        let numbers: Vec<u64> = self.0.range(touched).map(|(number, _)| *number).collect();
        let before = self.count();
        for block in numbers {
            let first = range.start.max(block * BLOCK) - block * BLOCK;
            let end = range.end.min((block + 1) * BLOCK) - block * BLOCK;
            if end - first == BLOCK {
                self.0.remove(&block);
            } else if let Some(data) = self.0.get_mut(&block) {
                data[first as usize..end as usize].fill(0);
            }
        }
        before - self.count()
    }

    /// The first byte from `offset` on, below `size`, that is in a block or in a hole.
    pub(super) fn seek(&self, offset: u64, size: u64, to: Seek) -> Option<u64> {
        let found = match to {
            Seek::Data => {
                let (block, _) = self.0.range(offset / BLOCK..).next()?;
                offset.max(block * BLOCK)
            }
            Seek::Hole => {
                let first = offset / BLOCK;
                let full = self.0.range(first..).map(|(block, _)| *block);
                let run = full.zip(first..).take_while(|(have, want)| have == want);
                offset.max((first + run.count() as u64) * BLOCK)
            }
        };
        (found < size).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZE: u64 = 6 * BLOCK;

    proptest! {
        #[test]
        fn blocks_agree_with_an_array(
            steps in prop::collection::vec((any::<bool>(), 0..SIZE, 0..2 * BLOCK, 1..255_u8), 1..20),
        ) {
            let (mut blocks, mut model) = (Blocks::default(), vec![0; SIZE as usize]);
            for (is_write, start, len, byte) in steps {
                let end = (start + len).min(SIZE);
                let part = start as usize..end as usize;
                let before = blocks.count();
                if is_write {
                    let missing = blocks.missing(start..end);
                    blocks.write(start, &vec![byte; part.len()]);
                    model[part].fill(byte);
                    prop_assert_eq!(blocks.count(), before + missing);
                } else {
                    let removed = blocks.zero(start..end);
                    model[part].fill(0);
                    prop_assert_eq!(blocks.count(), before - removed);
                }
            }
            prop_assert_eq!(&blocks.read(0..SIZE), &model);
            for offset in (0..SIZE).step_by(1000) {
                let data = blocks.seek(offset, SIZE, Seek::Data).unwrap_or(SIZE);
                prop_assert!(model[offset as usize..data as usize].iter().all(|b| *b == 0));
                let hole = blocks.seek(offset, SIZE, Seek::Hole).unwrap_or(SIZE);
                let end = (hole / BLOCK * BLOCK + BLOCK).min(SIZE);
                prop_assert!(hole >= offset);
                prop_assert!(hole == SIZE || model[hole as usize..end as usize].iter().all(|b| *b == 0));
            }
        }
    }
}
