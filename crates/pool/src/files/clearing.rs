//! Clearing parts of files: punched holes, cut ends, and bytes behind an old size.
//!
//! **Owns** the new contents of records of which a part is cleared. **Called by** the store, in the turn of the file.
//! **Invariants**: a file has no more space after it was cleared than before, except that a small file grows to a whole unit; so
//! no quota refuses it. Cleared bytes and the inode become visible under one lock.

use std::ops::Range;

use backend::file::FileResult;

use super::FileStore;
use super::contents::used;
use super::transactions::{check_quotas, check_usable, cost};
use super::used::unless_lost;
use crate::Result;
use crate::block_reads::Caching;
use crate::dataset::{LAZY_BYTES, Location, RECORDS_END, block_keys, blocks_of, data_keys};
use crate::filesystem::Transaction;
use crate::format::filesystem::{BLOCK_SIZE, Inode, InodeFlags};
use crate::format::{Key, ObjectId};
use crate::record::Contents;
use io::sync::lock;

/// Blocks of which bytes are cleared while their record stays as it is.
#[derive(Default)]
struct ClearedBlocks {
    /// New contents; `None` removes the block.
    blocks: Vec<(Key, Option<Contents>)>,
    /// Bytes of space of the removed blocks: those behind the end of the file took none.
    freed: u64,
}

impl ClearedBlocks {
    /// Bytes of the new contents.
    fn bytes(&self) -> u64 {
        let contents = self.blocks.iter().filter_map(|(_, c)| c.as_ref());
        contents.map(|c| c.len() as u64).sum()
    }
}

impl FileStore {
    /// Makes bytes zero and applies a transaction.
    pub(super) async fn clear_bytes(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        transaction: Transaction,
    ) -> FileResult<()> {
        self.come().await?;
        self.begin_changes().await?;
        let mut old = self.counted_inode(object).await?;
        let size = self.record_size(object);
        let bytes = bytes.start..bytes.end.min(RECORDS_END.saturating_mul(size));
        let (whole, edges) = self.bytes(object).whole_records(&bytes);
        let cost = cost(transaction.bytes());
        let mut admitted = self.admit_bytes(edges.len() as u64 * size + cost).await?;
        let zeroes = vec![0; size as usize];
        let mut changed = Vec::with_capacity(edges.len());
        let mut cleared = ClearedBlocks::default();
        for edge in edges {
            let record = edge.start / size;
            let part = (edge.start, &zeroes[..(edge.end - edge.start) as usize]);
            let new = self.make(object, record..record + 1, &old, part);
            let new = new.await?;
            let grows = new.after > new.before;
            let by_block = grows
                && self
                    .clear_blocks(object, old.size, part, &mut cleared)
                    .await?;
            if !by_block {
                changed.push(new);
            }
        }
        let freed = self.count_part(object, &old, whole.clone()).await;
        let freed = unless_lost(freed)?.unwrap_or_else(|| {
            old.flags = old.flags.without(InodeFlags::COUNTED);
            0
        });
        let before = changed.iter().map(|new| new.before).sum::<u64>() + freed + cleared.freed;
        let after: u64 = changed.iter().map(|new| new.after).sum();
        let used = used(&old, before, after);
        let transaction = transaction.with_used(object, (old.used, used), old.flags);
        let (replaced, wake) = {
            let mut state = lock(&self.0.state);
            check_usable(&state)?;
            check_quotas(&state, &transaction)?;
            let for_transaction = admitted.split(cost);
            let mut replaced = (admitted.take() - after - cleared.bytes()) as usize;
            if !changed.is_empty() || !whole.is_empty() || !cleared.blocks.is_empty() {
                state.written(object, Inode { used, ..old }, &old);
            }
            for new in changed {
                replaced += self.put(&mut state, new, false);
            }
            for (key, contents) in cleared.blocks {
                replaced += match contents {
                    Some(contents) => state.put_block(key, contents, false),
                    None => state.dirty.zero(key..key.next()),
                };
                self.0.ask(&mut state);
            }
            if !whole.is_empty() {
                let keys = data_keys(object, whole);
                if self.0.settings.has_blocks() {
                    let blocks = blocks_of(&keys, self.0.settings.record_size);
                    replaced += state.dirty.zero(blocks);
                }
                replaced += state.dirty.zero(keys);
                self.0.ask(&mut state);
            }
            self.note_freed(before.saturating_sub(after), replaced);
            if !transaction.edits().is_empty() {
                replaced += self.stage(&mut state, transaction, for_transaction);
            }
            (replaced, state.dirty.bytes() >= LAZY_BYTES)
        };
        self.told(replaced, wake);
        Ok(())
    }

    /// Clears `part` of a stored record block by block: with blocks behind its stored end, it would grow by the holes between them
    /// if it were made whole. Bytes of the file behind `visible` are zero. Returns `false`, and does nothing, if the record is
    /// dirty, or stored with its inode: such a record takes the change into its contents, and grows to a whole unit at most.
    async fn clear_blocks(
        &self,
        object: ObjectId,
        visible: u64,
        part: (u64, &[u8]),
        cleared: &mut ClearedBlocks,
    ) -> Result<bool> {
        let size = self.record_size(object);
        let bytes = part.0..part.0 + part.1.len() as u64;
        let record = bytes.start / size;
        let blocks = bytes.start / BLOCK_SIZE..bytes.end.div_ceil(BLOCK_SIZE);
        let _reader = self.0.shared.readers.enter();
        let locations = self.bytes(object).locations(record..record + 1).await?;
        if matches!(locations[0], Location::Known(_)) {
            return Ok(false);
        }
        let stored_end = record * size + locations[0].len() as u64;
        let present = self
            .0
            .locate(block_keys(object, blocks.clone()), Caching::NONE);
        for (block, old) in blocks.zip(present.await?) {
            let unit = block * BLOCK_SIZE..(block + 1) * BLOCK_SIZE;
            let is_behind = unit.start >= stored_end;
            if is_behind && old.is_zero() {
                continue;
            }
            let is_whole = bytes.start <= unit.start && unit.end.min(visible) <= bytes.end;
            let contents = if is_behind && is_whole {
                if unit.start < visible {
                    cleared.freed += BLOCK_SIZE;
                }
                None
            } else {
                let kept = self.bytes(object).laid_over(unit, visible, part).await?;
                Some(Contents::copied(kept, self.0.packer()))
            };
            let key = block_keys(object, block..block).start;
            cleared.blocks.push((key, contents));
        }
        Ok(true)
    }
}
