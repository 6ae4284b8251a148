//! Classes of vdevs: records are on normal vdevs; nodes and small records are on special vdevs while these have room.
//!
//! **Owns** the room of the special class, and which vdevs an extent of a class may be on. **Called by** [`Space`] and its users. **Invariants**:
//! the sums that admit writes count normal vdevs only; small records leave a quarter of the special class to nodes. `docs/decisions/0185`.

use super::vdev::{BlockKind, VdevRegions};
use super::{Space, Targets, Turns};
use crate::format::{Address, VdevClass, VdevId};

/// Small records take space of the special class while more than this part of it is free, as a divisor. The rest is for nodes.
pub const NODES_PART: u64 = 4;
/// Small records move to the special class from other vdevs if more than this part of it is free.
const MUCH_PART: (u64, u64) = (3, 8);

/// Space of the special class, bytes. `used`, `freeing` and `free` add up to `size`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpecialSpace {
    /// Bytes of its vdevs. Of a vdev that is being removed, those of its blocks.
    pub size: u64,
    /// Bytes of nodes and small records.
    pub used: u64,
    /// Freed bytes that are not reusable yet.
    pub freeing: u64,
    /// Bytes that can be given out.
    pub free: u64,
}

impl VdevRegions {
    pub(super) fn is_special(&self) -> bool {
        self.class == VdevClass::Special
    }

    pub(super) fn is_open_normal(&self) -> bool {
        self.is_open() && !self.is_special()
    }
}

impl Space {
    /// The vdevs of a class that give out space. A vdev of the class log has no space.
    pub(super) fn of_class(&self, class: VdevClass) -> impl Iterator<Item = &VdevRegions> {
        let is_special = class == VdevClass::Special;
        self.open()
            .filter(move |vdev| vdev.is_special() == is_special)
    }

    /// The normal vdevs that blocks are on.
    pub(super) fn present_normal(&self) -> impl Iterator<Item = &VdevRegions> {
        self.present().filter(|vdev| !vdev.is_special())
    }

    /// The normal vdevs that give out space.
    pub(super) fn normal(&self) -> impl Iterator<Item = &VdevRegions> {
        self.of_class(VdevClass::Normal)
    }

    fn special(&self) -> impl Iterator<Item = &VdevRegions> {
        self.of_class(VdevClass::Special)
    }

    pub(super) fn turns_of(&mut self, targets: Targets) -> &mut Turns {
        match targets {
            Targets::All | Targets::Emptier => &mut self.turns,
            Targets::Special => &mut self.special_turns,
        }
    }

    /// As [`Space::allocate`] on special vdevs. `None` if there are none, if they have no such run in loaded regions, or if the rest
    /// of their space is for nodes.
    pub fn allocate_special(
        &mut self,
        want: u32,
        least: u32,
        kind: BlockKind,
    ) -> Option<(Address, u32)> {
        let may_take = kind != BlockKind::Data || self.takes_small_records();
        may_take.then(|| self.take_from(Targets::Special, (want, least), kind))?
    }

    /// Whether special vdevs have room for small records.
    #[must_use]
    pub fn takes_small_records(&self) -> bool {
        let size: u64 = self.special().map(VdevRegions::size).sum();
        self.special_free() > size / NODES_PART
    }

    /// Whether special vdevs have room enough to move small records there.
    #[must_use]
    pub fn has_much_special(&self) -> bool {
        let size: u64 = self.special().map(VdevRegions::size).sum();
        self.special_free() > size / MUCH_PART.1 * MUCH_PART.0
    }

    fn special_free(&self) -> u64 {
        self.special().map(VdevRegions::free_bytes).sum()
    }

    /// Whether a special vdev gives out space.
    #[must_use]
    pub fn has_special(&self) -> bool {
        self.special().next().is_some()
    }

    /// Whether an allocation found no run in loaded regions of special vdevs that another region of them may have.
    #[must_use]
    pub fn is_special_short(&self) -> bool {
        self.special().any(|vdev| vdev.short.is_some())
    }

    /// Whether a vdev is special.
    #[must_use]
    pub fn is_special(&self, vdev: VdevId) -> bool {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        vdev.is_some_and(VdevRegions::is_special)
    }

    /// Whether nodes and small records that are given out on a vdev now are there because the special vdevs have no room.
    #[must_use]
    pub fn spills_to(&self, vdev: VdevId) -> bool {
        self.has_special() && !self.is_special(vdev)
    }

    /// Free bytes of the special vdevs other than this one.
    #[must_use]
    pub fn special_free_without(&self, vdev: VdevId) -> u64 {
        let others = self.special().filter(|other| other.id != vdev);
        others.map(VdevRegions::free_bytes).sum()
    }

    /// Space of the special class; `None` if no vdev is of it.
    #[must_use]
    pub fn special_space(&self) -> Option<SpecialSpace> {
        let special = self.present().filter(|vdev| vdev.is_special());
        special.fold(None, |sum: Option<SpecialSpace>, vdev| {
            let sum = sum.unwrap_or_default();
            let taken = vdev.used_bytes() + vdev.pending_bytes();
            let (size, free) = match vdev.is_open() {
                true => (vdev.size(), vdev.free_bytes()),
                false => (taken, 0),
            };
            Some(SpecialSpace {
                size: sum.size + size,
                used: sum.used + vdev.used_bytes(),
                freeing: sum.freeing + vdev.pending_bytes(),
                free: sum.free + free,
            })
        })
    }
}
