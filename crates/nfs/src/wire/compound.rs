//! A COMPOUND's arguments (§16.2): a header, and operations that are decoded one by one.
//!
//! **Owns** [`Header`] and [`Op`]. **Called by** the server while it executes a COMPOUND, so that an operation that cannot be
//! decoded fails after the ones before it took effect (§15.2.3), and by clients. **Invariants**: an operation without support is
//! reported by its number, and its arguments are not looked into: it is the last one executed.

use super::channel::{BackchannelCtl, BindConnection, CreateSession, ExchangeId, Sequence};
use super::files::{Lock, LockType, NewType, Open, ReadDir};
use super::minor2::Minor2;
use super::operation as number;
use super::types::{Attrs, Bitmap, Owner, SessionId, Stateid};
use crate::limits::{HANDLE_LEN_MAX, TAG_MAX, TEST_STATEIDS_MAX};
use crate::xdr::{
    Bytes, Codec, List, Range, Reader, Result, Skip, Writer, no_fields, xdr_enum, xdr_struct,
};

xdr_struct! {
    /// The header of a COMPOUND.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Header<'a> {
        /// A text for logs, which the reply repeats.
        pub tag: &'a [u8] as Bytes<TAG_MAX>,
        /// Minor version.
        pub minor: u32,
        /// Number of operations.
        pub operations: u32,
    }
}

xdr_enum! {
    /// An operation with its arguments. Names and numbers are the specification's.
    #[derive(Debug, Clone, PartialEq, Eq)]
    #[allow(missing_docs)] // the fields have the names of the specification
    pub enum Op<'a> {
        Access(wanted: u32) = number::ACCESS,
        BackchannelCtl(args: BackchannelCtl) = number::BACKCHANNEL_CTL,
        BindConnection(args: BindConnection) = number::BIND_CONN_TO_SESSION,
        Close { stateid: Stateid as Skip } = number::CLOSE,
        Commit { offset: u64, count: u32 } = number::COMMIT,
        Create { kind: NewType<'a>, name: &'a [u8], attributes: Attrs<'a> } = number::CREATE,
        CreateSession(args: Box<CreateSession>) = number::CREATE_SESSION,
        DelegReturn { stateid: Stateid } = number::DELEGRETURN,
        DestroyClientId(client: u64) = number::DESTROY_CLIENTID,
        DestroySession(session: SessionId) = number::DESTROY_SESSION,
        ExchangeId(args: Box<ExchangeId<'a>>) = number::EXCHANGE_ID,
        FreeStateid(stateid: Stateid) = number::FREE_STATEID,
        GetAttr(wanted: Bitmap) = number::GETATTR,
        GetFh = number::GETFH,
        Link { name: &'a [u8] } = number::LINK,
        Lock(args: Box<Lock<'a>>) = number::LOCK,
        LockT { kind: u32 as LockType, offset: u64, length: u64, owner: Owner<'a> } = number::LOCKT,
        LockU { stateid: Stateid as Unlocked, offset: u64, length: u64 } = number::LOCKU,
        Lookup { name: &'a [u8] } = number::LOOKUP,
        LookupP = number::LOOKUPP,
        NVerify(attributes: Attrs<'a>) = number::NVERIFY,
        Open(args: Box<Open<'a>>) = number::OPEN,
        OpenDowngrade { stateid: Stateid, access: u32 as Skip, deny: u32 } = number::OPEN_DOWNGRADE,
        PutFh(handle: &'a [u8] as Bytes<HANDLE_LEN_MAX>) = number::PUTFH,
        PutPubFh = number::PUTPUBFH,
        PutRootFh = number::PUTROOTFH,
        Read { stateid: Stateid, offset: u64, count: u32 } = number::READ,
        ReadDir(args: ReadDir) = number::READDIR,
        ReadLink = number::READLINK,
        ReclaimComplete { one_fs: bool } = number::RECLAIM_COMPLETE,
        Remove { name: &'a [u8] } = number::REMOVE,
        Rename { old: &'a [u8], new: &'a [u8] } = number::RENAME,
        RestoreFh = number::RESTOREFH,
        SaveFh = number::SAVEFH,
        SecInfo { name: &'a [u8] } = number::SECINFO,
        SecInfoNoName { style: u32 as Range<0, 1> } = number::SECINFO_NO_NAME,
        Sequence(args: Sequence) = number::SEQUENCE,
        SetAttr { stateid: Stateid, attributes: Attrs<'a> } = number::SETATTR,
        TestStateid(stateids: Vec<Stateid> as List<TEST_STATEIDS_MAX, 16>) = number::TEST_STATEID,
        Verify(attributes: Attrs<'a>) = number::VERIFY,
        Write { stateid: Stateid, offset: u64, stable: u32 as Range<0, 2>, data: &'a [u8] } = number::WRITE,
    } else {
        /// An operation of minor version 2.
        Minor2(Box<Minor2<'a>>): Minor2::number, Minor2::encode_fields;
        /// An operation without support.
        Unsupported(u32): u32::clone, no_fields;
        /// A number that no operation has.
        Illegal(u32): u32::clone, no_fields;
    }
}

/// The stateid of LOCKU, behind the type of the lock and a sequence number, which are not used (§18.12).
#[derive(Debug)]
pub struct Unlocked;

impl Codec<'_, Stateid> for Unlocked {
    fn decode(reader: &mut Reader<'_>) -> Result<Stateid> {
        LockType::decode(reader)?;
        Skip::decode(reader)
    }

    fn encode(stateid: &Stateid, writer: &mut Writer) {
        writer.u32(1);
        Skip::encode(stateid, writer);
    }
}

impl<'a> Op<'a> {
    /// Reads the number of an operation, then its arguments. Returns the number also if the arguments cannot be decoded; errors
    /// of the outer result: the number itself is missing.
    pub fn decode(reader: &mut Reader<'a>) -> Result<(u32, Result<Self>)> {
        let number = reader.u32()?;
        Ok((number, Self::arguments(number, reader)))
    }

    fn arguments(number: u32, reader: &mut Reader<'a>) -> Result<Self> {
        if let Some(op) = Self::decode_fields(number, reader)? {
            return Ok(op);
        }
        Ok(match Minor2::decode_fields(number, reader)? {
            Some(op) => Self::Minor2(Box::new(op)),
            None if (number::FIRST..=number::LAST).contains(&number) => Self::Unsupported(number),
            None => Self::Illegal(number),
        })
    }

    /// Writes number and arguments.
    pub fn encode(&self, writer: &mut Writer) {
        writer.u32(self.number());
        self.encode_fields(writer);
    }
}
