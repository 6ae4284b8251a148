//! A user of files on the server: changes, opens and locks in the tables that clients use, too.
//!
//! **Owns** [`Guard`]. **Called by** [`super::GuardedFiles`]. **Invariants**: opens and locks are of [`NO_CLIENT`]; nothing is changed or locked before the
//! grace period has ended; no table is locked across a wait.

use crate::shared::{Changing, NameChange, RECALL_PAUSE, Shared};
use crate::wire::Stateid;
use backend::StorageError;
use backend::file::{
    Access, Caller, FileBackend, FileError, FileLock, FileResult, Handle, Hold, LockKind, Name,
};
use filestate::{Denied, NO_CLIENT, OpenArgs, READ, Range, Refused, States, WRITE};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers of opens of users on the server, and of mounts, so far.
static OPENS: AtomicU64 = AtomicU64::new(0);

/// The bits of share reservations of an open with this access.
pub(super) fn share_of(access: Access) -> u32 {
    let reads = access.has(Access::READ) || access.has(Access::EXECUTE);
    let read = if reads { READ } else { 0 };
    let write = if access.has(Access::WRITE) { WRITE } else { 0 };
    read | write
}

/// What all users of the files share, and the number of the mount.
#[derive(Clone)]
pub(super) struct Guard {
    shared: Arc<Shared>,
    /// Distinguishes owners of locks of two mounts.
    mount: u64,
}

impl Guard {
    /// A new user, such as a mount.
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            mount: OPENS.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// The table of opens, locks and delegations.
    pub(super) fn states(&self) -> &States {
        &self.shared.states
    }

    /// A change of a file begins, after the grace period.
    pub(super) async fn change(&self, file: Handle) -> Changing {
        self.pass_grace().await;
        self.shared.change_soon(file, None).await
    }

    /// Enters an open of a user on the server, beside those of clients: share reservations hold for both. Errors: `Busy` if the
    /// reservation of a client excludes it.
    pub(super) async fn enter(&self, file: Handle, access: u32, hold: Hold) -> FileResult<Hold> {
        if access & WRITE != 0 {
            self.pass_grace().await;
        }
        let owner = OPENS.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let args = OpenArgs {
            client: NO_CLIENT,
            owner: &owner,
            file,
            access,
            deny: 0,
            truncates: false,
        };
        loop {
            // The file itself is kept by the caller's hold, also while no client may use it.
            let entered = self
                .shared
                .states
                .of_file(file)
                .open(&args, &mut Some(Hold::new(|| {})));
            match entered {
                Ok(stateid) => {
                    let shared = self.shared.clone();
                    return Ok(Hold::new(move || {
                        let closed = shared.states.of_file(file).close(NO_CLIENT, &stateid, file);
                        drop((closed, hold));
                    }));
                }
                Err(Refused::Share(client)) if self.shared.expire(client, io::time::now()) => {}
                Err(Refused::Full(of)) if self.shared.make_state_room(of) => {}
                // Clients have used the limits up: the open goes on without an entry.
                Err(Refused::Full(_)) => return Ok(hold),
                Err(Refused::Delegation) => {
                    self.shared.recall(file, Some(NO_CLIENT), args.is_change());
                    io::time::sleep(RECALL_PAUSE).await;
                }
                Err(Refused::Share(_) | Refused::Lock(_) | Refused::State(_)) => {
                    return Err(FileError::Busy);
                }
            }
        }
    }

    /// Whether a file may be cut without an open. Errors: `Busy` if the reservation of a client excludes it.
    pub(super) fn check_share(&self, file: Handle) -> FileResult<()> {
        match self
            .shared
            .check_io(NO_CLIENT, &Stateid::ANONYMOUS, file, true)
        {
            Err(Refused::Share(_)) => Err(FileError::Busy),
            _ => Ok(()),
        }
    }

    /// Waits while clients may reclaim state that would exclude a change.
    async fn pass_grace(&self) {
        while self.shared.grace().is_active(io::time::now()) {
            io::time::sleep(RECALL_PAUSE).await;
        }
    }

    /// Waits until no client may have data of the file that the server does not have.
    pub(super) async fn await_returns(&self, file: Handle) {
        while self
            .shared
            .states
            .of_file(file)
            .is_delegated(file, None, false)
        {
            self.shared.recall(file, None, false);
            io::time::sleep(RECALL_PAUSE).await;
        }
    }

    /// A change of the object of a name begins, if there is one.
    pub(super) async fn change_name(
        &self,
        files: &Arc<dyn FileBackend>,
        caller: &Caller,
        directory: Handle,
        name: &Name,
    ) -> NameChange {
        self.pass_grace().await;
        loop {
            let at = (caller, directory, name);
            match self.shared.change_name(&**files, at, None).await {
                NameChange::Excluded => io::time::sleep(RECALL_PAUSE).await,
                change => return change,
            }
        }
    }
}

impl Guard {
    fn owner_of(&self, lock: &FileLock) -> [u8; 16] {
        (u128::from(self.mount) << 64 | u128::from(lock.owner)).to_be_bytes()
    }

    /// Locks or unlocks bytes, after the grace period: clients reclaim their locks first. Returns the lock that is in the way.
    pub(super) async fn lock(&self, file: Handle, lock: FileLock) -> FileResult<Option<FileLock>> {
        let (owner, range) = (self.owner_of(&lock), range_of(&lock));
        if lock.kind == LockKind::Unlocked {
            self.shared
                .states
                .of_file(file)
                .unlock_local(&owner, file, range);
            self.shared.wake_lockers();
            return Ok(None);
        }
        self.pass_grace().await;
        let is_exclusive = lock.kind == LockKind::Exclusive;
        loop {
            let mut states = self.shared.states.of_file(file);
            let locked = states.lock_local(&owner, file, range, is_exclusive);
            drop(states);
            match locked {
                Ok(()) => {
                    self.shared.wake_lockers();
                    return Ok(None);
                }
                Err(Refused::Lock(denied)) if self.expires(&denied) => {}
                Err(Refused::Lock(denied)) => return Ok(Some(self.denying(&denied))),
                Err(Refused::Full(of)) if self.shared.make_state_room(of) => {}
                Err(_) => return Err(FileError::Storage(StorageError::Exhausted)),
            }
        }
    }

    /// The lock that would be in the way.
    pub(super) fn test_lock(&self, file: Handle, lock: FileLock) -> Option<FileLock> {
        let (owner, range) = (self.owner_of(&lock), range_of(&lock));
        let is_exclusive = lock.kind == LockKind::Exclusive;
        loop {
            let states = self.shared.states.of_file(file);
            let denied = states.test_local(&owner, file, range, is_exclusive);
            drop(states);
            match denied {
                Some(denied) if self.expires(&denied) => {}
                denied => return denied.map(|denied| self.denying(&denied)),
            }
        }
    }

    /// A lock of another owner, who has a number if it is one of this mount.
    fn denying(&self, denied: &Denied) -> FileLock {
        let owner = <[u8; 16]>::try_from(&*denied.owner).map(u128::from_be_bytes);
        let owner = owner.ok().filter(|_| denied.client == NO_CLIENT);
        let of_mount = owner.filter(|owner| (owner >> 64) as u64 == self.mount);
        FileLock {
            owner: of_mount.map_or(0, |owner| owner as u64),
            start: denied.range.start,
            end: denied.range.end,
            kind: match denied.is_exclusive {
                true => LockKind::Exclusive,
                false => LockKind::Shared,
            },
        }
    }

    /// Whether the client of a lock has no lease and lost it.
    fn expires(&self, denied: &Denied) -> bool {
        self.shared.expire(denied.client, io::time::now())
    }
}

fn range_of(lock: &FileLock) -> Range {
    Range {
        start: lock.start,
        end: lock.end,
    }
}
