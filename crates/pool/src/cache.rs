//! Record cache: decompressed records in memory, up to a limit.
//!
//! The replacement is S3-FIFO, as for nodes ([`crate::tree::NodeCache`]). A new record enters a small queue of a tenth of the
//! memory, and is evicted from there unless it was used again. Records that were used again, or that return soon after their
//! eviction, are in the main queue, where each use gives them another round. A scan passes through the small queue only.
//! Names of evicted records are kept as ghosts: the share of misses that hit a ghost shows whether more memory would help.
//!
//! **Owns** the records' buffers. **Called by** reads, on all shards. **Invariants**: cached records and the tables of their
//! names take at most the limit, and so do their buffers together with evicted ones that are still being sent; a record is
//! found only by address and epoch of placement. A later block at a reused address is placed in a later epoch, so no cached record is ever wrong,
//! and freed blocks need not be removed.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::mem::size_of;
use std::sync::{Arc, Mutex};

use io::{BufPool, IoBuf};

use crate::format::{Address, Birth, BlockPtr};
use crate::tree::AddressHasher;
use io::sync::lock;

/// Divisor of the memory for the small queue: a tenth.
const SMALL_DIVISOR: usize = 10;
/// Most uses of a record that count.
const USES_MAX: u8 = 3;
/// Insertions after a record's own before a use counts: reading it in small parts is one use.
const CORRELATED_INSERTS: u64 = 4;

/// Divisor of the memory that idle buffers may take.
const IDLE_DIVISOR: usize = 64;
/// Bytes of a cached record besides its buffer and its table entries: the shared handle of the buffer and the buffer pool's
/// record of it, with the allocator's headers.
const HANDLE_BYTES: usize = size_of::<IoBuf>() + 2 * size_of::<usize>() + 16 + 2 * 24;

/// Counters and sizes of a record cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordCacheStats {
    /// Records found.
    pub hits: u64,
    /// Records not found.
    pub misses: u64,
    /// Misses of recently evicted records. Twice the memory would have held most of them.
    pub ghost_hits: u64,
    /// Records inserted.
    pub inserts: u64,
    /// Records evicted for lack of memory.
    pub evictions: u64,
    /// Records cached.
    pub records: usize,
    /// Bytes of cached records, and of the tables of cached and evicted ones.
    pub memory: usize,
    /// Most bytes; 0 if there is no cache.
    pub limit: usize,
}

/// Name of a record's contents, unique for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Name {
    at: Address,
    placed: Birth,
}

impl Name {
    fn of(ptr: &BlockPtr) -> Self {
        Self {
            at: ptr.address(),
            placed: ptr.placed,
        }
    }

    /// The name of the part of a record from byte `from` of it on. No record begins at an odd address.
    fn of_part(ptr: &BlockPtr, from: usize) -> Self {
        Self {
            at: ptr.address().behind(from + 1),
            placed: ptr.placed,
        }
    }
}

type NameMap<T> = HashMap<Name, T, BuildHasherDefault<AddressHasher>>;

/// Bytes of a table. It has a byte in addition to each entry, and is at most seven eighths full.
fn table_bytes<T>(table: &NameMap<T>) -> usize {
    let buckets = match table.capacity() {
        0 => 0,
        capacity => (capacity + capacity / 7).next_power_of_two(),
    };
    buckets * (size_of::<(Name, T)>() + 1)
}

struct Slot {
    name: Name,
    buf: Arc<IoBuf>,
    uses: u8,
    /// Number of insertions before this one.
    entered: u64,
}

/// Names of records that were evicted from the small queue. A name counts if its number is still that of its entry.
#[derive(Default)]
struct Ghosts {
    order: VecDeque<(Name, u64, usize)>,
    numbers: NameMap<u64>,
    next: u64,
    memory: usize,
}

impl Ghosts {
    fn insert(&mut self, name: Name, memory: usize, limit: usize) {
        self.next += 1;
        self.numbers.insert(name, self.next);
        self.order.push_back((name, self.next, memory));
        self.memory += memory;
        while self.memory > limit {
            let Some((oldest, number, memory)) = self.order.pop_front() else {
                return;
            };
            self.memory -= memory;
            if self.numbers.get(&oldest) == Some(&number) {
                self.numbers.remove(&oldest);
            }
        }
    }
}

/// Slots, and their eviction order.
#[derive(Default)]
struct Queues {
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
    by_name: NameMap<u32>,
    small: VecDeque<u32>,
    small_memory: usize,
    main: VecDeque<u32>,
    main_memory: usize,
    ghosts: Ghosts,
    stats: RecordCacheStats,
}

impl Queues {
    fn get(&mut self, name: Name) -> Option<Arc<IoBuf>> {
        let inserts = self.stats.inserts;
        let index = self.by_name.get(&name);
        let slot = index.and_then(|i| self.slots[*i as usize].as_mut());
        let Some(slot) = slot else {
            self.stats.misses += 1;
            self.stats.ghost_hits += u64::from(self.ghosts.numbers.contains_key(&name));
            return None;
        };
        self.stats.hits += 1;
        if inserts - slot.entered >= CORRELATED_INSERTS {
            slot.uses = USES_MAX.min(slot.uses + 1);
        }
        Some(slot.buf.clone())
    }

    /// Bytes of the cached records.
    fn records_memory(&self) -> usize {
        self.small_memory + self.main_memory
    }

    /// Bytes of everything except the records.
    fn overhead(&self) -> usize {
        let slots = self.slots.capacity() * size_of::<Option<Slot>>();
        let places = self.free.capacity() + self.small.capacity() + self.main.capacity();
        let ghosts = self.ghosts.order.capacity() * size_of::<(Name, u64, usize)>();
        slots
            + places * size_of::<u32>()
            + ghosts
            + table_bytes(&self.by_name)
            + table_bytes(&self.ghosts.numbers)
            + self.by_name.len() * HANDLE_BYTES
    }

    /// Bytes of everything.
    fn memory(&self) -> usize {
        self.records_memory() + self.overhead()
    }

    /// Evicts records until `bytes` more fit. The caller drops the returned slots without the lock.
    fn make_room(&mut self, bytes: usize, limit: usize) -> Vec<Slot> {
        let mut left = Vec::new();
        while self.memory() + bytes > limit && self.records_memory() > 0 {
            left.extend(self.evict(limit));
        }
        left
    }

    fn insert(&mut self, name: Name, buf: Arc<IoBuf>) {
        if self.by_name.contains_key(&name) {
            return;
        }
        self.stats.inserts += 1;
        let memory = buf.capacity();
        let slot = Slot {
            name,
            buf,
            uses: 0,
            entered: self.stats.inserts,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                (self.slots.len() - 1) as u32
            }
        };
        self.by_name.insert(name, index);
        if self.ghosts.numbers.remove(&name).is_some() {
            self.main.push_back(index);
            self.main_memory += memory;
        } else {
            self.small.push_back(index);
            self.small_memory += memory;
        }
    }

    /// Takes the first record of one queue: evicts it, or moves it to the end of the main queue.
    fn evict(&mut self, limit: usize) -> Option<Slot> {
        let from_small = self.small_memory > limit / SMALL_DIVISOR || self.main_memory == 0;
        let queue = if from_small {
            &mut self.small
        } else {
            &mut self.main
        };
        let index = queue.pop_front().expect("a queue that weighs something");
        let slot = self.slots[index as usize].as_mut();
        let slot = slot.expect("what is in a queue has a slot");
        let memory = slot.buf.capacity();
        match from_small {
            true => self.small_memory -= memory,
            false => self.main_memory -= memory,
        }
        if slot.uses > 0 {
            slot.uses = if from_small { 0 } else { slot.uses - 1 };
            self.main.push_back(index);
            self.main_memory += memory;
            return None;
        }
        self.stats.evictions += 1;
        let name = slot.name;
        self.by_name.remove(&name);
        self.free.push(index);
        if from_small {
            self.ghosts.insert(name, memory, limit);
        }
        self.slots[index as usize].take()
    }
}

/// Cached records by address and birth.
pub(crate) struct RecordCache {
    limit: usize,
    queues: Mutex<Queues>,
    buffers: BufPool,
}

impl RecordCache {
    /// Creates an empty cache of `limit` bytes; 0 for none.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            queues: Mutex::default(),
            buffers: BufPool::new(limit),
        }
    }

    /// Whether there is a cache.
    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// The contents of the record of `ptr`, if it is cached.
    pub(crate) fn get(&self, ptr: &BlockPtr) -> Option<Arc<IoBuf>> {
        match self.limit {
            0 => None,
            _ => lock(&self.queues).get(Name::of(ptr)),
        }
    }

    /// The parts of the record of `ptr` that begin at these bytes of it, if all of them are cached. The record itself was searched
    /// before, so that its absence was counted.
    pub(crate) fn get_parts(
        &self,
        ptr: &BlockPtr,
        starts: impl Iterator<Item = usize>,
    ) -> Option<Vec<Arc<IoBuf>>> {
        let mut queues = lock(&self.queues);
        queues.stats.misses = queues.stats.misses.saturating_sub(1);
        let parts = starts.map(|start| queues.get(Name::of_part(ptr, start)));
        parts.collect()
    }

    /// Most bytes of records and tables.
    fn most(&self) -> usize {
        self.limit - self.limit / IDLE_DIVISOR
    }

    /// A buffer of the cache for a record of `size` bytes, if one is available; other records are evicted for it. A record that
    /// is read into it needs no copy.
    pub(crate) fn reserve(&self, size: usize) -> Option<IoBuf> {
        if size == 0 || size.next_power_of_two() > self.limit / SMALL_DIVISOR {
            return None;
        }
        let bytes = size.next_power_of_two() + HANDLE_BYTES;
        let left = lock(&self.queues).make_room(bytes, self.most());
        let is_full = !left.is_empty();
        drop(left);
        let buf = self.buffers.try_alloc(size);
        if is_full {
            self.buffers.trim(self.limit / IDLE_DIVISOR);
        }
        buf
    }

    /// Caches a record's contents, which [`RecordCache::reserve`] gave the buffer for: another buffer is not kept.
    pub(crate) fn insert_read(&self, ptr: &BlockPtr, buf: IoBuf) -> Arc<IoBuf> {
        self.insert_named(Name::of(ptr), buf)
    }

    /// As [`RecordCache::insert_read`], for the part from byte `from` of the record on.
    pub(crate) fn insert_read_part(&self, ptr: &BlockPtr, from: usize, buf: IoBuf) -> Arc<IoBuf> {
        self.insert_named(Name::of_part(ptr, from), buf)
    }

    fn insert_named(&self, name: Name, buf: IoBuf) -> Arc<IoBuf> {
        let is_own = buf.is_of(&self.buffers);
        let bytes = buf.capacity() + HANDLE_BYTES;
        let buf = Arc::new(buf);
        if !is_own {
            return buf;
        }
        let mut queues = lock(&self.queues);
        // Other shards may have inserted records meanwhile.
        let mut left = queues.make_room(bytes, self.most());
        queues.insert(name, buf.clone());
        // The tables may have grown.
        left.extend(queues.make_room(0, self.most()));
        drop(queues);
        let is_full = !left.is_empty();
        drop(left);
        if is_full {
            self.buffers.trim(self.limit / IDLE_DIVISOR);
        }
        buf
    }

    /// Caches a record's contents, if a buffer for them is available.
    pub(crate) fn insert(&self, ptr: &BlockPtr, contents: &[u8]) {
        if let Some(mut buf) = self.reserve(contents.len()) {
            buf.copy_from_slice(contents);
            self.insert_read(ptr, buf);
        }
    }

    /// As [`RecordCache::insert`], for the part from byte `from` of the record on.
    pub(crate) fn insert_part(&self, ptr: &BlockPtr, from: usize, contents: &[u8]) {
        if let Some(mut buf) = self.reserve(contents.len()) {
            buf.copy_from_slice(contents);
            self.insert_read_part(ptr, from, buf);
        }
    }

    /// Counters and sizes.
    pub(crate) fn stats(&self) -> RecordCacheStats {
        let queues = lock(&self.queues);
        RecordCacheStats {
            records: queues.by_name.len(),
            memory: queues.memory(),
            limit: self.limit,
            ..queues.stats
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Checksum, ChecksumKind, Compression, VdevId, VdevOffset};
    use io::rng::Prng;

    const RECORD: usize = 4096;

    fn ptr(record: u64, birth: u64) -> BlockPtr {
        BlockPtr {
            vdev: VdevId(0),
            offset: VdevOffset(record * RECORD as u64),
            logical_size: RECORD as u32,
            physical_size: RECORD as u32,
            compression: Compression::Off,
            checksum_kind: ChecksumKind::Xxh3,
            is_fragment: false,
            birth: Birth(birth),
            placed: Birth(birth),
            checksum: Checksum([0; 16]),
        }
    }

    impl RecordCache {
        /// Bytes taken, by the counts of the allocators.
        fn taken(&self) -> usize {
            let buffers = self.buffers.stats();
            buffers.used + buffers.idle + lock(&self.queues).overhead()
        }
    }

    fn read(cache: &RecordCache, record: u64) -> bool {
        let ptr = ptr(record, 1);
        let found = cache.get(&ptr);
        if let Some(found) = &found {
            assert_eq!(found[..8], record.to_le_bytes());
        } else {
            let mut contents = vec![0; RECORD];
            contents[..8].copy_from_slice(&record.to_le_bytes());
            cache.insert(&ptr, &contents);
        }
        let stats = cache.stats();
        assert!(stats.memory <= stats.limit && stats.memory > stats.records * RECORD);
        assert!(stats.records == 0 || cache.taken() <= stats.limit);
        found.is_some()
    }

    /// Accesses to records by popularity (Zipf with an exponent of 0.9), with scans in between.
    fn accesses(count: usize) -> Vec<u64> {
        const RECORDS: usize = 20_000;
        let mut sums = Vec::with_capacity(RECORDS);
        let mut sum = 0.0;
        for rank in 1..=RECORDS {
            sum += (rank as f64).powf(-0.9);
            sums.push(sum);
        }
        let mut rng = Prng::new(3);
        let mut all = Vec::with_capacity(count);
        let mut scanned = 1 << 20;
        while all.len() < count {
            if rng.chance(0.001) {
                all.extend(scanned..scanned + 1000);
                scanned += 1000;
            }
            let at = rng.below(1 << 32) as f64 / (1u64 << 32) as f64 * sum;
            all.push(sums.partition_point(|s| *s < at) as u64);
        }
        all
    }

    #[test]
    fn hits_are_close_to_those_of_a_reference_cache() {
        let slots = 1000;
        let cache = RecordCache::new(slots * RECORD);
        let accesses = accesses(200_000);
        // Room for this many records and their names.
        let held = RecordCache::new(slots * RECORD);
        for record in 0..2 * slots as u64 {
            read(&held, record);
        }
        let oracle = quick_cache::sync::Cache::<u64, ()>::new(held.stats().records);
        let (mut hits, mut oracle_hits) = (0, 0);
        for record in &accesses {
            hits += usize::from(read(&cache, *record));
            match oracle.get(record) {
                Some(()) => oracle_hits += 1,
                None => oracle.insert(*record, ()),
            }
        }
        let of = accesses.len();
        let stats = cache.stats();
        assert_eq!(
            (stats.hits as usize, (stats.hits + stats.misses) as usize),
            (hits, of)
        );
        assert!(
            hits * 100 > oracle_hits * 95,
            "{hits} and {oracle_hits} of {of}"
        );
        // A recency-based cache would miss every access during the scans.
        assert!(hits * 5 > of, "{hits} of {of}");
    }

    /// Bytes of this process that are in memory.
    fn resident() -> usize {
        let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
        let pages = statm.split(' ').nth(1).expect("the second field");
        pages.parse::<usize>().expect("a number") * 4096
    }

    /// Regression: a cache of 64 MiB took 135 MiB: two pages for each of its buffers, and tables that were not counted.
    #[test]
    fn the_process_takes_no_more_memory_than_the_limit() {
        const LIMIT: usize = 64 << 20;
        let before = resident();
        let cache = RecordCache::new(LIMIT);
        for record in 0..4 * (LIMIT / RECORD) as u64 {
            read(&cache, record);
            read(&cache, record / 7);
        }
        let taken = resident().saturating_sub(before);
        assert!(taken < LIMIT / 4 * 5, "{taken} bytes");
        let held = cache.stats().records * RECORD;
        assert!(held > LIMIT / 5 * 4, "{held} bytes of records");
    }

    #[test]
    fn ghost_hits_predict_the_hits_of_twice_the_memory() {
        let share = |records: u64| {
            let cache = RecordCache::new(100 * RECORD);
            for i in 0..6000 {
                read(&cache, i % records);
            }
            let stats = cache.stats();
            stats.ghost_hits as f64 / stats.misses as f64
        };
        assert!(share(150) > 0.4, "{}", share(150));
        assert!(share(1000) < 0.05, "{}", share(1000));
    }

    #[test]
    fn an_address_that_is_used_again_is_another_record() {
        let cache = RecordCache::new(100 * RECORD);
        cache.insert(&ptr(7, 1), &[1; RECORD]);
        assert!(cache.get(&ptr(7, 2)).is_none());
        cache.insert(&ptr(7, 2), &[2; RECORD]);
        assert_eq!(cache.get(&ptr(7, 1)).map(|b| b[0]), Some(1));
        assert_eq!(cache.get(&ptr(7, 2)).map(|b| b[0]), Some(2));
    }

    #[test]
    fn too_large_records_and_a_disabled_cache_cache_nothing() {
        let cache = RecordCache::new(0);
        cache.insert(&ptr(1, 1), &[1; RECORD]);
        assert!(cache.get(&ptr(1, 1)).is_none() && !cache.is_on());
        let cache = RecordCache::new(16 * RECORD);
        cache.insert(&ptr(1, 1), &[1; 2 * RECORD]);
        assert_eq!(cache.stats().records, 0);
    }
}
