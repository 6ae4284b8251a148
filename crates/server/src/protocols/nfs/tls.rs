//! The certificates of NFS: files that may change while the server runs.
//!
//! **Owns** [`Certificates`]. **Called by** the protocol, at the start and now and then. **Invariants**: files that cannot be used change nothing:
//! the ones before stay in use, and an export that demands TLS refuses connections while there are none; a key that others can read is not
//! used; keys appear in no message.

use super::limits::PEM_LEN_MAX;
use ::nfs::rpc::ALPN;
use io::sync::lock;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use tls::{Acceptor, Identity};

/// `[nfs.tls]`: files in PEM format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate, and those of the authorities between it and the one that clients trust.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities whose certificates clients may show.
    pub client_ca: Option<PathBuf>,
}

/// The contents of the files.
#[derive(PartialEq, Eq)]
struct Contents {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

#[derive(Default)]
struct LoadedFiles {
    /// The contents in use.
    used: Option<Contents>,
    /// Why the files of now are not in use.
    failure: Option<String>,
}

/// The certificates of NFS.
pub(super) struct Certificates {
    files: Option<TlsFiles>,
    state: Mutex<LoadedFiles>,
}

impl Certificates {
    pub(super) fn new(files: Option<TlsFiles>) -> Certificates {
        Certificates {
            files,
            state: Mutex::default(),
        }
    }

    /// Why the files cannot be used, for the operator.
    pub(super) fn failure(&self) -> Option<String> {
        lock(&self.state).failure.clone()
    }

    /// Reads the files. Returns what later handshakes use, if it has changed. Blocks.
    pub(super) fn load(&self) -> Option<Acceptor> {
        let files = self.files.as_ref()?;
        let read = contents(files);
        let mut state = lock(&self.state);
        let made = read.and_then(|contents| match state.used.as_ref() == Some(&contents) {
            true => Ok(None),
            false => acceptor(files, &contents).map(|acceptor| Some((contents, acceptor))),
        });
        match made {
            Ok(None) => {
                state.failure = None;
                None
            }
            Ok(Some((contents, acceptor))) => {
                let certificate = files.certificate.display();
                tracing::info!(%certificate, "NFS clients may use TLS with this certificate");
                *state = LoadedFiles {
                    used: Some(contents),
                    failure: None,
                };
                Some(acceptor)
            }
            Err(reason) => {
                if state.failure.as_ref() != Some(&reason) {
                    tracing::error!("the certificates of NFS cannot be used: {reason}");
                    state.failure = Some(reason);
                }
                None
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read =
        std::fs::File::open(path).and_then(|file| file.take(PEM_LEN_MAX).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(bytes),
        Err(e) => Err(format!("{}: {e}", path.display())),
    }
}

fn contents(files: &TlsFiles) -> Result<Contents, String> {
    let metadata = std::fs::metadata(&files.key);
    let metadata = metadata.map_err(|e| format!("{}: {e}", files.key.display()))?;
    if metadata.permissions().mode() & 0o007 != 0 {
        let key = files.key.display();
        return Err(format!("every user can use the key: `chmod o-rwx {key}`"));
    }
    Ok(Contents {
        certificate: read(&files.certificate)?,
        key: read(&files.key)?,
        client_ca: files.client_ca.as_deref().map(read).transpose()?,
    })
}

fn acceptor(files: &TlsFiles, contents: &Contents) -> Result<Acceptor, String> {
    let identity = Identity {
        certificate: &contents.certificate,
        key: &contents.key,
    };
    let made = Acceptor::new(identity, contents.client_ca.as_deref(), ALPN);
    made.map_err(|e| {
        let (certificate, key) = (files.certificate.display(), files.key.display());
        match &files.client_ca {
            None => format!("{certificate}, {key}: {e}"),
            Some(ca) => format!("{certificate}, {key}, {}: {e}", ca.display()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use testkit::certificates::Authority;

    #[test]
    fn files_are_used_once_they_are_good_and_again_when_they_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        let files = TlsFiles {
            certificate: path("cert.pem"),
            key: path("key.pem"),
            client_ca: None,
        };
        let certificates = Certificates::new(Some(files));
        let failure = || certificates.failure().unwrap_or_default();
        assert!(certificates.load().is_none() && failure().contains("key.pem"));
        let authority = Authority::new("ours");
        let put = |mode| {
            let signed = authority.sign(&["server.test"]);
            write(path("cert.pem"), &signed.certificate).expect("written");
            write(path("key.pem"), &signed.key).expect("written");
            set_permissions(path("key.pem"), Permissions::from_mode(mode)).expect("set");
        };
        put(0o644);
        assert!(certificates.load().is_none() && failure().contains("chmod"));
        put(0o640);
        assert!(certificates.load().is_some() && failure().is_empty());
        assert!(certificates.load().is_none(), "nothing has changed");
        // A certificate without its key, as it is for a moment while files are replaced.
        let other = authority.sign(&["server.test"]);
        write(path("cert.pem"), &other.certificate).expect("written");
        assert!(certificates.load().is_none() && failure().contains("cert.pem"));
        write(path("key.pem"), &other.key).expect("written");
        assert!(certificates.load().is_some() && failure().is_empty());
    }
}
