//! The pool's table: a volume compared with a raw file on the same disk, and goals of the pool alone.
//!
//! **Owns** the pool, on this thread, and the order of all operations on it. **Called by** [`super::tables`].
//! **Invariants**: the file under the pool is written completely before, so that no file system allocates space
//! during a measurement; reads come from the disk, except in rows about the cache.

mod alone;
mod bench;
mod beside;
mod btrfs;
mod load;
mod remote;
mod table;

pub(super) use beside::needed;
pub(super) use table::{rows, table};
