//! Filesystems: creation, and the datasets below them.
//!
//! **Owns** these operations, and the properties of a new filesystem ([`NewFilesystem`]). **Called by** [`Pool`]'s users.
//! **Invariant**: a filesystem has its header and its root directory before its creation returns.

use super::volumes::NewDataset;
use crate::Result;
use crate::files::FileStore;
use crate::filesystem::{Edit, NewFileSystem, first_transaction};
use crate::format::filesystem::{OBJECT_END, counted_key, encode_counted, inode_key};
use crate::format::{
    ChecksumKind, DatasetKind, DatasetProperty, FEATURE_EXACT_SPACE, FEATURE_FILESYSTEMS,
    FEATURE_OWNER_SPACE, FILE_RECORD_SIZE, ObjectId, Packing, RECORD_SIZE_MIN, Sync,
};
use crate::owner::{Pool, State};

/// The properties of a new filesystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFilesystem {
    /// The name within the pool.
    pub name: String,
    /// Bytes of a record of its files: a power of two from 4 KiB to 1 MiB. The default is inherited if it is not an own
    /// property.
    pub record_size: u32,
    /// When writes become durable.
    pub sync: Sync,
    /// How its records are compressed.
    pub compression: Packing,
    /// How its records' checksums are made.
    pub checksum: ChecksumKind,
    /// Own values of other properties.
    pub values: Vec<(DatasetProperty, u64)>,
    /// The root directory, and whether names that differ only in case are the same.
    pub root: NewFileSystem,
}

impl NewFilesystem {
    /// A filesystem with the default properties: records of 128 KiB, writes durable when the client asks for it, compression
    /// by LZ4, checksums by XXH3, a root directory of the superuser's.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            record_size: FILE_RECORD_SIZE,
            sync: Sync::Standard,
            compression: Packing::Lz4,
            checksum: ChecksumKind::Xxh3,
            values: Vec::new(),
            root: NewFileSystem::default(),
        }
    }
}

impl State {
    /// The filesystem of this name.
    pub(in crate::owner) fn filesystem(&self, name: &str) -> Option<FileStore> {
        let found = self.datasets.volume(name)?;
        let has_files = found.dataset().kind.has_files();
        has_files.then(|| FileStore(found.clone()))
    }
}

impl Pool {
    /// Creates a filesystem. Properties that differ from the default are its own; it inherits the others. It is durable when
    /// this returns.
    ///
    /// # Errors
    /// As [`Pool::create_volume`].
    pub async fn create_filesystem(&self, new: NewFilesystem) -> Result<FileStore> {
        self.create_filesystem_with(new, &[]).await
    }

    /// Creates a filesystem. The properties in `own`, and values that differ from the defaults, are its own; it inherits the
    /// others. It is durable when this returns.
    ///
    /// # Errors
    /// As [`Pool::create_volume`].
    pub async fn create_filesystem_with(
        &self,
        new: NewFilesystem,
        own: &[DatasetProperty],
    ) -> Result<FileStore> {
        self.vdevs().require(FEATURE_FILESYSTEMS).await?;
        self.vdevs().require(FEATURE_OWNER_SPACE).await?;
        self.vdevs().require(FEATURE_EXACT_SPACE).await?;
        if new.record_size != FILE_RECORD_SIZE || own.contains(&DatasetProperty::Recordsize) {
            self.require_record_sizes().await?;
        }
        for (property, _) in &new.values {
            self.require_for(*property).await?;
        }
        let properties = NewDataset {
            name: new.name,
            kind: DatasetKind::Filesystem,
            size: 0,
            block_size: RECORD_SIZE_MIN,
            record_size: new.record_size,
            sync: new.sync,
            compression: new.compression,
            checksum: new.checksum,
            own: own.to_vec(),
            values: new.values,
        };
        let value = |edit| match edit {
            Edit::Put(key, value) => (key, value),
            Edit::PutInode(object, inode) => (inode_key(object), inode.encode()),
            Edit::Charged(..) | Edit::Delete(_) | Edit::DeleteRange(_) | Edit::Discard(..) => {
                unreachable!("a new filesystem has nothing to delete")
            }
        };
        let first = first_transaction(&new.root).into_edits();
        let all_counted = (counted_key(), encode_counted(ObjectId(OBJECT_END)));
        let values = first.into_iter().map(value);
        let values: Vec<_> = values.chain([all_counted]).collect();
        Ok(FileStore(self.create_dataset(properties, &values).await?))
    }

    /// The filesystem of this name.
    #[must_use]
    pub fn filesystem(&self, name: &str) -> Option<FileStore> {
        self.owner.state.borrow().filesystem(name)
    }

    /// The snapshot of this name of a filesystem.
    #[must_use]
    pub fn filesystem_snapshot(&self, filesystem: &str, name: &str) -> Option<FileStore> {
        let state = self.owner.state.borrow();
        let of = state.filesystem(filesystem)?.0.id;
        state.datasets.snapshot(of, name).cloned().map(FileStore)
    }

    /// All filesystems, without snapshots.
    #[must_use]
    pub fn filesystems(&self) -> Vec<FileStore> {
        let state = self.owner.state.borrow();
        let all = state.datasets.volumes();
        let all = all.filter(|dataset| dataset.settings.has_files());
        all.cloned().map(FileStore).collect()
    }
}
