//! Pending snapshots: requested, and not all of their records are written.
//!
//! **Owns** their names, and the requests that wait for them. **Called by** the operations on snapshots and volumes.
//! **Invariant**: a volume has one at most.

use std::collections::BTreeMap;
use std::sync::Arc;

use io::sync::oneshot;

use crate::Result;
use crate::dataset::OpenDataset;
use crate::format::TreeId;
use crate::journal::Ticket;

/// Answers a request for a snapshot.
type SnapshotRequest = oneshot::Sender<Result<(Arc<OpenDataset>, Ticket)>>;

/// A requested snapshot whose records are not all written.
pub(super) struct PendingSnapshot {
    pub(super) name: String,
    pub(super) done: SnapshotRequest,
}

/// The pending snapshots, by volume: one for each at most.
#[derive(Default)]
pub(super) struct PendingSnapshots(BTreeMap<TreeId, PendingSnapshot>);

impl PendingSnapshots {
    /// Whether a volume has one.
    pub(super) fn has(&self, volume: TreeId) -> bool {
        self.0.contains_key(&volume)
    }

    /// Whether a volume has one of this name.
    pub(super) fn is_named(&self, volume: TreeId, name: &str) -> bool {
        self.0.get(&volume).is_some_and(|p| p.name == name)
    }

    /// Adds one.
    pub(super) fn add(&mut self, volume: TreeId, name: String, done: SnapshotRequest) {
        self.0.insert(volume, PendingSnapshot { name, done });
    }

    /// Takes the one of a volume.
    pub(super) fn take(&mut self, volume: TreeId) -> Option<PendingSnapshot> {
        self.0.remove(&volume)
    }
}
