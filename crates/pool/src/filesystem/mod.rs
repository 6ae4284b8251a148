//! Filesystems: POSIX files on a dataset of the pool.
//!
//! **Owns** names, attributes, links, extended attributes, access control lists, orphans and handles. **Called by** file
//! protocols. **Invariants**: a mutation is one [`Transaction`], so that it is visible, and survives a crash, as a whole;
//! everything below is reached through [`Store`]. Layout: `docs/format.md`, "Filesystems".

mod store;

pub use store::{AccessTimes, Edit, Purpose, Settings, Store, StoreSpace, Transaction};
