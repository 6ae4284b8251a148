//! Reads of blocks, with verification and repair from other members.
//!
//! **Owns** the choice of the member to read, and the handling of failed reads. **Called by** the pool, on any shard.
//! **Invariants**: no data is returned that fails its pointer's checksum; each member is tried once per block; repair happens
//! while the reader still has the pointer, so that the place cannot have been reused.

use std::sync::Arc;

use io::{BufPool, IoBuf};

use super::Vdevs;
use super::area::filled;
use super::copies::PlacedBlock;
use super::geometry::DATA_START;
use super::leaf::Leaf;
use super::limits::RUN_SIZE_MAX;
use super::raidz_scrub::BlockScrub;
use super::rows::Rows;
use super::top::TopVdev;
use crate::error::{Error, Result};
use crate::format::{Address, Block, BlockPtr, Defect, PART_SIZE_MIN, VdevOffset};
use crate::written::WriteClass;

impl Vdevs {
    /// Bytes that a block takes on its vdev.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the pointer is to no place on this pool's vdevs.
    pub(crate) fn stored_size(&self, ptr: &BlockPtr) -> Result<usize> {
        let corrupt = |field, value| Error::Corrupt {
            at: ptr.address(),
            defect: Defect::Field { field, value },
        };
        let Some(top) = self.top(ptr.vdev) else {
            return Err(corrupt("block pointer's vdev", ptr.vdev.0.into()));
        };
        let size = self.allocated(ptr) as usize;
        if size > RUN_SIZE_MAX {
            return Err(corrupt(
                "block pointer's physical size",
                ptr.physical_size.into(),
            ));
        }
        let is_journal = top.rows().is_some_and(|rows| rows.is_journal(ptr.offset.0));
        if !self.holds(ptr.address(), size) || is_journal {
            return Err(corrupt("block pointer's offset", ptr.offset.0));
        }
        Ok(size)
    }

    /// Returns the verified block of `ptr`: whole sectors, of which the first `physical_size` bytes are the block. Members
    /// that cannot be read or have a wrong copy get a right one.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if no member has it; [`Error::Unreadable`] if none could be read.
    pub async fn read(&self, ptr: &BlockPtr) -> Result<IoBuf> {
        self.read_block(ptr, None, &io::pool()).await
    }

    /// As [`Vdevs::read`], without repair. For older checkpoints, whose blocks' places may have been reused.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    pub(crate) async fn peek(&self, ptr: &BlockPtr) -> Result<IoBuf> {
        let size = self.stored_size(ptr)?;
        let placed = self.placed(ptr)?;
        let top = &self.stripe[usize::from(placed.at.vdev.0)];
        if let Some(rows) = top.rows() {
            let found = Box::pin(top.read_in_rows(&rows, &placed, size, &io::pool())).await;
            return found.map(|(read, _wrong)| read);
        }
        let found = self.find_block(&placed, size, None, &io::pool()).await;
        let (read, _lacking) = found?;
        Ok(read)
    }

    /// As [`Vdevs::read`], into a buffer from `buffers`: for tasks that must not wait for buffers of clients.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    pub(crate) async fn read_to(&self, ptr: &BlockPtr, buffers: &BufPool) -> Result<IoBuf> {
        self.read_block(ptr, None, buffers).await
    }

    async fn read_block(
        &self,
        ptr: &BlockPtr,
        first: Option<&Arc<Leaf>>,
        buffers: &BufPool,
    ) -> Result<IoBuf> {
        let size = self.stored_size(ptr)?;
        let placed = self.placed(ptr)?;
        self.read_placed(&placed, size, first, buffers).await
    }

    /// As [`Vdevs::read`], at this address.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    pub(crate) async fn read_at(&self, placed: &PlacedBlock) -> Result<IoBuf> {
        let size = self.stored_size(&placed.ptr)?;
        self.read_placed(placed, size, None, &io::pool()).await
    }

    async fn read_placed(
        &self,
        placed: &PlacedBlock,
        size: usize,
        first: Option<&Arc<Leaf>>,
        buffers: &BufPool,
    ) -> Result<IoBuf> {
        let top = &self.stripe[usize::from(placed.at.vdev.0)];
        if let Some(rows) = top.rows() {
            return Box::pin(self.read_block_in_rows(top, &rows, placed, size, buffers)).await;
        }
        let (bytes, wrong) = self.find_block(placed, size, first, buffers).await?;
        let offset = DATA_START + placed.at.offset.0;
        self.heal(top, wrong, offset, &bytes).await;
        Ok(bytes)
    }

    /// Reads a block of a raidz, and rewrites its wrong units.
    async fn read_block_in_rows(
        &self,
        top: &TopVdev,
        rows: &Rows,
        placed: &PlacedBlock,
        size: usize,
        buffers: &BufPool,
    ) -> Result<IoBuf> {
        let (bytes, wrong) = top.read_in_rows(rows, placed, size, buffers).await?;
        if !self.read_only {
            top.mend_units(wrong).await;
        }
        Ok(bytes)
    }

    /// Reads a block of a mirror, from `first` if given. Returns it, and the members that are in and had no right copy.
    async fn find_block(
        &self,
        placed: &PlacedBlock,
        size: usize,
        first: Option<&Arc<Leaf>>,
        buffers: &BufPool,
    ) -> Result<(IoBuf, Vec<Arc<Leaf>>)> {
        let PlacedBlock { ptr, at, .. } = placed;
        let top = &self.stripe[usize::from(at.vdev.0)];
        let mut members = top.readable(at.offset);
        if let Some(first) = first {
            members.sort_by_key(|(leaf, _)| !Arc::ptr_eq(leaf, first));
        }
        let offset = DATA_START + at.offset.0;
        let mut buf = None;
        let mut error = Error::Unreadable { at: ptr.address() };
        let mut wrong = Vec::new();
        for (leaf, is_in) in members {
            let into = match buf.take() {
                Some(buf) => buf,
                None => buffers.alloc(size).await,
            };
            let (result, back) = leaf.read(into, offset).await;
            if let (true, Some(bytes)) = (result.is_ok(), &back) {
                let Err(defect) = ptr.verify(&bytes[..ptr.physical_size as usize]) else {
                    let bytes = back.expect("it was just verified");
                    return Ok((bytes, wrong));
                };
                error = Error::Corrupt {
                    at: ptr.address(),
                    defect,
                };
                // A stale member may lack the block; that is no sign of rot.
                if is_in {
                    leaf.count_checksum_error();
                }
            }
            buf = back;
            if is_in {
                wrong.push(leaf);
            }
        }
        top.fault();
        Err(error)
    }

    /// Reads a block from every member that is in, and rewrites wrong or unreadable copies. Returns the number of such
    /// copies; of a raidz, of such units. Parity is verified in rows that have no other block.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    pub async fn scrub(&self, ptr: &BlockPtr) -> Result<usize> {
        self.scrub_block(ptr).await.map(|done| done.repaired)
    }

    /// As [`Vdevs::scrub`]. Also returns the rows of a raidz in which something else is wrong.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    pub(crate) async fn scrub_block(&self, ptr: &BlockPtr) -> Result<BlockScrub> {
        self.scrub_placed(&self.placed(ptr)?).await
    }

    /// As [`Vdevs::scrub_block`], at this address.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    pub(crate) async fn scrub_placed(&self, placed: &PlacedBlock) -> Result<BlockScrub> {
        let ptr = &placed.ptr;
        let size = self.stored_size(ptr)?;
        let top = &self.stripe[usize::from(placed.at.vdev.0)];
        if let Some(rows) = top.rows() {
            let found = Box::pin(top.find_rows(&rows, placed, size)).await?;
            let wrong = found.wrong_units(&rows, true);
            let row = |at| Address {
                vdev: placed.at.vdev,
                offset: VdevOffset(at),
            };
            let done = BlockScrub {
                repaired: wrong.len(),
                doubtful: found.doubtful_rows().into_iter().map(row).collect(),
            };
            if !self.read_only {
                Box::pin(top.mend_units(wrong)).await;
            }
            return Ok(done);
        }
        let offset = DATA_START + placed.at.offset.0;
        let is_right = |buf: &IoBuf| ptr.verify(&buf[..ptr.physical_size as usize]).is_ok();
        let mut wrong = Vec::new();
        let mut good = None;
        // The spare buffer comes from the readers' pool, so that no task waits for a scratch buffer while it has one.
        let mut spare = Some(io::pool().alloc(size).await);
        for leaf in top.members_in() {
            let into = match spare.take() {
                Some(buf) => buf,
                None => self.scratch.alloc(size).await,
            };
            let (result, back) = leaf.read(into, offset).await;
            let is_read = result.is_ok();
            match back.filter(|buf| is_read && is_right(buf)) {
                Some(buf) if good.is_none() => good = Some(buf),
                Some(_) => {}
                None => {
                    if is_read {
                        leaf.count_checksum_error();
                    }
                    wrong.push(leaf);
                }
            }
            if good.is_none() {
                spare = Some(io::pool().alloc(size).await);
            }
        }
        let count = wrong.len();
        match good {
            Some(good) => self.heal(top, wrong, offset, &good).await,
            // Only a stale member may have a right copy. This repairs the others from it.
            None => drop(self.read_at(placed).await?),
        }
        Ok(BlockScrub {
            repaired: count,
            ..BlockScrub::default()
        })
    }

    /// Rewrites the block on the members whose copy is wrong.
    async fn heal(&self, top: &TopVdev, wrong: Vec<Arc<Leaf>>, offset: u64, good: &[u8]) {
        if wrong.is_empty() {
            return;
        }
        if !self.read_only {
            let good = filled(&self.scratch, good).await.into();
            // A write beyond the end would lengthen the file again, with zeroes in place of the lost data.
            for leaf in wrong.into_iter().filter(|leaf| !leaf.is_short()) {
                leaf.repair(&good, offset).await;
            }
        }
        top.fault();
    }

    /// Writes a block to a stale member unless it has the block. Returns whether it lacked the block.
    pub(super) async fn bring(
        &self,
        top: &TopVdev,
        leaf: &Arc<Leaf>,
        placed: &PlacedBlock,
    ) -> Result<bool> {
        let ptr = &placed.ptr;
        let size = self.stored_size(ptr)?;
        if let Some(rows) = top.rows() {
            return Box::pin(self.bring_units(top, &rows, leaf, placed, size)).await;
        }
        let offset = DATA_START + placed.at.offset.0;
        let buf = self.scratch.alloc(size).await;
        let (result, buf) = leaf.read(buf, offset).await;
        let is_right = |buf: &IoBuf| ptr.verify(&buf[..ptr.physical_size as usize]).is_ok();
        if result.is_ok() && buf.as_ref().is_some_and(is_right) {
            return Ok(false);
        }
        drop(buf);
        let good = self.read_placed(placed, size, None, &io::pool()).await?;
        let good = good.into();
        let written = leaf.write(&good, offset, WriteClass::Repair).await;
        if written.is_err() {
            top.miss(leaf);
            return Err(leaf.write_error());
        }
        top.count_write();
        Ok(true)
    }

    /// Writes to a stale member what it lacks of a block's rows. Returns whether it lacked anything.
    async fn bring_units(
        &self,
        top: &TopVdev,
        rows: &Rows,
        leaf: &Arc<Leaf>,
        placed: &PlacedBlock,
        size: usize,
    ) -> Result<bool> {
        let found = top.find_rows(rows, placed, size).await?;
        let lacking = top.lacking_units(rows, leaf, &found).await;
        for (offset, bytes) in &lacking {
            let bytes = filled(&self.scratch, bytes).await.into();
            let written = leaf.write(&bytes, *offset, WriteClass::Repair).await;
            if written.is_err() {
                top.miss(leaf);
                return Err(leaf.write_error());
            }
            top.count_write();
        }
        Ok(!lacking.is_empty())
    }

    /// Reads parts of a block, from byte `from` of it on, into `buf`, whose length is that of these parts. They are verified by their
    /// own checksums. Members of a mirror that cannot be read or have wrong parts get right ones from another member. If no member
    /// has right ones, or a unit of a raidz is wrong, the whole block is read, verified and repaired, as by [`Vdevs::read`].
    /// Returns another buffer if a member kept `buf`.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    ///
    /// # Panics
    /// If the block has no checksums of parts, or the range is not one of whole parts.
    pub(crate) async fn read_parts(
        &self,
        block: &Block,
        from: usize,
        mut buf: IoBuf,
    ) -> Result<IoBuf> {
        let (ptr, len) = (block.ptr(), buf.len());
        let _it_exists = self.stored_size(ptr)?;
        let place = self.placed(ptr)?.at;
        let top = &self.stripe[usize::from(place.vdev.0)];
        let mut spare = None;
        // a sector that is larger than a part would have bytes of others
        if top.sector() <= PART_SIZE_MIN {
            // with the padding of the block's last sector
            buf.set_len(len.next_multiple_of(top.sector() as usize));
            let read = match top.rows() {
                Some(rows) => {
                    let at = place.offset.0 + from as u64;
                    Box::pin(top.read_units(&rows, at, buf)).await
                }
                None => {
                    let at = (place.offset, from);
                    self.find_parts(top, block, at, buf).await
                }
            };
            if let Some(mut read) = read {
                read.set_len(len);
                if block.verify_parts(from, &read).is_ok() {
                    return Ok(read);
                }
                spare = Some(read);
            }
        } else {
            spare = Some(buf);
        }
        let mut buf = match spare {
            Some(buf) => buf,
            None => io::pool().alloc(len).await,
        };
        let whole = self.read_block(ptr, None, &self.scratch).await?;
        buf.copy_from_slice(&whole[from..from + len]);
        Ok(buf)
    }

    /// Reads parts of a block at a place of a mirror into `buf`, whose length is that of their sectors, and repairs them on members that have no
    /// right ones. Returns `None`, or wrong bytes, if no member has right ones; then no error is counted.
    async fn find_parts(
        &self,
        top: &TopVdev,
        block: &Block,
        (place, from): (VdevOffset, usize),
        buf: IoBuf,
    ) -> Option<IoBuf> {
        let ptr = block.ptr();
        let (sectors, offset) = (buf.len(), DATA_START + place.0 + from as u64);
        let bytes = sectors.min(ptr.logical_size as usize - from);
        let mut buf = Some(buf);
        let (mut wrong, mut unreadable) = (Vec::new(), Vec::new());
        for (leaf, is_in) in top.readable(place) {
            let into = match buf.take() {
                Some(buf) => buf,
                None => io::pool().alloc(sectors).await,
            };
            let (result, back) = leaf.read(into, offset).await;
            let lacks = match (&result, &back) {
                (Ok(_), Some(read)) if block.verify_parts(from, &read[..bytes]).is_ok() => {
                    wrong
                        .iter()
                        .for_each(|leaf: &Arc<Leaf>| leaf.count_checksum_error());
                    wrong.append(&mut unreadable);
                    self.heal(top, wrong, offset, back.as_ref()?).await;
                    return back;
                }
                (Ok(_), Some(_)) => &mut wrong,
                _ => &mut unreadable,
            };
            // a stale member may lack the block; that is no sign of rot
            if is_in {
                lacks.push(leaf);
            }
            buf = back;
        }
        buf
    }

    /// Reads adjacent blocks with one operation into a buffer of `buffers`. Each block begins at a sector, right behind the
    /// one before. All are verified; a wrong one is read again, as by [`Vdevs::read`].
    ///
    /// # Errors
    /// As [`Vdevs::read`], for each block that no member has, in order.
    ///
    /// # Panics
    /// If there are no blocks, if they are not adjacent, or if they have more than [`RUN_SIZE_MAX`] bytes together.
    pub async fn read_run(
        &self,
        ptrs: &[BlockPtr],
        buffers: &BufPool,
    ) -> std::result::Result<IoBuf, Vec<Error>> {
        let mut bytes = 0;
        for ptr in ptrs {
            bytes += self.stored_size(ptr).map_err(|e| vec![e])?;
        }
        assert!(bytes <= RUN_SIZE_MAX, "{bytes} bytes in a row");
        let buf = buffers.alloc(bytes).await;
        self.read_run_into(ptrs, buf).await
    }

    /// As [`Vdevs::read_run`], into this buffer, whose length is that of the blocks in whole sectors. Returns another buffer if a
    /// member kept it.
    ///
    /// # Errors
    /// As [`Vdevs::read`], for each block that no member has, in order.
    ///
    /// # Panics
    /// As [`Vdevs::read_run`]; if the buffer has another length.
    pub(crate) async fn read_run_into(
        &self,
        ptrs: &[BlockPtr],
        mut buf: IoBuf,
    ) -> std::result::Result<IoBuf, Vec<Error>> {
        let start = ptrs.first().expect("a block to read");
        let mut ends = Vec::with_capacity(ptrs.len());
        let mut end = 0;
        for ptr in ptrs {
            let adjacent = ptr.vdev == start.vdev && ptr.offset.0 == start.offset.0 + end as u64;
            assert!(adjacent, "{ptr:?} does not follow");
            end += self.stored_size(ptr).map_err(|e| vec![e])?;
            ends.push(end);
        }
        assert_eq!(end, buf.len(), "the buffer takes the blocks");
        let Some(place) = self.place_of_run(ptrs) else {
            // relocated blocks, or copies of blocks of a removed vdev, that do not lie side by side
            return self.read_each(ptrs, &ends, buf).await;
        };
        let top = &self.stripe[usize::from(place.vdev.0)];
        let members = match top.rows() {
            Some(_) => Vec::new(),
            None => top.readable(place.offset),
        };
        let first = members.first().map(|(leaf, _)| leaf);
        let mut is_read = false;
        if let Some(rows) = top.rows() {
            let read = Box::pin(top.read_units(&rows, place.offset.0, buf)).await;
            is_read = read.is_some();
            buf = match read {
                Some(buf) => buf,
                None => io::pool().alloc(end).await,
            };
        } else if let Some(leaf) = first {
            let (result, back) = leaf.read(buf, DATA_START + place.offset.0).await;
            is_read = result.is_ok();
            buf = match back {
                Some(buf) => buf,
                None => io::pool().alloc(end).await,
            };
        }
        let (mut from, mut failed) = (0, Vec::new());
        for (ptr, end) in ptrs.iter().zip(ends) {
            let block = &buf[from..from + ptr.physical_size as usize];
            if !is_read || ptr.verify(block).is_err() {
                match self.read_block(ptr, first, &self.scratch).await {
                    Ok(block) => buf[from..end].copy_from_slice(&block),
                    Err(e) => failed.push(e),
                }
            }
            from = end;
        }
        if failed.is_empty() {
            Ok(buf)
        } else {
            Err(failed)
        }
    }

    /// Reads blocks one by one into a buffer, in which they end at `ends`.
    async fn read_each(
        &self,
        ptrs: &[BlockPtr],
        ends: &[usize],
        mut buf: IoBuf,
    ) -> std::result::Result<IoBuf, Vec<Error>> {
        let (mut from, mut failed) = (0, Vec::new());
        for (ptr, end) in ptrs.iter().zip(ends) {
            match self.read_block(ptr, None, &self.scratch).await {
                Ok(block) => buf[from..*end].copy_from_slice(&block),
                Err(e) => failed.push(e),
            }
            from = *end;
        }
        match failed.is_empty() {
            true => Ok(buf),
            false => Err(failed),
        }
    }
}
