//! FUSE: mounts a file system of ours in the kernel of this machine.
//!
//! | module | owns |
//! |---|---|
//! | [`Mount`] | mounting, unmounting, the end of a mount, cleaning up dead ones |
//! | `front` | the kernel's requests, handed to shards, and the replies |
//! | `requests` | one function for each operation, on [`backend::file::FileBackend`] |
//! | `mounted`, `nodes`, `opened` | the state of a mount: inode numbers, lookup counts, open files |
//! | `acl` | POSIX ACLs and the attribute of NFSv4 clients, made of the file interface's lists and back |
//! | `notices` | what the kernel is told: write back, forget |
//! | [`MountOptions`] | options, and the use of the kernel's caches |
//! | [`Operation`] | counts and latencies by kind |
//! | [`limits`] | the named limits |
//!
//! **Called by** the server. **Invariants**: nothing of `fuser` is public, so that another way to the kernel can replace it;
//! session threads copy and hand over, shards do the work; what the kernel does not know is never trusted: an unknown inode
//! number is ESTALE, an unknown open file is nothing.
//!
//! **Caches** (decision 0320): if no one else changes
//! the file system, the kernel keeps names, attributes and data for a minute, and writes data back itself. It then owns size and
//! times of files until it has written them. A close makes nothing durable; fsync does.

#![forbid(unsafe_code)]

mod acl;
mod convert;
mod error;
mod front;
mod gate;
pub mod limits;
mod lock_waits;
mod mount;
mod mounted;
mod nodes;
mod notices;
mod opened;
mod operation;
mod options;
mod requests;
mod status;
mod write_backs;

pub use error::{Error, Result};
pub use mount::{EndReason, Ended, Mount, MountState, MountTotals, Unmount};
pub use operation::{Operation, OperationTotals};
pub use options::{MountOptions, Permissions};
