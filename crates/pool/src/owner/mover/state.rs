//! The state of the movers, and what people see of it.
//!
//! **Owns** the counts of its groups, pauses and walks. **Called by** the mover, and by write-back when a group ends. **Invariant**: no
//! group of moves begins during a pause or once the pool closes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use io::sync::Bell;
use io::time::Instant;

use super::walks::{BalanceWalk, ClassReason, ClassWalk, RegionWalk};
use crate::format::VdevId;
use crate::space::{RowFills, Targets};

/// The state of the row mover, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowMoves {
    /// Whether records are being moved.
    pub is_moving: bool,
    /// Whether a write waits for free rows.
    pub is_awaited: bool,
    /// Bytes of records, in whole sectors, that were moved since the pool was opened.
    pub moved: u64,
    /// Bytes of used rows that no block takes.
    pub dead: u64,
}

/// See the module header.
#[derive(Default)]
pub(in crate::owner) struct Mover {
    pub(super) bell: Bell,
    /// Groups in flight.
    pub(super) groups: Cell<usize>,
    pub(super) pauses: Cell<usize>,
    /// Whether the pool closes.
    pub(super) is_ended: Cell<bool>,
    /// Why records are being moved now.
    pub(super) moves: Cell<Option<Moves>>,
    pub(super) order: Order,
    pub(super) balance: Balance,
    pub(super) class: Class,
    pub(super) regions: Regions,
    /// Bytes that the row mover moved since the pool was opened.
    pub(super) moved: Cell<u64>,
    /// Walks since the pool was opened.
    pub(super) walks: Cell<u64>,
    /// Walks in a row that gained too little.
    pub(super) poor_walks: Cell<u32>,
    /// With fewer dead bytes than this, a walk in the background is not worth it.
    pub(super) rests_below: Cell<u64>,
    /// Rows that a walk could not empty: those of nodes, and of blocks that snapshots hold.
    pub(super) stuck: RefCell<RowFills>,
}

/// The state of the order mover. [`super::order::OrderMoves`] has the meaning of the fields.
#[derive(Default)]
pub(super) struct Order {
    pub(super) moved: Cell<u64>,
    pub(super) is_short: Cell<bool>,
}

/// The state of the balance mover.
#[derive(Default)]
pub(super) struct Balance {
    pub(super) moved: Cell<u64>,
    /// The walk in progress, unless a part of it is being moved.
    pub(super) walk: RefCell<Option<BalanceWalk>>,
    /// Walks since the pool was opened.
    pub(super) walks: Cell<u64>,
    /// A walk left a surplus: the next one does not begin before this time.
    pub(super) rests_until: Cell<Option<Instant>>,
}

/// The state of the class mover.
#[derive(Default)]
pub(super) struct Class {
    pub(super) moved: Cell<u64>,
    /// The walk in progress, unless a part of it is being moved.
    pub(super) walk: RefCell<Option<ClassWalk>>,
    /// Why the next walk begins as soon as it may, beside changes of thresholds and room.
    pub(super) asked: Cell<Option<ClassReason>>,
    /// Walks since the pool was opened.
    pub(super) walks: Cell<u64>,
    /// Why the last walk began.
    pub(super) reason: Cell<Option<ClassReason>>,
    /// Changes of thresholds when the last walk began.
    pub(super) seen_changes: Cell<u64>,
    /// Bytes that the special class had no room for when the last walk began.
    pub(super) seen_spilled: Cell<u64>,
    /// Whether the last walk left blocks where they are because the class had no room.
    pub(super) lacked_room: Cell<bool>,
    /// No walk because of room begins before this time, which is this long after the begin of the last walk or its end.
    pub(super) rests_until: Cell<Option<Instant>>,
    pub(super) rest: Cell<Option<Duration>>,
}

/// The state of the region mover.
#[derive(Default)]
pub(super) struct Regions {
    pub(super) moved: Cell<u64>,
    /// The walk in progress, unless a part of it is being moved.
    pub(super) walk: RefCell<Option<RegionWalk>>,
    /// Bytes of blocks that were relocated.
    pub(super) relocated: Cell<u64>,
    /// Relocated blocks of the pool at most.
    pub(super) relocations_max: Cell<usize>,
    /// Whether a walk was asked for.
    pub(super) is_asked: Cell<bool>,
    /// Whether the last walk left blocks alone because there are too many relocations.
    pub(super) is_full: Cell<bool>,
    /// Records in fragments when the last walk began.
    pub(super) seen: Cell<u64>,
    /// Regions that were emptied since the pool was opened.
    pub(super) emptied: Cell<u64>,
    /// Regions that a walk could not empty, until the time at which they are tried again.
    pub(super) stuck: RefCell<BTreeMap<(VdevId, u32), Instant>>,
    /// No walk begins before this time.
    pub(super) rests_until: Cell<Option<Instant>>,
}

/// Why records are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::owner) enum Moves {
    /// Their rows become free. They may go anywhere.
    Rows,
    /// They are read in order. They must lie in at most half as many places afterwards.
    Order,
    /// Their vdev is fuller than others. They go to emptier ones.
    Balance,
    /// Their regions become free as a whole.
    Regions,
    /// They belong to vdevs of the other class.
    Class,
}

impl Moves {
    /// The vdevs that the records may go to.
    pub(in crate::owner) fn targets(self) -> Targets {
        match self {
            Self::Rows | Self::Order | Self::Regions | Self::Class => Targets::All,
            Self::Balance => Targets::Emptier,
        }
    }
}

impl Mover {
    /// Movers that relocate at most this number of blocks.
    pub(in crate::owner) fn new(relocations_max: usize) -> Self {
        let mover = Self::default();
        mover.regions.relocations_max.set(relocations_max);
        mover
    }

    fn moved_counter(&self, moves: Moves) -> &Cell<u64> {
        match moves {
            Moves::Rows => &self.moved,
            Moves::Order => &self.order.moved,
            Moves::Balance => &self.balance.moved,
            Moves::Class => &self.class.moved,
            Moves::Regions => &self.regions.moved,
        }
    }

    /// Counts moved bytes.
    pub(super) fn count(&self, moves: Moves, bytes: u64) {
        let moved = self.moved_counter(moves);
        moved.set(moved.get() + bytes);
    }

    /// Bytes that were moved for this reason since the pool was opened.
    pub(super) fn moved_for(&self, moves: Moves) -> u64 {
        self.moved_counter(moves).get()
    }

    /// A group of moves goes to the devices.
    pub(in crate::owner) fn begin_group(&self) {
        self.groups.set(self.groups.get() + 1);
    }

    /// The devices have a group of moves.
    pub(in crate::owner) fn end_group(&self) {
        self.groups.set(self.groups.get() - 1);
    }

    /// No group of moves begins from now on: the pool closes.
    pub(in crate::owner) fn end(&self) {
        self.is_ended.set(true);
    }

    pub(super) fn is_paused(&self) -> bool {
        self.pauses.get() > 0
    }

    /// Whether there is a pause besides that of the caller.
    pub(in crate::owner) fn is_paused_by_others(&self) -> bool {
        self.pauses.get() > 1
    }
}

/// No group of moves is written before this is dropped.
pub(in crate::owner) struct MoverPause<'a>(&'a Mover);

impl<'a> MoverPause<'a> {
    /// The mover begins no group from now on.
    pub(super) fn of(mover: &'a Mover) -> Self {
        mover.pauses.set(mover.pauses.get() + 1);
        Self(mover)
    }
}

impl Drop for MoverPause<'_> {
    fn drop(&mut self) {
        self.0.pauses.set(self.0.pauses.get() - 1);
    }
}
