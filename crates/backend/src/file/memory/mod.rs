//! A file system in memory: the reference for every other one, and an export that lives in RAM.
//!
//! **Owns** [`MemoryFiles`]. **Called by** protocols through [`FileBackend`], and by tests that compare another file system
//! with it. **Invariants**: one lock around everything, so each operation is one step; no reply waits. Its memory is bounded
//! by [`MemoryOptions::space_max`]. Contents end with the process: it reports no volatile cache, as the RAM disk. POSIX.1-2017;
//! Linux's manual pages where POSIX leaves it open.

mod attributes;
mod contents;
mod data;
mod names;
mod object;
mod rename;
mod state;
#[cfg(test)]
mod tests;

pub use state::MemoryOptions;

use std::ops::Range;
use std::sync::{Arc, Mutex};

use io::SharedBuf;
use io::sync::lock;

use super::{
    Access, Acl, Allocate, Attributes, Caller, Change, Cookie, Created, Done, FileBackend,
    FileLimits, FileReply, FileResult, FileSpace, Handle, Hold, IfExists, Linked, Listing, Name,
    NewFile, ReadData, RemoveKind, Removed, RenameMode, Renamed, Seek, SetAttributes, SetXattr,
    Stability, Watch, WriteAt, Written, permission,
};
use crate::{Durable, Reply};
use data::BLOCK;
use state::{FilesInMemory, ROOT};

/// Mode of a new root directory.
const ROOT_MODE: u16 = 0o755;

/// A file system in RAM. Clones share it.
#[derive(Clone)]
pub struct MemoryFiles(Arc<Mutex<FilesInMemory>>);

impl MemoryFiles {
    /// An empty file system: a root directory of the superuser. Must be called in a runtime: it takes a random generation, so
    /// that handles of an earlier one are stale.
    #[must_use]
    pub fn new(options: MemoryOptions) -> Self {
        let state = FilesInMemory::new(options, io::rng::u64(), ROOT_MODE);
        Self(Arc::new(Mutex::new(state)))
    }

    /// Whether the file system says that it is read-only from now on. Its operations do not refuse by themselves.
    pub fn set_read_only(&self, is_read_only: bool) {
        lock(&self.0).is_read_only = is_read_only;
    }

    /// Requests that everything becomes durable, so far.
    #[must_use]
    pub fn commits(&self) -> u64 {
        lock(&self.0).commits
    }

    /// The reply of an operation that only reads.
    fn get<T>(&self, operation: impl FnOnce(&mut FilesInMemory) -> FileResult<T>) -> FileReply<T> {
        Reply::now(operation(&mut lock(&self.0)))
    }

    /// The reply of a mutation: it is as durable as it gets.
    fn change<T>(
        &self,
        operation: impl FnOnce(&mut FilesInMemory) -> FileResult<T>,
    ) -> FileReply<Done<T>> {
        self.get(|state| {
            Ok(Done {
                value: operation(state)?,
                durable: Some(Durable::of_ram()),
            })
        })
    }
}

impl FileBackend for MemoryFiles {
    fn limits(&self) -> FileLimits {
        // One guard: a second one in the same expression would wait for the first for ever.
        let state = lock(&self.0);
        let options = state.options;
        FileLimits {
            links_max: options.links_max,
            record_size: BLOCK as u32,
            is_case_insensitive: false,
            is_read_only: state.is_read_only,
            has_acls: true,
            acl_rules: options.acl_rules,
        }
    }

    fn root(&self) -> Handle {
        lock(&self.0).handle(ROOT)
    }

    fn space(&self, _caller: &Caller) -> FileReply<FileSpace> {
        self.get(|state| Ok(state.space()))
    }

    fn lookup(&self, caller: &Caller, directory: Handle, name: &Name) -> FileReply<Attributes> {
        self.get(|state| state.lookup(caller, directory, name))
    }

    fn parent(&self, caller: &Caller, directory: Handle) -> FileReply<Attributes> {
        self.get(|state| state.parent(caller, directory))
    }

    fn attributes(&self, of: Handle) -> FileReply<Attributes> {
        self.get(|state| Ok(state.attributes(state.number(of)?)))
    }

    fn set_attributes(
        &self,
        caller: &Caller,
        of: Handle,
        set: SetAttributes,
        _stability: Stability,
    ) -> FileReply<Done<Change>> {
        self.change(|state| state.set_attributes(caller, of, &set))
    }

    fn access(&self, caller: &Caller, of: Handle, wanted: Access) -> FileReply<Access> {
        self.get(|state| {
            let object = state.get(state.number(of)?);
            Ok(permission::access(caller, &object.permissions(), wanted))
        })
    }

    fn open(&self, caller: &Caller, of: Handle, access: Access) -> FileReply<Hold> {
        self.get(|state| {
            let number = state.open(caller, of, access)?;
            let shared = self.0.clone();
            Ok(Hold::new(move || lock(&shared).unhold(number)))
        })
    }

    fn create(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        new: NewFile,
        if_exists: IfExists,
        _stability: Stability,
    ) -> FileReply<Done<Created>> {
        self.change(|state| state.create(caller, directory, name, new, if_exists))
    }

    fn read_link(&self, of: Handle) -> FileReply<Vec<u8>> {
        self.get(|state| state.read_link(of))
    }

    fn link(
        &self,
        caller: &Caller,
        of: Handle,
        directory: Handle,
        name: &Name,
        _stability: Stability,
    ) -> FileReply<Done<Linked>> {
        self.change(|state| state.link(caller, of, directory, name))
    }

    fn remove(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        kind: RemoveKind,
        _stability: Stability,
    ) -> FileReply<Done<Removed>> {
        self.change(|state| state.remove(caller, directory, name, kind))
    }

    fn rename(
        &self,
        caller: &Caller,
        from: Handle,
        old: &Name,
        to: Handle,
        new: &Name,
        mode: RenameMode,
        _stability: Stability,
    ) -> FileReply<Done<Renamed>> {
        self.change(|state| state.rename(caller, (from, old), (to, new), mode))
    }

    fn read_directory(
        &self,
        caller: &Caller,
        directory: Handle,
        after: Cookie,
        entries_max: usize,
        with_attributes: bool,
    ) -> FileReply<Listing> {
        self.get(|state| state.list(caller, directory, after, entries_max, with_attributes))
    }

    fn read(&self, of: Handle, offset: u64, len: usize) -> FileReply<ReadData> {
        self.get(|state| state.read(of, offset, len))
    }

    fn write(
        &self,
        caller: &Caller,
        of: Handle,
        at: WriteAt,
        data: SharedBuf,
        _stability: Stability,
    ) -> FileReply<Done<Written>> {
        self.change(|state| state.write(caller, of, at, &data))
    }

    fn commit(&self, of: Handle) -> FileReply<Durable> {
        self.get(|state| state.number(of).map(|_| Durable::of_ram()))
    }

    fn commit_all(&self) -> FileReply<Durable> {
        lock(&self.0).commits += 1;
        Reply::now(Ok(Durable::of_ram()))
    }

    fn allocate(
        &self,
        caller: &Caller,
        of: Handle,
        range: Range<u64>,
        how: Allocate,
        grows: bool,
    ) -> FileReply<Change> {
        self.get(|state| state.allocate(caller, of, range, how, grows))
    }

    fn seek(&self, of: Handle, offset: u64, to: Seek) -> FileReply<u64> {
        self.get(|state| state.seek(of, offset, to))
    }

    fn seek_within(&self, of: Handle, range: Range<u64>, to: Seek) -> FileReply<Option<u64>> {
        self.get(|state| state.seek_within(of, range, to))
    }

    fn copy(
        &self,
        caller: &Caller,
        from: (Handle, u64),
        to: (Handle, u64),
        len: u64,
    ) -> FileReply<u64> {
        self.get(|state| state.copy(caller, from, to, len))
    }

    fn xattr(&self, caller: &Caller, of: Handle, name: &[u8]) -> FileReply<Vec<u8>> {
        self.get(|state| state.xattr(caller, of, name))
    }

    fn xattrs(&self, caller: &Caller, of: Handle) -> FileReply<Vec<Vec<u8>>> {
        self.get(|state| state.xattrs(caller, of))
    }

    fn set_xattr(
        &self,
        caller: &Caller,
        of: Handle,
        name: &[u8],
        value: Option<Vec<u8>>,
        how: SetXattr,
        _stability: Stability,
    ) -> FileReply<Done<Change>> {
        self.change(|state| state.set_xattr(caller, of, name, value, how))
    }

    fn acl(&self, of: Handle) -> FileReply<Option<Acl>> {
        self.get(|state| state.acl(of))
    }

    fn set_acl(
        &self,
        caller: &Caller,
        of: Handle,
        acl: Option<Acl>,
        _stability: Stability,
    ) -> FileReply<Done<Change>> {
        self.change(|state| state.set_acl(caller, of, acl))
    }

    fn watch(&self, directory: Handle) -> FileReply<Watch> {
        self.get(|state| state.hub.watch(state.directory_number(directory)?))
    }
}
