//! Counters of clients' requests by dataset: how many are short beside a record.
//!
//! A short read of a long record reads parts of it, and a short overwrite keeps old contents. Many of them tell that smaller records would be better. A
//! request that continues another one is not short: the records of a sequence are read and written whole.
//!
//! **Owns** the counters. **Called by** reads and acknowledged writes. **Invariants**: counters only grow, and nothing waits for one (relaxed atomics).

use std::sync::atomic::{AtomicU64, Ordering};

/// A request of at most this part of a record is short, as a divisor.
pub(crate) const SHORT_PART: usize = 4;

/// Requests of clients to a volume or filesystem since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Reads.
    pub reads: u64,
    /// Reads of at most a quarter of a record that memory did not have, and that do not continue another read.
    pub short_reads: u64,
    /// Bytes of these.
    pub short_read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Writes of at most a quarter of a record below the end of the file, and that do not continue another write.
    pub short_overwrites: u64,
    /// Bytes of these.
    pub short_overwrite_bytes: u64,
}

/// Requests of one kind.
#[derive(Debug, Default)]
struct Requests {
    all: AtomicU64,
    short: AtomicU64,
    short_bytes: AtomicU64,
}

impl Requests {
    fn count(&self, bytes: usize, is_short: bool) {
        self.all.fetch_add(1, Ordering::Relaxed);
        if is_short {
            self.short.fetch_add(1, Ordering::Relaxed);
            self.short_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// All requests, short ones, and their bytes.
    fn get(&self) -> [u64; 3] {
        [&self.all, &self.short, &self.short_bytes].map(|c| c.load(Ordering::Relaxed))
    }
}

/// Counters of a dataset.
#[derive(Debug, Default)]
pub(crate) struct AccessCounters {
    reads: Requests,
    writes: Requests,
}

impl AccessCounters {
    /// A client reads `bytes` bytes.
    pub(crate) fn read(&self, bytes: usize, is_short: bool) {
        self.reads.count(bytes, is_short);
    }

    /// A client wrote `bytes` bytes.
    pub(crate) fn wrote(&self, bytes: usize, is_short: bool) {
        self.writes.count(bytes, is_short);
    }

    /// The present counts.
    pub(crate) fn get(&self) -> Accesses {
        let [reads, short_reads, short_read_bytes] = self.reads.get();
        let [writes, short_overwrites, short_overwrite_bytes] = self.writes.get();
        Accesses {
            reads,
            short_reads,
            short_read_bytes,
            writes,
            short_overwrites,
            short_overwrite_bytes,
        }
    }
}
