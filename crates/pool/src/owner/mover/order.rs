//! Order mover: records that lie apart are written again one behind the other, where clients read them in order.
//!
//! Random overwrites put the records of a volume into places all over the disks. A read in order then needs a read from a device
//! for each record. Reads note such windows ([`crate::scattered`]); the mover writes the records of a window again, together.
//!
//! **Owns** the moves of windows. **Called by** the mover's task. **Invariants**: a block that a
//! snapshot holds stays, because it would be there twice; a window is moved only if it lies in at most half as many places
//! afterwards; a reader is registered only while records are looked up and read. `docs/decisions/0176`.

use std::rc::Rc;
use std::sync::Arc;

use super::state::Moves;
use crate::block_reads::Caching;
use crate::dataset::{Location, OpenDataset, data_keys};
use crate::format::{Autodefrag, BlockPtr, FEATURE_MOVED_BLOCKS, Key};
use crate::owner::{Owner, Pool};
use crate::scattered::{WINDOW_BYTES, Window, is_apart, places};
use crate::{Error, Result};

/// The mover leaves windows as they are while less than this part of the pool is free for clients.
pub(super) const FREE_PART: u64 = 16;

/// The state of the order mover, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OrderMoves {
    /// Whether records are being moved.
    pub is_moving: bool,
    /// Bytes that clients read in order, and that lie apart; rounded up to windows of 1 MiB.
    pub waiting: u64,
    /// Bytes of records, in whole sectors, that were moved since the pool was opened.
    pub moved: u64,
    /// Bytes of records that lie apart and stay where they are, because snapshots hold them; of the last ten minutes.
    pub held: u64,
    /// Whether the last windows were left as they are, because too little of the pool is free.
    pub is_short: bool,
}

/// Records of a window that may be moved.
struct Found {
    records: Vec<(Key, BlockPtr)>,
    /// Bytes of blocks that snapshots hold.
    held: u64,
}

impl Owner {
    /// Whether windows wait that may be moved now.
    pub(super) fn needs_order(&self) -> bool {
        self.shared.scattered.waiting() > 0
    }

    /// Moves the records of the next window, and rests.
    ///
    /// # Errors
    /// Those of a checkpoint, and of reads other than damage.
    pub(super) async fn move_next_window(self: &Rc<Self>) -> Result<()> {
        let Some(window) = self.shared.scattered.take() else {
            return Ok(());
        };
        let volume = self.state.borrow().datasets.get(window.tree).cloned();
        let Some(volume) = volume.filter(|volume| !volume.is_snapshot()) else {
            return Ok(());
        };
        let rate = volume.settings.autodefrag();
        if rate == Autodefrag::Off || !self.has_room_for_order().await? {
            return Ok(());
        }
        let pace = self.begin_pace();
        let bytes = self.put_in_order(&volume, window).await?;
        self.keep_pace(pace, rate, bytes).await;
        Ok(())
    }

    /// Whether enough of the pool is free. If not, all windows are forgotten: reads note them again.
    async fn has_room_for_order(&self) -> Result<bool> {
        let has_room = || {
            let size = self.state.borrow().allocator.space().size();
            self.shared.budget.left() >= size / FREE_PART
        };
        // the mover's own freed blocks may be what is missing
        if !has_room() {
            self.free_moved().await?;
        }
        let is_short = !has_room();
        self.mover.order.is_short.set(is_short);
        if is_short {
            self.shared.scattered.clear();
        }
        Ok(!is_short)
    }

    /// Moves the records of a window, if they lie apart. Returns their bytes.
    async fn put_in_order(
        self: &Rc<Self>,
        volume: &Arc<OpenDataset>,
        window: Window,
    ) -> Result<u64> {
        let found = match self.movable_records(volume, window).await {
            Ok(found) => found,
            // reads report damage
            Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => return Ok(0),
            Err(error) => return Err(error),
        };
        let blocks = found.records.iter();
        let vdevs = &self.shared.vdevs;
        let blocks = blocks.map(|(_, ptr)| (vdevs.address_of(ptr), vdevs.allocated(ptr)));
        let bytes = blocks.clone().map(|(_, bytes)| bytes).sum();
        if !is_apart(bytes, places(blocks)) {
            self.shared.scattered.let_rest(window, found.held);
            return Ok(0);
        }
        self.shared.vdevs.require(FEATURE_MOVED_BLOCKS).await?;
        let moves = self.read_records(volume, found.records).await?;
        let moved = &self.mover.order.moved;
        let before = moved.get();
        let _whole_or_not = self.rewrite(volume, moves, Moves::Order).await?;
        let bytes = moved.get() - before;
        if bytes == 0 {
            self.shared.scattered.let_rest(window, found.held);
        }
        Ok(bytes)
    }

    /// Finds the records of a window that are whole blocks and that no snapshot holds.
    async fn movable_records(&self, volume: &OpenDataset, window: Window) -> Result<Found> {
        let _reader = self.shared.readers.enter();
        let held_up_to = self.state.borrow().held_up_to(volume);
        let size = volume.settings.record_size_of(window.object);
        let keys = data_keys(window.object, window.numbers(size));
        let located = volume.locate(keys.clone(), Caching::NONE).await?;
        let mut found = Found {
            records: Vec::with_capacity(located.len()),
            held: 0,
        };
        for (number, location) in (0..).zip(located) {
            match location {
                Location::Block(block) if block.ptr().birth > held_up_to => {
                    let key = keys.start.after(number);
                    found.records.push((key, *block.ptr()));
                }
                Location::Block(block) => {
                    found.held += self.shared.vdevs.allocated(block.ptr());
                }
                // records in memory get new places anyway; fragments mean that the pool is full
                Location::Known(_) | Location::Cached(_) | Location::Fragments(_) => {}
                Location::Parts(..) => unreachable!("only requests of clients read parts"),
            }
        }
        Ok(found)
    }
}

impl Pool {
    /// The state of the order mover.
    #[must_use]
    pub fn order_moves(&self) -> OrderMoves {
        let (order, scattered) = (&self.owner.mover.order, &self.owner.shared.scattered);
        OrderMoves {
            is_moving: self.owner.mover.moves.get() == Some(Moves::Order),
            waiting: scattered.waiting() as u64 * WINDOW_BYTES,
            moved: order.moved.get(),
            held: scattered.held(),
            is_short: order.is_short.get(),
        }
    }
}
