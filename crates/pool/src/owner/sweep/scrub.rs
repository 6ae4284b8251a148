//! Scrub: reads every block on every member, and repairs wrong copies, also of labels and uberblocks.
//!
//! **Owns** the parts of a scrub, between which hours may pass. The last part also mends rows of a raidz in which something
//! else than the blocks that were read is wrong ([`super::scrub_rows`]). **Called by** [`Pool`]'s users. **Invariant**: a scrub
//! reads every block that the checkpoint at its begin holds and that still exists at its end; a shared block is read
//! with the oldest snapshot that holds it.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::blocks::{Holds, VisitedBlock, Visitor};
use super::position::{STAGES, Sweep};
use crate::format::{Birth, KEY_SIZE, Key, TreeId};
use crate::lost::LostBlock;
use crate::owner::{Owner, Pool};
use crate::shared::{DESTROYED, all};
use crate::{Error, Result};

/// Blocks that are read concurrently.
const AT_ONCE: usize = 16;
/// Bytes of one part of [`Pool::scrub`].
const PART_BYTES: u64 = 64 << 20;

/// The position of a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubPosition {
    /// Younger blocks are not read.
    up_to: Birth,
    sweep: Sweep,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawPosition {
    up_to: U64,
    stage: U64,
    next: [u8; KEY_SIZE],
    keys: U64,
    bytes: U64,
}

impl ScrubPosition {
    /// Encodes the position, for the caller to keep. The encoding is no part of the pool's format.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let raw = RawPosition {
            up_to: self.up_to.0.into(),
            stage: (self.sweep.stage as u64).into(),
            next: self.sweep.next.encode(),
            keys: self.sweep.keys.into(),
            bytes: self.sweep.bytes.into(),
        };
        raw.as_bytes().to_vec()
    }

    /// Decodes a position. None if the bytes are not an encoded position.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let raw = RawPosition::read_from_bytes(bytes).ok()?;
        Some(Self {
            up_to: Birth(raw.up_to.get()),
            sweep: Sweep {
                stage: *STAGES.get(raw.stage.get() as usize)?,
                next: Key::decode(raw.next),
                keys: raw.keys.get(),
                bytes: raw.bytes.get(),
                ..Sweep::new(Birth(0))
            },
        })
    }
}

/// The result of a scrub, or of a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Blocks read, on all members.
    pub blocks: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
    /// Wrong copies that were repaired; of a raidz, wrong units of rows.
    pub repaired: u64,
    /// Blocks of which no member has a right copy.
    pub lost: Vec<LostBlock>,
    /// Trees with a part that cannot be read.
    pub damaged: Vec<(TreeId, Error)>,
}

impl Scrubbed {
    fn add(&mut self, part: Scrubbed) {
        self.blocks += part.blocks;
        self.bytes += part.bytes;
        self.repaired += part.repaired;
        self.lost.extend(part.lost);
        self.damaged.extend(part.damaged);
    }
}

/// A part of a scrub.
struct Part<'a> {
    owner: &'a Owner,
    up_to: Birth,
    batch: Vec<LostBlock>,
    found: Scrubbed,
}

impl Part<'_> {
    async fn read(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let shared = &self.owner.shared;
        let reads = batch
            .iter()
            .map(|block| shared.vdevs.scrub_block(&block.ptr));
        let results = all(reads).await;
        for (block, result) in batch.into_iter().zip(results) {
            match result {
                Ok(done) => {
                    shared.lost.is_right(&block.ptr);
                    self.found.repaired += done.repaired as u64;
                    let mut rows = self.owner.doubtful_rows.borrow_mut();
                    rows.add(done.doubtful);
                }
                Err(e @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                    shared.lost.note(&e, block);
                    self.found.lost.push(block);
                }
                Err(other) => return Err(other),
            }
            self.found.blocks += 1;
            self.found.bytes += u64::from(block.ptr.physical_size);
        }
        Ok(())
    }
}

/// Blocks of destroyed datasets are not read: their loss is no damage.
impl Visitor for Part<'_> {
    async fn block(&mut self, tree: TreeId, block: VisitedBlock<'_>, holds: Holds) -> Result<u64> {
        if tree == DESTROYED || block.ptr.placed > self.up_to {
            return Ok(0);
        }
        self.batch.push(block.lost(tree, holds));
        if self.batch.len() >= AT_ONCE {
            self.read().await?;
        }
        Ok(u64::from(block.ptr.physical_size))
    }

    fn damaged(&mut self, tree: TreeId, error: Error, is_known: bool) {
        if tree != DESTROYED && !is_known {
            self.found.damaged.push((tree, error));
        }
    }

    async fn end_part(&mut self) -> Result<()> {
        self.read().await
    }
}

impl Pool {
    /// Begins a scrub with a checkpoint. Later writes are not read by it.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub async fn begin_scrub(&self) -> Result<ScrubPosition> {
        self.checkpoint().await?;
        self.owner.shared.lost.begin_scrub();
        self.owner.doubtful_rows.borrow_mut().clear();
        Ok(ScrubPosition {
            up_to: self.owner.state.borrow().checkpointer.uberblock().epoch,
            sweep: Sweep::new(Birth(0)),
        })
    }

    /// Scrubs about `bytes` stored bytes more. Returns the findings, and the next position unless the scrub is
    /// complete.
    ///
    /// # Errors
    /// [`Error::Device`]. Lost blocks are reported, and are no error.
    pub async fn scrub_part(
        &self,
        at: ScrubPosition,
        bytes: u64,
    ) -> Result<(Scrubbed, Option<ScrubPosition>)> {
        let mut part = Part {
            owner: &self.owner,
            up_to: at.up_to,
            batch: Vec::new(),
            found: Scrubbed::default(),
        };
        if at.sweep == Sweep::new(Birth(0)) {
            part.found.repaired += self.owner.shared.vdevs.scrub_areas().await?;
        }
        let next = self.owner.sweep(at.sweep, bytes, &mut part).await?;
        if next.is_none() {
            part.found.repaired += self.mend_doubtful_rows().await?;
            self.owner.shared.lost.end_scrub(at.up_to);
        }
        let position = next.map(|sweep| ScrubPosition { sweep, ..at });
        Ok((part.found, position))
    }

    /// Scrubs the whole pool. `progress` is called after each part.
    ///
    /// # Errors
    /// [`Error::Device`]. Lost blocks are reported, and are no error.
    pub async fn scrub(&self, mut progress: impl FnMut(&Scrubbed)) -> Result<Scrubbed> {
        let mut done = Scrubbed::default();
        let mut next = Some(self.begin_scrub().await?);
        while let Some(at) = next {
            let found;
            (found, next) = self.scrub_part(at, PART_BYTES).await?;
            done.add(found);
            progress(&done);
        }
        Ok(done)
    }
}
