//! Resilver.
//!
//! **Owns** its course over all blocks. **Called by** [`Pool`]'s users. **Invariants**: what is freed meanwhile is not
//! reused before it ends; a side counts again only after it has every block that something holds.

use super::Pool;
use super::blocks::{Holds, Visitor};
use crate::format::{Birth, BlockPtr, SideGuid, TreeId, VdevId};
use crate::vdev::{SetupError, Vdevs};
use crate::{Error, Result};

/// Blocks that are handed to a side at once.
const BATCH: usize = 256;

/// How far bringing one side up to date is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resilvering {
    /// The side.
    pub side: SideGuid,
    /// It has every block born up to this epoch, which are passed over.
    pub held: Birth,
    /// Bytes of the blocks that were looked at, as stored; those that datasets share once for each.
    pub met: u64,
    /// Blocks that the side lacked and has now.
    pub copied: u64,
}

/// Brings a stale side what it lacks.
struct Resilver<'a, F> {
    vdevs: &'a Vdevs,
    vdev: VdevId,
    batch: Vec<BlockPtr>,
    done: Resilvering,
    progress: F,
    lost: u64,
    failed: Option<SetupError>,
}

impl<F: FnMut(&Resilvering)> Resilver<'_, F> {
    async fn bring(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        match self.vdevs.resilver(self.done.side, batch).await {
            Ok(done) => {
                self.done.copied += done.copied;
                self.lost += done.lost;
                (self.progress)(&self.done);
                Ok(())
            }
            Err(e) => {
                self.failed = Some(e);
                Err(Error::Device)
            }
        }
    }
}

impl<F: FnMut(&Resilvering)> Visitor for Resilver<'_, F> {
    async fn block(&mut self, _: TreeId, ptr: &BlockPtr, _: Holds) -> Result<()> {
        self.done.met += u64::from(ptr.physical_size);
        if ptr.vdev != self.vdev {
            return Ok(());
        }
        self.batch.push(*ptr);
        if self.batch.len() < BATCH {
            return Ok(());
        }
        self.bring().await
    }

    fn damaged(&mut self, _: TreeId, _: Error) {
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
        let vdevs = self.vdevs();
        let mut copied = 0;
        for (vdev, side, held) in vdevs.stale_sides() {
            vdevs.begin_resilver(side)?;
            // what replay needs is written after this, and so is on the side
            let checkpoint = self.checkpoint().await;
            checkpoint.map_err(|_| SetupError::Device)?;
            let _reader = self.owner.shared.readers.enter();
            let mut resilver = Resilver {
                vdevs: &vdevs,
                vdev,
                batch: Vec::new(),
                done: Resilvering {
                    side,
                    held,
                    met: 0,
                    copied: 0,
                },
                progress: &mut progress,
                lost: 0,
                failed: None,
            };
            let met = self.owner.each_block(held, &mut resilver).await;
            let brought = match met {
                Ok(()) => resilver.bring().await,
                other => other,
            };
            if brought.is_err() {
                return Err(resilver.failed.unwrap_or(SetupError::Device));
            }
            if resilver.lost > 0 {
                let blocks = resilver.lost;
                return Err(SetupError::Lost { side, blocks });
            }
            copied += resilver.done.copied;
            vdevs.resilvered(side).await?;
        }
        Ok(copied)
    }
}
