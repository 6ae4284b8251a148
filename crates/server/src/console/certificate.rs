//! The console's certificate.
//!
//! **Owns** `STATE_DIR/console/certificate.pem` and `key.pem`, which the server makes for itself if the configuration names no files.
//! **Called by** [`crate::process`]. **Invariants**: the key is readable by its owner only; a certificate that was made is kept, so that its
//! fingerprint stays; a key appears in no message. Every function blocks.

use crate::accounts::CONSOLE_DIRECTORY;
use crate::config::ConsoleIdentity;
use crate::durable;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd};
use sha2::{Digest, Sha256};
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use tls::{Acceptor, Identity};
use tokio_rustls::TlsAcceptor;

/// Application protocol of the port (RFC 7301).
const ALPN: &[u8] = b"http/1.1";
/// Largest file with certificates, bytes.
const PEM_LEN_MAX: u64 = 1 << 20;

/// A certificate that the console shows.
pub(crate) struct Certificate {
    acceptor: Acceptor,
    fingerprint: String,
    #[cfg(test)]
    pem: Vec<u8>,
}

impl Certificate {
    /// The one in these files. Errors: the reason, for people.
    pub(crate) fn configured(files: &ConsoleIdentity) -> Result<Certificate, String> {
        let metadata = std::fs::metadata(&files.key);
        let metadata = metadata.map_err(|e| format!("{}: {e}", files.key.display()))?;
        if metadata.permissions().mode() & 0o007 != 0 {
            let key = files.key.display();
            return Err(format!("every user can use the key: `chmod o-rwx {key}`"));
        }
        let (certificate, key) = (read(&files.certificate)?, read(&files.key)?);
        Certificate::new(&certificate, &key).map_err(|e| {
            let (certificate, key) = (files.certificate.display(), files.key.display());
            format!("{certificate}, {key}: {e}")
        })
    }

    /// The one that this server made for itself; it is made now if there is none. `address` is a name in it. Errors: the reason, for
    /// people.
    pub(crate) fn own(state_dir: &Path, address: SocketAddr) -> Result<Certificate, String> {
        let dir = state_dir.join(CONSOLE_DIRECTORY);
        let files = ConsoleIdentity {
            certificate: dir.join("certificate.pem"),
            key: dir.join("key.pem"),
        };
        let is_missing = |path: &Path| match std::fs::metadata(path) {
            Err(e) => e.kind() == ErrorKind::NotFound,
            Ok(_) => false,
        };
        if is_missing(&files.certificate) || is_missing(&files.key) {
            let (certificate, key) = make(address).map_err(|e| format!("a certificate: {e}"))?;
            let stored = DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&dir)
                .and_then(|()| durable::replace(&files.key, key.as_bytes()))
                .and_then(|()| durable::replace(&files.certificate, certificate.as_bytes()));
            stored.map_err(|e| format!("{}: {e}", dir.display()))?;
        }
        Certificate::configured(&files)
    }

    fn new(certificate: &[u8], key: &[u8]) -> Result<Certificate, tls::ConfigError> {
        let first = tls::first_certificate(certificate)?;
        let digest = Sha256::digest(&first);
        let pairs: Vec<String> = digest.iter().map(|b| format!("{b:02X}")).collect();
        Ok(Certificate {
            acceptor: Acceptor::new(Identity { certificate, key }, None, ALPN)?,
            fingerprint: pairs.join(":"),
            #[cfg(test)]
            pem: certificate.to_vec(),
        })
    }

    /// SHA-256 of the certificate, as browsers show it.
    pub(crate) fn fingerprint(&self) -> &str {
        &self.fingerprint
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.acceptor.config())
    }

    #[cfg(test)]
    pub(super) fn pem(&self) -> &[u8] {
        &self.pem
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let length = std::fs::metadata(path).map_err(failed)?.len();
    if length > PEM_LEN_MAX {
        return Err(format!("{}: more than {PEM_LEN_MAX} bytes", path.display()));
    }
    std::fs::read(path).map_err(failed)
}

/// A self-signed certificate for this machine, and its key, both in PEM format. The curve is one that every browser knows.
fn make(address: SocketAddr) -> Result<(String, String), rcgen::Error> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host = host.trim();
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-".contains(c);
    if !host.is_empty() && host.chars().all(is_plain) {
        names.insert(0, host.to_owned());
    }
    let ip = address.ip().to_string();
    if !address.ip().is_unspecified() && !names.contains(&ip) {
        names.push(ip);
    }
    let mut params = CertificateParams::new(names)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Wirepool console");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.not_before = date_time_ymd(2026, 1, 1);
    params.not_after = date_time_ymd(2056, 1, 1);
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_made_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let address = "192.0.2.7:8443".parse().expect("an address");
        let first = Certificate::own(dir.path(), address).expect("made");
        let again = Certificate::own(dir.path(), address).expect("read");
        assert_eq!(first.fingerprint(), again.fingerprint());
        assert_eq!(first.fingerprint().len(), 32 * 3 - 1);
        let key = dir.path().join("console/key.pem");
        let mode = std::fs::metadata(&key).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).expect("set");
        let refused = Certificate::own(dir.path(), address).err();
        assert!(refused.expect("open to all").contains("chmod o-rwx"));
        std::fs::remove_file(&key).expect("removed");
        let other = Certificate::own(dir.path(), address).expect("made anew");
        assert_ne!(first.fingerprint(), other.fingerprint());
    }
}
