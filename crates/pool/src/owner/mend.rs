//! Resilver.
//!
//! **Owns** its course over all blocks, in parts. **Called by** [`Pool`]'s users. **Invariants**: what is freed during a part
//! is not reused before that ends, and nobody waits for more than a part; a side counts again only after it has every block
//! that something holds. One that was cut short begins again at the epoch that the labels name: what it had copied is found
//! on the side, and only read.

use super::Pool;
use super::blocks::{Holds, Met, Sweep, Visitor};
use crate::format::{Birth, SideGuid, TreeId, VdevId};
use crate::lost::LostBlock;
use crate::shared::GONE;
use crate::vdev::{SetupError, Vdevs};
use crate::{Error, Result};

/// Blocks that are handed to a side at once.
const BATCH: usize = 256;
/// Bytes of them, unless one block has more.
const BATCH_BYTES: u64 = 4 << 20;
/// Bytes of a part, about.
const PART_BYTES: u64 = 4 << 20;

/// How far bringing one side up to date is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resilvering {
    /// The side.
    pub side: SideGuid,
    /// It has every block born up to this epoch, which are passed over.
    pub held: Birth,
    /// Bytes of the blocks that it was looked whether it has them, as stored.
    pub done: u64,
    /// Bytes of all that it may lack, about.
    pub of: u64,
    /// Blocks that the side lacked and has now.
    pub copied: u64,
}

/// Counts what a side may lack.
struct Count {
    vdev: VdevId,
    bytes: u64,
}

impl Visitor for Count {
    async fn block(&mut self, _: TreeId, met: Met<'_>, _: Holds) -> Result<u64> {
        let bytes = match met.ptr.vdev == self.vdev {
            true => u64::from(met.ptr.physical_size),
            false => 0,
        };
        self.bytes += bytes;
        Ok(bytes)
    }

    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {}
}

/// Brings a stale side what it lacks.
struct Resilver<'a, F> {
    pool: &'a Pool,
    vdevs: &'a Vdevs,
    vdev: VdevId,
    batch: Vec<LostBlock>,
    batch_bytes: u64,
    done: Resilvering,
    progress: F,
    lost: u64,
    failed: Option<SetupError>,
}

impl<F: AsyncFnMut(&Resilvering)> Resilver<'_, F> {
    /// Comes by all blocks.
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
        match self.vdevs.resilver(self.done.side, ptrs).await {
            Ok(done) => {
                let list = &self.pool.owner.shared.lost;
                let is_lost = |block: &&LostBlock| done.lost.contains(&block.ptr);
                for block in batch.iter().filter(is_lost).filter(|b| b.tree != GONE) {
                    let at = block.ptr.address();
                    list.note(&Error::Unreadable { at }, *block);
                }
                self.done.done += std::mem::take(&mut self.batch_bytes);
                // nodes above two parts are met in both, and some blocks are new
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
    async fn block(&mut self, tree: TreeId, met: Met<'_>, holds: Holds) -> Result<u64> {
        if met.ptr.vdev != self.vdev {
            return Ok(0);
        }
        let bytes = u64::from(met.ptr.physical_size);
        self.batch_bytes += bytes;
        self.batch.push(met.block(tree, holds));
        if self.batch.len() >= BATCH || self.batch_bytes >= BATCH_BYTES {
            self.bring().await?;
        }
        Ok(bytes)
    }

    async fn end_part(&mut self) -> Result<()> {
        self.bring().await
    }

    /// Counts in any case: a node that can be read again has blocks below that the side lacks.
    fn damaged(&mut self, _: TreeId, _: Error, _: bool) {
        self.lost += 1;
    }
}

impl Pool {
    /// Brings every stale side that is there what it missed, and lets it count again. Returns the blocks copied.
    /// `progress` is told from time to time.
    ///
    /// # Errors
    /// [`SetupError::Missed`] if a side missed a write again meanwhile: it stays stale. [`SetupError::Lost`] if a block
    /// that it lacks is nowhere. [`SetupError::Device`].
    pub async fn resilver(
        &self,
        mut progress: impl FnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        self.resilver_paced(async |r: &Resilvering| progress(r))
            .await
    }

    /// The same; `progress` is told after each part, and the next one begins when it returns.
    ///
    /// # Errors
    /// As [`Pool::resilver`]; the other sides are brought up to date all the same.
    pub async fn resilver_paced(
        &self,
        mut progress: impl AsyncFnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        let mut copied = Ok(0);
        for (vdev, side, held) in self.vdevs().stale_sides() {
            let done = Resilvering {
                side,
                held,
                done: 0,
                of: 0,
                copied: 0,
            };
            let one = self.resilver_side(vdev, done, &mut progress).await;
            copied = copied.and_then(|before| Ok(before + one?));
        }
        copied
    }

    async fn resilver_side(
        &self,
        vdev: VdevId,
        begun: Resilvering,
        progress: &mut impl AsyncFnMut(&Resilvering),
    ) -> std::result::Result<u64, SetupError> {
        let (vdevs, side) = (self.vdevs(), begun.side);
        vdevs.begin_resilver(side)?;
        // what replay needs is written after this, and so is on the side
        let checkpoint = self.checkpoint().await;
        checkpoint.map_err(SetupError::failed)?;
        let counted = self.count(vdev, begun.held).await;
        let of = counted.map_err(SetupError::failed)?;
        let mut resilver = Resilver {
            pool: self,
            vdevs: &vdevs,
            vdev,
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
            return Err(SetupError::Lost { side, blocks });
        }
        let copied = resilver.done.copied;
        vdevs.resilvered(side).await?;
        Ok(copied)
    }

    /// Bytes of what a side may lack that has what was born up to `held`.
    async fn count(&self, vdev: VdevId, held: Birth) -> Result<u64> {
        let mut count = Count { vdev, bytes: 0 };
        let mut next = Some(Sweep::new(held));
        while let Some(sweep) = next {
            next = self.owner.sweep(sweep, PART_BYTES, &mut count).await?;
            io::yield_now().await;
        }
        Ok(count.bytes)
    }
}
