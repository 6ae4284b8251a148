//! Values of a filesystem's dataset: lookups and scans.
//!
//! **Owns** the search in the staged transactions, the layers and the tree. **Called by** the store. **Invariant**: each step sees
//! one state of the dataset; a scan of many values may see changes between two steps.

use std::ops::Range;
use std::sync::Arc;

use backend::StorageError;
use backend::file::{FileError, FileResult};

use super::FileStore;
use crate::Result;
use crate::format::filesystem::{Inode, inode_key};
use crate::format::{Key, ObjectId, Value};
use crate::mutex::lock;
use crate::tree::{Direction, Layer, Lookup, LookupStep, Root, Scan, ScanStep};

/// Changes of a layer that one step of a scan copies at most.
const COPIED_MAX: usize = 256;

/// The layers and the tree of a dataset at one moment, for a range of keys.
struct View {
    layers: Vec<Arc<Layer>>,
    root: Root,
    /// The first key that the view does not have.
    end: Key,
}

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
            let own = [state.staged.layer(), &state.top];
            let frozen = state.frozen.iter().map(|f| f.layer.as_ref());
            let layers: Vec<&Layer> = own.into_iter().chain(frozen).collect();
            Lookup::new(&layers, state.root, key)
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

    fn view(&self, keys: &Range<Key>) -> View {
        let state = lock(&self.0.state);
        let (staged, staged_end) = state.staged.layer().part(keys, COPIED_MAX);
        let (top, top_end) = state.top.part(keys, COPIED_MAX);
        let frozen = state.frozen.iter().map(|f| f.layer.clone());
        View {
            layers: [staged.freeze(), top.freeze()]
                .into_iter()
                .chain(frozen)
                .collect(),
            root: state.root,
            end: staged_end.min(top_end),
        }
    }

    /// The newest values of the first `max` keys in a range that have one which `takes` accepts.
    pub(super) async fn values(
        &self,
        keys: Range<Key>,
        max: usize,
        takes: impl Fn(Key, &Value) -> bool,
    ) -> Result<Vec<(Key, Value)>> {
        let _reader = self.0.shared.readers.enter();
        let mut found = Vec::new();
        let mut rest = keys;
        while !rest.is_empty() && found.len() < max {
            let view = self.view(&rest);
            let layers: Vec<&Layer> = view.layers.iter().map(AsRef::as_ref).collect();
            let mut scan = Scan::new(view.root, rest.start..view.end, Direction::Forward);
            while found.len() < max {
                match scan.step(&layers) {
                    ScanStep::Need(need) => {
                        scan.supply(self.0.shared.node(self.0.id, &need).await?)?;
                    }
                    ScanStep::Entry(key, value) if takes(key, &value) => found.push((key, value)),
                    ScanStep::Entry(..) => {}
                    ScanStep::Done => break,
                }
            }
            rest.start = view.end;
        }
        Ok(found)
    }
}
