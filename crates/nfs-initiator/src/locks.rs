//! Byte-range locks: LOCK, LOCKU (§18.10, §18.12).
//!
//! **Owns** [`LockOwner`]. **Called by** users of a file. **Invariants**: the first LOCK of an owner names the open, later ones
//! name the owner's state, which every reply renews.

use super::error::Result;
use super::files::File;
use nfs::wire::files::{Lock, Locker};
use nfs::wire::{Op, Owner, Stateid, operation};
use std::cell::Cell;
use std::ops::Range;

/// `READ_LT` and `WRITE_LT`: the lock is granted at once or not at all.
const SHARED: u32 = 1;
const EXCLUSIVE: u32 = 2;

/// How a range is locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LockOptions {
    /// Whether no other owner may have a lock meanwhile; else other owners may have shared locks.
    pub exclusive: bool,
    /// Whether the owner had the lock before the server restarted. The file was opened by [`Session::reclaim`](crate::Session::reclaim).
    pub reclaim: bool,
}

/// An owner of locks of one open file. It belongs to the file with which it was used first.
#[derive(Debug)]
pub struct LockOwner {
    name: Vec<u8>,
    state: Cell<Option<Stateid>>,
}

impl LockOwner {
    /// An owner without locks; its name is unique among the owners of the client.
    #[must_use]
    pub fn new(name: &[u8]) -> Self {
        Self {
            name: name.to_vec(),
            state: Cell::new(None),
        }
    }
}

impl File {
    /// Locks a range of bytes. Does not wait.
    ///
    /// # Errors
    /// [`crate::Error::Status`] with `Denied` if another owner is in the way; other statuses, and errors of the connection.
    pub async fn lock(&self, owner: &LockOwner, at: Range<u64>, how: LockOptions) -> Result<()> {
        let locker = match owner.state.get() {
            Some(state) => Locker::Existing(state),
            None => Locker::New(
                self.stateid,
                Owner {
                    client: self.session.client(),
                    name: &owner.name,
                },
            ),
        };
        let lock = Lock {
            kind: if how.exclusive { EXCLUSIVE } else { SHARED },
            is_reclaim: how.reclaim,
            offset: at.start,
            length: at.end.saturating_sub(at.start),
            locker,
        };
        let lock = Op::Lock(Box::new(lock));
        self.change_lock(owner, lock, operation::LOCK).await
    }

    /// Unlocks a range of bytes of which the owner has locked a part.
    ///
    /// # Errors
    /// [`crate::Error::Status`], and errors of the connection; [`crate::Error::Invalid`] if the owner never locked anything.
    pub async fn unlock(&self, owner: &LockOwner, at: Range<u64>) -> Result<()> {
        let stateid = owner.state.get();
        let stateid = stateid.ok_or(crate::Error::Invalid("an owner without a lock"))?;
        let unlock = Op::LockU {
            stateid,
            offset: at.start,
            length: at.end.saturating_sub(at.start),
        };
        self.change_lock(owner, unlock, operation::LOCKU).await
    }

    async fn change_lock(&self, owner: &LockOwner, change: Op<'_>, number: u32) -> Result<()> {
        let operations = [Op::PutFh(&self.handle.0), change];
        let mut results = self.session.call(&operations).await?;
        results.ok(operation::PUTFH)?;
        results.ok(number)?;
        owner.state.set(Some(results.stateid()?));
        Ok(())
    }
}
