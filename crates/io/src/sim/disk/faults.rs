//! Present faults of a simulated disk, and their effect on one operation.

use super::config::{DiskConfig, Latency};
use super::state::Work;
use crate::sim::core::Core;
use crate::sim::event::{Nanos, nanos};
use std::ops::Range;
use std::time::Duration;

/// Present faults of a disk.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) bad_reads: Vec<Range<u64>>,
    pub(super) bad_writes: Vec<Range<u64>>,
    pub(super) slow: Option<Latency>,
    pub(super) stall_next: Option<Duration>,
    pub(super) space: Option<u64>,
    pub(super) misdirect_next: Option<u64>,
    pub(super) drop_next: bool,
    pub(super) flushes_lie: bool,
    /// When a serial disk has ended its operations.
    idle_at: Nanos,
}

/// Whether one of `ranges` has a byte of `offset..offset + len`.
pub(super) fn overlaps(ranges: &[Range<u64>], offset: u64, len: u64) -> bool {
    ranges
        .iter()
        .any(|r| r.start < offset + len && offset < r.end)
}

/// Removes `offset..offset + len` from `ranges`.
pub(super) fn subtract(ranges: &mut Vec<Range<u64>>, offset: u64, len: u64) {
    let end = offset + len;
    *ranges = ranges
        .iter()
        .flat_map(|r| {
            [
                r.start..r.end.min(offset).max(r.start),
                r.start.max(end).min(r.end)..r.end,
            ]
        })
        .filter(|r| !r.is_empty())
        .collect();
}

impl Faults {
    pub(super) fn latency(&mut self, core: &mut Core, config: &DiskConfig, work: &Work) -> Nanos {
        let of_work = match work {
            Work::Read { .. } => config.read_latency,
            Work::Flush { .. } => config.flush_latency,
            _ => None,
        };
        let l = self.slow.or(of_work).unwrap_or(config.latency);
        let mut t = nanos(l.base) + core.upto(nanos(l.jitter));
        if core.rng.chance(l.tail_chance) {
            t += nanos(l.tail);
        }
        t += self.stall_next.take().map_or(0, nanos);
        if config.is_serial {
            t += self.idle_at.saturating_sub(core.clock);
            self.idle_at = core.clock + t;
        }
        t
    }

    pub(super) fn reading(
        &self,
        core: &mut Core,
        config: &DiskConfig,
        offset: u64,
        len: u64,
    ) -> Result<(), i32> {
        if overlaps(&self.bad_reads, offset, len) || core.rng.chance(config.read_error) {
            return Err(libc::EIO);
        }
        Ok(())
    }

    pub(super) fn flushing(&self, core: &mut Core, config: &DiskConfig) -> Result<(), i32> {
        if core.rng.chance(config.flush_error) {
            return Err(libc::EIO);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subtracting_leaves_both_sides() {
        let mut r = vec![0..10, 20..30];
        subtract(&mut r, 5, 20);
        assert_eq!(r, [0..5, 25..30]);
        subtract(&mut r, 2, 1);
        assert_eq!(r, [0..2, 3..5, 25..30]);
        assert!(overlaps(&r, 4, 1) && !overlaps(&r, 2, 1) && !overlaps(&r, 5, 20));
    }
}
