//! Attributes: modes, owners, sizes, times, access control lists, opening.
//!
//! **Owns** their changes, which are one transaction each. **Called by** [`super::FileSystem`], changes in the turn of the object.
//! **Invariants**: an operation that fails has changed nothing; the mode of an object with a list is that of the list; bytes
//! behind the end of a file never become visible.

use backend::file::permission::{access, check, check_acl, check_set};
use backend::file::{
    Access, Acl, Caller, Change, FileError, FileKind, FileResult, Handle, SetAttributes, SetTime,
    Timestamp,
};

use super::acl;
use super::inner::Inner;
use super::numbers::Files;
use super::object::{Object, now};
use super::store::{Purpose, Store, Transaction};
use crate::format::filesystem::Charge;
use crate::format::{ObjectId, RECORD_SIZE_MAX};

/// The range of a file that must be cleared when it grows: its last record may have anything behind its end.
pub(super) fn stale_bytes(before: u64, after: u64) -> std::ops::Range<u64> {
    let end = before.next_multiple_of(RECORD_SIZE_MAX.into());
    before..end.min(after).max(before)
}

/// Errors: `IsDirectory`, and `Invalid` for other objects than regular files.
pub(super) fn check_file(kind: FileKind) -> FileResult<()> {
    match kind {
        FileKind::File => Ok(()),
        FileKind::Directory => Err(FileError::IsDirectory),
        FileKind::Symlink
        | FileKind::Fifo
        | FileKind::Socket
        | FileKind::CharDevice
        | FileKind::BlockDevice => Err(FileError::Invalid),
    }
}

/// Sets the attributes that were asked for, except for mode and size.
fn set_times(object: &mut Object, set: &SetAttributes, time: Timestamp) {
    match (set.size, set.modified) {
        (Some(_), _) => object.set_modified(time),
        (None, SetTime::Held(at)) if set.is_only_held() => object.set_changed_at(at),
        (None, _) if set.is_only_held() => {}
        (None, _) => object.set_changed(time),
    }
    let inode = &mut object.inode;
    let time = inode.changed;
    inode.accessed = set.accessed.after(inode.accessed, time);
    inode.modified = set.modified.after(inode.modified, time);
    inode.created = set.created.unwrap_or(inode.created);
    if set.accessed != SetTime::Keep || set.modified != SetTime::Keep {
        inode.verifier = None;
    }
}

impl<S: Store> Inner<S> {
    pub(super) async fn set_attributes(
        &self,
        caller: &Caller,
        of: Handle,
        set: &SetAttributes,
    ) -> FileResult<Change> {
        let mut object = self.object(of).await?;
        let before = self.attributes(&object);
        if set.guard.is_some_and(|guard| guard != before.changed) {
            return Err(FileError::Guard);
        }
        let unguarded = SetAttributes {
            guard: None,
            ..*set
        };
        if unguarded == SetAttributes::default() {
            return Ok(self.change(before, &object));
        }
        let settled = check_set(caller, &object.permissions(), set)?;
        let mut transaction = Transaction::new();
        if let Some(acl) = &object.acl {
            let rule = self.store.settings().acl_rules.on_chmod;
            let modes = (object.inode.mode, settled.mode);
            let fitted = acl.after_set(modes, set.mode.is_some(), rule)?;
            if fitted.as_ref() != Some(acl) {
                acl::store(&mut transaction, &mut object, fitted);
            }
        }
        let cut = set.size.filter(|size| *size < object.inode.size);
        let mut used = None;
        if let Some(size) = cut {
            let (counted, kept) = self.store.count(object.number, size).await?;
            (object.inode.used, object.inode.flags) = (counted.used, counted.flags);
            used = Some(kept);
        }
        let charge = Charge::of(&object.inode);
        object.inode.used = used.unwrap_or(object.inode.used);
        object.inode.mode = settled.mode;
        object.inode.uid = settled.uid;
        object.inode.gid = settled.gid;
        set_times(&mut object, set, now());
        self.set_size(transaction, &mut object, charge, set.size)
            .await?;
        if set.size.is_some() {
            self.tell_contents(&object).await;
        }
        let only_size = SetAttributes {
            size: set.size,
            ..SetAttributes::default()
        };
        if unguarded != only_size {
            self.tell_attributes(&object).await;
        }
        Ok(self.change(before, &object))
    }

    /// Applies a transaction with an object's inode, which may get a new size. `charge` has its owners and space before.
    async fn set_size(
        &self,
        mut transaction: Transaction,
        object: &mut Object,
        charge: Charge,
        size: Option<u64>,
    ) -> FileResult<()> {
        let before = object.inode.size;
        let size = size.unwrap_or(before);
        object.inode.size = size;
        transaction.charged(object.number, charge);
        transaction.put_inode(object.number, object.inode);
        if size > before {
            let stale = stale_bytes(before, size);
            self.store.clear(object.number, stale, transaction).await?;
        } else {
            let purpose = match size < before {
                true => Purpose::Release,
                false => Purpose::Use,
            };
            if size < before {
                transaction.discard(object.number, size..u64::MAX);
            }
            self.commit(transaction, purpose, Files::Same).await?;
        }
        self.refresh(object).await
    }

    /// Reads the inode of an object again, after a change of its contents.
    pub(super) async fn refresh(&self, object: &mut Object) -> FileResult<()> {
        let inode = self.store.inode(object.number).await?;
        object.inode = inode.ok_or(FileError::Stale)?;
        Ok(())
    }

    pub(super) async fn access(
        &self,
        caller: &Caller,
        of: Handle,
        wanted: Access,
    ) -> FileResult<Access> {
        let object = self.object(of).await?;
        Ok(access(caller, &object.permissions(), wanted))
    }

    /// Opens a file for this access and holds it, until [`super::holds::Holds::release`].
    pub(super) async fn open(
        &self,
        caller: &Caller,
        of: Handle,
        wanted: Access,
    ) -> FileResult<ObjectId> {
        let number = self.number(of)?;
        let was_open = self.holds.hold(number);
        let opened = self.check_open(caller, of, wanted, was_open).await;
        if opened.is_err() {
            self.holds.release(number);
        }
        opened.map(|()| number)
    }

    async fn check_open(
        &self,
        caller: &Caller,
        of: Handle,
        wanted: Access,
        was_open: bool,
    ) -> FileResult<()> {
        let object = self.object(of).await?;
        if object.inode.links == 0 && !was_open {
            return Err(FileError::Stale);
        }
        check_file(object.inode.kind)?;
        check(caller, &object.permissions(), wanted)
    }

    pub(super) async fn acl(&self, of: Handle) -> FileResult<Option<Acl>> {
        Ok(self.object(of).await?.acl)
    }

    pub(super) async fn set_acl(
        &self,
        caller: &Caller,
        of: Handle,
        acl: Option<Acl>,
    ) -> FileResult<Change> {
        let mut object = self.object(of).await?;
        if acl.is_some() && !self.store.settings().has_acls {
            return Err(FileError::Unsupported);
        }
        let before = self.attributes(&object);
        object.inode.mode = check_acl(caller, &object.permissions(), acl.as_ref())?;
        let mut transaction = Transaction::new();
        acl::store(&mut transaction, &mut object, acl);
        object.set_changed(now());
        transaction.put_inode(object.number, object.inode);
        self.commit(transaction, Purpose::Use, Files::Same).await?;
        self.tell_attributes(&object).await;
        Ok(self.change(before, &object))
    }
}
