//! LOCK, LOCKT, LOCKU (§18.10 to §18.12).
//!
//! **Invariants**: a request never waits here: a client that wants to wait is told when the lock is free (CB_NOTIFY_LOCK), and
//! asks again. A lock of a client whose lease has expired refuses nobody.

use super::context::Compound;
use super::context::Target;
use super::open::plain;
use crate::wire::files::{Lock, Locker};
use crate::wire::{Owner, Stateid, Status};
use crate::xdr::Xdr;
use filestate::{LockFrom, Range, Refused, Waiter};

/// `READ_LT` and `WRITE_LT`. The types that wait, `READW_LT` and `WRITEW_LT`, are these and 2.
const SHARED: u32 = 1;
const EXCLUSIVE: u32 = 2;

fn waits(kind: u32) -> bool {
    kind > EXCLUSIVE
}

fn is_exclusive(kind: u32) -> bool {
    kind.is_multiple_of(2)
}

fn range_of((offset, length): (u64, u64)) -> Result<Range, Status> {
    Range::of(offset, length).ok_or(Status::Inval)
}

impl Compound<'_> {
    /// The current file. Errors: `Isdir`, `Symlink`, `WrongType`.
    async fn locked_file(&self) -> Result<Target, Status> {
        let target = self.context.target(Status::Isdir)?;
        self.file_attributes(&target).await?;
        Ok(target)
    }

    /// LOCK (§18.10).
    pub(super) async fn lock(&mut self, args: &Lock<'_>) -> Result<(), Status> {
        let client = self.context.client()?;
        let target = self.locked_file().await?;
        let range = range_of((args.offset, args.length))?;
        match args.is_reclaim {
            true => self.check_reclaim(client)?,
            false if self.context.is_grace() => return Err(Status::Grace),
            false => {}
        }
        let from = match &args.locker {
            Locker::New(open, owner) => LockFrom::Open(self.context.stateid(open)?, owner.name),
            Locker::Existing(state) => LockFrom::Lock(self.context.stateid(state)?),
        };
        let exclusive = is_exclusive(args.kind);
        let is_told = waits(args.kind) && self.can_call(client);
        let shared = self.context.shared;
        let lock_or_wait = || {
            let mut states = shared.states.of_file(target.handle);
            let locked = states.lock(client, from, target.handle, range, exclusive);
            // In one step with the refusal: a lock that is freed afterwards finds the waiter.
            if is_told
                && matches!(locked, Err(Refused::Lock(_)))
                && let Some(owner) = states.owner_of(client, from)
            {
                let waiter = Waiter {
                    client,
                    owner,
                    file: target.handle,
                    export: target.export.config.id,
                    range,
                    is_exclusive: exclusive,
                };
                states.wait_for_lock(waiter, io::time::now());
            }
            locked
        };
        loop {
            match lock_or_wait() {
                Ok(stateid) => {
                    self.context.granted().await?;
                    self.context.current_stateid = Some(stateid);
                    stateid.encode(&mut self.out);
                    return Ok(());
                }
                Err(Refused::Lock(denied)) if shared.expire(denied.client, io::time::now()) => {}
                Err(Refused::Lock(denied)) => {
                    self.context.denied = Some(denied);
                    return Err(Status::Denied);
                }
                Err(Refused::Full(file)) if shared.make_state_room(file) => {}
                Err(refused) => return Err(plain(refused)),
            }
        }
    }

    /// LOCKT (§18.11).
    pub(super) async fn lockt(
        &mut self,
        kind: u32,
        bytes: (u64, u64),
        owner: &Owner<'_>,
    ) -> Result<(), Status> {
        let client = self.context.client()?;
        let target = self.locked_file().await?;
        let range = range_of(bytes)?;
        if self.context.is_grace() {
            return Err(Status::Grace);
        }
        loop {
            let shared = self.context.shared;
            let owner = (client, owner.name);
            let found = shared.states.of_file(target.handle).test_lock(
                owner,
                target.handle,
                range,
                is_exclusive(kind),
            );
            match found {
                None => return Ok(()),
                Some(denied) if shared.expire(denied.client, io::time::now()) => {}
                Some(denied) => {
                    self.context.denied = Some(denied);
                    return Err(Status::Denied);
                }
            }
        }
    }

    /// LOCKU (§18.12).
    pub(super) async fn locku(
        &mut self,
        stateid: &Stateid,
        bytes: (u64, u64),
    ) -> Result<(), Status> {
        let client = self.context.client()?;
        let target = self.locked_file().await?;
        let range = range_of(bytes)?;
        let stateid = self.context.stateid(stateid)?;
        let mut states = self.context.shared.states.of_file(target.handle);
        let unlocked = states.unlock(client, &stateid, target.handle, range);
        drop(states);
        let stateid = unlocked.map_err(plain)?;
        self.context.current_stateid = Some(stateid);
        stateid.encode(&mut self.out);
        Ok(())
    }

    /// Writes the lock that refused (`LOCK4denied`).
    pub(super) fn write_denied(&mut self) {
        if let Some(denied) = self.context.denied.take() {
            self.out.u64(denied.range.start);
            self.out.u64(denied.range.length());
            let kind = if denied.is_exclusive {
                EXCLUSIVE
            } else {
                SHARED
            };
            self.out.u32(kind);
            let owner = Owner {
                client: denied.client,
                name: &denied.owner,
            };
            owner.encode(&mut self.out);
        }
    }
}
