//! Arguments of the procedures of NFS 3 (RFC 1813, section 3.3).

use super::attributes::{Guard, Set};
use super::{HANDLE_LEN_MAX, NAME_LEN_MAX, PATH_LEN_MAX, procedure};
use crate::limits::TRANSFER_MAX;
use crate::wire::Verifier;
use crate::xdr::{Bytes, Range, no_fields, xdr_enum, xdr_struct, xdr_union};
use backend::file::{SetAttributes, Timestamp};

/// A file handle.
type Handle = Bytes<HANDLE_LEN_MAX>;
/// The data of a WRITE.
type Data = Bytes<{ TRANSFER_MAX as usize }>;

xdr_struct! {
    /// A name in a directory (`diropargs3`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct At<'a> {
        /// The directory's handle.
        pub directory: &'a [u8] as Handle,
        /// The name.
        pub name: &'a [u8] as Bytes<NAME_LEN_MAX>,
    }
}

xdr_enum! {
    /// How CREATE treats an existing name (`createhow3`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum CreateHow {
        /// UNCHECKED: the existing file is used.
        Unchecked(set: SetAttributes as Set) = 0,
        /// GUARDED: it fails.
        Guarded(set: SetAttributes as Set) = 1,
        /// EXCLUSIVE: it fails, unless the file was created with this verifier.
        Exclusive(verifier: Verifier) = 2,
    }
}
xdr_union!(['a] CreateHow);

xdr_enum! {
    /// The object of MKNOD (`mknoddata3`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum NewNode {
        /// NF3BLK: major and minor number.
        BlockDevice(set: SetAttributes as Set, major: u32, minor: u32) = 3,
        /// NF3CHR: major and minor number.
        CharDevice(set: SetAttributes as Set, major: u32, minor: u32) = 4,
        /// NF3SOCK.
        Socket(set: SetAttributes as Set) = 6,
        /// NF3FIFO.
        Fifo(set: SetAttributes as Set) = 7,
    } else {
        /// A type that MKNOD does not create, by its number.
        Other(u32): u32::clone, no_fields;
    }
}
xdr_union!(['a] NewNode, |number| Ok(Self::Other(number)));

xdr_enum! {
    /// The arguments of a procedure, with file handles as opaque bytes. The number is the procedure's.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    #[allow(missing_docs)] // the fields are those of RFC 1813, section 3.3
    pub enum Arguments<'a> {
        Null = procedure::NULL,
        GetAttr { object: &'a [u8] as Handle } = procedure::GETATTR,
        SetAttr {
            object: &'a [u8] as Handle,
            set: SetAttributes as Set,
            guard: Option<Timestamp> as Guard,
        } = procedure::SETATTR,
        Lookup(at: At<'a>) = procedure::LOOKUP,
        Access { object: &'a [u8] as Handle, wanted: u32 } = procedure::ACCESS,
        ReadLink { object: &'a [u8] as Handle } = procedure::READLINK,
        Read { file: &'a [u8] as Handle, offset: u64, count: u32 } = procedure::READ,
        Write {
            file: &'a [u8] as Handle,
            offset: u64,
            count: u32,
            stable: u32 as Range<0, 2>,
            data: &'a [u8] as Data,
        } = procedure::WRITE,
        Create { at: At<'a>, how: CreateHow } = procedure::CREATE,
        MkDir { at: At<'a>, set: SetAttributes as Set } = procedure::MKDIR,
        SymLink {
            at: At<'a>,
            set: SetAttributes as Set,
            path: &'a [u8] as Bytes<PATH_LEN_MAX>,
        } = procedure::SYMLINK,
        MkNod { at: At<'a>, node: NewNode } = procedure::MKNOD,
        Remove(at: At<'a>) = procedure::REMOVE,
        RmDir(at: At<'a>) = procedure::RMDIR,
        Rename { from: At<'a>, to: At<'a> } = procedure::RENAME,
        Link { object: &'a [u8] as Handle, to: At<'a> } = procedure::LINK,
        ReadDir {
            directory: &'a [u8] as Handle,
            cookie: u64,
            verifier: Verifier,
            bytes_max: u32,
        } = procedure::READDIR,
        ReadDirPlus {
            directory: &'a [u8] as Handle,
            cookie: u64,
            verifier: Verifier,
            names_max: u32,
            bytes_max: u32,
        } = procedure::READDIRPLUS,
        FsStat { object: &'a [u8] as Handle } = procedure::FSSTAT,
        FsInfo { object: &'a [u8] as Handle } = procedure::FSINFO,
        PathConf { object: &'a [u8] as Handle } = procedure::PATHCONF,
        Commit { file: &'a [u8] as Handle, offset: u64, count: u32 } = procedure::COMMIT,
    }
}

impl Arguments<'_> {
    /// Whether a repetition may have another effect or result than the first execution.
    #[must_use]
    pub fn is_change(&self) -> bool {
        matches!(
            self,
            Arguments::SetAttr { .. }
                | Arguments::Write { .. }
                | Arguments::Create { .. }
                | Arguments::MkDir { .. }
                | Arguments::SymLink { .. }
                | Arguments::MkNod { .. }
                | Arguments::Remove(_)
                | Arguments::RmDir(_)
                | Arguments::Rename { .. }
                | Arguments::Link { .. }
        )
    }
}
