//! Resilver: copies to a stale member the blocks that it missed.
//!
//! **Owns** the sweep over all blocks, in parts. **Called by** [`Pool`]'s users. **Invariants**: a block that is freed
//! during a part is not reused before the part ends, and no task waits for more than a part; a member is in again only
//! after it has every block of the pool; blocks younger than the checkpoint with which it begins are not visited, since the
//! member gets them as they are written. An interrupted resilver begins again at the epoch that the labels name:
//! blocks that it had copied are found on the member, and only read.

use super::Pool;
use super::blocks::{Holds, Sweep, VisitedBlock, Visitor};
use crate::format::{Birth, MemberGuid, TreeId, VdevId};
use crate::lost::LostBlock;
use crate::shared::DESTROYED;
use crate::vdev::{SetupError, Vdevs};
use crate::{Error, Result};

/// Blocks of one batch.
const BATCH: usize = 256;
/// The most bytes of one batch, unless one block has more.
const BATCH_BYTES: u64 = 4 << 20;
/// Bytes of a part, about.
const PART_BYTES: u64 = 4 << 20;

/// The progress of the resilver of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resilvering {
    /// The member.
    pub member: MemberGuid,
    /// The member has every block born up to this epoch; these are not visited.
    pub held: Birth,
    /// Stored bytes of the blocks that were compared.
    pub done: u64,
    /// Stored bytes of all blocks that the member may lack, about.
    pub of: u64,
    /// Blocks that were copied to the member.
    pub copied: u64,
}

/// Counts the bytes that a member may lack.
struct Count {
    vdev: VdevId,
    up_to: Birth,
    bytes: u64,
}

impl Visitor for Count {
    async fn block(&mut self, _: TreeId, block: VisitedBlock<'_>, _: Holds) -> Result<u64> {
        let bytes = match block.ptr.vdev == self.vdev && block.ptr.birth <= self.up_to {
            true => u64::from(block.ptr.physical_size),
            false => 0,
        };
        self.bytes += bytes;
        Ok(bytes)
    }

    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {}
}

/// Copies missing blocks to a stale member.
struct Resilver<'a, F> {
    pool: &'a Pool,
    vdevs: &'a Vdevs,
    vdev: VdevId,
    /// The epoch of the checkpoint with which the resilver began. Younger blocks may be in flight to all members.
    up_to: Birth,
    batch: Vec<LostBlock>,
    batch_bytes: u64,
    done: Resilvering,
    progress: F,
    lost: u64,
    failed: Option<SetupError>,
}

impl<F: AsyncFnMut(&Resilvering)> Resilver<'_, F> {
    /// Visits all blocks born after the member's epoch.
    async fn sweep(&mut self) -> Result<()> {
        let mut next = Some(Sweep::new(self.done.held));
        let owner = &self.pool.owner;
        while let Some(sweep) = next {
            next = owner.sweep(sweep, PART_BYTES, self).await?;
            (self.progress)(&self.done).await;
        }
        Ok(())
    }

    async fn bring(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let ptrs: Vec<_> = batch.iter().map(|block| block.ptr).collect();
        match self.vdevs.resilver(self.done.member, ptrs).await {
            Ok(done) => {
                let list = &self.pool.owner.shared.lost;
                let is_lost = |block: &&LostBlock| done.lost.contains(&block.ptr);
                for block in batch.iter().filter(is_lost).filter(|b| b.tree != DESTROYED) {
                    let at = block.ptr.address();
                    list.note(&Error::Unreadable { at }, *block);
                }
                self.done.done += std::mem::take(&mut self.batch_bytes);
                // nodes above two parts are visited in both, and some blocks are new
                self.done.of = self.done.of.max(self.done.done);
                self.done.copied += done.copied;
                self.lost += done.lost.len() as u64;
                Ok(())
            }
            Err(e) => {
                self.failed = Some(e);
                Err(Error::Device)
            }
        }
    }
}

impl<F: AsyncFnMut(&Resilvering)> Visitor for Resilver<'_, F> {
    async fn block(&mut self, tree: TreeId, block: VisitedBlock<'_>, holds: Holds) -> Result<u64> {
        if block.ptr.vdev != self.vdev || block.ptr.birth > self.up_to {
            return Ok(0);
        }
        let bytes = u64::from(block.ptr.physical_size);
        self.batch_bytes += bytes;
        self.batch.push(block.lost(tree, holds));
        if self.batch.len() >= BATCH || self.batch_bytes >= BATCH_BYTES {
            self.bring().await?;
        }
        Ok(bytes)
    }

    async fn end_part(&mut self) -> Result<()> {
        self.bring().await
    }

    /// Counts even if an earlier part reported it: when the node is readable again, the member lacks blocks below it.
    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {
        self.lost += 1;
    }
}

impl Pool {
    /// Resilvers every stale member that is present. Returns the number of copied blocks. `progress` is called after
    /// each part.
    ///
    /// # Errors
    /// [`SetupError::Missed`] if a member missed another write meanwhile: it stays stale. [`SetupError::Lost`] if no
    /// member has a block that it lacks. [`SetupError::Device`].
    pub async fn resilver(
        &self,
        mut progress: impl FnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        self.resilver_paced(async |r: &Resilvering| progress(r))
            .await
    }

    /// As [`Pool::resilver`]; the next part begins when `progress` returns.
    ///
    /// # Errors
    /// As [`Pool::resilver`]. An error of one member does not stop the resilver of the others.
    pub async fn resilver_paced(
        &self,
        mut progress: impl AsyncFnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        let mut copied = Ok(0);
        for (vdev, member, held) in self.vdevs().stale_members() {
            let done = Resilvering {
                member,
                held,
                done: 0,
                of: 0,
                copied: 0,
            };
            let one = self.resilver_member(vdev, done, &mut progress).await;
            copied = copied.and_then(|before| Ok(before + one?));
        }
        copied
    }

    async fn resilver_member(
        &self,
        vdev: VdevId,
        begun: Resilvering,
        progress: &mut impl AsyncFnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        let (vdevs, member) = (self.vdevs(), begun.member);
        vdevs.begin_resilver(member)?;
        // later batches go to the member too, so that it has all that replay needs
        let checkpoint = self.checkpoint().await;
        checkpoint.map_err(SetupError::failed)?;
        let up_to = self.owner.state.borrow().checkpointer.uberblock().epoch;
        let counted = self.count(vdev, begun.held, up_to).await;
        let of = counted.map_err(SetupError::failed)?;
        let mut resilver = Resilver {
            pool: self,
            vdevs: &vdevs,
            vdev,
            up_to,
            batch: Vec::new(),
            batch_bytes: 0,
            done: Resilvering { of, ..begun },
            lost: 0,
            failed: None,
            progress,
        };
        if resilver.sweep().await.is_err() {
            return Err(resilver.failed.unwrap_or(SetupError::Device));
        }
        if resilver.lost > 0 {
            let blocks = resilver.lost;
            return Err(SetupError::Lost { member, blocks });
        }
        let copied = resilver.done.copied;
        vdevs.resilvered(member).await?;
        Ok(copied)
    }

    /// Bytes of the blocks born after `held` and up to `up_to`, which the member may lack.
    async fn count(&self, vdev: VdevId, held: Birth, up_to: Birth) -> Result<u64> {
        let mut count = Count {
            vdev,
            up_to,
            bytes: 0,
        };
        let mut next = Some(Sweep::new(held));
        while let Some(sweep) = next {
            next = self.owner.sweep(sweep, PART_BYTES, &mut count).await?;
            io::yield_now().await;
        }
        Ok(count.bytes)
    }
}
