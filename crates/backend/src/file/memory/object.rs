//! Objects: attributes, contents, extended attributes, access control list.
//!
//! **Owns** [`Object`] and [`Directory`], and the memory that their parts count for. **Called by** the other modules of the
//! file system in memory. **Invariants**: `names` and `entries` of a directory have the same entries; a cookie is never used
//! twice in a directory; [`Object::cost`] is the sum of the costs of the parts.

use std::collections::BTreeMap;

use super::data::{BLOCK, Blocks};
use crate::file::permission::Permissions;
use crate::file::{Acl, Attributes, Cookie, FileKind, Name, SID_MAX, Timestamp};

/// Bytes that an object counts for, without its contents.
pub(super) const OBJECT_COST: u64 = 512;
/// Bytes that a directory entry counts for: its name twice, and two maps.
pub(super) const ENTRY_COST: u64 = 1024;
/// Bytes that a block counts for.
pub(super) const BLOCK_COST: u64 = BLOCK + 64;
/// Bytes that an extended attribute counts for, besides name and value.
const XATTR_COST: u64 = 128;
/// Bytes that an entry of an access control list counts for.
const ACE_COST: u64 = 64 + SID_MAX as u64;

/// The least cookie of an entry.
const FIRST_COOKIE: u64 = 16;

/// The entries of a directory.
pub(super) struct Directory {
    parent: u64,
    entries: BTreeMap<u64, (Name, u64)>,
    names: BTreeMap<Name, u64>,
    next_cookie: u64,
}

impl Directory {
    pub(super) fn new(parent: u64) -> Self {
        Self {
            parent,
            entries: BTreeMap::new(),
            names: BTreeMap::new(),
            next_cookie: FIRST_COOKIE,
        }
    }

    /// The directory that has this one; the root has itself.
    pub(super) fn parent(&self) -> u64 {
        self.parent
    }

    pub(super) fn set_parent(&mut self, parent: u64) {
        self.parent = parent;
    }

    /// The object of a name.
    pub(super) fn get(&self, name: &Name) -> Option<u64> {
        Some(self.entries[self.names.get(name)?].1)
    }

    /// Gives a name to an object. A name that exists keeps its cookie.
    pub(super) fn put(&mut self, name: &Name, object: u64) {
        let cookie = *self.names.entry(name.clone()).or_insert_with(|| {
            self.next_cookie += 1;
            self.next_cookie - 1
        });
        self.entries.insert(cookie, (name.clone(), object));
    }

    /// Removes a name.
    pub(super) fn remove(&mut self, name: &Name) {
        if let Some(cookie) = self.names.remove(name) {
            self.entries.remove(&cookie);
        }
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Entries behind a cookie, in the order of cookies.
    pub(super) fn after(&self, after: Cookie) -> impl Iterator<Item = (Cookie, &Name, u64)> {
        let first = after.0.saturating_add(1);
        self.entries
            .range(first..)
            .map(|(cookie, (name, object))| (Cookie(*cookie), name, *object))
    }

    /// A name of this object.
    pub(super) fn name_of(&self, object: u64) -> Option<&Name> {
        let mut entries = self.entries.values();
        entries.find(|(_, o)| *o == object).map(|(name, _)| name)
    }
}

/// What only one kind of object has.
pub(super) enum Contents {
    File(Blocks),
    Directory(Directory),
    Symlink(Vec<u8>),
    Special,
}

/// A file, directory, link or special file.
pub(super) struct Object {
    pub(super) attributes: Attributes,
    pub(super) contents: Contents,
    pub(super) acl: Option<Acl>,
    pub(super) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The number of an exclusive creation.
    pub(super) verifier: Option<u64>,
    /// Number of holds.
    pub(super) holds: u64,
}

impl Object {
    pub(super) fn permissions(&self) -> Permissions<'_> {
        Permissions::new(&self.attributes, self.acl.as_ref())
    }

    pub(super) fn is_directory(&self) -> bool {
        self.attributes.kind == FileKind::Directory
    }

    pub(super) fn directory(&self) -> Option<&Directory> {
        match &self.contents {
            Contents::Directory(directory) => Some(directory),
            Contents::File(_) | Contents::Symlink(_) | Contents::Special => None,
        }
    }

    pub(super) fn directory_mut(&mut self) -> Option<&mut Directory> {
        match &mut self.contents {
            Contents::Directory(directory) => Some(directory),
            Contents::File(_) | Contents::Symlink(_) | Contents::Special => None,
        }
    }

    /// Notes a change of attributes.
    pub(super) fn set_changed(&mut self, now: Timestamp) {
        self.attributes.changed = now;
        self.attributes.change += 1;
    }

    /// Notes a change of contents.
    pub(super) fn set_modified(&mut self, now: Timestamp) {
        self.attributes.modified = now;
        self.set_changed(now);
    }

    /// Bytes of memory that it counts for.
    pub(super) fn cost(&self) -> u64 {
        let contents = match &self.contents {
            Contents::File(blocks) => blocks.count() * BLOCK_COST,
            Contents::Directory(directory) => directory.len() as u64 * ENTRY_COST,
            Contents::Symlink(target) => target.len() as u64,
            Contents::Special => 0,
        };
        let xattrs = self.xattrs.iter();
        let xattrs: u64 = xattrs.map(|(name, value)| xattr_cost(name, value)).sum();
        OBJECT_COST + contents + acl_cost(self.acl.as_ref()) + xattrs
    }
}

/// Bytes that an extended attribute counts for.
pub(super) fn xattr_cost(name: &[u8], value: &[u8]) -> u64 {
    XATTR_COST + name.len() as u64 + value.len() as u64
}

/// Bytes that an access control list counts for.
pub(super) fn acl_cost(acl: Option<&Acl>) -> u64 {
    acl.map_or(0, |acl| acl.aces().len() as u64 * ACE_COST)
}
