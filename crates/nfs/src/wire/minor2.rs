//! Arguments of the operations of minor version 2 (RFC 7862, section 15; RFC 8276, section 8.4).
//!
//! **Owns** [`Minor2`]. **Called by** [`super::Op`], which has these operations as one variant. **Invariants**: every minor
//! version decodes alike; the server refuses operations that the minor version of the COMPOUND does not have.

use super::operation as number;
use super::types::Stateid;
use crate::limits::{NETLOC_LEN_MAX, NETLOCS_MAX};
use crate::xdr::{Codec, Reader, Result, Writer, XdrError, xdr_enum, xdr_struct, xdr_union};

xdr_struct! {
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
}

xdr_struct! {
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
        pub servers: usize as Servers,
    }
}

/// `NL4_NAME`, `NL4_URL`, `NL4_NETADDR` (RFC 7862, section 3.1).
const NETLOC_NAME: u32 = 1;
const NETLOC_URL: u32 = 2;
const NETLOC_ADDRESS: u32 = 3;

/// A list of servers, of which only the number is kept.
#[derive(Debug)]
pub struct Servers;

impl Codec<'_, usize> for Servers {
    fn decode(reader: &mut Reader<'_>) -> Result<usize> {
        let servers = reader.count(NETLOCS_MAX, 8)?;
        for _ in 0..servers {
            let parts = match reader.u32()? {
                NETLOC_NAME | NETLOC_URL => 1,
                NETLOC_ADDRESS => 2,
                _ => return Err(XdrError::Value),
            };
            for _ in 0..parts {
                reader.opaque(NETLOC_LEN_MAX)?;
            }
        }
        Ok(servers)
    }

    fn encode(servers: &usize, writer: &mut Writer) {
        writer.count(*servers);
        for _ in 0..*servers {
            writer.u32(NETLOC_NAME);
            writer.opaque(b"");
        }
    }
}

xdr_enum! {
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
}
xdr_union!(['a] SetOption);

/// Most words of a list of hints that are read.
const HINT_WORDS_MAX: usize = 8;

/// A list of words, of which only the first one is kept.
#[derive(Debug)]
pub struct FirstWord;

impl Codec<'_, u32> for FirstWord {
    fn decode(reader: &mut Reader<'_>) -> Result<u32> {
        let mut first = 0;
        for at in 0..reader.count(HINT_WORDS_MAX, 4)? {
            let word = reader.u32()?;
            first = if at == 0 { word } else { first };
        }
        Ok(first)
    }

    fn encode(first: &u32, writer: &mut Writer) {
        writer.count(1);
        writer.u32(*first);
    }
}

xdr_enum! {
    /// An operation with its arguments. Names and numbers are the specification's.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[allow(missing_docs)] // the fields have the names of the specification
    pub enum Minor2<'a> {
        Allocate(span: Span) = number::ALLOCATE,
        Copy(args: Copy) = number::COPY,
        Deallocate(span: Span) = number::DEALLOCATE,
        GetXattr { name: &'a [u8] } = number::GETXATTR,
        IoAdvise {
            span: Span,
            /// The hints of the first word; further ones exist in no version.
            hints: u32 as FirstWord,
        } = number::IO_ADVISE,
        ListXattrs { cookie: u64, bytes_max: u32 } = number::LISTXATTRS,
        ReadPlus { stateid: Stateid, offset: u64, count: u32 } = number::READ_PLUS,
        RemoveXattr { name: &'a [u8] } = number::REMOVEXATTR,
        Seek { stateid: Stateid, offset: u64, what: u32 } = number::SEEK,
        SetXattr { option: SetOption, name: &'a [u8], value: &'a [u8] } = number::SETXATTR,
    }
}
