//! One walk of the row mover, and the steps that it shares with the other movers.
//!
//! **Owns** the walk over the trees of all volumes and filesystems, and the judgement of its gain. **Called by** the mover's task.
//! **Invariants**: a reader is registered only while nodes and records are read, so that freed space becomes reusable; blocks that a
//! snapshot holds are passed over, with all below an old node; a damaged node or record is passed over and noted.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io::sync::oneshot;

use super::choice::{Choice, salt};
use super::state::Moves;
use super::walks::Shares;
use super::work::{GAIN_PART, LOW_PART, REST};
use crate::dataset::{OpenDataset, RecordMove};
use crate::format::filesystem::{KIND_BLOCK, KIND_DATA};
use crate::format::{BlockPtr, FEATURE_MOVED_BLOCKS, Key, VdevId};
use crate::lost::LostBlock;
use crate::owner::capacity::space_maps::LoadedRegions;
use crate::owner::write_back::moves::MoveStep;
use crate::owner::{Owner, POLL};
use crate::shared::all;
use crate::space::{FILL_LEVELS, RowFills};
use crate::tree::{Visit, Walk, WalkStep};
use crate::{Error, Result};
use io::sync::lock;

/// Entries of a tree that one part of a walk looks at.
const PART_ENTRIES: usize = 4096;
/// Bytes of records that one part finds.
const PART_BYTES: u64 = 1 << 20;
/// Records that are read concurrently.
const READS_AT_ONCE: usize = 32;
/// Times that records are looked up again because a checkpoint merged them meanwhile.
const RENEWALS_MAX: usize = 4;
/// The pause after a part while much is free, in the background. It shrinks with the free space.
const PART_PAUSE: Duration = Duration::from_millis(64);
/// How long a group waits that finds no memory or no room in the journal.
const RETRY: Duration = Duration::from_millis(1);
/// Poor walks after which waiting writes are refused.
const POOR_WALKS_MAX: u32 = 8;
/// A walk is poor if it gained less than this part of the bytes that it moved.
const GAIN_OF_MOVED: u64 = 16;
/// The part of the free bytes for moves that a walk plans to take.
const PLANNED: (u64, u64) = (3, 4);

/// The records that a walk moves.
#[derive(Clone, Copy)]
pub(super) enum Chosen<'a> {
    /// Those of these rows.
    Rows(&'a Choice),
    /// These shares of vdevs.
    Vdevs(&'a Shares),
    /// Those of these regions.
    Regions(&'a BTreeSet<(VdevId, u32)>),
    /// Records that belong to vdevs of the other class: large ones, and with `fills` small ones while the special class takes them.
    Class {
        /// See there.
        fills: bool,
    },
}

/// Chosen records, and the key where the next part begins.
pub(super) struct FoundRecords {
    pub(super) records: Vec<(Key, BlockPtr)>,
    pub(super) next: Option<Key>,
}

/// The result of a walk over all trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Walked {
    /// All trees were walked.
    Whole,
    /// No free rows were left.
    Exhausted,
    /// The pool closes, or takes no changes.
    Stopped,
}

/// Free bytes, and bytes that clients took since the pool was opened.
#[derive(Clone, Copy)]
struct Balance {
    free: u64,
    put: u64,
}

impl Balance {
    /// Bytes that became free since `before`.
    fn gained(self, before: Self) -> u64 {
        (self.free + self.put).saturating_sub(before.free + before.put)
    }
}

impl Owner {
    /// Walks all trees once, and moves the records of the emptiest rows.
    ///
    /// # Errors
    /// Those of a checkpoint, and of reads other than damage.
    pub(super) async fn move_rows(self: &Rc<Self>) -> Result<()> {
        self.shared.vdevs.require(FEATURE_MOVED_BLOCKS).await?;
        let before = self.balance();
        let moved_before = self.mover.moved.get();
        let fills = self.count_fills().await?;
        let choice = self.choose(&fills);
        let walked = match &choice {
            Some(choice) => {
                let walked = self.walk_all(choice).await?;
                self.free_moved().await?;
                walked
            }
            None => Walked::Whole,
        };
        if walked == Walked::Stopped {
            return Ok(());
        }
        let moved = self.mover.moved.get() - moved_before;
        let gained = self.balance().gained(before);
        tracing::debug!(?choice, ?walked, moved, gained, "a walk of the row mover");
        if let Some(choice) = &choice {
            let after = self.count_fills().await?;
            self.learn(choice, moved, &after, walked);
        }
        self.judge(choice.as_ref(), moved, gained);
        Ok(())
    }

    fn balance(&self) -> Balance {
        Balance {
            free: self.state.borrow().allocator.space().free_bytes(),
            put: self.shared.budget.all_put(),
        }
    }

    /// Counts the rows of the pool by their fill.
    async fn count_fills(self: &Rc<Self>) -> Result<RowFills> {
        let mut fills = RowFills::default();
        for vdev in (0..).map(VdevId) {
            let Some(regions) = self.state.borrow().allocator.space().regions(vdev) else {
                break;
            };
            for region in 0..regions {
                let _loaded = self.load_rows(vdev, region).await?;
                let found = {
                    let state = self.state.borrow();
                    state.allocator.space().row_fills(vdev, region)
                };
                if let Some(found) = found {
                    fills.add(&found);
                    io::yield_now().await;
                }
            }
        }
        Ok(fills)
    }

    /// Loads a region of a raidz, unless it is loaded or all free.
    async fn load_rows(
        self: &Rc<Self>,
        vdev: VdevId,
        region: u32,
    ) -> Result<Option<LoadedRegions>> {
        let is_lacking = self
            .state
            .borrow()
            .allocator
            .space()
            .lacks_rows(vdev, region);
        match is_lacking {
            true => Ok(Some(self.load_regions(&[(vdev, region)]).await?)),
            false => Ok(None),
        }
    }

    /// Chooses the rows of a walk: the fuller ones, the less space is free. In the background, `None` also if they are too few.
    fn choose(&self, fills: &RowFills) -> Option<Choice> {
        let state = self.state.borrow();
        let space = state.allocator.space();
        let budget = &self.shared.budget;
        let bytes = budget.left_for_moves(space.movable()) / PLANNED.1 * PLANNED.0;
        let is_awaited = budget.is_mover_awaited();
        let most = match is_awaited {
            true => FILL_LEVELS - 1,
            false => most_in_background(budget.left(), space.size() / LOW_PART),
        };
        let walks = self.mover.walks.get();
        self.mover.walks.set(walks + 1);
        let stuck = self.mover.stuck.borrow();
        let choice = Choice::of(fills, &stuck, bytes, (most, salt(walks)));
        let least = space.size() / GAIN_PART;
        choice.filter(|choice| is_awaited || choice.dead >= least)
    }

    /// Remembers the rows that a walk did not empty, if they were most of its choice.
    fn learn(&self, choice: &Choice, moved: u64, after: &RowFills, walked: Walked) {
        let mut stuck = self.mover.stuck.borrow_mut();
        match walked {
            Walked::Whole if moved < choice.bytes / 4 => *stuck = after.below(choice.level + 1),
            _ => *stuck = stuck.least(after),
        }
    }

    /// Decides whether another walk may help.
    fn judge(&self, choice: Option<&Choice>, moved: u64, gained: u64) {
        let (dead, step) = {
            let state = self.state.borrow();
            let space = state.allocator.space();
            (space.dead_bytes(), space.size() / GAIN_PART)
        };
        let (mover, budget) = (&self.mover, &self.shared.budget);
        let is_poor = gained < step || gained < moved / GAIN_OF_MOVED;
        if !is_poor {
            mover.poor_walks.set(0);
            budget.set_dead(dead, step);
        } else {
            mover.poor_walks.set(mover.poor_walks.get() + 1);
            mover.rests_below.set(dead + REST * step);
            let is_awaited = budget.is_mover_awaited();
            let was_all = choice.is_none_or(|choice| choice.is_all);
            if is_awaited && (was_all || mover.poor_walks.get() >= POOR_WALKS_MAX) {
                budget.set_dead(dead, dead + step);
            }
        }
        budget.walked();
    }

    async fn walk_all(self: &Rc<Self>, choice: &Choice) -> Result<Walked> {
        let volumes: Vec<Arc<OpenDataset>> = {
            let state = self.state.borrow();
            state.datasets.volumes().cloned().collect()
        };
        for volume in volumes {
            let mut from = Some(Key::START);
            while let Some(at) = from {
                if !self.may_move() {
                    return Ok(Walked::Stopped);
                }
                let part = self.find_records(&volume, Chosen::Rows(choice), at).await?;
                from = part.next;
                if !part.records.is_empty() {
                    let moves = self.read_records(&volume, part.records).await?;
                    match self.rewrite(&volume, moves, Moves::Rows).await? {
                        Walked::Whole => {}
                        other => return Ok(other),
                    }
                    self.slow_down().await;
                }
                io::yield_now().await;
            }
        }
        Ok(Walked::Whole)
    }

    /// Waits a moment, unless a write waits for rows.
    async fn slow_down(&self) {
        let size = self.state.borrow().allocator.space().size();
        let (budget, low) = (&self.shared.budget, (size / LOW_PART).max(1));
        if !budget.is_mover_awaited() {
            let parts = (budget.left().min(low) * 64 / low) as u32;
            io::time::sleep(PART_PAUSE * parts / 64).await;
        }
    }

    /// Finds chosen records, from a key on, in the tree of a dataset.
    ///
    /// # Errors
    /// Those of reads, other than damage.
    pub(super) async fn find_records(
        self: &Rc<Self>,
        volume: &OpenDataset,
        chosen: Chosen<'_>,
        from: Key,
    ) -> Result<FoundRecords> {
        let _reader = self.shared.readers.enter();
        let (root, held) = {
            let state = self.state.borrow();
            let root = lock(&volume.state).layers.root();
            (root, state.held_up_to(volume))
        };
        let mut walk = Walk::new(root, held, from);
        let (mut records, mut entries, mut bytes) = (Vec::new(), 0, 0);
        let next = loop {
            match walk.step() {
                WalkStep::Need(need) => {
                    let lost = LostBlock::node(volume.id, need.keys(), need.ptr);
                    let node = self.shared.node(volume.id, &need).await;
                    match node.and_then(|node| walk.supply(node)) {
                        Ok(()) => {}
                        Err(e @ (Error::Corrupt { .. } | Error::Unreadable { .. })) => {
                            self.shared.lost.note(&e, lost);
                            walk.skip();
                        }
                        Err(e) => return Err(e),
                    }
                }
                WalkStep::Visit(Visit::Entry(key, _))
                    if entries >= PART_ENTRIES || bytes >= PART_BYTES =>
                {
                    break Some(key);
                }
                WalkStep::Visit(Visit::Entry(key, value)) => {
                    entries += 1;
                    let ptr = value.block().filter(|ptr| ptr.birth > held);
                    let rows_of = ptr.filter(|_| matches!(chosen, Chosen::Rows(_)));
                    let region = rows_of.and_then(|ptr| {
                        let state = self.state.borrow();
                        state
                            .allocator
                            .space()
                            .region_of(self.shared.vdevs.address_of(ptr))
                    });
                    let _loaded = match region {
                        Some((vdev, region)) => self.load_rows(vdev, region).await?,
                        None => None,
                    };
                    if let Some(ptr) = ptr.filter(|ptr| self.is_chosen(volume, chosen, key, ptr)) {
                        bytes += u64::from(ptr.logical_size);
                        records.push((key, *ptr));
                    }
                }
                WalkStep::Visit(_) => {}
                WalkStep::Done => break None,
            }
        };
        Ok(FoundRecords { records, next })
    }

    /// Whether a block is a whole record, and chosen.
    fn is_chosen(
        &self,
        volume: &OpenDataset,
        chosen: Chosen<'_>,
        key: Key,
        ptr: &BlockPtr,
    ) -> bool {
        let is_record = matches!(key.kind(), KIND_DATA | KIND_BLOCK);
        if !is_record || !volume.settings.is_whole(ptr) {
            return false;
        }
        let at = self.shared.vdevs.address_of(ptr);
        match chosen {
            Chosen::Rows(choice) => {
                let state = self.state.borrow();
                let space = state.allocator.space();
                let fill = space.row_fill(at, ptr.physical_size);
                fill.is_some_and(|(row, fill)| choice.takes(fill, row))
            }
            Chosen::Vdevs(shares) => shares.takes(key, ptr, at.vdev),
            Chosen::Regions(regions) => {
                let state = self.state.borrow();
                let region = state.allocator.space().region_of(at);
                region.is_some_and(|region| regions.contains(&region))
            }
            Chosen::Class { fills } => {
                let vdevs = &self.shared.vdevs;
                let small = u64::from(volume.settings.special_small_blocks());
                let is_small = vdevs.allocated(ptr) <= small;
                match vdevs.is_special(at.vdev) {
                    true => !is_small,
                    false => {
                        let state = self.state.borrow();
                        fills && is_small && state.allocator.space().takes_small_records()
                    }
                }
            }
        }
    }

    pub(super) async fn read_records(
        &self,
        volume: &OpenDataset,
        records: Vec<(Key, BlockPtr)>,
    ) -> Result<Vec<RecordMove>> {
        let mut moves = Vec::with_capacity(records.len());
        for some in records.chunks(READS_AT_ONCE) {
            let reads = some.iter().map(|(key, ptr)| volume.begin_move(*key, *ptr));
            for read in all(reads).await {
                moves.extend(read?);
            }
        }
        Ok(moves)
    }

    /// Has records written again.
    pub(super) async fn rewrite(
        self: &Rc<Self>,
        volume: &Arc<OpenDataset>,
        mut moves: Vec<RecordMove>,
        purpose: Moves,
    ) -> Result<Walked> {
        let (mut renewals, mut has_freed) = (0, false);
        while !moves.is_empty() {
            if !self.may_move() {
                return Ok(Walked::Stopped);
            }
            if self.mover.is_paused() {
                io::time::sleep(POLL).await;
                continue;
            }
            moves = match self.commit_moves(volume, moves, purpose) {
                MoveStep::Written(0, _) if renewals == RENEWALS_MAX => break,
                MoveStep::Written(0, rest) => {
                    renewals += 1;
                    renew(volume, rest).await?
                }
                MoveStep::Written(bytes, rest) => {
                    self.mover.count(purpose, bytes);
                    has_freed = false;
                    io::yield_now().await;
                    rest
                }
                MoveStep::Later(moves) => {
                    self.shared.bell.ring();
                    io::time::sleep(RETRY).await;
                    moves
                }
                MoveStep::NoSpace(_) if has_freed => return Ok(Walked::Exhausted),
                MoveStep::NoSpace(moves) => {
                    self.free_moved().await?;
                    has_freed = true;
                    moves
                }
                MoveStep::NotWorth | MoveStep::Gone => break,
            };
        }
        Ok(Walked::Whole)
    }

    /// Waits until the old blocks of all moved records are reusable.
    pub(super) async fn free_moved(&self) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.state.borrow_mut().checkpointer.request(sender);
        self.shared.bell.ring();
        receiver.await.unwrap_or(Err(Error::Device))?;
        while self.state.borrow().checkpointer.is_releasing() {
            io::time::sleep(POLL).await;
        }
        Ok(())
    }
}

/// The fullest level of rows that are moved in the background: an eighth while `low` bytes are free, three quarters at the end.
fn most_in_background(free: u64, low: u64) -> usize {
    let eighth = FILL_LEVELS as u64 / 8;
    let rises = 5 * eighth * (low - free.min(low)) / low.max(1);
    (eighth + rises) as usize
}

/// The moves whose records are still in the same blocks.
async fn renew(volume: &OpenDataset, moves: Vec<RecordMove>) -> Result<Vec<RecordMove>> {
    let mut renewed = Vec::with_capacity(moves.len());
    for mut one in moves {
        if volume.renew_move(&mut one).await? {
            renewed.push(one);
        }
    }
    Ok(renewed)
}
