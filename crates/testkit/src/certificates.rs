//! Certificates for tests of TLS.
//!
//! **Owns** [`Authority`], [`Signed`] and [`Parties`]. **Called by** tests and examples. **Invariants**: made anew in each process,
//! valid for ever; keys are Ed25519, whose signatures have one length, in the form that every TLS library reads.

use std::sync::OnceLock;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_ED25519};

/// A certificate and its key, in PEM.
pub struct Signed {
    /// The certificate.
    pub certificate: String,
    /// The key.
    pub key: String,
}

/// An authority that signs certificates.
pub struct Authority {
    /// Its own certificate, in PEM.
    pub certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

/// What is before the 32 bytes of an Ed25519 key in PKCS #8, version 1 (RFC 8410, section 7).
const VERSION_1: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A new key. The library writes version 2 of PKCS #8 (RFC 5958), with the public key, which GnuTLS 3.8 refuses.
fn key() -> KeyPair {
    let made = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
    let secret = made
        .serialized_der()
        .get(16..48)
        .expect("a key of 32 bytes");
    let version_1 = [&VERSION_1[..], secret].concat();
    KeyPair::try_from(version_1).expect("the same key")
}

impl Authority {
    /// An authority of this name.
    #[must_use]
    pub fn new(name: &str) -> Authority {
        let key = key();
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.self_signed(&key).expect("signed").pem();
        Authority {
            certificate,
            issuer: Issuer::new(params, key),
        }
    }

    /// Signs a certificate for these DNS names and addresses; the first one is its common name.
    #[must_use]
    pub fn sign(&self, names: &[&str]) -> Signed {
        let key = key();
        let all: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(all).expect("names");
        let common = names.first().copied().unwrap_or_default();
        params.distinguished_name.push(DnType::CommonName, common);
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        Signed {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }
}

/// A server and a client with certificates of one authority, and a client of another authority.
pub struct Parties {
    /// The authority that server and client trust.
    pub ours: Authority,
    /// `server.test`, signed by `ours`.
    pub server: Signed,
    /// `client.test`, signed by `ours`.
    pub client: Signed,
    /// An authority that nobody trusts.
    pub other: Authority,
    /// `client.test`, signed by `other`.
    pub stranger: Signed,
}

/// The parties of this process, made at the first call.
pub fn parties() -> &'static Parties {
    static PARTIES: OnceLock<Parties> = OnceLock::new();
    PARTIES.get_or_init(|| {
        let (ours, other) = (Authority::new("ours"), Authority::new("other"));
        Parties {
            server: ours.sign(&["server.test"]),
            client: ours.sign(&["client.test"]),
            stranger: other.sign(&["client.test"]),
            ours,
            other,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_the_form_that_every_library_reads() {
        let der = key().serialize_der();
        assert_eq!(der[..16], VERSION_1);
        assert_eq!(der.len(), 48, "and nothing follows the key");
        assert_ne!(der, key().serialize_der());
    }
}
