//! Arguments of the operations on files that have more than a few fields (§18.4, §18.10, §18.16, §18.23).

use super::types::{Attrs, Bitmap, Owner, Stateid, Verifier};
use crate::xdr::{Reader, Result, Writer, XdrError};

/// The kind of a new object other than a regular file (`createtype4`, §18.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewType<'a> {
    /// NF4DIR.
    Directory,
    /// NF4LNK: the target.
    Symlink(&'a [u8]),
    /// NF4SOCK.
    Socket,
    /// NF4FIFO.
    Fifo,
    /// NF4CHR: major and minor number.
    CharDevice(u32, u32),
    /// NF4BLK: major and minor number.
    BlockDevice(u32, u32),
    /// Another type, by its number: it cannot be created.
    Other(u32),
}

impl<'a> NewType<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(match reader.u32()? {
            2 => Self::Directory,
            3 => Self::BlockDevice(reader.u32()?, reader.u32()?),
            4 => Self::CharDevice(reader.u32()?, reader.u32()?),
            5 => Self::Symlink(reader.opaque(usize::MAX)?),
            6 => Self::Socket,
            7 => Self::Fifo,
            other => Self::Other(other),
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        let mut device = |kind, major, minor| {
            [kind, major, minor].iter().for_each(|w| writer.u32(*w));
        };
        match *self {
            Self::Directory => writer.u32(2),
            Self::BlockDevice(major, minor) => device(3, major, minor),
            Self::CharDevice(major, minor) => device(4, major, minor),
            Self::Symlink(target) => {
                writer.u32(5);
                writer.opaque(target);
            }
            Self::Socket => writer.u32(6),
            Self::Fifo => writer.u32(7),
            Self::Other(kind) => writer.u32(kind),
        }
    }
}

/// How OPEN creates a file (`createhow4`, §18.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateHow<'a> {
    /// UNCHECKED4.
    Unchecked(Attrs<'a>),
    /// GUARDED4.
    Guarded(Attrs<'a>),
    /// EXCLUSIVE4.
    Exclusive(Verifier),
    /// EXCLUSIVE4_1.
    Exclusive41(Verifier, Attrs<'a>),
}

impl<'a> CreateHow<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        match reader.u32()? {
            0 => Attrs::decode(reader).map(Self::Unchecked),
            1 => Attrs::decode(reader).map(Self::Guarded),
            2 => reader.array().map(Self::Exclusive),
            3 => Ok(Self::Exclusive41(reader.array()?, Attrs::decode(reader)?)),
            _ => Err(XdrError::Value),
        }
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Unchecked(attrs) => {
                writer.u32(0);
                attrs.encode(writer);
            }
            Self::Guarded(attrs) => {
                writer.u32(1);
                attrs.encode(writer);
            }
            Self::Exclusive(verifier) => {
                writer.u32(2);
                writer.fixed(verifier);
            }
            Self::Exclusive41(verifier, attrs) => {
                writer.u32(3);
                writer.fixed(verifier);
                attrs.encode(writer);
            }
        }
    }
}

/// Which file OPEN opens (`open_claim4`, §18.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim<'a> {
    /// CLAIM_NULL: a name in the current directory.
    Name(&'a [u8]),
    /// CLAIM_PREVIOUS: the current file, which was open before the server restarted, with this type of delegation.
    Previous(u32),
    /// CLAIM_DELEGATE_CUR: a name, under a delegation.
    DelegateCurrent(Stateid, &'a [u8]),
    /// CLAIM_DELEGATE_PREV: a name, under a delegation of an earlier incarnation of the client.
    DelegatePrevious(&'a [u8]),
    /// CLAIM_FH: the current file.
    Handle,
    /// CLAIM_DELEG_CUR_FH: the current file, under a delegation.
    DelegateCurrentHandle(Stateid),
    /// CLAIM_DELEG_PREV_FH: the current file, under a delegation of an earlier incarnation of the client.
    DelegatePreviousHandle,
}

impl<'a> Claim<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(match reader.u32()? {
            0 => Self::Name(reader.opaque(usize::MAX)?),
            1 => Self::Previous(reader.u32()?),
            2 => {
                let stateid = Stateid::decode(reader)?;
                Self::DelegateCurrent(stateid, reader.opaque(usize::MAX)?)
            }
            3 => Self::DelegatePrevious(reader.opaque(usize::MAX)?),
            4 => Self::Handle,
            5 => Self::DelegateCurrentHandle(Stateid::decode(reader)?),
            6 => Self::DelegatePreviousHandle,
            _ => return Err(XdrError::Value),
        })
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Name(name) => {
                writer.u32(0);
                writer.opaque(name);
            }
            Self::Previous(kind) => {
                writer.u32(1);
                writer.u32(*kind);
            }
            Self::DelegateCurrent(stateid, name) => {
                writer.u32(2);
                stateid.encode(writer);
                writer.opaque(name);
            }
            Self::DelegatePrevious(name) => {
                writer.u32(3);
                writer.opaque(name);
            }
            Self::Handle => writer.u32(4),
            Self::DelegateCurrentHandle(stateid) => {
                writer.u32(5);
                stateid.encode(writer);
            }
            Self::DelegatePreviousHandle => writer.u32(6),
        }
    }
}

/// OPEN (§18.16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Open<'a> {
    /// Not used in this minor version.
    pub seqid: u32,
    /// `OPEN4_SHARE_ACCESS_…`, with wishes about delegations.
    pub access: u32,
    /// `OPEN4_SHARE_DENY_…`.
    pub deny: u32,
    /// The open owner.
    pub owner: Owner<'a>,
    /// How the file is created; `None` if it must exist.
    pub create: Option<CreateHow<'a>>,
    /// The file.
    pub claim: Claim<'a>,
}

impl<'a> Open<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let (seqid, access, deny) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let owner = Owner::decode(reader)?;
        let create = match reader.bool()? {
            true => Some(CreateHow::decode(reader)?),
            false => None,
        };
        Ok(Self {
            seqid,
            access,
            deny,
            owner,
            create,
            claim: Claim::decode(reader)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        let words = [self.seqid, self.access, self.deny];
        words.iter().for_each(|word| writer.u32(*word));
        self.owner.encode(writer);
        writer.bool(self.create.is_some());
        if let Some(how) = &self.create {
            how.encode(writer);
        }
        self.claim.encode(writer);
    }
}

/// The state that LOCK uses (`locker4`, §18.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locker<'a> {
    /// A lock owner that is new to the open: the open, and the owner.
    New(Stateid, Owner<'a>),
    /// The state of a lock owner.
    Existing(Stateid),
}

/// LOCK (§18.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lock<'a> {
    /// `nfs_lock_type4`.
    pub kind: u32,
    /// Whether a lock of before the server's restart is reclaimed.
    pub is_reclaim: bool,
    /// First byte.
    pub offset: u64,
    /// Bytes; the largest number stands for all that follow.
    pub length: u64,
    /// The lock owner.
    pub locker: Locker<'a>,
}

impl<'a> Lock<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let kind = lock_type(reader)?;
        let is_reclaim = reader.bool()?;
        let (offset, length) = (reader.u64()?, reader.u64()?);
        let locker = match reader.bool()? {
            true => {
                reader.u32()?;
                let open = Stateid::decode(reader)?;
                reader.u32()?;
                Locker::New(open, Owner::decode(reader)?)
            }
            false => {
                let state = Stateid::decode(reader)?;
                reader.u32()?;
                Locker::Existing(state)
            }
        };
        Ok(Self {
            kind,
            is_reclaim,
            offset,
            length,
            locker,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.u32(self.kind);
        writer.bool(self.is_reclaim);
        writer.u64(self.offset);
        writer.u64(self.length);
        match &self.locker {
            Locker::New(open, owner) => {
                writer.bool(true);
                writer.u32(0);
                open.encode(writer);
                writer.u32(0);
                owner.encode(writer);
            }
            Locker::Existing(state) => {
                writer.bool(false);
                state.encode(writer);
                writer.u32(0);
            }
        }
    }
}

/// A type of lock: 1 to 4.
pub(super) fn lock_type(reader: &mut Reader<'_>) -> Result<u32> {
    match reader.u32()? {
        kind @ 1..=4 => Ok(kind),
        _ => Err(XdrError::Value),
    }
}

/// READDIR (§18.23).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadDir {
    /// The position behind which entries are wanted.
    pub cookie: u64,
    /// The verifier of that position.
    pub verifier: Verifier,
    /// Most bytes of names and cookies, a hint.
    pub names_max: u32,
    /// Most bytes of the result.
    pub bytes_max: u32,
    /// Attributes of each entry.
    pub attributes: Bitmap,
}

impl ReadDir {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            cookie: reader.u64()?,
            verifier: reader.array()?,
            names_max: reader.u32()?,
            bytes_max: reader.u32()?,
            attributes: Bitmap::decode(reader)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.u64(self.cookie);
        writer.fixed(&self.verifier);
        writer.u32(self.names_max);
        writer.u32(self.bytes_max);
        self.attributes.encode(writer);
    }
}
