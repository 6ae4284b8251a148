//! The devices as the journal's replay reads them: candidates of ranges by number.
//!
//! **Owns** the mapping of one number of candidates to vdevs that may have different numbers. **Called by** replay.
//! **Invariants**: only members that are in are read: a batch that only a stale member has may have been given up. If the
//! pool is opened for reading only, nothing is written and the result of replay is not made final.

use super::geometry::DATA_START;
use super::limits::RUN_SIZE_MAX;
use super::{Stable, Vdevs};
use crate::error::{Error, Result};
use crate::format::Address;
use crate::journal::Store;
use crate::written::WriteClass;

impl Store for Vdevs {
    fn candidates(&self) -> usize {
        let members = self.stripe.iter().map(|m| m.members_in().len());
        members.max().unwrap_or(0)
    }

    /// A vdev with fewer members than the largest shows some of them more than once.
    async fn read(&self, candidate: usize, at: Address, out: &mut [u8]) -> Result<()> {
        if out.len() > RUN_SIZE_MAX || !self.holds(at, out.len()) {
            return Err(Error::Device);
        }
        let top = self.top(at.vdev).ok_or(Error::Device)?;
        let members = top.members_in();
        if members.is_empty() {
            return Err(Error::Device);
        }
        let leaf = &members[candidate % members.len()];
        let buf = self.scratch.alloc(out.len()).await;
        let (result, buf) = leaf.read(buf, DATA_START + at.offset.0).await;
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

    async fn flush(&self) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        Vdevs::flush(self).await.map(|Stable(())| ())
    }
}
