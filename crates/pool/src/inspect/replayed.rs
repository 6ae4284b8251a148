//! Blocks that the journal put and no checkpoint has.
//!
//! **Owns** which of them are held and which the journal itself gave up again: these may be in use by others by now. A
//! block is given up if a change of the same layer replaces it; a snapshot, a rollback or a destroyed volume keep what
//! was there until the next checkpoint. **Called by** verification. **Invariant**: layers are told apart as the format
//! says, so that the order of records alone decides.

use std::collections::BTreeMap;

use super::disks::Image;
use super::journal::SeenJournal;
use crate::format::{BlockPtr, Key, Record, TreeId};

/// A block that the journal put.
#[derive(Debug, Clone, Copy)]
pub(super) struct Put {
    pub(super) tree: TreeId,
    pub(super) key: Key,
    pub(super) ptr: BlockPtr,
    /// Whether its batch is known to have been flushed. If not, it may be on one disk only, after a power cut.
    pub(super) durable: bool,
}

/// All of them.
#[derive(Default)]
pub(super) struct Replayed {
    /// The newest layer of each tree.
    top: BTreeMap<(TreeId, Key), (BlockPtr, bool)>,
    /// Held by what is frozen.
    frozen: Vec<Put>,
    /// Replaced within their layer.
    pub(super) given_up: Vec<BlockPtr>,
}

/// The first byte of a change of state that is a rollback.
const ROLLBACK: u8 = 1;

impl Replayed {
    pub(super) async fn read(image: &Image, journal: &SeenJournal) -> Self {
        let mut replayed = Self::default();
        for batch in &journal.batches {
            let durable = batch.header.sequence <= journal.durable;
            for record in image.records(batch).await.into_iter().flatten() {
                replayed.apply(&record, durable);
            }
        }
        replayed
    }

    fn apply(&mut self, record: &Record, durable: bool) {
        match record {
            Record::PutFresh(tree, key, ptr) => {
                let old = self.top.insert((*tree, *key), (*ptr, durable));
                self.given_up.extend(old.map(|(ptr, _)| ptr));
            }
            Record::Put(tree, key, _) | Record::Delete(tree, key) => {
                let old = self.top.remove(&(*tree, *key));
                self.given_up.extend(old.map(|(ptr, _)| ptr));
            }
            Record::DeleteRange(tree, keys) => {
                let range = (*tree, keys.start)..(*tree, keys.end);
                let gone = self.top.extract_if(range, |_, _| true);
                self.given_up.extend(gone.map(|(_, (ptr, _))| ptr));
            }
            Record::Freeze(tree, _) => self.freeze(*tree),
            Record::State(bytes) => {
                if let Some((&ROLLBACK, ids)) = bytes.split_first()
                    && let Some(volume) = ids.first_chunk()
                {
                    self.freeze(TreeId(u64::from_le_bytes(*volume)));
                }
            }
        }
    }

    fn freeze(&mut self, tree: TreeId) {
        let range = (tree, Key::START)..(tree, Key::END);
        let held = self.top.extract_if(range, |_, _| true);
        self.frozen.extend(held.map(put));
    }

    /// Those that are held.
    pub(super) fn held(&self) -> impl Iterator<Item = Put> + '_ {
        let top = self.top.iter().map(|(key, value)| put((*key, *value)));
        self.frozen.iter().copied().chain(top)
    }
}

fn put(((tree, key), (ptr, durable)): ((TreeId, Key), (BlockPtr, bool))) -> Put {
    Put {
        tree,
        key,
        ptr,
        durable,
    }
}
