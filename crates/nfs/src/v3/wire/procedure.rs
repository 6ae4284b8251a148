//! Numbers of procedures (RFC 1813, section 3.3).

/// NULL.
pub const NULL: u32 = 0;
/// GETATTR.
pub const GETATTR: u32 = 1;
/// SETATTR.
pub const SETATTR: u32 = 2;
/// LOOKUP.
pub const LOOKUP: u32 = 3;
/// ACCESS.
pub const ACCESS: u32 = 4;
/// READLINK.
pub const READLINK: u32 = 5;
/// READ.
pub const READ: u32 = 6;
/// WRITE.
pub const WRITE: u32 = 7;
/// CREATE.
pub const CREATE: u32 = 8;
/// MKDIR.
pub const MKDIR: u32 = 9;
/// SYMLINK.
pub const SYMLINK: u32 = 10;
/// MKNOD.
pub const MKNOD: u32 = 11;
/// REMOVE.
pub const REMOVE: u32 = 12;
/// RMDIR.
pub const RMDIR: u32 = 13;
/// RENAME.
pub const RENAME: u32 = 14;
/// LINK.
pub const LINK: u32 = 15;
/// READDIR.
pub const READDIR: u32 = 16;
/// READDIRPLUS.
pub const READDIRPLUS: u32 = 17;
/// FSSTAT.
pub const FSSTAT: u32 = 18;
/// FSINFO.
pub const FSINFO: u32 = 19;
/// PATHCONF.
pub const PATHCONF: u32 = 20;
/// COMMIT.
pub const COMMIT: u32 = 21;
/// Number of procedures.
pub const COUNT: u32 = 22;

const NAMES: [&str; COUNT as usize] = [
    "null",
    "getattr",
    "setattr",
    "lookup",
    "access",
    "readlink",
    "read",
    "write",
    "create",
    "mkdir",
    "symlink",
    "mknod",
    "remove",
    "rmdir",
    "rename",
    "link",
    "readdir",
    "readdirplus",
    "fsstat",
    "fsinfo",
    "pathconf",
    "commit",
];

/// The name of a procedure, in lower case.
#[must_use]
pub fn name(number: u32) -> &'static str {
    NAMES.get(number as usize).copied().unwrap_or("unknown")
}
