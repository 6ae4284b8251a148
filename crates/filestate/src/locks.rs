//! Byte-range locks (§9.1 to §9.6, §18.10 to §18.12).
//!
//! **Owns** [`LockFrom`] and the lock states of [`Table`]. **Called by** the service, under its lock. **Invariants**: a lock state
//! belongs to an open of the same file and goes with it.

use crate::entry::{Kind, State};
use crate::limits::FILE_LOCKS_MAX;
use crate::table::{Denied, Refused, Result, Table};
use crate::{READ, Range, WRITE};
use crate::{StateError, Stateid};
use backend::file::Handle;

/// The state from which a lock is taken.
#[derive(Debug, Clone, Copy)]
pub enum LockFrom<'a> {
    /// An open, and the lock owner.
    Open(Stateid, &'a [u8]),
    /// The state of a lock owner.
    Lock(Stateid),
}

impl Table {
    fn denied(&self, id: u64, range: Range, is_exclusive: bool) -> Option<Denied> {
        let state = self.states.get(&id)?;
        Some(Denied {
            range,
            is_exclusive,
            client: state.client,
            owner: state.owner.clone(),
        })
    }

    pub(crate) fn locker(&self, client: u64, owner: &[u8], file: Handle) -> Option<u64> {
        let lockers = &self.files.get(&file)?.lockers;
        lockers.get(&(client, owner.to_vec())).copied()
    }

    /// The lock that excludes a lock of this owner (LOCKT, §18.11).
    #[must_use]
    pub fn test_lock(
        &self,
        (client, owner): (u64, &[u8]),
        file: Handle,
        range: Range,
        is_exclusive: bool,
    ) -> Option<Denied> {
        // No state has the number 0.
        let own = self.locker(client, owner, file).unwrap_or(0);
        let ranges = &self.files.get(&file)?.ranges;
        let found = ranges.conflict(own, range, is_exclusive)?;
        self.denied(found.owner, found.range, found.is_exclusive)
    }

    /// LOCK (§18.10). Errors: `Lock`, `Mode`, those of a stateid; `Full` at a limit.
    pub fn lock(
        &mut self,
        client: u64,
        from: LockFrom<'_>,
        file: Handle,
        range: Range,
        is_exclusive: bool,
    ) -> Result<Stateid> {
        let (open_id, owner, existing) = match from {
            LockFrom::Open(stateid, owner) => {
                let (open, _) = self.find_open(client, &stateid, file)?;
                (open, owner.to_vec(), self.locker(client, owner, file))
            }
            LockFrom::Lock(stateid) => {
                let id = self.find(client, &stateid)?;
                match self.states.get(&id) {
                    Some(State {
                        kind: Kind::Lock(open),
                        owner,
                        file: of,
                        ..
                    }) if *of == file => (*open, owner.clone(), Some(id)),
                    _ => return Err(StateError::Unknown.into()),
                }
            }
        };
        let access = if is_exclusive { WRITE } else { READ };
        let (_, open) = self.open_of(open_id).ok_or(StateError::Unknown)?;
        if open.share().0 & access == 0 {
            return Err(StateError::Mode.into());
        }
        if let Some(denied) = self.test_lock((client, &owner), file, range, is_exclusive) {
            return Err(Refused::Lock(denied));
        }
        let locks = self.files.get(&file).map_or(0, |file| file.ranges.len());
        if locks >= FILE_LOCKS_MAX {
            return Err(Refused::Full(Some(file)));
        }
        let id = match existing {
            Some(id) => id,
            None => {
                self.check_room(client)?;
                self.new_locker(client, owner, file, open_id)
            }
        };
        if let Some(file) = self.files.get_mut(&file) {
            file.ranges.lock(id, range, is_exclusive);
        }
        if let Some(owner) = self.states.get(&id).map(|state| state.owner.clone()) {
            self.stop_waiting(file, client, &owner);
        }
        if !is_exclusive {
            // An exclusive lock may have become a shared one.
            self.locks_freed(file);
        }
        Ok(self.changed(id))
    }

    fn new_locker(&mut self, client: u64, owner: Vec<u8>, file: Handle, open: u64) -> u64 {
        let id = self.insert(State {
            client,
            owner,
            file,
            seqid: 0,
            kind: Kind::Lock(open),
        });
        if let Some(Kind::Open(open)) = self.states.get_mut(&open).map(|s| &mut s.kind) {
            open.lockers.insert(id);
        }
        id
    }

    /// The owner of a lock that is asked for.
    #[must_use]
    pub fn owner_of(&self, client: u64, from: LockFrom<'_>) -> Option<Vec<u8>> {
        match from {
            LockFrom::Open(_, owner) => Some(owner.to_vec()),
            LockFrom::Lock(stateid) => {
                let id = self.find(client, &stateid).ok()?;
                self.states.get(&id).map(|state| state.owner.clone())
            }
        }
    }

    /// LOCKU (§18.12). Errors: those of a stateid; `Full` if a lock would be cut in two at the limit of locks.
    pub fn unlock(
        &mut self,
        client: u64,
        stateid: &Stateid,
        file: Handle,
        range: Range,
    ) -> Result<Stateid> {
        let id = self.find(client, stateid)?;
        let state = self.states.get(&id);
        let is_locker = state.is_some_and(|s| matches!(s.kind, Kind::Lock(_)) && s.file == file);
        let locks = self.files.get_mut(&file).filter(|_| is_locker);
        let locks = &mut locks.ok_or(StateError::Unknown)?.ranges;
        if locks.len() >= FILE_LOCKS_MAX {
            let mut after = locks.clone();
            after.unlock(id, range);
            if after.len() > FILE_LOCKS_MAX {
                return Err(Refused::Full(Some(file)));
            }
            *locks = after;
        } else {
            locks.unlock(id, range);
        }
        self.locks_freed(file);
        Ok(self.changed(id))
    }
}
