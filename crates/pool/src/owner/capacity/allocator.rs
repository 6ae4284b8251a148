//! The allocator as the owner uses it: extents for records and nodes, and blocks that are freed.
//!
//! **Owns** the pool's [`Space`], the blocks that the last change replaced, and the counts of leaks and of split groups.
//! **Called by** write-back, checkpoints, pending destroys and trim. **Invariants**: a block that is freed and is not used is
//! leaked, since it may have another owner; the relocation of a freed block leaves the pool's own tree in the checkpoint that frees the
//! block; blocks to which only layers point are never relocated; a group's records get their extents in order; a record that fits nowhere as a
//! whole is placed in fragments, so that free space is usable however small its runs are.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::maps::Maps;
use crate::format::{
    Address, BlockName, BlockPtr, BlockSpace, Defect, FRAGMENTS_MAX, VdevId, VdevOffset,
};
use crate::space::{BlockKind, Sealed, Space, Targets, Trimming, VdevSpace, Which};
use crate::vdev::Copies;

/// The most extents of one group.
const EXTENTS_MAX: usize = 64;

/// Extents for the first records of a group.
pub(in crate::owner) enum Placement {
    /// Extents, and the number of records in each, which lie one behind the other.
    Whole(Vec<(Address, usize)>),
    /// Extents of the fragments of one record, and their bytes.
    Fragments(Vec<(Address, u32)>),
    /// None yet: a region must be loaded first.
    NotLoaded,
}

/// The space that an extent is taken from.
#[derive(Clone, Copy)]
enum Source {
    /// Space that records may take.
    Allocatable,
    /// The reserve of the trees. A record that was admitted must have a place: without one, checkpoint would follow
    /// checkpoint, and none would help.
    Reserve,
    /// Space that a mover may take, on these vdevs.
    Movable(Targets),
}

/// Bytes of records that lie one behind the other.
#[derive(Clone, Copy)]
struct Sizes<'a> {
    sizes: &'a [u32],
    /// Records of at most this number of bytes are for special vdevs; 0 for none.
    small: u32,
}

impl<'a> Sizes<'a> {
    fn is_small(&self, size: u32) -> bool {
        size <= self.small
    }

    fn first_one(mut self) -> Option<Self> {
        self.sizes = self.sizes.get(..1)?;
        Some(self)
    }

    /// The first records that are for vdevs of one class.
    fn first_run(&self) -> &'a [u32] {
        let mut runs = self.of_one_class();
        runs.next().unwrap_or_default()
    }

    /// Number of extents that they need if no space is short.
    fn runs(&self) -> usize {
        self.of_one_class().count()
    }

    fn of_one_class(&self) -> impl Iterator<Item = &'a [u32]> {
        let small = self.small;
        let is_same = move |a: &u32, b: &u32| (*a <= small) == (*b <= small);
        self.sizes.chunk_by(is_same)
    }
}

/// How often groups and records were split because free space lay in small runs, and what was moved to make longer ones, since the
/// pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placements {
    /// Groups of records that were placed in several extents.
    pub split: u64,
    /// Records that were placed in fragments.
    pub in_fragments: u64,
    /// Records that the movers placed again.
    pub moved: u64,
    /// Bytes of nodes and small records that went to normal vdevs because special ones had no room.
    pub spilled: u64,
    /// The part of them that belongs to no dataset: nodes of the pool's own tree and of deadlists.
    pub spilled_of_pool: u64,
}

/// See the module header.
pub(in crate::owner) struct Allocator {
    space: Space,
    /// Blocks that the current change replaced in a newest layer: no checkpoint and no snapshot holds them.
    replaced: Vec<BlockPtr>,
    /// Blocks that could not be freed, since the pool was opened.
    leaked: u64,
    placements: Placements,
    /// Whether freed space is being trimmed.
    is_trimming: bool,
    maps: Maps,
    /// Relocations and copies of blocks, which are freed with their blocks.
    copies: Arc<Copies>,
    /// Relocated blocks that were freed since the last seal.
    unplaced: Vec<BlockName>,
    /// The same of sealed checkpoints that are not released, by seal.
    leaving: BTreeMap<u64, Vec<BlockName>>,
}

impl Allocator {
    /// Gives out the free sectors of `space`.
    pub(in crate::owner) fn new(space: Space, maps: Maps, copies: Arc<Copies>) -> Self {
        Self {
            space,
            maps,
            copies,
            unplaced: Vec::new(),
            leaving: BTreeMap::new(),
            replaced: Vec::new(),
            leaked: 0,
            placements: Placements::default(),
            is_trimming: false,
        }
    }

    /// What is used and what is free.
    pub(in crate::owner) fn space(&self) -> &Space {
        &self.space
    }

    /// The loading and saving of regions.
    pub(in crate::owner) fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }

    /// The tree that has the bitmaps of regions that are not loaded.
    pub(in crate::owner) fn maps(&self) -> &Maps {
        &self.maps
    }

    /// The tree that has the bitmaps of regions that are not loaded, to change it.
    pub(in crate::owner) fn maps_mut(&mut self) -> &mut Maps {
        &mut self.maps
    }

    /// Sectors were freed that are not used.
    pub(in crate::owner) fn found_leaks(&mut self, sectors: u64) {
        self.leaked += sectors;
    }

    /// Blocks that could not be freed, since the pool was opened.
    pub(in crate::owner) fn leaked(&self) -> u64 {
        self.leaked
    }

    /// How often groups and records were split.
    pub(in crate::owner) fn placements(&self) -> Placements {
        self.placements
    }

    /// A vdev was added.
    pub(in crate::owner) fn add_vdev(&mut self, space: &VdevSpace) {
        self.space.add(space);
    }

    /// A vdev ends at `end` now.
    pub(in crate::owner) fn grow_vdev(&mut self, vdev: VdevId, end: VdevOffset) {
        self.space.grow(vdev, end);
    }

    /// Marks a block used that a batch of the journal points to.
    ///
    /// # Errors
    /// As [`Space::mark_replayed`].
    pub(in crate::owner) fn mark_replayed(&mut self, ptr: &BlockPtr) -> Result<(), Defect> {
        self.space.mark_replayed(ptr.address(), ptr.physical_size)
    }

    /// Frees a block. Its sectors are reusable after the checkpoint that frees it.
    pub(in crate::owner) fn free(&mut self, ptr: &BlockPtr) {
        let relocated = self.copies.relocations().find(ptr);
        let at = relocated.map_or(ptr.address(), |place| place.at);
        let freed = self.space.free(at, ptr.physical_size);
        let freed = freed.and_then(|()| self.free_copies(at, ptr, Space::free));
        if freed.is_ok() && relocated.is_some() {
            self.unplaced.push(BlockName::from(ptr));
        }
        self.count_leak(ptr, freed);
    }

    /// Frees the place that a block had before it was relocated.
    pub(in crate::owner) fn free_old_place(&mut self, at: Address, ptr: &BlockPtr) {
        let freed = self.space.free(at, ptr.physical_size);
        self.count_leak(ptr, freed);
    }

    /// Frees the copy of a block at an address, and the copy of that one if there is one.
    fn free_copies(
        &mut self,
        mut at: Address,
        ptr: &BlockPtr,
        free: impl Fn(&mut Space, Address, u32) -> Result<(), Defect>,
    ) -> Result<(), Defect> {
        while let Some(copy) = self.copies.place_of(at, ptr.physical_size.into()) {
            free(&mut self.space, copy, ptr.physical_size)?;
            at = copy;
        }
        Ok(())
    }

    /// Frees a node of the pool's own tree together with the blocks that `sealed` frees.
    pub(in crate::owner) fn free_with(&mut self, sealed: &Sealed, ptr: &BlockPtr) {
        let freed = self
            .space
            .free_with(sealed, ptr.address(), ptr.physical_size);
        self.count_leak(ptr, freed);
    }

    /// Notes the block that a change replaced in a newest layer, for [`Allocator::free_replaced`].
    pub(in crate::owner) fn note_replaced(&mut self, old: Option<&BlockPtr>) {
        self.replaced.extend(old);
    }

    /// Frees the blocks that a change replaced.
    pub(in crate::owner) fn free_replaced(&mut self) {
        let mut replaced = std::mem::take(&mut self.replaced);
        for ptr in replaced.drain(..) {
            let freed = self.space.free_young(ptr.address(), ptr.physical_size);
            let freed =
                freed.and_then(|()| self.free_copies(ptr.address(), &ptr, Space::free_young));
            self.count_leak(&ptr, freed);
        }
        self.replaced = replaced;
    }

    /// Frees a run of copies, which may reach over the ends of regions of `region` bytes.
    pub(in crate::owner) fn free_run(&mut self, mut at: Address, mut bytes: u64, region: u64) {
        while bytes > 0 {
            let part = bytes.min(region - at.offset.0 % region);
            if let Err(defect) = self.space.free(at, part as u32) {
                self.leaked += 1;
                tracing::error!(%at, %defect, "a copy could not be freed");
            }
            at = at.behind(part as usize);
            bytes -= part;
        }
    }

    fn count_leak(&mut self, ptr: &BlockPtr, freed: Result<(), Defect>) {
        if let Err(defect) = freed {
            self.leaked += 1;
            tracing::error!(at = %ptr.address(), %defect, "a block could not be freed");
        }
    }

    /// A checkpoint begins.
    pub(in crate::owner) fn begin_checkpoint(&mut self) {
        self.space.begin_checkpoint();
    }

    /// The current checkpoint frees no more blocks.
    pub(in crate::owner) fn seal(&mut self) -> Sealed {
        let sealed = self.space.seal();
        let unplaced = std::mem::take(&mut self.unplaced);
        self.leaving.insert(sealed.number(), unplaced);
        sealed
    }

    /// The relocated blocks that a sealed checkpoint frees.
    pub(in crate::owner) fn unplaced(&self, sealed: &Sealed) -> &[BlockName] {
        self.leaving.get(&sealed.number()).map_or(&[], |of| of)
    }

    /// Number of relocated blocks that are not freed.
    pub(in crate::owner) fn relocated(&self) -> usize {
        let leaving: usize = self.leaving.values().map(Vec::len).sum();
        let freed = self.unplaced.len() + leaving;
        self.copies.relocations().len() - freed
    }

    /// Makes the blocks reusable that a durable checkpoint freed. No reader can come to them.
    pub(in crate::owner) fn release(&mut self, sealed: Sealed) {
        let gone = self.leaving.remove(&sealed.number()).unwrap_or_default();
        self.copies.relocations().forget(&gone);
        self.space.release(sealed);
    }

    /// Begins a trim of freed space. False if nothing is due, or if such a trim is under way.
    pub(in crate::owner) fn begin_trimming(&mut self) -> bool {
        let begins = self.space.due().is_some() && !self.is_trimming;
        self.is_trimming |= begins;
        begins
    }

    /// Ends a trim of freed space.
    pub(in crate::owner) fn end_trimming(&mut self) {
        self.is_trimming = false;
    }

    /// Whether freed space is being trimmed.
    pub(in crate::owner) fn is_trimming(&self) -> bool {
        self.is_trimming
    }

    /// Whether freed space is to be trimmed from now on.
    pub(in crate::owner) fn set_autotrim(&mut self, is_on: bool) {
        self.space.keep_freed(is_on);
    }

    /// Takes the free runs of a region out of use while they are trimmed. None if there are none to trim.
    pub(in crate::owner) fn begin_trim(
        &mut self,
        vdev: VdevId,
        region: u32,
        which: Which,
    ) -> Option<Trimming> {
        self.space.begin_trim(vdev, region, which)
    }

    /// The runs of a region are trimmed, and are free again.
    pub(in crate::owner) fn end_trim(&mut self, trimming: Trimming) {
        self.space.trimmed(trimming);
    }

    /// An extent on special vdevs for nodes of at most `want` bytes, a multiple of `least`. `None` if there is no run of `least` bytes.
    pub(in crate::owner) fn allocate_special_nodes(
        &mut self,
        want: u32,
        least: u32,
        kind: BlockKind,
    ) -> Option<(Address, u32)> {
        self.space.allocate_special(want, least, kind)
    }

    /// An extent on normal vdevs for nodes of at most `want` bytes, a multiple of `least`. None if there is no run of `least` bytes.
    pub(in crate::owner) fn allocate_nodes(
        &mut self,
        want: u32,
        least: u32,
        kind: BlockKind,
    ) -> Option<(Address, u32)> {
        let found = self.space.allocate(want, least, kind);
        if found.is_some() || !self.space.open_regions() {
            return found;
        }
        self.space.allocate(want, least, kind)
    }

    /// A place for the first of the records of `sizes` bytes, which are whole sectors and lie one behind the other; or
    /// fragments of the first record, which has `len` bytes uncompressed. Records of at most `small` bytes are on special vdevs as far as
    /// these have room. None if there is no free space for it.
    pub(in crate::owner) fn place(
        &mut self,
        (sizes, small): (&[u32], u32),
        len: u32,
        space: BlockSpace,
    ) -> Option<Placement> {
        let sizes = self.sized(sizes, small);
        let placed = self.place_in_open(sizes, len, space);
        if placed.is_some() || !self.space.open_regions() {
            return placed;
        }
        self.place_in_open(sizes, len, space)
    }

    fn place_in_open(&mut self, sizes: Sizes, len: u32, space: BlockSpace) -> Option<Placement> {
        let usual = self.place_from(Source::Allocatable, sizes, len, space);
        usual.or_else(|| self.place_from(Source::Reserve, sizes.first_one()?, len, space))
    }

    /// The sizes of records, of which those of at most `small` bytes are for special vdevs, if there are some.
    fn sized<'a>(&self, sizes: &'a [u32], small: u32) -> Sizes<'a> {
        let small = if self.space.has_special() { small } else { 0 };
        Sizes { sizes, small }
    }

    /// Extents for the first records of a group of a mover, and the number of records in each. Empty if none fits as a
    /// whole. Records of at most `small` bytes are on special vdevs as far as these have room.
    pub(in crate::owner) fn place_moved(
        &mut self,
        (sizes, small): (&[u32], u32),
        targets: Targets,
    ) -> Vec<(Address, usize)> {
        let sizes = self.sized(sizes, small);
        self.place_whole(Source::Movable(targets), sizes)
    }

    /// Counts bytes of nodes and records that went to normal vdevs because special ones had no room.
    pub(in crate::owner) fn count_spilled(&mut self, bytes: u64) {
        self.placements.spilled += bytes;
    }

    /// The same of nodes that belong to no dataset.
    pub(in crate::owner) fn count_spilled_of_pool(&mut self, bytes: u64) {
        self.placements.spilled_of_pool += bytes;
        self.count_spilled(bytes);
    }

    /// Counts records of a mover that got extents.
    pub(in crate::owner) fn count_moved(&mut self, records: u64) {
        self.placements.moved += records;
    }

    fn place_from(
        &mut self,
        source: Source,
        sizes: Sizes,
        len: u32,
        space: BlockSpace,
    ) -> Option<Placement> {
        let whole = self.place_whole(source, sizes);
        if !whole.is_empty() {
            let is_split = whole.len() > 1 && whole.len() > sizes.runs();
            self.placements.split += u64::from(is_split);
            return Some(Placement::Whole(whole));
        }
        if self.space.is_short() {
            return Some(Placement::NotLoaded);
        }
        let fragments = self.place_fragments(source, len, space);
        if fragments.is_none() && self.space.is_short() {
            return Some(Placement::NotLoaded);
        }
        let fragments = fragments?;
        self.placements.in_fragments += 1;
        Some(Placement::Fragments(fragments))
    }

    fn allocate(&mut self, source: Source, want: u32, least: u32) -> Option<(Address, u32)> {
        match source {
            Source::Allocatable => self.space.allocate(want, least, BlockKind::Data),
            Source::Reserve => self.space.allocate_promised(want, least),
            Source::Movable(targets) => self.space.allocate_moved(want, least, targets),
        }
    }

    fn place_whole(&mut self, source: Source, mut sizes: Sizes) -> Vec<(Address, usize)> {
        let mut extents = Vec::new();
        while extents.len() < EXTENTS_MAX
            && let Some((at, count)) = self.place_next(source, sizes)
        {
            extents.push((at, count));
            sizes.sizes = &sizes.sizes[count..];
        }
        extents
    }

    fn place_next(&mut self, source: Source, sizes: Sizes) -> Option<(Address, usize)> {
        let run = sizes.first_run();
        let first = *run.first()?;
        // a multiple of the first record's size, so that the first record fits; the surplus goes back
        let want = run.iter().sum::<u32>().next_multiple_of(first);
        let special = match sizes.is_small(first) {
            true => self.space.allocate_special(want, first, BlockKind::Data),
            false => None,
        };
        let (at, got) = special.or_else(|| self.allocate(source, want, first))?;
        let (mut used, mut count) = (0, 0);
        for size in run {
            if used + size > got {
                break;
            }
            used += size;
            count += 1;
        }
        let end = VdevOffset(at.offset.0 + u64::from(used));
        self.space
            .give_back(Address { offset: end, ..at }, got - used);
        Some((at, count))
    }

    fn place_fragments(
        &mut self,
        source: Source,
        len: u32,
        space: BlockSpace,
    ) -> Option<Vec<(Address, u32)>> {
        let least = space.of((len / FRAGMENTS_MAX).max(1));
        let mut left = space.of(len);
        let mut fragments = Vec::new();
        while left > 0 {
            let found = self.allocate(source, left, least.min(left));
            let Some((at, got)) = found else {
                self.give_back(&fragments);
                return None;
            };
            fragments.push((at, got));
            left -= got;
        }
        Some(fragments)
    }

    /// Takes back fragments, or ends of extents, to which nothing was written.
    pub(in crate::owner) fn give_back(&mut self, fragments: &[(Address, u32)]) {
        for (at, bytes) in fragments {
            self.space.give_back(*at, *bytes);
        }
    }
}
