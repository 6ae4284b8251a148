//! A COMPOUND's arguments (§16.2): a header, and operations that are decoded one by one.
//!
//! **Owns** [`Header`] and [`Op`]. **Called by** the server while it executes a COMPOUND, so that an operation that cannot be
//! decoded fails after the ones before it took effect (§15.2.3), and by clients. **Invariants**: an operation without support is
//! reported by its number, and its arguments are not looked into: it is the last one executed.

use super::channel::{BackchannelCtl, BindConnection, CreateSession, ExchangeId, Sequence};
use super::files::{Lock, NewType, Open, ReadDir, lock_type};
use super::minor2::Minor2;
use super::operation as number;
use super::types::{Attrs, Bitmap, Owner, SessionId, Stateid};
use crate::limits::{HANDLE_LEN_MAX, TAG_MAX, TEST_STATEIDS_MAX};
use crate::xdr::{Reader, Result, Writer, XdrError};

/// The header of a COMPOUND.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// A text for logs, which the reply repeats.
    pub tag: &'a [u8],
    /// Minor version.
    pub minor: u32,
    /// Number of operations.
    pub operations: u32,
}

impl<'a> Header<'a> {
    /// Reads one.
    pub fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self {
            tag: reader.opaque(TAG_MAX)?,
            minor: reader.u32()?,
            operations: reader.u32()?,
        })
    }

    /// Writes it.
    pub fn encode(&self, writer: &mut Writer) {
        writer.opaque(self.tag);
        writer.u32(self.minor);
        writer.u32(self.operations);
    }
}

/// An operation with its arguments. Names and numbers are the specification's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)] // the fields have the names of the specification
pub enum Op<'a> {
    Access(u32),
    BackchannelCtl(BackchannelCtl),
    BindConnection(BindConnection),
    Close {
        stateid: Stateid,
    },
    Commit {
        offset: u64,
        count: u32,
    },
    Create {
        kind: NewType<'a>,
        name: &'a [u8],
        attributes: Attrs<'a>,
    },
    CreateSession(Box<CreateSession>),
    DelegReturn {
        stateid: Stateid,
    },
    DestroyClientId(u64),
    DestroySession(SessionId),
    ExchangeId(Box<ExchangeId<'a>>),
    FreeStateid(Stateid),
    GetAttr(Bitmap),
    GetFh,
    Link {
        name: &'a [u8],
    },
    Lock(Box<Lock<'a>>),
    LockT {
        kind: u32,
        offset: u64,
        length: u64,
        owner: Owner<'a>,
    },
    LockU {
        stateid: Stateid,
        offset: u64,
        length: u64,
    },
    Lookup {
        name: &'a [u8],
    },
    LookupP,
    NVerify(Attrs<'a>),
    Open(Box<Open<'a>>),
    OpenDowngrade {
        stateid: Stateid,
        access: u32,
        deny: u32,
    },
    PutFh(&'a [u8]),
    PutPubFh,
    PutRootFh,
    Read {
        stateid: Stateid,
        offset: u64,
        count: u32,
    },
    ReadDir(ReadDir),
    ReadLink,
    ReclaimComplete {
        one_fs: bool,
    },
    Remove {
        name: &'a [u8],
    },
    Rename {
        old: &'a [u8],
        new: &'a [u8],
    },
    RestoreFh,
    SaveFh,
    SecInfo {
        name: &'a [u8],
    },
    SecInfoNoName {
        style: u32,
    },
    Sequence(Sequence),
    SetAttr {
        stateid: Stateid,
        attributes: Attrs<'a>,
    },
    TestStateid(Vec<Stateid>),
    Verify(Attrs<'a>),
    Write {
        stateid: Stateid,
        offset: u64,
        stable: u32,
        data: &'a [u8],
    },
    /// An operation of minor version 2.
    Minor2(Box<Minor2<'a>>),
    /// An operation without support.
    Unsupported(u32),
    /// A number that no operation has.
    Illegal(u32),
}

impl<'a> Op<'a> {
    /// Reads the number of an operation, then its arguments. Returns the number also if the arguments cannot be decoded; errors
    /// of the outer result: the number itself is missing.
    pub fn decode(reader: &mut Reader<'a>) -> Result<(u32, Result<Self>)> {
        let number = reader.u32()?;
        Ok((number, Self::arguments(number, reader)))
    }

    // tidy: flat dispatch
    fn arguments(number: u32, reader: &mut Reader<'a>) -> Result<Self> {
        let name = |reader: &mut Reader<'a>| reader.opaque(usize::MAX);
        Ok(match number {
            number::ACCESS => Self::Access(reader.u32()?),
            number::BACKCHANNEL_CTL => Self::BackchannelCtl(BackchannelCtl::decode(reader)?),
            number::BIND_CONN_TO_SESSION => Self::BindConnection(BindConnection::decode(reader)?),
            number::CLOSE => {
                reader.u32()?;
                Self::Close {
                    stateid: Stateid::decode(reader)?,
                }
            }
            number::COMMIT => Self::Commit {
                offset: reader.u64()?,
                count: reader.u32()?,
            },
            number::CREATE => Self::Create {
                kind: NewType::decode(reader)?,
                name: name(reader)?,
                attributes: Attrs::decode(reader)?,
            },
            number::CREATE_SESSION => Self::CreateSession(Box::new(CreateSession::decode(reader)?)),
            number::DELEGRETURN => Self::DelegReturn {
                stateid: Stateid::decode(reader)?,
            },
            number::DESTROY_CLIENTID => Self::DestroyClientId(reader.u64()?),
            number::DESTROY_SESSION => Self::DestroySession(reader.array()?),
            number::EXCHANGE_ID => Self::ExchangeId(Box::new(ExchangeId::decode(reader)?)),
            number::FREE_STATEID => Self::FreeStateid(Stateid::decode(reader)?),
            number::GETATTR => Self::GetAttr(Bitmap::decode(reader)?),
            number::GETFH => Self::GetFh,
            number::LINK => Self::Link {
                name: name(reader)?,
            },
            number::LOCK => Self::Lock(Box::new(Lock::decode(reader)?)),
            number::LOCKT => Self::LockT {
                kind: lock_type(reader)?,
                offset: reader.u64()?,
                length: reader.u64()?,
                owner: Owner::decode(reader)?,
            },
            number::LOCKU => {
                lock_type(reader)?;
                reader.u32()?;
                Self::LockU {
                    stateid: Stateid::decode(reader)?,
                    offset: reader.u64()?,
                    length: reader.u64()?,
                }
            }
            number::LOOKUP => Self::Lookup {
                name: name(reader)?,
            },
            number::LOOKUPP => Self::LookupP,
            number::NVERIFY => Self::NVerify(Attrs::decode(reader)?),
            number::OPEN => Self::Open(Box::new(Open::decode(reader)?)),
            number::OPEN_DOWNGRADE => {
                let stateid = Stateid::decode(reader)?;
                reader.u32()?;
                Self::OpenDowngrade {
                    stateid,
                    access: reader.u32()?,
                    deny: reader.u32()?,
                }
            }
            number::PUTFH => Self::PutFh(reader.opaque(HANDLE_LEN_MAX)?),
            number::PUTPUBFH => Self::PutPubFh,
            number::PUTROOTFH => Self::PutRootFh,
            number::READ => Self::Read {
                stateid: Stateid::decode(reader)?,
                offset: reader.u64()?,
                count: reader.u32()?,
            },
            number::READDIR => Self::ReadDir(ReadDir::decode(reader)?),
            number::READLINK => Self::ReadLink,
            number::RECLAIM_COMPLETE => Self::ReclaimComplete {
                one_fs: reader.bool()?,
            },
            number::REMOVE => Self::Remove {
                name: name(reader)?,
            },
            number::RENAME => Self::Rename {
                old: name(reader)?,
                new: name(reader)?,
            },
            number::RESTOREFH => Self::RestoreFh,
            number::SAVEFH => Self::SaveFh,
            number::SECINFO => Self::SecInfo {
                name: name(reader)?,
            },
            number::SECINFO_NO_NAME => match reader.u32()? {
                style @ 0..=1 => Self::SecInfoNoName { style },
                _ => return Err(XdrError::Value),
            },
            number::SEQUENCE => Self::Sequence(Sequence::decode(reader)?),
            number::SETATTR => Self::SetAttr {
                stateid: Stateid::decode(reader)?,
                attributes: Attrs::decode(reader)?,
            },
            number::TEST_STATEID => {
                let count = reader.count(TEST_STATEIDS_MAX, 16)?;
                let all = (0..count).map(|_| Stateid::decode(reader));
                Self::TestStateid(all.collect::<Result<_>>()?)
            }
            number::VERIFY => Self::Verify(Attrs::decode(reader)?),
            number::WRITE => Self::Write {
                stateid: Stateid::decode(reader)?,
                offset: reader.u64()?,
                stable: match reader.u32()? {
                    stable @ 0..=2 => stable,
                    _ => return Err(XdrError::Value),
                },
                data: reader.opaque(usize::MAX)?,
            },
            _ => match Minor2::decode(number, reader)? {
                Some(op) => Self::Minor2(Box::new(op)),
                None if (number::FIRST..=number::LAST).contains(&number) => {
                    Self::Unsupported(number)
                }
                None => Self::Illegal(number),
            },
        })
    }

    /// The operation's number.
    #[must_use]
    pub fn number(&self) -> u32 {
        match self {
            Self::Access(_) => number::ACCESS,
            Self::BackchannelCtl(_) => number::BACKCHANNEL_CTL,
            Self::BindConnection(_) => number::BIND_CONN_TO_SESSION,
            Self::Close { .. } => number::CLOSE,
            Self::Commit { .. } => number::COMMIT,
            Self::Create { .. } => number::CREATE,
            Self::CreateSession(_) => number::CREATE_SESSION,
            Self::DelegReturn { .. } => number::DELEGRETURN,
            Self::DestroyClientId(_) => number::DESTROY_CLIENTID,
            Self::DestroySession(_) => number::DESTROY_SESSION,
            Self::ExchangeId(_) => number::EXCHANGE_ID,
            Self::FreeStateid(_) => number::FREE_STATEID,
            Self::GetAttr(_) => number::GETATTR,
            Self::GetFh => number::GETFH,
            Self::Link { .. } => number::LINK,
            Self::Lock(_) => number::LOCK,
            Self::LockT { .. } => number::LOCKT,
            Self::LockU { .. } => number::LOCKU,
            Self::Lookup { .. } => number::LOOKUP,
            Self::LookupP => number::LOOKUPP,
            Self::NVerify(_) => number::NVERIFY,
            Self::Open(_) => number::OPEN,
            Self::OpenDowngrade { .. } => number::OPEN_DOWNGRADE,
            Self::PutFh(_) => number::PUTFH,
            Self::PutPubFh => number::PUTPUBFH,
            Self::PutRootFh => number::PUTROOTFH,
            Self::Read { .. } => number::READ,
            Self::ReadDir(_) => number::READDIR,
            Self::ReadLink => number::READLINK,
            Self::ReclaimComplete { .. } => number::RECLAIM_COMPLETE,
            Self::Remove { .. } => number::REMOVE,
            Self::Rename { .. } => number::RENAME,
            Self::RestoreFh => number::RESTOREFH,
            Self::SaveFh => number::SAVEFH,
            Self::SecInfo { .. } => number::SECINFO,
            Self::SecInfoNoName { .. } => number::SECINFO_NO_NAME,
            Self::Sequence(_) => number::SEQUENCE,
            Self::SetAttr { .. } => number::SETATTR,
            Self::TestStateid(_) => number::TEST_STATEID,
            Self::Verify(_) => number::VERIFY,
            Self::Write { .. } => number::WRITE,
            Self::Minor2(op) => op.number(),
            Self::Unsupported(number) | Self::Illegal(number) => *number,
        }
    }

    /// Writes number and arguments.
    // tidy: flat dispatch
    pub fn encode(&self, writer: &mut Writer) {
        writer.u32(self.number());
        match self {
            Self::Access(wanted) => writer.u32(*wanted),
            Self::BackchannelCtl(args) => args.encode(writer),
            Self::BindConnection(args) => args.encode(writer),
            Self::Close { stateid } => {
                writer.u32(0);
                stateid.encode(writer);
            }
            Self::Commit { offset, count } => {
                writer.u64(*offset);
                writer.u32(*count);
            }
            Self::Create {
                kind,
                name,
                attributes,
            } => {
                kind.encode(writer);
                writer.opaque(name);
                attributes.encode(writer);
            }
            Self::CreateSession(args) => args.encode(writer),
            Self::DelegReturn { stateid } => stateid.encode(writer),
            Self::DestroyClientId(client) => writer.u64(*client),
            Self::DestroySession(session) => writer.fixed(session),
            Self::ExchangeId(args) => args.encode(writer),
            Self::FreeStateid(stateid) => stateid.encode(writer),
            Self::GetAttr(wanted) => wanted.encode(writer),
            Self::Link { name } | Self::Lookup { name } | Self::Remove { name } => {
                writer.opaque(name);
            }
            Self::SecInfo { name } => writer.opaque(name),
            Self::Lock(args) => args.encode(writer),
            Self::LockT {
                kind,
                offset,
                length,
                owner,
            } => {
                writer.u32(*kind);
                writer.u64(*offset);
                writer.u64(*length);
                owner.encode(writer);
            }
            Self::LockU {
                stateid,
                offset,
                length,
            } => {
                writer.u32(1);
                writer.u32(0);
                stateid.encode(writer);
                writer.u64(*offset);
                writer.u64(*length);
            }
            Self::NVerify(attributes) | Self::Verify(attributes) => attributes.encode(writer),
            Self::Open(args) => args.encode(writer),
            Self::OpenDowngrade {
                stateid,
                access,
                deny,
            } => {
                stateid.encode(writer);
                writer.u32(0);
                writer.u32(*access);
                writer.u32(*deny);
            }
            Self::PutFh(handle) => writer.opaque(handle),
            Self::Read {
                stateid,
                offset,
                count,
            } => {
                stateid.encode(writer);
                writer.u64(*offset);
                writer.u32(*count);
            }
            Self::ReadDir(args) => args.encode(writer),
            Self::ReclaimComplete { one_fs } => writer.bool(*one_fs),
            Self::Rename { old, new } => {
                writer.opaque(old);
                writer.opaque(new);
            }
            Self::SecInfoNoName { style } => writer.u32(*style),
            Self::Sequence(args) => args.encode(writer),
            Self::SetAttr {
                stateid,
                attributes,
            } => {
                stateid.encode(writer);
                attributes.encode(writer);
            }
            Self::TestStateid(all) => {
                writer.count(all.len());
                all.iter().for_each(|stateid| stateid.encode(writer));
            }
            Self::Write {
                stateid,
                offset,
                stable,
                data,
            } => {
                stateid.encode(writer);
                writer.u64(*offset);
                writer.u32(*stable);
                writer.opaque(data);
            }
            Self::Minor2(op) => op.encode(writer),
            Self::GetFh
            | Self::LookupP
            | Self::PutPubFh
            | Self::PutRootFh
            | Self::ReadLink
            | Self::RestoreFh
            | Self::SaveFh
            | Self::Unsupported(_)
            | Self::Illegal(_) => {}
        }
    }
}
