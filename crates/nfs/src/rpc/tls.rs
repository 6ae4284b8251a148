//! The probe for TLS (RFC 9289, section 4.1): a NULL call with the flavour AUTH_TLS, whose reply has the verifier `STARTTLS`.
//!
//! **Owns** [`Probe`]. **Called by** both ends of a connection. **Invariants**: a record whose credential has another flavour is no probe;
//! the reply allows TLS if and only if it is a success with that verifier.

use super::auth::{AUTH_NONE, AUTH_TLS, Opaque, encode_none};
use super::{AuthStat, CALL, REPLY, RPC_VERSION, Reply};
use crate::xdr::{Reader, Writer, XdrError};

/// The name of RPC among the protocols above TLS (RFC 9289, section 8.2).
pub const ALPN: &[u8] = b"sunrpc";
/// The verifier of a reply that allows TLS.
pub const START_TLS: &[u8] = b"STARTTLS";
/// The procedure of every program that does nothing.
const NULL: u32 = 0;

/// A call with the flavour AUTH_TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// The call with this number asks for TLS.
    Start(u32),
    /// The call with this number is refused: AUTH_TLS with another procedure, or with contents.
    Refused(u32, AuthStat),
}

impl Probe {
    /// The probe in a record, if it is one.
    #[must_use]
    pub fn of(record: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(record);
        let xid = reader.u32().ok()?;
        let mut is = |word| (reader.u32() == Ok(word)).then_some(());
        is(CALL)?;
        is(RPC_VERSION)?;
        let _program = reader.u32().ok()?;
        let _version = reader.u32().ok()?;
        let procedure = reader.u32().ok()?;
        if reader.clone().u32() != Ok(AUTH_TLS) {
            return None;
        }
        let refused = |why| Some(Probe::Refused(xid, why));
        match Opaque::decode(&mut reader) {
            Ok(credential) if credential.body.is_empty() && procedure == NULL => {}
            _ => return refused(AuthStat::BadCredential),
        }
        match Opaque::decode(&mut reader) {
            Ok(verifier) if verifier.flavor == AUTH_NONE && verifier.body.is_empty() => {
                Some(Probe::Start(xid))
            }
            _ => refused(AuthStat::BadVerifier),
        }
    }

    /// Writes the probe of a client: the NULL call of this program and version.
    pub fn encode(xid: u32, program: u32, version: u32, writer: &mut Writer) {
        let words = [xid, CALL, RPC_VERSION, program, version, NULL, AUTH_TLS, 0];
        words.iter().for_each(|word| writer.u32(*word));
        encode_none(writer);
    }

    /// Writes the reply that allows TLS.
    pub fn encode_start(xid: u32, writer: &mut Writer) {
        [xid, REPLY, 0, AUTH_NONE]
            .iter()
            .for_each(|word| writer.u32(*word));
        writer.opaque(START_TLS);
        writer.u32(0);
    }

    /// Reads the reply to a probe: whether it allows TLS. Errors: `Value` if it is no reply.
    pub fn is_allowed(reply: &[u8]) -> Result<bool, XdrError> {
        let (_, outcome) = Reply::decode(&mut Reader::new(reply))?;
        let mut reader = Reader::new(reply);
        for _ in 0..3 {
            reader.u32()?;
        }
        let allows = |verifier: Opaque<'_>| verifier.body == START_TLS;
        Ok(outcome == Reply::Success && Opaque::decode(&mut reader).is_ok_and(allows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn probe() -> Vec<u8> {
        let mut writer = Writer::new();
        Probe::encode(7, 100_003, 4, &mut writer);
        writer.to_vec()
    }

    #[test]
    fn a_probe_is_a_null_call_without_contents() {
        assert_eq!(Probe::of(&probe()), Some(Probe::Start(7)));
        let changed = |at: usize, value: u8| {
            let mut bytes = probe();
            bytes[at] = value;
            Probe::of(&bytes)
        };
        let credential = Some(Probe::Refused(7, AuthStat::BadCredential));
        let verifier = Some(Probe::Refused(7, AuthStat::BadVerifier));
        // The direction, the version of RPC, the procedure, the flavour, its length, the verifier and its length.
        for (at, value, expected) in [
            (7, 1, None),
            (11, 3, None),
            (23, 1, credential),
            (27, 1, None),
            (31, 4, credential),
            (35, 1, verifier),
            (39, 1, verifier),
        ] {
            assert_eq!(changed(at, value), expected, "byte {at}");
        }
        assert_eq!(Probe::of(&probe()[..32]), verifier);
        assert_eq!(Probe::of(&probe()[..24]), None);
    }

    #[test]
    fn only_the_verifier_of_a_success_allows_tls() {
        let written = |write: &dyn Fn(&mut Writer)| {
            let mut writer = Writer::new();
            write(&mut writer);
            Probe::is_allowed(&writer.to_vec())
        };
        assert_eq!(written(&|w| Probe::encode_start(7, w)), Ok(true));
        for reply in [Reply::Success, Reply::AuthError(AuthStat::BadCredential)] {
            assert_eq!(written(&|w| reply.encode(7, w)), Ok(false));
        }
        assert!(Probe::is_allowed(b"nothing").is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_records_are_no_probes_or_refused_ones(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80),
            looks_like_one in any::<bool>(),
        ) {
            if looks_like_one {
                let len = bytes.len().min(28);
                bytes[..len].copy_from_slice(&probe()[..len]);
            }
            let _ = Probe::of(&bytes);
            let _ = Probe::is_allowed(&bytes);
        }
    }
}
