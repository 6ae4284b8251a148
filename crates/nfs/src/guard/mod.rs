//! Files of an export for users that are no clients of the service: their operations wait for delegations.
//!
//! **Owns** [`GuardedFiles`], a file system over another one; `user` has what one user of the server does in the tables. **Called by** FUSE mounts and other protocols, in place of the file
//! system itself. **Invariants**: a change takes effect only while no client has a delegation of the file, and none is granted
//! meanwhile; opens are in the table of all opens, so that share reservations of clients exclude them, and they exclude those; data and
//! attributes are read only while no client has a write delegation. A wait ends when the delegation is
//! returned or revoked, so after [`crate::service::ServiceConfig::recall_timeout`] at the latest. A directory's
//! listing has attributes from the server alone.

mod user;

use crate::shared::Shared;
use backend::file::{
    Access, Acl, Allocate, Attributes, Caller, Change, Done, FileBackend, FileError, FileLock,
    FileReply, Handle, Hold, Linked, Name, ReadData, RemoveKind, Removed, RenameMode, Renamed,
    Seek, SetAttributes, SetXattr, Stability, WriteAt, Written,
};
use io::SharedBuf;
use std::sync::Arc;
use user::{Guard, share_of};

/// A file system whose operations wait for delegations.
pub(crate) struct GuardedFiles {
    files: Arc<dyn FileBackend>,
    guard: Guard,
}

impl GuardedFiles {
    pub(crate) fn new(files: Arc<dyn FileBackend>, shared: Arc<Shared>) -> Self {
        Self {
            files,
            guard: Guard::new(shared),
        }
    }

    /// Runs an operation that changes a file.
    fn changing<T: Unpin + 'static>(
        &self,
        file: Handle,
        operation: impl FnOnce(&dyn FileBackend) -> FileReply<T> + 'static,
    ) -> FileReply<T> {
        let (files, guard) = (self.files.clone(), self.guard.clone());
        FileReply::later(async move {
            let _changing = guard.change(file).await;
            operation(&*files).await
        })
    }

    /// Runs an operation that reads a file.
    fn settled<T: Unpin + 'static>(
        &self,
        file: Handle,
        operation: impl FnOnce(&dyn FileBackend) -> FileReply<T> + 'static,
    ) -> FileReply<T> {
        if !self
            .guard
            .states()
            .of_file(file)
            .is_delegated(file, None, false)
        {
            return operation(&*self.files);
        }
        let (files, guard) = (self.files.clone(), self.guard.clone());
        FileReply::later(async move {
            guard.await_returns(file).await;
            operation(&*files).await
        })
    }
}

impl FileBackend for GuardedFiles {
    backend::pass_on! { files:
        limits, root, is_volatile, space, parent, access, create, read_link, read_directory,
        commit, commit_all, numbered, xattr, xattrs, acl, watch,
    }

    fn lookup(&self, caller: &Caller, directory: Handle, name: &Name) -> FileReply<Attributes> {
        if self.guard.states().delegations() == 0 {
            return self.files.lookup(caller, directory, name);
        }
        let (files, guard) = (self.files.clone(), self.guard.clone());
        let (caller, name) = (caller.clone(), name.clone());
        FileReply::later(async move {
            let found = files.lookup(&caller, directory, &name).await?;
            guard.await_returns(found.handle).await;
            files.attributes(found.handle).await
        })
    }

    fn attributes(&self, of: Handle) -> FileReply<Attributes> {
        self.settled(of, move |files| files.attributes(of))
    }

    fn set_attributes(
        &self,
        caller: &Caller,
        of: Handle,
        set: SetAttributes,
        stability: Stability,
    ) -> FileReply<Done<Change>> {
        let (files, guard) = (self.files.clone(), self.guard.clone());
        let caller = caller.clone();
        FileReply::later(async move {
            let _changing = guard.change(of).await;
            if set.size.is_some() {
                guard.check_share(of)?;
            }
            files.set_attributes(&caller, of, set, stability).await
        })
    }

    fn open(&self, caller: &Caller, of: Handle, access: Access) -> FileReply<Hold> {
        let wanted = share_of(access);
        if wanted == 0 {
            return self.files.open(caller, of, access);
        }
        let (files, guard) = (self.files.clone(), self.guard.clone());
        let caller = caller.clone();
        FileReply::later(async move {
            // Permission first: an open that fails recalls nothing.
            let hold = files.open(&caller, of, access).await?;
            guard.enter(of, wanted, hold).await
        })
    }

    fn link(
        &self,
        caller: &Caller,
        of: Handle,
        directory: Handle,
        name: &Name,
        stability: Stability,
    ) -> FileReply<Done<Linked>> {
        let (caller, name) = (caller.clone(), name.clone());
        self.changing(of, move |files| {
            files.link(&caller, of, directory, &name, stability)
        })
    }

    fn remove(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        kind: RemoveKind,
        stability: Stability,
    ) -> FileReply<Done<Removed>> {
        let (files, guard) = (self.files.clone(), self.guard.clone());
        let (caller, name) = (caller.clone(), name.clone());
        FileReply::later(async move {
            let changing = guard.change_name(&files, &caller, directory, &name);
            let _changing = changing.await;
            files
                .remove(&caller, directory, &name, kind, stability)
                .await
        })
    }

    fn rename(
        &self,
        caller: &Caller,
        from: Handle,
        old: &Name,
        to: Handle,
        new: &Name,
        mode: RenameMode,
        stability: Stability,
    ) -> FileReply<Done<Renamed>> {
        let (files, guard) = (self.files.clone(), self.guard.clone());
        let (caller, old, new) = (caller.clone(), old.clone(), new.clone());
        FileReply::later(async move {
            let _changing = guard.change_name(&files, &caller, from, &old).await;
            loop {
                let replaced = guard.change_name(&files, &caller, to, &new).await;
                // An object that comes to the name meanwhile is announced first.
                let now = match mode {
                    RenameMode::Replace => replaced.rename_mode(),
                    other => other,
                };
                let renamed = files.rename(&caller, from, &old, to, &new, now, stability);
                match renamed.await {
                    Err(FileError::Exists) if now != mode => {}
                    renamed => return renamed,
                }
            }
        })
    }

    fn read(&self, of: Handle, offset: u64, len: usize) -> FileReply<ReadData> {
        self.settled(of, move |files| files.read(of, offset, len))
    }

    fn write(
        &self,
        caller: &Caller,
        of: Handle,
        at: WriteAt,
        data: SharedBuf,
        stability: Stability,
    ) -> FileReply<Done<Written>> {
        let caller = caller.clone();
        self.changing(of, move |files| {
            files.write(&caller, of, at, data, stability)
        })
    }

    fn allocate(
        &self,
        caller: &Caller,
        of: Handle,
        range: std::ops::Range<u64>,
        how: Allocate,
        grows: bool,
    ) -> FileReply<Change> {
        let caller = caller.clone();
        self.changing(of, move |files| {
            files.allocate(&caller, of, range, how, grows)
        })
    }

    fn seek(&self, of: Handle, offset: u64, to: Seek) -> FileReply<u64> {
        self.settled(of, move |files| files.seek(of, offset, to))
    }

    fn seek_within(
        &self,
        of: Handle,
        range: std::ops::Range<u64>,
        to: Seek,
    ) -> FileReply<Option<u64>> {
        self.settled(of, move |files| files.seek_within(of, range, to))
    }

    fn copy(
        &self,
        caller: &Caller,
        from: (Handle, u64),
        to: (Handle, u64),
        len: u64,
    ) -> FileReply<u64> {
        let (files, guard) = (self.files.clone(), self.guard.clone());
        let caller = caller.clone();
        FileReply::later(async move {
            guard.await_returns(from.0).await;
            let _changing = guard.change(to.0).await;
            files.copy(&caller, from, to, len).await
        })
    }

    fn set_xattr(
        &self,
        caller: &Caller,
        of: Handle,
        name: &[u8],
        value: Option<Vec<u8>>,
        how: SetXattr,
        stability: Stability,
    ) -> FileReply<Done<Change>> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.changing(of, move |files| {
            files.set_xattr(&caller, of, &name, value, how, stability)
        })
    }

    fn set_acl(
        &self,
        caller: &Caller,
        of: Handle,
        acl: Option<Acl>,
        stability: Stability,
    ) -> FileReply<Done<Change>> {
        let caller = caller.clone();
        self.changing(of, move |files| files.set_acl(&caller, of, acl, stability))
    }

    fn keeps_locks(&self) -> bool {
        true
    }

    fn lock(&self, of: Handle, lock: FileLock) -> FileReply<Option<FileLock>> {
        let guard = self.guard.clone();
        FileReply::later(async move { guard.lock(of, lock).await })
    }

    fn test_lock(&self, of: Handle, lock: FileLock) -> FileReply<Option<FileLock>> {
        FileReply::now(Ok(self.guard.test_lock(of, lock)))
    }
}
