//! The allocator: used and free sectors of the pool, and the choice of the next extent.
//!
//! **Owns** a bit for each sector of the regions that are loaded, a summary of each other region, the freed sectors that
//! are not reusable yet, and the choice of where to write next. **Called by** the pool's owner, which loads and evicts regions.
//! **Invariants**: no sector is given out twice; a freed sector is given out again only after the checkpoint that freed it was
//! released; the bitmaps that a checkpoint saves are the used space once it is the pool, without nodes of the pool's own
//! tree, which the opening marks, and without younger records, which the journal has. Pure: no function waits; an allocation that
//! needs another region records this. `docs/format.md`, "Space"; `docs/decisions/0103`, `0162`.

mod balance;
mod classes;
mod closed;
mod departure;
mod expand;
mod fills;
mod freed;
mod frees;
mod load;
mod narrow;
mod residency;
mod rows;
mod sectors;
mod summary;
mod trim;
mod trims;
mod vdev;

use std::collections::BTreeSet;

use crate::format::{Address, Defect, NODE_SIZE_MAX, VdevId, VdevOffset};

use freed::Frees;
use sectors::Sectors;
use trims::Trims;
use vdev::VdevRegions;

pub use balance::{Surplus, Targets};
pub use classes::{NODES_PART, SpecialSpace};
pub use closed::SparseRegion;
pub use fills::{FILL_LEVELS, RowFill, RowFills};
pub use freed::Sealed;
pub use load::SavedRegion;
pub use trim::{Trimming, Which};
pub use trims::KEPT;
pub use vdev::{BlockKind, Service, VdevSpace};

/// Bytes given out on the emptiest vdev before the next vdev has its turn.
const TURN_BYTES: u64 = 1 << 20;
/// The same for the fullest vdev.
const TURN_BYTES_MIN: u64 = TURN_BYTES / 16;
/// The part of the pool that only trees may take: the reserve.
const RESERVE_PART: u64 = 32;
/// The reserve of pools with a raidz is this many times larger.
const RAIDZ_FACTOR: u64 = 2;
/// The reserve has this many bytes at least, and half of the pool at most.
const RESERVE_MIN: u64 = 8 << 20;

/// By kind of a block: the vdev that has its turn, and the bytes left in the turn.
type Turns = [(usize, u64); 3];

/// The allocator's whole state.
pub struct Space {
    vdevs: Vec<VdevRegions>,
    /// Of normal vdevs, by kind: the vdev that has its turn, and the bytes left in the turn.
    turns: Turns,
    /// The same of special vdevs.
    special_turns: Turns,
    frees: Frees,
    /// Whether a checkpoint is being written: records that are given out meanwhile are young.
    is_checkpointing: bool,
    /// Sectors given out to records during the current checkpoint, which does not save them.
    young: Sectors,
    /// Regions that the current checkpoint still has to save.
    saving: BTreeSet<(usize, u32)>,
    trims: Trims,
    /// Bytes of all open vdevs of the normal class.
    size: u64,
    reserve: u64,
    /// Bytes of memory for space, about.
    budget: u64,
}

/// Bytes that only trees may take. On a raidz, a node takes whole rows, and a row larger than a node of
/// [`NODE_SIZE_MAX`] more than the largest one.
fn reserve(vdevs: &[VdevRegions]) -> u64 {
    let open = || vdevs.iter().filter(|vdev| vdev.is_open_normal());
    let size = open().map(VdevRegions::size).sum::<u64>();
    let row = open().filter_map(VdevRegions::row_bytes).max();
    let factor = row.map_or(1, |row| RAIDZ_FACTOR * row.div_ceil(NODE_SIZE_MAX.into()));
    (size / RESERVE_PART)
        .max(RESERVE_MIN)
        .saturating_mul(factor)
        .min(size / 2)
}

impl Space {
    /// An allocator with all sectors free. The vdevs are in the order of their numbers, from 0.
    #[must_use]
    pub fn new(vdevs: &[VdevSpace]) -> Self {
        let vdevs: Vec<VdevRegions> = vdevs.iter().map(VdevRegions::new).collect();
        let mut space = Self {
            vdevs,
            turns: [(0, TURN_BYTES); 3],
            special_turns: [(0, TURN_BYTES); 3],
            frees: Frees::default(),
            is_checkpointing: false,
            young: Sectors::default(),
            saving: BTreeSet::new(),
            trims: Trims::default(),
            size: 0,
            reserve: 0,
            budget: u64::MAX,
        };
        space.measure();
        space
    }

    /// Adds a vdev, all free. Its number is the number of vdevs before.
    pub fn add(&mut self, space: &VdevSpace) {
        self.vdevs.push(VdevRegions::new(space));
        self.measure();
    }

    /// Moves the end of a vdev's space.
    pub fn grow(&mut self, vdev: VdevId, end: VdevOffset) {
        if let Some(vdev) = self.vdevs.get_mut(usize::from(vdev.0)) {
            vdev.grow(end);
            self.measure();
        }
    }

    fn measure(&mut self) {
        self.size = self.normal().map(VdevRegions::size).sum();
        self.reserve = reserve(&self.vdevs);
    }

    /// Bytes that a vdev gives out in its turn. Fuller vdevs of its class give less, so that all become full together.
    fn turn(&self, index: usize) -> u64 {
        let of_class = self.of_class(self.vdevs[index].class);
        let most = of_class.map(VdevRegions::free_bytes).max().unwrap_or(0);
        let share = u128::from(TURN_BYTES) * u128::from(self.vdevs[index].free_bytes());
        ((share / u128::from(most.max(1))) as u64).max(TURN_BYTES_MIN)
    }

    fn vdev(&mut self, at: Address, bytes: u32) -> Result<(&mut VdevRegions, usize), Defect> {
        let index = usize::from(at.vdev.0);
        let vdev = self.vdevs.get_mut(index).filter(|v| v.holds(at, bytes));
        let outside = Defect::Field {
            field: "offset of a block that is not in its vdev's space",
            value: at.offset.0,
        };
        vdev.map(|v| (v, index)).ok_or(outside)
    }

    /// Marks a node of the pool's own tree as used, during opening.
    ///
    /// # Errors
    /// The node is outside its vdev's space, or overlaps a block that is known. A bitmap that claims the node is found when its
    /// region is loaded.
    pub fn mark_pool_node(&mut self, at: Address, bytes: u32) -> Result<(), Defect> {
        let (vdev, _) = self.vdev(at, bytes)?;
        let sector = vdev.sector();
        let marked = vdev.mark_node(at, bytes)? * sector;
        vdev.used += marked as i64;
        Ok(())
    }

    /// Marks a block as used that a batch of the journal points to. The saved bitmap may have it already.
    ///
    /// # Errors
    /// The block is outside its vdev's space, or overlaps a node of the pool's own tree.
    pub fn mark_replayed(&mut self, at: Address, bytes: u32) -> Result<(), Defect> {
        let (vdev, _) = self.vdev(at, bytes)?;
        let sector = vdev.sector();
        let marked = vdev.mark_replayed(at, bytes)? * sector;
        vdev.used += marked as i64;
        Ok(())
    }

    /// Gives out one extent on normal vdevs of at most `want` bytes, a multiple of `least`, which is rounded up to sectors. None if
    /// there is no run of `least` bytes in the loaded regions, or if only the reserve is left for `Data`. In the first case,
    /// [`Space::is_short`] says whether another region may have one.
    pub fn allocate(&mut self, want: u32, least: u32, kind: BlockKind) -> Option<(Address, u32)> {
        let kept = if kind == BlockKind::Data {
            self.reserve
        } else {
            0
        };
        self.take((want, least), kind, kept, Targets::All)
    }

    /// As [`Space::allocate`] for admitted records, which must get an extent: they may take half of the reserve, if
    /// trees took more than was kept for them.
    pub fn allocate_promised(&mut self, want: u32, least: u32) -> Option<(Address, u32)> {
        let kept = self.reserve / 2;
        self.take((want, least), BlockKind::Data, kept, Targets::All)
    }

    /// As [`Space::allocate`] for records that a mover writes again: they may take a quarter of the reserve, which the next
    /// checkpoint gives back.
    pub fn allocate_moved(
        &mut self,
        want: u32,
        least: u32,
        targets: Targets,
    ) -> Option<(Address, u32)> {
        let kept = self.kept_from_mover();
        self.take((want, least), BlockKind::Data, kept, targets)
    }

    fn kept_from_mover(&self) -> u64 {
        self.reserve / 4 * 3
    }

    fn take(
        &mut self,
        (want, least): (u32, u32),
        kind: BlockKind,
        kept: u64,
        targets: Targets,
    ) -> Option<(Address, u32)> {
        if targets != Targets::Special && self.free_bytes() < kept + u64::from(least) {
            return None;
        }
        self.take_from(targets, (want, least), kind)
    }

    /// Gives out an extent on the vdevs that `targets` names.
    fn take_from(
        &mut self,
        targets: Targets,
        (want, least): (u32, u32),
        kind: BlockKind,
    ) -> Option<(Address, u32)> {
        let (first, left) = self.turns_of(targets)[kind as usize];
        for step in 0..self.vdevs.len() {
            let index = (first + step) % self.vdevs.len();
            if !self.is_target(index, targets) {
                continue;
            }
            let Some((at, got)) = self.vdevs[index].allocate(want, least, kind) else {
                continue;
            };
            let left = if step == 0 { left } else { self.turn(index) };
            let next = match left.checked_sub(got.into()) {
                Some(left) if left > 0 => (index, left),
                _ => {
                    let next = (index + 1) % self.vdevs.len();
                    (next, self.turn(next))
                }
            };
            self.turns_of(targets)[kind as usize] = next;
            self.vdevs[index].used += i64::from(got);
            if kind == BlockKind::Data && self.is_checkpointing {
                let range = self.vdevs[index].range(at, got);
                self.young.of_mut(index).insert(range);
            }
            return Some((at, got));
        }
        None
    }

    /// Takes back a part of an extent to which nothing was written, so that it may be given out again at once; on a raidz once
    /// its row is free.
    ///
    /// # Panics
    /// If it is not used.
    pub fn give_back(&mut self, at: Address, bytes: u32) {
        if bytes > 0 {
            let (vdev, index) = self.vdev(at, bytes).expect("it was just given out");
            let range = vdev.range(at, bytes);
            vdev.give_back(at, bytes);
            vdev.used -= i64::from(bytes);
            // a node that the checkpoint saves may be placed there next
            self.young.of_mut(index).remove(range);
        }
    }

    /// Bytes of the normal vdevs' space. Of a vdev that is being removed, that of its blocks.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size + self.leaving()
    }

    /// Bytes of used sectors of all vdevs that are not freed.
    #[must_use]
    pub fn used_of_all(&self) -> u64 {
        self.present().map(VdevRegions::used_bytes).sum()
    }

    /// Bytes of used sectors of normal vdevs that are not freed.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.present_normal().map(VdevRegions::used_bytes).sum()
    }

    /// Bytes of freed sectors of normal vdevs that are not reusable yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.present_normal().map(VdevRegions::pending_bytes).sum()
    }

    /// Bytes that can be given out on normal vdevs: free sectors; on a raidz, those of free rows.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.normal().map(VdevRegions::free_bytes).sum()
    }

    /// Free bytes that records may take.
    #[must_use]
    pub fn allocatable(&self) -> u64 {
        self.free_bytes().saturating_sub(self.reserve)
    }

    /// Free bytes that movers may take.
    #[must_use]
    pub fn movable(&self) -> u64 {
        self.free_bytes().saturating_sub(self.kept_from_mover())
    }

    /// Whether a sector is freed and not reusable yet.
    #[must_use]
    pub fn is_freed(&self, at: Address) -> bool {
        let index = usize::from(at.vdev.0);
        let vdev = self.vdevs.get(index);
        vdev.is_some_and(|v| self.frees.any(index, v.range(at, 1)))
    }

    /// Whether a sector of a loaded region is used, or freed and not reusable yet. `None` if its region is not loaded.
    #[must_use]
    pub fn is_used(&self, at: Address) -> Option<bool> {
        let vdev = self.vdevs.get(usize::from(at.vdev.0))?;
        let (region, start, _) = vdev.place(at, 1);
        let loaded = vdev.loaded.get(&region)?;
        Some(loaded.used.any(start, 1))
    }

    /// The region of a block.
    #[must_use]
    pub fn region_of(&self, at: Address) -> Option<(VdevId, u32)> {
        let vdev = self.vdevs.get(usize::from(at.vdev.0))?;
        Some((at.vdev, vdev.place(at, 1).0))
    }
}
