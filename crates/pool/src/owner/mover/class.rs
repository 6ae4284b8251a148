//! Class mover: nodes and small records on normal vdevs move to special vdevs with room for them, and larger records leave special vdevs.
//!
//! The special class may come later than the data, a dataset's threshold may change, and a class without room lets nodes and records go to
//! normal vdevs. The mover walks the trees of all datasets once, and writes the records again that belong to the other class. Then sweeps
//! over all trees relocate blocks whose pointers cannot change: records above the threshold first, then nodes and small records.
//!
//! **Owns** when a walk begins, and its steps. **Called by** the mover's task, one part at a time. **Invariants**: a record that finds no
//! room in the other class stays where it is; a walk begins only if the class had something to move, and a walk that moved little is
//! not repeated soon; while a vdev is being removed, no walk begins. `docs/decisions/0185`.

use std::rc::Rc;
use std::time::Duration;

use super::held::LeftBehind;
use super::parts::{PartEnd, rests};
use super::state::Moves;
use super::walk::Chosen;
use super::walks::{ClassReason, ClassWalk};
use super::work::GAIN_PART;
use crate::Result;
use crate::format::FEATURE_MOVED_BLOCKS;
use crate::owner::Owner;

/// The time between two walks because of room, if the first moved enough. It doubles with each walk that did not.
const REST: Duration = Duration::from_secs(60);
/// Longest time between two walks because of room.
const REST_MAX: Duration = Duration::from_secs(3600);

impl Owner {
    /// Asks for a walk as soon as it may begin.
    pub(in crate::owner) fn ask_for_class(&self, reason: ClassReason) {
        self.mover.class.asked.set(Some(reason));
    }

    /// Asks for a walk if many blocks are in the other class. Called at the opening: an earlier walk may not have ended.
    pub(in crate::owner) fn look_at_class(&self) {
        let state = self.state.borrow();
        let class = &self.mover.class;
        class.seen_changes.set(state.datasets.small_changes());
        if state.has_blocks_of_other_class() {
            class.asked.set(Some(ClassReason::Opened));
        }
    }

    /// Whether a walk is in progress, or should begin.
    pub(super) fn needs_class(&self) -> bool {
        self.mover.class.walk.borrow().is_some() || self.class_reason().is_some()
    }

    /// Why a walk should begin now.
    fn class_reason(&self) -> Option<ClassReason> {
        let class = &self.mover.class;
        let state = self.state.borrow();
        let space = state.allocator.space();
        let changes = state.datasets.small_changes();
        let spilled = state.allocator.placements().spilled;
        let reason = match class.asked.get() {
            Some(reason) => reason,
            None if changes > class.seen_changes.get() => ClassReason::Threshold,
            None if class.lacked_room.get() || spilled > class.seen_spilled.get() => {
                ClassReason::Room
            }
            None => return None,
        };
        let is_early = reason == ClassReason::Room && rests(class.rests_until.get());
        if is_early || !space.has_special() || state.leaving().is_some() {
            return None;
        }
        // records that leave the class need no room in it
        (space.has_much_special() || reason.has_leavers()).then_some(reason)
    }

    /// Moves the blocks of the next part of a walk, and rests.
    ///
    /// # Errors
    /// Those of a checkpoint, and of reads other than damage. The walk ends.
    pub(super) async fn class_next_part(self: &Rc<Self>) -> Result<()> {
        let class = &self.mover.class;
        let walk = class.walk.take();
        let walk = match walk {
            Some(walk) => Some(walk),
            None => self.begin_class().await?,
        };
        let Some(mut walk) = walk else {
            return Ok(());
        };
        let end = match walk.sweep {
            None => self.move_records_of_class(&mut walk).await?,
            Some(_) => self.relocate_for_class(&mut walk).await?,
        };
        match end {
            PartEnd::More => drop(class.walk.replace(Some(walk))),
            PartEnd::Done | PartEnd::NoSpace => self.end_class(&walk).await?,
            // a vdev is being removed, or the pool closes
            PartEnd::Stopped => self.ask_for_class(walk.reason),
        }
        Ok(())
    }

    /// Moves the records of the next part. Behind the last part, the blocks come that cannot be written again.
    async fn move_records_of_class(self: &Rc<Self>, walk: &mut ClassWalk) -> Result<PartEnd> {
        let chosen = Chosen::Class { fills: walk.fills };
        let end = self.step(&mut walk.position, chosen, Moves::Class).await?;
        match end {
            PartEnd::NoSpace if walk.fills => {
                // the records that leave are looked for once more
                walk.fills = false;
                walk.lacks_room = true;
                if !walk.reason.has_leavers() {
                    return self.begin_class_sweep(walk, false).await;
                }
                walk.position = self.begin_walk();
                Ok(PartEnd::More)
            }
            PartEnd::Done | PartEnd::NoSpace => {
                let leaves = walk.reason.has_leavers();
                self.begin_class_sweep(walk, leaves).await
            }
            PartEnd::More | PartEnd::Stopped => Ok(end),
        }
    }

    async fn relocate_for_class(self: &Rc<Self>, walk: &mut ClassWalk) -> Result<PartEnd> {
        let left_behind = match walk.leaves {
            true => LeftBehind::LargeOnSpecial,
            false => LeftBehind::SmallOnNormal,
        };
        let end = self.relocate_next_part(&mut walk.sweep, left_behind);
        match end.await? {
            PartEnd::Done | PartEnd::NoSpace if walk.leaves => {
                self.begin_class_sweep(walk, false).await
            }
            PartEnd::NoSpace => {
                walk.lacks_room = true;
                Ok(PartEnd::NoSpace)
            }
            other => Ok(other),
        }
    }

    /// Begins a sweep, when the blocks that were moved until now have left their places.
    async fn begin_class_sweep(
        self: &Rc<Self>,
        walk: &mut ClassWalk,
        leaves: bool,
    ) -> Result<PartEnd> {
        self.free_moved().await?;
        walk.leaves = leaves;
        walk.sweep = self.begin_sweep().await?;
        Ok(match walk.sweep {
            Some(_) => PartEnd::More,
            None => PartEnd::Stopped,
        })
    }

    /// The begin of a walk. `None` if there is no reason left.
    async fn begin_class(&self) -> Result<Option<ClassWalk>> {
        self.shared.vdevs.require(FEATURE_MOVED_BLOCKS).await?;
        let class = &self.mover.class;
        let Some(reason) = self.class_reason() else {
            return Ok(None);
        };
        let state = self.state.borrow();
        let allocator = &state.allocator;
        class.asked.set(None);
        class.reason.set(Some(reason));
        class.walks.set(class.walks.get() + 1);
        class.seen_changes.set(state.datasets.small_changes());
        class.seen_spilled.set(allocator.placements().spilled);
        let fills = allocator.space().has_much_special();
        // also if the walk ends with an error
        class.lacked_room.set(true);
        self.rest_of_class(false);
        drop(state);
        Ok(Some(ClassWalk {
            reason,
            position: self.begin_walk(),
            fills,
            lacks_room: !fills,
            sweep: None,
            leaves: false,
            moved_before: class.moved.get(),
        }))
    }

    /// Notes when the next walk because of room may begin. `has_moved` if a walk moved enough.
    fn rest_of_class(&self, has_moved: bool) {
        let class = &self.mover.class;
        let rest = match (has_moved, class.rest.get()) {
            (true, _) | (false, None) => REST,
            (false, Some(last)) => (last * 2).min(REST_MAX),
        };
        class.rest.set(Some(rest));
        class.rests_until.set(Some(io::time::now() + rest));
    }

    /// Frees the old blocks, and notes whether the class had room.
    async fn end_class(self: &Rc<Self>, walk: &ClassWalk) -> Result<()> {
        self.free_moved().await?;
        let class = &self.mover.class;
        let moved = class.moved.get() - walk.moved_before;
        let state = self.state.borrow();
        let space = state.allocator.space();
        let lacks_room = walk.lacks_room || !space.takes_small_records();
        class.lacked_room.set(lacks_room && space.has_special());
        let size = space.special_space().unwrap_or_default().size;
        if moved > size / GAIN_PART {
            self.rest_of_class(true);
        }
        tracing::debug!(reason = ?walk.reason, moved, "a walk of the class mover");
        Ok(())
    }

    /// Why blocks are moved between the classes now. `None` if none are.
    pub(in crate::owner) fn class_moves(&self) -> Option<ClassReason> {
        let class = &self.mover.class;
        let waits = class.walk.borrow().as_ref().map(|walk| walk.reason);
        let is_moving = self.mover.moves.get() == Some(Moves::Class);
        waits.or(class.reason.get().filter(|_| is_moving))
    }

    /// Bytes that were moved between the classes since the pool was opened.
    pub(in crate::owner) fn moved_between_classes(&self) -> u64 {
        self.mover.class.moved.get()
    }

    /// Walks since the pool was opened.
    pub(in crate::owner) fn class_walks(&self) -> u64 {
        self.mover.class.walks.get()
    }

    /// Whether blocks stay in the other class because the special class has no room.
    pub(in crate::owner) fn lacks_special_room(&self) -> bool {
        self.mover.class.lacked_room.get()
    }
}
