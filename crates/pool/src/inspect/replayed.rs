//! Blocks of the journal that no checkpoint has.
//!
//! **Owns** the distinction between blocks in use and blocks that the journal itself gave up, whose space may have been
//! reused. A block is given up if a change of the same layer replaces it. A snapshot, a rollback or a destroyed volume keeps
//! its blocks until the next checkpoint. **Called by** verification. **Invariant**: layers are distinguished as the format
//! demands, so that only the order of records matters.

use std::collections::BTreeMap;

use super::disks::Image;
use super::journal::SeenJournal;
use crate::format::{Block, BlockPtr, Key, Record, TreeId};

/// A block that a journal record points to.
#[derive(Debug, Clone)]
pub(super) struct Put {
    pub(super) tree: TreeId,
    pub(super) key: Key,
    pub(super) block: Block,
    /// Whether its batch is known to have been flushed. If not, a power cut may have left it on one disk only.
    pub(super) durable: bool,
}

/// All such blocks.
#[derive(Default)]
pub(super) struct Replayed {
    /// The blocks of the newest layer of each tree.
    top: BTreeMap<(TreeId, Key), (Block, bool)>,
    /// Blocks of frozen layers.
    frozen: Vec<Put>,
    /// Blocks that were replaced within their layer.
    pub(super) given_up: Vec<BlockPtr>,
}

/// First byte of a state record that is a rollback.
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
            Record::PutFresh(tree, key, block) => {
                let old = self.top.insert((*tree, *key), (block.clone(), durable));
                self.given_up.extend(old.map(|(block, _)| *block.ptr()));
            }
            Record::Put(tree, key, _) | Record::Delete(tree, key) => {
                let old = self.top.remove(&(*tree, *key));
                self.given_up.extend(old.map(|(block, _)| *block.ptr()));
            }
            Record::DeleteRange(tree, keys) => {
                let range = (*tree, keys.start)..(*tree, keys.end);
                let gone = self.top.extract_if(range, |_, _| true);
                self.given_up
                    .extend(gone.map(|(_, (block, _))| *block.ptr()));
            }
            // the block before stays until the record gets another one
            Record::PutContents(..) => {}
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

    /// The blocks in use.
    pub(super) fn held(&self) -> impl Iterator<Item = Put> + '_ {
        let top = self
            .top
            .iter()
            .map(|(key, value)| put((*key, value.clone())));
        self.frozen.iter().cloned().chain(top)
    }
}

fn put(((tree, key), (block, durable)): ((TreeId, Key), (Block, bool))) -> Put {
    Put {
        tree,
        key,
        block,
        durable,
    }
}
