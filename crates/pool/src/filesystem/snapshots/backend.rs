//! The snapshot directory as a [`FileBackend`], as protocols see it.
//!
//! **Owns** the answer to each request in a virtual directory. **Called by** the protocols. **Invariant**: mutations outside of
//! the filesystem are refused.

use std::ops::Range;

use backend::file::{
    Access, Acl, Allocate, Attributes, Caller, Change, Cookie, Created, Done, FileBackend,
    FileError, FileLimits, FileReply, FileSpace, Handle, Hold, IfExists, Linked, Listing, Name,
    NewFile, ReadData, RemoveKind, Removed, RenameMode, Renamed, Seek, SetAttributes, SetXattr,
    Stability, Watch, WriteAt, Written,
};
use backend::{Durable, Reply};
use io::SharedBuf;

use super::directories::Virtual;
use super::dispatch::{Place, SnapshotDirectory, refused};
use super::source::{SnapshotVisibility, Snapshots};

fn is_directory<T>() -> FileReply<T> {
    Reply::now(Err(FileError::IsDirectory))
}

impl<L: FileBackend, S: Snapshots> FileBackend for SnapshotDirectory<L, S> {
    fn limits(&self) -> FileLimits {
        self.live().limits()
    }

    fn root(&self) -> Handle {
        self.live().root()
    }

    fn is_volatile(&self, directory: Handle) -> bool {
        matches!(self.place(directory), Place::Virtual(_))
    }

    fn space(&self, caller: &Caller) -> FileReply<FileSpace> {
        self.live().space(caller)
    }

    fn lookup(&self, caller: &Caller, directory: Handle, name: &Name) -> FileReply<Attributes> {
        match self.place(directory) {
            Place::Live if self.is_control(directory, name) => {
                Reply::now(Ok(self.attributes_of(Virtual::Control)))
            }
            Place::Live => self.live().lookup(caller, directory, name),
            Place::Virtual(directory) => self.lookup_virtual(directory, name),
            Place::Snapshot => {
                let (caller, name) = (caller.clone(), name.clone());
                self.ask(directory, move |files| {
                    files.lookup(&caller, directory, &name)
                })
            }
        }
    }

    fn parent(&self, caller: &Caller, directory: Handle) -> FileReply<Attributes> {
        match self.place(directory) {
            Place::Live => self.live().parent(caller, directory),
            Place::Virtual(Virtual::Control) => self.live().attributes(self.root()),
            Place::Virtual(Virtual::Snapshots) => {
                Reply::now(Ok(self.attributes_of(Virtual::Control)))
            }
            Place::Snapshot if !self.source().exists(directory.filesystem) => {
                Reply::now(Err(FileError::Stale))
            }
            Place::Snapshot if directory == self.root_of(directory.filesystem) => {
                Reply::now(Ok(self.attributes_of(Virtual::Snapshots)))
            }
            Place::Snapshot => {
                let caller = caller.clone();
                self.ask(directory, move |files| files.parent(&caller, directory))
            }
        }
    }

    fn attributes(&self, of: Handle) -> FileReply<Attributes> {
        match self.place(of) {
            Place::Live => self.live().attributes(of),
            Place::Virtual(directory) => Reply::now(Ok(self.attributes_of(directory))),
            Place::Snapshot => self.ask(of, move |files| files.attributes(of)),
        }
    }

    fn numbered(&self, object: u64) -> FileReply<Attributes> {
        self.live().numbered(object)
    }

    fn set_attributes(
        &self,
        caller: &Caller,
        of: Handle,
        set: SetAttributes,
        stability: Stability,
    ) -> FileReply<Done<Change>> {
        self.mutate(of, |live| live.set_attributes(caller, of, set, stability))
    }

    fn access(&self, caller: &Caller, of: Handle, wanted: Access) -> FileReply<Access> {
        match self.place(of) {
            Place::Live => self.live().access(caller, of, wanted),
            Place::Virtual(_) => Reply::now(Ok(Virtual::access(wanted))),
            Place::Snapshot => {
                let caller = caller.clone();
                self.ask(of, move |files| files.access(&caller, of, wanted))
            }
        }
    }

    fn open(&self, caller: &Caller, of: Handle, access: Access) -> FileReply<Hold> {
        match self.place(of) {
            Place::Live => self.live().open(caller, of, access),
            Place::Virtual(_) => is_directory(),
            Place::Snapshot => {
                let caller = caller.clone();
                self.ask(of, move |files| files.open(&caller, of, access))
            }
        }
    }

    fn create(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        new: NewFile,
        if_exists: IfExists,
        stability: Stability,
    ) -> FileReply<Done<Created>> {
        match self.is_control(directory, name) {
            true => Reply::now(Err(FileError::Exists)),
            false => self.mutate(directory, |live| {
                live.create(caller, directory, name, new, if_exists, stability)
            }),
        }
    }

    fn read_link(&self, of: Handle) -> FileReply<Vec<u8>> {
        match self.place(of) {
            Place::Live => self.live().read_link(of),
            Place::Virtual(_) => Reply::now(Err(FileError::Invalid)),
            Place::Snapshot => self.ask(of, move |files| files.read_link(of)),
        }
    }

    fn link(
        &self,
        caller: &Caller,
        of: Handle,
        directory: Handle,
        name: &Name,
        stability: Stability,
    ) -> FileReply<Done<Linked>> {
        match (self.is_control(directory, name), self.place(of)) {
            (true, _) => Reply::now(Err(FileError::Exists)),
            (false, Place::Live) => self.mutate(directory, |live| {
                live.link(caller, of, directory, name, stability)
            }),
            (false, Place::Virtual(_) | Place::Snapshot) => self.mutate(of, |_| refused()),
        }
    }

    fn remove(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        kind: RemoveKind,
        stability: Stability,
    ) -> FileReply<Done<Removed>> {
        self.mutate_name(directory, name, |live| {
            live.remove(caller, directory, name, kind, stability)
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
        self.mutate_name(from, old, |live| {
            self.mutate_name(to, new, |_| {
                live.rename(caller, from, old, to, new, mode, stability)
            })
        })
    }

    fn read_directory(
        &self,
        caller: &Caller,
        directory: Handle,
        after: Cookie,
        entries_max: usize,
        with_attributes: bool,
    ) -> FileReply<Listing> {
        match self.place(directory) {
            Place::Live => {
                let live = self.live();
                let has_control = self.visibility() == SnapshotVisibility::Visible
                    && directory == live.root()
                    && Virtual::is_before(after);
                match has_control {
                    true => self.list_with_control(caller, entries_max, with_attributes),
                    false => {
                        live.read_directory(caller, directory, after, entries_max, with_attributes)
                    }
                }
            }
            Place::Virtual(directory) => {
                Reply::now(Ok(self.list_virtual(directory, after, entries_max)))
            }
            Place::Snapshot => {
                let caller = caller.clone();
                self.ask(directory, move |files| {
                    files.read_directory(&caller, directory, after, entries_max, with_attributes)
                })
            }
        }
    }

    fn read(&self, of: Handle, offset: u64, len: usize) -> FileReply<ReadData> {
        match self.place(of) {
            Place::Live => self.live().read(of, offset, len),
            Place::Virtual(_) => is_directory(),
            Place::Snapshot => self.ask(of, move |files| files.read(of, offset, len)),
        }
    }

    fn write(
        &self,
        caller: &Caller,
        of: Handle,
        at: WriteAt,
        data: SharedBuf,
        stability: Stability,
    ) -> FileReply<Done<Written>> {
        self.mutate(of, |live| live.write(caller, of, at, data, stability))
    }

    fn commit(&self, of: Handle) -> FileReply<Durable> {
        self.mutate(of, |live| live.commit(of))
    }

    fn commit_all(&self) -> FileReply<Durable> {
        self.live().commit_all()
    }

    fn allocate(
        &self,
        caller: &Caller,
        of: Handle,
        range: Range<u64>,
        how: Allocate,
        grows: bool,
    ) -> FileReply<Change> {
        self.mutate(of, |live| live.allocate(caller, of, range, how, grows))
    }

    fn seek(&self, of: Handle, offset: u64, to: Seek) -> FileReply<u64> {
        match self.place(of) {
            Place::Live => self.live().seek(of, offset, to),
            Place::Virtual(_) => is_directory(),
            Place::Snapshot => self.ask(of, move |files| files.seek(of, offset, to)),
        }
    }

    fn seek_within(&self, of: Handle, range: Range<u64>, to: Seek) -> FileReply<Option<u64>> {
        match self.place(of) {
            Place::Live => self.live().seek_within(of, range, to),
            Place::Virtual(_) => is_directory(),
            Place::Snapshot => self.ask(of, move |files| files.seek_within(of, range, to)),
        }
    }

    fn copy(
        &self,
        caller: &Caller,
        from: (Handle, u64),
        to: (Handle, u64),
        len: u64,
    ) -> FileReply<u64> {
        match self.place(from.0) {
            Place::Live => self.mutate(to.0, |live| live.copy(caller, from, to, len)),
            Place::Virtual(_) => is_directory(),
            Place::Snapshot => self.mutate(to.0, |_| self.copy_out(caller, from, to, len)),
        }
    }

    fn xattr(&self, caller: &Caller, of: Handle, name: &[u8]) -> FileReply<Vec<u8>> {
        match self.place(of) {
            Place::Live => self.live().xattr(caller, of, name),
            Place::Virtual(_) => Reply::now(Err(FileError::NoAttribute)),
            Place::Snapshot => {
                let (caller, name) = (caller.clone(), name.to_vec());
                self.ask(of, move |files| files.xattr(&caller, of, &name))
            }
        }
    }

    fn xattrs(&self, caller: &Caller, of: Handle) -> FileReply<Vec<Vec<u8>>> {
        match self.place(of) {
            Place::Live => self.live().xattrs(caller, of),
            Place::Virtual(_) => Reply::now(Ok(Vec::new())),
            Place::Snapshot => {
                let caller = caller.clone();
                self.ask(of, move |files| files.xattrs(&caller, of))
            }
        }
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
        self.mutate(of, |live| {
            live.set_xattr(caller, of, name, value, how, stability)
        })
    }

    fn acl(&self, of: Handle) -> FileReply<Option<Acl>> {
        match self.place(of) {
            Place::Live => self.live().acl(of),
            Place::Virtual(_) => Reply::now(Ok(None)),
            Place::Snapshot => self.ask(of, move |files| files.acl(of)),
        }
    }

    fn set_acl(
        &self,
        caller: &Caller,
        of: Handle,
        acl: Option<Acl>,
        stability: Stability,
    ) -> FileReply<Done<Change>> {
        self.mutate(of, |live| live.set_acl(caller, of, acl, stability))
    }

    fn watch(&self, directory: Handle) -> FileReply<Watch> {
        match self.place(directory) {
            Place::Live => self.live().watch(directory),
            Place::Virtual(_) => Reply::now(Err(FileError::Unsupported)),
            Place::Snapshot => self.ask(directory, move |files| files.watch(directory)),
        }
    }
}
