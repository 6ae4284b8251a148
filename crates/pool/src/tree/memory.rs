//! Block store in memory, for tests and benchmarks of the trees.
//!
//! **Owns** a map of addresses to bytes, counts of reads and writes, and loops that run the trees' algorithms on it. **Called
//! by** tests and benches. **Invariant**: it stores bytes without checking them, so that tests can store wrong ones.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::{
    Change, Compare, CompareStep, Direction, Freed, Layer, Lookup, LookupStep, Merge, MergeStep,
    Root, Scan, ScanStep, TreeParams, Visit, Walk, WalkStep, load,
};
use crate::Result;
use crate::format::{
    Birth, BlockPtr, Checksum, ChecksumKind, Compression, Key, Node, NodeSize, SECTOR_SIZE_MIN,
    Value, VdevId, VdevOffset,
};

/// Length of the data block in pointers that [`MemoryStore::allocate`] returns.
const RECORD_SIZE: u32 = 4096;

/// Blocks by address.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    nodes: BTreeMap<VdevOffset, Vec<u8>>,
    end: u64,
    /// Nodes read so far.
    pub reads: u64,
    /// Nodes written so far.
    pub writes: u64,
    /// Bytes of nodes written so far.
    pub written: u64,
    /// Node sizes with which a merge is limited, one after each step in turn; empty for no limit.
    pub limits: Vec<NodeSize>,
    /// Whether merges give up nodes that cannot be read.
    pub gives_up: bool,
}

impl MemoryStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a pointer to a data block, which is never read.
    pub fn allocate(&mut self, birth: Birth) -> BlockPtr {
        self.place(RECORD_SIZE, birth)
    }

    fn place(&mut self, size: u32, birth: Birth) -> BlockPtr {
        let offset = VdevOffset(self.end);
        self.end += u64::from(size).next_multiple_of(SECTOR_SIZE_MIN);
        BlockPtr {
            vdev: VdevId(0),
            offset,
            logical_size: size,
            physical_size: size,
            compression: Compression::Off,
            checksum_kind: ChecksumKind::Xxh3,
            is_fragment: false,
            birth,
            placed: birth,
            checksum: Checksum([0; 16]),
        }
    }

    /// Stores a node's bytes. Returns the pointer.
    pub fn write(&mut self, bytes: Vec<u8>, birth: Birth) -> BlockPtr {
        let mut ptr = self.place(bytes.len() as u32, birth);
        ptr.checksum = Checksum::of(ptr.checksum_kind, ptr.address(), &bytes);
        self.writes += 1;
        self.written += bytes.len() as u64;
        self.nodes.insert(ptr.offset, bytes);
        ptr
    }

    /// Returns the node of `ptr`.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if another node is stored there.
    ///
    /// # Panics
    /// If nothing is stored there.
    pub fn load(&mut self, ptr: &BlockPtr) -> Result<Arc<Node>> {
        self.reads += 1;
        let bytes = self.nodes.get(&ptr.offset);
        load(ptr, bytes.expect("a block that is stored").clone())
    }

    /// The bytes stored at `ptr`, to damage them.
    ///
    /// # Panics
    /// If nothing is stored there.
    pub fn bytes_mut(&mut self, ptr: &BlockPtr) -> &mut Vec<u8> {
        let bytes = self.nodes.get_mut(&ptr.offset);
        bytes.expect("a block that is stored")
    }

    /// Removes the node at `ptr`. Returns whether there was one.
    pub fn free(&mut self, ptr: &BlockPtr) -> bool {
        self.nodes.remove(&ptr.offset).is_some()
    }

    /// Merges `layers`, newest first, into the tree at `root`.
    ///
    /// # Errors
    /// As [`MemoryStore::load`].
    pub fn merge(
        &mut self,
        params: TreeParams,
        root: Root,
        layers: &[Arc<Layer>],
        mut freed: impl FnMut(Freed),
    ) -> Result<Root> {
        let mut merge = Merge::new(params, root, layers)?;
        let limits = self.limits.clone();
        let mut limits = limits.into_iter().cycle();
        loop {
            limits.next().into_iter().for_each(|size| merge.limit(size));
            let step = merge.step();
            merge.freed().for_each(&mut freed);
            match step {
                MergeStep::Need(need) => {
                    match self.load(&need.ptr) {
                        Err(_) if self.gives_up => merge.give_up(),
                        loaded => merge.supply(loaded?)?,
                    }
                    merge.freed().for_each(&mut freed);
                }
                MergeStep::Write(node) => {
                    let ptr = self.write(node.bytes, params.birth);
                    merge.wrote(&ptr);
                }
                MergeStep::Done(root) => return Ok(root),
            }
        }
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// As [`MemoryStore::load`].
    pub fn lookup(&mut self, layers: &[&Layer], root: Root, key: Key) -> Result<Option<Value>> {
        let mut lookup = Lookup::new(layers, root, key);
        loop {
            match lookup.step() {
                LookupStep::Need(need) => lookup.supply(&self.load(&need.ptr)?)?,
                LookupStep::Done(value) => return Ok(value),
            }
        }
    }

    /// Returns all entries with keys in `keys`.
    ///
    /// # Errors
    /// As [`MemoryStore::load`].
    pub fn scan(
        &mut self,
        layers: &[&Layer],
        root: Root,
        keys: Range<Key>,
        direction: Direction,
    ) -> Result<Vec<(Key, Value)>> {
        let mut scan = Scan::new(root, keys, direction);
        let mut entries = Vec::new();
        loop {
            match scan.step(layers) {
                ScanStep::Need(need) => scan.supply(self.load(&need.ptr)?)?,
                ScanStep::Entry(key, value) => entries.push((key, value)),
                ScanStep::Done => return Ok(entries),
            }
        }
    }

    /// Returns everything that a walk visits.
    ///
    /// # Errors
    /// As [`MemoryStore::load`].
    pub fn walk(&mut self, root: Root, since: Birth, start: Key) -> Result<Vec<Visit>> {
        let mut walk = Walk::new(root, since, start);
        let mut visits = Vec::new();
        loop {
            match walk.step() {
                WalkStep::Need(need) => walk.supply(self.load(&need.ptr)?)?,
                WalkStep::Visit(visit) => visits.push(visit),
                WalkStep::Done => return Ok(visits),
            }
        }
    }

    /// Returns all differences of two trees.
    ///
    /// # Errors
    /// As [`MemoryStore::load`].
    pub fn compare(&mut self, old: Root, new: Root) -> Result<Vec<Change>> {
        let mut compare = Compare::new(old, new);
        let mut changes = Vec::new();
        loop {
            match compare.step() {
                CompareStep::Need(need) => compare.supply(self.load(&need.ptr)?)?,
                CompareStep::Change(change) => changes.push(change),
                CompareStep::Done => return Ok(changes),
            }
        }
    }
}
