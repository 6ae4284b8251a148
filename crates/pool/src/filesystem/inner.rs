//! The state of an open filesystem, and the steps that all operations share.
//!
//! **Owns** [`Inner`]. **Called by** all operations, which are methods of it in sibling modules. **Invariants**: objects are
//! read from the store for each operation, never kept; a handle is checked before its object is used.

use backend::StorageError;
use backend::Turn;
use backend::file::{Acl, Attributes, Change, Done, FileError, FileResult, Handle, Hub, Stability};

use super::acl;
use super::damaged::DamagedDirectories;
use super::holds::Holds;
use super::name_rules::NameRules;
use super::numbers::{COUNT_BYTES, Files, Numbers};
use super::object::{Object, attributes_of, handle_of};
use super::store::{Purpose, Store, Transaction};
use super::turns::Turns;
use crate::format::filesystem::{HEADER_OBJECT, Inode, InodeFlags, OBJECT_END, ObjectRef};
use crate::format::{ObjectId, Sync};

/// How often an operation without a turn starts over because objects changed meanwhile.
pub(super) const RETRIES_MAX: usize = 64;

/// An open filesystem.
pub(super) struct Inner<S> {
    pub(super) store: S,
    /// Its number in handles.
    pub(super) id: u64,
    pub(super) root: ObjectRef,
    pub(super) names: NameRules,
    pub(super) numbers: Numbers,
    pub(super) turns: Turns,
    pub(super) holds: Holds,
    pub(super) hub: Hub,
    pub(super) damaged: DamagedDirectories,
}

/// The error of entries that contradict each other.
pub(super) fn contradiction(object: ObjectId, what: &str) -> FileError {
    tracing::warn!(object = object.0, "damaged filesystem: {what}");
    FileError::Storage(StorageError::Corrupt)
}

impl<S: Store> Inner<S> {
    pub(super) fn handle(&self, of: ObjectRef) -> Handle {
        handle_of(self.id, of)
    }

    pub(super) fn attributes_of(&self, number: ObjectId, inode: &Inode) -> Attributes {
        attributes_of(self.id, number, inode)
    }

    pub(super) fn attributes(&self, of: &Object) -> Attributes {
        self.attributes_of(of.number, &of.inode)
    }

    /// An object before, and after a change.
    pub(super) fn change(&self, before: Attributes, after: &Object) -> Change {
        let after = self.attributes(after);
        Change { before, after }
    }

    /// The number in a handle of this filesystem. Errors: `Stale`.
    pub(super) fn number(&self, of: Handle) -> FileResult<ObjectId> {
        let is_valid =
            of.filesystem == self.id && of.object > HEADER_OBJECT.0 && of.object < OBJECT_END;
        match is_valid {
            true => Ok(ObjectId(of.object)),
            false => Err(FileError::Stale),
        }
    }

    /// A place in the line of an object. Errors: `Stale`.
    pub(super) fn turn(&self, of: Handle) -> FileResult<Turn> {
        Ok(self.turns.enter(self.number(of)?))
    }

    /// The inode of an object. Errors: `Stale` if it is gone, or was removed and is not open.
    pub(super) async fn inode(&self, of: Handle) -> FileResult<Inode> {
        let number = self.number(of)?;
        let inode = self.store.inode(number).await?;
        let inode = inode.filter(|inode| inode.generation == of.generation);
        let inode = inode.ok_or(FileError::Stale)?;
        match inode.links > 0 || self.holds.lock().is_open(number) {
            true => Ok(inode),
            false => Err(FileError::Stale),
        }
    }

    /// The object with this number that has a name. Errors: `Stale`.
    pub(super) async fn numbered(&self, object: u64) -> FileResult<Attributes> {
        let of = Handle {
            filesystem: self.id,
            object,
            generation: 0,
        };
        let number = self.number(of)?;
        let inode = self.store.inode(number).await?;
        let inode = inode.filter(|inode| inode.links > 0);
        let inode = inode.ok_or(FileError::Stale)?;
        Ok(self.attributes_of(number, &inode))
    }

    /// An object with its access control list. Errors: `Stale`.
    pub(super) async fn object(&self, of: Handle) -> FileResult<Object> {
        let number = ObjectId(of.object);
        for _ in 0..RETRIES_MAX {
            let inode = self.inode(of).await?;
            let Some(acl) = self.acl_of(number, &inode).await? else {
                continue;
            };
            return Ok(Object { number, inode, acl });
        }
        Err(FileError::Storage(StorageError::Exhausted))
    }

    /// The list of an object with this inode. The outer `None` says that the object has changed meanwhile.
    pub(super) async fn acl_of(
        &self,
        number: ObjectId,
        inode: &Inode,
    ) -> FileResult<Option<Option<Acl>>> {
        if !inode.flags.has(InodeFlags::ACL) {
            return Ok(Some(None));
        }
        let acl = acl::load(&self.store, number).await;
        let now = self.store.inode(number).await?;
        match now.is_some_and(|now| now.change == inode.change) {
            true => Ok(Some(Some(acl?))),
            false => Ok(None),
        }
    }

    /// A directory with its access control list. Errors: `Stale`, `NotDirectory`.
    pub(super) async fn directory(&self, of: Handle) -> FileResult<Object> {
        let object = self.object(of).await?;
        match object.is_directory() {
            true => Ok(object),
            false => Err(FileError::NotDirectory),
        }
    }

    /// Waits for the admission of a transaction of this many bytes, besides the number of files.
    pub(super) async fn admit(&self, bytes: usize, purpose: Purpose) -> FileResult<S::Admitted> {
        self.store.admit(bytes + COUNT_BYTES, purpose).await
    }

    /// Admits and applies a transaction.
    pub(super) async fn commit(
        &self,
        transaction: Transaction,
        purpose: Purpose,
        files: Files,
    ) -> FileResult<()> {
        let admitted = self.admit(transaction.bytes(), purpose).await?;
        self.apply(transaction, admitted, files)
    }

    /// Applies a transaction that was admitted.
    pub(super) fn apply(
        &self,
        transaction: Transaction,
        admitted: S::Admitted,
        files: Files,
    ) -> FileResult<()> {
        let numbers = &self.numbers;
        numbers.apply(&self.store, transaction, admitted, files)
    }

    /// The result of a mutation of an object, durable if that is wanted.
    pub(super) async fn finish<T>(
        &self,
        value: T,
        stability: Stability,
        object: ObjectId,
    ) -> FileResult<Done<T>> {
        let is_durable =
            stability == Stability::Durable || self.store.settings().sync == Sync::Always;
        let durable = match is_durable {
            true => Some(self.store.durable(Some(object)).await?),
            false => None,
        };
        Ok(Done { value, durable })
    }
}
