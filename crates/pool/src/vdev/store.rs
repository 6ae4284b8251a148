//! The devices as the journal's replay reads them: candidates of ranges by number.
//!
//! **Owns** the mapping of one number of candidates to vdevs that may have different numbers. **Called by** replay.
//! **Invariants**: only members that are in are read: a batch that only a stale member has may have been given up. If the
//! pool is opened for reading only, nothing is written and the result of replay is not made final.

use super::geometry::DATA_START;
use super::limits::RUN_SIZE_MAX;
use super::rows::Rows;
use super::top::TopVdev;
use super::{Stable, Vdevs};
use crate::error::{Error, Result};
use crate::format::{Address, BlockPtr, VdevId, VdevOffset};
use crate::journal::Store;
use crate::written::WriteClass;

impl Store for Vdevs {
    fn candidates(&self) -> usize {
        let of_vdev = |top: &TopVdev| match top.rows() {
            Some(rows) => rows.parity() + 1,
            None => top.members_in().len(),
        };
        self.stripe.iter().map(of_vdev).max().unwrap_or(0)
    }

    /// A vdev with fewer members than the largest shows some of them more than once.
    async fn read(&self, candidate: usize, at: Address, out: &mut [u8]) -> Result<()> {
        if out.len() > RUN_SIZE_MAX || !self.holds(at, out.len()) {
            return Err(Error::Device);
        }
        let top = self.top(at.vdev).ok_or(Error::Device)?;
        let copies = match top.rows() {
            Some(rows) if rows.is_journal(at.offset.0) => top.copies_in(&rows, at.offset.0),
            Some(rows) => {
                let read = top.read_any(&rows, at.offset.0, out.len()).await;
                out.copy_from_slice(&read.ok_or(Error::Device)?);
                return Ok(());
            }
            None => {
                let members = top.members_in().into_iter();
                members
                    .map(|leaf| (leaf, DATA_START + at.offset.0))
                    .collect()
            }
        };
        if copies.is_empty() {
            return Err(Error::Device);
        }
        let (leaf, offset) = &copies[candidate % copies.len()];
        let buf = self.scratch.alloc(out.len()).await;
        let (result, buf) = leaf.read(buf, *offset).await;
        result.map_err(|_| Error::Device)?;
        out.copy_from_slice(&buf.ok_or(Error::Device)?);
        Ok(())
    }

    async fn write(&self, at: Address, bytes: &[u8]) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        if bytes.len() > RUN_SIZE_MAX || !self.holds(at, bytes.len()) {
            return Err(Error::Device);
        }
        let mut buf = io::pool().alloc(bytes.len()).await;
        buf.copy_from_slice(bytes);
        Vdevs::write(self, at, buf, WriteClass::Repair).await
    }

    fn has_rows(&self, vdev: VdevId) -> bool {
        self.top(vdev).is_some_and(|top| top.rows().is_some())
    }

    async fn is_sound(&self, ptr: &BlockPtr) -> bool {
        let Ok(size) = self.stored_size(ptr) else {
            return false;
        };
        let Some((top, rows)) = self.top(ptr.vdev).and_then(|top| Some((top, top.rows()?))) else {
            return false;
        };
        top.find_rows_in(&rows, ptr, size).await.is_ok()
    }

    async fn mend_rows(&self, blocks: &[BlockPtr]) -> Result<u64> {
        if self.read_only {
            return Ok(0);
        }
        let mut mended = 0;
        let share_a_row = |a: &BlockPtr, b: &BlockPtr| {
            let rows = self.top(a.vdev).and_then(TopVdev::rows);
            let last = a.offset.0 + self.allocated(a) - 1;
            let is_one = |rows: &Rows| rows.start_of_row(last) == rows.start_of_row(b.offset.0);
            a.vdev == b.vdev && rows.as_deref().is_some_and(is_one)
        };
        for sharing in blocks.chunk_by(share_a_row) {
            let vdev = sharing[0].vdev;
            let top = self.top(vdev).ok_or(Error::Device)?;
            let rows = top.rows().ok_or(Error::Device)?;
            let torn = top.torn_rows(&rows, sharing, self.block_space()).await;
            for (at, bytes) in torn.map_err(|_| Error::Device)? {
                let offset = VdevOffset(at);
                Store::write(self, Address { vdev, offset }, &bytes).await?;
                mended += 1;
            }
        }
        Ok(mended)
    }

    async fn flush(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        Vdevs::flush(self).await.map(|Stable(())| ())
    }
}
