//! Node table: the objects that the kernel knows, by inode number.
//!
//! **Owns** the mapping between inode numbers and handles, and the kernel's lookup counts. **Called by** every operation.
//! **Invariants**: an object has one inode number from its first lookup until the kernel has forgotten it; a number that the
//! kernel knows names one object; the root is 1 and never forgotten; at most `limit` objects are known.
//!
//! Inode numbers, so that they are the same after the next mount. An object number has a class in bits 52 to 55 (its record size), and
//! a number below 2^52 that counts up:
//!
//! ```text
//! bits 63, 62 | 61 to 46         | 45 to 42 | 41 to 0
//! 0       0   | object number (56 bits) of the mounted file system (the root: 1)
//! 0       1   | the file system  | class    | counted number of an object of another file system (snapshots)
//! 1           | counter: any object whose number is in use for another generation, or does not fit
//! ```
//!
//! The 16 bits of another file system are the low ones of its number, if they are free.

use crate::limits::NODES_MAX;
use backend::file::{Attributes, Handle};
use io::sync::lock;
use io::sync::{read, write};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, RwLock};

/// The inode number of the root (FUSE_ROOT_ID).
pub(crate) const ROOT: u64 = 1;
/// Bits of an object number: a class and a counted number.
const OBJECT_BITS: u32 = 56;
/// Bits of the counted number in an object number.
const COUNTED_BITS: u32 = 52;
/// Bits of the counted number in the inode number of an object of another file system.
const SHORT_BITS: u32 = 42;
/// Bits of the class.
const CLASS_BITS: u32 = OBJECT_BITS - COUNTED_BITS;
/// Most file systems besides the mounted one that get a range of inode numbers.
const RANGES_MAX: usize = 1 << 16;
/// Set in numbers of objects of other file systems.
const OTHER: u64 = 1 << 62;
/// Set in numbers from the counter.
const COUNTED: u64 = 1 << 63;
/// Parts of the table with a lock each.
const STRIPES: usize = 64;

/// A known object whose inode number has its object number.
#[derive(Debug, Clone, Copy)]
struct Node {
    generation: u64,
    /// Lookups that the kernel has not forgotten.
    lookups: u64,
}

/// Known objects with a number from the counter.
#[derive(Default)]
struct Counted {
    by_handle: HashMap<Handle, u64>,
    by_number: HashMap<u64, (Handle, u64)>,
    last: u64,
}

/// The table is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TableFull;

/// The objects that the kernel knows.
pub(crate) struct Nodes {
    root: Handle,
    limit: usize,
    known: AtomicUsize,
    stripes: Box<[Mutex<HashMap<u64, Node>>]>,
    /// File systems besides the root's, by range.
    ranges: RwLock<HashMap<u64, u64>>,
    counted: Mutex<Counted>,
    /// Number of objects in `counted`, to skip its lock.
    counted_len: AtomicUsize,
    /// Last attributes of removed objects that the kernel still knows.
    removed: Mutex<HashMap<u64, Attributes>>,
}

impl Nodes {
    /// A table with only the root.
    pub(crate) fn new(root: Handle) -> Self {
        Self::with_limit(root, NODES_MAX)
    }

    fn with_limit(root: Handle, limit: usize) -> Self {
        Self {
            root,
            limit,
            known: AtomicUsize::new(0),
            stripes: (0..STRIPES).map(|_| Mutex::default()).collect(),
            ranges: RwLock::default(),
            counted: Mutex::default(),
            counted_len: AtomicUsize::new(0),
            removed: Mutex::default(),
        }
    }

    /// Number of objects that the kernel knows, without the root.
    pub(crate) fn len(&self) -> usize {
        self.known.load(Ordering::Relaxed)
    }

    /// The object of an inode number; `None` if the kernel does not know it.
    pub(crate) fn handle(&self, number: u64) -> Option<Handle> {
        if number == ROOT {
            return Some(self.root);
        }
        if number & COUNTED != 0 {
            return lock(&self.counted).by_number.get(&number).map(|n| n.0);
        }
        let node = *lock(self.stripe(number)).get(&number)?;
        let (filesystem, object) = match number & OTHER {
            0 => (self.root.filesystem, number),
            _ => {
                let range = (number & !OTHER) >> (SHORT_BITS + CLASS_BITS);
                let ranges = read(&self.ranges);
                (*ranges.get(&range)?, long(number))
            }
        };
        Some(Handle {
            filesystem,
            object,
            generation: node.generation,
        })
    }

    /// The object number in the root's file system that an unknown inode number has; `None` for other inode numbers.
    pub(crate) fn object(&self, number: u64) -> Option<u64> {
        (number > ROOT && number >> OBJECT_BITS == 0).then_some(number)
    }

    /// The inode number of an object, known or not, without counting a lookup. An unknown object may get another number at
    /// its lookup if its object number is in use then.
    pub(crate) fn number(&self, of: Handle) -> u64 {
        if of == self.root {
            return ROOT;
        }
        if self.counted_len.load(Ordering::Acquire) > 0
            && let Some(number) = lock(&self.counted).by_handle.get(&of)
        {
            return *number;
        }
        self.natural(of).unwrap_or(COUNTED | of.object)
    }

    /// Counts a lookup of an object. Returns its inode number.
    pub(crate) fn look_up(&self, of: Handle) -> Result<u64, TableFull> {
        if of == self.root {
            return Ok(ROOT);
        }
        if self.counted_len.load(Ordering::Acquire) == 0
            && let Some(number) = self.natural(of)
            && let Some(number) = self.look_up_natural(number, of)?
        {
            return Ok(number);
        }
        let mut counted = lock(&self.counted);
        if let Some(number) = counted.by_handle.get(&of).copied() {
            if let Some(node) = counted.by_number.get_mut(&number) {
                node.1 += 1;
            }
            return Ok(number);
        }
        if let Some(number) = self.natural(of)
            && let Some(number) = self.look_up_natural(number, of)?
        {
            return Ok(number);
        }
        self.admit()?;
        counted.last += 1;
        let number = COUNTED | counted.last;
        counted.by_handle.insert(of, number);
        counted.by_number.insert(number, (of, 1));
        self.counted_len
            .store(counted.by_number.len(), Ordering::Release);
        Ok(number)
    }

    /// Takes back `lookups` lookups of an object: the kernel has forgotten them.
    pub(crate) fn forget(&self, number: u64, lookups: u64) {
        if number == ROOT {
            return;
        }
        let is_gone = if number & COUNTED != 0 {
            self.forget_counted(number, lookups)
        } else {
            let mut stripe = lock(self.stripe(number));
            let Some(node) = stripe.get_mut(&number) else {
                return;
            };
            node.lookups = node.lookups.saturating_sub(lookups);
            node.lookups == 0 && stripe.remove(&number).is_some()
        };
        if is_gone {
            self.known.fetch_sub(1, Ordering::Relaxed);
            lock(&self.removed).remove(&number);
        }
    }

    /// Keeps the attributes of an object without names, for as long as the kernel knows it.
    pub(crate) fn keep_removed(&self, last: &Attributes) {
        let number = self.number(last.handle);
        if self.handle(number) == Some(last.handle) {
            lock(&self.removed).insert(number, *last);
        }
    }

    /// The kept attributes of a removed object.
    pub(crate) fn removed(&self, number: u64) -> Option<Attributes> {
        lock(&self.removed).get(&number).copied()
    }

    fn forget_counted(&self, number: u64, lookups: u64) -> bool {
        let mut counted = lock(&self.counted);
        let Some((handle, left)) = counted.by_number.get_mut(&number) else {
            return false;
        };
        *left = left.saturating_sub(lookups);
        let (handle, is_gone) = (*handle, *left == 0);
        if is_gone {
            counted.by_number.remove(&number);
            counted.by_handle.remove(&handle);
            self.counted_len
                .store(counted.by_number.len(), Ordering::Release);
        }
        is_gone
    }

    /// Counts a lookup under the object's own number; `None` if another generation has it.
    fn look_up_natural(&self, number: u64, of: Handle) -> Result<Option<u64>, TableFull> {
        let mut stripe = lock(self.stripe(number));
        if let Some(node) = stripe.get_mut(&number) {
            if node.generation != of.generation {
                return Ok(None);
            }
            node.lookups += 1;
            return Ok(Some(number));
        }
        self.admit()?;
        let node = Node {
            generation: of.generation,
            lookups: 1,
        };
        stripe.insert(number, node);
        Ok(Some(number))
    }

    fn admit(&self) -> Result<(), TableFull> {
        if self.known.fetch_add(1, Ordering::Relaxed) >= self.limit {
            self.known.fetch_sub(1, Ordering::Relaxed);
            return Err(TableFull);
        }
        Ok(())
    }

    /// The inode number made of the object number; `None` if it does not fit, or is the root's.
    fn natural(&self, of: Handle) -> Option<u64> {
        if of.object >> OBJECT_BITS != 0 {
            return None;
        }
        if of.filesystem == self.root.filesystem {
            return (of.object > ROOT).then_some(of.object);
        }
        let object = short(of.object)?;
        let range = self.range(of.filesystem)?;
        Some(OTHER | range << (SHORT_BITS + CLASS_BITS) | object)
    }

    /// The range of another file system, which is the same at each mount unless another one has it: a new one at its first
    /// lookup; `None` if all are in use.
    fn range(&self, filesystem: u64) -> Option<u64> {
        let first = filesystem % RANGES_MAX as u64;
        let all = (0..RANGES_MAX as u64).map(|n| (first + n) % RANGES_MAX as u64);
        {
            let ranges = read(&self.ranges);
            let known = all.clone().take_while(|range| ranges.contains_key(range));
            for range in known {
                if ranges[&range] == filesystem {
                    return Some(range);
                }
            }
        }
        let mut ranges = write(&self.ranges);
        for range in all {
            match ranges.get(&range) {
                Some(present) if *present == filesystem => return Some(range),
                Some(_) => {}
                None => {
                    ranges.insert(range, filesystem);
                    return Some(range);
                }
            }
        }
        None
    }

    fn stripe(&self, number: u64) -> &Mutex<HashMap<u64, Node>> {
        &self.stripes[number as usize % STRIPES]
    }
}

/// An object number with fewer bits; `None` if it does not fit.
fn short(object: u64) -> Option<u64> {
    let (class, counted) = (object >> COUNTED_BITS, object & ((1 << COUNTED_BITS) - 1));
    (counted >> SHORT_BITS == 0).then_some(class << SHORT_BITS | counted)
}

/// The object number that [`short`] made shorter.
fn long(number: u64) -> u64 {
    let class = number >> SHORT_BITS & ((1 << CLASS_BITS) - 1);
    class << COUNTED_BITS | number & ((1 << SHORT_BITS) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(filesystem: u64, object: u64, generation: u64) -> Handle {
        Handle {
            filesystem,
            object,
            generation,
        }
    }

    fn table() -> Nodes {
        Nodes::with_limit(handle(7, 2, 1), 10)
    }

    #[test]
    fn an_object_keeps_its_number_until_its_last_lookup_is_forgotten() {
        let nodes = table();
        let file = handle(7, 20, 5);
        assert_eq!(nodes.handle(20), None);
        assert_eq!(nodes.look_up(file), Ok(20));
        assert_eq!(nodes.look_up(file), Ok(20));
        nodes.forget(20, 1);
        assert_eq!(nodes.handle(20), Some(file));
        nodes.forget(20, 1);
        assert_eq!((nodes.handle(20), nodes.len()), (None, 0));
        nodes.forget(20, 1);
        assert_eq!(nodes.len(), 0);
    }

    #[test]
    fn the_root_is_one_and_never_forgotten() {
        let nodes = table();
        let root = handle(7, 2, 1);
        assert_eq!((nodes.look_up(root), nodes.number(root)), (Ok(1), 1));
        nodes.forget(ROOT, 100);
        assert_eq!(nodes.handle(ROOT), Some(root));
        // another object has the root's inode number as its object number
        let first = nodes.look_up(handle(7, 1, 1)).unwrap();
        assert_eq!(nodes.handle(first), Some(handle(7, 1, 1)));
        assert_ne!(first, ROOT);
    }

    #[test]
    fn a_reused_object_number_gets_another_inode_number_while_the_old_object_is_known() {
        let nodes = table();
        let (old, new) = (handle(7, 20, 1), handle(7, 20, 2));
        assert_eq!(nodes.look_up(old), Ok(20));
        let number = nodes.look_up(new).unwrap();
        assert_ne!(number, 20);
        assert_eq!(
            (nodes.handle(20), nodes.handle(number)),
            (Some(old), Some(new))
        );
        nodes.forget(20, 1);
        assert_eq!(
            nodes.look_up(new),
            Ok(number),
            "one number as long as it is known"
        );
        assert_eq!(nodes.number(new), number);
        nodes.forget(number, 2);
        assert_eq!(nodes.look_up(new), Ok(20));
        assert_eq!(nodes.len(), 1);
    }

    #[test]
    fn snapshots_have_ranges_of_their_own() {
        let nodes = table();
        let (live, first, second) = (handle(7, 20, 1), handle(8, 20, 1), handle(9, 20, 1));
        let numbers: Vec<u64> = [live, first, second]
            .iter()
            .map(|h| nodes.look_up(*h).unwrap())
            .collect();
        let other = |range: u64| OTHER | range << 46 | 20;
        assert_eq!(numbers, [20, other(8), other(9)]);
        for (number, handle) in numbers.iter().zip([live, first, second]) {
            assert_eq!(nodes.handle(*number), Some(handle));
        }
        let large = handle(8, 1 << 50, 1);
        let number = nodes.look_up(large).unwrap();
        assert_eq!(
            (number >> 63, nodes.handle(number)),
            (1, Some(large)),
            "an object number that does not fit"
        );
    }

    /// Objects with a record size of their own got numbers from the counter: `st_ino` changed whenever the kernel forgot them,
    /// and git saw every file as changed.
    #[test]
    fn a_number_with_a_record_size_is_the_same_at_every_lookup() {
        let class = 6 << 52;
        for filesystem in [7, 8, 8 + (1 << 16)] {
            let of = handle(filesystem, class | 20, 1);
            let first = {
                let nodes = table();
                let (shown, number) = (nodes.number(of), nodes.look_up(of).unwrap());
                assert_eq!(shown, number, "of a listing and of stat");
                assert_eq!(nodes.handle(number), Some(of));
                nodes.forget(number, 1);
                nodes.look_up(handle(filesystem, class | 21, 1)).unwrap();
                assert_eq!(nodes.look_up(of), Ok(number));
                number
            };
            let nodes = table();
            nodes.look_up(handle(filesystem, 30, 1)).unwrap();
            assert_eq!(nodes.look_up(of), Ok(first), "after the next mount");
        }
        let nodes = table();
        let both = [8, 8 + (1 << 16)].map(|f| nodes.look_up(handle(f, 20, 1)).unwrap());
        assert_ne!(both[0], both[1], "two snapshots with the same low bits");
    }

    #[test]
    fn a_full_table_refuses_new_objects_only() {
        let nodes = table();
        for object in 20..30 {
            nodes.look_up(handle(7, object, 1)).unwrap();
        }
        assert_eq!(nodes.look_up(handle(7, 30, 1)), Err(TableFull));
        assert_eq!(nodes.look_up(handle(7, 20, 1)), Ok(20));
        nodes.forget(21, 1);
        assert_eq!(nodes.look_up(handle(7, 30, 1)), Ok(30));
    }
}
