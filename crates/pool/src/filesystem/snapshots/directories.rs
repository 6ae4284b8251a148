//! The directories `.zfs` and `.zfs/snapshot`, which no disk has.
//!
//! **Owns** their handles, attributes and entries. **Called by** the snapshot directory. **Invariants**: their numbers are in the
//! range that no filesystem uses for objects; all callers may read and search them; the cookie of a snapshot is
//! [`FIRST_COOKIE`] plus its number.

use backend::file::{
    Access, Attributes, Cookie, Entry, FileKind, Handle, Listing, Name, Timestamp,
};

use super::source::{SnapshotEntry, Snapshots};
use crate::format::filesystem::{FIRST_OBJECT, ROOT_OBJECT};

/// Mode of both.
const MODE: u16 = 0o555;
/// The cookie of `.zfs` in the root, where lower ones than 16 are free; and of the first snapshot.
const FIRST_COOKIE: u64 = 15;
/// Most snapshots of one listing.
const LISTING_MAX: usize = 4096;

/// A directory that no disk has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Virtual {
    /// `.zfs`.
    Control,
    /// `.zfs/snapshot`.
    Snapshots,
}

/// The name of `.zfs` in the root directory.
pub(super) const CONTROL_NAME: &[u8] = b".zfs";
/// The name of `snapshot` in `.zfs`.
const SNAPSHOTS_NAME: &[u8] = b"snapshot";

impl Virtual {
    const ALL: [Virtual; 2] = [Virtual::Control, Virtual::Snapshots];

    fn number(self) -> u64 {
        let number = match self {
            Virtual::Control => ROOT_OBJECT.0 + 1,
            Virtual::Snapshots => ROOT_OBJECT.0 + 2,
        };
        debug_assert!(number < FIRST_OBJECT.0);
        number
    }

    /// Its name in the directory above.
    fn name(self) -> Name {
        let name = match self {
            Virtual::Control => CONTROL_NAME,
            Virtual::Snapshots => SNAPSHOTS_NAME,
        };
        Name::new(name).expect("a name")
    }

    pub(super) fn handle(self, filesystem: u64) -> Handle {
        Handle {
            filesystem,
            object: self.number(),
            generation: 0,
        }
    }

    /// The directory of a handle.
    pub(super) fn of(handle: Handle) -> Option<Self> {
        let of = |v: &Virtual| v.handle(handle.filesystem) == handle;
        Self::ALL.into_iter().find(of)
    }

    /// Its attributes. The times are those of the last change of the list of snapshots.
    pub(super) fn attributes<S: Snapshots>(self, filesystem: u64, source: &S) -> Attributes {
        let (change, time) = source.last_change();
        let links = match self {
            Virtual::Control => 3,
            Virtual::Snapshots => 2,
        };
        Attributes {
            handle: self.handle(filesystem),
            kind: FileKind::Directory,
            mode: MODE,
            links,
            uid: 0,
            gid: 0,
            size: 0,
            used: 0,
            device: 0,
            accessed: time,
            modified: time,
            changed: time,
            created: Timestamp::default(),
            change,
        }
    }

    /// The subset of an access that all callers have.
    pub(super) fn access(wanted: Access) -> Access {
        wanted & (Access::READ | Access::EXECUTE)
    }

    /// Its entry in the directory above.
    pub(super) fn entry(self, filesystem: u64) -> Entry {
        Entry {
            name: self.name(),
            cookie: Cookie(FIRST_COOKIE),
            handle: self.handle(filesystem),
            kind: FileKind::Directory,
            attributes: None,
        }
    }

    /// Whether a cookie is before [`Virtual::entry`].
    pub(super) fn is_before(cookie: Cookie) -> bool {
        cookie.0 < FIRST_COOKIE
    }

    pub(super) fn has_name(self, name: &Name) -> bool {
        *name == self.name()
    }
}

/// Snapshots behind a cookie, with whether the list ends with them.
pub(super) fn listed<S: Snapshots>(
    source: &S,
    after: Cookie,
    entries_max: usize,
) -> (Vec<SnapshotEntry>, bool) {
    let after = after.0.saturating_sub(FIRST_COOKIE);
    let most = entries_max.clamp(1, LISTING_MAX);
    let mut found = source.list(after, most + 1);
    let is_end = found.len() <= most;
    found.truncate(most);
    (found, is_end)
}

/// The entry of a snapshot with this root.
pub(super) fn snapshot_entry(of: SnapshotEntry, root: Handle) -> Entry {
    Entry {
        name: of.name,
        cookie: Cookie(FIRST_COOKIE + of.number),
        handle: root,
        kind: FileKind::Directory,
        attributes: None,
    }
}

/// A listing of `.zfs`.
pub(super) fn list_control(filesystem: u64, after: Cookie) -> Listing {
    let entry = Virtual::Snapshots.entry(filesystem);
    Listing {
        entries: Some(entry)
            .filter(|_| Virtual::is_before(after))
            .into_iter()
            .collect(),
        is_end: true,
    }
}
