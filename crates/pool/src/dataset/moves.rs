//! Records that are written again with the contents that they have, so that their rows become free.
//!
//! A move reads a record and remembers where it was found. When the record's new block gets its pointer, the dataset's lock is
//! held, and the record must still be found at the same place: any newer change of it is in a place that is looked at first.
//!
//! **Owns** the reading, and that comparison. **Called by** the row mover and by write-back. **Invariants**: a record that was
//! changed since it was read is not written; a record without a right copy is not written; the stored bytes of a record
//! stay as they are, so that its space, and the space of its file, do not change. `docs/decisions/0165`.

use super::OpenDataset;
use super::keys::blocks_of;
use super::read::{Location, Sources};
use super::state::State;
use crate::block_reads::Caching;
use crate::compress::unpack;
use crate::format::filesystem::{BLOCK_SIZE, KIND_DATA};
use crate::format::{Birth, Block, BlockPtr, Key};
use crate::lost::LostBlock;
use crate::record::Contents;
use crate::shared::Shared;
use crate::{Error, Result};
use io::sync::lock;

/// A record that is to be written again.
pub(crate) struct Move {
    pub(crate) key: Key,
    /// Its block.
    ptr: BlockPtr,
    /// Where the record and the blocks that win over it were found, by key.
    found: [Sources; 2],
    /// Whether blocks of a file win over it: they become part of it.
    has_blocks: bool,
    pub(crate) contents: Contents,
}

impl Move {
    /// Its block.
    pub(crate) fn block(&self) -> &BlockPtr {
        &self.ptr
    }

    /// The birth of the record's contents, before and after the move into a block that is placed in the epoch `placed`.
    pub(crate) fn births(&self, placed: Birth) -> (Birth, Birth) {
        let before = self.ptr.birth;
        // with blocks of other births, the contents are those of this moment
        match self.has_blocks || !BlockPtr::keeps(before, placed) {
            true => (before, placed),
            false => (before, before),
        }
    }
}

/// Where a record was found.
struct Found {
    sources: [Sources; 2],
    block: Block,
    has_blocks: bool,
}

impl OpenDataset {
    /// Reads the record under `key`, whose block is `ptr`. `None` if it has another block, or none, or if it has no right copy,
    /// which is noted. The caller holds no reader.
    ///
    /// # Errors
    /// Other errors than damage.
    pub(crate) async fn begin_move(&self, key: Key, ptr: BlockPtr) -> Result<Option<Move>> {
        let _reader = self.shared.readers.enter();
        let Some(found) = self.find_for_move(key, &ptr).await? else {
            return Ok(None);
        };
        let contents = match found.has_blocks {
            true => self.read_with_blocks(key, &ptr).await,
            false => self.read_stored(key, &found.block).await,
        };
        match contents {
            Ok(contents) => Ok(Some(Move {
                key,
                ptr,
                found: found.sources,
                has_blocks: found.has_blocks,
                contents,
            })),
            Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Looks again where the record of a move is. Returns whether it is in the same block, and has no blocks: a checkpoint may have
    /// merged it into the tree.
    ///
    /// # Errors
    /// As [`OpenDataset::begin_move`].
    pub(crate) async fn renew_move(&self, of: &mut Move) -> Result<bool> {
        let _reader = self.shared.readers.enter();
        let found = self.find_for_move(of.key, &of.ptr).await?;
        let found = found.filter(|found| !found.has_blocks && !of.has_blocks);
        let is_same = found.is_some();
        if let Some(found) = found {
            of.found = found.sources;
        }
        Ok(is_same)
    }

    /// Where a record is, if its block is `ptr`, and the blocks that win over it do not reach behind its stored end.
    async fn find_for_move(&self, key: Key, ptr: &BlockPtr) -> Result<Option<Found>> {
        let record = key..key.next();
        let blocks = match key.kind() == KIND_DATA && self.settings.has_blocks() {
            true => blocks_of(&record, self.settings.record_size),
            false => key..key,
        };
        let sources = self.sources([record, blocks]);
        let [record, blocks] = sources.clone();
        let located = async {
            let record = self.resolve(record, Caching::NONE).await?;
            Ok((record, self.resolve(blocks, Caching::NONE).await?))
        };
        let (record, blocks) = match located.await {
            Ok(found) => found,
            Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => return Ok(None),
            Err(e) => return Err(e),
        };
        let [Location::Block(block)] = &record[..] else {
            return Ok(None);
        };
        let stored = u64::from(ptr.logical_size).div_ceil(BLOCK_SIZE) as usize;
        let last = blocks.iter().rposition(|block| !block.is_zero());
        if block.ptr() != ptr || last.is_some_and(|last| last >= stored) {
            return Ok(None);
        }
        let has_blocks = last.is_some();
        Ok(Some(Found {
            sources,
            block: block.clone(),
            has_blocks,
        }))
    }

    /// The contents of a block, with the stored form that it has.
    async fn read_stored(&self, key: Key, block: &Block) -> Result<Contents> {
        let ptr = block.ptr();
        let Shared {
            vdevs,
            read_buffers,
            lost,
            ..
        } = &*self.shared;
        let read = vdevs.read_to(ptr, read_buffers).await;
        if let Err(e) = &read {
            lost.note(e, LostBlock::record(self.id, key, *ptr));
        }
        let read = read?;
        lost.is_right(ptr);
        let stored = &read[..ptr.physical_size as usize];
        let mut bytes = vec![0; ptr.logical_size as usize];
        unpack(ptr.compression, stored, &mut bytes).map_err(|defect| Error::Corrupt {
            at: ptr.address(),
            defect,
        })?;
        Ok(Contents::of_block(bytes, block, stored, self.packer()))
    }

    /// The contents of a record of a file, up to its stored end, with the blocks that win over it.
    async fn read_with_blocks(&self, key: Key, ptr: &BlockPtr) -> Result<Contents> {
        let size = u64::from(self.settings.record_size_of(key.object()));
        let mut bytes = vec![0; ptr.logical_size as usize];
        let at = key.offset() * size;
        self.bytes(key.object()).read_into(at, &mut bytes).await?;
        Ok(Contents::copied(bytes, self.packer()))
    }

    /// Whether the record of a move, and the blocks that win over it, are still where they were found. The caller has the lock.
    pub(crate) fn is_unchanged(&self, state: &State, of: &Move) -> bool {
        let both = of.found.iter();
        both.flat_map(|sources| &sources.0)
            .all(|(key, before)| state.source(*key).is_still(before))
    }

    /// Whether a snapshot is pending, or the dataset has ended: no record is moved then.
    pub(crate) fn refuses_moves(&self) -> bool {
        let state = lock(&self.state);
        state.pending_snapshot.is_some() || state.demands.check().is_err()
    }
}
