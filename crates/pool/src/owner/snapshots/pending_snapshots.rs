//! Pending snapshots: requested, and not all of their records are written.
//!
//! **Owns** their names, their datasets, and the requests that wait for them. **Called by** the operations on snapshots and
//! volumes. **Invariants**: a dataset has one at most; the snapshots of one request are taken together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use io::sync::oneshot;

use crate::Result;
use crate::dataset::OpenDataset;
use crate::format::TreeId;
use crate::journal::Ticket;

/// The result of a request: the snapshots, and the batch that must be durable first.
pub(in crate::owner) type Taken = Result<(Vec<Arc<OpenDataset>>, Ticket)>;

/// Requested snapshots of one name.
pub(in crate::owner) struct PendingSnapshot {
    pub(in crate::owner) name: String,
    /// The datasets, in the order of the snapshots in the result.
    pub(in crate::owner) of: Vec<Arc<OpenDataset>>,
    /// Those of the datasets whose records are not all written.
    unwritten: BTreeSet<TreeId>,
    pub(in crate::owner) done: oneshot::Sender<Taken>,
}

/// The pending snapshots.
#[derive(Default)]
pub(in crate::owner) struct PendingSnapshots {
    /// Numbers of requests, by dataset.
    by_dataset: BTreeMap<TreeId, u64>,
    requests: BTreeMap<u64, PendingSnapshot>,
    /// Number of the next request.
    next: u64,
}

impl PendingSnapshots {
    /// Whether a dataset has one.
    pub(in crate::owner) fn has(&self, dataset: TreeId) -> bool {
        self.by_dataset.contains_key(&dataset)
    }

    /// Whether a dataset has one of this name.
    pub(super) fn is_named(&self, dataset: TreeId, name: &str) -> bool {
        let request = self.by_dataset.get(&dataset);
        let request = request.and_then(|number| self.requests.get(number));
        request.is_some_and(|request| request.name == name)
    }

    /// Adds the snapshots of a request.
    pub(in crate::owner) fn add(
        &mut self,
        name: String,
        of: Vec<Arc<OpenDataset>>,
        done: oneshot::Sender<Taken>,
    ) {
        let number = self.next;
        self.next += 1;
        let unwritten: BTreeSet<TreeId> = of.iter().map(|dataset| dataset.id).collect();
        self.by_dataset
            .extend(unwritten.iter().map(|id| (*id, number)));
        let request = PendingSnapshot {
            name,
            of,
            unwritten,
            done,
        };
        self.requests.insert(number, request);
    }

    /// All records of a dataset's snapshot are written. Takes the request if that holds for all of its datasets.
    pub(in crate::owner) fn written(&mut self, dataset: TreeId) -> Option<PendingSnapshot> {
        let number = *self.by_dataset.get(&dataset)?;
        let request = self.requests.get_mut(&number)?;
        request.unwritten.remove(&dataset);
        if !request.unwritten.is_empty() {
            return None;
        }
        let request = self.requests.remove(&number)?;
        for dataset in &request.of {
            self.by_dataset.remove(&dataset.id);
        }
        Some(request)
    }
}
