//! The store of a filesystem: a dataset of the pool as [`filesystem::Store`](crate::filesystem::Store).
//!
//! Values and inodes of a transaction are *staged*: visible at once, and appended to the journal in order, before any data that
//! was written after them. Contents of files are dirty records, as those of volumes. The inode of a file with dirty data waits
//! for that data ([`crate::dataset`], tails). A file that fits into one value has its contents in a transaction.
//!
//! **Owns** the conversion of a filesystem's requests into staged transactions and dirty records. **Called by**
//! [`crate::filesystem`]; the pool's owner writes back. **Invariants**: a change is visible to every read from the moment its
//! lock is released; a reader is registered from before it looks an address up until it has the block.

mod charges;
mod clearing;
mod contents;
mod diff;
mod path;
mod seek;
mod store;
mod transactions;
mod used;
mod values;

use std::sync::Arc;

use backend::StorageError;
use backend::file::{FileError, FileResult};

use crate::dataset::{ObjectBytes, OpenDataset};
use crate::filesystem::Store;
use crate::format::filesystem::{Folding, Header, Inode, header_key};
use crate::format::{Dataset, ObjectId, Switches};
use io::sync::lock;

/// Most bytes of a file whose contents are in one value of the tree.
pub const INLINE_MAX: usize = 1000;

pub use charges::OwnerSpace;
pub use diff::{FileChange, FileChangeKind};

/// The dataset of a filesystem, or of a snapshot of one. Clones are the same dataset.
#[derive(Clone)]
pub struct FileStore(pub(crate) Arc<OpenDataset>);

impl FileStore {
    /// Its class and properties.
    #[must_use]
    pub fn dataset(&self) -> Dataset {
        self.0.dataset()
    }

    /// Its properties with two values, which may change at any time. Cheap.
    #[must_use]
    pub fn switches(&self) -> Switches {
        self.0.settings.switches()
    }

    /// Whether names that differ only in case are the same.
    ///
    /// # Errors
    /// Those of the medium; `Corrupt` without a header.
    pub async fn is_case_insensitive(&self) -> FileResult<bool> {
        let header = Store::get(self, header_key()).await?;
        let header = header.and_then(|bytes| Header::decode(&bytes).ok());
        let header = header.ok_or(FileError::Storage(StorageError::Corrupt))?;
        Ok(header.folding != Folding::None)
    }

    /// Its number in the pool, below 2^62. Never used twice.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.0.id.0
    }

    fn bytes(&self, object: ObjectId) -> ObjectBytes<'_> {
        self.0.bytes(object)
    }

    /// Bytes of a record of a file.
    fn record_size(&self, object: ObjectId) -> u64 {
        self.0.settings.record_size_of(object).into()
    }

    /// Errors: `ReadOnly`, and why the pool takes no changes.
    fn check_writable(&self) -> FileResult<()> {
        if self.0.settings.is_snapshot() || self.0.shared.vdevs.is_read_only() {
            return Err(FileError::ReadOnly);
        }
        match self.0.shared.trouble() {
            Some(trouble) => Err(trouble.into()),
            None => Ok(()),
        }
    }

    /// Waits while changes are held back for a snapshot.
    async fn come(&self) -> FileResult<()> {
        loop {
            self.check_writable()?;
            let (waits, is_loaded) = {
                let mut state = lock(&self.0.state);
                state.demands.check()?;
                (state.gate.wait(), state.charges.is_loaded())
            };
            match waits {
                Some(opens) => drop(opens.await),
                None if !is_loaded => Box::pin(self.load_charges()).await?,
                None => return Ok(()),
            }
        }
    }

    /// The newest inode of an object that a caller is changing.
    async fn own_inode(&self, object: ObjectId) -> FileResult<Inode> {
        self.newest_inode(object).await?.ok_or(FileError::Stale)
    }
}
