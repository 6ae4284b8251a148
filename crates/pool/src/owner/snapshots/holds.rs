//! Holds: a snapshot with a hold is not destroyed.
//!
//! **Owns** the operations on holds; [`PoolTree`](crate::owner::pool_tree::PoolTree) has the holds. **Called by** [`Pool`]'s
//! users, and by destroys. **Invariant**: a hold is in effect when its operation returns, and after every later crash.

use super::snapshot::check_name;
use crate::format::{HOLDS_MAX, Hold, TreeId, hold_key};
use crate::owner::{Pool, State};
use crate::{Error, Result};

impl State {
    /// # Errors
    /// [`Error::Held`] with the tag of the oldest hold.
    pub(in crate::owner) fn check_holds(&self, snapshot: TreeId) -> Result<()> {
        let holds = self.pool_tree.holds(snapshot).map(|(_, hold)| hold);
        match holds.min_by_key(|hold| hold.created) {
            Some(hold) => Err(Error::Held {
                tag: hold.tag.clone(),
            }),
            None => Ok(()),
        }
    }
}

impl Pool {
    /// Adds a hold with a tag to a snapshot. It is durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::Exists`] if there is a hold of this tag, [`Error::BadName`] for the tag,
    /// [`Error::Busy`] if it has [`HOLDS_MAX`] holds, [`Error::Device`].
    pub async fn hold(&self, volume: &str, name: &str, tag: &str) -> Result<()> {
        check_name(tag)?;
        let created = io::time::wall_clock_ms() * 1_000_000;
        let hold = |state: &mut State| {
            let id = state.find_snapshot(volume, name).ok_or(Error::NotFound)?;
            let id = id.id;
            let holds = || state.pool_tree.holds(id);
            if holds().any(|(_, hold)| hold.tag == tag) {
                return Err(Error::Exists);
            }
            let free = (0..HOLDS_MAX).find(|index| holds().all(|(used, _)| used != *index));
            let index = free.ok_or(Error::Busy)?;
            let hold = Hold {
                tag: tag.to_owned(),
                created,
            };
            let value = hold.encode();
            let ticket = state.change(Vec::new(), vec![(hold_key(id, index), Some(value))])?;
            Ok(((), ticket))
        };
        self.owner.change_durably(hold).await
    }

    /// Releases a hold. The release is durable when this returns.
    ///
    /// # Errors
    /// [`Error::NotFound`] if there is no such snapshot, [`Error::NoHold`], [`Error::Device`].
    pub async fn release(&self, volume: &str, name: &str, tag: &str) -> Result<()> {
        let release = |state: &mut State| {
            let id = state.find_snapshot(volume, name).ok_or(Error::NotFound)?;
            let id = id.id;
            let found = state.pool_tree.holds(id).find(|(_, hold)| hold.tag == tag);
            let (index, _) = found.ok_or(Error::NoHold)?;
            let ticket = state.change(Vec::new(), vec![(hold_key(id, index), None)])?;
            Ok(((), ticket))
        };
        self.owner.change_durably(release).await
    }

    /// The holds of a snapshot, oldest first.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn holds(&self, volume: &str, name: &str) -> Result<Vec<Hold>> {
        let state = self.owner.state.borrow();
        let id = state.find_snapshot(volume, name).ok_or(Error::NotFound)?;
        let holds = state.pool_tree.holds(id.id);
        let mut holds: Vec<Hold> = holds.map(|(_, hold)| hold.clone()).collect();
        holds.sort_by_key(|hold| hold.created);
        Ok(holds)
    }
}
