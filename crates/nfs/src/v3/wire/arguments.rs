//! Arguments of the procedures of NFS 3 (RFC 1813, section 3.3).

use super::attributes::{decode_guard, decode_set, encode_guard, encode_set};
use super::{HANDLE_LEN_MAX, NAME_LEN_MAX, PATH_LEN_MAX, procedure};
use crate::limits::TRANSFER_MAX;
use crate::wire::Verifier;
use crate::xdr::{Reader, Result, Writer, XdrError};
use backend::file::{SetAttributes, Timestamp};

/// A name in a directory (`diropargs3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At<'a> {
    /// The directory's handle.
    pub directory: &'a [u8],
    /// The name.
    pub name: &'a [u8],
}

/// How CREATE treats an existing name (`createhow3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow {
    /// UNCHECKED: the existing file is used.
    Unchecked(SetAttributes),
    /// GUARDED: it fails.
    Guarded(SetAttributes),
    /// EXCLUSIVE: it fails, unless the file was created with this verifier.
    Exclusive(Verifier),
}

/// The object of MKNOD (`mknoddata3`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewNode {
    /// NF3BLK: major and minor number.
    BlockDevice(SetAttributes, u32, u32),
    /// NF3CHR: major and minor number.
    CharDevice(SetAttributes, u32, u32),
    /// NF3SOCK.
    Socket(SetAttributes),
    /// NF3FIFO.
    Fifo(SetAttributes),
    /// A type that MKNOD does not create, by its number.
    Other(u32),
}

/// The arguments of a procedure, with file handles as opaque bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are those of RFC 1813, section 3.3
pub enum Arguments<'a> {
    Null,
    GetAttr {
        object: &'a [u8],
    },
    SetAttr {
        object: &'a [u8],
        set: SetAttributes,
        guard: Option<Timestamp>,
    },
    Lookup(At<'a>),
    Access {
        object: &'a [u8],
        wanted: u32,
    },
    ReadLink {
        object: &'a [u8],
    },
    Read {
        file: &'a [u8],
        offset: u64,
        count: u32,
    },
    Write {
        file: &'a [u8],
        offset: u64,
        count: u32,
        stable: u32,
        data: &'a [u8],
    },
    Create {
        at: At<'a>,
        how: CreateHow,
    },
    MkDir {
        at: At<'a>,
        set: SetAttributes,
    },
    SymLink {
        at: At<'a>,
        set: SetAttributes,
        path: &'a [u8],
    },
    MkNod {
        at: At<'a>,
        node: NewNode,
    },
    Remove(At<'a>),
    RmDir(At<'a>),
    Rename {
        from: At<'a>,
        to: At<'a>,
    },
    Link {
        object: &'a [u8],
        to: At<'a>,
    },
    ReadDir {
        directory: &'a [u8],
        cookie: u64,
        verifier: Verifier,
        bytes_max: u32,
    },
    ReadDirPlus {
        directory: &'a [u8],
        cookie: u64,
        verifier: Verifier,
        names_max: u32,
        bytes_max: u32,
    },
    FsStat {
        object: &'a [u8],
    },
    FsInfo {
        object: &'a [u8],
    },
    PathConf {
        object: &'a [u8],
    },
    Commit {
        file: &'a [u8],
        offset: u64,
        count: u32,
    },
}

fn handle<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8]> {
    reader.opaque(HANDLE_LEN_MAX)
}

impl<'a> At<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self {
            directory: handle(reader)?,
            name: reader.opaque(NAME_LEN_MAX)?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.opaque(self.directory);
        writer.opaque(self.name);
    }
}

impl CreateHow {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        match reader.u32()? {
            0 => decode_set(reader).map(CreateHow::Unchecked),
            1 => decode_set(reader).map(CreateHow::Guarded),
            2 => reader.array().map(CreateHow::Exclusive),
            _ => Err(XdrError::Value),
        }
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            CreateHow::Unchecked(set) => {
                writer.u32(0);
                encode_set(set, writer);
            }
            CreateHow::Guarded(set) => {
                writer.u32(1);
                encode_set(set, writer);
            }
            CreateHow::Exclusive(verifier) => {
                writer.u32(2);
                writer.fixed(verifier);
            }
        }
    }
}

impl NewNode {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(match reader.u32()? {
            3 => NewNode::BlockDevice(decode_set(reader)?, reader.u32()?, reader.u32()?),
            4 => NewNode::CharDevice(decode_set(reader)?, reader.u32()?, reader.u32()?),
            6 => NewNode::Socket(decode_set(reader)?),
            7 => NewNode::Fifo(decode_set(reader)?),
            other => NewNode::Other(other),
        })
    }

    fn encode(&self, writer: &mut Writer) {
        let (kind, set, device) = match self {
            NewNode::BlockDevice(set, major, minor) => (3, set, Some((major, minor))),
            NewNode::CharDevice(set, major, minor) => (4, set, Some((major, minor))),
            NewNode::Socket(set) => (6, set, None),
            NewNode::Fifo(set) => (7, set, None),
            NewNode::Other(kind) => return writer.u32(*kind),
        };
        writer.u32(kind);
        encode_set(set, writer);
        if let Some((major, minor)) = device {
            writer.u32(*major);
            writer.u32(*minor);
        }
    }
}

impl<'a> Arguments<'a> {
    /// Reads the arguments of a procedure. `None` if it does not exist. Errors: those of the encoding, `TooLong` for a handle, name
    /// or data above its limit.
    // tidy: flat dispatch
    pub fn decode(number: u32, reader: &mut Reader<'a>) -> Result<Option<Self>> {
        Ok(Some(match number {
            procedure::NULL => Arguments::Null,
            procedure::GETATTR => Arguments::GetAttr {
                object: handle(reader)?,
            },
            procedure::SETATTR => Arguments::SetAttr {
                object: handle(reader)?,
                set: decode_set(reader)?,
                guard: decode_guard(reader)?,
            },
            procedure::LOOKUP => Arguments::Lookup(At::decode(reader)?),
            procedure::ACCESS => Arguments::Access {
                object: handle(reader)?,
                wanted: reader.u32()?,
            },
            procedure::READLINK => Arguments::ReadLink {
                object: handle(reader)?,
            },
            procedure::READ => Arguments::Read {
                file: handle(reader)?,
                offset: reader.u64()?,
                count: reader.u32()?,
            },
            procedure::WRITE => Arguments::Write {
                file: handle(reader)?,
                offset: reader.u64()?,
                count: reader.u32()?,
                stable: match reader.u32()? {
                    stable @ 0..=2 => stable,
                    _ => return Err(XdrError::Value),
                },
                data: reader.opaque(TRANSFER_MAX as usize)?,
            },
            procedure::CREATE => Arguments::Create {
                at: At::decode(reader)?,
                how: CreateHow::decode(reader)?,
            },
            procedure::MKDIR => Arguments::MkDir {
                at: At::decode(reader)?,
                set: decode_set(reader)?,
            },
            procedure::SYMLINK => Arguments::SymLink {
                at: At::decode(reader)?,
                set: decode_set(reader)?,
                path: reader.opaque(PATH_LEN_MAX)?,
            },
            procedure::MKNOD => Arguments::MkNod {
                at: At::decode(reader)?,
                node: NewNode::decode(reader)?,
            },
            procedure::REMOVE => Arguments::Remove(At::decode(reader)?),
            procedure::RMDIR => Arguments::RmDir(At::decode(reader)?),
            procedure::RENAME => Arguments::Rename {
                from: At::decode(reader)?,
                to: At::decode(reader)?,
            },
            procedure::LINK => Arguments::Link {
                object: handle(reader)?,
                to: At::decode(reader)?,
            },
            procedure::READDIR => Arguments::ReadDir {
                directory: handle(reader)?,
                cookie: reader.u64()?,
                verifier: reader.array()?,
                bytes_max: reader.u32()?,
            },
            procedure::READDIRPLUS => Arguments::ReadDirPlus {
                directory: handle(reader)?,
                cookie: reader.u64()?,
                verifier: reader.array()?,
                names_max: reader.u32()?,
                bytes_max: reader.u32()?,
            },
            procedure::FSSTAT => Arguments::FsStat {
                object: handle(reader)?,
            },
            procedure::FSINFO => Arguments::FsInfo {
                object: handle(reader)?,
            },
            procedure::PATHCONF => Arguments::PathConf {
                object: handle(reader)?,
            },
            procedure::COMMIT => Arguments::Commit {
                file: handle(reader)?,
                offset: reader.u64()?,
                count: reader.u32()?,
            },
            _ => return Ok(None),
        }))
    }

    /// Writes the arguments.
    // tidy: flat dispatch
    pub fn encode(&self, writer: &mut Writer) {
        match self {
            Arguments::Null => {}
            Arguments::GetAttr { object }
            | Arguments::ReadLink { object }
            | Arguments::FsStat { object }
            | Arguments::FsInfo { object }
            | Arguments::PathConf { object } => writer.opaque(object),
            Arguments::SetAttr { object, set, guard } => {
                writer.opaque(object);
                encode_set(set, writer);
                encode_guard(*guard, writer);
            }
            Arguments::Lookup(at) | Arguments::Remove(at) | Arguments::RmDir(at) => {
                at.encode(writer);
            }
            Arguments::Access { object, wanted } => {
                writer.opaque(object);
                writer.u32(*wanted);
            }
            Arguments::Read {
                file,
                offset,
                count,
            }
            | Arguments::Commit {
                file,
                offset,
                count,
            } => {
                writer.opaque(file);
                writer.u64(*offset);
                writer.u32(*count);
            }
            Arguments::Write {
                file,
                offset,
                count,
                stable,
                data,
            } => {
                writer.opaque(file);
                writer.u64(*offset);
                writer.u32(*count);
                writer.u32(*stable);
                writer.opaque(data);
            }
            Arguments::Create { at, how } => {
                at.encode(writer);
                how.encode(writer);
            }
            Arguments::MkDir { at, set } => {
                at.encode(writer);
                encode_set(set, writer);
            }
            Arguments::SymLink { at, set, path } => {
                at.encode(writer);
                encode_set(set, writer);
                writer.opaque(path);
            }
            Arguments::MkNod { at, node } => {
                at.encode(writer);
                node.encode(writer);
            }
            Arguments::Rename { from, to } => {
                from.encode(writer);
                to.encode(writer);
            }
            Arguments::Link { object, to } => {
                writer.opaque(object);
                to.encode(writer);
            }
            Arguments::ReadDir {
                directory,
                cookie,
                verifier,
                bytes_max,
            } => {
                writer.opaque(directory);
                writer.u64(*cookie);
                writer.fixed(verifier);
                writer.u32(*bytes_max);
            }
            Arguments::ReadDirPlus {
                directory,
                cookie,
                verifier,
                names_max,
                bytes_max,
            } => {
                writer.opaque(directory);
                writer.u64(*cookie);
                writer.fixed(verifier);
                writer.u32(*names_max);
                writer.u32(*bytes_max);
            }
        }
    }

    /// The procedure's number.
    #[must_use]
    pub fn procedure(&self) -> u32 {
        match self {
            Arguments::Null => procedure::NULL,
            Arguments::GetAttr { .. } => procedure::GETATTR,
            Arguments::SetAttr { .. } => procedure::SETATTR,
            Arguments::Lookup(_) => procedure::LOOKUP,
            Arguments::Access { .. } => procedure::ACCESS,
            Arguments::ReadLink { .. } => procedure::READLINK,
            Arguments::Read { .. } => procedure::READ,
            Arguments::Write { .. } => procedure::WRITE,
            Arguments::Create { .. } => procedure::CREATE,
            Arguments::MkDir { .. } => procedure::MKDIR,
            Arguments::SymLink { .. } => procedure::SYMLINK,
            Arguments::MkNod { .. } => procedure::MKNOD,
            Arguments::Remove(_) => procedure::REMOVE,
            Arguments::RmDir(_) => procedure::RMDIR,
            Arguments::Rename { .. } => procedure::RENAME,
            Arguments::Link { .. } => procedure::LINK,
            Arguments::ReadDir { .. } => procedure::READDIR,
            Arguments::ReadDirPlus { .. } => procedure::READDIRPLUS,
            Arguments::FsStat { .. } => procedure::FSSTAT,
            Arguments::FsInfo { .. } => procedure::FSINFO,
            Arguments::PathConf { .. } => procedure::PATHCONF,
            Arguments::Commit { .. } => procedure::COMMIT,
        }
    }

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
