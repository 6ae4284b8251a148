//! The file of the control socket.
//!
//! **Invariants**: the socket of a running server is never replaced; a stale one is replaced in one step; only the
//! owner can connect at any moment; the file is removed with the server, if it is still its own.

use crate::{Error, Result};
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use tokio::net::UnixListener;

/// A bound control socket; dropped, its file is removed.
pub(crate) struct ControlSocket {
    path: PathBuf,
    inode: u64,
}

impl ControlSocket {
    /// Binds `path`, inside a tokio runtime. `change` is the operator's way to another path. Errors: `ControlInUse` if a server answers
    /// there, `File`.
    pub(crate) fn bind(path: &Path, change: &'static str) -> Result<(ControlSocket, UnixListener)> {
        let failed = |source| Error::File {
            what: "listen on the control socket",
            path: path.to_path_buf(),
            source,
        };
        if let Some(dir) = path.parent().filter(|d| !d.as_os_str().is_empty()) {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .map_err(failed)?;
        }
        match fs::symlink_metadata(path) {
            Ok(m) if !m.file_type().is_socket() => {
                return Err(failed(io::Error::new(
                    io::ErrorKind::AlreadyExists,
                    "it is there and is no socket",
                )));
            }
            Ok(_) if UnixStream::connect(path).is_ok() => {
                let path = path.to_path_buf();
                return Err(Error::ControlInUse { path, change });
            }
            _ => {}
        }
        // Bound with a temporary name in a directory that only the owner can enter, then renamed.
        let private = path.with_file_name(format!(".control-{}", std::process::id()));
        let bound = bind_private(&private, path);
        let _ = fs::remove_dir_all(&private);
        let listener = bound.map_err(failed)?;
        let inode = fs::metadata(path).map_err(failed)?.ino();
        Ok((
            ControlSocket {
                path: path.to_path_buf(),
                inode,
            },
            listener,
        ))
    }
}

fn bind_private(private: &Path, path: &Path) -> io::Result<UnixListener> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(private)?;
    let first = private.join("s");
    let listener = UnixListener::bind(&first)?;
    fs::set_permissions(&first, Permissions::from_mode(0o600))?;
    fs::rename(&first, path)?;
    Ok(listener)
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if fs::metadata(&self.path).is_ok_and(|m| m.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_living_socket_is_respected_and_a_dead_one_replaced() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("run/control.sock");
        let (first, listener) = ControlSocket::bind(&path, "").expect("bind");
        assert_eq!(
            fs::metadata(&path).expect("there").permissions().mode() & 0o777,
            0o600
        );
        assert!(matches!(
            ControlSocket::bind(&path, ""),
            Err(Error::ControlInUse { .. })
        ));
        drop(listener);
        let (second, _listener) = ControlSocket::bind(&path, "").expect("nobody answers any more");
        drop(first);
        assert!(
            path.exists(),
            "the second server's socket is not the first one's to remove"
        );
        drop(second);
        assert_eq!(
            fs::read_dir(dir.path().join("run")).expect("list").count(),
            0
        );
    }

    #[tokio::test]
    async fn what_is_no_socket_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("precious");
        fs::write(&path, b"data").expect("write");
        assert!(matches!(
            ControlSocket::bind(&path, ""),
            Err(Error::File { .. })
        ));
        assert_eq!(fs::read(&path).expect("read"), b"data");
    }
}
