//! Directories: lookup, parent, listing, watches.
//!
//! **Owns** the reading of directories, and cookies. **Called by** [`super::FileSystem`]. **Invariants**: a cookie is the offset
//! of its entry and [`FIRST_COOKIE`], so it is stable for ever and below 2^57; nothing here takes a turn, so names and objects
//! may change between two reads: such a read starts over. `docs/format.md`, "Filesystems".

use backend::StorageError;
use backend::file::permission::{access, check, check_search};
use backend::file::{
    Access, Attributes, Caller, Cookie, Entry, FileError, FileKind, FileResult, Handle, Listing,
    Name, Watch,
};

use super::inner::{Inner, RETRIES_MAX, contradiction};
use super::object::Object;
use super::slots::damaged;
use super::store::Store;
use crate::format::filesystem::{Dirent, KIND_DIRENT, kind_keys};
use crate::format::{Key, ObjectId};

/// The cookie of the lowest entry.
const FIRST_COOKIE: u64 = 16;
/// Most entries of one listing.
const LISTING_MAX: usize = 4096;
/// Most directories above one another.
const DEPTH_MAX: usize = 1 << 20;

impl<S: Store> Inner<S> {
    /// A directory in which the caller may look up names. Errors: `Stale`, `NotDirectory`, `Access`.
    pub(super) async fn searched(&self, caller: &Caller, directory: Handle) -> FileResult<Object> {
        let directory = self.directory(directory).await?;
        check_search(caller, &directory.permissions())?;
        Ok(directory)
    }

    pub(super) async fn lookup(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
    ) -> FileResult<Attributes> {
        let directory = self.searched(caller, directory).await?;
        let mut before = None;
        for _ in 0..RETRIES_MAX {
            let found = self.find(directory.number, name).await?;
            let found = found.ok_or(FileError::NotFound)?.dirent;
            let target = found.target;
            match self.inode(self.handle(target)).await {
                Ok(inode) => return Ok(self.attributes_of(target.object, &inode)),
                Err(FileError::Stale) if before.as_ref() != Some(&found) => before = Some(found),
                Err(FileError::Stale) => {
                    return Err(contradiction(target.object, "an entry without an object"));
                }
                Err(other) => return Err(other),
            }
        }
        Err(FileError::Storage(StorageError::Exhausted))
    }

    pub(super) async fn parent(
        &self,
        caller: &Caller,
        directory: Handle,
    ) -> FileResult<Attributes> {
        for _ in 0..RETRIES_MAX {
            let of = self.searched(caller, directory).await?;
            let parent = of.inode.parent;
            let inode = self.store.inode(parent).await?;
            if let Some(inode) = inode.filter(|inode| inode.links > 0) {
                return Ok(self.attributes_of(parent, &inode));
            }
        }
        let number = ObjectId(directory.object);
        Err(contradiction(number, "a directory without a parent"))
    }

    pub(super) async fn read_directory(
        &self,
        caller: &Caller,
        directory: Handle,
        after: Cookie,
        entries_max: usize,
        with_attributes: bool,
    ) -> FileResult<Listing> {
        let object = self.directory(directory).await?;
        check(caller, &object.permissions(), Access::READ)?;
        let may_search = access(caller, &object.permissions(), Access::EXECUTE) != Access::NONE;
        let start = after.0.saturating_add(1).saturating_sub(FIRST_COOKIE);
        if start >= Key::OFFSET_END {
            return Ok(Listing {
                entries: Vec::new(),
                is_end: true,
            });
        }
        let all = kind_keys(object.number, KIND_DIRENT);
        let keys = Key::new(object.number, KIND_DIRENT, start)..all.end;
        let most = entries_max.clamp(1, LISTING_MAX);
        let scanned = self.store.scan_around(keys, most + 1).await?;
        let (mut found, is_damaged) = (scanned.found, scanned.is_damaged);
        let is_end = found.len() <= most;
        found.truncate(most);
        if is_damaged && self.damaged.add(object.number) {
            let id = self.id;
            tracing::warn!(
                filesystem = id,
                directory = object.number.0,
                "some names of a directory are lost"
            );
        }
        if is_end && (is_damaged || self.damaged.has(object.number)) {
            // all other entries come before the error
            return match found.is_empty() {
                true => Err(FileError::Storage(StorageError::Corrupt)),
                false => {
                    self.listing(&object, found, (false, with_attributes && may_search))
                        .await
                }
            };
        }
        self.listing(&object, found, (is_end, with_attributes && may_search))
            .await
    }

    /// Whether a directory has names that can be read. One with lost names only can be removed.
    pub(super) async fn has_names(&self, directory: &Object) -> FileResult<bool> {
        if directory.inode.size == 0 {
            return Ok(false);
        }
        let keys = kind_keys(directory.number, KIND_DIRENT);
        let scanned = self.store.scan_around(keys, 1).await?;
        Ok(!scanned.found.is_empty() || !scanned.is_damaged)
    }

    /// A part of a directory's listing. Errors: those of damaged entries.
    async fn listing(
        &self,
        directory: &Object,
        found: Vec<(Key, Vec<u8>)>,
        (is_end, with_attributes): (bool, bool),
    ) -> FileResult<Listing> {
        let mut entries = Vec::with_capacity(found.len());
        for (key, bytes) in found {
            let dirent = Dirent::decode(&bytes).map_err(|d| damaged(directory.number, &d))?;
            let handle = self.handle(dirent.target);
            let attributes = match with_attributes {
                true => self.attributes_if_there(handle).await,
                false => None,
            };
            entries.push(Entry {
                name: dirent.name,
                cookie: Cookie(key.offset() + FIRST_COOKIE),
                handle,
                kind: dirent.kind,
                attributes,
            });
        }
        self.note_access(directory).await;
        Ok(Listing { entries, is_end })
    }

    async fn attributes_if_there(&self, of: Handle) -> Option<Attributes> {
        let inode = self.inode(of).await.ok()?;
        Some(self.attributes_of(ObjectId(of.object), &inode))
    }

    pub(super) async fn watch(&self, directory: Handle) -> FileResult<Watch> {
        let inode = self.inode(directory).await?;
        match inode.kind {
            FileKind::Directory => self.hub.watch(directory.object),
            FileKind::File
            | FileKind::Symlink
            | FileKind::Fifo
            | FileKind::Socket
            | FileKind::CharDevice
            | FileKind::BlockDevice => Err(FileError::NotDirectory),
        }
    }

    /// Whether a directory is, or is above, another one. Stable in the turn of renames between directories.
    pub(super) async fn is_above(&self, upper: ObjectId, lower: ObjectId) -> FileResult<bool> {
        let mut at = lower;
        for _ in 0..DEPTH_MAX {
            if at == upper {
                return Ok(true);
            }
            if at == self.root.object {
                return Ok(false);
            }
            let inode = self.store.inode(at).await?;
            let inode = inode.filter(|inode| inode.links > 0);
            at = inode.ok_or(FileError::Stale)?.parent;
        }
        Err(contradiction(
            lower,
            "a directory that is not below the root",
        ))
    }

    pub(super) fn root(&self) -> Handle {
        self.handle(self.root)
    }
}
