//! An object in memory: its inode and access control list, as an operation works on it.
//!
//! **Owns** the conversion of inodes into attributes and permissions. **Called by** all operations. **Invariants**: a change
//! of contents or attributes raises `change` by at least one, and the time of the last change; an access never does.

use backend::StorageError;
use backend::file::permission::Permissions;
use backend::file::{Acl, Attributes, FileError, FileKind, FileResult, Handle, Timestamp};

use crate::format::ObjectId;
use crate::format::filesystem::{Inode, Link, ObjectRef};

/// Unit of the space that files take, bytes.
const SPACE_UNIT: u64 = 512;

/// The present time.
pub(super) fn now() -> Timestamp {
    let nanoseconds = io::time::wall_clock_ms().saturating_mul(1_000_000);
    Timestamp(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// An object that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) number: ObjectId,
    pub(super) inode: Inode,
    /// `None` if the mode says all.
    pub(super) acl: Option<Acl>,
}

/// The handle of an object of a filesystem.
pub(super) fn handle_of(filesystem: u64, of: ObjectRef) -> Handle {
    Handle {
        filesystem,
        object: of.object.0,
        generation: of.generation,
    }
}

/// The attributes of an object of a filesystem.
pub(super) fn attributes_of(filesystem: u64, number: ObjectId, inode: &Inode) -> Attributes {
    let of = ObjectRef {
        object: number,
        generation: inode.generation,
    };
    Attributes {
        handle: handle_of(filesystem, of),
        kind: inode.kind,
        mode: inode.mode,
        links: inode.links,
        uid: inode.uid,
        gid: inode.gid,
        size: inode.size,
        used: inode.used.next_multiple_of(SPACE_UNIT),
        device: inode.device,
        accessed: inode.accessed,
        modified: inode.modified,
        changed: inode.changed,
        created: inode.created,
        change: inode.change,
    }
}

impl Object {
    pub(super) fn reference(&self) -> ObjectRef {
        ObjectRef {
            object: self.number,
            generation: self.inode.generation,
        }
    }

    pub(super) fn permissions(&self) -> Permissions<'_> {
        let attributes = attributes_of(0, self.number, &self.inode);
        Permissions::new(&attributes, self.acl.as_ref())
    }

    pub(super) fn is_directory(&self) -> bool {
        self.inode.kind == FileKind::Directory
    }

    /// The place of its first name.
    pub(super) fn first_name(&self) -> Link {
        Link {
            parent: self.inode.parent,
            entry: self.inode.entry,
        }
    }

    /// Notes that a directory has one more entry.
    pub(super) fn gain_entry(&mut self, is_directory: bool) {
        self.inode.size += 1;
        self.inode.links += u32::from(is_directory);
    }

    /// Notes that a directory has one entry less. Errors: `Corrupt` if it had none.
    pub(super) fn lose_entry(&mut self, is_directory: bool) -> FileResult<()> {
        let size = self.inode.size.checked_sub(1);
        let links = self.inode.links.checked_sub(u32::from(is_directory));
        let (Some(size), Some(links)) = (size, links) else {
            return Err(FileError::Storage(StorageError::Corrupt));
        };
        self.inode.size = size;
        self.inode.links = links;
        Ok(())
    }

    /// Notes a change of attributes. Its time grows with each change, also of one millisecond and when the clock was set back:
    /// clients of NFS 3 and FUSE have nothing else to tell two states apart.
    pub(super) fn set_changed(&mut self, time: Timestamp) {
        let next = Timestamp(self.inode.changed.0.saturating_add(1));
        self.inode.changed = time.max(next);
        self.inode.change += 1;
    }

    /// Notes a change that was made at this time.
    pub(super) fn set_changed_at(&mut self, time: Timestamp) {
        self.inode.changed = self.inode.changed.max(time);
        self.inode.change += 1;
    }

    /// Notes a change of contents.
    pub(super) fn set_modified(&mut self, time: Timestamp) {
        self.set_changed(time);
        self.inode.modified = self.inode.changed;
    }
}
