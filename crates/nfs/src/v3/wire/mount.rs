//! MOUNT version 3 (RFC 1813, appendix I).

use crate::xdr::{Reader, Result, Writer};

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

/// The arguments of a procedure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arguments<'a> {
    /// Nothing is done.
    Null,
    /// The handle of a directory, by its path.
    Mount(&'a [u8]),
    /// The list of mounts.
    Dump,
    /// A host no longer uses this path.
    Unmount(&'a [u8]),
    /// A host no longer uses any path.
    UnmountAll,
    /// The list of exports.
    Export,
}

impl<'a> Arguments<'a> {
    /// Reads the arguments of a procedure. `None` if it does not exist. Errors: those of the encoding, `TooLong` for a path above its
    /// limit.
    pub fn decode(number: u32, reader: &mut Reader<'a>) -> Result<Option<Self>> {
        Ok(Some(match number {
            procedure::NULL => Arguments::Null,
            procedure::MNT => Arguments::Mount(reader.opaque(PATH_LEN_MAX)?),
            procedure::DUMP => Arguments::Dump,
            procedure::UMNT => Arguments::Unmount(reader.opaque(PATH_LEN_MAX)?),
            procedure::UMNTALL => Arguments::UnmountAll,
            procedure::EXPORT => Arguments::Export,
            _ => return Ok(None),
        }))
    }

    /// Writes the arguments.
    pub fn encode(&self, writer: &mut Writer) {
        match self {
            Arguments::Mount(path) | Arguments::Unmount(path) => writer.opaque(path),
            Arguments::Null | Arguments::Dump | Arguments::UnmountAll | Arguments::Export => {}
        }
    }

    /// The procedure's number.
    #[must_use]
    pub fn procedure(&self) -> u32 {
        match self {
            Arguments::Null => procedure::NULL,
            Arguments::Mount(_) => procedure::MNT,
            Arguments::Dump => procedure::DUMP,
            Arguments::Unmount(_) => procedure::UMNT,
            Arguments::UnmountAll => procedure::UMNTALL,
            Arguments::Export => procedure::EXPORT,
        }
    }
}
