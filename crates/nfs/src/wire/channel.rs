//! Arguments of the operations on clients and sessions (§18.33 to §18.37, §18.46).

use super::types::{SessionId, Verifier};
use crate::limits::{CALLBACK_SECURITY_MAX, OWNER_LEN_MAX};
use crate::rpc::{AUTH_NONE, AUTH_SYS, AuthSys};
use crate::xdr::{Reader, Result, Writer, XdrError};

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

impl StateProtection {
    fn decode(reader: &mut Reader<'_>) -> Result<Self> {
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

    fn encode(self, writer: &mut Writer) {
        match self {
            Self::None => writer.u32(0),
            Self::MachineCredential => [1, 0, 0].iter().for_each(|word| writer.u32(*word)),
            Self::Secret => [2, 0, 0, 0, 0, 0, 0]
                .iter()
                .for_each(|word| writer.u32(*word)),
        }
    }
}

/// EXCHANGE_ID (§18.35).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeId<'a> {
    /// The client's incarnation.
    pub verifier: Verifier,
    /// The client.
    pub owner: &'a [u8],
    /// `EXCHGID4_FLAG_…`.
    pub flags: u32,
    /// The protection of state that it asks for.
    pub protection: StateProtection,
    /// The client's software: domain and name.
    pub implementation: Option<(&'a [u8], &'a [u8])>,
}

impl<'a> ExchangeId<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        let verifier = reader.array()?;
        let owner = reader.opaque(OWNER_LEN_MAX)?;
        let flags = reader.u32()?;
        let protection = StateProtection::decode(reader)?;
        let implementation = match reader.count(1, 4)? {
            0 => None,
            _ => {
                let domain = reader.opaque(IMPLEMENTATION_MAX)?;
                let name = reader.opaque(IMPLEMENTATION_MAX)?;
                reader.take(12)?;
                Some((domain, name))
            }
        };
        Ok(Self {
            verifier,
            owner,
            flags,
            protection,
            implementation,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.fixed(&self.verifier);
        writer.opaque(self.owner);
        writer.u32(self.flags);
        self.protection.encode(writer);
        writer.count(self.implementation.iter().count());
        if let Some((domain, name)) = self.implementation {
            writer.opaque(domain);
            writer.opaque(name);
            writer.i64(0);
            writer.u32(0);
        }
    }
}

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
    pub slots: u32,
}

impl Channel {
    /// Reads one.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let mut next = || reader.u32();
        let channel = Self {
            header_padding: next()?,
            request_max: next()?,
            reply_max: next()?,
            cached_max: next()?,
            operations_max: next()?,
            slots: next()?,
        };
        for _ in 0..reader.count(1, 4)? {
            reader.u32()?;
        }
        Ok(channel)
    }

    /// Writes it, without limits of RDMA.
    pub fn encode(&self, writer: &mut Writer) {
        let words = [
            self.header_padding,
            self.request_max,
            self.reply_max,
            self.cached_max,
            self.operations_max,
            self.slots,
            0,
        ];
        words.iter().for_each(|word| writer.u32(*word));
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

impl CallbackSecurity {
    fn decode_all(reader: &mut Reader<'_>) -> Result<Vec<Self>> {
        let count = reader.count(CALLBACK_SECURITY_MAX, 4)?;
        (0..count)
            .map(|_| match reader.u32()? {
                AUTH_NONE => Ok(Self::None),
                AUTH_SYS => AuthSys::decode(reader).map(Self::Sys),
                RPCSEC_GSS => {
                    reader.u32()?;
                    reader.opaque(OWNER_LEN_MAX)?;
                    reader.opaque(OWNER_LEN_MAX)?;
                    Ok(Self::Gss)
                }
                _ => Err(XdrError::Value),
            })
            .collect()
    }

    fn encode_all(all: &[Self], writer: &mut Writer) {
        writer.count(all.len());
        for one in all {
            match one {
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
}

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
    pub security: Vec<CallbackSecurity>,
}

impl CreateSession {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            client: reader.u64()?,
            sequence: reader.u32()?,
            flags: reader.u32()?,
            fore: Channel::decode(reader)?,
            back: Channel::decode(reader)?,
            callback_program: reader.u32()?,
            security: CallbackSecurity::decode_all(reader)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.u64(self.client);
        writer.u32(self.sequence);
        writer.u32(self.flags);
        self.fore.encode(writer);
        self.back.encode(writer);
        writer.u32(self.callback_program);
        CallbackSecurity::encode_all(&self.security, writer);
    }
}

/// BACKCHANNEL_CTL (§18.33).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackchannelCtl {
    /// The program of callbacks.
    pub program: u32,
    /// The credentials that the client accepts in callbacks.
    pub security: Vec<CallbackSecurity>,
}

impl BackchannelCtl {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            program: reader.u32()?,
            security: CallbackSecurity::decode_all(reader)?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.u32(self.program);
        CallbackSecurity::encode_all(&self.security, writer);
    }
}

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

impl BindConnection {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            session: reader.array()?,
            direction: reader.u32()?,
            use_rdma: reader.bool()?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.fixed(&self.session);
        writer.u32(self.direction);
        writer.bool(self.use_rdma);
    }
}

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

impl Sequence {
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            session: reader.array()?,
            sequence: reader.u32()?,
            slot: reader.u32()?,
            highest_slot: reader.u32()?,
            cache_this: reader.bool()?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.fixed(&self.session);
        let words = [self.sequence, self.slot, self.highest_slot];
        words.iter().for_each(|word| writer.u32(*word));
        writer.bool(self.cache_this);
    }
}
