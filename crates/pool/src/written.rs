//! Counters of written bytes: by class of a write for devices, and by dataset.
//!
//! **Owns** the classes and the counters. **Called by** leaves and [`crate::vdev::Vdevs`] for each write to a disk, by
//! volumes and filesystems for each acknowledged write, and by the owner for groups, batches and merges. **Invariants**:
//! counters only grow, and no write waits for one (relaxed atomics); the classes of a member add up to the bytes that its
//! disk was given since the member joined the open pool, repeated attempts included. `docs/wear.md`.

use std::sync::atomic::{AtomicU64, Ordering};

/// The reason of a write to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteClass {
    /// Records of volumes and files.
    Data,
    /// Batches of the journal.
    Journal,
    /// Nodes of trees: of datasets, of deadlists, and of the pool's own tree with the space bitmaps.
    Nodes,
    /// Labels and uberblocks.
    Labels,
    /// Blocks and batches that a member lacked or had damaged, written by reads, scrubs, resilvers and replay; and rows that an
    /// expansion moved.
    Repair,
    /// Records that the row mover wrote again.
    Moved,
}

/// Number of classes.
const CLASSES: usize = 6;

/// Written bytes by class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WrittenBytes {
    /// Bytes of records.
    pub data: u64,
    /// Bytes of journal batches.
    pub journal: u64,
    /// Bytes of nodes.
    pub nodes: u64,
    /// Bytes of labels and uberblocks.
    pub labels: u64,
    /// Bytes that repairs wrote.
    pub repair: u64,
    /// Bytes of records that the row mover wrote again.
    pub moved: u64,
}

impl WrittenBytes {
    /// Bytes of all classes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.data + self.journal + self.nodes + self.labels + self.repair + self.moved
    }
}

/// Counters by class.
#[derive(Debug, Default)]
pub(crate) struct ClassCounters([AtomicU64; CLASSES]);

impl ClassCounters {
    /// Counts bytes of a write.
    pub(crate) fn add(&self, class: WriteClass, bytes: usize) {
        self.0[class as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The present counts.
    pub(crate) fn read(&self) -> WrittenBytes {
        let get = |class: WriteClass| self.0[class as usize].load(Ordering::Relaxed);
        WrittenBytes {
            data: get(WriteClass::Data),
            journal: get(WriteClass::Journal),
            nodes: get(WriteClass::Nodes),
            labels: get(WriteClass::Labels),
            repair: get(WriteClass::Repair),
            moved: get(WriteClass::Moved),
        }
    }
}

/// Bytes written for a volume or filesystem since the pool was opened. A block counts once, however many members have it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatasetWrites {
    /// Data of acknowledged writes of clients. Zeroing and freeing have no data.
    pub client: u64,
    /// Records as stored, in whole sectors.
    pub data: u64,
    /// Records of the journal about it, without the headers and the padding of batches.
    pub journal: u64,
    /// Nodes of its tree and of its snapshots' trees, in whole sectors.
    pub nodes: u64,
    /// Nodes and small records that are on normal vdevs because special ones had no room, in whole sectors.
    pub spilled: u64,
}

/// Counters of a dataset.
#[derive(Debug, Default)]
pub(crate) struct DatasetCounters {
    client: AtomicU64,
    data: AtomicU64,
    journal: AtomicU64,
    nodes: AtomicU64,
    spilled: AtomicU64,
}

impl DatasetCounters {
    /// A client's write of `bytes` bytes was acknowledged.
    pub(crate) fn acknowledged(&self, bytes: usize) {
        self.client.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records of `bytes` bytes as stored go to the devices.
    pub(crate) fn placed(&self, bytes: u64) {
        self.data.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Journal records of `bytes` bytes were appended.
    pub(crate) fn journaled(&self, bytes: u64) {
        self.journal.fetch_add(bytes, Ordering::Relaxed);
    }

    /// A merge wrote nodes of `bytes` bytes.
    pub(crate) fn merged(&self, bytes: u64) {
        self.nodes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Nodes or small records of `bytes` bytes went to normal vdevs because special ones had no room.
    pub(crate) fn spilled(&self, bytes: u64) {
        self.spilled.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The present counts.
    pub(crate) fn read(&self) -> DatasetWrites {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DatasetWrites {
            client: get(&self.client),
            data: get(&self.data),
            journal: get(&self.journal),
            nodes: get(&self.nodes),
            spilled: get(&self.spilled),
        }
    }
}
