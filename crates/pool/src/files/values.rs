//! Values of a filesystem's dataset: lookups and scans.
//!
//! **Owns** the lookup in the staged transactions, the layers and the tree. **Called by** the store. **Invariant**: each step sees
//! one state of the dataset; a scan of many values may see changes between two steps.

use std::ops::Range;

use backend::StorageError;
use backend::file::{FileError, FileResult};

use super::FileStore;
use crate::Result;
use crate::format::filesystem::{Inode, inode_key};
use crate::format::{Key, ObjectId, Value};
use crate::tree::{Layer, Lookup, LookupStep};
use io::sync::lock;

impl FileStore {
    /// The newest inode of an object.
    pub(super) async fn newest_inode(&self, object: ObjectId) -> FileResult<Option<Inode>> {
        if let Some(inode) = lock(&self.0.state).tails.get(object) {
            return Ok(Some(*inode));
        }
        let Some(Value::Inline(bytes)) = self.value(inode_key(object)).await? else {
            return Ok(None);
        };
        // the file may have got a tail meanwhile
        if let Some(inode) = lock(&self.0.state).tails.get(object) {
            return Ok(Some(*inode));
        }
        let inode = Inode::decode(&bytes).map_err(|defect| {
            tracing::warn!(dataset = self.0.id.0, object = object.0, %defect, "damaged inode");
            FileError::Storage(StorageError::Corrupt)
        })?;
        Ok(Some(inode))
    }

    /// The newest value of a key.
    pub(super) async fn value(&self, key: Key) -> Result<Option<Value>> {
        let _reader = self.0.shared.readers.enter();
        let mut lookup = {
            let state = lock(&self.0.state);
            let staged = std::iter::once(state.staged.layer());
            let layers: Vec<&Layer> = staged.chain(state.layers.iter()).collect();
            Lookup::new(&layers, state.layers.root(), key)
        };
        loop {
            match lookup.step() {
                LookupStep::Need(need) => {
                    lookup.supply(&self.0.shared.node(self.0.id, &need).await?)?;
                }
                LookupStep::Done(value) => return Ok(value),
            }
        }
    }

    /// As [`OpenDataset::values`](crate::dataset::OpenDataset::values).
    pub(super) async fn values(
        &self,
        keys: Range<Key>,
        max: usize,
        takes: impl Fn(Key, &Value) -> bool,
    ) -> Result<Vec<(Key, Value)>> {
        self.0.values(keys, max, takes).await
    }
}
