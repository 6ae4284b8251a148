//! Used space of a snapshot: the bytes that are free once it alone is destroyed.
//!
//! They are the blocks of its deadlist that were born after the snapshot before it. A list knows only its sum, so its blocks are
//! read for the answer.
//!
//! **Called by** lists of snapshots. **Invariants**: as of the last checkpoint; reads are bounded by the caller; nothing is changed.

use crate::format::{BlockPtr, ListId, PrevSnapshot};
use crate::owner::destroy::deadlists::{Fate, ListScan, pointers};
use crate::owner::{Pool, State};
use crate::tree::{Layer, Root};
use crate::{Error, Result, Volume};

/// Chunks of a list that are read between two yields to other tasks.
const STEP_CHUNKS: usize = 16;
/// Attempts at a list that checkpoints change meanwhile.
const ATTEMPTS_MAX: usize = 3;

/// The bytes that the destruction of a snapshot frees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotUse {
    /// These bytes.
    Exact(u64),
    /// These bytes at most: its list has more blocks than were to be read.
    AtMost(u64),
}

impl State {
    fn list_of(&self, snapshot: &Volume) -> Option<(Root, ListId, PrevSnapshot)> {
        let known = self.datasets.contains(snapshot.0.id);
        let dataset = snapshot.dataset();
        let is_snapshot = known && dataset.of.is_some();
        is_snapshot.then(|| (self.deadlists.root(), dataset.list, self.prev_of(&dataset)))
    }
}

impl Pool {
    /// The space of a snapshot as of the last checkpoint. At most `blocks` blocks are read, and taken from that number.
    ///
    /// # Errors
    /// [`Error::NotFound`] if it was destroyed, [`Error::Corrupt`] and [`Error::Invalid`] for damage, [`Error::Device`].
    pub async fn snapshot_use(&self, snapshot: &Volume, blocks: &mut usize) -> Result<SnapshotUse> {
        let mut attempts = 0;
        loop {
            let found = self.owner.state.borrow().list_of(snapshot);
            let Some((root, list, prev)) = found else {
                return Err(Error::NotFound);
            };
            let all = self.owner.state.borrow().deadlists.bytes(list);
            if all == 0 {
                return Ok(SnapshotUse::Exact(0));
            }
            if *blocks == 0 {
                return Ok(SnapshotUse::AtMost(all));
            }
            match self.alone(root, list, prev, blocks).await {
                Ok(Some(bytes)) => return Ok(SnapshotUse::Exact(bytes.min(all))),
                Ok(None) => return Ok(SnapshotUse::AtMost(all)),
                Err(e) => {
                    attempts += 1;
                    // Checkpoints may have reused the nodes of an old root.
                    let is_old = self.owner.state.borrow().deadlists.root() != root;
                    if !is_old || attempts == ATTEMPTS_MAX {
                        return Err(e);
                    }
                }
            }
        }
    }

    /// Bytes of the blocks on a list that the dataset before does not hold; `None` if there are more than `blocks`.
    async fn alone(
        &self,
        root: Root,
        list: ListId,
        prev: PrevSnapshot,
        blocks: &mut usize,
    ) -> Result<Option<u64>> {
        let space = self.vdevs().block_space();
        let is_alone = |ptr: &&BlockPtr| Fate::of(prev, ptr.birth) == Fate::Free;
        let none = Layer::new();
        let mut scan = ListScan::new(root, list);
        let (mut bytes, mut chunks) = (0, 0);
        while let Some((_, value)) = scan.next(&self.owner.shared, &none).await? {
            let ptrs = pointers(&value).map_err(Error::Invalid)?;
            let Some(rest) = blocks.checked_sub(ptrs.len()) else {
                return Ok(None);
            };
            *blocks = rest;
            let alone = ptrs.iter().filter(is_alone);
            bytes += alone.map(|ptr| space.of_block(ptr)).sum::<u64>();
            chunks += 1;
            if chunks % STEP_CHUNKS == 0 {
                io::yield_now().await;
            }
        }
        Ok(Some(bytes))
    }
}
