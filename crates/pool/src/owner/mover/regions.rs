//! Region mover: records of sparse regions of mirrors are written again elsewhere, so that whole regions become free.
//!
//! Overwrites and deletions leave free space in short runs. Large records then go into fragments, and groups into many places. The mover
//! closes the emptiest regions, so that nothing is given out there, walks the trees of all datasets, and moves the records that lie in
//! them; they fill short runs elsewhere. Blocks that stay, because their pointers cannot change, are relocated. The next checkpoint
//! frees the regions.
//!
//! **Owns** the choice of regions, and the steps of a walk. **Called by** the mover's task, one part at a time. **Invariants**: regions
//! are closed only during a walk, and are opened before a write is refused because of them; nothing is moved unless records went into
//! fragments; regions that a walk could not empty are left alone for an hour.
//! `docs/decisions/0179`, `docs/decisions/0182`.

use std::rc::Rc;
use std::time::Duration;

use super::held::LeftBehind;
use super::parts::{PartEnd, rests};
use super::state::Moves;
use super::walk::Chosen;
use super::walks::RegionWalk;
use crate::Result;
use crate::format::FEATURE_MOVED_BLOCKS;
use crate::owner::{Owner, Pool};
use crate::space::SparseRegion;

/// Regions that a walk empties at most: 2 GiB with sectors of 4 KiB.
const REGIONS_MAX: usize = 64;
/// Fuller regions are not emptied: for each byte that becomes free in a row, more than three would be written.
const USED_MAX: (u64, u64) = (3, 4);
/// The part of the free bytes for moves that a walk plans to take.
const PLANNED: (u64, u64) = (1, 2);
/// The time after which regions that stayed full are tried again.
const RETRY: Duration = Duration::from_secs(3600);
/// The time between two walks, if the first had nothing to empty.
const REST: Duration = Duration::from_secs(60);

/// The state of the region mover, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegionMoves {
    /// Whether a walk is in progress.
    pub is_moving: bool,
    /// Bytes of blocks, in whole sectors, that were moved since the pool was opened.
    pub moved: u64,
    /// The part of them whose pointers stay as they are: snapshots hold them, or they are nodes, or fragments of records.
    pub relocated: u64,
    /// Relocated blocks that the pool has.
    pub relocations: u64,
    /// Whether the last walk left blocks alone because the pool has as many relocated blocks as it may have.
    pub is_full: bool,
    /// Regions that became free as a whole by it.
    pub emptied: u64,
    /// Records that were stored in fragments since the pool was opened, because no run was long enough.
    pub in_fragments: u64,
    /// Whether the last walk found no region that is worth it: all are more than three quarters full, or did not become free lately.
    pub has_none: bool,
}

impl Owner {
    /// Whether a walk is in progress, or records went into fragments since the last one.
    pub(super) fn needs_regions(&self) -> bool {
        let regions = &self.mover.regions;
        if regions.walk.borrow().is_some() || regions.is_asked.get() {
            return true;
        }
        !rests(regions.rests_until.get()) && self.in_fragments() > regions.seen.get()
    }

    fn in_fragments(&self) -> u64 {
        self.state.borrow().allocator.placements().in_fragments
    }

    /// Moves the records of the next part of a walk, and rests.
    ///
    /// # Errors
    /// Those of a checkpoint, and of reads other than damage. The walk ends.
    pub(super) async fn empty_next_part(self: &Rc<Self>) -> Result<()> {
        let walk = self.mover.regions.walk.take();
        let walk = match walk {
            Some(walk) => Some(walk),
            None => self.begin_emptying().await?,
        };
        let Some(mut walk) = walk else {
            return Ok(());
        };
        let step = match walk.sweep {
            None => self.move_records_of(&mut walk).await,
            Some(_) => {
                let left = LeftBehind::Regions(&walk.chosen);
                self.relocate_next_part(&mut walk.sweep, left).await
            }
        };
        let is_open = !self.state.borrow().allocator.space().has_closed_regions();
        match step {
            Ok(PartEnd::More) if !is_open => drop(self.mover.regions.walk.replace(Some(walk))),
            Ok(PartEnd::More | PartEnd::Done | PartEnd::NoSpace) => {
                return self.end_emptying(&walk).await;
            }
            Ok(PartEnd::Stopped) => self.open_regions(),
            Err(error) => {
                self.open_regions();
                return Err(error);
            }
        }
        Ok(())
    }

    /// Moves the records of the next part, and rests. Behind the last part, the blocks come that they left.
    async fn move_records_of(self: &Rc<Self>, walk: &mut RegionWalk) -> Result<PartEnd> {
        let chosen = Chosen::Regions(&walk.chosen);
        let end = self
            .step(&mut walk.position, chosen, Moves::Regions)
            .await?;
        match end {
            PartEnd::Done | PartEnd::NoSpace if self.begin_relocating(walk).await? => {
                Ok(PartEnd::More)
            }
            other => Ok(other),
        }
    }

    fn open_regions(&self) {
        let mut state = self.state.borrow_mut();
        let _any = state.allocator.space_mut().open_regions();
    }

    /// Chooses regions, and closes them. `None` if there are none.
    async fn begin_emptying(&self) -> Result<Option<RegionWalk>> {
        self.shared.vdevs.require(FEATURE_MOVED_BLOCKS).await?;
        let mover = &self.mover.regions;
        mover.seen.set(self.in_fragments());
        let regions = self.choose_regions(mover.is_asked.replace(false));
        let rest = regions.is_empty().then(|| io::time::now() + REST);
        mover.rests_until.set(rest);
        if regions.is_empty() {
            return Ok(None);
        }
        let mut state = self.state.borrow_mut();
        state.allocator.space_mut().close_regions(&regions);
        drop(state);
        Ok(Some(RegionWalk {
            chosen: regions.iter().map(|of| (of.vdev, of.region)).collect(),
            regions,
            position: self.begin_walk(),
            sweep: None,
        }))
    }

    /// The emptiest regions, whose records fit into the free space of the others. If a walk was asked for, also regions that are fuller,
    /// or did not become free lately.
    fn choose_regions(&self, is_asked: bool) -> Vec<SparseRegion> {
        let now = io::time::now();
        let mut stuck = self.mover.regions.stuck.borrow_mut();
        stuck.retain(|_, until| now < *until && !is_asked);
        let state = self.state.borrow();
        let space = state.allocator.space();
        let budget = self.shared.budget.left_for_moves(space.movable());
        let mut chosen: Vec<SparseRegion> = Vec::new();
        let (mut used, mut free) = (0, 0);
        for of in space.sparse_regions() {
            let is_worth = of.used * USED_MAX.1 <= (of.used + of.free) * USED_MAX.0;
            if !(is_worth || is_asked) || chosen.len() == REGIONS_MAX {
                break;
            }
            if stuck.contains_key(&(of.vdev, of.region)) {
                continue;
            }
            let elsewhere = budget.saturating_sub(free + of.free);
            if used + of.used > elsewhere / PLANNED.1 * PLANNED.0 {
                break;
            }
            used += of.used;
            free += of.free;
            chosen.push(of);
        }
        chosen
    }

    /// Frees the old blocks, opens the regions, and remembers the regions that stayed full.
    async fn end_emptying(self: &Rc<Self>, walk: &RegionWalk) -> Result<()> {
        let freed = self.free_moved().await;
        let mut state = self.state.borrow_mut();
        let space = state.allocator.space_mut();
        let mover = &self.mover.regions;
        for of in &walk.regions {
            let left = space.used_in(of.vdev, of.region);
            if left == 0 {
                mover.emptied.set(mover.emptied.get() + 1);
            } else if left > of.used / 2 {
                let until = io::time::now() + RETRY;
                let mut stuck = mover.stuck.borrow_mut();
                stuck.insert((of.vdev, of.region), until);
            }
        }
        space.open_regions();
        tracing::debug!(
            regions = walk.regions.len(),
            emptied = mover.emptied.get(),
            "a walk of the region mover"
        );
        freed
    }
}

impl Pool {
    /// Asks for a walk of the region mover. It empties the emptiest regions whose blocks fit elsewhere, however full these are.
    pub fn empty_regions(&self) {
        self.owner.mover.regions.is_asked.set(true);
        self.owner.wake_mover();
    }

    /// The state of the region mover.
    #[must_use]
    pub fn region_moves(&self) -> RegionMoves {
        let regions = &self.owner.mover.regions;
        let is_moving = self.owner.mover.moves.get() == Some(Moves::Regions)
            || regions.walk.borrow().is_some()
            || regions.is_asked.get();
        RegionMoves {
            is_moving,
            moved: regions.moved.get(),
            relocated: regions.relocated.get(),
            relocations: self.owner.state.borrow().allocator.relocated() as u64,
            is_full: regions.is_full.get(),
            emptied: regions.emptied.get(),
            in_fragments: self.owner.in_fragments(),
            has_none: regions.rests_until.get().is_some(),
        }
    }
}
