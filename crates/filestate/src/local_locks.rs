//! Byte-range locks of programs on the server, through a mount, in the table of all locks.
//!
//! **Owns** their operations of [`Table`]. **Called by** mounts of the server. **Invariants**: such a lock belongs to no open and no
//! client ([`NO_CLIENT`]); its state goes with the owner's last lock of the file. The kernel has checked how the file was opened.

use crate::entry::{Kind, State};
use crate::limits::FILE_LOCKS_MAX;
use crate::table::{Denied, Refused, Result, Table};
use crate::{NO_CLIENT, Range};
use backend::file::Handle;

/// The number of no open.
const NO_OPEN: u64 = 0;

impl Table {
    /// Locks bytes. Errors: `Lock`; `Full` at a limit.
    pub fn lock_local(
        &mut self,
        owner: &[u8],
        file: Handle,
        range: Range,
        is_exclusive: bool,
    ) -> Result<()> {
        if let Some(denied) = self.test_local(owner, file, range, is_exclusive) {
            return Err(Refused::Lock(denied));
        }
        let locks = self.files.get(&file).map_or(0, |file| file.ranges.len());
        if locks >= FILE_LOCKS_MAX {
            return Err(Refused::Full(Some(file)));
        }
        let id = match self.locker(NO_CLIENT, owner, file) {
            Some(id) => id,
            None => {
                self.check_room(NO_CLIENT)?;
                self.insert(State {
                    client: NO_CLIENT,
                    owner: owner.to_vec(),
                    file,
                    seqid: 1,
                    kind: Kind::Lock(NO_OPEN),
                })
            }
        };
        if let Some(of) = self.files.get_mut(&file) {
            of.ranges.lock(id, range, is_exclusive);
        }
        if !is_exclusive {
            // An exclusive lock became a shared one.
            self.locks_freed(file);
        }
        Ok(())
    }

    /// Unlocks bytes. A lock that is cut in two at the limit of locks counts beyond it.
    pub fn unlock_local(&mut self, owner: &[u8], file: Handle, range: Range) {
        let Some(id) = self.locker(NO_CLIENT, owner, file) else {
            return;
        };
        let is_left = self.files.get_mut(&file).is_some_and(|of| {
            of.ranges.unlock(id, range);
            of.ranges.holds(id)
        });
        self.locks_freed(file);
        if !is_left {
            self.remove(id);
        }
    }

    /// The lock that excludes a lock of this owner.
    #[must_use]
    pub fn test_local(
        &self,
        owner: &[u8],
        file: Handle,
        range: Range,
        is_exclusive: bool,
    ) -> Option<Denied> {
        self.test_lock((NO_CLIENT, owner), file, range, is_exclusive)
    }
}
