//! Node cache: decoded tree nodes in memory, up to a limit.
//!
//! The replacement is S3-FIFO. A new node enters a small queue of a tenth of the memory, and is evicted from there unless it
//! was used again. So a scan passes through the small queue only. Nodes that were used again, or that return soon after their
//! eviction, are in the main queue, where each use gives them another round.
//!
//! **Owns** the cached nodes. **Called by** tasks that load nodes. **Invariants**: the cached nodes take at most the limit; a
//! node is found only by the same pointer with which it was loaded, so a reused address never returns the old node; the
//! lengths of queues and ghosts are bounded by the number of nodes that are or were cached.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::mem::size_of;
use std::sync::Arc;

use crate::format::{Address, BlockPtr, Node};

/// Divisor of the memory for the small queue: a tenth.
const SMALL_DIVISOR: usize = 10;
/// Most uses of a node that count.
const USES_MAX: u8 = 3;
/// Insertions after a node's own before a use counts: reading a leaf's entries one by one is one use.
const CORRELATED_INSERTS: u64 = 4;
/// Queue positions of removed nodes before the queue is cleaned, in addition to one per cached node.
const STALE_MAX: usize = 64;

/// Counters and sizes of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Nodes found.
    pub hits: u64,
    /// Nodes not found.
    pub misses: u64,
    /// Misses of recently evicted nodes. Twice the memory would have held most of them.
    pub ghost_hits: u64,
    /// Nodes inserted.
    pub inserts: u64,
    /// Nodes evicted for lack of memory.
    pub evictions: u64,
    /// Nodes cached.
    pub nodes: usize,
    /// Bytes of the cached nodes.
    pub memory: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Queue {
    Small,
    Main,
}

struct Entry {
    ptr: BlockPtr,
    node: Arc<Node>,
    queue: Queue,
    uses: u8,
    /// Distinguishes this position in a queue from earlier ones of the same address.
    ticket: u64,
}

impl Entry {
    fn memory(&self) -> usize {
        self.node.as_bytes().len() + size_of::<Entry>() + size_of::<Node>()
    }
}

/// Hashes addresses by a multiplication. The allocator chooses them, not a client.
#[derive(Default)]
pub(crate) struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_u64(&mut self, n: u64) {
        let mixed = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type AddressMap<T> = HashMap<Address, T, BuildHasherDefault<AddressHasher>>;

/// A position in a queue.
#[derive(Clone, Copy)]
struct Place {
    at: Address,
    ticket: u64,
}

/// Names of nodes that were evicted from the small queue.
#[derive(Default)]
struct Ghosts {
    order: VecDeque<(Place, usize)>,
    tickets: AddressMap<u64>,
    memory: usize,
}

impl Ghosts {
    fn insert(&mut self, place: Place, memory: usize, limit: usize) {
        self.tickets.insert(place.at, place.ticket);
        self.order.push_back((place, memory));
        self.memory += memory;
        while self.memory > limit {
            let Some((oldest, memory)) = self.order.pop_front() else {
                return;
            };
            self.memory -= memory;
            if self.tickets.get(&oldest.at) == Some(&oldest.ticket) {
                self.tickets.remove(&oldest.at);
            }
        }
    }
}

/// Cached nodes, by the address of their pointer.
pub struct NodeCache {
    limit: usize,
    entries: AddressMap<Entry>,
    small: VecDeque<Place>,
    small_memory: usize,
    main: VecDeque<Place>,
    main_memory: usize,
    ghosts: Ghosts,
    stats: CacheStats,
}

impl NodeCache {
    /// Creates an empty cache of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            entries: AddressMap::default(),
            small: VecDeque::new(),
            small_memory: 0,
            main: VecDeque::new(),
            main_memory: 0,
            ghosts: Ghosts::default(),
            stats: CacheStats::default(),
        }
    }

    /// The node of `ptr`, if it is cached.
    pub fn get(&mut self, ptr: &BlockPtr) -> Option<Arc<Node>> {
        let inserts = self.stats.inserts;
        match self.entries.get_mut(&ptr.address()) {
            Some(entry) if entry.ptr == *ptr => {
                self.stats.hits += 1;
                if inserts - entry.ticket >= CORRELATED_INSERTS {
                    entry.uses = USES_MAX.min(entry.uses + 1);
                }
                Some(Arc::clone(&entry.node))
            }
            _ => {
                self.stats.misses += 1;
                if self.ghosts.tickets.contains_key(&ptr.address()) {
                    self.stats.ghost_hits += 1;
                }
                None
            }
        }
    }

    /// Caches the node of `ptr`.
    pub fn insert(&mut self, ptr: &BlockPtr, node: Arc<Node>) {
        let at = ptr.address();
        self.remove(at);
        self.stats.inserts += 1;
        let returns = self.ghosts.tickets.remove(&at).is_some();
        let queue = if returns { Queue::Main } else { Queue::Small };
        let entry = Entry {
            ptr: *ptr,
            node,
            queue,
            uses: 0,
            ticket: self.stats.inserts,
        };
        self.enqueue(at, entry);
        while self.small_memory + self.main_memory > self.limit {
            self.evict();
        }
    }

    /// Removes the node at `at`, whose block was freed.
    pub fn remove(&mut self, at: Address) {
        if let Some(entry) = self.entries.remove(&at) {
            *self.memory(entry.queue) -= entry.memory();
            for queue in [&mut self.small, &mut self.main] {
                if queue.len() > 2 * self.entries.len() + STALE_MAX {
                    let entries = &self.entries;
                    let held = |p: &Place| entries.get(&p.at).is_some_and(|e| e.ticket == p.ticket);
                    queue.retain(held);
                }
            }
        }
    }

    /// Counters and sizes.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        CacheStats {
            nodes: self.entries.len(),
            memory: self.small_memory + self.main_memory,
            ..self.stats
        }
    }

    fn memory(&mut self, queue: Queue) -> &mut usize {
        match queue {
            Queue::Small => &mut self.small_memory,
            Queue::Main => &mut self.main_memory,
        }
    }

    fn enqueue(&mut self, at: Address, entry: Entry) {
        let ticket = entry.ticket;
        *self.memory(entry.queue) += entry.memory();
        match entry.queue {
            Queue::Small => self.small.push_back(Place { at, ticket }),
            Queue::Main => self.main.push_back(Place { at, ticket }),
        }
        self.entries.insert(at, entry);
    }

    /// Takes the first node of one queue: evicts it, or moves it to the end of the main queue.
    fn evict(&mut self) {
        let from_small = self.small_memory > self.limit / SMALL_DIVISOR || self.main_memory == 0;
        let queue = if from_small {
            &mut self.small
        } else {
            &mut self.main
        };
        let place = queue.pop_front().expect("a queue that weighs something");
        let held = self.entries.get(&place.at);
        if held.is_none_or(|entry| entry.ticket != place.ticket) {
            return;
        }
        let mut entry = self.entries.remove(&place.at).expect("just seen");
        let memory = entry.memory();
        *self.memory(entry.queue) -= memory;
        if entry.uses > 0 {
            entry.uses = if from_small { 0 } else { entry.uses - 1 };
            entry.queue = Queue::Main;
            self.enqueue(place.at, entry);
            return;
        }
        self.stats.evictions += 1;
        if from_small {
            self.ghosts.insert(place, memory, self.limit);
        }
    }
}
