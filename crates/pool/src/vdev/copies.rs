//! Copies of the blocks of vdevs that are being removed, or were removed.
//!
//! **Owns** the map from the addresses of block pointers to the places of the copies. **Called by** reads of blocks, and by the pool's
//! owner for the removal. **Invariants**: runs of one vdev do not overlap, and are those of the entries in the pool's own tree; an address of a vdev that is being removed, or was
//! removed, is never given out again, so that a run may stay when its blocks are freed; only runs of a removal that was given
//! up leave the map. `docs/decisions/0180`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::relocations::Relocations;
use crate::format::{Address, Birth, BlockPtr, CopiedRun, VdevId, VdevOffset};

/// The place of a run's copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    bytes: u64,
    to: Address,
}

/// The copies of one vdev's blocks, by the old offset.
#[derive(Debug, Default)]
struct CopyMap {
    runs: BTreeMap<u64, Run>,
    /// Bytes of all runs.
    bytes: u64,
}

impl CopyMap {
    /// The run that has a range, and the range's distance from its begin.
    fn find(&self, at: u64, len: u64) -> Option<(&Run, u64)> {
        let (start, run) = self.runs.range(..=at).next_back()?;
        let distance = at - start;
        (distance + len <= run.bytes).then_some((run, distance))
    }

    /// The parts of a range that runs have.
    fn within(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Run)> {
        let before = self.runs.range(..range.start).next_back();
        let before = before.filter(|(start, run)| **start + run.bytes > range.start);
        let runs = before.into_iter().chain(self.runs.range(range.clone()));
        runs.map(move |(start, run)| {
            let from = (*start).max(range.start);
            let end = (start + run.bytes).min(range.end);
            let to = run.to.behind((from - start) as usize);
            let bytes = end - from;
            (from, Run { bytes, to })
        })
    }

    fn overlaps(&self, range: Range<u64>) -> bool {
        self.within(range).next().is_some()
    }

    /// Adds a run. False if it overlaps another one.
    fn insert(&mut self, start: u64, run: Run) -> bool {
        if self.overlaps(start..start + run.bytes) {
            return false;
        }
        self.bytes += run.bytes;
        self.runs.insert(start, run);
        true
    }

    /// Takes a range out.
    fn remove(&mut self, range: Range<u64>) {
        let parts: Vec<(u64, Run)> = self.within(range).collect();
        for (from, part) in parts {
            self.bytes -= part.bytes;
            let (start, run) = self.runs.range(..=from).next_back().expect("it has a part");
            let (start, run) = (*start, *run);
            self.runs.remove(&start);
            let before = from - start;
            if before > 0 {
                let bytes = before;
                self.runs.insert(start, Run { bytes, ..run });
            }
            let skipped = before + part.bytes;
            if skipped < run.bytes {
                let to = run.to.behind(skipped as usize);
                let bytes = run.bytes - skipped;
                self.runs.insert(start + skipped, Run { bytes, to });
            }
        }
    }
}

/// A block, and the address at which it is read. Its checksum depends on the address in its pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlacedBlock {
    /// The pointer.
    pub(crate) ptr: BlockPtr,
    /// The address of its bytes: that of the pointer, of the relocation, or of the copy.
    pub(crate) at: Address,
    /// The epoch in which they were written there; `None` of a copy, whose epoch is not known.
    pub(crate) since: Option<Birth>,
}

impl PlacedBlock {
    /// Whether the address is that of a copy.
    pub(crate) fn is_copy(&self) -> bool {
        self.since.is_none()
    }
}

impl From<BlockPtr> for PlacedBlock {
    fn from(ptr: BlockPtr) -> Self {
        Self::from(&ptr)
    }
}

impl From<&BlockPtr> for PlacedBlock {
    fn from(ptr: &BlockPtr) -> Self {
        Self {
            ptr: *ptr,
            at: ptr.address(),
            since: Some(ptr.placed),
        }
    }
}

/// See the module header. Shared by all shards.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    vdevs: RwLock<BTreeMap<VdevId, CopyMap>>,
    relocations: Relocations,
}

impl Copies {
    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<VdevId, CopyMap>> {
        self.vdevs.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<VdevId, CopyMap>> {
        self.vdevs.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The places of blocks that were moved while their pointers stay as they are. A relocated block may have a copy, too.
    pub(crate) fn relocations(&self) -> &Relocations {
        &self.relocations
    }

    /// The address of the copy of a range; `None` if it was not copied, or not as one piece.
    pub(crate) fn place_of(&self, at: Address, len: u64) -> Option<Address> {
        let vdevs = self.read();
        let (run, distance) = vdevs.get(&at.vdev)?.find(at.offset.0, len)?;
        Some(run.to.behind(distance as usize))
    }

    /// The parts of a range that were copied.
    pub(crate) fn within(&self, vdev: VdevId, range: Range<u64>) -> Vec<CopiedRun> {
        let vdevs = self.read();
        let runs = vdevs.get(&vdev).into_iter().flat_map(|map| {
            let runs = map.within(range.clone());
            runs.map(|(from, run)| CopiedRun {
                from: Address {
                    vdev,
                    offset: VdevOffset(from),
                },
                to: run.to,
                bytes: run.bytes,
            })
        });
        runs.collect()
    }

    /// Forgets all copies.
    pub(crate) fn clear(&self) {
        self.write().clear();
    }

    /// Adds a run. False if it overlaps another one.
    pub(crate) fn insert(&self, run: &CopiedRun) -> bool {
        let mut vdevs = self.write();
        let map = vdevs.entry(run.from.vdev).or_default();
        let bytes = run.bytes;
        map.insert(run.from.offset.0, Run { bytes, to: run.to })
    }

    /// Takes a range out: the removal of its vdev was given up.
    pub(crate) fn remove(&self, vdev: VdevId, range: Range<u64>) {
        if let Some(map) = self.write().get_mut(&vdev) {
            map.remove(range);
        }
    }

    /// Bytes of a vdev's runs.
    pub(crate) fn bytes(&self, vdev: VdevId) -> u64 {
        self.read().get(&vdev).map_or(0, |map| map.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: VdevId = VdevId(1);

    fn at(vdev: u16, offset: u64) -> Address {
        Address {
            vdev: VdevId(vdev),
            offset: VdevOffset(offset),
        }
    }

    fn run(from: u64, to: u64, bytes: u64) -> CopiedRun {
        CopiedRun {
            from: at(1, from),
            to: at(0, to),
            bytes,
        }
    }

    #[test]
    fn an_address_in_a_run_has_the_place_at_the_same_distance() {
        let copies = Copies::default();
        assert!(copies.insert(&run(8192, 65536, 12288)));
        assert_eq!(copies.place_of(at(1, 8192), 12288), Some(at(0, 65536)));
        assert_eq!(copies.place_of(at(1, 12288), 4096), Some(at(0, 69632)));
        assert_eq!(copies.place_of(at(1, 12288), 12288), None, "beyond its end");
        assert_eq!(copies.place_of(at(1, 4096), 4096), None);
        assert_eq!(copies.place_of(at(2, 8192), 4096), None);
    }

    #[test]
    fn runs_do_not_overlap() {
        let copies = Copies::default();
        assert!(copies.insert(&run(8192, 65536, 8192)));
        assert!(!copies.insert(&run(12288, 131_072, 8192)));
        assert!(!copies.insert(&run(4096, 131_072, 8192)));
        assert!(!copies.insert(&run(0, 131_072, 65536)));
        assert_eq!(copies.bytes(OLD), 8192);
    }

    #[test]
    fn a_range_that_is_taken_out_splits_a_run() {
        let copies = Copies::default();
        assert!(copies.insert(&run(0, 65536, 16384)));
        copies.remove(OLD, 4096..8192);
        let left = [run(0, 65536, 4096), run(8192, 73728, 8192)];
        assert_eq!(copies.within(OLD, 0..u64::MAX), left);
        assert_eq!(copies.bytes(OLD), 12288);
        copies.remove(OLD, 0..u64::MAX);
        assert_eq!(copies.bytes(OLD), 0);
        assert_eq!(copies.within(OLD, 0..u64::MAX), []);
    }

    #[test]
    fn parts_of_runs_in_a_range_are_found() {
        let copies = Copies::default();
        assert!(copies.insert(&run(0, 65536, 16384)));
        assert!(copies.insert(&run(32768, 4096, 4096)));
        let found = copies.within(OLD, 8192..36864);
        assert_eq!(found, [run(8192, 73728, 8192), run(32768, 4096, 4096)]);
    }
}
