//! Paths of objects, for reports of damage and of differences.
//!
//! **Owns** the search from an object up to the root directory. **Called by** both reports. **Invariants**: a path is
//! returned only if every name on it leads to the object below it; the search ends after [`DEPTH_MAX`] directories.

use super::FileStore;
use crate::filesystem::Store as _;
use crate::format::filesystem::{Dirent, Header, KIND_DIRENT, ObjectRef, header_key};
use crate::format::{Key, ObjectId};

/// Most directories on a path that is searched.
const DEPTH_MAX: usize = 256;

impl FileStore {
    /// As [`FileStore::path_bytes`]. Bytes that are not UTF-8 are replaced.
    pub(crate) async fn path(&self, object: ObjectId) -> Option<String> {
        let path = self.path_bytes(object).await?;
        Some(String::from_utf8_lossy(&path).into_owned())
    }

    /// The path of an object by its first name, from the root directory. None if it has no name, or if a part of the path
    /// cannot be read.
    pub(super) async fn path_bytes(&self, object: ObjectId) -> Option<Vec<u8>> {
        let header = Header::decode(&self.get(header_key()).await.ok()??).ok()?;
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut at = object;
        while at != header.root {
            if names.len() >= DEPTH_MAX {
                return None;
            }
            let inode = self.inode(at).await.ok()??;
            let place = Key::new(inode.parent, KIND_DIRENT, inode.entry);
            let dirent = Dirent::decode(&self.get(place).await.ok()??).ok()?;
            let found = ObjectRef {
                object: at,
                generation: inode.generation,
            };
            if dirent.target != found {
                return None;
            }
            names.push([b"/", dirent.name.as_bytes()].concat());
            at = inode.parent;
        }
        names.reverse();
        match names.is_empty() {
            true => Some(b"/".to_vec()),
            false => Some(names.concat()),
        }
    }
}
