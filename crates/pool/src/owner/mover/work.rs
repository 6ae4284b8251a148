//! Row mover: frees rows of a raidz by writing the records in sparse rows again, together.
//!
//! Where free rows run short, the mover walks the trees of all datasets for records in the emptiest rows, and has them written again
//! as they are. They lie together in new rows; the next checkpoint frees their old sectors, and so the rows.
//!
//! **Owns** when the mover works. **Called by** the owner's loop and tick. **Invariants**: one walk is in
//! progress at a time; no group of moves begins during a pause or once the pool closes; nothing but speed depends on a move:
//! it may be given up at any time. `docs/decisions/0165`.

use std::rc::Rc;

use super::state::{MoverPause, Moves, RowMoves};
use crate::owner::{Owner, POLL, Pool};

/// The mover works in the background while less than this part of the pool is free for clients: the less, the fuller rows it moves.
pub(super) const LOW_PART: u64 = 8;
/// The part of the pool that a walk frees at least; less is not worth it.
pub(super) const GAIN_PART: u64 = 1024;
/// Bytes that must die before the background looks again for rows, in walks' least gains.
pub(super) const REST: u64 = 8;

impl Owner {
    /// Waits until the groups of the mover are written, and keeps it from further ones.
    pub(in crate::owner) async fn pause_mover(&self) -> MoverPause<'_> {
        let pause = MoverPause::of(&self.mover);
        while self.mover.groups.get() > 0 && !self.shared.has_failed() {
            io::time::sleep(POLL).await;
        }
        pause
    }

    /// Wakes the mover if there is work for it.
    pub(in crate::owner) fn wake_mover(&self) {
        if self.mover.moves.get().is_none() && self.next_moves().is_some() {
            self.mover.bell.ring();
        }
    }

    /// Tells the write budget how many bytes of rows are dead. Called after each checkpoint.
    pub(in crate::owner) fn tell_dead(&self) {
        let state = self.state.borrow();
        let space = state.allocator.space();
        let budget = &self.shared.budget;
        if space.has_rows() && !self.shared.vdevs.is_read_only() {
            let least = match budget.least_dead() {
                u64::MAX => space.size() / GAIN_PART,
                least => least,
            };
            budget.set_dead(space.dead_bytes(), least);
        }
    }

    pub(super) fn may_move(&self) -> bool {
        !self.mover.is_ended.get()
            && !self.shared.vdevs.is_read_only()
            && self.shared.trouble().is_none()
    }

    /// Whether a write waits for free rows, or soon might.
    pub(super) fn needs_rows(&self) -> bool {
        let state = self.state.borrow();
        let space = state.allocator.space();
        let budget = &self.shared.budget;
        let is_low = || {
            space.has_rows()
                && budget.left() < space.size() / LOW_PART
                && space.dead_bytes() >= self.mover.rests_below.get().max(space.size() / GAIN_PART)
        };
        budget.is_mover_awaited() || is_low()
    }

    /// The mover's task. Rows come first: a write may wait for them.
    pub(in crate::owner) async fn run_mover(self: Rc<Self>) {
        loop {
            self.mover.bell.rung().await;
            while let Some(purpose) = self.next_moves() {
                self.mover.moves.set(Some(purpose));
                let moved = match purpose {
                    Moves::Rows => self.move_rows().await,
                    Moves::Order => self.move_next_window().await,
                    Moves::Balance => self.move_next_part().await,
                    Moves::Regions => self.empty_next_part().await,
                    Moves::Class => self.class_next_part().await,
                };
                self.mover.moves.set(None);
                if let Err(error) = moved {
                    tracing::warn!(?purpose, %error, "moving records ended");
                    break;
                }
            }
        }
    }

    fn next_moves(&self) -> Option<Moves> {
        if !self.may_move() || self.mover.is_paused() {
            return None;
        }
        let by_urgency = [
            Moves::Rows,
            Moves::Order,
            Moves::Regions,
            Moves::Class,
            Moves::Balance,
        ];
        let is_needed = |moves: &Moves| match moves {
            Moves::Rows => self.needs_rows(),
            Moves::Order => self.needs_order(),
            Moves::Regions => self.needs_regions(),
            Moves::Class => self.needs_class(),
            Moves::Balance => self.needs_balance(),
        };
        by_urgency.into_iter().find(is_needed)
    }
}

impl Pool {
    /// The state of the row mover. `None` in a pool without a raidz.
    #[must_use]
    pub fn row_moves(&self) -> Option<RowMoves> {
        let (owner, mover) = (&self.owner, &self.owner.mover);
        let state = owner.state.borrow();
        let space = state.allocator.space();
        space.has_rows().then(|| RowMoves {
            is_moving: mover.moves.get() == Some(Moves::Rows),
            is_awaited: owner.shared.budget.is_mover_awaited(),
            moved: mover.moved.get(),
            dead: space.dead_bytes(),
        })
    }
}
