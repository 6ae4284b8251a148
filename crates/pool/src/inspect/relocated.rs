//! Blocks that were moved while their pointers stay as they are.
//!
//! **Owns** its own map from the names of these blocks to their places. **Called by** reads of blocks, and by verification. **Invariant**: each
//! entry is of one block, and of vdevs that exist. Pure. `docs/format.md`, "Relocated blocks".

use std::collections::{BTreeMap, BTreeSet};

use crate::format::{Address, BlockPtr, Defect, Relocation};

/// Vdev, offset and placement in a pointer.
type SeenName = (u16, u64, u64);

fn name(ptr: &BlockPtr) -> SeenName {
    (ptr.vdev.0, ptr.offset.0, ptr.placed.0)
}

/// Relocations, by the names of their blocks.
#[derive(Debug, Default, Clone)]
pub(super) struct SeenRelocations(BTreeMap<SeenName, Relocation>);

impl SeenRelocations {
    /// The relocation of a block.
    pub(super) fn of(&self, ptr: &BlockPtr) -> Option<Relocation> {
        self.0.get(&name(ptr)).copied()
    }

    /// The relocations that a walk has not met.
    pub(super) fn beside<'a>(
        &'a self,
        met: &'a MetRelocations,
    ) -> impl Iterator<Item = &'a Relocation> {
        let all = self.0.iter();
        all.filter(|(name, _)| !met.0.contains(name))
            .map(|(_, one)| one)
    }

    /// Adds an entry. `vdevs` is the number of vdevs.
    ///
    /// # Errors
    /// A vdev of it does not exist.
    pub(super) fn add(&mut self, one: Relocation, vdevs: usize) -> Result<(), Defect> {
        for vdev in [one.of.at.vdev.0, one.to.vdev.0] {
            if usize::from(vdev) >= vdevs {
                return Err(Defect::Field {
                    field: "vdev of a relocation",
                    value: vdev.into(),
                });
            }
        }
        let Address { vdev, offset } = one.of.at;
        self.0.insert((vdev.0, offset.0, one.of.placed.0), one);
        Ok(())
    }
}

/// The relocated blocks that a walk has met.
#[derive(Debug, Default)]
pub(super) struct MetRelocations(BTreeSet<SeenName>);

impl MetRelocations {
    /// A walk meets a relocated block.
    pub(super) fn meet(&mut self, ptr: &BlockPtr) {
        self.0.insert(name(ptr));
    }
}
