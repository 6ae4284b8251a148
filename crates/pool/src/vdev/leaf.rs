//! One disk of the pool, with its counters and errors.
//!
//! **Owns** the open disk, its counters and the evidence of its failure. **Called by** mirrors. **Invariants**: a leaf does
//! not decide what its errors mean for the pool; it counts them, and reports when they are too many.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use io::disk::{Disk, Flushed};
use io::histogram::{self, Histogram};
use io::time::now;
use io::{IoBuf, SharedBuf};

use super::limits::{EVIDENCE_MAX, EVIDENCE_OF_ERROR, HANG_MAX, WRITE_TRIES};
use super::pending::PendingOps;
use super::space_below::Lacking;
use crate::error::Error;
use crate::format::MemberGuid;
use crate::written::{ClassCounters, WriteClass, WrittenBytes};

/// Operations of a member since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemberCounters {
    /// Reads requested.
    pub reads: u64,
    /// Writes requested.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes sent to the disk to be written, by class. A repeated attempt counts again.
    pub written: WrittenBytes,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed, without those in `no_space`.
    pub write_errors: u64,
    /// Writes for which the file system below had no space.
    pub no_space: u64,
    /// Blocks with a wrong checksum.
    pub checksum_errors: u64,
    /// Blocks that were rewritten because they were unreadable or wrong.
    pub repairs: u64,
    /// Bytes discarded.
    pub trimmed_bytes: u64,
}

/// Why a member is faulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Too many operations failed.
    Errors,
    /// The device disappeared.
    Gone,
    /// It did not answer within [`HANG_MAX`].
    Hung,
    /// The file system below has no space for writes. The member is not faulted for this.
    NoSpace,
    /// It has this many bytes, too few for the data of its vdev.
    Short(u64),
}

/// State of one half of a label's copies. The lesser half is written first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Half {
    /// Number of intact, durable copies.
    pub(super) whole: usize,
    /// Epoch of the newest of them.
    pub(super) epoch: u64,
}

/// Latencies of a member, µs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemberTimes {
    /// Of reads.
    pub read: histogram::Times,
    /// Of writes.
    pub write: histogram::Times,
    /// Of flushes.
    pub flush: histogram::Times,
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
    written: ClassCounters,
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

/// A disk of the pool. It may be missing.
pub(super) struct Leaf {
    guid: MemberGuid,
    path: PathBuf,
    disk: Option<Disk>,
    size: AtomicU64,
    counters: Counters,
    in_flight: AtomicU32,
    evidence: AtomicU32,
    is_gone: AtomicBool,
    is_short: AtomicBool,
    /// Its size in bytes when it was found too short.
    short_size: AtomicU64,
    pending: PendingOps,
    times: Times,
    halves: Mutex<Option<[Half; 2]>>,
    lacking: Lacking,
}

impl Leaf {
    /// Whether the disk is present and is a hard disk.
    pub(super) fn is_hard_disk(&self) -> bool {
        self.disk.as_ref().is_some_and(|d| d.info().rotational)
    }

    pub(super) fn new(guid: MemberGuid, disk: Disk) -> Self {
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

    /// A member without a disk.
    pub(super) fn missing(guid: MemberGuid) -> Self {
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

    pub(super) fn guid(&self) -> MemberGuid {
        self.guid
    }

    /// Path of the disk; empty if it is missing.
    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// The open disk; `None` if it is missing.
    pub(super) fn disk(&self) -> Option<&Disk> {
        self.disk.as_ref()
    }

    /// Size in use, bytes: as of the opening, or of the last growth of its vdev.
    pub(super) fn size(&self) -> u64 {
        self.size.load(Ordering::Acquire)
    }

    /// Sets the size in use after the disk grew. Its new end has no copies of the label yet.
    pub(super) fn set_size(&self, size: u64) {
        self.size.store(size, Ordering::Release);
        self.know_halves(None);
    }

    pub(super) fn counters(&self) -> MemberCounters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        MemberCounters {
            reads: get(&self.counters.reads),
            writes: get(&self.counters.writes),
            read_bytes: get(&self.counters.read_bytes),
            written: self.counters.written.read(),
            read_errors: get(&self.counters.read_errors),
            write_errors: get(&self.counters.write_errors),
            no_space: get(&self.counters.no_space),
            checksum_errors: get(&self.counters.checksum_errors),
            repairs: get(&self.counters.repairs),
            trimmed_bytes: get(&self.counters.trimmed_bytes),
        }
    }

    /// Number of reads in flight.
    pub(super) fn load(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Its latencies.
    pub(super) fn times(&self) -> MemberTimes {
        MemberTimes {
            read: self.times.read.read(),
            write: self.times.write.read(),
            flush: self.times.flush.read(),
        }
    }

    /// Whether an operation has been outstanding for longer than [`HANG_MAX`].
    pub(super) fn hangs(&self) -> bool {
        self.pending.oldest() >= HANG_MAX
    }

    /// Gives the disk up: releases all waiting operations, and sends nothing to it any longer.
    pub(super) fn give_up(&self) {
        self.accuse(EVIDENCE_MAX);
        self.pending.give_up();
    }

    /// Records that it has only `size` bytes, too few for the data of its vdev.
    pub(super) fn condemn_short(&self, size: u64) {
        self.short_size.store(size, Ordering::Relaxed);
        self.is_short.store(true, Ordering::Relaxed);
        self.accuse(EVIDENCE_MAX);
    }

    /// Whether it was found too short for the data of its vdev.
    pub(super) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// The reason to fault it; `None` if there is none.
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

    /// Whether it has too many errors.
    pub(super) fn is_condemned(&self) -> bool {
        self.evidence.load(Ordering::Relaxed) >= EVIDENCE_MAX
    }

    /// Whether a write found no space in the file system below, and no later write there succeeded.
    pub(super) fn is_full(&self) -> bool {
        self.lacking.is_any()
    }

    /// The error for a failed write to this disk.
    pub(super) fn write_error(&self) -> Error {
        match self.is_full() {
            true => Error::FileSystemFull {
                path: self.path.clone(),
            },
            false => Error::Device,
        }
    }

    /// Checks whether there is space again for the writes that found none.
    pub(super) async fn look_for_space(&self) {
        let Some(disk) = self.disk.as_ref().filter(|_| self.is_full()) else {
            return;
        };
        for (at, len) in self.lacking.all() {
            match disk.reserve(at, len).await {
                Err(io::Error::NoSpace) => return,
                // The next write shows whether there is space.
                _ => self.lacking.remove(at),
            }
        }
    }

    /// Records whether a write failed for lack of space in the file system, and returns this. Devices report the same error
    /// for writes beyond their end, which is another condition.
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

    /// The known state of its label's halves.
    pub(super) fn known_halves(&self) -> Option<[Half; 2]> {
        *self.halves()
    }

    /// Sets the known state of its label's halves.
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

    /// Counts the result of an operation. A device that disappeared needs no further evidence.
    fn judge<T>(&self, result: &io::Result<T>, errors: &AtomicU64) {
        match result {
            Ok(_) => return self.acquit(),
            // A disk whose FUSE server or network block device ended is gone, too (ENOTCONN, ECONNABORTED).
            Err(io::Error::Gone(_) | io::Error::Closed) => {
                self.is_gone.store(true, Ordering::Relaxed);
                self.accuse(EVIDENCE_MAX);
            }
            Err(_) => self.accuse(EVIDENCE_OF_ERROR),
        }
        add_one(errors);
    }

    /// Counts a block with a wrong checksum. Wrong blocks alone never fault a member: they are detected and repaired, and
    /// another member may lack its right ones.
    pub(super) fn count_checksum_error(&self) {
        add_one(&self.counters.checksum_errors);
    }

    /// Fills `buf` from byte `offset` of the disk. A disk that is given up keeps the buffer until it answers.
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
        self.times.read.record_micros_since(began);
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
    pub(super) async fn write(
        &self,
        data: &SharedBuf,
        offset: u64,
        class: WriteClass,
    ) -> io::Result<()> {
        let disk = self.disk.as_ref().ok_or(io::Error::NotFound)?;
        add_one(&self.counters.writes);
        let mut tries = 0;
        loop {
            let began = now();
            self.counters.written.add(class, data.len());
            let written = self.pending.bound(disk.write(data.clone(), offset)).await;
            let result = written.ok_or(io::Error::TimedOut)?;
            self.times.write.record_micros_since(began);
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

    /// Rewrites a range that was found wrong.
    pub(super) async fn repair(&self, good: &SharedBuf, offset: u64) {
        if self.write(good, offset, WriteClass::Repair).await.is_ok() {
            add_one(&self.counters.repairs);
        }
    }

    /// Discards a range, if the disk supports it. Its contents are undefined then.
    pub(super) async fn trim(&self, offset: u64, len: u64) {
        if let Some(disk) = &self.disk {
            // If the discard fails, the disk only keeps data that no pointer refers to.
            if disk.discard(offset, len).await.is_ok() {
                add(&self.counters.trimmed_bytes, len as usize);
            }
        }
    }

    /// Makes completed writes durable. A failed flush is not repeated, because the writes that it covered may be lost.
    pub(super) async fn flush(&self) -> io::Result<Flushed> {
        let disk = self.disk.as_ref().ok_or(io::Error::NotFound)?;
        let began = now();
        let flushed = self.pending.bound(disk.flush()).await;
        let result = flushed.ok_or(io::Error::TimedOut)?;
        self.times.flush.record_micros_since(began);
        self.judge(&result, &self.counters.write_errors);
        result
    }
}

/// Counts an operation while it is in flight, even if its future is dropped.
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
