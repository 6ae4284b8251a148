//! Backends: the interfaces between protocols and storage.
//!
//! **Owns** the traits [`BlockBackend`] and [`file::FileBackend`], the [`Durable`] token, [`StorageError`], and the
//! backends that need no pool: disks ([`memory`], [`null`], [`raw`]) and a file system ([`file::memory`]). **Called by** protocol targets (above) and implemented by the pool (below).
//! **Invariants**: protocols know nothing below this interface; an answer that promises stable storage needs a
//! [`Durable`], and only a confirmation of the medium makes one.

#![forbid(unsafe_code)]

mod block;
mod durable;
mod error;
pub mod file;
pub mod memory;
pub mod null;
mod range_lock;
pub mod raw;
mod reply;

pub use block::{BlockBackend, Extent, Geometry, Lba, Run, Usage, check_extent};
pub use durable::{Confirmed, Durable, Waived};
pub use error::{Result, StorageError};
pub use range_lock::{RangeLock, Turn};
pub use reply::Reply;
