//! Records of NFS clients with state, across restarts.
//!
//! **Owns** the files in `STATE_DIR/nfs/clients`, one for each client owner, named by a UUID computed from it, with the owner as
//! content. **Called by** the NFS service on helper threads, and at the start. **Invariants**: a file is there, or gone, on stable
//! storage when the call returns. RFC 8881, section 8.4.3.

use super::config::RECORDS;
use crate::config::{ConfigFile, UUID_SPACE};
use crate::durable;
use nfs::service::{ClientStore, NoClientStore};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uuid::Uuid;

/// The directory with the records.
#[derive(Debug)]
struct ClientFiles(PathBuf);

/// The store of the records, and the client owners in it. A simulated server stores nothing. Blocks.
pub(super) fn load(file: &ConfigFile) -> (Arc<dyn ClientStore>, Vec<Vec<u8>>) {
    if !file.is_stored() {
        return (Arc::new(NoClientStore), Vec::new());
    }
    let files = ClientFiles(file.config().server.state_dir.join(RECORDS));
    let owners = files.owners().unwrap_or_else(|e| {
        let dir = files.0.display();
        tracing::error!(%dir, error = %e, "NFS clients cannot reclaim their state: their records cannot be read");
        Vec::new()
    });
    (Arc::new(files), owners)
}

impl ClientFiles {
    fn path(&self, owner: &[u8]) -> PathBuf {
        self.0.join(Uuid::new_v5(&UUID_SPACE, owner).to_string())
    }

    fn owners(&self) -> io::Result<Vec<Vec<u8>>> {
        let mut owners = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let path = entry?.path();
            // Other files are of an interrupted replacement.
            let owner = std::fs::read(&path)?;
            if path == self.path(&owner) {
                owners.push(owner);
            }
        }
        Ok(owners)
    }

    fn sync(dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl ClientStore for ClientFiles {
    fn keep(&self, owner: &[u8]) -> io::Result<()> {
        durable::replace(&self.path(owner), owner)
    }

    fn forget(&self, owner: &[u8]) -> io::Result<()> {
        match std::fs::remove_file(self.path(owner)) {
            Ok(()) => ClientFiles::sync(&self.0),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_are_kept_until_they_are_forgotten() {
        let dir = tempfile::tempdir().expect("a directory");
        let files = ClientFiles(dir.path().to_path_buf());
        let owners = |files: &ClientFiles| {
            let mut owners = files.owners().expect("read");
            owners.sort();
            owners
        };
        for owner in [&b"a/b\0"[..], b"c", b"c"] {
            files.keep(owner).expect("kept");
        }
        std::fs::write(dir.path().join(".x.new"), b"interrupted").expect("written");
        assert_eq!(owners(&files), [&b"a/b\0"[..], b"c"]);
        files.forget(b"a/b\0").expect("forgotten");
        files.forget(b"a/b\0").expect("gone already");
        assert_eq!(owners(&files), [b"c"]);
    }
}
