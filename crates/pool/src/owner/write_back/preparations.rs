//! The state of preparations: a worker compresses and hashes the next records of a dataset.
//!
//! **Owns** that state for each dataset. **Called by** write-back. **Invariant**: a dataset that was forgotten has no preparation.

use std::collections::BTreeMap;

use crate::format::TreeId;

/// State of a dataset's preparation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Preparation {
    /// A worker has the records.
    Running,
    /// The records are prepared, and the group was not taken yet.
    Ended,
}

/// The preparations of all datasets.
#[derive(Debug, Default)]
pub(super) struct Preparations(BTreeMap<TreeId, Preparation>);

impl Preparations {
    /// The preparation of a dataset, if it has one.
    pub(super) fn of(&self, dataset: TreeId) -> Option<Preparation> {
        self.0.get(&dataset).copied()
    }

    pub(super) fn begin(&mut self, dataset: TreeId) {
        self.0.insert(dataset, Preparation::Running);
    }

    /// The records are prepared. A dataset that was destroyed meanwhile has no preparation.
    pub(super) fn end(&mut self, dataset: TreeId) {
        if let Some(preparation) = self.0.get_mut(&dataset) {
            *preparation = Preparation::Ended;
        }
    }

    pub(super) fn forget(&mut self, dataset: TreeId) {
        self.0.remove(&dataset);
    }
}
