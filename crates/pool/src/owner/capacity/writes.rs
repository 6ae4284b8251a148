//! Bytes written for clients, for datasets, and for the pool itself; and requests of clients.
//!
//! **Called by** the server, for `pool iostat -w`, metrics and advice. **Invariants**: reads counters only; data, journal and nodes
//! of all datasets are at most those of the pool, whose own trees and batch headers are the difference.

use std::collections::BTreeMap;

use crate::accesses::Accesses;
use crate::owner::Pool;
use crate::reuse::ReuseDistances;
use crate::written::{DatasetWrites, WrittenBytes};

/// Bytes written since the pool was opened. A block counts once, however many members have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolWrites {
    /// Everything, without labels.
    pub all: WrittenBytes,
    /// By volume or filesystem, by name. Destroyed ones are only in `all`.
    pub datasets: BTreeMap<String, DatasetWrites>,
    /// Bytes of the journal that replay would read.
    pub journal_used: u64,
    /// Size of the journal, bytes.
    pub journal_size: u64,
    /// Number of times that a change found no room in the journal, and waited for a checkpoint.
    pub journal_full: u64,
    /// Time of the last durable checkpoint, ns since 1970.
    pub checkpointed: u64,
}

impl Pool {
    /// Bytes written since the pool was opened. Bytes by member are in [`crate::vdev::MemberCounters`].
    #[must_use]
    pub fn writes(&self) -> PoolWrites {
        let state = self.owner.state.borrow();
        let of = |dataset: &crate::dataset::OpenDataset| {
            (dataset.dataset().name, dataset.counters.read())
        };
        // the counters of datasets are read first, so that they are not ahead of the pool's
        let datasets = state.datasets.volumes().map(|d| of(d)).collect();
        let (journal_used, journal_size) = state.journal.to_replay();
        PoolWrites {
            journal_used,
            journal_size,
            journal_full: state.checkpointer.journal_full(),
            checkpointed: state.checkpointer.uberblock().time,
            datasets,
            all: self.owner.shared.vdevs.written(),
        }
    }

    /// Requests of clients by volume or filesystem since the pool was opened, by name, with the bytes of a record of the volume or of
    /// a new file.
    #[must_use]
    pub fn accesses(&self) -> BTreeMap<String, (u32, Accesses)> {
        let state = self.owner.state.borrow();
        let open = state.datasets.volumes().map(|open| {
            let dataset = open.dataset();
            let record_size = match dataset.kind.has_files() {
                true => dataset.file_record_size,
                false => dataset.record_size,
            };
            (dataset.name, (record_size, open.accesses.get()))
        });
        open.collect()
    }

    /// Reuse distances of clients' reads since the pool was opened.
    #[must_use]
    pub fn reuse_distances(&self) -> ReuseDistances {
        self.owner.shared.reuse.distances()
    }
}
