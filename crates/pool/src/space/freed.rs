//! The sets of freed sectors, by the checkpoint that frees them.
//!
//! **Owns** the sets. **Called by** the allocator. **Invariant**: a sector is in one set at most.

use std::collections::BTreeMap;
use std::ops::Range;

use super::sectors::{SectorSet, Sectors};
use crate::format::RegionBits;

/// Freed sectors of one checkpoint.
#[derive(Default)]
pub(super) struct Freed {
    /// Sectors of blocks that bitmaps have.
    pub(super) blocks: Sectors,
    /// Nodes of the pool's own tree.
    pub(super) nodes: Sectors,
}

impl Freed {
    fn any(&self, index: usize, range: Range<u64>) -> bool {
        self.blocks.any(index, range.clone()) || self.nodes.any(index, range)
    }

    fn runs(&self) -> usize {
        self.blocks.runs() + self.nodes.runs()
    }
}

/// All freed sectors.
#[derive(Default)]
pub(super) struct Frees {
    /// Freed since the last seal.
    pub(super) current: Freed,
    /// Between a checkpoint's begin and its seal: freed sectors that are younger than it.
    pub(super) young: Option<Freed>,
    /// Of sealed checkpoints that are not released, by number.
    pub(super) sealed: BTreeMap<u64, Freed>,
    /// Free sectors that are being trimmed.
    pub(super) withheld: Sectors,
    seals: u64,
}

/// The frees of a sealed checkpoint.
#[must_use = "what it frees is reusable only once it is released"]
#[derive(Debug)]
pub struct Sealed(pub(super) u64);

impl Sealed {
    /// Its number, which grows from checkpoint to checkpoint.
    pub(crate) fn number(&self) -> u64 {
        self.0
    }
}

impl Frees {
    /// Whether any of these sectors is freed, or being trimmed.
    pub(super) fn any(&self, index: usize, range: Range<u64>) -> bool {
        let sets = std::iter::once(&self.current)
            .chain(&self.young)
            .chain(self.sealed.values());
        sets.into_iter().any(|set| set.any(index, range.clone())) || self.withheld.any(index, range)
    }

    /// The freed sectors of a region, and the ones that are being trimmed.
    pub(super) fn bits(&self, index: usize, region: u32) -> RegionBits {
        let sets = std::iter::once(&self.current)
            .chain(&self.young)
            .chain(self.sealed.values());
        let sets = sets.flat_map(|freed| [freed.blocks.of(index), freed.nodes.of(index)]);
        let sets = sets.chain([self.withheld.of(index)]);
        let mut bits = RegionBits::default();
        for set in sets.flatten() {
            set.each(region, |start, count| bits.set(start, count));
        }
        bits
    }

    /// The sets of a vdev of which no saved bitmap has the sectors, with the numbers of their checkpoints.
    pub(super) fn sealed_of(&self, index: usize) -> impl Iterator<Item = (u64, &SectorSet)> {
        let sets = self.sealed.iter();
        sets.filter_map(move |(seal, freed)| Some((*seal, freed.blocks.of(index)?)))
    }

    /// The newest seal.
    pub(super) fn newest(&self) -> u64 {
        self.seals
    }

    /// The number of runs.
    pub(super) fn runs(&self) -> usize {
        let sets = std::iter::once(&self.current)
            .chain(&self.young)
            .chain(self.sealed.values());
        sets.map(Freed::runs).sum()
    }

    /// Ends the set of the current checkpoint.
    pub(super) fn seal(&mut self) -> Sealed {
        self.seals += 1;
        let next = self.young.take().unwrap_or_default();
        let freed = std::mem::replace(&mut self.current, next);
        self.sealed.insert(self.seals, freed);
        Sealed(self.seals)
    }
}
