//! Snapshots of a filesystem in its directory `.zfs/snapshot`.
//!
//! **Owns** [`SnapshotDirectory`], a `FileBackend` of a filesystem and its snapshots. **Called by** protocols, in
//! place of the filesystem. **Invariants**: a handle names the filesystem or the snapshot that it belongs to; all mutations
//! in `.zfs` and in snapshots are refused; handles of a destroyed snapshot are stale.

mod backend;
mod directories;
mod dispatch;
mod open;
mod source;

pub use dispatch::SnapshotDirectory;
pub use source::{SnapshotEntry, SnapshotVisibility, Snapshots};
