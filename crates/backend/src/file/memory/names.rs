//! Operations on names: lookup, listing, creation, links, removal.
//!
//! **Owns** the rules of POSIX about names in memory. **Called by** [`super::MemoryFiles`]. **Invariants**: an operation that
//! fails has changed nothing; the order of checks is Linux's: search, existence, permission, kind, space.

use super::data::Blocks;
use super::object::{Contents, Directory, ENTRY_COST, OBJECT_COST, acl_cost};
use super::state::{FilesInMemory, now};
use crate::file::permission::{
    Initial, access, check, check_add, check_create, check_remove, check_search, initial,
};
use crate::file::{
    Access, Attributes, Caller, Change, Cookie, Created, Entry, Event, FileError, FileKind,
    FileResult, Handle, IfExists, Linked, Listing, Name, NewFile, NewKind, RemoveKind, Removed,
    SYMLINK_MAX,
};

/// Most entries of one listing.
const LISTING_MAX: usize = 8192;

impl FilesInMemory {
    /// The number of a directory in which the caller may look up names. Errors: `Stale`, `NotDirectory`, `Access`.
    pub(super) fn searched(&self, caller: &Caller, directory: Handle) -> FileResult<u64> {
        let number = self.directory_number(directory)?;
        check_search(caller, &self.get(number).permissions())?;
        Ok(number)
    }

    pub(super) fn lookup(
        &self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
    ) -> FileResult<Attributes> {
        let directory = self.searched(caller, directory)?;
        let found = self.directory(directory).get(name);
        Ok(self.attributes(found.ok_or(FileError::NotFound)?))
    }

    pub(super) fn parent(&self, caller: &Caller, directory: Handle) -> FileResult<Attributes> {
        let directory = self.searched(caller, directory)?;
        Ok(self.attributes(self.directory(directory).parent()))
    }

    pub(super) fn list(
        &mut self,
        caller: &Caller,
        directory: Handle,
        after: Cookie,
        entries_max: usize,
        with_attributes: bool,
    ) -> FileResult<Listing> {
        let number = self.directory_number(directory)?;
        let permissions = self.get(number).permissions();
        check(caller, &permissions, Access::READ)?;
        let may_search = access(caller, &permissions, Access::EXECUTE) == Access::EXECUTE;
        let has_attributes = with_attributes && may_search;
        self.note_access(number);
        let mut rest = self.directory(number).after(after);
        let entries = rest
            .by_ref()
            .take(entries_max.clamp(1, LISTING_MAX))
            .map(|(cookie, name, object)| {
                let attributes = self.attributes(object);
                Entry {
                    name: name.clone(),
                    cookie,
                    handle: attributes.handle,
                    kind: attributes.kind,
                    attributes: has_attributes.then_some(attributes),
                }
            })
            .collect();
        let is_end = rest.next().is_none();
        Ok(Listing { entries, is_end })
    }

    pub(super) fn create(
        &mut self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        new: NewFile,
        if_exists: IfExists,
    ) -> FileResult<Created> {
        let directory = self.searched(caller, directory)?;
        if let Some(found) = self.directory(directory).get(name) {
            return self.existing(directory, found, if_exists);
        }
        let parent = self.get(directory);
        check_create(caller, &parent.permissions(), &new.kind)?;
        let is_directory = new.kind == NewKind::Directory;
        if is_directory && parent.attributes.links >= self.options.links_max {
            return Err(FileError::Links);
        }
        let first = initial(
            caller,
            &parent.permissions(),
            &new,
            self.options.acl_rules.on_create,
        )?;
        let target_len = match &new.kind {
            NewKind::Symlink(target) => check_target(target)?,
            _ => 0,
        };
        let parts = OBJECT_COST + ENTRY_COST + acl_cost(first.acl.as_ref()) + target_len;
        self.charge(parts)?;

        let before = self.attributes(directory);
        let verifier = match if_exists {
            IfExists::SameVerifier(verifier) => Some(verifier),
            IfExists::Fail | IfExists::Open => None,
        };
        let object = self.insert_new(directory, new.kind, first, verifier);
        self.directory_mut(directory).put(name, object);
        let parent = self.get_mut(directory);
        parent.attributes.links += u32::from(is_directory);
        parent.set_modified(now());
        self.send_added(directory, name, object);
        Ok(Created {
            object: self.attributes(object),
            is_new: true,
            directory: self.change(before),
        })
    }

    fn existing(&self, directory: u64, found: u64, if_exists: IfExists) -> FileResult<Created> {
        let object = self.get(found);
        let is_file = object.attributes.kind == FileKind::File;
        let is_meant = match if_exists {
            IfExists::Fail => false,
            IfExists::Open => is_file,
            IfExists::SameVerifier(verifier) => is_file && object.verifier == Some(verifier),
        };
        match is_meant {
            true => Ok(Created {
                object: object.attributes,
                is_new: false,
                directory: self.change(self.attributes(directory)),
            }),
            false => Err(FileError::Exists),
        }
    }

    fn insert_new(
        &mut self,
        parent: u64,
        kind: NewKind,
        first: Initial,
        verifier: Option<u64>,
    ) -> u64 {
        let (kind, contents, device) = match kind {
            NewKind::File => (FileKind::File, Contents::File(Blocks::default()), 0),
            NewKind::Directory => {
                let contents = Contents::Directory(Directory::new(parent));
                (FileKind::Directory, contents, 0)
            }
            NewKind::Symlink(target) => (FileKind::Symlink, Contents::Symlink(target), 0),
            NewKind::Fifo => (FileKind::Fifo, Contents::Special, 0),
            NewKind::Socket => (FileKind::Socket, Contents::Special, 0),
            NewKind::CharDevice(device) => (FileKind::CharDevice, Contents::Special, device),
            NewKind::BlockDevice(device) => (FileKind::BlockDevice, Contents::Special, device),
        };
        let size = match &contents {
            Contents::Symlink(target) => target.len() as u64,
            Contents::File(_) | Contents::Directory(_) | Contents::Special => 0,
        };
        self.insert(kind, contents, |object| {
            object.attributes.mode = first.settled.mode;
            object.attributes.uid = first.settled.uid;
            object.attributes.gid = first.settled.gid;
            object.attributes.links = if kind == FileKind::Directory { 2 } else { 1 };
            object.attributes.size = size;
            object.attributes.device = device;
            object.acl = first.acl;
            object.verifier = verifier;
        })
    }

    pub(super) fn link(
        &mut self,
        caller: &Caller,
        of: Handle,
        directory: Handle,
        name: &Name,
    ) -> FileResult<Linked> {
        let object = self.number(of)?;
        let directory = self.searched(caller, directory)?;
        if self.directory(directory).get(name).is_some() {
            return Err(FileError::Exists);
        }
        check_add(caller, &self.get(directory).permissions(), false)?;
        let attributes = self.attributes(object);
        match attributes.links {
            _ if attributes.kind == FileKind::Directory => return Err(FileError::NotOwner),
            // Open, and already removed.
            0 => return Err(FileError::NotFound),
            links if links >= self.options.links_max => return Err(FileError::Links),
            _ => {}
        }
        self.charge(ENTRY_COST)?;

        let before = self.attributes(directory);
        let time = now();
        self.directory_mut(directory).put(name, object);
        self.get_mut(directory).set_modified(time);
        self.get_mut(object).attributes.links += 1;
        self.get_mut(object).set_changed(time);
        self.send_added(directory, name, object);
        Ok(Linked {
            object: self.change(attributes),
            directory: self.change(before),
        })
    }

    pub(super) fn remove(
        &mut self,
        caller: &Caller,
        directory: Handle,
        name: &Name,
        kind: RemoveKind,
    ) -> FileResult<Removed> {
        let directory = self.searched(caller, directory)?;
        let found = self.directory(directory).get(name);
        let object = found.ok_or(FileError::NotFound)?;
        let parent = self.get(directory);
        check_remove(
            caller,
            &parent.permissions(),
            &self.get(object).permissions(),
        )?;
        let before = (self.attributes(object), self.attributes(directory));
        match (self.get(object).directory(), kind) {
            (Some(_), RemoveKind::File) => return Err(FileError::IsDirectory),
            (None, RemoveKind::Directory) => return Err(FileError::NotDirectory),
            (Some(entries), _) if entries.len() > 0 => return Err(FileError::NotEmpty),
            _ => {}
        }

        let time = now();
        self.directory_mut(directory).remove(name);
        self.release(ENTRY_COST);
        self.get_mut(directory).set_modified(time);
        self.send_removed(directory, name, object);
        let object = self.drop_name(directory, object);
        Ok(Removed {
            object: Change {
                before: before.0,
                after: object,
            },
            directory: self.change(before.1),
        })
    }

    /// Accounts for a name that an object lost in a directory, and removes the object if it has no other. Returns the object's
    /// last attributes.
    pub(super) fn drop_name(&mut self, directory: u64, number: u64) -> Attributes {
        let object = self.get_mut(number);
        let is_directory = object.is_directory();
        object.attributes.links = match is_directory {
            true => 0,
            false => object.attributes.links - 1,
        };
        object.set_changed(now());
        let after = object.attributes;
        self.get_mut(directory).attributes.links -= u32::from(is_directory);
        self.remove_if_unused(number);
        after
    }

    pub(super) fn send_added(&self, directory: u64, name: &Name, object: u64) {
        self.hub.send(directory, || Event::Added {
            name: name.clone(),
            object: self.handle(object),
        });
    }

    pub(super) fn send_removed(&self, directory: u64, name: &Name, object: u64) {
        self.hub.send(directory, || Event::Removed {
            name: name.clone(),
            object: self.handle(object),
        });
    }
}

/// Checks the target of a symbolic link. Returns its length, bytes. Errors: `Invalid`, `NameTooLong`.
fn check_target(target: &[u8]) -> FileResult<u64> {
    match target.len() {
        0 => Err(FileError::Invalid),
        len if len > SYMLINK_MAX => Err(FileError::NameTooLong),
        _ if target.contains(&0) => Err(FileError::Invalid),
        len => Ok(len as u64),
    }
}
