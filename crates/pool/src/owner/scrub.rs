//! Scrub: every block is read on every side, and mended where it is wrong; so are labels and uberblocks.
//!
//! **Owns** a scrub's course: parts that may be hours apart. **Called by** [`Pool`]'s users. **Invariant**: a block that the
//! checkpoint at its beginning holds, and that something still holds when it ends, was read by it; what several hold is
//! read with the oldest snapshot of them.

use zerocopy::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::blocks::{Holds, Met, STAGES, Sweep, Visitor};
use super::{Owner, Pool};
use crate::format::{Birth, KEY_SIZE, Key, TreeId};
use crate::lost::LostBlock;
use crate::shared::{GONE, all};
use crate::{Error, Result};

/// Blocks that are read at the same time.
const AT_ONCE: usize = 16;
/// Bytes of a part of a whole scrub.
const PART_BYTES: u64 = 64 << 20;

/// Where a scrub goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScrubPosition {
    /// What was born later is not its business.
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
    /// Bytes to keep it as; they are no part of the pool's format.
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

    /// What was encoded; none if these bytes are something else.
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

/// What a scrub, or a part of one, did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Blocks read, on every side.
    pub blocks: u64,
    /// Their bytes, as stored.
    pub bytes: u64,
    /// Copies that were wrong and are right again.
    pub repaired: u64,
    /// Blocks that are lost.
    pub lost: Vec<LostBlock>,
    /// Trees of which a part cannot be reached.
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

/// One part.
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
        let reads = batch.iter().map(|block| shared.vdevs.scrub(&block.ptr));
        let results = all(reads).await;
        for (block, result) in batch.into_iter().zip(results) {
            match result {
                Ok(repaired) => {
                    shared.lost.is_right(&block.ptr);
                    self.found.repaired += repaired as u64;
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

/// What is on its way out is nobody's loss.
impl Visitor for Part<'_> {
    async fn block(&mut self, tree: TreeId, met: Met<'_>, holds: Holds) -> Result<u64> {
        if tree == GONE || met.ptr.birth > self.up_to {
            return Ok(0);
        }
        self.batch.push(met.block(tree, holds));
        if self.batch.len() >= AT_ONCE {
            self.read().await?;
        }
        Ok(u64::from(met.ptr.physical_size))
    }

    fn damaged(&mut self, tree: TreeId, error: Error, is_known: bool) {
        if tree != GONE && !is_known {
            self.found.damaged.push((tree, error));
        }
    }

    async fn end_part(&mut self) -> Result<()> {
        self.read().await
    }
}

impl Pool {
    /// Begins a scrub with a checkpoint: what is written later is not read by it.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub async fn begin_scrub(&self) -> Result<ScrubPosition> {
        self.checkpoint().await?;
        self.owner.shared.lost.doubt();
        Ok(ScrubPosition {
            up_to: self.owner.state.borrow().checkpointer.uberblock().epoch,
            sweep: Sweep::new(Birth(0)),
        })
    }

    /// Goes on with a scrub for about `bytes` as stored. What it found, and where to go on unless it is at its end.
    ///
    /// # Errors
    /// [`Error::Device`]. What is lost is no error: it is reported.
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
            self.owner.shared.lost.settle(at.up_to);
        }
        let position = next.map(|sweep| ScrubPosition { sweep, ..at });
        Ok((part.found, position))
    }

    /// Scrubs everything. `progress` is told after each part.
    ///
    /// # Errors
    /// [`Error::Device`]. What is lost is no error: it is reported.
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
