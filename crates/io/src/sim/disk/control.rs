//! A test's hands on a disk.

use super::{DiskState, Latency};
use crate::sim::World;
use crate::sim::control::with_world;
use std::ops::Range;
use std::time::Duration;

/// A disk of a simulated node, to break it and to look at it. Ranges and offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimDisk(pub(in crate::sim) usize);

/// What is durable on a disk.
pub struct Snapshot {
    bytes: Vec<u8>,
}

impl Snapshot {
    /// All bytes of the disk.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl SimDisk {
    fn with<T>(self, f: impl FnOnce(&mut DiskState) -> T) -> T {
        with_world(|w| f(&mut w.disks.disks[self.0]))
    }

    /// Reads that touch `range` fail with EIO, until it is written anew.
    pub fn fail_reads(self, range: Range<u64>) {
        self.with(|d| d.faults.bad_reads.push(range));
    }

    /// Writes that touch `range` fail with EIO, until [`SimDisk::heal`].
    pub fn fail_writes(self, range: Range<u64>) {
        self.with(|d| d.faults.bad_writes.push(range));
    }

    /// How often reads, writes and flushes fail with EIO from now on, 0 to 1 each.
    pub fn error_rates(self, read: f64, write: f64, flush: f64) {
        self.with(|d| {
            (
                d.config.read_error,
                d.config.write_error,
                d.config.flush_error,
            ) = (read, write, flush)
        });
    }

    /// Ends all faults that were set, but for rot and a killed disk.
    pub fn heal(self) {
        self.error_rates(0.0, 0.0, 0.0);
        self.with(|d| d.faults = super::Faults::default());
    }

    /// The disk disappears: operations fail with ENODEV, its cache fares as in a power cut.
    pub fn kill(self) {
        with_world(|w| {
            let World { core, disks, .. } = w;
            disks.lose_cache(core, self.0);
            disks.disks[self.0].gone = true;
        });
    }

    /// It is back, and must be opened anew.
    pub fn revive(self) {
        with_world(|w| {
            w.disks.disks[self.0].gone = false;
            w.disks.opens.retain(|_, o| o.disk != self.0);
        });
    }

    /// Operations take so long from now on; `None` is as the disk was made.
    pub fn slow(self, latency: Option<Latency>) {
        self.with(|d| d.faults.slow = latency);
    }

    /// The next operation takes so much longer.
    pub fn stall_next(self, by: Duration) {
        self.with(|d| d.faults.stall_next = Some(by));
    }

    /// Flips a bit in every stored block of `range`.
    pub fn rot(self, range: Range<u64>) {
        with_world(|w| {
            let d = &mut w.disks.disks[self.0];
            let block = u64::from(d.config.logical_block);
            d.medium.rot(
                range.start / block,
                range.end.div_ceil(block),
                &mut w.core.rng,
            );
        });
    }

    /// The next write lands at byte `offset` instead of where it should, and says that all is well.
    pub fn misdirect_next_write(self, offset: u64) {
        self.with(|d| d.faults.misdirect_next = Some(offset));
    }

    /// The next write does nothing, and says that all is well.
    pub fn drop_next_write(self) {
        self.with(|d| d.faults.drop_next = true);
    }

    /// Flushes do nothing from now on, and say that all is well.
    pub fn lie_about_flushes(self, lie: bool) {
        self.with(|d| d.faults.flushes_lie = lie);
    }

    /// Stored blocks may take at most so many bytes; beyond, writes fail with ENOSPC. `None`: no limit.
    pub fn set_space(self, bytes: Option<u64>) {
        self.with(|d| d.faults.space = bytes);
    }

    /// Bytes that stored blocks take.
    #[must_use]
    pub fn used(self) -> u64 {
        self.with(|d| d.medium.used())
    }

    /// Changes the size from outside, bytes; what lies beyond is gone at once.
    pub fn set_size(self, size: u64) {
        self.with(|d| d.set_size(size));
    }

    /// Its size now, bytes.
    #[must_use]
    pub fn size(self) -> u64 {
        self.with(|d| d.size)
    }

    /// Blocks that a power cut could lose now.
    #[must_use]
    pub fn unflushed_blocks(self) -> usize {
        self.with(|d| d.medium.unflushed())
    }

    /// What a power cut that loses every unflushed write would leave.
    #[must_use]
    pub fn durable(self) -> Snapshot {
        self.with(|d| {
            let mut bytes =
                vec![0; usize::try_from(d.size).expect("a simulated disk fits in memory")];
            d.medium.read_durable(0, &mut bytes);
            Snapshot { bytes }
        })
    }
}
