//! The special class, for people: its space, and the bytes that it had no room for.
//!
//! **Called by** the server, for status and metrics. **Invariant**: reads counters only. `docs/decisions/0185`.

use std::collections::BTreeMap;

use crate::owner::Pool;
use crate::space::SpecialSpace;

/// The special class of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpecialClass {
    /// Its space.
    pub space: SpecialSpace,
    /// Whether it takes small records: the rest of its space is for nodes.
    pub takes_small_records: bool,
    /// Bytes of nodes and small records that went to normal vdevs since the pool was opened because the class had no room, by dataset.
    /// Datasets without such bytes are not in it.
    pub spilled: BTreeMap<String, u64>,
    /// The same of nodes that belong to no dataset.
    pub spilled_of_pool: u64,
}

impl Pool {
    /// The special class. `None` if no vdev is of it.
    #[must_use]
    pub fn special_class(&self) -> Option<SpecialClass> {
        let state = self.owner.state.borrow();
        let allocator = &state.allocator;
        let space = allocator.space().special_space()?;
        let of = |dataset: &std::sync::Arc<crate::dataset::OpenDataset>| {
            (dataset.dataset().name, dataset.counters.read().spilled)
        };
        let spilled = state.datasets.volumes().map(of);
        Some(SpecialClass {
            space,
            takes_small_records: allocator.space().takes_small_records(),
            spilled: spilled.filter(|(_, bytes)| *bytes > 0).collect(),
            spilled_of_pool: allocator.placements().spilled,
        })
    }
}
