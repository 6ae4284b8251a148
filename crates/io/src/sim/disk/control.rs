//! Control of a simulated disk by a test: faults, latency, contents.

use super::config::Latency;
use super::faults::Faults;
use super::state::DiskState;
use crate::sim::World;
use crate::sim::control::with_world;
use std::ops::Range;
use std::time::Duration;

/// A disk of a simulated node, for fault injection and inspection. Ranges and offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SimDisk(pub(in crate::sim) usize);

/// The durable contents of a disk.
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

    /// Makes reads that touch `range` fail with EIO, until the range is written.
    pub fn fail_reads(self, range: Range<u64>) {
        self.with(|d| d.faults.bad_reads.push(range));
    }

    /// Makes writes that touch `range` fail with EIO, until [`SimDisk::heal`].
    pub fn fail_writes(self, range: Range<u64>) {
        self.with(|d| d.faults.bad_writes.push(range));
    }

    /// Sets the probabilities with which reads, writes and flushes fail with EIO, 0 to 1 each.
    pub fn error_rates(self, read: f64, write: f64, flush: f64) {
        self.with(|d| {
            (
                d.config.read_error,
                d.config.write_error,
                d.config.flush_error,
            ) = (read, write, flush)
        });
    }

    /// Ends all injected faults, except rot and a killed disk.
    pub fn heal(self) {
        self.error_rates(0.0, 0.0, 0.0);
        self.with(|d| d.faults = Faults::default());
    }

    /// Removes the disk: operations fail with ENODEV, and its cache is lost as in a power cut.
    pub fn kill(self) {
        with_world(|w| {
            let World { core, disks, .. } = w;
            disks.lose_cache(core, self.0);
            disks.disks[self.0].gone = true;
        });
    }

    /// Returns the disk, which must be opened again.
    pub fn revive(self) {
        with_world(|w| {
            w.disks.disks[self.0].gone = false;
            w.disks.opens.retain(|_, o| o.disk != self.0);
        });
    }

    /// Sets the latency of operations; `None` restores the configured one.
    pub fn slow(self, latency: Option<Latency>) {
        self.with(|d| d.faults.slow = latency);
    }

    /// Delays the next operation by `by`.
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

    /// Makes the next write land at byte `offset` instead of its address, and succeed.
    pub fn misdirect_next_write(self, offset: u64) {
        self.with(|d| d.faults.misdirect_next = Some(offset));
    }

    /// Makes the next write do nothing, and succeed.
    pub fn drop_next_write(self) {
        self.with(|d| d.faults.drop_next = true);
    }

    /// Sets whether flushes do nothing, and succeed.
    pub fn lie_about_flushes(self, lie: bool) {
        self.with(|d| d.faults.flushes_lie = lie);
    }

    /// Limits the bytes that stored blocks may take; writes beyond fail with ENOSPC. `None` for no limit.
    pub fn set_space(self, bytes: Option<u64>) {
        self.with(|d| d.faults.space = bytes);
    }

    /// Bytes that successful writes brought to the disk since its creation, without zeroing.
    #[must_use]
    pub fn written(self) -> u64 {
        self.with(|d| d.written)
    }

    /// Bytes that stored blocks take.
    #[must_use]
    pub fn used(self) -> u64 {
        self.with(|d| d.medium.used())
    }

    /// Sets the size, bytes. Contents beyond the new end are lost at once.
    pub fn set_size(self, size: u64) {
        self.with(|d| d.set_size(size));
    }

    /// The present size, bytes.
    #[must_use]
    pub fn size(self) -> u64 {
        self.with(|d| d.size)
    }

    /// Number of blocks that a power cut could lose now.
    #[must_use]
    pub fn unflushed_blocks(self) -> usize {
        self.with(|d| d.medium.unflushed())
    }

    /// The contents after a power cut that loses every unflushed write.
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
