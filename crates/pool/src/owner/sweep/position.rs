//! Position of a sweep over all blocks of the pool.
//!
//! **Owns** the order of the trees, and the size of the parts. **Called by** sweeps, and by the movers, which keep a position between two
//! parts. **Invariant**: a part covers a range of keys of all trees of one stage. Pure.

use std::ops::Range;

use crate::format::{Birth, Key};

/// Half of the keys of the first part of datasets.
const PART_KEYS: u64 = 128;

/// The trees that a part covers. Blocks do not move between trees of different stages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in crate::owner) enum SweepStage {
    /// The pool's own tree.
    Pool,
    /// The tree of the deadlists.
    Dead,
    /// The trees of datasets, and of pending destroys.
    Datasets,
    /// No tree: blocks to which only layers or deadlists point.
    Loose,
}

/// The stages in the order of a sweep. The number of a stage is its index here.
pub(super) const STAGES: [SweepStage; 4] = [
    SweepStage::Pool,
    SweepStage::Dead,
    SweepStage::Datasets,
    SweepStage::Loose,
];

/// Which blocks are visited.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    /// Blocks born after this.
    pub(super) since: Birth,
    /// Blocks of this stage, or of all stages.
    stage: Option<SweepStage>,
    /// In trees, records under these keys, and nodes that begin there.
    pub(super) keys: Range<Key>,
    /// If one tree has more bytes there, the keys end early, but not before the first key.
    pub(super) bytes: u64,
    /// Whether a block that several datasets share is visited once, with the oldest snapshot that holds it.
    pub(super) once: bool,
}

impl Wanted {
    /// All blocks. A shared block is visited once for each tree.
    pub(in crate::owner) fn all() -> Self {
        Self {
            since: Birth(0),
            stage: None,
            keys: Key::START..Key::END,
            bytes: u64::MAX,
            once: false,
        }
    }

    pub(super) fn has(&self, stage: SweepStage) -> bool {
        self.stage.is_none_or(|one| one == stage)
    }
}

/// The result of a part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PartResult {
    pub(super) bytes: u64,
    /// The first key that was not visited, or none if no tree has one.
    pub(super) next: Option<Key>,
}

impl PartResult {
    pub(super) fn ends_at(&mut self, key: Key) {
        self.next = Some(self.next.map_or(key, |next| next.min(key)));
    }
}

/// The position of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::owner) struct Sweep {
    pub(in crate::owner) since: Birth,
    /// Where the next part begins.
    pub(in crate::owner) stage: SweepStage,
    pub(in crate::owner) next: Key,
    /// Keys of the last part of datasets, and its bytes.
    pub(in crate::owner) keys: u64,
    pub(in crate::owner) bytes: u64,
}

impl Sweep {
    /// A sweep over the blocks born after `since`.
    pub(in crate::owner) fn new(since: Birth) -> Self {
        Self {
            since,
            stage: SweepStage::Pool,
            next: Key::START,
            keys: PART_KEYS,
            bytes: 0,
        }
    }

    /// The next part. It has about `bytes` bytes, judged by the last part.
    pub(super) fn part(&self, bytes: u64) -> Wanted {
        let wanted = |keys, bytes| Wanted {
            since: self.since,
            stage: Some(self.stage),
            keys: self.next..keys,
            bytes,
            once: true,
        };
        match self.stage {
            SweepStage::Pool | SweepStage::Dead | SweepStage::Loose => wanted(Key::END, bytes),
            SweepStage::Datasets => {
                let more = u128::from(self.keys.max(1)) * 2;
                let of = |last| u128::from(self.keys) * u128::from(bytes) / u128::from(last);
                let keys = match self.bytes {
                    0 => more,
                    last => of(last).clamp(1, more),
                };
                wanted(self.next.after(keys), bytes.saturating_mul(2))
            }
        }
    }

    /// The position behind a part, or none if it was the last.
    pub(super) fn after(self, wanted: &Wanted, part: PartResult) -> Option<Self> {
        let Range { start, end } = wanted.keys;
        let Some(next) = part.next else {
            let stage = *STAGES.get(self.stage as usize + 1)?;
            return Some(Self {
                stage,
                ..Self::new(self.since)
            });
        };
        let keys = start.up_to(next.min(end)).min(u128::from(u64::MAX));
        Some(Self {
            next,
            keys: keys as u64,
            bytes: part.bytes,
            ..self
        })
    }
}
