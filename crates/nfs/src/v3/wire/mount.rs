//! MOUNT version 3 (RFC 1813, appendix I).

use crate::xdr::{Bytes, xdr_enum};

/// Program number.
pub const PROGRAM: u32 = 100_005;
/// The version of MOUNT.
pub const VERSION: u32 = 3;
/// Most bytes of a path (`MNTPATHLEN`).
pub const PATH_LEN_MAX: usize = 1024;

/// Numbers of procedures.
pub mod procedure {
    /// NULL.
    pub const NULL: u32 = 0;
    /// MNT.
    pub const MNT: u32 = 1;
    /// DUMP.
    pub const DUMP: u32 = 2;
    /// UMNT.
    pub const UMNT: u32 = 3;
    /// UMNTALL.
    pub const UMNTALL: u32 = 4;
    /// EXPORT.
    pub const EXPORT: u32 = 5;
}

xdr_enum! {
    /// The arguments of a procedure. The number is the procedure's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Arguments<'a> {
        /// Nothing is done.
        Null = procedure::NULL,
        /// The handle of a directory, by its path.
        Mount(path: &'a [u8] as Bytes<PATH_LEN_MAX>) = procedure::MNT,
        /// The list of mounts.
        Dump = procedure::DUMP,
        /// A host no longer uses this path.
        Unmount(path: &'a [u8] as Bytes<PATH_LEN_MAX>) = procedure::UMNT,
        /// A host no longer uses any path.
        UnmountAll = procedure::UMNTALL,
        /// The list of exports.
        Export = procedure::EXPORT,
    }
}
