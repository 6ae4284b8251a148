//! Credentials of RPC calls: AUTH_NONE and AUTH_SYS (RFC 5531, section 8 and appendix A).

use crate::limits::{AUTH_LEN_MAX, GROUPS_MAX, MACHINE_NAME_MAX};
use crate::xdr::{Reader, Result, Writer, XdrError};

/// AUTH_NONE.
pub const AUTH_NONE: u32 = 0;
/// AUTH_SYS.
pub const AUTH_SYS: u32 = 1;

/// AUTH_TLS (RFC 9289, section 4.1): asks whether TLS may begin.
pub const AUTH_TLS: u32 = 7;

/// The identity in a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Credential {
    /// None.
    None,
    /// User and groups, as the client claims them.
    Sys(AuthSys),
}

/// The body of an AUTH_SYS credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AuthSys {
    /// A number of the client's choice.
    pub stamp: u32,
    /// The client's name.
    pub machine: Vec<u8>,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl AuthSys {
    /// Reads a body. Errors: those of the encoding, `TooLong` for a name or list above its limit.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self> {
        let stamp = reader.u32()?;
        let machine = reader.opaque(MACHINE_NAME_MAX)?.to_vec();
        let (uid, gid) = (reader.u32()?, reader.u32()?);
        let count = reader.count(GROUPS_MAX, 4)?;
        let groups = (0..count).map(|_| reader.u32()).collect::<Result<_>>()?;
        Ok(Self {
            stamp,
            machine,
            uid,
            gid,
            groups,
        })
    }

    /// Writes the body.
    pub fn encode(&self, writer: &mut Writer) {
        writer.u32(self.stamp);
        writer.opaque(&self.machine);
        writer.u32(self.uid);
        writer.u32(self.gid);
        writer.count(self.groups.len());
        self.groups.iter().for_each(|gid| writer.u32(*gid));
    }
}

/// A credential or verifier that was not looked into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Opaque<'a> {
    pub(super) flavor: u32,
    pub(super) body: &'a [u8],
}

impl<'a> Opaque<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Self> {
        Ok(Self {
            flavor: reader.u32()?,
            body: reader.opaque(AUTH_LEN_MAX)?,
        })
    }
}

impl Credential {
    /// The credential of this flavour. `None` for a flavour that is not supported. Errors: `Value` for bytes behind the body.
    pub(super) fn of(opaque: Opaque<'_>) -> Result<Option<Self>> {
        let mut reader = Reader::new(opaque.body);
        let credential = match opaque.flavor {
            AUTH_NONE => return Ok(Some(Credential::None)),
            AUTH_SYS => Credential::Sys(AuthSys::decode(&mut reader)?),
            _ => return Ok(None),
        };
        match reader.is_empty() {
            true => Ok(Some(credential)),
            false => Err(XdrError::Value),
        }
    }

    /// Writes flavour and body.
    pub fn encode(&self, writer: &mut Writer) {
        match self {
            Credential::None => encode_none(writer),
            Credential::Sys(sys) => {
                let mut body = Writer::new();
                sys.encode(&mut body);
                writer.u32(AUTH_SYS);
                writer.opaque(&body.to_vec());
            }
        }
    }
}

/// Writes a verifier or credential of AUTH_NONE.
pub(super) fn encode_none(writer: &mut Writer) {
    writer.u32(AUTH_NONE);
    writer.u32(0);
}
