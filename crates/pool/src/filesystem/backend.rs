//! The filesystem as a [`FileBackend`], as protocols see it.
//!
//! **Owns** [`FileSystem`], and the order of steps of each request: read-only check, place in line, operation, end of the turn,
//! durability. **Called by** the protocols. **Invariants**: a mutation takes its place in line when it is requested, not when
//! its reply is awaited; nobody waits for stable storage in a turn.

use std::ops::Range;
use std::sync::Arc;

use backend::file::{
    Access, Acl, Allocate, Attributes, Caller, Change, Cookie, Created, Done, FileBackend,
    FileError, FileLimits, FileReply, FileResult, FileSpace, Handle, Hold, IfExists, Linked,
    Listing, Name, NewFile, ReadData, RemoveKind, Removed, RenameMode, Renamed, Seek,
    SetAttributes, SetXattr, Stability, Watch, WriteAt, Written,
};
use backend::{Durable, Reply, Turn};
use io::SharedBuf;

use super::create::LINKS_MAX;
use super::inner::Inner;
use super::opening;
use super::store::Store;
use crate::format::ObjectId;

/// Bytes that a new object takes at least, for the estimate of how many can still be created.
const OBJECT_BYTES: u64 = 512;

/// An open filesystem. Clones share it.
pub struct FileSystem<S>(Arc<Inner<S>>);

impl<S> Clone for FileSystem<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Store> FileSystem<S> {
    /// Opens a filesystem. `id` is its number in handles. The caller runs [`FileSystem::free_orphans`].
    ///
    /// # Errors
    /// `Corrupt` if it is none; errors of the medium.
    pub async fn open(store: S, id: u64) -> FileResult<Self> {
        Ok(Self(Arc::new(opening::open(store, id).await?)))
    }

    /// Frees the space of removed files, also of files that were removed before a crash, as long as it is polled.
    pub async fn free_orphans(self) {
        self.0.free_orphans().await;
    }

    /// Counts the space of files whose inodes do not say that it is exact: those of earlier releases, and those whose data was lost
    /// in a crash. Files may be changed meanwhile. Returns the number of files that were counted.
    ///
    /// # Errors
    /// `ReadOnly`, those of the medium. What was counted stays counted.
    pub async fn count_space(&self) -> FileResult<u64> {
        self.0.count_space().await
    }

    /// Frees the space of one removed file. Returns whether there was one.
    ///
    /// # Errors
    /// Those of the medium.
    pub async fn free_orphan(&self) -> FileResult<bool> {
        self.0.free_orphan().await
    }

    /// The dataset.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// The reply of an operation that changes nothing.
    fn get<T, F>(&self, operation: impl FnOnce(Arc<Inner<S>>) -> F) -> FileReply<T>
    where
        T: 'static,
        F: Future<Output = FileResult<T>> + 'static,
    {
        Reply::later(operation(self.0.clone()))
    }

    /// The reply of a mutation, in a turn.
    fn change<T, F>(
        &self,
        turn: FileResult<Turn>,
        operation: impl FnOnce(Arc<Inner<S>>) -> F,
    ) -> FileReply<T>
    where
        T: 'static,
        F: Future<Output = FileResult<T>> + 'static,
    {
        if self.0.store.settings().is_read_only {
            return Reply::now(Err(FileError::ReadOnly));
        }
        match turn {
            Err(error) => Reply::now(Err(error)),
            Ok(mut turn) => {
                let operation = operation(self.0.clone());
                Reply::later(async move {
                    turn.come().await;
                    operation.await
                })
            }
        }
    }

    /// The reply of a mutation of an object, in its turn, and durable if that is wanted.
    fn mutate<T, F>(
        &self,
        of: Handle,
        stability: Stability,
        operation: impl FnOnce(Arc<Inner<S>>) -> F,
    ) -> FileReply<Done<T>>
    where
        T: 'static,
        F: Future<Output = FileResult<T>> + 'static,
    {
        let done = self.change(self.0.turn(of), operation);
        self.finished(done, stability, of)
    }

    /// Waits for stable storage, if that is wanted, after the turn.
    fn finished<T: 'static>(
        &self,
        done: FileReply<T>,
        stability: Stability,
        of: Handle,
    ) -> FileReply<Done<T>> {
        let inner = self.0.clone();
        match done {
            Reply::Ready(result) => Reply::Ready(result.map(|result| {
                result.map(|value| Done {
                    value,
                    durable: None,
                })
            })),
            Reply::Later(done) => Reply::later(async move {
                let value = done.await?;
                inner.finish(value, stability, ObjectId(of.object)).await
            }),
        }
    }
}

impl<S: Store> FileBackend for FileSystem<S> {
    fn limits(&self) -> FileLimits {
        let settings = self.0.store.settings();
        FileLimits {
            links_max: LINKS_MAX,
            record_size: settings.record_size,
            is_case_insensitive: self.0.names.is_case_insensitive(),
            is_read_only: settings.is_read_only,
            has_acls: settings.has_acls,
            acl_rules: settings.acl_rules,
        }
    }

    fn root(&self) -> Handle {
        self.0.root()
    }

    fn space(&self, _caller: &Caller) -> FileReply<FileSpace> {
        let space = self.0.store.space();
        Reply::now(Ok(FileSpace {
            total: space.used.saturating_add(space.available),
            available: space.available,
            files: self.0.numbers.files(),
            files_available: space.available / OBJECT_BYTES,
        }))
    }

    fn lookup(&self, caller: &Caller, directory: Handle, name: &Name) -> FileReply<Attributes> {
        let (caller, name) = (caller.clone(), name.clone());
        self.get(|inner| async move { inner.lookup(&caller, directory, &name).await })
    }

    fn parent(&self, caller: &Caller, directory: Handle) -> FileReply<Attributes> {
        let caller = caller.clone();
        self.get(|inner| async move { inner.parent(&caller, directory).await })
    }

    fn attributes(&self, of: Handle) -> FileReply<Attributes> {
        self.get(|inner| async move {
            let inode = inner.inode(of).await?;
            Ok(inner.attributes_of(ObjectId(of.object), &inode))
        })
    }

    fn numbered(&self, object: u64) -> FileReply<Attributes> {
        self.get(|inner| async move { inner.numbered(object).await })
    }

    fn set_attributes(
        &self,
        caller: &Caller,
        of: Handle,
        set: SetAttributes,
        stability: Stability,
    ) -> FileReply<Done<Change>> {
        let caller = caller.clone();
        self.mutate(of, stability, |inner| async move {
            inner.set_attributes(&caller, of, &set).await
        })
    }

    fn access(&self, caller: &Caller, of: Handle, wanted: Access) -> FileReply<Access> {
        let caller = caller.clone();
        self.get(|inner| async move { inner.access(&caller, of, wanted).await })
    }

    fn open(&self, caller: &Caller, of: Handle, access: Access) -> FileReply<Hold> {
        let caller = caller.clone();
        self.get(|inner| async move {
            let number = inner.open(&caller, of, access).await?;
            Ok(Hold::new(move || inner.holds.release(number)))
        })
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
        let (caller, name) = (caller.clone(), name.clone());
        self.mutate(directory, stability, |inner| async move {
            let created = inner.create(&caller, directory, &name, new, if_exists);
            created.await
        })
    }

    fn read_link(&self, of: Handle) -> FileReply<Vec<u8>> {
        self.get(|inner| async move { inner.read_link(of).await })
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
        self.mutate(directory, stability, |inner| async move {
            inner.link(&caller, of, directory, &name).await
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
        let (caller, name) = (caller.clone(), name.clone());
        self.mutate(directory, stability, |inner| async move {
            inner.remove(&caller, directory, &name, kind).await
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
        let caller = caller.clone();
        let (old, new) = (old.clone(), new.clone());
        let turn = match from == to {
            true => self.0.turn(from),
            false => Ok(self.0.turns.enter_renames()),
        };
        let done = self.change(turn, |inner| async move {
            let renamed = inner.rename(&caller, (from, &old), (to, &new), mode);
            renamed.await
        });
        self.finished(done, stability, to)
    }

    fn read_directory(
        &self,
        caller: &Caller,
        directory: Handle,
        after: Cookie,
        entries_max: usize,
        with_attributes: bool,
    ) -> FileReply<Listing> {
        let caller = caller.clone();
        self.get(|inner| async move {
            let listing =
                inner.read_directory(&caller, directory, after, entries_max, with_attributes);
            listing.await
        })
    }

    fn read(&self, of: Handle, offset: u64, len: usize) -> FileReply<ReadData> {
        self.get(|inner| async move { inner.read(of, offset, len).await })
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
        let is_urgent = stability == Stability::Durable;
        self.mutate(of, stability, |inner| async move {
            inner.write(&caller, of, at, data, is_urgent).await
        })
    }

    fn commit(&self, of: Handle) -> FileReply<Durable> {
        self.get(|inner| async move {
            inner.inode(of).await?;
            inner.store.durable(Some(ObjectId(of.object))).await
        })
    }

    fn commit_all(&self) -> FileReply<Durable> {
        self.get(|inner| async move { inner.store.durable(None).await })
    }

    fn allocate(
        &self,
        caller: &Caller,
        of: Handle,
        range: Range<u64>,
        how: Allocate,
        grows: bool,
    ) -> FileReply<Change> {
        let caller = caller.clone();
        self.change(self.0.turn(of), |inner| async move {
            inner.allocate(&caller, of, range, how, grows).await
        })
    }

    fn seek(&self, of: Handle, offset: u64, to: Seek) -> FileReply<u64> {
        self.get(|inner| async move { inner.seek(of, offset, to).await })
    }

    fn seek_within(&self, of: Handle, range: Range<u64>, to: Seek) -> FileReply<Option<u64>> {
        self.get(|inner| async move { inner.seek_within(of, range, to).await })
    }

    fn copy(
        &self,
        caller: &Caller,
        from: (Handle, u64),
        to: (Handle, u64),
        len: u64,
    ) -> FileReply<u64> {
        let (caller, inner) = (caller.clone(), self.0.clone());
        let copied = self.change(self.0.turn(to.0), |inner| async move {
            inner.copy(&caller, from, to, len).await
        });
        Reply::later(async move {
            let copied = copied.await?;
            inner.note_read(from.0).await;
            Ok(copied)
        })
    }

    fn xattr(&self, caller: &Caller, of: Handle, name: &[u8]) -> FileReply<Vec<u8>> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.get(|inner| async move { inner.xattr(&caller, of, &name).await })
    }

    fn xattrs(&self, caller: &Caller, of: Handle) -> FileReply<Vec<Vec<u8>>> {
        let caller = caller.clone();
        self.get(|inner| async move { inner.xattrs(&caller, of).await })
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
        self.mutate(of, stability, |inner| async move {
            inner.set_xattr(&caller, of, &name, value, how).await
        })
    }

    fn acl(&self, of: Handle) -> FileReply<Option<Acl>> {
        self.get(|inner| async move { inner.acl(of).await })
    }

    fn set_acl(
        &self,
        caller: &Caller,
        of: Handle,
        acl: Option<Acl>,
        stability: Stability,
    ) -> FileReply<Done<Change>> {
        let caller = caller.clone();
        self.mutate(of, stability, |inner| async move {
            inner.set_acl(&caller, of, acl).await
        })
    }

    fn watch(&self, directory: Handle) -> FileReply<Watch> {
        self.get(|inner| async move { inner.watch(directory).await })
    }
}
