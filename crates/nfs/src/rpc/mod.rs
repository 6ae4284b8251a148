//! ONC RPC version 2 (RFC 5531): headers of calls and replies.
//!
//! **Owns** [`Call`], [`Reply`] and the reasons of refusals. **Called by** the server's connections and by clients.
//! **Invariants**: bytes that are no call are never answered, because no transaction number of theirs can be trusted.

mod auth;
pub mod rdma;
pub mod record;
mod tls;

pub use auth::{AUTH_NONE, AUTH_SYS, AUTH_TLS, AuthSys, Credential};
pub use tls::{ALPN, Probe, START_TLS};

use crate::xdr::{Reader, Writer, XdrError};
use auth::{Opaque, encode_none};
use thiserror::Error;

/// The version of RPC.
pub const RPC_VERSION: u32 = 2;
const CALL: u32 = 0;
const REPLY: u32 = 1;

/// The header of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// Transaction number, which the reply repeats.
    pub xid: u32,
    /// Program.
    pub program: u32,
    /// Version of the program.
    pub version: u32,
    /// Procedure.
    pub procedure: u32,
    /// The caller.
    pub credential: Credential,
}

/// Why a credential was refused (RFC 5531, section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthStat {
    /// AUTH_BADCRED: the credential is malformed, or of an unknown flavour.
    BadCredential = 1,
    /// AUTH_BADVERF: the verifier is malformed.
    BadVerifier = 3,
    /// AUTH_TOOWEAK: the flavour is not enough here.
    TooWeak = 5,
}

/// How a call ended, without the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply {
    /// SUCCESS: results follow.
    Success,
    /// PROG_UNAVAIL: no such program.
    ProgramUnavailable,
    /// PROG_MISMATCH: no such version; the lowest and the highest ones that exist.
    ProgramMismatch(u32, u32),
    /// PROC_UNAVAIL: no such procedure.
    ProcedureUnavailable,
    /// GARBAGE_ARGS: the arguments cannot be decoded.
    GarbageArguments,
    /// RPC_MISMATCH: another version of RPC; only version 2 exists here.
    RpcMismatch,
    /// AUTH_ERROR.
    AuthError(AuthStat),
}

/// Why a record is no call that can be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CallError {
    /// The record is no call: it gets no answer.
    #[error("a record is no RPC call")]
    NoCall,
    /// The call with this number gets this answer.
    #[error("an RPC call was refused: {1:?}")]
    Refused(u32, Reply),
}

impl Call {
    /// Reads a header; the arguments follow in `reader`.
    pub fn decode(reader: &mut Reader<'_>) -> Result<Self, CallError> {
        let no_call = |_: XdrError| CallError::NoCall;
        let xid = reader.u32().map_err(no_call)?;
        if reader.u32().map_err(no_call)? != CALL {
            return Err(CallError::NoCall);
        }
        let refused = |reply| CallError::Refused(xid, reply);
        let garbage = |_: XdrError| refused(Reply::GarbageArguments);
        if reader.u32().map_err(garbage)? != RPC_VERSION {
            return Err(refused(Reply::RpcMismatch));
        }
        let program = reader.u32().map_err(garbage)?;
        let version = reader.u32().map_err(garbage)?;
        let procedure = reader.u32().map_err(garbage)?;
        let bad_credential = refused(Reply::AuthError(AuthStat::BadCredential));
        let credential = Opaque::decode(reader)
            .and_then(Credential::of)
            .map_err(|_| bad_credential)?
            .ok_or(bad_credential)?;
        // AUTH_NONE and AUTH_SYS have an empty verifier, which nothing depends on.
        Opaque::decode(reader).map_err(|_| refused(Reply::AuthError(AuthStat::BadVerifier)))?;
        Ok(Self {
            xid,
            program,
            version,
            procedure,
            credential,
        })
    }

    /// Writes the header; the arguments come next.
    pub fn encode(&self, writer: &mut Writer) {
        let words = [
            self.xid,
            CALL,
            RPC_VERSION,
            self.program,
            self.version,
            self.procedure,
        ];
        words.iter().for_each(|word| writer.u32(*word));
        self.credential.encode(writer);
        encode_none(writer);
    }
}

impl Reply {
    /// Writes the header of a reply; results come next if it is [`Reply::Success`].
    pub fn encode(self, xid: u32, writer: &mut Writer) {
        writer.u32(xid);
        writer.u32(REPLY);
        let accepted = match self {
            Reply::Success => 0,
            Reply::ProgramUnavailable => 1,
            Reply::ProgramMismatch(..) => 2,
            Reply::ProcedureUnavailable => 3,
            Reply::GarbageArguments => 4,
            Reply::RpcMismatch => {
                [1, 0, RPC_VERSION, RPC_VERSION]
                    .iter()
                    .for_each(|word| writer.u32(*word));
                return;
            }
            Reply::AuthError(why) => {
                [1, 1, why as u32].iter().for_each(|word| writer.u32(*word));
                return;
            }
        };
        writer.u32(0);
        encode_none(writer);
        writer.u32(accepted);
        if let Reply::ProgramMismatch(low, high) = self {
            writer.u32(low);
            writer.u32(high);
        }
    }

    /// Reads the header of a reply: transaction number and outcome. Errors: `Value` if it is no reply, or has an outcome that
    /// no server of ours sends.
    pub fn decode(reader: &mut Reader<'_>) -> Result<(u32, Self), XdrError> {
        let xid = reader.u32()?;
        Ok((xid, Self::decode_body(reader)?))
    }

    /// The same behind the transaction number.
    pub fn decode_body(reader: &mut Reader<'_>) -> Result<Self, XdrError> {
        if reader.u32()? != REPLY {
            return Err(XdrError::Value);
        }
        let is_denied = reader.bool()?;
        if is_denied {
            let is_auth = reader.bool()?;
            let reply = match (is_auth, reader.u32()?) {
                (false, _) => {
                    reader.u32()?;
                    Reply::RpcMismatch
                }
                (true, 1) => Reply::AuthError(AuthStat::BadCredential),
                (true, 3) => Reply::AuthError(AuthStat::BadVerifier),
                (true, 5) => Reply::AuthError(AuthStat::TooWeak),
                (true, _) => return Err(XdrError::Value),
            };
            return Ok(reply);
        }
        Opaque::decode(reader)?;
        Ok(match reader.u32()? {
            0 => Reply::Success,
            1 => Reply::ProgramUnavailable,
            2 => Reply::ProgramMismatch(reader.u32()?, reader.u32()?),
            3 => Reply::ProcedureUnavailable,
            4 => Reply::GarbageArguments,
            _ => return Err(XdrError::Value),
        })
    }
}

/// The transaction number of a record that says that it is a reply. Nothing else is looked into.
#[must_use]
pub fn reply_number(record: &[u8]) -> Option<u32> {
    let mut reader = Reader::new(record);
    let xid = reader.u32().ok()?;
    (reader.u32() == Ok(REPLY)).then_some(xid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn call(credential: Credential) -> Call {
        Call {
            xid: 7,
            program: 100_003,
            version: 4,
            procedure: 1,
            credential,
        }
    }

    fn bytes(call: &Call) -> Vec<u8> {
        let mut writer = Writer::new();
        call.encode(&mut writer);
        writer.to_vec()
    }

    fn decoded(bytes: &[u8]) -> Result<Call, CallError> {
        Call::decode(&mut Reader::new(bytes))
    }

    #[test]
    fn another_version_of_rpc_is_refused() {
        let mut bytes = bytes(&call(Credential::None));
        bytes[11] = 3;
        let refused = Err(CallError::Refused(7, Reply::RpcMismatch));
        assert_eq!(decoded(&bytes), refused);
    }

    #[test]
    fn an_unknown_or_malformed_credential_is_refused() {
        let sys = Credential::Sys(AuthSys {
            stamp: 1,
            machine: b"client".to_vec(),
            uid: 2,
            gid: 3,
            groups: vec![4; 16],
        });
        let good = bytes(&call(sys));
        assert!(decoded(&good).is_ok());
        let refused = Err(CallError::Refused(
            7,
            Reply::AuthError(AuthStat::BadCredential),
        ));
        // The flavour, the length of the machine's name, the number of groups.
        for (at, value) in [(27, 6), (39, 0xff), (59, 17)] {
            let mut bad = good.clone();
            bad[at] = value;
            assert_eq!(decoded(&bad), refused, "byte {at}");
        }
    }

    #[test]
    fn bytes_that_are_no_call_get_no_answer() {
        for bad in [&[][..], &[0; 7], &[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2]] {
            assert_eq!(decoded(bad), Err(CallError::NoCall));
        }
        let cut = &bytes(&call(Credential::None))[..16];
        let refused = Err(CallError::Refused(7, Reply::GarbageArguments));
        assert_eq!(decoded(cut), refused);
    }

    #[test]
    fn every_reply_is_read_as_it_was_written() {
        let all = [
            Reply::Success,
            Reply::ProgramUnavailable,
            Reply::ProgramMismatch(4, 4),
            Reply::ProcedureUnavailable,
            Reply::GarbageArguments,
            Reply::RpcMismatch,
            Reply::AuthError(AuthStat::BadCredential),
            Reply::AuthError(AuthStat::BadVerifier),
            Reply::AuthError(AuthStat::TooWeak),
        ];
        for reply in all {
            let mut writer = Writer::new();
            reply.encode(5, &mut writer);
            let bytes = writer.to_vec();
            let mut reader = Reader::new(&bytes);
            assert_eq!(Reply::decode(&mut reader), Ok((5, reply)));
            assert!(reader.is_empty());
        }
    }

    fn credentials() -> impl Strategy<Value = Credential> {
        let sys = (
            any::<u32>(),
            prop::collection::vec(any::<u8>(), 0..=255),
            any::<u32>(),
            any::<u32>(),
            prop::collection::vec(any::<u32>(), 0..=16),
        );
        let sys = sys.prop_map(|(stamp, machine, uid, gid, groups)| AuthSys {
            stamp,
            machine,
            uid,
            gid,
            groups,
        });
        prop_oneof![Just(Credential::None), sys.prop_map(Credential::Sys)]
    }

    proptest! {
        #[test]
        fn every_call_is_read_as_it_was_written(
            credential in credentials(),
            (xid, program, version, procedure) in any::<(u32, u32, u32, u32)>(),
        ) {
            let call = Call { xid, program, version, procedure, credential };
            let bytes = bytes(&call);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(Call::decode(&mut reader), Ok(call));
            prop_assert!(reader.is_empty());
        }
    }
}
