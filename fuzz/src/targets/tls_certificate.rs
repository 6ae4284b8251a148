//! Bytes as a certificate: its name is short and printable, or there is none; its identity is no longer than the bytes and a length.

use tls::limits::NAME_LEN_MAX;

/// The longest escape of a byte, characters.
const ESCAPE_LEN_MAX: usize = 10;

pub fn run(certificate: &[u8]) {
    if let Some(name) = tls::certificate_name(certificate) {
        assert!(!name.is_empty() && !name.contains(char::is_control));
        assert!(name.chars().count() <= ESCAPE_LEN_MAX * NAME_LEN_MAX);
    }
    assert!(tls::certificate_identity(certificate).len() <= certificate.len() + 8);
}
