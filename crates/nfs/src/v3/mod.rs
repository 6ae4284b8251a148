//! NFS version 3 and MOUNT version 3 (RFC 1813): files for clients without state.
//!
//! | module | owns |
//! |---|---|
//! | [`wire`] | formats, for both ends |
//! | `run` | a call of NFS, from its arguments to the reply |
//! | `duplicates` | the replies of changes, for requests that are repeated |
//! | `procedure` | the objects of a call, its failures |
//! | `attributes`, `filesystem` | GETATTR, SETATTR, ACCESS; FSSTAT, FSINFO, PATHCONF |
//! | `names`, `creation`, `directory` | LOOKUP, READLINK, REMOVE, RMDIR, RENAME, LINK; creations; READDIR, READDIRPLUS |
//! | `data` | READ, WRITE, COMMIT |
//! | `conflict` | opens of version 4 that exclude a request of version 3 |
//! | `hosts` | the calls of each host |
//! | `mount`, `mounts` | MOUNT, and the list of mounts |
//!
//! Sections named "§" are of RFC 1813 in this module. **Called by** the dispatch of calls. **Invariants**: a change that is repeated after a
//! connection was lost is executed once; `wcc_data` with a state before a change comes from the change itself, in one step with
//! it; the pseudo file system does not exist in this version.

mod attributes;
mod conflict;
mod creation;
mod data;
mod directory;
mod duplicates;
mod filesystem;
mod hosts;
mod mount;
mod mounts;
mod names;
mod procedure;
mod run;
pub mod wire;

pub(crate) use duplicates::Duplicates;
pub use hosts::HostInfo;
pub(crate) use hosts::Hosts;
pub(crate) use mount::execute as execute_mount;
pub use mounts::Mount;
pub(crate) use mounts::Mounts;
pub(crate) use run::{cost, execute};
