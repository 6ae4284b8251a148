//! Configuration of a simulated disk: geometry, latency, faults.

use super::{DiskState, Source, Work};
use crate::disk::DiskKind;
use crate::sim::core::{Core, Nanos};
use crate::sim::disk::PowerCutFate;
use crate::sim::world::nanos;
use std::ops::Range;
use std::time::Duration;

/// Latency of an operation: `base`, plus up to `jitter`, and sometimes a long `tail`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Shortest latency.
    pub base: Duration,
    /// Largest random addition.
    pub jitter: Duration,
    /// Probability that `tail` is added, 0 to 1.
    pub tail_chance: f64,
    /// Rare large addition.
    pub tail: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        Latency {
            base: Duration::from_micros(60),
            jitter: Duration::from_micros(80),
            tail_chance: 0.002,
            tail: Duration::from_millis(8),
        }
    }
}

/// Configuration of a disk.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// Size in bytes, a multiple of `logical_block`.
    pub size: u64,
    /// 512 or 4096.
    pub logical_block: u32,
    /// At least `logical_block`.
    pub physical_block: u32,
    /// File (its owner can resize it) or block device.
    pub kind: DiskKind,
    /// Reports itself as a hard disk. Its speed depends on `latency` alone.
    pub rotational: bool,
    /// Whether completed writes may be lost until a flush.
    pub volatile_cache: bool,
    /// The unit that a power cut does not tear, bytes; divides `logical_block`.
    pub atomic_unit: u32,
    /// Effect of a power cut on unflushed writes.
    pub power_cut: PowerCutFate,
    /// Latency of operations.
    pub latency: Latency,
    /// Latency of reads, if it differs.
    pub read_latency: Option<Latency>,
    /// Probability that a read fails with EIO, 0 to 1.
    pub read_error: f64,
    /// Probability that a write fails with EIO, 0 to 1. A failed write may have taken effect.
    pub write_error: f64,
    /// Probability that a flush fails with EIO, 0 to 1.
    pub flush_error: f64,
    /// Whether deallocated blocks that held data read as garbage instead of zero.
    pub trims_to_garbage: bool,
    /// Probability that a read or write is cut short, 0 to 1.
    pub short: f64,
}

impl Default for DiskConfig {
    fn default() -> Self {
        DiskConfig {
            size: 64 << 20,
            logical_block: 4096,
            physical_block: 4096,
            kind: DiskKind::Block,
            rotational: false,
            volatile_cache: true,
            atomic_unit: 4096,
            power_cut: PowerCutFate::Any,
            latency: Latency::default(),
            read_latency: None,
            read_error: 0.0,
            write_error: 0.0,
            flush_error: 0.0,
            trims_to_garbage: false,
            short: 0.01,
        }
    }
}

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
}

fn overlaps(ranges: &[Range<u64>], offset: u64, len: u64) -> bool {
    ranges
        .iter()
        .any(|r| r.start < offset + len && offset < r.end)
}

/// Removes `offset..offset + len` from `ranges`.
fn subtract(ranges: &mut Vec<Range<u64>>, offset: u64, len: u64) {
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
    pub(super) fn latency(&mut self, core: &mut Core, config: &DiskConfig, is_read: bool) -> Nanos {
        let of_reads = config.read_latency.filter(|_| is_read);
        let l = self.slow.or(of_reads).unwrap_or(config.latency);
        let mut t = nanos(l.base) + core.upto(nanos(l.jitter));
        if core.rng.chance(l.tail_chance) {
            t += nanos(l.tail);
        }
        t + self.stall_next.take().map_or(0, nanos)
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

impl DiskState {
    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size;
        self.medium.truncate(size);
    }

    fn aligned(&self, offset: u64, len: u64) -> Result<(), i32> {
        let block = u64::from(self.config.logical_block);
        if offset.is_multiple_of(block) && len.is_multiple_of(block) {
            Ok(())
        } else {
            Err(libc::EINVAL)
        }
    }

    /// Returns how many of `len` bytes at `offset` are below the end. Fails with EINVAL if the range is not aligned.
    pub(super) fn readable(&self, offset: u64, len: usize) -> Result<usize, i32> {
        self.aligned(offset, len as u64)?;
        Ok(usize::try_from(self.size.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(len))
    }

    /// Returns a write of `source` at byte `offset`, with its faults decided. `takes_space` is false for zeroing.
    pub(super) fn write(
        &mut self,
        core: &mut Core,
        offset: u64,
        source: Source,
        through: bool,
        takes_space: bool,
    ) -> Result<(Work, i32), i32> {
        let block = u64::from(self.config.logical_block);
        let mut blocks = source.blocks();
        self.aligned(offset, 0)?;
        if matches!(source, Source::Ragged) {
            return Err(libc::EINVAL);
        }
        if offset >= self.size && blocks > 0 {
            return Err(if self.config.kind == DiskKind::Block {
                libc::ENOSPC
            } else {
                libc::EFBIG
            });
        }
        blocks = blocks.min((self.size - offset) / block);
        if takes_space && let Some(space) = self.faults.space {
            blocks = self.medium.fitting(offset / block, blocks, space / block);
            if blocks == 0 {
                return Err(libc::ENOSPC);
            }
        }
        if takes_space && blocks > 1 && core.rng.chance(self.config.short) {
            blocks = 1 + core.upto(blocks - 2);
        }
        let len = blocks * block;
        let fails = overlaps(&self.faults.bad_writes, offset, len)
            || core.rng.chance(self.config.write_error);
        let result = if fails {
            -libc::EIO
        } else {
            i32::try_from(len).unwrap_or(i32::MAX)
        };
        if !fails {
            subtract(&mut self.faults.bad_reads, offset, len);
        }
        let first = match self.faults.misdirect_next.take() {
            Some(elsewhere) if takes_space => elsewhere / block,
            _ => offset / block,
        };
        let lost = (takes_space && std::mem::take(&mut self.faults.drop_next))
            || (fails && core.rng.chance(0.5));
        if lost {
            blocks = 0;
        }
        Ok((
            Work::Write {
                first,
                source,
                blocks,
                through,
            },
            result,
        ))
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
