//! One disk of the pool, and what is known against it.
//!
//! **Owns** the open disk, its counters and the evidence of its failing. **Called by** mirrors. **Invariants**: a leaf
//! never decides what its errors mean for the pool; it counts them, and says when they are too many.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use io::disk::{Disk, Flushed};
use io::{IoBuf, SharedBuf};

use super::limits::{EVIDENCE_MAX, EVIDENCE_OF_ERROR, WRITE_TRIES};
use crate::format::SideGuid;

/// What a side did since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Reads that were asked for.
    pub reads: u64,
    /// Writes that were asked for.
    pub writes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed.
    pub write_errors: u64,
    /// Blocks that were read and were not what they should be.
    pub checksum_errors: u64,
    /// Blocks that were written again because they could not be read or were wrong.
    pub repairs: u64,
}

#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    read_errors: AtomicU64,
    write_errors: AtomicU64,
    checksum_errors: AtomicU64,
    repairs: AtomicU64,
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A disk of the pool; it may be missing.
pub(super) struct Leaf {
    guid: SideGuid,
    path: PathBuf,
    disk: Option<Disk>,
    counters: Counters,
    in_flight: AtomicU32,
    evidence: AtomicU32,
}

impl Leaf {
    pub(super) fn new(guid: SideGuid, disk: Disk) -> Self {
        Self {
            guid,
            path: disk.info().path.clone(),
            disk: Some(disk),
            counters: Counters::default(),
            in_flight: AtomicU32::new(0),
            evidence: AtomicU32::new(0),
        }
    }

    /// A disk that is not there.
    pub(super) fn missing(guid: SideGuid) -> Self {
        Self {
            guid,
            path: PathBuf::new(),
            disk: None,
            counters: Counters::default(),
            in_flight: AtomicU32::new(0),
            evidence: AtomicU32::new(0),
        }
    }

    pub(super) fn guid(&self) -> SideGuid {
        self.guid
    }

    /// Where it was opened; empty if it is missing.
    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The open disk, unless it is missing.
    pub(super) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Its size when it was opened, bytes.
    pub(super) fn size(&self) -> u64 {
        self.disk.as_ref().map_or(0, |d| d.info().size)
    }

    pub(super) fn counters(&self) -> SideCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SideCounters {
            reads: get(&self.counters.reads),
            writes: get(&self.counters.writes),
            read_errors: get(&self.counters.read_errors),
            write_errors: get(&self.counters.write_errors),
            checksum_errors: get(&self.counters.checksum_errors),
            repairs: get(&self.counters.repairs),
        }
    }

    /// Reads that are under way.
    pub(super) fn load(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Whether its errors are too many.
    pub(super) fn is_condemned(&self) -> bool {
        self.evidence.load(Ordering::Relaxed) >= EVIDENCE_MAX
    }

    fn acquit(&self) {
        let less = |evidence: u32| evidence.checked_sub(1);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let _none_to_take = self.evidence.fetch_update(set, fetch, less);
    }

    fn accuse(&self, weight: u32) {
        let more = |evidence: u32| Some(evidence.saturating_add(weight).min(2 * EVIDENCE_MAX));
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        let _always = self.evidence.fetch_update(set, fetch, more);
    }

    /// Takes note of what an operation came to. A device that is gone needs no more evidence.
    fn judge<T>(&self, result: &io::Result<T>, errors: &AtomicU64) {
        match result {
            Ok(_) => return self.acquit(),
            Err(io::Error::Gone(_)) => self.accuse(EVIDENCE_MAX),
            Err(_) => self.accuse(EVIDENCE_OF_ERROR),
        }
        add_one(errors);
    }

    /// Something that was read was wrong. That alone never faults a side: it is seen and repaired, and the rest may
    /// be what another side lacks.
    pub(super) fn count_checksum_error(&self) {
        add_one(&self.counters.checksum_errors);
    }

    /// Fills `buf` from byte `offset` of the disk.
    pub(super) async fn read(&self, buf: IoBuf, offset: u64) -> (io::Result<()>, IoBuf) {
        let Some(disk) = &self.disk else {
            return (Err(io::Error::NotFound), buf);
        };
        add_one(&self.counters.reads);
        let load = Load::of(&self.in_flight);
        let (result, buf) = disk.read(buf, offset).await;
        drop(load);
        self.judge(&result, &self.counters.read_errors);
        (result, buf)
    }

    /// Writes all of `data` at byte `offset` of the disk.
    pub(super) async fn write(&self, data: &SharedBuf, offset: u64) -> io::Result<()> {
        let disk = self.disk.as_ref().ok_or(io::Error::NotFound)?;
        add_one(&self.counters.writes);
        let mut tries = 0;
        loop {
            let result = disk.write(data.clone(), offset).await;
            self.judge(&result, &self.counters.write_errors);
            tries += 1;
            if result.is_ok() || tries == WRITE_TRIES {
                return result;
            }
        }
    }

    /// Writes what was found wrong.
    pub(super) async fn repair(&self, good: &SharedBuf, offset: u64) {
        if self.write(good, offset).await.is_ok() {
            add_one(&self.counters.repairs);
        }
    }

    /// Gives space back to the disk, if it takes it. What is read there is then anything.
    pub(super) async fn trim(&self, offset: u64, len: u64) {
        if let Some(disk) = &self.disk {
            // A disk that cannot, or fails to, only keeps what nobody needs.
            let _best_effort = disk.deallocate(offset, len).await;
        }
    }

    /// Makes what was written durable. A flush that failed is not tried again: what it was for may be gone.
    pub(super) async fn flush(&self) -> io::Result<Flushed> {
        let disk = self.disk.as_ref().ok_or(io::Error::NotFound)?;
        let result = disk.flush().await;
        self.judge(&result, &self.counters.write_errors);
        result
    }
}

/// Counts an operation while it is under way, also if nobody waits for its end.
struct Load<'a>(&'a AtomicU32);

impl<'a> Load<'a> {
    fn of(counter: &'a AtomicU32) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
