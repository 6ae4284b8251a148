//! All that a filesystem's dataset has, read below the filesystem.
//!
//! **Owns** [`Image`] and its reading. **Called by** scenario `files`, after each start and for snapshots. **Invariant**: reading
//! changes nothing.

use crate::model::Violation;
use backend::file::{FileKind, FileResult};
use pool::FileStore;
use pool::filesystem::Store;
use pool::format::filesystem::{Dirent, Header, Inode, KIND_DIRENT, KIND_ORPHAN, header_key};
use pool::format::{Key, ObjectId};
use std::collections::{BTreeMap, BTreeSet};
use testkit::store::Durables;

/// Values that one scan returns at most.
const PAGE: usize = 100;
/// Bytes that one read returns at most.
const READ: u64 = 64 << 10;

/// The values, inodes and contents of a filesystem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Image {
    pub(super) state: Durables,
    /// Contents of files, up to their size.
    pub(super) contents: BTreeMap<ObjectId, Vec<u8>>,
    /// Least `change` of an object; 0 in a snapshot.
    pub(super) change_floor: u64,
}

async fn values(store: &FileStore) -> FileResult<BTreeMap<Key, Vec<u8>>> {
    let mut values = BTreeMap::new();
    let mut from = Key::START;
    loop {
        let page = store.scan(from..Key::END, PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(values);
        };
        from = last.next();
        values.extend(page);
    }
}

/// The objects that names or the list of orphans lead to.
fn objects(values: &BTreeMap<Key, Vec<u8>>) -> Result<BTreeSet<ObjectId>, Violation> {
    let header = values.get(&header_key());
    let header = header.ok_or_else(|| Violation("a filesystem without a header".into()))?;
    let header = Header::decode(header).map_err(|e| Violation(format!("a header: {e:?}")))?;
    let mut objects = BTreeSet::from([header.root]);
    for (key, value) in values {
        match key.kind() {
            KIND_DIRENT => {
                let dirent = Dirent::decode(value);
                let dirent = dirent.map_err(|e| Violation(format!("{key:?}: {e:?}")))?;
                objects.insert(dirent.target.object);
            }
            KIND_ORPHAN => drop(objects.insert(ObjectId(key.offset()))),
            _ => {}
        }
    }
    Ok(objects)
}

async fn contents(store: &FileStore, object: ObjectId, inode: &Inode) -> FileResult<Vec<u8>> {
    let mut contents = Vec::new();
    while (contents.len() as u64) < inode.size {
        let from = contents.len() as u64;
        let read = store
            .read(object, from..inode.size.min(from + READ))
            .await?;
        let mut part = vec![0; read.len()];
        read.copy_to(&mut part);
        contents.extend(part);
    }
    Ok(contents)
}

impl Image {
    /// Whether both are the same, but for the least `change`, which an opening and a rollback raise.
    pub(super) fn is_same(&self, other: &Image) -> bool {
        let floor = self.change_floor.max(other.change_floor);
        self.raised(floor) == other.raised(floor)
    }

    fn raised(&self, floor: u64) -> Image {
        let mut image = self.clone();
        image.change_floor = floor;
        for inode in image.state.inodes.values_mut() {
            inode.change = inode.change.max(floor);
        }
        image
    }

    /// Reads all. Fails if something cannot be read.
    pub(super) async fn read(store: &FileStore) -> Result<Image, Violation> {
        let failed = |e| Violation(format!("a filesystem cannot be read: {e}"));
        let mut image = Image {
            change_floor: store.settings().change_floor,
            ..Image::default()
        };
        image.state.values = values(store).await.map_err(failed)?;
        for object in objects(&image.state.values)? {
            let Some(inode) = store.inode(object).await.map_err(failed)? else {
                continue;
            };
            if inode.kind == FileKind::File {
                let contents = contents(store, object, &inode).await.map_err(failed)?;
                image.contents.insert(object, contents);
            }
            image.state.inodes.insert(object, inode);
        }
        Ok(image)
    }
}
