//! Expansion of a raidz: moves all rows of a vdev into rows that are one unit wider, in the background.
//!
//! The expander goes through a vdev by windows of regions. It takes the free space of a window out of use, writes a checkpoint, and has
//! the rows moved whose contents count. Then the regions have wide rows, and their free space is given out again.
//!
//! **Owns** the choice of windows, and the search for the blocks of rows that are not valid. **Called by** the owner's tick; people begin
//! an expansion by [`Pool::expand`]. **Invariants**: no extent of a window is being written when its rows are moved, and no batch
//! that replay needs points into it; regions change their rows while no checkpoint is being written; it moves nothing while a
//! member is not in or is being resilvered. `docs/decisions/0166`.

use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use io::disk::Disk;
use io::time::now;

use super::state::{Course, Expanding, ExpansionWait};
use crate::format::{Address, MemberGuid, VdevId, resilver_key};
use crate::owner::capacity::space_maps::LoadedRegions;
use crate::owner::half_pace::HalfPace;
use crate::owner::pool_tree::Changes;
use crate::owner::sweep::scrub_rows::{FoundBlock, of_row};
use crate::owner::{Owner, POLL, Pool, State};
use crate::shared::DESTROYED;
use crate::space::KEPT;
use crate::vdev::{MoveStep, Moving, PlacedBlock, RowsToMove, SetupError, Vdevs};
use crate::{Error, Result};

/// Regions with used sectors in one window, at most.
const REGIONS_MAX: usize = 16;
/// A window takes at most this part of the free space, if it can.
const FREE_PART: u64 = 4;
/// Searches for the blocks of rows that are not valid, before the found ones must do: freed sectors belong to no block that a
/// search finds until a checkpoint has released them.
const SEARCHES_MAX: usize = 3;

impl State {
    /// The regions of the next window. `None` if there is too little free space.
    fn next_window(&self, vdev: VdevId, vdevs: &Vdevs) -> Option<Range<u32>> {
        let space = self.allocator.space();
        let transit = space.transit(vdev)?;
        let regions = space.regions(vdev)?;
        let left = self.shared.budget.left();
        let (mut taken, mut used) = (0, 0);
        let mut end = transit.start;
        while end < regions {
            let is_used = end < space.fresh(vdev);
            let free = space.free_in(vdev, end);
            let is_full = taken + free > left / FREE_PART || is_used && used == REGIONS_MAX;
            if end >= transit.end && is_full {
                let at = space.address_of(vdev, end);
                let is_far = end > transit.start && vdevs.position_below(vdev, at).is_some();
                if is_far {
                    break;
                }
                // the least that helps may take more
                if taken + free > left / 4 * 3 {
                    return None;
                }
            }
            taken += free;
            used += usize::from(is_used);
            end += 1;
        }
        Some(transit.start..end)
    }

    /// Has the allocator know the rows of a vdev as they are now. No checkpoint is being written.
    fn know_rows(&mut self, vdev: VdevId) {
        let vdevs = self.shared.vdevs.clone();
        if let Some(info) = vdevs.table().get(usize::from(vdev.0)) {
            self.allocator.space_mut().set_rows(info);
            self.shared.budget.set_extents(vdevs.extent_space());
            self.supply_budget();
        }
    }
}

impl Owner {
    /// Starts the expander if there is something to expand, unless it works already. Called once a second.
    pub(in crate::owner) fn wake_expander(self: &Rc<Self>) {
        let is_idle = self.may_expand() && !self.expander.is_running.get();
        if !is_idle || self.shared.vdevs.expanding().is_empty() {
            return;
        }
        self.expander.is_running.set(true);
        let this = self.clone();
        drop(io::spawn(async move {
            for vdev in this.shared.vdevs.expanding() {
                this.expand_on(vdev).await;
            }
            this.expander.is_running.set(false);
        }));
    }

    /// Moves window after window, until the expansion ends or has to wait.
    async fn expand_on(self: &Rc<Self>, vdev: VdevId) {
        let expander = &self.expander;
        while self.may_expand()
            && let Some(status) = self.shared.vdevs.expansion(vdev)
        {
            let course = |change: &dyn Fn(&mut Course)| {
                let mut courses = expander.courses.borrow_mut();
                let first = Course {
                    began_at: status.done,
                    ..Course::default()
                };
                change(courses.entry(vdev).or_insert(first));
            };
            let began = now();
            let step = self.expand_window(vdev).await;
            let waits_for = step.unwrap_or_else(|error| {
                tracing::warn!(vdev = vdev.0, %error, "a step of an expansion failed");
                Some(ExpansionWait::Failed)
            });
            course(&|course| {
                course.active += began.elapsed();
                course.waits_for = waits_for;
            });
            if waits_for.is_some() {
                return;
            }
        }
        if self.shared.vdevs.expansion(vdev).is_none() {
            expander.courses.borrow_mut().remove(&vdev);
        }
    }

    fn may_expand(&self) -> bool {
        !self.expander.is_ended.get()
            && !self.shared.vdevs.is_read_only()
            && self.shared.trouble().is_none()
    }

    /// Keeps the expander from further steps, and waits until it has ended the present one.
    pub(in crate::owner) async fn end_expander(&self) {
        self.expander.is_ended.set(true);
        while self.expander.is_running.get() && !self.shared.has_failed() {
            io::time::sleep(POLL).await;
        }
    }

    /// Loads these regions in the background: their summaries count other rows than there are.
    pub(in crate::owner) fn load_doubted(self: &Rc<Self>, regions: Vec<(VdevId, u32)>) {
        if regions.is_empty() {
            return;
        }
        let this = self.clone();
        drop(io::spawn(async move {
            for some in regions.chunks(REGIONS_MAX) {
                // a bitmap that cannot be read is reported, and its region is not used
                let _reported = this.load_regions(some).await.err();
                this.state.borrow().supply_budget();
            }
        }));
    }

    /// Moves the rows of one window. Returns the reason why it did not, or not to its end; `None` if it did, or if the vdev is not being
    /// expanded any more.
    async fn expand_window(self: &Rc<Self>, vdev: VdevId) -> Result<Option<ExpansionWait>> {
        let vdevs = &self.shared.vdevs;
        if !vdevs.are_all_in(vdev) {
            return Ok(Some(ExpansionWait::Member));
        }
        let Some(moving) = vdevs.begin_moving(vdev) else {
            let has_ended = vdevs.expansion(vdev).is_none();
            return Ok((!has_ended).then_some(ExpansionWait::Repair));
        };
        self.forget_resilver_positions(vdev).await?;
        if !self.expander.has_checkpoints.get() {
            // the allocator learns what they free
            for _ in 0..KEPT {
                self.write_checkpoint().await?;
            }
            self.expander.has_checkpoints.set(true);
        }
        let Some((window, loaded)) = self.begin_window(vdev).await? else {
            return Ok(Some(ExpansionWait::Space));
        };
        // every extent of the window is written then, and no batch behind it points there
        self.write_checkpoint().await?;
        while self.state.borrow().allocator.space().is_trimming() {
            io::time::sleep(POLL).await;
        }
        let moved = self.move_window(vdev, &moving, &window).await;
        // regions change their rows between two checkpoints
        let pause = self.pause().await;
        let is_moved = vdevs.end_expansion_if_moved(vdev, &moving).await;
        self.state.borrow_mut().know_rows(vdev);
        drop(pause);
        drop(loaded);
        if is_moved? {
            // summaries count wide rows from now on
            self.write_checkpoint().await?;
        }
        moved
    }

    /// Positions of earlier resilvers say nothing about rows that are moved.
    async fn forget_resilver_positions(&self, vdev: VdevId) -> Result<()> {
        let vdevs = self.shared.vdevs.status();
        let members = vdevs.iter().filter(|v| v.id == vdev);
        let members: Vec<MemberGuid> = members.flat_map(|v| &v.members).map(|m| m.guid).collect();
        let noted = |state: &State| -> Changes {
            let noted = state.pool_tree.resilvers().keys();
            let own = noted.filter(|member| members.contains(member));
            own.map(|member| (resilver_key(*member), None)).collect()
        };
        if noted(&self.state.borrow()).is_empty() {
            return Ok(());
        }
        let forget = |state: &mut State| {
            let changes = noted(state);
            Ok(((), state.change(Vec::new(), changes)?))
        };
        self.change_durably(forget).await
    }

    /// Takes the next window out of use. Its regions that may have used sectors stay loaded. `None` if there is too little free space.
    async fn begin_window(
        self: &Rc<Self>,
        vdev: VdevId,
    ) -> Result<Option<(Range<u32>, LoadedRegions)>> {
        loop {
            let next = self.state.borrow().next_window(vdev, &self.shared.vdevs);
            let Some(window) = next else { return Ok(None) };
            let used = |state: &State| {
                let fresh = state.allocator.space().fresh(vdev);
                window.start..window.end.min(fresh.max(window.start))
            };
            let regions = used(&self.state.borrow());
            let all: Vec<_> = regions.clone().map(|region| (vdev, region)).collect();
            let loaded = self.load_regions(&all).await?;
            let mut state = self.state.borrow_mut();
            let is_same = state.next_window(vdev, &self.shared.vdevs) == Some(window.clone());
            if is_same && used(&state) == regions {
                state.allocator.space_mut().begin_transit(vdev, window.end);
                state.supply_budget();
                return Ok(Some((window, loaded)));
            }
        }
    }

    /// Moves the rows of a window that is out of use.
    async fn move_window(
        self: &Rc<Self>,
        vdev: VdevId,
        moving: &Moving,
        window: &Range<u32>,
    ) -> Result<Option<ExpansionWait>> {
        let vdevs = self.shared.vdevs.clone();
        let mut task = {
            let state = self.state.borrow();
            let space = state.allocator.space();
            let info = vdevs.table()[usize::from(vdev.0)];
            let in_place = info.narrow.map_or(0, |narrow| narrow.in_place.0);
            let start = space.address_of(vdev, window.start);
            // the last row before the window, which is not wide yet
            let before = (in_place < start).then_some(in_place..start);
            let kept = window
                .clone()
                .flat_map(|region| space.kept_in(vdev, region));
            let end = vdevs.position_below(vdev, space.address_of(vdev, window.end));
            RowsToMove {
                end: end.ok_or(Error::Device)?,
                kept: before.into_iter().chain(kept).collect(),
                ..RowsToMove::default()
            }
        };
        let pace = HalfPace::new(self);
        loop {
            if !self.may_expand() {
                return Ok(Some(ExpansionWait::Failed));
            }
            if !vdevs.are_all_in(vdev) {
                return Ok(Some(ExpansionWait::Member));
            }
            let rest = async || pace.rest(true).await;
            match vdevs.move_rows(vdev, moving, &task, &rest).await? {
                MoveStep::Moved => {}
                MoveStep::Ended => return Ok(None),
                MoveStep::Doubtful(rows) => self.look_into(rows, &mut task).await?,
            }
        }
    }

    /// Repairs rows that are not valid by the checksums of their blocks, as far as this is possible, and notes the rows and their
    /// blocks for the move.
    async fn look_into(self: &Rc<Self>, rows: Vec<Address>, task: &mut RowsToMove) -> Result<()> {
        let vdevs = self.shared.vdevs.clone();
        let regions: BTreeSet<(VdevId, u32)> = {
            let state = self.state.borrow();
            let space = state.allocator.space();
            let units = rows.iter().flat_map(|row| vdevs.units_of_row(*row));
            units.filter_map(|unit| space.region_of(unit)).collect()
        };
        let regions: Vec<_> = regions.into_iter().collect();
        let _loaded = self.load_regions(&regions).await?;
        let is_used = |row: &Address| {
            let state = self.state.borrow();
            let space = state.allocator.space();
            vdevs
                .units_of_row(*row)
                .any(|unit| space.is_used(unit) == Some(true))
        };
        let used: BTreeSet<Address> = rows.iter().copied().filter(is_used).collect();
        for _ in 0..SEARCHES_MAX {
            if used.is_empty() {
                break;
            }
            self.write_checkpoint().await?;
            let blocks = self.blocks_of_rows(&used).await?;
            let mut are_known = true;
            for FoundBlock { placed, tree, lost } in blocks.values() {
                match vdevs.scrub_placed(placed).await {
                    Ok(_) => {}
                    Err(e @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                        if *tree != DESTROYED {
                            self.shared.lost.note(&e, *lost);
                        }
                    }
                    Err(other) => return Err(other),
                }
            }
            for row in &used {
                let of_row = of_row(&vdevs, *row, &blocks);
                match self.has_all(*row, &of_row) {
                    true => {
                        let of_row: Vec<PlacedBlock> = of_row.into_values().collect();
                        vdevs.mend_row(*row, &of_row).await;
                    }
                    false => are_known = false,
                }
            }
            task.blocks = blocks.into_values().map(|found| found.placed).collect();
            if are_known {
                break;
            }
        }
        task.known.extend(rows.iter().map(|row| row.offset.0));
        Ok(())
    }
}

impl Pool {
    /// Expands a raidz by a disk: the disk is a member when this returns, and all rows are moved in the background, also after a restart.
    /// The vdev has its new capacity when all are moved.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::expand`].
    pub async fn expand(
        &self,
        vdev: VdevId,
        disk: Disk,
        force: bool,
    ) -> std::result::Result<MemberGuid, SetupError> {
        let leaving = self.owner.state.borrow().leaving();
        if leaving.is_some_and(|(leaving, _)| leaving == vdev) {
            return Err(SetupError::Removing { vdev });
        }
        let pause = self.owner.pause().await;
        let was_expanding = self.vdevs().expansion(vdev).is_some();
        let joined = self.vdevs().expand(vdev, disk, force).await;
        if !was_expanding && self.vdevs().expansion(vdev).is_some() {
            self.owner.state.borrow_mut().know_rows(vdev);
        }
        drop(pause);
        self.owner.wake_expander();
        joined
    }

    /// The expansions in progress.
    #[must_use]
    pub fn expanding(&self) -> Vec<Expanding> {
        let (vdevs, expander) = (self.vdevs(), &self.owner.expander);
        let of_vdev = |vdev: VdevId| {
            let status = vdevs.expansion(vdev)?;
            let known = expander.courses.borrow().get(&vdev).copied();
            let course = known.unwrap_or(Course {
                began_at: status.done,
                ..Course::default()
            });
            Some(Expanding {
                vdev,
                status,
                waits_for: course.waits_for,
                began_at: course.began_at,
                active: course.active,
            })
        };
        vdevs.expanding().into_iter().filter_map(of_vdev).collect()
    }
}
