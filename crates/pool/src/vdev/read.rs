//! Reading: every block checked, and healed where a side has it wrong.
//!
//! **Owns** which side a read tries and what it does when one fails it. **Called by** the pool, on any shard.
//! **Invariants**: nothing is returned without its pointer's checksum; a side is tried once for a block; repair
//! happens while the reader still has the pointer, so that the place is not another block's yet.

use std::sync::Arc;

use io::{BufPool, IoBuf};

use super::Vdevs;
use super::area::{DATA_START, filled};
use super::leaf::Leaf;
use super::limits::RUN_SIZE_MAX;
use super::mirror::Mirror;
use crate::error::{Error, Result};
use crate::format::{BlockPtr, Defect};

impl Vdevs {
    /// Bytes that a block takes on its vdev.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the pointer is to no place on this pool's vdevs.
    fn stored_size(&self, ptr: &BlockPtr) -> Result<usize> {
        let corrupt = |field, value| Error::Corrupt {
            at: ptr.address(),
            defect: Defect::Field { field, value },
        };
        let Some(mirror) = self.mirror(ptr.vdev) else {
            return Err(corrupt("block pointer's vdev", ptr.vdev.0.into()));
        };
        let size = (ptr.physical_size as usize).next_multiple_of(mirror.sector() as usize);
        if size > RUN_SIZE_MAX {
            return Err(corrupt(
                "block pointer's physical size",
                ptr.physical_size.into(),
            ));
        }
        if !self.holds(ptr.address(), size) {
            return Err(corrupt("block pointer's offset", ptr.offset.0));
        }
        Ok(size)
    }

    /// The block that `ptr` points to: whole sectors, of which the first `physical_size` bytes are the block, checked.
    /// Sides that cannot be read or have it wrong are written again from one that has it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if no side has it; [`Error::Unreadable`] if none could be read.
    pub async fn read(&self, ptr: &BlockPtr) -> Result<IoBuf> {
        self.read_block(ptr, None, &io::pool()).await
    }

    /// The same, and no side is repaired: of a checkpoint that others came after, a place may be another block's.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    pub(crate) async fn peek(&self, ptr: &BlockPtr) -> Result<IoBuf> {
        let (read, _lacking) = self.find_block(ptr, None, &io::pool()).await?;
        Ok(read)
    }

    /// The same with a buffer from elsewhere: for whoever must not wait for clients.
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
        let (bytes, wrong) = self.find_block(ptr, first, buffers).await?;
        let mirror = &self.mirrors[usize::from(ptr.vdev.0)];
        let offset = DATA_START + ptr.offset.0;
        self.heal(mirror, wrong, offset, &bytes).await;
        Ok(bytes)
    }

    /// A block, and the sides that are in and were tried before and do not have it.
    async fn find_block(
        &self,
        ptr: &BlockPtr,
        first: Option<&Arc<Leaf>>,
        buffers: &BufPool,
    ) -> Result<(IoBuf, Vec<Arc<Leaf>>)> {
        let size = self.stored_size(ptr)?;
        let mirror = &self.mirrors[usize::from(ptr.vdev.0)];
        let mut sides = mirror.readable(ptr.offset);
        if let Some(first) = first {
            sides.sort_by_key(|(leaf, _)| !Arc::ptr_eq(leaf, first));
        }
        let offset = DATA_START + ptr.offset.0;
        let mut buf = None;
        let mut error = Error::Unreadable { at: ptr.address() };
        let mut wrong = Vec::new();
        for (leaf, is_in) in sides {
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
                // What a stale side lacks is no sign of rot.
                if is_in {
                    leaf.count_checksum_error();
                }
            }
            buf = back;
            if is_in {
                wrong.push(leaf);
            }
        }
        mirror.fault();
        Err(error)
    }

    /// Reads a block from every side that is in, and writes it again where it cannot be read or is wrong. How many
    /// sides that were.
    ///
    /// # Errors
    /// As [`Vdevs::read`].
    pub async fn scrub(&self, ptr: &BlockPtr) -> Result<usize> {
        let size = self.stored_size(ptr)?;
        let mirror = &self.mirrors[usize::from(ptr.vdev.0)];
        let offset = DATA_START + ptr.offset.0;
        let is_right = |buf: &IoBuf| ptr.verify(&buf[..ptr.physical_size as usize]).is_ok();
        let mut wrong = Vec::new();
        let mut good = None;
        // The one to keep is from where readers have theirs, so that nobody waits for a copy with a copy in hand.
        let mut spare = Some(io::pool().alloc(size).await);
        for leaf in mirror.sides_in() {
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
            Some(good) => self.heal(mirror, wrong, offset, &good).await,
            // A stale side may have it; then this repairs the others.
            None => drop(self.read_block(ptr, None, &io::pool()).await?),
        }
        Ok(count)
    }

    /// Writes what is right over what was wrong.
    async fn heal(&self, mirror: &Mirror, wrong: Vec<Arc<Leaf>>, offset: u64, good: &[u8]) {
        if wrong.is_empty() {
            return;
        }
        if !self.read_only {
            let good = filled(&self.scratch, good).await.into();
            // A write beyond the end would make a file longer again, with zeroes for the data that it lost.
            for leaf in wrong.into_iter().filter(|leaf| !leaf.is_short()) {
                leaf.repair(&good, offset).await;
            }
        }
        mirror.fault();
    }

    /// Writes a block to a stale side, unless it has it. Whether it lacked it.
    pub(super) async fn bring(
        &self,
        mirror: &Mirror,
        leaf: &Arc<Leaf>,
        ptr: &BlockPtr,
    ) -> Result<bool> {
        let size = self.stored_size(ptr)?;
        let offset = DATA_START + ptr.offset.0;
        let buf = self.scratch.alloc(size).await;
        let (result, buf) = leaf.read(buf, offset).await;
        let is_right = |buf: &IoBuf| ptr.verify(&buf[..ptr.physical_size as usize]).is_ok();
        if result.is_ok() && buf.as_ref().is_some_and(is_right) {
            return Ok(false);
        }
        drop(buf);
        let good = self.read_block(ptr, None, &io::pool()).await?;
        if leaf.write(&good.into(), offset).await.is_err() {
            mirror.miss(leaf);
            return Err(leaf.write_error());
        }
        mirror.count_write();
        Ok(true)
    }

    /// Blocks that lie one after the other, in one read into a buffer of `buffers`: each at the start of a sector, behind the one before. All
    /// are checked; one that is wrong is read again, as by [`Vdevs::read`].
    ///
    /// # Errors
    /// As [`Vdevs::read`], of each block that no side has, in order.
    ///
    /// # Panics
    /// If there are none, they are not adjacent, or they have more than [`RUN_SIZE_MAX`] bytes together.
    pub async fn read_run(
        &self,
        ptrs: &[BlockPtr],
        buffers: &BufPool,
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
        assert!(end <= RUN_SIZE_MAX, "{end} bytes in a row");
        let mirror = &self.mirrors[usize::from(start.vdev.0)];
        let mut buf = buffers.alloc(end).await;
        let sides = mirror.readable(start.offset);
        let first = sides.first().map(|(leaf, _)| leaf);
        let mut is_read = false;
        if let Some(leaf) = first {
            let (result, back) = leaf.read(buf, DATA_START + start.offset.0).await;
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
}
