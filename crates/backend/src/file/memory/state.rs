//! The state of a file system in memory: its objects, their numbers and the memory that they take.
//!
//! **Owns** [`FilesInMemory`], [`MemoryOptions`] and the life of objects. **Called by** the operations in the sibling modules.
//! **Invariants**: `used` is the sum of the costs of all objects and never exceeds `space_max`; an object exists while it has
//! a name or a hold; numbers are never used again.

use std::collections::BTreeMap;

use io::time::wall_clock_ms;

use super::data::BLOCK;
use super::object::{Contents, Directory, OBJECT_COST, Object};
use crate::file::permission::AclRules;
use crate::file::{
    Attributes, Change, Event, FileError, FileKind, FileResult, FileSpace, Handle, Hub, Name,
    Timestamp,
};

/// Number of the root directory.
pub(super) const ROOT: u64 = 2;
/// Least number of another object.
const FIRST_OBJECT: u64 = 16;

/// Settings of a file system in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryOptions {
    /// Its number, in every handle.
    pub filesystem: u64,
    /// Most bytes of memory that files, names and attributes may count for.
    pub space_max: u64,
    /// Whether `space_max` is a quota: a change beyond it fails with `Quota` instead of `NoSpace`.
    pub is_quota: bool,
    /// Most names of a file, and most subdirectories of a directory and 2.
    pub links_max: u32,
    /// Rules for access control lists.
    pub acl_rules: AclRules,
}

impl Default for MemoryOptions {
    /// 1 GiB, and 65000 links as ext4.
    fn default() -> Self {
        Self {
            filesystem: 1,
            space_max: 1 << 30,
            is_quota: false,
            links_max: 65_000,
            acl_rules: AclRules::default(),
        }
    }
}

pub(super) struct FilesInMemory {
    pub(super) options: MemoryOptions,
    pub(super) hub: Hub,
    /// Whether the file system says that it is read-only.
    pub(super) is_read_only: bool,
    /// Requests that everything becomes durable.
    pub(super) commits: u64,
    generation: u64,
    objects: BTreeMap<u64, Object>,
    next_object: u64,
    used: u64,
}

/// The present time.
pub(super) fn now() -> Timestamp {
    let nanoseconds = wall_clock_ms().saturating_mul(1_000_000);
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

impl FilesInMemory {
    pub(super) fn new(options: MemoryOptions, generation: u64, root_mode: u16) -> Self {
        let mut state = Self {
            options,
            hub: Hub::new(),
            is_read_only: false,
            commits: 0,
            generation,
            objects: BTreeMap::new(),
            next_object: FIRST_OBJECT,
            used: OBJECT_COST,
        };
        let contents = Contents::Directory(Directory::new(ROOT));
        let mut root = state.make(ROOT, FileKind::Directory, contents);
        root.attributes.links = 2;
        root.attributes.mode = root_mode;
        state.objects.insert(ROOT, root);
        state
    }

    fn make(&self, number: u64, kind: FileKind, contents: Contents) -> Object {
        let time = now();
        let attributes = Attributes {
            handle: self.handle(number),
            kind,
            mode: 0,
            links: 0,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: 0,
            accessed: time,
            modified: time,
            changed: time,
            created: time,
            change: 1,
        };
        Object {
            attributes,
            contents,
            acl: None,
            xattrs: BTreeMap::new(),
            verifier: None,
            holds: 0,
        }
    }

    /// Adds an object without names, whose cost was charged. Returns its number.
    pub(super) fn insert(
        &mut self,
        kind: FileKind,
        contents: Contents,
        prepare: impl FnOnce(&mut Object),
    ) -> u64 {
        let number = self.next_object;
        self.next_object += 1;
        let mut object = self.make(number, kind, contents);
        prepare(&mut object);
        self.objects.insert(number, object);
        number
    }

    pub(super) fn handle(&self, object: u64) -> Handle {
        Handle {
            filesystem: self.options.filesystem,
            object,
            generation: self.generation,
        }
    }

    /// The number of an object that exists. Errors: `Stale`.
    pub(super) fn number(&self, handle: Handle) -> FileResult<u64> {
        match self.handle(handle.object) == handle && self.objects.contains_key(&handle.object) {
            true => Ok(handle.object),
            false => Err(FileError::Stale),
        }
    }

    /// The number of a directory that exists. Errors: `Stale`, `NotDirectory`.
    pub(super) fn directory_number(&self, handle: Handle) -> FileResult<u64> {
        let number = self.number(handle)?;
        match self.get(number).is_directory() {
            true => Ok(number),
            false => Err(FileError::NotDirectory),
        }
    }

    /// An object that exists.
    pub(super) fn get(&self, number: u64) -> &Object {
        self.objects
            .get(&number)
            .expect("numbers are checked first")
    }

    /// An object that exists.
    pub(super) fn get_mut(&mut self, number: u64) -> &mut Object {
        let object = self.objects.get_mut(&number);
        object.expect("numbers are checked first")
    }

    /// A directory that exists.
    pub(super) fn directory(&self, number: u64) -> &Directory {
        let directory = self.get(number).directory();
        directory.expect("kinds are checked first")
    }

    /// A directory that exists.
    pub(super) fn directory_mut(&mut self, number: u64) -> &mut Directory {
        let directory = self.get_mut(number).directory_mut();
        directory.expect("kinds are checked first")
    }

    pub(super) fn attributes(&self, number: u64) -> Attributes {
        self.get(number).attributes
    }

    /// An object before, and now.
    pub(super) fn change(&self, before: Attributes) -> Change {
        let after = self.attributes(before.handle.object);
        Change { before, after }
    }

    /// Takes memory. Errors: `NoSpace`, or `Quota` where that is the limit, and nothing is taken.
    pub(super) fn charge(&mut self, bytes: u64) -> FileResult<()> {
        let used = self.used.saturating_add(bytes);
        match used <= self.options.space_max {
            true => {
                self.used = used;
                Ok(())
            }
            false if self.options.is_quota => Err(FileError::Quota),
            false => Err(FileError::NoSpace),
        }
    }

    /// Takes the memory of a part that replaces another one, before it is replaced. Errors: `NoSpace`.
    pub(super) fn recharge(&mut self, before: u64, after: u64) -> FileResult<()> {
        self.charge(after.saturating_sub(before))?;
        self.release(before.saturating_sub(after));
        Ok(())
    }

    /// Gives memory back.
    pub(super) fn release(&mut self, bytes: u64) {
        self.used -= bytes;
    }

    /// Removes an object that has neither names nor holds.
    pub(super) fn remove_if_unused(&mut self, number: u64) {
        let object = self.get(number);
        if object.attributes.links == 0 && object.holds == 0 {
            let cost = object.cost();
            self.objects.remove(&number);
            self.release(cost);
            self.hub.end(number);
        }
    }

    pub(super) fn hold(&mut self, number: u64) {
        self.get_mut(number).holds += 1;
    }

    pub(super) fn unhold(&mut self, number: u64) {
        self.get_mut(number).holds -= 1;
        self.remove_if_unused(number);
    }

    /// Tells the watches of every directory that has a name of this object.
    pub(super) fn notify(&self, number: u64, event: impl Fn(Name, Handle) -> Event) {
        for watched in self.hub.watched() {
            let directory = self.objects.get(&watched).and_then(Object::directory);
            if let Some(name) = directory.and_then(|d| d.name_of(number)) {
                let object = self.handle(number);
                self.hub.send(watched, || event(name.clone(), object));
            }
        }
    }

    pub(super) fn space(&self) -> FileSpace {
        let available = self.options.space_max - self.used;
        FileSpace {
            total: self.options.space_max,
            available: available / BLOCK * BLOCK,
            files: self.objects.len() as u64,
            files_available: available / OBJECT_COST,
        }
    }

    /// Whether the memory that is counted is the memory that objects have.
    #[cfg(test)]
    pub(super) fn is_counted(&self) -> bool {
        self.used == self.objects.values().map(Object::cost).sum::<u64>()
    }
}
