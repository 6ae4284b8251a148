//! Counts of nodes that members had to read.
//!
//! **Owns** the counters. **Called by** reads of blocks; read by the server for status, metrics and `wirepool why`. **Invariant**: counts grow only.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nodes that were read from members because no cache had them, since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeReads {
    /// Nodes of normal vdevs.
    pub normal: u64,
    /// The sum of the times until these were read.
    pub normal_time: Duration,
    /// Nodes of special vdevs.
    pub special: u64,
}

/// The counters of [`NodeReads`].
#[derive(Default)]
pub(crate) struct NodeReadCounters {
    normal: AtomicU64,
    normal_ns: AtomicU64,
    special: AtomicU64,
}

impl NodeReadCounters {
    /// A node was read.
    pub(crate) fn add(&self, is_special: bool, took: Duration) {
        if is_special {
            self.special.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.normal.fetch_add(1, Ordering::Relaxed);
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.normal_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The present counts.
    pub(crate) fn read(&self) -> NodeReads {
        NodeReads {
            normal: self.normal.load(Ordering::Relaxed),
            normal_time: Duration::from_nanos(self.normal_ns.load(Ordering::Relaxed)),
            special: self.special.load(Ordering::Relaxed),
        }
    }
}
