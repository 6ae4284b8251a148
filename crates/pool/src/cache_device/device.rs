//! A cache device: blocks of a pool on a fast disk.
//!
//! A block enters when it is read from the members for the second time within a window, while the daily write budget lasts. Blocks gather
//! in a segment in memory, which is written as a whole in the place of the oldest one. Nothing is flushed: what a power cut tears is found
//! by checksums. An opening reads the tables of the segments only.
//!
//! **Owns** the disk and the index. **Called by** [`super::CacheDevices`]. **Invariants**: it answers with bytes that the caller verified, or not at
//! all; a block that is not right leaves the index; after a failed write, too many failed reads, or an operation that lasted too long, the device is out: nothing
//! is sent to it any more. `docs/decisions/0186`.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use io::disk::Disk;
use io::sync::lock;
use io::time::wall_clock_ms;
use io::{BufPool, IoBuf};

use super::daily::DailyWrites;
use super::index::Index;
use super::ring::{Filling, Ring};
use super::sketch::{Evicted, Sketch};
use crate::format::{CacheGuid, CacheLabel, CacheTable, CachedBlock, VdevOffset};

/// Time after which a read is given up, and the device with it.
const READ_MAX: Duration = Duration::from_secs(1);
/// The same of a write of a segment, and of the read of a table.
const WRITE_MAX: Duration = Duration::from_secs(10);
/// Failed reads that take a device out.
const ERRORS_MAX: u64 = 16;
/// Tables that an opening reads at once.
const TABLES_AT_ONCE: usize = 32;
/// How often the end of a write is looked for.
const POLL: Duration = Duration::from_millis(1);

/// Why a cache device is out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheFault {
    /// The device disappeared.
    Gone,
    /// It did not answer in time.
    Hung,
    /// A write or too many reads failed.
    Errors,
}

/// Counts of a cache device since it was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// Blocks found.
    pub hits: u64,
    /// Bytes of these.
    pub hit_bytes: u64,
    /// Blocks not found.
    pub misses: u64,
    /// About the number of misses that a device of twice the size would have found.
    pub hits_of_twice: u64,
    /// Blocks that did not have the checksum in their pointer. They were read from the members.
    pub wrong: u64,
    /// Reads that failed.
    pub read_errors: u64,
    /// Blocks that entered.
    pub entered: u64,
    /// Blocks that did not enter because the daily budget was spent.
    pub over_budget: u64,
    /// Bytes written.
    pub written: u64,
}

impl CacheCounts {
    fn hit(&mut self, bytes: usize) {
        self.hits += 1;
        self.hit_bytes += bytes as u64;
    }
}

/// A cache device of an open pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStatus {
    /// Its identifier.
    pub guid: CacheGuid,
    /// Its path.
    pub path: PathBuf,
    /// Why it is out; `None` if it works.
    pub fault: Option<CacheFault>,
    /// Bytes for blocks.
    pub size: u64,
    /// Bytes that blocks take.
    pub used: u64,
    /// Number of blocks.
    pub blocks: u64,
    /// Bytes of memory of its tables.
    pub memory: u64,
    /// Bytes that were written in the last 24 hours.
    pub written_today: u64,
    /// Bytes that may be written in 24 hours.
    pub daily: u64,
    /// Counts since it was opened.
    pub counts: CacheCounts,
}

struct State {
    index: Index,
    sketch: Sketch,
    evicted: Evicted,
    daily: DailyWrites,
    filling: Option<Filling>,
    is_writing: bool,
    /// Whether nothing enters any more.
    is_closed: bool,
    /// The segment that is written next, and its number among all.
    next: u64,
    sequence: u64,
    /// Bytes of blocks in each segment.
    used: Vec<u32>,
    counts: CacheCounts,
}

/// The result of a lookup.
pub(super) enum Fetched {
    /// The block.
    Hit(IoBuf),
    /// There is none. The buffer is returned, unless the device kept it.
    Miss(Option<IoBuf>),
}

/// See the module header.
pub(super) struct CacheDevice {
    guid: CacheGuid,
    disk: Disk,
    ring: Ring,
    /// Buffers of segments: one is filled while another one is written.
    buffers: BufPool,
    state: Mutex<State>,
    fault: OnceLock<CacheFault>,
}

/// The table of a segment; `None` if there is none of this device.
async fn table(
    disk: &Disk,
    ring: &Ring,
    guid: CacheGuid,
    segment: u64,
    buffers: &BufPool,
) -> io::Result<Option<CacheTable>> {
    let buf = buffers.alloc(CacheTable::size_in(ring.segment_size)).await;
    let at = ring.offset(segment);
    let (read, buf) = io::timeout(WRITE_MAX, disk.read(buf, at)).await?;
    match read {
        Ok(()) => {}
        Err(error @ (io::Error::Gone(_) | io::Error::Closed)) => return Err(error),
        Err(_) => return Ok(None),
    }
    let table = CacheTable::decode(ring.segment_size, &buf, VdevOffset(at)).ok();
    Ok(table.filter(|table| table.cache == guid))
}

impl CacheDevice {
    /// Opens a device: reads the tables of its segments. `daily` is its budget in bytes; `None` for its size. `None` if the disk is too small.
    ///
    /// # Errors
    /// The device is gone, or does not answer.
    pub(super) async fn open(
        disk: Disk,
        label: &CacheLabel,
        daily: Option<u64>,
    ) -> io::Result<Option<Self>> {
        let info = disk.info();
        let ring = Ring::of(info.size, label.segment_size, info.logical_block);
        let Some(ring) = ring else { return Ok(None) };
        let mut state = State {
            index: Index::new(ring.size()),
            sketch: Sketch::new(ring.size()),
            evicted: Evicted::default(),
            daily: DailyWrites::new(daily.unwrap_or(ring.size())),
            filling: None,
            is_writing: false,
            is_closed: false,
            next: 0,
            sequence: 1,
            used: vec![0; ring.count as usize],
            counts: CacheCounts::default(),
        };
        let buffers = BufPool::new(2 * ring.segment_size as usize);
        let (guid, from) = (label.cache, &disk);
        let tables = stream::iter(0..ring.count).map(|segment| {
            let buffers = &buffers;
            async move { (segment, table(from, &ring, guid, segment, buffers).await) }
        });
        let mut tables = tables.buffer_unordered(TABLES_AT_ONCE);
        while let Some((segment, table)) = tables.next().await {
            let Some(table) = table? else { continue };
            state.load(&ring, segment, &table);
        }
        drop(tables);
        state.sketch.fit(state.index.len());
        Ok(Some(Self {
            guid,
            ring,
            buffers,
            state: Mutex::new(state),
            fault: OnceLock::new(),
            disk,
        }))
    }

    pub(super) fn guid(&self) -> CacheGuid {
        self.guid
    }

    pub(super) fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Whether it takes no operations.
    pub(super) fn is_out(&self) -> bool {
        self.fault.get().is_some()
    }

    fn fail(&self, fault: CacheFault) {
        if self.fault.set(fault).is_ok() {
            lock(&self.state).filling = None;
            tracing::warn!(
                device = %self.disk.info().path.display(),
                ?fault,
                "the cache device is out: the pool reads from its other disks"
            );
        }
    }

    fn fail_for(&self, error: &io::Error) {
        self.fail(match error {
            io::Error::Gone(_) | io::Error::Closed => CacheFault::Gone,
            io::Error::TimedOut => CacheFault::Hung,
            _ => CacheFault::Errors,
        });
    }

    /// Whether it has a block, or the segment that is being filled has.
    pub(super) fn has(&self, name: u64) -> bool {
        !self.is_out() && lock(&self.state).has(name)
    }

    /// Counts a block that no device has, and that is looked for on this one.
    pub(super) fn count_miss(&self, name: u64) {
        let mut state = lock(&self.state);
        state.counts.misses += 1;
        state.counts.hits_of_twice += state.evicted.stands_for(name);
    }

    /// Reads a block into `buf`, whose length is that of the block. `is_right` verifies it.
    pub(super) async fn fetch(
        &self,
        name: u64,
        mut buf: IoBuf,
        is_right: impl FnOnce(&[u8]) -> bool,
    ) -> Fetched {
        if self.is_out() {
            return Fetched::Miss(Some(buf));
        }
        let len = buf.len();
        let found = lock(&self.state).index.get(name);
        let Some(place) = found else {
            return self.fetch_filling(name, buf, is_right);
        };
        if self.ring.padded(len) > buf.capacity() {
            return Fetched::Miss(Some(buf));
        }
        buf.set_len(self.ring.padded(len));
        let read = self.disk.read(buf, self.ring.offset_of(place));
        let Ok((read, mut buf)) = io::timeout(READ_MAX, read).await else {
            self.fail(CacheFault::Hung);
            return Fetched::Miss(None);
        };
        buf.set_len(len);
        let is_right = read.is_ok() && is_right(&buf);
        let mut state = lock(&self.state);
        if is_right {
            state.counts.hit(len);
            return Fetched::Hit(buf);
        }
        state.counts.misses += 1;
        // else the segment was overwritten meanwhile
        if state.index.remove(name, place) {
            match &read {
                Ok(()) => state.counts.wrong += 1,
                Err(_) => state.counts.read_errors += 1,
            }
        }
        let is_failing = state.counts.read_errors >= ERRORS_MAX;
        drop(state);
        match read {
            Err(error @ (io::Error::Gone(_) | io::Error::Closed)) => self.fail_for(&error),
            Err(_) if is_failing => self.fail(CacheFault::Errors),
            _ => {}
        }
        Fetched::Miss(Some(buf))
    }

    /// As [`CacheDevice::fetch`], from the segment that is being filled.
    fn fetch_filling(
        &self,
        name: u64,
        mut buf: IoBuf,
        is_right: impl FnOnce(&[u8]) -> bool,
    ) -> Fetched {
        let copied = {
            let state = lock(&self.state);
            let filling = state.filling.as_ref();
            filling.is_some_and(|filling| filling.copy(name, &mut buf))
        };
        let is_hit = copied && is_right(&buf);
        let counts = &mut lock(&self.state).counts;
        if is_hit {
            counts.hit(buf.len());
            return Fetched::Hit(buf);
        }
        counts.misses += 1;
        Fetched::Miss(Some(buf))
    }

    /// Offers a verified block that was read from the members.
    pub(super) fn offer(self: &Arc<Self>, name: u64, bytes: &[u8]) {
        if self.is_out() || !self.ring.takes(bytes.len()) {
            return;
        }
        let mut state = lock(&self.state);
        if !state.sketch.note(name, bytes.len()) || state.is_closed {
            return;
        }
        if state.has(name) {
            return;
        }
        let fits = match &mut state.filling {
            Some(filling) => filling.push(&self.ring, name, bytes),
            None => false,
        };
        if fits {
            state.counts.entered += 1;
            return;
        }
        if state.filling.is_some() && state.is_writing {
            return;
        }
        if let Some(full) = state.filling.take() {
            self.begin_write(&mut state, full);
        }
        let segment = u64::from(self.ring.segment_size);
        if !state.daily.take(wall_clock_ms(), segment) {
            state.counts.over_budget += 1;
            return;
        }
        let Some(buf) = self.buffers.try_alloc(segment as usize) else {
            return;
        };
        let mut filling = Filling::new(buf);
        state.counts.entered += u64::from(filling.push(&self.ring, name, bytes));
        state.filling = Some(filling);
    }

    fn begin_write(self: &Arc<Self>, state: &mut State, full: Filling) {
        state.is_writing = true;
        let device = self.clone();
        drop(io::spawn(async move { device.write(full).await }));
    }

    /// Writes a segment in the place of the oldest one.
    async fn write(&self, full: Filling) {
        let (segment, sequence) = {
            let state = lock(&self.state);
            (state.next, state.sequence)
        };
        self.evict(segment).await;
        let (mut buf, blocks) = full.into_parts();
        let at = self.ring.offset(segment);
        let table = CacheTable {
            cache: self.guid,
            sequence,
            time_ms: wall_clock_ms(),
            blocks,
        };
        table.encode(self.ring.segment_size, &mut buf, VdevOffset(at));
        let bytes = buf.len() as u64;
        let written = match self.is_out() {
            true => Err(io::Error::Closed),
            false => io::timeout(WRITE_MAX, self.disk.write(buf, at))
                .await
                .and_then(|done| done),
        };
        let mut state = lock(&self.state);
        state.is_writing = false;
        match written {
            Ok(()) => {
                state.put(&self.ring, segment, &table.blocks);
                state.next = (segment + 1) % self.ring.count;
                state.sequence = sequence + 1;
                state.counts.written += bytes;
                let blocks = state.index.len();
                state.sketch.fit(blocks);
            }
            Err(error) => {
                drop(state);
                self.fail_for(&error);
            }
        }
    }

    /// Removes the blocks of a segment from the index. If its table cannot be read, lookups find that they are wrong.
    async fn evict(&self, segment: u64) {
        if lock(&self.state).used[segment as usize] == 0 {
            return;
        }
        let read = table(&self.disk, &self.ring, self.guid, segment, &io::pool()).await;
        let mut state = lock(&self.state);
        state.used[segment as usize] = 0;
        for block in read.ok().flatten().iter().flat_map(|table| &table.blocks) {
            if state
                .index
                .remove(block.name, self.ring.place(segment, block))
            {
                let blocks = state.index.len();
                state.evicted.note(block.name, blocks);
                // it enters again when it is read
                state.sketch.note(block.name, block.len as usize);
            }
        }
    }

    /// Writes what has gathered, and takes no more blocks.
    pub(super) async fn close(self: &Arc<Self>) {
        lock(&self.state).is_closed = true;
        loop {
            {
                let mut state = lock(&self.state);
                if !state.is_writing {
                    let rest = state.filling.take();
                    match rest.filter(|rest| !rest.blocks().is_empty() && !self.is_out()) {
                        Some(rest) => self.begin_write(&mut state, rest),
                        None => return,
                    }
                }
            }
            io::time::sleep(POLL).await;
        }
    }

    /// Its state, for operators.
    pub(super) fn status(&self) -> CacheStatus {
        let state = lock(&self.state);
        let tables = [
            state.index.memory(),
            state.sketch.memory(),
            state.evicted.memory(),
            state.used.capacity() * size_of::<u32>(),
        ];
        CacheStatus {
            guid: self.guid,
            path: self.disk.info().path.clone(),
            fault: self.fault.get().copied(),
            size: self.ring.size(),
            used: state.used.iter().map(|bytes| u64::from(*bytes)).sum(),
            blocks: state.index.len() as u64,
            memory: tables.iter().sum::<usize>() as u64,
            written_today: state.daily.written(wall_clock_ms()),
            daily: state.daily.most(),
            counts: state.counts,
        }
    }
}

impl State {
    /// Whether a block is on the device, or in the segment that is being filled.
    fn has(&self, name: u64) -> bool {
        let in_filling = || self.filling.as_ref().is_some_and(|f| f.has(name));
        self.index.get(name).is_some() || in_filling()
    }

    /// The segment has these blocks.
    fn put(&mut self, ring: &Ring, segment: u64, blocks: &[CachedBlock]) {
        for block in blocks {
            self.index.insert(block.name, ring.place(segment, block));
        }
        self.used[segment as usize] = blocks.iter().map(|block| block.len).sum();
    }

    /// Takes over the table of a segment that an earlier opening wrote.
    fn load(&mut self, ring: &Ring, segment: u64, table: &CacheTable) {
        let is_aligned = |b: &CachedBlock| b.offset.is_multiple_of(ring.unit);
        let blocks: Vec<CachedBlock> = table.blocks.iter().copied().filter(is_aligned).collect();
        self.put(ring, segment, &blocks);
        let bytes: u64 = table.blocks.iter().map(|block| u64::from(block.len)).sum();
        self.daily.note(table.time_ms, bytes);
        if table.sequence >= self.sequence {
            self.sequence = table.sequence.saturating_add(1);
            self.next = (segment + 1) % ring.count;
        }
    }
}
