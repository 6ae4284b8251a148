//! Arguments of the operations of minor version 2 (RFC 7862, section 15; RFC 8276, section 8.4).
//!
//! **Owns** [`Minor2`]. **Called by** [`super::Op`], which has these operations as one variant. **Invariants**: every minor
//! version decodes alike; the server refuses operations that the minor version of the COMPOUND does not have.

use super::operation as number;
use super::types::Stateid;
use crate::limits::{NETLOC_LEN_MAX, NETLOCS_MAX};
use crate::xdr::{Reader, Result, Writer, XdrError};

/// Bytes of a file that an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The open or lock under which the file is used.
    pub stateid: Stateid,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Span {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            stateid: Stateid::decode(reader)?,
            offset: reader.u64()?,
            length: reader.u64()?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        self.stateid.encode(writer);
        writer.u64(self.offset);
        writer.u64(self.length);
    }
}

/// COPY (RFC 7862, section 15.2): from the saved file to the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copy {
    /// State of the source.
    pub source: Stateid,
    /// State of the target.
    pub target: Stateid,
    /// First byte of the source.
    pub source_offset: u64,
    /// First byte of the target.
    pub target_offset: u64,
    /// Bytes; 0 for all up to the end of the source.
    pub count: u64,
    /// Whether bytes must be copied in their order.
    pub is_consecutive: bool,
    /// Whether the reply must wait for the copy.
    pub is_synchronous: bool,
    /// Number of other servers that have the source.
    pub servers: usize,
}

impl Copy {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let (source, target) = (Stateid::decode(reader)?, Stateid::decode(reader)?);
        let (source_offset, target_offset, count) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let (is_consecutive, is_synchronous) = (reader.bool()?, reader.bool()?);
        let servers = reader.count(NETLOCS_MAX, 8)?;
        for _ in 0..servers {
            skip_netloc(reader)?;
        }
        Ok(Self {
            source,
            target,
            source_offset,
            target_offset,
            count,
            is_consecutive,
            is_synchronous,
            servers,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        self.source.encode(writer);
        self.target.encode(writer);
        [self.source_offset, self.target_offset, self.count]
            .iter()
            .for_each(|value| writer.u64(*value));
        writer.bool(self.is_consecutive);
        writer.bool(self.is_synchronous);
        writer.count(self.servers);
        for _ in 0..self.servers {
            writer.u32(NETLOC_NAME);
            writer.opaque(b"");
        }
    }
}

/// `NL4_NAME`, `NL4_URL`, `NL4_NETADDR` (RFC 7862, section 3.1).
const NETLOC_NAME: u32 = 1;
const NETLOC_URL: u32 = 2;
const NETLOC_ADDRESS: u32 = 3;

fn skip_netloc(reader: &mut Reader<'_>) -> Result<()> {
    let parts = match reader.u32()? {
        NETLOC_NAME | NETLOC_URL => 1,
        NETLOC_ADDRESS => 2,
        _ => return Err(XdrError::Value),
    };
    for _ in 0..parts {
        reader.opaque(NETLOC_LEN_MAX)?;
    }
    Ok(())
}

/// Whether SETXATTR creates or replaces (`setxattr_option4`, RFC 8276, section 8.4.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOption {
    /// SETXATTR4_EITHER.
    Either = 0,
    /// SETXATTR4_CREATE: it must not exist.
    Create = 1,
    /// SETXATTR4_REPLACE: it must exist.
    Replace = 2,
}

impl SetOption {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        match reader.u32()? {
            0 => Ok(Self::Either),
            1 => Ok(Self::Create),
            2 => Ok(Self::Replace),
            _ => Err(XdrError::Value),
        }
    }
}

/// An operation with its arguments. Names and numbers are the specification's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields have the names of the specification
pub enum Minor2<'a> {
    Allocate(Span),
    Copy(Copy),
    Deallocate(Span),
    GetXattr {
        name: &'a [u8],
    },
    IoAdvise {
        span: Span,
        /// The hints of the first word; further ones exist in no version.
        hints: u32,
    },
    ListXattrs {
        cookie: u64,
        bytes_max: u32,
    },
    ReadPlus {
        stateid: Stateid,
        offset: u64,
        count: u32,
    },
    RemoveXattr {
        name: &'a [u8],
    },
    Seek {
        stateid: Stateid,
        offset: u64,
        what: u32,
    },
    SetXattr {
        option: SetOption,
        name: &'a [u8],
        value: &'a [u8],
    },
}

/// Most words of a list of hints that are read.
const HINT_WORDS_MAX: usize = 8;

impl<'a> Minor2<'a> {
    /// Reads the arguments of this operation; `None` for a number that has none here.
    pub(super) fn decode(number: u32, reader: &mut Reader<'a>) -> Result<Option<Self>> {
        Ok(Some(match number {
            number::ALLOCATE => Self::Allocate(Span::decode(reader)?),
            number::COPY => Self::Copy(Copy::decode(reader)?),
            number::DEALLOCATE => Self::Deallocate(Span::decode(reader)?),
            number::GETXATTR => Self::GetXattr {
                name: reader.opaque(usize::MAX)?,
            },
            number::IO_ADVISE => {
                let span = Span::decode(reader)?;
                let mut hints = 0;
                for at in 0..reader.count(HINT_WORDS_MAX, 4)? {
                    let word = reader.u32()?;
                    hints = if at == 0 { word } else { hints };
                }
                Self::IoAdvise { span, hints }
            }
            number::LISTXATTRS => Self::ListXattrs {
                cookie: reader.u64()?,
                bytes_max: reader.u32()?,
            },
            number::READ_PLUS => Self::ReadPlus {
                stateid: Stateid::decode(reader)?,
                offset: reader.u64()?,
                count: reader.u32()?,
            },
            number::REMOVEXATTR => Self::RemoveXattr {
                name: reader.opaque(usize::MAX)?,
            },
            number::SEEK => Self::Seek {
                stateid: Stateid::decode(reader)?,
                offset: reader.u64()?,
                what: reader.u32()?,
            },
            number::SETXATTR => Self::SetXattr {
                option: SetOption::decode(reader)?,
                name: reader.opaque(usize::MAX)?,
                value: reader.opaque(usize::MAX)?,
            },
            _ => return Ok(None),
        }))
    }

    /// The operation's number.
    #[must_use]
    pub fn number(&self) -> u32 {
        match self {
            Self::Allocate(_) => number::ALLOCATE,
            Self::Copy(_) => number::COPY,
            Self::Deallocate(_) => number::DEALLOCATE,
            Self::GetXattr { .. } => number::GETXATTR,
            Self::IoAdvise { .. } => number::IO_ADVISE,
            Self::ListXattrs { .. } => number::LISTXATTRS,
            Self::ReadPlus { .. } => number::READ_PLUS,
            Self::RemoveXattr { .. } => number::REMOVEXATTR,
            Self::Seek { .. } => number::SEEK,
            Self::SetXattr { .. } => number::SETXATTR,
        }
    }

    /// Writes the arguments.
    pub(super) fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Allocate(span) | Self::Deallocate(span) => span.encode(writer),
            Self::Copy(args) => args.encode(writer),
            Self::GetXattr { name } | Self::RemoveXattr { name } => writer.opaque(name),
            Self::ListXattrs { cookie, bytes_max } => {
                writer.u64(*cookie);
                writer.u32(*bytes_max);
            }
            Self::SetXattr {
                option,
                name,
                value,
            } => {
                writer.u32(*option as u32);
                writer.opaque(name);
                writer.opaque(value);
            }
            Self::IoAdvise { span, hints } => {
                span.encode(writer);
                writer.count(1);
                writer.u32(*hints);
            }
            Self::ReadPlus {
                stateid,
                offset,
                count,
            } => {
                stateid.encode(writer);
                writer.u64(*offset);
                writer.u32(*count);
            }
            Self::Seek {
                stateid,
                offset,
                what,
            } => {
                stateid.encode(writer);
                writer.u64(*offset);
                writer.u32(*what);
            }
        }
    }
}
