//! Filesystems of pools: changes, views, users, mounts and exports.
//!
//! **Owns** open filesystems, their mounts and their exports. **Called by** the control API, on the server's shard, and by the start and end of
//! the server. **Invariants**: a filesystem is open once, and all its users share it; it is destroyed, renamed or rolled back only
//! without users; the pool stores filesystems, the configuration only their mounts.

mod change;
mod create;
mod diff;
mod exports;
mod mount;
mod mounts;
mod opened;
mod owners;
mod registry;
mod shares;
mod snapshots;
mod users;
mod view;

pub(super) use diff::{check_snapshot_name, remove_leftovers};
pub(crate) use owners::OwnerProperty;
pub(crate) use registry::Filesystems;
pub use users::FilesystemUser;
