//! Sets of sectors as runs.
//!
//! **Owns** the runs of such a set, by vdev. **Called by** the allocator, for sectors of regions that need not be loaded: freed
//! ones, young ones, and nodes of the pool's own tree. **Invariants**: runs neither overlap nor touch; memory is proportional to
//! their number, about [`RUN_BYTES`] each.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::format::{REGION_SECTORS, RegionBits};

/// Bytes of memory of a run, about.
pub(super) const RUN_BYTES: u64 = 20;

/// Sectors of one vdev: the first sector of each run, and the number of its sectors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SectorSet(BTreeMap<u64, u32>);

/// The sectors of a region.
pub(super) fn sectors_of(region: u32) -> Range<u64> {
    let first = u64::from(region) * u64::from(REGION_SECTORS);
    first..first + u64::from(REGION_SECTORS)
}

impl SectorSet {
    /// The number of runs.
    pub(super) fn runs(&self) -> usize {
        self.0.len()
    }

    /// The first sector.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.first_key_value().map(|(start, _)| *start)
    }

    /// The runs, as far as they are in `range`.
    pub(super) fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let before = self.0.range(..range.start).next_back();
        let overlapping = before.filter(|(start, count)| *start + u64::from(**count) > range.start);
        let runs = overlapping.into_iter().chain(self.0.range(range.clone()));
        runs.map(move |(start, count)| {
            (*start).max(range.start)..(start + u64::from(*count)).min(range.end)
        })
    }

    /// Whether any of these sectors is in the set.
    pub(super) fn any(&self, range: Range<u64>) -> bool {
        self.within(range).next().is_some()
    }

    /// Adds sectors.
    pub(super) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((at, count)) = self.0.range(..=end).next_back() {
            let (at, behind) = (*at, *at + u64::from(*count));
            if behind < start || behind.max(end) - at.min(start) > u64::from(u32::MAX) {
                break;
            }
            self.0.remove(&at);
            (start, end) = (start.min(at), end.max(behind));
        }
        self.0.insert(start, (end - start) as u32);
    }

    /// Takes sectors out, as far as they are in the set.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        let inside: Vec<Range<u64>> = self.within(range.clone()).collect();
        for part in inside {
            let before = self.0.range_mut(..=part.start).next_back();
            let (start, count) = before.expect("a run that overlaps the range");
            let (start, end) = (*start, *start + u64::from(*count));
            match start < part.start {
                true => *count = (part.start - start) as u32,
                false => drop(self.0.remove(&start)),
            }
            if part.end < end {
                self.0.insert(part.end, (end - part.end) as u32);
            }
        }
    }

    /// The sectors of a region, relative to its first one.
    pub(super) fn bits(&self, region: u32) -> RegionBits {
        let mut bits = RegionBits::default();
        self.each(region, |start, count| bits.set(start, count));
        bits
    }

    /// Calls `visit` with each run of a region, relative to its first sector.
    pub(super) fn each(&self, region: u32, mut visit: impl FnMut(u32, u32)) {
        let range = sectors_of(region);
        let first = range.start;
        for run in self.within(range) {
            visit((run.start - first) as u32, (run.end - run.start) as u32);
        }
    }

    /// Adds sectors of a region.
    pub(super) fn add_bits(&mut self, region: u32, bits: &RegionBits) {
        let first = sectors_of(region).start;
        let mut at = 0;
        loop {
            let start = bits.next(at, REGION_SECTORS, true);
            if start >= REGION_SECTORS {
                return;
            }
            at = bits.next(start, REGION_SECTORS, false);
            self.insert(first + u64::from(start)..first + u64::from(at));
        }
    }

    /// The regions with sectors of the set, each with its runs relative to its first sector.
    pub(super) fn regions(&self) -> impl Iterator<Item = (u32, Vec<(u32, u32)>)> {
        let mut next = self.first();
        std::iter::from_fn(move || {
            let at = next?;
            let region = (at / u64::from(REGION_SECTORS)) as u32;
            let range = sectors_of(region);
            let (first, end) = (range.start, range.end);
            let runs = self.within(range);
            let runs = runs.map(|r| ((r.start - first) as u32, (r.end - r.start) as u32));
            let runs: Vec<(u32, u32)> = runs.collect();
            next = self.within(end..u64::MAX).next().map(|run| run.start);
            Some((region, runs))
        })
    }
}

/// Sectors by vdev.
#[derive(Debug, Clone, Default)]
pub(super) struct Sectors(Vec<SectorSet>);

impl Sectors {
    /// The sectors of a vdev.
    pub(super) fn of(&self, index: usize) -> Option<&SectorSet> {
        self.0.get(index)
    }

    /// The sectors of a vdev, to change them.
    pub(super) fn of_mut(&mut self, index: usize) -> &mut SectorSet {
        if self.0.len() <= index {
            self.0.resize_with(index + 1, SectorSet::default);
        }
        &mut self.0[index]
    }

    /// Whether any of these sectors is in the set.
    pub(super) fn any(&self, index: usize, range: Range<u64>) -> bool {
        self.of(index).is_some_and(|set| set.any(range))
    }

    /// The number of runs.
    pub(super) fn runs(&self) -> usize {
        self.0.iter().map(SectorSet::runs).sum()
    }

    /// The sets of all vdevs, with the index of each vdev.
    pub(super) fn all(&self) -> impl Iterator<Item = (usize, &SectorSet)> {
        self.0.iter().enumerate()
    }

    /// Adds all sectors of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        for (index, set) in other.all() {
            let to = self.of_mut(index);
            for run in set.within(0..u64::MAX) {
                to.insert(run);
            }
        }
    }
}
