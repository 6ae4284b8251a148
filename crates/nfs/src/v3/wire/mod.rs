//! Formats of NFS 3 (RFC 1813) and of MOUNT 3 (its appendix I), for both ends.
//!
//! | module | owns |
//! |---|---|
//! | `arguments` | the arguments of the procedures of NFS |
//! | `procedure` | numbers of procedures |
//! | `attributes` | `fattr3`, `sattr3`, `wcc_data` |
//! | `status` | `nfsstat3`, `mountstat3` |
//! | `mount` | the arguments of MOUNT |
//!
//! **Called by** the procedures, tests and fuzz targets. **Invariants**: as those of [`crate::xdr`]; arguments that were read encode to the
//! bytes from which they were read, except for padding and the bits of a mode that do not exist.

mod arguments;
pub mod attributes;
pub mod mount;
pub mod procedure;
mod status;
#[cfg(test)]
mod tests;

pub use arguments::{Arguments, At, CreateHow, NewNode};
pub use status::{MountStatus, Status};

/// The version of NFS.
pub const VERSION: u32 = 3;
/// Most bytes of a file handle (`NFS3_FHSIZE`).
pub const HANDLE_LEN_MAX: usize = 64;
/// Most bytes of a name that is read; longer than the longest name of a file system, so that the answer is a status.
pub const NAME_LEN_MAX: usize = 1024;
/// Most bytes of the target of a symbolic link that are read, likewise.
pub const PATH_LEN_MAX: usize = 8192;
