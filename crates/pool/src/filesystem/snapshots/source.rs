//! What a snapshot directory needs of the pool: [`Snapshots`].
//!
//! **Owns** the trait. **Called by** the snapshot directory, and implemented by the pool. **Invariant**: the number of a
//! snapshot is never used twice, so that it makes a cookie.

use backend::file::{FileBackend, FileResult, Name, Timestamp};

/// Whether the directory `.zfs` is listed in the root directory (`snapdir`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotVisibility {
    /// It does not exist.
    Disabled,
    /// It is found by its name only.
    Hidden,
    /// It is listed, too.
    Visible,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// Its name, the part behind the `@`.
    pub name: Name,
    /// Its number in handles (`fsid`).
    pub id: u64,
    /// Number of its dataset, below 2^62. Never used twice.
    pub number: u64,
}

/// The snapshots of one filesystem.
pub trait Snapshots: Send + Sync + 'static {
    /// A snapshot as a filesystem. All its mutations fail with `ReadOnly`. Its root directory has number and generation of the
    /// filesystem's.
    type Files: FileBackend + Clone;

    /// Whether `.zfs` is there. Cheap.
    fn visibility(&self) -> SnapshotVisibility;

    /// A number that grows with each change of the list of snapshots, and the time of the last one. Cheap.
    fn last_change(&self) -> (u64, Timestamp);

    /// The snapshots behind a number, by number: at most `max`.
    fn list(&self, after: u64, max: usize) -> Vec<SnapshotEntry>;

    /// The snapshot of this name.
    fn by_name(&self, name: &Name) -> Option<SnapshotEntry>;

    /// Whether the snapshot with this number in handles exists. Cheap.
    fn exists(&self, id: u64) -> bool;

    /// Opens a snapshot. Errors: `Stale` if there is none.
    fn open(&self, id: u64) -> impl Future<Output = FileResult<Self::Files>>;
}
