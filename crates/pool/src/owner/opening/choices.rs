//! Checkpoints that a pool can be opened at, and the data that each choice loses.
//!
//! **Owns** the trial of an opening: for each checkpoint it reads the pool's own tree and the root of each dataset,
//! and how far the journal can be applied. **Called by** `pool import -n`. **Invariants**: nothing is written; a
//! choice without an error passed the checks of an opening at it. Records are not read: `pool::inspect` does that.

use std::cell::RefCell;
use std::sync::Arc;

use super::directory::{open_datasets, read_tree};
use crate::format::{BlockPtr, Node, Uberblock};
use crate::journal::{Replayed, salvage};
use crate::owner::Pool;
use crate::owner::destroy::deadlists::DEAD_TREE;
use crate::space::{Space, VdevSpace};
use crate::tree::{self, NodeCache};
use crate::vdev::{Opened, Vdevs};
use crate::{Error, Result};

/// Bytes of memory for nodes that several checkpoints share.
const CACHE_BYTES: usize = 32 << 20;

/// A checkpoint that a pool may be opened at.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The checkpoint.
    pub uberblock: Uberblock,
    /// Why the pool cannot be opened at it; none if it can.
    pub error: Option<Error>,
    /// Batches of the journal that the opening applies.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Durable batches of the journal that are lost. An older checkpoint loses all of them.
    pub lost_batches: u64,
    /// Newer checkpoints that are lost.
    pub lost_checkpoints: u64,
}

impl Choice {
    /// Whether the pool opens at it without loss of durable data.
    #[must_use]
    pub fn loses_nothing(&self) -> bool {
        self.error.is_none() && self.lost_batches == 0 && self.lost_checkpoints == 0
    }
}

/// Reads the blocks that an opening reads, and repairs nothing.
pub(super) struct Trial<'a> {
    vdevs: &'a Vdevs,
    cache: RefCell<NodeCache>,
}

impl<'a> Trial<'a> {
    pub(in crate::owner) fn new(vdevs: &'a Vdevs) -> Self {
        Self {
            vdevs,
            cache: RefCell::new(NodeCache::new(CACHE_BYTES)),
        }
    }

    async fn node(&self, ptr: &BlockPtr) -> Result<Arc<Node>> {
        if let Some(node) = self.cache.borrow_mut().get(ptr) {
            return Ok(node);
        }
        let bytes = self.vdevs.peek(ptr).await?;
        let node = tree::load(ptr, bytes[..ptr.physical_size as usize].to_vec())?;
        self.cache.borrow_mut().insert(ptr, node.clone());
        Ok(node)
    }

    /// Reads the pool's own tree, and the root of each dataset.
    ///
    /// # Errors
    /// Why the pool cannot be opened at this checkpoint.
    pub(in crate::owner) async fn check(&self, uberblock: &Uberblock) -> Result<()> {
        let table: Vec<VdevSpace> = self.vdevs.table().iter().map(VdevSpace::from).collect();
        let mut space = Space::new(&table);
        let load = async |need: &tree::Need| self.node(&need.ptr).await;
        let mut directory = read_tree(load, uberblock, &mut space).await?;
        directory.tell_copies(self.vdevs)?;
        for root in directory.roots.values().filter_map(|found| found.root) {
            self.node(&root).await?;
        }
        let _no_dataset = directory.roots.remove(&DEAD_TREE);
        open_datasets(directory, uberblock.root).map(drop)
    }
}

impl Pool {
    /// The results of opening a pool at each of its newest `most` checkpoints, newest first.
    ///
    /// # Panics
    /// If the devices were not opened for reading only.
    pub async fn choices(opened: &Opened, most: usize) -> Vec<Choice> {
        let vdevs = &opened.vdevs;
        assert!(vdevs.is_read_only(), "a trial writes nothing");
        let trial = Trial::new(vdevs);
        let Some(newest) = opened.checkpoints.first() else {
            return Vec::new();
        };
        let journal = match vdevs.ring_with(newest.journal.position.segment) {
            Some(ring) => salvage(vdevs, &ring, newest.journal).await,
            // the journal has moved since: at least one later checkpoint is lost, and the batches before it
            None => Ok(Replayed::nothing(newest.journal, 1)),
        };
        let (applied, lost) = match &journal {
            Ok(Replayed { batches, lost, .. }) => (batches.len() as u64, *lost),
            Err(_) => (0, 0),
        };
        let bytes = journal.iter().flat_map(|found| &found.batches);
        let bytes = bytes.map(|batch| batch.size as u64).sum();
        let mut choices = Vec::new();
        for (newer, uberblock) in opened.checkpoints.iter().take(most).enumerate() {
            let mut choice = Choice {
                uberblock: *uberblock,
                error: trial.check(uberblock).await.err(),
                batches: 0,
                bytes: 0,
                lost_batches: applied + lost,
                lost_checkpoints: newer as u64,
            };
            if uberblock.sequence == opened.newest {
                (choice.batches, choice.bytes) = (applied, bytes);
                choice.lost_batches = lost;
                let failed = journal.as_ref().err().cloned();
                choice.error = choice.error.or(failed);
            }
            choices.push(choice);
        }
        choices
    }
}
