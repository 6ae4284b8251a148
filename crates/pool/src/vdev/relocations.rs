//! Relocated blocks: their present places, by the names of the blocks.
//!
//! **Owns** the map from names to places. **Called by** reads of blocks, and by the pool's owner. **Invariants**: the entries are those of the
//! pool's own tree, and those of blocks that were freed, until no reader can come to them; a pool without relocated blocks pays one
//! check of a number for each read. `docs/decisions/0182`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::format::{Address, Birth, BlockName, BlockPtr, Relocation, VdevId};

/// Where a block's bytes are, and the epoch in which they were written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PresentPlace {
    /// The address of the bytes.
    pub(crate) at: Address,
    /// The epoch: of the placement, or of the relocation.
    pub(crate) since: Birth,
}

type Places = BTreeMap<BlockName, PresentPlace>;

/// See the module header. Shared by all shards.
#[derive(Debug, Default)]
pub(crate) struct Relocations {
    places: RwLock<Places>,
    count: AtomicUsize,
}

impl Relocations {
    fn read(&self) -> RwLockReadGuard<'_, Places> {
        self.places.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Places> {
        self.places.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, places: &Places) {
        self.count.store(places.len(), Ordering::Release);
    }

    /// Number of relocated blocks.
    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The place of a relocated block; `None` if the block is at the address in its pointer.
    pub(crate) fn find(&self, ptr: &BlockPtr) -> Option<PresentPlace> {
        match self.len() {
            0 => None,
            _ => self.read().get(&BlockName::from(ptr)).copied(),
        }
    }

    /// The place of a block.
    pub(crate) fn place_of(&self, ptr: &BlockPtr) -> PresentPlace {
        self.find(ptr).unwrap_or(PresentPlace {
            at: ptr.address(),
            since: ptr.placed,
        })
    }

    /// Replaces all entries.
    pub(crate) fn replace(&self, all: &[Relocation]) {
        let mut places = self.write();
        places.clear();
        places.extend(all.iter().map(|one| (one.of, place(one))));
        self.count(&places);
    }

    /// Adds an entry, or replaces the one of the same block.
    pub(crate) fn put(&self, one: &Relocation) {
        let mut places = self.write();
        places.insert(one.of, place(one));
        self.count(&places);
    }

    /// Forgets blocks that were freed, and to which no reader can come.
    pub(crate) fn forget(&self, names: &[BlockName]) {
        if names.is_empty() {
            return;
        }
        let mut places = self.write();
        for name in names {
            places.remove(name);
        }
        self.count(&places);
    }

    /// The epoch of the youngest relocation to a vdev; zero without any.
    pub(crate) fn youngest_on(&self, vdev: VdevId) -> Birth {
        let places = self.read();
        let on_vdev = places.values().filter(|place| place.at.vdev == vdev);
        on_vdev.fold(Birth(0), |youngest, place| youngest.max(place.since))
    }
}

fn place(one: &Relocation) -> PresentPlace {
    PresentPlace {
        at: one.to,
        since: one.epoch,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{ChecksumKind, Compression, VdevOffset};

    fn at(vdev: u16, offset: u64) -> Address {
        Address {
            vdev: VdevId(vdev),
            offset: VdevOffset(offset),
        }
    }

    fn ptr(offset: u64, placed: u64) -> BlockPtr {
        BlockPtr::to(
            at(0, offset),
            &[1; 4096],
            (Compression::Off, 4096),
            ChecksumKind::Xxh3,
            Birth(placed),
        )
    }

    fn moved(ptr: &BlockPtr, to: Address, epoch: u64) -> Relocation {
        Relocation {
            of: ptr.into(),
            to,
            bytes: 4096,
            epoch: Birth(epoch),
        }
    }

    #[test]
    fn a_younger_block_at_the_old_address_is_at_its_own_place() {
        let map = Relocations::default();
        let (old, new) = (ptr(8192, 3), ptr(8192, 9));
        map.put(&moved(&old, at(1, 4096), 5));
        assert_eq!(map.find(&old).map(|place| place.at), Some(at(1, 4096)));
        assert_eq!(map.find(&new), None);
        assert_eq!(map.place_of(&new).at, new.address());
        assert_eq!(map.place_of(&new).since, Birth(9));
        map.put(&moved(&new, at(1, 8192), 11));
        map.put(&moved(&old, at(2, 0), 12));
        assert_eq!(map.place_of(&old).at, at(2, 0), "moved twice");
        assert_eq!((map.len(), map.youngest_on(VdevId(1))), (2, Birth(11)));
        map.forget(&[BlockName::from(&old)]);
        assert_eq!(map.find(&old), None);
        assert_eq!((map.len(), map.place_of(&new).at), (1, at(1, 8192)));
    }
}
