//! Filesystems: POSIX files on a dataset of the pool.
//!
//! **Owns** names, attributes, links, extended attributes, access control lists, orphans and handles. **Called by** file
//! protocols. **Invariants**: a mutation is one [`Transaction`], so that it is visible, and survives a crash, as a whole;
//! everything below is reached through [`Store`]. Layout: `docs/format.md`, "Filesystems".

mod access_times;
mod acl;
mod attributes;
mod backend;
mod create;
mod damaged;
mod data;
mod directory;
mod entries;
mod events;
mod holds;
mod inner;
mod links;
mod name_rules;
mod names;
mod numbers;
mod object;
mod opening;
mod orphans;
mod rename;
mod slots;
mod snapshots;
mod store;
mod turns;
mod xattrs;

pub use backend::FileSystem;
pub(crate) use opening::first_transaction;
pub use opening::{NewFileSystem, create_filesystem};
pub use snapshots::{SnapshotDirectory, SnapshotEntry, SnapshotVisibility, Snapshots};
pub use store::{
    AccessTimes, Edit, Purpose, ScannedAround, Settings, Store, StoreSpace, Transaction,
};
