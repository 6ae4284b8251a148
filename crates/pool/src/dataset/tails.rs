//! Tails: inodes of files whose data is not all in the journal.
//!
//! A file's size must not exceed its data after a crash. So the journal gets an inode whose size ends before the first dirty
//! record or block that the journal's size does not have yet; the true inode is here until the last of these has left. While a
//! counted file has dirty records, the journal's inode does not say that its space is exact. `docs/decisions/0130`, `0140`.
//!
//! **Owns** these inodes, and the charges of the inodes in the journal. **Called by** the store of a filesystem and by the
//! owner's groups, under the dataset's lock.
//! **Invariant**: a file with a tail has dirty records, or records in a group that is being made.

use std::collections::BTreeMap;
use std::ops::Range;

use super::keys::{block_keys, data_keys};
use crate::dirty::{Dirty, Group};
use crate::format::filesystem::{
    BLOCK_SIZE, Charge, Inode, InodeFlags, object_keys, record_size_of,
};
use crate::format::{Key, ObjectId};

/// The inode of a file with dirty data.
#[derive(Debug, Clone, Copy)]
struct Tail {
    inode: Inode,
    /// The size that the journal has, or will have after the staged transactions.
    journaled: u64,
    /// The size that a request for durability waits for. Records and blocks before it leave with the urgent ones.
    awaited: u64,
    /// Owners and space of the inode that the journal has, or will have after the staged transactions.
    charged: Charge,
}

/// See the module header.
#[derive(Debug, Default)]
pub(crate) struct Tails(BTreeMap<ObjectId, Tail>);

/// The size that the journal may have: up to the first dirty record or block behind the size that it has. The dataset has records
/// of `base` bytes.
fn safe_size(dirty: &Dirty, object: ObjectId, base: u32, journaled: u64, size: u64) -> u64 {
    if size <= journaled {
        return size;
    }
    let first = |keys: fn(ObjectId, Range<u64>) -> Range<Key>, unit: u64| {
        let key = dirty.first_in(keys(object, journaled / unit..size.div_ceil(unit)))?;
        Some(key.offset() * unit)
    };
    let record = first(data_keys, record_size_of(object, base).into());
    let block = first(block_keys, BLOCK_SIZE);
    let first = record.into_iter().chain(block).min();
    first.map_or(size, |first| first.clamp(journaled, size))
}

/// The inode that the journal may have of a file with this size there, whose newest inode is `inode`.
fn journaled(dirty: &Dirty, object: ObjectId, size: u64, inode: Inode) -> Inode {
    let flags = match dirty.first_in(object_keys(object)) {
        Some(_) => inode.flags.without(InodeFlags::COUNTED),
        None => inode.flags,
    };
    Inode {
        size,
        flags,
        ..inode
    }
}

impl Tails {
    /// The newest inode of a file, if its data is not all written.
    pub(crate) fn get(&self, object: ObjectId) -> Option<&Inode> {
        self.0.get(&object).map(|tail| &tail.inode)
    }

    /// Sets the inode of a file that was just written. `before` is its inode before, if it had no tail.
    pub(crate) fn written(&mut self, object: ObjectId, inode: Inode, before: &Inode) {
        let new = Tail {
            inode,
            journaled: before.size,
            awaited: 0,
            charged: Charge::of(before),
        };
        self.0.entry(object).or_insert(new).inode = inode;
    }

    /// The charge of the inode that the journal has of a file with a tail.
    pub(crate) fn charged(&self, object: ObjectId) -> Option<Charge> {
        self.0.get(&object).map(|tail| tail.charged)
    }

    /// The journal gets an inode with another charge. Returns the one before; the new one if the file has no tail.
    pub(crate) fn charge(&mut self, object: ObjectId, after: Charge) -> Charge {
        match self.0.get_mut(&object) {
            Some(tail) => std::mem::replace(&mut tail.charged, after),
            None => after,
        }
    }

    /// A request waits until the present inodes of these files are durable.
    pub(crate) fn await_all(&mut self, objects: Range<ObjectId>) {
        for tail in self.0.range_mut(objects).map(|(_, tail)| tail) {
            tail.awaited = tail.inode.size;
        }
    }

    /// Whether a request waits for a size that dirty contents of these bytes would keep from the journal.
    pub(crate) fn is_awaited(&self, object: ObjectId, bytes: &Range<u64>) -> bool {
        let tail = self.0.get(&object);
        tail.is_some_and(|tail| bytes.end > tail.journaled && bytes.start < tail.awaited)
    }

    /// A transaction sets an inode. Returns the inode that the journal gets with it. A file that grows over dirty records has a
    /// tail already ([`Tails::written`]).
    pub(crate) fn set(
        &mut self,
        dirty: &Dirty,
        base: u32,
        object: ObjectId,
        inode: Inode,
    ) -> Inode {
        let tail = self.0.get(&object);
        let journaled = tail.map_or(inode.size, |tail| tail.journaled);
        let journaled = journaled.min(inode.size);
        let size = safe_size(dirty, object, base, journaled, inode.size);
        let new = self::journaled(dirty, object, size, inode);
        let awaited = tail.map_or(0, |tail| tail.awaited.min(inode.size));
        let tail = Tail {
            inode,
            journaled,
            awaited,
            charged: Charge::of(&inode),
        };
        match new == inode {
            true => drop(self.0.remove(&object)),
            false => drop(self.0.insert(object, tail)),
        }
        new
    }

    /// The inodes that the journal gets with a group that was just taken.
    pub(crate) fn leaving(
        &self,
        dirty: &Dirty,
        base: u32,
        group: &Group,
    ) -> Vec<(ObjectId, Inode)> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let records = group.records.iter().map(|(key, _)| key.object());
        let ranges = group.ranges.iter().map(|keys| keys.start.object());
        let mut objects: Vec<ObjectId> = records.chain(ranges).collect();
        objects.sort_unstable();
        objects.dedup();
        let inode = |object: ObjectId| {
            let Tail {
                inode, journaled, ..
            } = self.0.get(&object)?;
            let size = safe_size(dirty, object, base, *journaled, inode.size);
            Some((object, self::journaled(dirty, object, size, *inode)))
        };
        objects.into_iter().filter_map(inode).collect()
    }

    /// The journal and a layer have this inode now.
    pub(crate) fn left(&mut self, object: ObjectId, journaled: &Inode) {
        let Some(tail) = self.0.get_mut(&object) else {
            return;
        };
        if tail.inode == *journaled {
            self.0.remove(&object);
        } else {
            tail.journaled = journaled.size.min(tail.inode.size);
        }
    }

    /// These files are gone.
    pub(crate) fn forget(&mut self, objects: Range<ObjectId>) {
        let gone: Vec<ObjectId> = self.0.range(objects).map(|(object, _)| *object).collect();
        for object in gone {
            self.0.remove(&object);
        }
    }

    /// All files are gone.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
