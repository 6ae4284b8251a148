//! Scrub and resilver.
//!
//! **Owns** their course over all blocks. **Called by** [`Pool`]'s users. **Invariants**: what is freed meanwhile is not
//! reused before they end; a side counts again only after it has every block that something holds.

use super::Pool;
use super::blocks::{Holds, Visitor};
use crate::format::{Birth, BlockPtr, SideGuid, TreeId, VdevId};
use crate::vdev::{SetupError, Vdevs};
use crate::{Error, Result};

/// Blocks that are handed to a side at once.
const BATCH: usize = 256;

/// What a scrub did so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Blocks read, on every side; those that datasets share once for each.
    pub blocks: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
    /// Copies that were wrong and are right again.
    pub repaired: u64,
    /// Blocks of which no side has a right copy, and the tree that holds each.
    pub lost: Vec<(TreeId, BlockPtr)>,
    /// Trees of which a part cannot be reached.
    pub damaged: Vec<(TreeId, Error)>,
}

struct Scrub<'a, F> {
    vdevs: &'a Vdevs,
    done: Scrubbed,
    progress: F,
}

impl<F: FnMut(&Scrubbed)> Visitor for Scrub<'_, F> {
    async fn block(&mut self, tree: TreeId, ptr: &BlockPtr, _: Holds) -> Result<()> {
        match self.vdevs.scrub(ptr).await {
            Ok(repaired) => self.done.repaired += repaired as u64,
            Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => {
                self.done.lost.push((tree, *ptr));
            }
            Err(other) => return Err(other),
        }
        self.done.blocks += 1;
        self.done.bytes += u64::from(ptr.physical_size);
        (self.progress)(&self.done);
        Ok(())
    }

    fn damaged(&mut self, tree: TreeId, error: Error) {
        self.done.damaged.push((tree, error));
    }
}

/// Brings a stale side what it lacks.
struct Resilver<'a> {
    vdevs: &'a Vdevs,
    vdev: VdevId,
    side: SideGuid,
    batch: Vec<BlockPtr>,
    copied: u64,
    lost: u64,
    failed: Option<SetupError>,
}

impl Resilver<'_> {
    async fn bring(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        match self.vdevs.resilver(self.side, batch).await {
            Ok(done) => {
                self.copied += done.copied;
                self.lost += done.lost;
                Ok(())
            }
            Err(e) => {
                self.failed = Some(e);
                Err(Error::Device)
            }
        }
    }
}

impl Visitor for Resilver<'_> {
    async fn block(&mut self, _: TreeId, ptr: &BlockPtr, _: Holds) -> Result<()> {
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
    /// Reads every block on every side and mends what can be mended. `progress` is told after each.
    ///
    /// # Errors
    /// [`Error::Device`]. What is lost is no error: it is reported.
    pub async fn scrub(&self, progress: impl FnMut(&Scrubbed)) -> Result<Scrubbed> {
        let _reader = self.owner.shared.readers.enter();
        let mut scrub = Scrub {
            vdevs: &self.owner.shared.vdevs,
            done: Scrubbed::default(),
            progress,
        };
        self.owner.each_block(Birth(0), &mut scrub).await?;
        Ok(scrub.done)
    }

    /// Brings every stale side that is there what it missed, and lets it count again. Returns the blocks copied.
    ///
    /// # Errors
    /// [`SetupError::Missed`] if a side missed a write again meanwhile: it stays stale. [`SetupError::Lost`] if a block
    /// that it lacks is nowhere. [`SetupError::Device`].
    pub async fn resilver(&self) -> std::result::Result<u64, SetupError> {
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
                side,
                batch: Vec::new(),
                copied: 0,
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
            copied += resilver.copied;
            vdevs.resilvered(side).await?;
        }
        Ok(copied)
    }
}
