//! CHAP (§12.1.3, RFC 1994): both directions, four digests.
//!
//! **Called by** the login machine. **Invariants**: secrets are compared in constant time, never printed, never part of
//! an error; a challenge is used once; the initiator's challenge must not be ours sent back.

use crate::limits::{CHAP_CHALLENGE_LEN, CHAP_CHALLENGE_MAX};
use crate::wire::text::{Pairs, Text, binary, number, to_hex};
use sha2::Digest;
use std::fmt;
use subtle::ConstantTimeEq;

/// A secret. Its bytes are never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The secret of these bytes.
    #[must_use]
    pub fn new(bytes: impl Into<Vec<u8>>) -> Secret {
        Secret(bytes.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// A name and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    /// CHAP_N.
    pub name: String,
    /// The secret that only both ends know.
    pub secret: Secret,
}

/// Digests, by their number in CHAP_A (IANA "PPP Authentication Algorithms").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Algorithm {
    /// MD5.
    Md5 = 5,
    /// SHA-1.
    Sha1 = 6,
    /// SHA-256.
    Sha256 = 7,
    /// SHA3-256.
    Sha3 = 8,
}

impl Algorithm {
    /// All digests.
    pub const ALL: [Algorithm; 4] = [
        Algorithm::Md5,
        Algorithm::Sha1,
        Algorithm::Sha256,
        Algorithm::Sha3,
    ];

    /// The response to a challenge: the digest of identifier, secret and challenge (RFC 1994 4.1).
    #[must_use]
    pub fn response(self, identifier: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
        fn digest<D: Digest>(identifier: u8, secret: &Secret, challenge: &[u8]) -> Vec<u8> {
            let mut d = D::new();
            d.update([identifier]);
            d.update(&secret.0);
            d.update(challenge);
            d.finalize().to_vec()
        }
        match self {
            Algorithm::Md5 => digest::<md5::Md5>(identifier, secret, challenge),
            Algorithm::Sha1 => digest::<sha1::Sha1>(identifier, secret, challenge),
            Algorithm::Sha256 => digest::<sha2::Sha256>(identifier, secret, challenge),
            Algorithm::Sha3 => digest::<sha3::Sha3_256>(identifier, secret, challenge),
        }
    }
}

/// The proofs that a login needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChapPolicy {
    /// Name and secret of the initiator.
    pub initiator: Credential,
    /// Our own name and secret, for an initiator that asks for our proof (mutual authentication).
    pub target: Option<Credential>,
}

/// A challenge that waits for its response.
#[derive(Debug)]
pub(super) struct Challenge {
    algorithm: Algorithm,
    identifier: u8,
    bytes: [u8; CHAP_CHALLENGE_LEN],
}

/// The initiator did not prove itself: a wrong name, a wrong secret, or keys that the exchange does not ask for here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unproven;

impl Challenge {
    /// Answers CHAP_A with the first digest of the initiator's list that we know, and a challenge of `random` bytes.
    pub(super) fn issue(
        pairs: &Pairs,
        random: [u8; CHAP_CHALLENGE_LEN + 1],
        out: &mut Text,
    ) -> Result<Challenge, Unproven> {
        let list = pairs.get("CHAP_A").ok_or(Unproven)?;
        let algorithm = list
            .split(',')
            .filter_map(number)
            .find_map(|n| Algorithm::ALL.into_iter().find(|a| *a as u64 == n))
            .ok_or(Unproven)?;
        let [identifier, bytes @ ..] = random;
        out.put("CHAP_A", &(algorithm as u8).to_string());
        out.put("CHAP_I", &identifier.to_string());
        out.put("CHAP_C", &to_hex(&bytes));
        Ok(Challenge {
            algorithm,
            identifier,
            bytes,
        })
    }

    /// Checks the response; proves our end too if the initiator asks for it.
    pub(super) fn verify(
        self,
        pairs: &Pairs,
        policy: &ChapPolicy,
        out: &mut Text,
    ) -> Result<(), Unproven> {
        let name = pairs.get("CHAP_N").ok_or(Unproven)?;
        let response = pairs.get("CHAP_R").ok_or(Unproven)?;
        let response = binary(response, 64).ok_or(Unproven)?;
        let expected =
            self.algorithm
                .response(self.identifier, &policy.initiator.secret, &self.bytes);
        let right_name = name.as_bytes().ct_eq(policy.initiator.name.as_bytes());
        if !bool::from(right_name & response.ct_eq(&expected)) {
            return Err(Unproven);
        }
        let (identifier, challenge) = match (pairs.get("CHAP_I"), pairs.get("CHAP_C")) {
            (None, None) => return Ok(()),
            (Some(i), Some(c)) => (i, c),
            _ => return Err(Unproven),
        };
        let own = policy.target.as_ref().ok_or(Unproven)?;
        let identifier = number(identifier).and_then(|i| u8::try_from(i).ok());
        let challenge = binary(challenge, CHAP_CHALLENGE_MAX);
        let (Some(identifier), Some(challenge)) = (identifier, challenge) else {
            return Err(Unproven);
        };
        // §12.1.3: a reflected challenge, and one secret for both directions, would let the initiator use our own
        // answer.
        if challenge == self.bytes
            || challenge.is_empty()
            || own.secret.0.ct_eq(&policy.initiator.secret.0).into()
        {
            return Err(Unproven);
        }
        let response = self.algorithm.response(identifier, &own.secret, &challenge);
        out.put("CHAP_N", &own.name);
        out.put("CHAP_R", &to_hex(&response));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1994 over each digest, values of an independent implementation (Python's hashlib).
    #[test]
    fn responses() {
        let secret = Secret::new(*b"a secret of 16 b");
        let of = |a: Algorithm| to_hex(&a.response(7, &secret, b"challenge"));
        assert_eq!(of(Algorithm::Md5), MD5);
        assert_eq!(of(Algorithm::Sha1), SHA1);
        assert_eq!(of(Algorithm::Sha256), SHA256);
        assert_eq!(of(Algorithm::Sha3), SHA3);
    }

    const MD5: &str = "0x0e579ee5c081d8fd243f27b1e84cc1f0";
    const SHA1: &str = "0xc32faf351f1b83390ebf2f6b08722042a6826a2d";
    const SHA256: &str = "0xb5e8ca3c063e9241a811e5af4f5b388847791a309813c898563a7e8704870e92";
    const SHA3: &str = "0xef18fa2877765acfbddfb8e2301b914c02c0e2536e27357c5c760cdfc7715fd9";

    #[test]
    fn a_secret_is_not_printed() {
        let c = Credential {
            name: "u".into(),
            secret: Secret::new(*b"hidden hidden"),
        };
        assert!(!format!("{c:?}").contains("hidden"));
    }
}
