//! One disk of the pool, and what is known against it.
//!
//! **Owns** the open disk, its counters and the evidence of its failing. **Called by** mirrors. **Invariants**: a leaf
//! never decides what its errors mean for the pool; it counts them, and says when they are too many.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use io::disk::{Disk, Flushed};
use io::time::now;
use io::{IoBuf, SharedBuf};

use super::area::Half;
use super::latency::{Histogram, Latency};
use super::limits::{EVIDENCE_MAX, EVIDENCE_OF_ERROR, HANG_MAX, WRITE_TRIES};
use super::pending::PendingOps;
use super::space_below::Lacking;
use crate::error::Error;
use crate::format::SideGuid;

/// What a side did since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SideCounters {
    /// Reads that were asked for.
    pub reads: u64,
    /// Writes that were asked for.
    pub writes: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed, but for those in `no_space`.
    pub write_errors: u64,
    /// Writes that the file system below had no space for.
    pub no_space: u64,
    /// Blocks that were read and were not what they should be.
    pub checksum_errors: u64,
    /// Blocks that were written again because they could not be read or were wrong.
    pub repairs: u64,
    /// Bytes that were given back to the disk.
    pub trimmed_bytes: u64,
}

/// Why a side is faulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Too many operations failed.
    Errors,
    /// The device said that it is gone.
    Gone,
    /// It did not answer within [`HANG_MAX`].
    Hung,
    /// The file system below has no space for what is written to it. It is not faulted for that.
    NoSpace,
    /// It has this many bytes, too few for the data of its vdev.
    Short(u64),
}

/// How long a side took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SideTimes {
    /// For reads.
    pub read: Latency,
    /// For writes.
    pub write: Latency,
    /// For flushes.
    pub flush: Latency,
}

#[derive(Default)]
struct Times {
    read: Histogram,
    write: Histogram,
    flush: Histogram,
}

#[derive(Default)]
struct Counters {
    reads: AtomicU64,
    writes: AtomicU64,
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
    read_errors: AtomicU64,
    write_errors: AtomicU64,
    no_space: AtomicU64,
    checksum_errors: AtomicU64,
    repairs: AtomicU64,
    trimmed_bytes: AtomicU64,
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

fn add(counter: &AtomicU64, more: usize) {
    counter.fetch_add(more as u64, Ordering::Relaxed);
}

/// A disk of the pool; it may be missing.
pub(super) struct Leaf {
    guid: SideGuid,
    path: PathBuf,
    disk: Option<Disk>,
    size: AtomicU64,
    counters: Counters,
    in_flight: AtomicU32,
    evidence: AtomicU32,
    is_gone: AtomicBool,
    is_short: AtomicBool,
    /// Bytes that it had when it was found too short.
    short_size: AtomicU64,
    pending: PendingOps,
    times: Times,
    halves: Mutex<Option<[Half; 2]>>,
    lacking: Lacking,
}

impl Leaf {
    /// Whether the disk is there and is a hard disk.
    pub(super) fn is_hard_disk(&self) -> bool {
        self.disk.as_ref().is_some_and(|d| d.info().rotational)
    }

    pub(super) fn new(guid: SideGuid, disk: Disk) -> Self {
        Self {
            guid,
            path: disk.info().path.clone(),
            size: AtomicU64::new(disk.info().size),
            disk: Some(disk),
            counters: Counters::default(),
            in_flight: AtomicU32::new(0),
            evidence: AtomicU32::new(0),
            is_gone: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            short_size: AtomicU64::new(0),
            pending: PendingOps::default(),
            times: Times::default(),
            halves: Mutex::default(),
            lacking: Lacking::default(),
        }
    }

    /// A disk that is not there.
    pub(super) fn missing(guid: SideGuid) -> Self {
        Self {
            guid,
            path: PathBuf::new(),
            size: AtomicU64::new(0),
            disk: None,
            counters: Counters::default(),
            in_flight: AtomicU32::new(0),
            evidence: AtomicU32::new(0),
            is_gone: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            short_size: AtomicU64::new(0),
            pending: PendingOps::default(),
            times: Times::default(),
            halves: Mutex::default(),
            lacking: Lacking::default(),
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

    /// Its size as far as it is used, bytes: when it was opened, or when its vdev grew.
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// The disk became larger: where the copies of its label belong at its end, there is none.
    pub(super) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
        self.know_halves(None);
    }

    pub(super) fn counters(&self) -> SideCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        SideCounters {
            reads: get(&self.counters.reads),
            writes: get(&self.counters.writes),
            read_bytes: get(&self.counters.read_bytes),
            written_bytes: get(&self.counters.written_bytes),
            read_errors: get(&self.counters.read_errors),
            write_errors: get(&self.counters.write_errors),
            no_space: get(&self.counters.no_space),
            checksum_errors: get(&self.counters.checksum_errors),
            repairs: get(&self.counters.repairs),
            trimmed_bytes: get(&self.counters.trimmed_bytes),
        }
    }

    /// Reads that are under way.
    pub(super) fn load(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// How long it took for what it did.
    pub(super) fn times(&self) -> SideTimes {
        SideTimes {
            read: self.times.read.read(),
            write: self.times.write.read(),
            flush: self.times.flush.read(),
        }
    }

    /// Whether it owes an answer for so long that it counts as hanging.
    pub(super) fn hangs(&self) -> bool {
        self.pending.oldest() >= HANG_MAX
    }

    /// Nobody waits for it any more, and nothing is sent to it.
    pub(super) fn give_up(&self) {
        self.accuse(EVIDENCE_MAX);
        self.pending.give_up();
    }

    /// It has `size` bytes, too few for the data of its vdev.
    pub(super) fn condemn_short(&self, size: u64) {
        self.short_size.store(size, Ordering::Relaxed);
        self.is_short.store(true, Ordering::Relaxed);
        self.accuse(EVIDENCE_MAX);
    }

    /// Whether it is too short for the data of its vdev.
    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// What it is to be faulted for, as far as that is known.
    pub(super) fn fault(&self) -> Option<Fault> {
        if self.is_short() {
            return Some(Fault::Short(self.short_size.load(Ordering::Relaxed)));
        }
        if self.pending.is_given_up() {
            return Some(Fault::Hung);
        }
        if self.is_gone.load(Ordering::Relaxed) {
            return Some(Fault::Gone);
        }
        if self.is_condemned() {
            return Some(Fault::Errors);
        }
        self.is_full().then_some(Fault::NoSpace)
    }

    /// Whether its errors are too many.
    pub(super) fn is_condemned(&self) -> bool {
        self.evidence.load(Ordering::Relaxed) >= EVIDENCE_MAX
    }

    /// Whether a write found no space in the file system below, and none has succeeded there since.
    pub(super) fn is_full(&self) -> bool {
        self.lacking.is_any()
    }

    /// What it means that a write to it failed.
    pub(super) fn write_error(&self) -> Error {
        match self.is_full() {
            true => Error::FileSystemFull {
                path: self.path.clone(),
            },
            false => Error::Device,
        }
    }

    /// Looks whether there is space again for the writes that found none.
    pub(super) async fn look_for_space(&self) {
        let Some(disk) = self.disk.as_ref().filter(|_| self.is_full()) else {
            return;
        };
        for (at, len) in self.lacking.all() {
            match disk.reserve(at, len).await {
                Err(io::Error::NoSpace) => return,
                // the next write tells
                _ => self.lacking.remove(at),
            }
        }
    }

    /// Takes note of what a write came to, if space is why. Whether it found none. A device says so as well of what lies
    /// beyond its end: that is another matter.
    async fn is_lacking(&self, disk: &Disk, at: u64, len: u64, result: &io::Result<()>) -> bool {
        if *result == Err(io::Error::NoSpace)
            && disk.size().await.is_ok_and(|size| at + len <= size)
        {
            add_one(&self.counters.no_space);
            self.lacking.add(at, len);
            return true;
        }
        if self.is_full() {
            self.lacking.remove(at);
        }
        false
    }

    fn halves(&self) -> MutexGuard<'_, Option<[Half; 2]>> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the halves of its label's copies hold, if that is known.
    pub(super) fn known_halves(&self) -> Option<[Half; 2]> {
        *self.halves()
    }

    /// Takes note of what they hold.
    pub(super) fn know_halves(&self, known: Option<[Half; 2]>) {
        *self.halves() = known;
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
            Err(io::Error::Gone(_)) => {
                self.is_gone.store(true, Ordering::Relaxed);
                self.accuse(EVIDENCE_MAX);
            }
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
    /// A disk that was given up has the buffer until it answers, if it ever does.
    pub(super) async fn read(&self, buf: IoBuf, offset: u64) -> (io::Result<()>, Option<IoBuf>) {
        let Some(disk) = &self.disk else {
            return (Err(io::Error::NotFound), Some(buf));
        };
        add_one(&self.counters.reads);
        add(&self.counters.read_bytes, buf.len());
        let load = Load::of(&self.in_flight);
        let began = now();
        let read = self.pending.bound(disk.read(buf, offset)).await;
        drop(load);
        let Some((result, buf)) = read else {
            return (Err(io::Error::TimedOut), None);
        };
        self.times.read.record(began.elapsed());
        self.judge(&result, &self.counters.read_errors);
        if result == Err(io::Error::Truncated)
            && let Ok(size) = disk.size().await
            && size < self.size()
        {
            self.condemn_short(size);
        }
        (result, Some(buf))
    }

    /// Writes all of `data` at byte `offset` of the disk.
    pub(super) async fn write(&self, data: &SharedBuf, offset: u64) -> io::Result<()> {
        let disk = self.disk.as_ref().ok_or(io::Error::NotFound)?;
        add_one(&self.counters.writes);
        add(&self.counters.written_bytes, data.len());
        let mut tries = 0;
        loop {
            let began = now();
            let written = self.pending.bound(disk.write(data.clone(), offset)).await;
            let result = written.ok_or(io::Error::TimedOut)?;
            self.times.write.record(began.elapsed());
            let len = data.len() as u64;
            if self.is_lacking(disk, offset, len, &result).await {
                return result;
            }
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
            if disk.discard(offset, len).await.is_ok() {
                add(&self.counters.trimmed_bytes, len as usize);
            }
        }
    }

    /// Makes what was written durable. A flush that failed is not tried again: what it was for may be gone.
    pub(super) async fn flush(&self) -> io::Result<Flushed> {
        let disk = self.disk.as_ref().ok_or(io::Error::NotFound)?;
        let began = now();
        let flushed = self.pending.bound(disk.flush()).await;
        let result = flushed.ok_or(io::Error::TimedOut)?;
        self.times.flush.record(began.elapsed());
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
