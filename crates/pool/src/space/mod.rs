//! The allocator: used and free sectors of the pool, and the choice of the next extent.
//!
//! **Owns** a bit for each sector of regions that are not all free, and the choice of where to write next. **Called
//! by** the pool's owner. **Invariants**: no sector is given out twice; a freed sector is given out again only after
//! the checkpoint that freed it was released; the bitmaps that a checkpoint saves are the used space once it is the
//! pool, without nodes of the pool's own tree, which the opening visits and marks, and without younger records, which
//! the journal has. Pure: no function waits. `docs/format.md`, "Space"; `docs/decisions/0103`.

mod rows;
mod trim;
mod trims;
mod vdev;

use crate::format::{
    Address, Defect, Key, NODE_SIZE_MAX, REGION_BITMAP_SIZE, RegionBits, VdevId, VdevOffset,
};

use trims::{Frees, Trims};
use vdev::VdevRegions;

pub use trim::{Trimming, Which};
pub use trims::KEPT;
pub use vdev::{BlockKind, VdevSpace};

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

/// The allocator's whole state.
pub struct Space {
    vdevs: Vec<VdevRegions>,
    /// By kind: the vdev that has its turn, and the bytes left in the turn.
    turns: [(usize, u64); 3],
    /// Sectors freed since the last seal.
    freed: Frees,
    /// Between a checkpoint's begin and its seal: freed sectors that are younger than it.
    freed_young: Option<Frees>,
    /// Sectors given out to records in that time. The checkpoint does not save them.
    young: Frees,
    trims: Trims,
    size: u64,
    used: u64,
    pending: u64,
    reserve: u64,
}

/// Bytes that only trees may take. On a raidz, a node takes whole rows, and a row larger than a node of
/// [`NODE_SIZE_MAX`] more than the largest one.
fn reserve(vdevs: &[VdevRegions]) -> u64 {
    let size = vdevs.iter().map(VdevRegions::size).sum::<u64>();
    let row = vdevs.iter().filter_map(VdevRegions::row_bytes).max();
    let factor = row.map_or(1, |row| RAIDZ_FACTOR * row.div_ceil(NODE_SIZE_MAX.into()));
    (size / RESERVE_PART)
        .max(RESERVE_MIN)
        .saturating_mul(factor)
        .min(size / 2)
}

/// The sectors that a checkpoint frees, and the bitmaps that it saves.
#[must_use = "what it frees is reusable only once it is released"]
pub struct Sealed {
    freed: Frees,
    changed: Vec<(VdevId, u32, Option<RegionBits>)>,
}

impl Sealed {
    /// The sectors that it frees on a vdev, by region.
    pub(crate) fn freed_on(&self, vdev: VdevId) -> impl Iterator<Item = (u32, &RegionBits)> {
        let index = usize::from(vdev.0);
        let freed = self.freed.range((index, 0)..=(index, u32::MAX));
        freed.map(|((_, region), bits)| (*region, bits))
    }

    /// Regions that changed since the last seal, and their bitmaps; no bitmap for a region that is all free.
    pub fn regions(&self) -> impl Iterator<Item = (VdevId, u32, Option<[u8; REGION_BITMAP_SIZE]>)> {
        self.changed
            .iter()
            .map(|(vdev, region, bits)| (*vdev, *region, bits.as_ref().map(RegionBits::encode)))
    }
}

impl Space {
    /// An allocator with all sectors free. The vdevs are in the order of their numbers, from 0.
    #[must_use]
    pub fn new(vdevs: &[VdevSpace]) -> Self {
        let vdevs: Vec<VdevRegions> = vdevs.iter().map(VdevRegions::new).collect();
        let size = vdevs.iter().map(VdevRegions::size).sum();
        let reserve = reserve(&vdevs);
        Self {
            vdevs,
            turns: [(0, TURN_BYTES); 3],
            freed: Frees::new(),
            freed_young: None,
            young: Frees::new(),
            trims: Trims::default(),
            size,
            used: 0,
            pending: 0,
            reserve,
        }
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
        self.size = self.vdevs.iter().map(VdevRegions::size).sum();
        self.reserve = reserve(&self.vdevs);
    }

    /// Bytes that a vdev gives out in its turn. Fuller vdevs give less, so that all become full together.
    fn turn(&self, index: usize) -> u64 {
        let most = self
            .vdevs
            .iter()
            .map(VdevRegions::free_bytes)
            .max()
            .unwrap_or(0);
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

    /// Loads a saved bitmap during opening.
    ///
    /// # Errors
    /// The vdev or region does not exist, or bits are outside it.
    pub fn load(&mut self, key: Key, bytes: &[u8]) -> Result<(), Defect> {
        let outside = Defect::Field {
            field: "region of the saved space",
            value: key.offset(),
        };
        let region = u32::try_from(key.offset()).map_err(|_| outside)?;
        let index = usize::try_from(key.object().0).map_err(|_| outside)?;
        let vdev = self.vdevs.get_mut(index).ok_or(outside)?;
        self.used += vdev.load(region, RegionBits::decode(bytes)?)?;
        Ok(())
    }

    /// Marks a node of the pool's own tree as used, during opening.
    ///
    /// # Errors
    /// The node is outside its vdev's space, or overlaps a used block.
    pub fn mark_pool_node(&mut self, at: Address, bytes: u32) -> Result<(), Defect> {
        let (vdev, _) = self.vdev(at, bytes)?;
        let marked = vdev.mark(at, bytes, BlockKind::PoolTree)?;
        self.used += marked;
        Ok(())
    }

    /// Marks a block as used that a batch of the journal points to. The saved bitmap may have it already.
    ///
    /// # Errors
    /// The block is outside its vdev's space, or overlaps a node of the pool's own tree.
    pub fn mark_replayed(&mut self, at: Address, bytes: u32) -> Result<(), Defect> {
        let (vdev, _) = self.vdev(at, bytes)?;
        let marked = vdev.mark(at, bytes, BlockKind::Data)?;
        self.used += marked;
        Ok(())
    }

    /// Gives out one extent of at most `want` bytes, a multiple of `least`, which is rounded up to sectors. None if
    /// there is no run of `least` bytes, or if only the reserve is left for `Data`.
    pub fn allocate(&mut self, want: u32, least: u32, kind: BlockKind) -> Option<(Address, u32)> {
        let kept = if kind == BlockKind::Data {
            self.reserve
        } else {
            0
        };
        self.take(want, least, kind, kept)
    }

    /// As [`Space::allocate`] for admitted records, which must get an extent: they may take half of the reserve, if
    /// trees took more than was kept for them.
    pub fn allocate_promised(&mut self, want: u32, least: u32) -> Option<(Address, u32)> {
        self.take(want, least, BlockKind::Data, self.reserve / 2)
    }

    fn take(
        &mut self,
        want: u32,
        least: u32,
        kind: BlockKind,
        kept: u64,
    ) -> Option<(Address, u32)> {
        if self.free_bytes() < kept + u64::from(least) {
            return None;
        }
        let (first, left) = self.turns[kind as usize];
        for step in 0..self.vdevs.len() {
            let index = (first + step) % self.vdevs.len();
            let Some((at, got)) = self.vdevs[index].allocate(want, least, kind) else {
                continue;
            };
            let left = if step == 0 { left } else { self.turn(index) };
            self.turns[kind as usize] = match left.checked_sub(got.into()) {
                Some(left) if left > 0 => (index, left),
                _ => {
                    let next = (index + 1) % self.vdevs.len();
                    (next, self.turn(next))
                }
            };
            self.used += u64::from(got);
            if kind == BlockKind::Data && self.freed_young.is_some() {
                let (region, start, count) = self.vdevs[index].place(at, got);
                let young = self.young.entry((index, region)).or_default();
                young.set(start, count);
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
            let (region, start, count) = vdev.give_back(at, bytes);
            // a node that the checkpoint saves may be placed there next
            if let Some(young) = self.young.get_mut(&(index, region)) {
                young.clear(start, count);
            }
            self.used -= u64::from(bytes);
        }
    }

    /// Frees a block. Its sectors are reusable after the next checkpoint.
    ///
    /// # Errors
    /// The block is outside its vdev's space, not used, or already freed. Nothing is changed.
    pub fn free(&mut self, at: Address, bytes: u32) -> Result<(), Defect> {
        let mut freed = std::mem::take(&mut self.freed);
        let done = self.free_into(&mut freed, at, bytes);
        self.freed = freed;
        done
    }

    /// As [`Space::free`] for a block that was born after the current checkpoint began. Replay after that checkpoint
    /// puts the block and frees it, so its sectors are reusable only after the next one.
    ///
    /// # Errors
    /// As [`Space::free`].
    pub fn free_young(&mut self, at: Address, bytes: u32) -> Result<(), Defect> {
        let Some(mut freed) = self.freed_young.take() else {
            return self.free(at, bytes);
        };
        let done = self.free_into(&mut freed, at, bytes);
        self.freed_young = Some(freed);
        done
    }

    fn free_into(&mut self, freed: &mut Frees, at: Address, bytes: u32) -> Result<(), Defect> {
        let (vdev, index) = self.vdev(at, bytes)?;
        let (region, start, count) = vdev.free(at, bytes)?;
        let bytes = u64::from(count) * vdev.sector();
        freed.entry((index, region)).or_default().set(start, count);
        self.used -= bytes;
        self.pending += bytes;
        Ok(())
    }

    /// Frees a node of the pool's own tree together with what `sealed` frees.
    ///
    /// # Errors
    /// As [`Space::free`].
    pub fn free_with(
        &mut self,
        sealed: &mut Sealed,
        at: Address,
        bytes: u32,
    ) -> Result<(), Defect> {
        self.free_into(&mut sealed.freed, at, bytes)
    }

    /// A checkpoint begins. It holds all blocks born until now.
    pub fn begin_checkpoint(&mut self) {
        self.freed_young = Some(Frees::new());
    }

    /// Seals the current checkpoint: returns the bitmaps that it saves, without younger records, and the sectors that
    /// it frees.
    pub fn seal(&mut self) -> Sealed {
        let young = std::mem::take(&mut self.young);
        let vdevs = self.vdevs.iter_mut().enumerate();
        let changed = vdevs.flat_map(|(index, vdev)| {
            let young = |region| young.get(&(index, region));
            vdev.take_changed(young)
        });
        Sealed {
            changed: changed.collect(),
            freed: std::mem::replace(&mut self.freed, self.freed_young.take().unwrap_or_default()),
        }
    }

    /// Makes the sectors reusable that a checkpoint freed. It is durable, and no reader can come to them.
    pub fn release(&mut self, sealed: Sealed) {
        for ((index, region), bits) in &sealed.freed {
            let vdev = &mut self.vdevs[*index];
            vdev.release(*region, bits);
            self.pending -= u64::from(bits.count()) * vdev.sector();
        }
        self.trims.released(sealed.freed);
    }

    /// Bytes of all vdevs' space.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes of used sectors that are not freed.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Bytes of freed sectors that are not reusable yet.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Bytes that can be given out: free sectors; on a raidz, those of free rows.
    #[must_use]
    pub fn free_bytes(&self) -> u64 {
        self.vdevs.iter().map(VdevRegions::free_bytes).sum()
    }

    /// Free bytes that records may take.
    #[must_use]
    pub fn allocatable(&self) -> u64 {
        self.free_bytes().saturating_sub(self.reserve)
    }

    /// Whether a sector is freed and not reusable yet.
    #[must_use]
    pub fn is_freed(&self, at: Address) -> bool {
        let vdev = self.vdevs.get(usize::from(at.vdev.0));
        vdev.is_some_and(|v| v.is_freed(at))
    }

    /// Whether a sector is used, or freed and not reusable yet. For verification.
    #[must_use]
    pub fn is_used(&self, at: Address) -> bool {
        let vdev = self.vdevs.get(usize::from(at.vdev.0));
        vdev.is_some_and(|v| v.is_used(at))
    }
}
