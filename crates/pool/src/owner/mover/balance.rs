//! Balance mover: records of vdevs that are fuller than others are written again on emptier ones, as after `pool add`.
//!
//! A vdev that is added to a full pool is empty: new data goes mostly there, and old data is read from the old vdevs only. The mover
//! walks the trees of all datasets once, and moves a share of the windows of 1 MiB that lie on vdevs above the pool's fill. The share
//! makes all vdevs equally full, and each file and volume is spread over all of them.
//!
//! **Owns** the choice of records, and the steps of a walk. **Called by** the mover's task, one part at a time, after the other
//! movers. **Invariants**: a block that a snapshot holds stays, because it would be there twice; a record goes to a vdev below the
//! pool's fill, or stays; after a walk that leaves a surplus, the next one begins an hour later at the earliest. `docs/decisions/0178`.

use std::rc::Rc;
use std::time::Duration;

use super::choice::salt;
use super::order::FREE_PART;
use super::parts::{PartEnd, rests};
use super::state::Moves;
use super::walk::Chosen;
use super::walks::{BalanceWalk, Shares};
use crate::Result;
use crate::format::{FEATURE_MOVED_BLOCKS, VdevId};
use crate::owner::{Owner, Pool};
use crate::space::Surplus;

/// A walk begins if a vdev has this part of its size more than if all vdevs were equally full.
const UNEVEN_PART: u64 = 10;
/// The time after which a surplus that a walk left is tried again: snapshots may be gone.
const RETRY: Duration = Duration::from_secs(3600);

/// The state of the balance mover, for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BalanceMoves {
    /// Whether a walk is in progress.
    pub is_moving: bool,
    /// Bytes that the fullest vdevs have more than if all vdevs were equally full.
    pub surplus: u64,
    /// Bytes of records, in whole sectors, that were moved since the pool was opened.
    pub moved: u64,
    /// Whether the surplus stays: a walk could not move it, because snapshots hold the blocks or `autodefrag` is off.
    pub is_stuck: bool,
}

impl Owner {
    fn surpluses(&self) -> Vec<Surplus> {
        self.state.borrow().allocator.space().surpluses()
    }

    /// Whether a walk is in progress, or should begin.
    pub(super) fn needs_balance(&self) -> bool {
        let is_due = || !self.rests() && self.is_uneven() && self.has_much_free();
        self.mover.balance.walk.borrow().is_some() || is_due()
    }

    fn is_uneven(&self) -> bool {
        let surpluses = self.surpluses();
        surpluses.iter().any(|of| of.bytes > of.size / UNEVEN_PART)
    }

    fn rests(&self) -> bool {
        rests(self.mover.balance.rests_until.get())
    }

    fn has_much_free(&self) -> bool {
        let size = self.state.borrow().allocator.space().size();
        self.shared.budget.left() >= size / FREE_PART
    }

    /// Moves the records of the next part of a walk, and rests.
    ///
    /// # Errors
    /// Those of a checkpoint, and of reads other than damage. The walk ends.
    pub(super) async fn move_next_part(self: &Rc<Self>) -> Result<()> {
        let walk = self.mover.balance.walk.take();
        let mut walk = match walk {
            Some(walk) => walk,
            None => self.begin_balance().await?,
        };
        let chosen = Chosen::Vdevs(&walk.shares);
        let step = self.step(&mut walk.position, chosen, Moves::Balance);
        match step.await? {
            PartEnd::More => drop(self.mover.balance.walk.replace(Some(walk))),
            PartEnd::Done | PartEnd::NoSpace => self.end_balance().await?,
            PartEnd::Stopped => {}
        }
        Ok(())
    }

    async fn begin_balance(&self) -> Result<BalanceWalk> {
        self.shared.vdevs.require(FEATURE_MOVED_BLOCKS).await?;
        let balance = &self.mover.balance;
        // also if the walk ends with an error
        balance.rests_until.set(Some(io::time::now() + RETRY));
        let walks = balance.walks.get();
        balance.walks.set(walks + 1);
        let shares = Shares::of(&self.surpluses(), salt(walks));
        Ok(BalanceWalk {
            shares,
            position: self.begin_walk(),
        })
    }

    /// Frees the old blocks, and judges the surplus that is left.
    async fn end_balance(self: &Rc<Self>) -> Result<()> {
        self.free_moved().await?;
        let is_stuck = self.is_uneven();
        if !is_stuck {
            self.mover.balance.rests_until.set(None);
        }
        tracing::debug!(
            moved = self.mover.balance.moved.get(),
            is_stuck,
            "a walk of the balance mover"
        );
        Ok(())
    }
}

impl Pool {
    /// The state of the balance mover. `None` in a pool of one vdev.
    #[must_use]
    pub fn balance_moves(&self) -> Option<BalanceMoves> {
        let balance = &self.owner.mover.balance;
        let is_moving =
            self.owner.mover.moves.get() == Some(Moves::Balance) || balance.walk.borrow().is_some();
        let has_several = {
            let state = self.owner.state.borrow();
            state.allocator.space().regions(VdevId(1)).is_some()
        };
        has_several.then(|| BalanceMoves {
            is_moving,
            surplus: self.owner.surpluses().iter().map(|s| s.bytes).sum(),
            moved: balance.moved.get(),
            is_stuck: !is_moving && self.owner.rests(),
        })
    }
}
