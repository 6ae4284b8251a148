//! Creation of objects.
//!
//! **Owns** the first inode, entry, target and list of a new object. **Called by** [`super::FileSystem`], in the turn of the
//! directory. **Invariants**: object and entry come with one transaction; a creation that fails has changed nothing, except
//! that an object number may remain unused.

use backend::file::permission::{Initial, check_create, initial};
use backend::file::{
    Caller, Created, FileError, FileKind, FileResult, Handle, IfExists, Name, NewFile, NewKind,
    SYMLINK_MAX, Timestamp,
};

use super::acl;
use super::entries::{dirent_of, put_entry};
use super::inner::Inner;
use super::numbers::Files;
use super::object::{Object, now};
use super::store::{Purpose, Store, Transaction};
use crate::format::ObjectId;
use crate::format::filesystem::{
    Charge, Inode, InodeFlags, KIND_INLINE, Link, ObjectRef, chunk_key, chunks, file_number,
};

/// Most names of a file, and of a directory 2 and its subdirectories.
pub(super) const LINKS_MAX: u32 = u32::MAX >> 1;

/// Checks the target of a symbolic link. Errors: `Invalid`, `NameTooLong`.
fn check_target(target: &[u8]) -> FileResult<()> {
    match target.len() {
        0 => Err(FileError::Invalid),
        len if len > SYMLINK_MAX => Err(FileError::NameTooLong),
        _ if target.contains(&0) => Err(FileError::Invalid),
        _ => Ok(()),
    }
}

/// The kind of a new object, its device number, and its size, bytes.
fn parts_of(kind: &NewKind) -> (FileKind, u64, u64) {
    match kind {
        NewKind::File => (FileKind::File, 0, 0),
        NewKind::Directory => (FileKind::Directory, 0, 0),
        NewKind::Symlink(target) => (FileKind::Symlink, 0, target.len() as u64),
        NewKind::Fifo => (FileKind::Fifo, 0, 0),
        NewKind::Socket => (FileKind::Socket, 0, 0),
        NewKind::CharDevice(device) => (FileKind::CharDevice, *device, 0),
        NewKind::BlockDevice(device) => (FileKind::BlockDevice, *device, 0),
    }
}

/// The inode of a new object, without a list.
pub(super) fn first_inode(
    kind: &NewKind,
    first: &Initial,
    place: Link,
    generation: u64,
    time: Timestamp,
) -> Inode {
    let (kind, device, size) = parts_of(kind);
    let is_directory = kind == FileKind::Directory;
    Inode {
        kind,
        mode: first.settled.mode,
        flags: match kind {
            FileKind::File => InodeFlags::COUNTED,
            _ => InodeFlags::NONE,
        },
        uid: first.settled.uid,
        gid: first.settled.gid,
        links: if is_directory { 2 } else { 1 },
        size,
        used: 0,
        accessed: time,
        modified: time,
        changed: time,
        created: time,
        change: 1,
        generation,
        parent: place.parent,
        entry: place.entry,
        device,
        verifier: None,
    }
}

impl<S: Store> Inner<S> {
    pub(super) async fn create(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        new: NewFile,
        if_exists: IfExists,
    ) -> FileResult<Created> {
        let mut directory = self.searched(caller, directory).await?;
        let (found, place) = self.place(directory.number, name).await?;
        if let Some(found) = found {
            return self
                .existing(&directory, found.dirent.target, if_exists)
                .await;
        }
        check_create(caller, &directory.permissions(), &new.kind)?;
        if new.acl.is_some() && !self.store.settings().has_acls {
            return Err(FileError::Unsupported);
        }
        let is_directory = new.kind == NewKind::Directory;
        if is_directory && directory.inode.links >= LINKS_MAX {
            return Err(FileError::Links);
        }
        let rule = self.store.settings().acl_rules.on_create;
        let first = initial(caller, &directory.permissions(), &new, rule)?;
        if let NewKind::Symlink(target) = &new.kind {
            check_target(target)?;
        }

        let owners = Charge {
            uid: first.settled.uid,
            gid: first.settled.gid,
            used: 0,
        };
        if self.store.is_used_up(owners) {
            return Err(FileError::Quota);
        }
        let (place, time) = (place?, now());
        let before = self.attributes(&directory);
        let mut transaction = Transaction::new();
        let mut object = Object {
            number: self.new_number(&new.kind).await?,
            inode: first_inode(&new.kind, &first, place, io::rng::u64(), time),
            acl: None,
        };
        if let IfExists::SameVerifier(verifier) = if_exists {
            object.inode.verifier = Some(verifier);
        }
        object.inode.change = self.store.settings().change_floor.max(1);
        if first.acl.is_some() {
            acl::store(&mut transaction, &mut object, first.acl);
        }
        if let NewKind::Symlink(target) = &new.kind {
            for (chunk, bytes) in chunks(target) {
                let key = chunk_key(object.number, KIND_INLINE, chunk);
                transaction.put(key, bytes.into());
            }
        }
        put_entry(&mut transaction, place, &dirent_of(&object, name));
        directory.gain_entry(is_directory);
        directory.set_modified(time);
        transaction.put_inode(object.number, object.inode);
        transaction.put_inode(directory.number, directory.inode);
        self.commit(transaction, Purpose::Use, Files::More).await?;
        self.tell_added(directory.number, name, &object);
        Ok(Created {
            object: self.attributes(&object),
            is_new: true,
            directory: self.change(before, &directory),
        })
    }

    /// A number for a new object. That of a file says its record size.
    async fn new_number(&self, kind: &NewKind) -> FileResult<ObjectId> {
        let claimed = self.numbers.claim(&self.store).await?;
        let settings = self.store.settings();
        Ok(match kind {
            NewKind::File => file_number(claimed, settings.record_size, settings.base_record_size),
            _ => claimed,
        })
    }

    /// The result of a creation under a name that exists.
    async fn existing(
        &self,
        directory: &Object,
        found: ObjectRef,
        if_exists: IfExists,
    ) -> FileResult<Created> {
        if if_exists == IfExists::Fail {
            return Err(FileError::Exists);
        }
        let inode = self.inode(self.handle(found)).await?;
        let is_file = inode.kind == FileKind::File;
        let is_meant = match if_exists {
            IfExists::Fail => false,
            IfExists::Open => is_file,
            IfExists::SameVerifier(verifier) => is_file && inode.verifier == Some(verifier),
        };
        let object: ObjectId = found.object;
        match is_meant {
            true => Ok(Created {
                object: self.attributes_of(object, &inode),
                is_new: false,
                directory: self.change(self.attributes(directory), directory),
            }),
            false => Err(FileError::Exists),
        }
    }
}
