//! A filesystem and its snapshots.
//!
//! **Owns** [`SnapshotDirectory`]: the choice of the filesystem, snapshot or virtual directory that a request is for. **Called
//! by** its requests. **Invariants**: a request for the filesystem is passed on as it is; no request changes a snapshot or a
//! virtual directory; a request never has objects of two filesystems, except for a copy.

use std::sync::Arc;

use backend::Reply;
use backend::file::{
    Attributes, Caller, Cookie, FileBackend, FileError, FileReply, Handle, Listing, Name,
    Stability, WriteAt,
};
use io::limits::BUF_LEN_MAX;

use super::directories::{Virtual, list_control, listed, snapshot_entry};
use super::open::OpenSnapshots;
use super::source::{SnapshotEntry, SnapshotVisibility, Snapshots};

/// A filesystem with its snapshots below `.zfs/snapshot`. Clones share it.
pub struct SnapshotDirectory<L, S: Snapshots>(Arc<Inner<L, S>>);

struct Inner<L, S: Snapshots> {
    live: L,
    source: S,
    open: OpenSnapshots<S::Files>,
}

impl<L, S: Snapshots> Clone for SnapshotDirectory<L, S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Where the object of a handle is.
pub(super) enum Place {
    Live,
    Virtual(Virtual),
    Snapshot,
}

pub(super) fn refused<T>() -> FileReply<T> {
    Reply::now(Err(FileError::ReadOnly))
}

impl<L: FileBackend, S: Snapshots> SnapshotDirectory<L, S> {
    /// A filesystem with these snapshots.
    #[must_use]
    pub fn new(live: L, source: S) -> Self {
        Self(Arc::new(Inner {
            live,
            source,
            open: OpenSnapshots::new(),
        }))
    }

    /// The filesystem.
    #[must_use]
    pub fn live(&self) -> &L {
        &self.0.live
    }

    pub(super) fn source(&self) -> &S {
        &self.0.source
    }

    fn id(&self) -> u64 {
        self.0.live.root().filesystem
    }

    pub(super) fn visibility(&self) -> SnapshotVisibility {
        self.0.source.visibility()
    }

    pub(super) fn place(&self, of: Handle) -> Place {
        let is_there = self.visibility() != SnapshotVisibility::Disabled;
        match (of.filesystem == self.id(), Virtual::of(of)) {
            (true, Some(directory)) if is_there => Place::Virtual(directory),
            (true, _) => Place::Live,
            (false, _) => Place::Snapshot,
        }
    }

    /// Whether a name of a directory of the filesystem is `.zfs`.
    pub(super) fn is_control(&self, directory: Handle, name: &Name) -> bool {
        Virtual::Control.has_name(name)
            && directory == self.0.live.root()
            && self.visibility() != SnapshotVisibility::Disabled
    }

    pub(super) fn attributes_of(&self, directory: Virtual) -> Attributes {
        directory.attributes(self.id(), &self.0.source)
    }

    /// The root directory of a snapshot.
    pub(super) fn root_of(&self, id: u64) -> Handle {
        Handle {
            filesystem: id,
            ..self.0.live.root()
        }
    }

    /// Asks the snapshot of a handle.
    pub(super) fn ask<T: Unpin + 'static>(
        &self,
        of: Handle,
        request: impl FnOnce(&S::Files) -> FileReply<T> + 'static,
    ) -> FileReply<T> {
        let inner = self.0.clone();
        let id = of.filesystem;
        if let Some(files) = inner.open.get(&inner.source, id) {
            return request(&files);
        }
        Reply::later(async move {
            let files = inner.open.open(&inner.source, id).await?;
            request(&files).await
        })
    }

    /// The reply of a mutation of one object.
    pub(super) fn mutate<T>(
        &self,
        of: Handle,
        request: impl FnOnce(&L) -> FileReply<T>,
    ) -> FileReply<T> {
        match self.place(of) {
            Place::Live => request(&self.0.live),
            Place::Virtual(_) => refused(),
            Place::Snapshot if self.0.source.exists(of.filesystem) => refused(),
            Place::Snapshot => Reply::now(Err(FileError::Stale)),
        }
    }

    /// The reply of a mutation of a name.
    pub(super) fn mutate_name<T>(
        &self,
        directory: Handle,
        name: &Name,
        request: impl FnOnce(&L) -> FileReply<T>,
    ) -> FileReply<T> {
        match self.is_control(directory, name) {
            true => Reply::now(Err(FileError::NotOwner)),
            false => self.mutate(directory, request),
        }
    }

    pub(super) fn lookup_virtual(&self, directory: Virtual, name: &Name) -> FileReply<Attributes> {
        match directory {
            Virtual::Control if Virtual::Snapshots.has_name(name) => {
                Reply::now(Ok(self.attributes_of(Virtual::Snapshots)))
            }
            Virtual::Control => Reply::now(Err(FileError::NotFound)),
            Virtual::Snapshots => match self.0.source.by_name(name) {
                None => Reply::now(Err(FileError::NotFound)),
                Some(found) => {
                    let root = self.root_of(found.id);
                    self.ask(root, move |files| files.attributes(root))
                }
            },
        }
    }

    pub(super) fn list_virtual(
        &self,
        directory: Virtual,
        after: Cookie,
        entries_max: usize,
    ) -> Listing {
        match directory {
            Virtual::Control => list_control(self.id(), after),
            Virtual::Snapshots => {
                let (found, is_end) = listed(&self.0.source, after, entries_max);
                let entry = |of: SnapshotEntry| {
                    let root = self.root_of(of.id);
                    snapshot_entry(of, root)
                };
                Listing {
                    entries: found.into_iter().map(entry).collect(),
                    is_end,
                }
            }
        }
    }

    /// A listing of the root directory that begins with `.zfs`.
    pub(super) fn list_with_control(
        &self,
        caller: &Caller,
        entries_max: usize,
        with_attributes: bool,
    ) -> FileReply<Listing> {
        let mut control = Virtual::Control.entry(self.id());
        if with_attributes {
            control.attributes = Some(self.attributes_of(Virtual::Control));
        }
        let (live, rest) = (&self.0.live, entries_max.saturating_sub(1));
        let start = Cookie::START;
        let listed = live.read_directory(
            caller,
            live.root(),
            start,
            rest.max(1),
            with_attributes && rest > 0,
        );
        Reply::later(async move {
            let mut listing = listed.await?;
            if rest == 0 {
                listing.is_end &= listing.entries.is_empty();
                listing.entries.clear();
            }
            listing.entries.insert(0, control);
            Ok(listing)
        })
    }

    /// Copies at most one buffer from a snapshot into the filesystem.
    pub(super) fn copy_out(
        &self,
        caller: &Caller,
        (from, source): (Handle, u64),
        (to, target): (Handle, u64),
        len: u64,
    ) -> FileReply<u64> {
        let (this, caller) = (self.clone(), caller.clone());
        Reply::later(async move {
            let len = len.min(BUF_LEN_MAX as u64) as usize;
            let read = this.read(from, source, len).await?;
            let len = read.bytes.len();
            if len == 0 {
                return Ok(0);
            }
            let mut data = io::pool().alloc(len).await;
            read.bytes.copy_to(&mut data);
            let at = WriteAt::Offset(target);
            let cached = Stability::Cached;
            this.write(&caller, to, at, data.into(), cached).await?;
            Ok(len as u64)
        })
    }
}
