//! Arguments of the operations on clients and sessions (§18.33 to §18.37, §18.46).

use super::types::{SessionId, Verifier};
use crate::limits::{CALLBACK_SECURITY_MAX, OWNER_LEN_MAX};
use crate::rpc::{AUTH_NONE, AUTH_SYS, AuthSys};
use crate::xdr::{Bytes, Codec, List, Reader, Result, Writer, Xdr, XdrError, xdr_struct};

/// Bytes of an implementation's domain or name that are taken.
const IMPLEMENTATION_MAX: usize = 1024;
/// Most operations in a mask of state protection.
const PROTECTED_WORDS_MAX: usize = 8;
/// Most algorithms of a state protection by a secret.
const ALGORITHMS_MAX: usize = 32;
/// The flavour of RPCSEC_GSS (RFC 2203).
const RPCSEC_GSS: u32 = 6;

/// The protection of state that a client asks for (`state_protect4_a`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateProtection {
    /// SP4_NONE.
    None,
    /// SP4_MACH_CRED: the credential of the machine is required for some operations.
    MachineCredential,
    /// SP4_SSV: a shared secret.
    Secret,
}

impl<'a> Xdr<'a> for StateProtection {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let skip_operations = |reader: &mut Reader<'_>| {
            for _ in 0..2 {
                let words = reader.count(PROTECTED_WORDS_MAX, 4)?;
                reader.take(words * 4)?;
            }
            Ok(())
        };
        match reader.u32()? {
            0 => Ok(Self::None),
            1 => {
                skip_operations(reader)?;
                Ok(Self::MachineCredential)
            }
            2 => {
                skip_operations(reader)?;
                for _ in 0..2 {
                    for _ in 0..reader.count(ALGORITHMS_MAX, 4)? {
                        reader.opaque(OWNER_LEN_MAX)?;
                    }
                }
                reader.take(8)?;
                Ok(Self::Secret)
            }
            _ => Err(XdrError::Value),
        }
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::None => writer.u32(0),
            Self::MachineCredential => [1, 0, 0].iter().for_each(|word| writer.u32(*word)),
            Self::Secret => [2, 0, 0, 0, 0, 0, 0]
                .iter()
                .for_each(|word| writer.u32(*word)),
        }
    }
}

xdr_struct! {
    /// EXCHANGE_ID (§18.35).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct ExchangeId<'a> {
        /// The client's incarnation.
        pub verifier: Verifier,
        /// The client.
        pub owner: &'a [u8] as Bytes<OWNER_LEN_MAX>,
        /// `EXCHGID4_FLAG_…`.
        pub flags: u32,
        /// The protection of state that it asks for.
        pub protection: StateProtection,
        /// The client's software: domain and name.
        pub implementation: Option<(&'a [u8], &'a [u8])> as Implementation,
    }
}

/// A list of up to one implementation (`nfs_impl_id4`), whose date is not kept.
#[derive(Debug)]
pub struct Implementation;

impl<'a> Codec<'a, Option<(&'a [u8], &'a [u8])>> for Implementation {
    fn decode(reader: &mut Reader<'a>) -> Result<Option<(&'a [u8], &'a [u8])>> {
        if reader.count(1, 4)? == 0 {
            return Ok(None);
        }
        let domain = reader.opaque(IMPLEMENTATION_MAX)?;
        let name = reader.opaque(IMPLEMENTATION_MAX)?;
        reader.take(12)?;
        Ok(Some((domain, name)))
    }

    fn encode(implementation: &Option<(&'a [u8], &'a [u8])>, writer: &mut Writer) {
        writer.count(implementation.iter().count());
        if let Some((domain, name)) = implementation {
            writer.opaque(domain);
            writer.opaque(name);
            writer.i64(0);
            writer.u32(0);
        }
    }
}

xdr_struct! {
    /// Limits of a channel (`channel_attrs4`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Channel {
        /// Bytes before the header of each message, for RDMA.
        pub header_padding: u32,
        /// Longest request, bytes.
        pub request_max: u32,
        /// Longest reply, bytes.
        pub reply_max: u32,
        /// Longest reply that is kept for a retry, bytes.
        pub cached_max: u32,
        /// Most operations of a COMPOUND.
        pub operations_max: u32,
        /// Slots.
        pub slots: u32 as BeforeRdmaLimits,
    }
}

/// A number before the list of limits of RDMA, which are not kept, and written as an empty list.
#[derive(Debug)]
pub struct BeforeRdmaLimits;

impl Codec<'_, u32> for BeforeRdmaLimits {
    fn decode(reader: &mut Reader<'_>) -> Result<u32> {
        let value = reader.u32()?;
        for _ in 0..reader.count(1, 4)? {
            reader.u32()?;
        }
        Ok(value)
    }

    fn encode(value: &u32, writer: &mut Writer) {
        writer.u32(*value);
        writer.count(0);
    }
}

/// The credential that a client wants in callbacks (`callback_sec_parms4`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallbackSecurity {
    /// AUTH_NONE.
    None,
    /// AUTH_SYS with this body.
    Sys(AuthSys),
    /// RPCSEC_GSS, which is not supported: its handles are not kept.
    Gss,
}

impl<'a> Xdr<'a> for CallbackSecurity {
    fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        match reader.u32()? {
            AUTH_NONE => Ok(Self::None),
            AUTH_SYS => AuthSys::decode(reader).map(Self::Sys),
            RPCSEC_GSS => {
                reader.u32()?;
                reader.opaque(OWNER_LEN_MAX)?;
                reader.opaque(OWNER_LEN_MAX)?;
                Ok(Self::Gss)
            }
            _ => Err(XdrError::Value),
        }
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::None => writer.u32(AUTH_NONE),
            Self::Sys(sys) => {
                writer.u32(AUTH_SYS);
                sys.encode(writer);
            }
            // Service "none", and two empty handles.
            Self::Gss => [RPCSEC_GSS, 1, 0, 0].iter().for_each(|w| writer.u32(*w)),
        }
    }
}

xdr_struct! {
    /// CREATE_SESSION (§18.36).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct CreateSession {
        /// The client ID.
        pub client: u64,
        /// Its sequence number.
        pub sequence: u32,
        /// `CREATE_SESSION4_FLAG_…`.
        pub flags: u32,
        /// Limits of requests that the client asks for.
        pub fore: Channel,
        /// Limits of callbacks that the client asks for.
        pub back: Channel,
        /// The program of callbacks.
        pub callback_program: u32,
        /// The credentials that the client accepts in callbacks.
        pub security: Vec<CallbackSecurity> as List<CALLBACK_SECURITY_MAX, 4>,
    }
}

xdr_struct! {
    /// BACKCHANNEL_CTL (§18.33).
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub struct BackchannelCtl {
        /// The program of callbacks.
        pub program: u32,
        /// The credentials that the client accepts in callbacks.
        pub security: Vec<CallbackSecurity> as List<CALLBACK_SECURITY_MAX, 4>,
    }
}

xdr_struct! {
    /// BIND_CONN_TO_SESSION (§18.34).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct BindConnection {
        /// The session.
        pub session: SessionId,
        /// `CDFC4_…`.
        pub direction: u32,
        /// Whether the connection is to use RDMA.
        pub use_rdma: bool,
    }
}

xdr_struct! {
    /// SEQUENCE (§18.46).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Sequence {
        /// The session.
        pub session: SessionId,
        /// The slot's sequence number.
        pub sequence: u32,
        /// The slot.
        pub slot: u32,
        /// The highest slot that the client uses.
        pub highest_slot: u32,
        /// Whether the reply must be kept for a retry.
        pub cache_this: bool,
    }
}
