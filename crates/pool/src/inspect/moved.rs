//! Copies of blocks whose vdev is being removed, or was removed.
//!
//! **Owns** its own map from the addresses of block pointers to the places of copies. **Called by** reads of blocks, and by verification.
//! **Invariant**: runs do not overlap. `docs/format.md`, "Removed vdevs".

use std::collections::BTreeMap;

use crate::format::{Address, CopiedRun, Defect, REGION_SECTORS};

/// Runs of copies, by vdev and old offset.
#[derive(Debug, Default, Clone)]
pub(super) struct SeenCopies(BTreeMap<(u16, u64), CopiedRun>);

impl SeenCopies {
    /// Adds a run. `sectors` has the bytes of a sector of each vdev.
    ///
    /// # Errors
    /// It overlaps another one, reaches into another region of its vdev, or a vdev of it does not exist.
    pub(super) fn add(&mut self, run: CopiedRun, sectors: &[u32]) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let (from, end) = (run.from.offset.0, run.from.offset.0 + run.bytes);
        let sector = |at: Address| sectors.get(usize::from(at.vdev.0));
        let (Some(sector), Some(_)) = (sector(run.from), sector(run.to)) else {
            return field("vdev of a run of copies", run.to.vdev.0.into());
        };
        let region = u64::from(*sector) * u64::from(REGION_SECTORS);
        if from / region != (end - 1) / region {
            return field("end of a run of copies", end);
        }
        let before = self.0.range(..(run.from.vdev.0, end)).next_back();
        let overlaps = |((vdev, at), other): (&(u16, u64), &CopiedRun)| {
            *vdev == run.from.vdev.0 && at + other.bytes > from
        };
        if before.is_some_and(overlaps) {
            return field(
                "address of a run of copies, which overlaps another run",
                from,
            );
        }
        self.0.insert((run.from.vdev.0, from), run);
        Ok(())
    }

    /// The places of the copies of a range, by pieces.
    pub(super) fn within(&self, at: Address, bytes: u64) -> Vec<(Address, u64)> {
        let (start, end) = (at.offset.0, at.offset.0 + bytes);
        let vdev = at.vdev.0;
        let before = self.0.range((vdev, 0)..(vdev, start)).next_back();
        let runs = before
            .into_iter()
            .chain(self.0.range((vdev, start)..(vdev, end)));
        let part = |((_, from), run): (&(u16, u64), &CopiedRun)| {
            let first = start.max(*from);
            let last = end.min(from + run.bytes);
            let to = run.to.behind((first - from) as usize);
            (first < last).then(|| (to, last - first))
        };
        runs.filter_map(part).collect()
    }

    /// The place of the copy of a range that was copied as one piece, also if its parts are in several runs.
    pub(super) fn place_of(&self, at: Address, bytes: u64) -> Option<Address> {
        let parts = self.within(at, bytes);
        let (first, mut len) = *parts.first()?;
        for (to, more) in &parts[1..] {
            if first.behind(len as usize) != *to {
                return None;
            }
            len += more;
        }
        (len == bytes).then_some(first)
    }
}
