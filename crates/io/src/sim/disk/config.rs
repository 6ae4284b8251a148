//! Configuration of a simulated disk: geometry, latency, rates of errors.

use super::medium::PowerCutFate;
use crate::disk::DiskKind;
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
    /// Latency of flushes, if it differs.
    pub flush_latency: Option<Latency>,
    /// Whether it serves one operation after the other, each with its latency.
    pub is_serial: bool,
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
            flush_latency: None,
            is_serial: false,
            read_error: 0.0,
            write_error: 0.0,
            flush_error: 0.0,
            trims_to_garbage: false,
            short: 0.01,
        }
    }
}
