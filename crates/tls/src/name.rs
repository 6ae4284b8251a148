//! The name in a certificate (RFC 5280), for people: the common name of its subject, else its first DNS name; and its identity, for comparisons.
//!
//! **Owns** [`certificate_name`] and [`certificate_identity`]. **Called by** [`crate::Engine`], for a certificate that the handshake has verified. **Invariants**: nothing depends on the name but what
//! is shown; it is short and printable; a certificate that replaces an expired one has the same identity; malformed bytes have no name.

use crate::limits::NAME_LEN_MAX;
use io::printable::printable;

const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0] version`, `[3] extensions` of a certificate.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
/// `[2] dNSName` of a GeneralName.
const DNS_NAME: u8 = 0x82;
/// Strings whose bytes are ASCII or UTF-8: UTF8String, PrintableString, IA5String.
const STRINGS: [u8; 3] = [0x0c, 0x13, 0x16];
/// 2.5.4.3, commonName.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// 2.5.29.17, subjectAltName.
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];

/// DER values, one after the other.
#[derive(Clone, Copy)]
struct Values<'a>(&'a [u8]);

impl<'a> Values<'a> {
    /// The next value: tag and contents.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, first, rest @ ..] = self.0 else {
            return None;
        };
        let (len, rest) = match *first {
            len @ 0..=0x7f => (usize::from(len), rest),
            // Certificates are shorter than 16 MiB.
            count @ 0x81..=0x83 => {
                let (len, rest) = rest.split_at_checked(usize::from(count & 0x7f))?;
                let len = len
                    .iter()
                    .fold(0, |len, byte| len << 8 | usize::from(*byte));
                (len, rest)
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((*tag, contents))
    }

    /// The next value, if it has this tag; else none is taken.
    fn take(&mut self, tag: u8) -> Option<Values<'a>> {
        let mut rest = *self;
        let (found, contents) = rest.next()?;
        if found != tag {
            return None;
        }
        *self = rest;
        Some(Values(contents))
    }
}

/// The name in a certificate, in DER: printable, of at most [`NAME_LEN_MAX`] bytes before escapes. `None` if it has no name, or is malformed.
#[must_use]
pub fn certificate_name(certificate: &[u8]) -> Option<String> {
    let mut signed = behind_validity(certificate)?;
    let subject = signed.take(SEQUENCE)?;
    let bytes = common_name(subject).or_else(|| dns_name(signed))?;
    let text = std::str::from_utf8(bytes.get(..NAME_LEN_MAX).unwrap_or(bytes)).ok()?;
    (!text.is_empty()).then(|| printable(text).into_owned())
}

/// The bytes that certificates of one owner have in common, and of other owners have not, as far as their authorities tell owners apart:
/// subject and alternative names; of a certificate without both, the whole certificate.
#[must_use]
pub fn certificate_identity(certificate: &[u8]) -> Vec<u8> {
    let names = names_of(certificate).filter(|names| !names.is_empty());
    names.unwrap_or_else(|| certificate.to_vec())
}

fn names_of(certificate: &[u8]) -> Option<Vec<u8>> {
    let mut signed = behind_validity(certificate)?;
    let subject = signed.take(SEQUENCE)?;
    let alternatives = alternative_names(signed).unwrap_or(Values(&[]));
    let both = [subject.0, alternatives.0];
    if both.iter().all(|part| part.is_empty()) {
        return Some(Vec::new());
    }
    // The length keeps the parts apart.
    let mut names = (subject.0.len() as u64).to_be_bytes().to_vec();
    both.iter().for_each(|part| names.extend_from_slice(part));
    Some(names)
}

/// A certificate from its subject on.
fn behind_validity(certificate: &[u8]) -> Option<Values<'_>> {
    let mut signed = Values(certificate).take(SEQUENCE)?.take(SEQUENCE)?;
    signed.take(VERSION);
    signed.take(INTEGER)?;
    // The algorithm, the issuer, and the validity.
    for _ in 0..3 {
        signed.take(SEQUENCE)?;
    }
    Some(signed)
}

fn common_name(mut subject: Values<'_>) -> Option<&[u8]> {
    while let Some(mut set) = subject.take(SET) {
        while let Some(mut attribute) = set.take(SEQUENCE) {
            let kind = attribute.take(OID)?;
            let (tag, text) = attribute.next()?;
            if kind.0 == COMMON_NAME && STRINGS.contains(&tag) {
                return Some(text);
            }
        }
    }
    None
}

/// `rest` begins behind the subject.
fn dns_name(rest: Values<'_>) -> Option<&[u8]> {
    let mut names = alternative_names(rest)?;
    while let Some((tag, text)) = names.next() {
        if tag == DNS_NAME {
            return Some(text);
        }
    }
    None
}

/// `rest` begins behind the subject.
fn alternative_names(mut rest: Values<'_>) -> Option<Values<'_>> {
    // The public key, and identifiers that nobody uses.
    let mut extensions = loop {
        match rest.take(EXTENSIONS) {
            Some(mut extensions) => break extensions.take(SEQUENCE)?,
            None => drop(rest.next()?),
        }
    };
    while let Some(mut extension) = extensions.take(SEQUENCE) {
        let kind = extension.take(OID)?;
        if kind.0 != ALTERNATIVE_NAME {
            continue;
        }
        // `critical` may stand before the value.
        let mut value = loop {
            match extension.take(OCTETS) {
                Some(value) => break value,
                None => drop(extension.next()?),
            }
        };
        return value.take(SEQUENCE);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519};

    fn certificate(common: Option<&str>, names: &[&str]) -> Vec<u8> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name = DistinguishedName::new();
        let subject = &mut params.distinguished_name;
        subject.push(DnType::OrganizationName, "Lab");
        if let Some(common) = common {
            subject.push(DnType::CommonName, common);
        }
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        params.self_signed(&key).expect("signed").der().to_vec()
    }

    #[test]
    fn a_certificate_is_shown_by_its_common_name_or_its_dns_name() {
        for (common, names, shown) in [
            (Some("client one"), &["a.test"][..], Some("client one")),
            (None, &["192.0.2.1", "b.test"], Some("b.test")),
            (None, &[], None),
            (Some("Bär"), &[], Some("Bär")),
            (Some("two\nlines"), &[], Some("two\\nlines")),
        ] {
            assert_eq!(
                certificate_name(&certificate(common, names)).as_deref(),
                shown
            );
        }
    }

    /// A session of one client was used by another one whose certificate was of the same authority.
    #[test]
    fn certificates_of_one_owner_have_one_identity() {
        let identity = |common, names| certificate_identity(&certificate(common, names));
        // Other keys, other serial numbers, the same owner.
        assert_eq!(
            identity(Some("a"), &["a.test"]),
            identity(Some("a"), &["a.test"])
        );
        let others = [
            (Some("a"), &["a.test"][..]),
            (Some("b"), &["a.test"]),
            (Some("a"), &["b.test"]),
            (Some("a"), &["a.test", "b.test"]),
            (Some("a"), &[]),
            (None, &["a.test"]),
        ];
        for (n, (common, names)) in others.iter().enumerate() {
            for (other, names_of_other) in &others[..n] {
                assert_ne!(identity(*common, names), identity(*other, names_of_other));
            }
        }
        assert_eq!(certificate_identity(b"garbage"), b"garbage");
    }

    proptest! {
        #[test]
        fn malformed_certificates_have_no_name_or_a_short_one(
            changes in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..8),
            end in any::<prop::sample::Index>(),
        ) {
            let mut bytes = certificate(Some("one"), &["a.test"]);
            for (at, value) in changes {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(end.index(bytes.len() + 1));
            prop_assert!(certificate_name(&bytes).is_none_or(|name| name.chars().count() <= 10 * NAME_LEN_MAX));
        }

        #[test]
        fn arbitrary_bytes_have_no_name_or_a_short_one(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(certificate_name(&bytes).is_none_or(|name| name.chars().count() <= 10 * NAME_LEN_MAX));
        }
    }
}
