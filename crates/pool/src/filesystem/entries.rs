//! Entries of directories in the store.
//!
//! **Owns** the search for a name, and the transaction parts that add, replace and remove one. **Called by** lookups and by
//! all changes of names. **Invariants**: a directory's size is the number of its entries; an entry that is replaced keeps its
//! offset. `docs/format.md`, "Directory entries".

use backend::file::{FileError, FileKind, FileResult, Name};

use super::inner::{Inner, contradiction};
use super::object::Object;
use super::slots::{Slots, search};
use super::store::{Store, Transaction};
use crate::format::filesystem::{Dirent, KIND_DIRENT, Link};
use crate::format::{Key, ObjectId};

/// An entry that exists, and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) place: Link,
    pub(super) dirent: Dirent,
}

/// Writes an entry.
pub(super) fn put_entry(transaction: &mut Transaction, at: Link, dirent: &Dirent) {
    let key = Key::new(at.parent, KIND_DIRENT, at.entry);
    transaction.put(key, dirent.encode());
}

/// Removes an entry.
pub(super) fn delete_entry(transaction: &mut Transaction, at: Link) {
    transaction.delete(Key::new(at.parent, KIND_DIRENT, at.entry));
}

/// The entry for a new name of an object.
pub(super) fn dirent_of(object: &Object, name: &Name) -> Dirent {
    Dirent {
        target: object.reference(),
        kind: object.inode.kind,
        name: name.clone(),
    }
}

impl<S: Store> Inner<S> {
    /// The slots of a name. Errors: `NameNotUtf8`.
    async fn slots(&self, directory: ObjectId, name: &Name) -> FileResult<Slots<Dirent>> {
        let hash = self.names.hash(name)?;
        search(&self.store, directory, KIND_DIRENT, hash, |bytes| {
            let dirent = Dirent::decode(bytes)?;
            Ok(Some(dirent).filter(|dirent| self.names.is_same(&dirent.name, name)))
        })
        .await
    }

    /// The entry of a name. A name that no entry can have is not found.
    pub(super) async fn find(&self, directory: ObjectId, name: &Name) -> FileResult<Option<Entry>> {
        match self.place(directory, name).await {
            Ok((entry, _)) => Ok(entry),
            Err(FileError::NameNotUtf8) => Ok(None),
            Err(other) => Err(other),
        }
    }

    /// The entry of a name, and the place for it if there is none. Errors: `NameNotUtf8`; the place: `NoSpace`.
    pub(super) async fn place(
        &self,
        directory: ObjectId,
        name: &Name,
    ) -> FileResult<(Option<Entry>, FileResult<Link>)> {
        let slots = self.slots(directory, name).await?;
        let link = |entry| Link {
            parent: directory,
            entry,
        };
        let free = slots.free().map(link);
        let found = slots.found.map(|(entry, dirent)| Entry {
            place: link(entry),
            dirent,
        });
        Ok((found, free))
    }

    /// Whether an entry and its object agree, so that the object's turn can be waited for in the turn of the directory: damage
    /// must not lead to a task that waits for itself.
    pub(super) async fn check_entry(&self, entry: &Entry) -> FileResult<()> {
        let dirent = &entry.dirent;
        let number = dirent.target.object;
        let inode = self.store.inode(number).await?;
        let inode = inode.filter(|inode| {
            let is_directory = inode.kind == FileKind::Directory;
            let place = Link {
                parent: inode.parent,
                entry: inode.entry,
            };
            inode.generation == dirent.target.generation
                && inode.kind == dirent.kind
                && inode.links > 0
                && (!is_directory || place == entry.place)
        });
        match inode.is_some() && number != entry.place.parent {
            true => Ok(()),
            false => Err(contradiction(number, "an entry without its object")),
        }
    }

    /// The object of an entry, in its turn.
    pub(super) async fn target(&self, dirent: &Dirent) -> FileResult<Object> {
        let handle = self.handle(dirent.target);
        match self.object(handle).await {
            Err(FileError::Stale) => {
                let object = dirent.target.object;
                Err(contradiction(object, "an entry without an object"))
            }
            other => other,
        }
    }
}
