//! View of the bytes that pools wrote.
//!
//! **Called by** the control API and the metrics. **Invariants**: read-only; health and forecasts of disks are filled in by
//! [`crate::wear`].

use super::entry::{PoolState, full_name};
use super::names::by_hierarchy;
use crate::api::{self, DatasetWrites, DiskWrites, JournalUse, PoolWrites};
use crate::config::WearConfig;
use crate::server::Server;
use pool::Pool;

impl Server {
    /// Bytes that the open pools wrote, and the rated endurance of disks.
    pub(crate) fn writes(&self) -> (api::Writes, WearConfig) {
        let state = self.state.borrow();
        let config = state.file.config();
        let pools = config.pools.iter().filter_map(|p| {
            let entry = state.pools.get(&p.name)?;
            match &entry.state {
                PoolState::Online(pool) => Some(writes_of(&p.name, pool)),
                PoolState::Opening | PoolState::Held(_) => None,
            }
        });
        let writes = api::Writes {
            at_ms: io::time::now().as_nanos() / 1_000_000,
            pools: pools.collect(),
        };
        (writes, config.wear.clone())
    }
}

fn writes_of(name: &str, pool: &Pool) -> PoolWrites {
    let writes = pool.writes();
    let vdevs = pool.vdevs();
    let status = vdevs.status();
    let members = status.iter().flat_map(|v| &v.members);
    let present = members.filter(|s| !s.path.as_os_str().is_empty());
    let disks = present.map(|s| DiskWrites {
        guid: format!("{:016x}", s.guid.0),
        path: s.path.clone(),
        written: s.counters.written.into(),
        ..DiskWrites::default()
    });
    let datasets = writes.datasets.iter();
    let mut datasets: Vec<DatasetWrites> = datasets
        .map(|(dataset, w)| DatasetWrites {
            name: full_name(name, dataset),
            client: w.client,
            data: w.data,
            journal: w.journal,
            nodes: w.nodes,
        })
        .collect();
    datasets.sort_by(|a, b| by_hierarchy(&a.name, &b.name));
    PoolWrites {
        name: name.to_owned(),
        guid: format!("{:016x}", vdevs.pool().0),
        written: writes.all.into(),
        client: datasets.iter().map(|d| d.client).sum(),
        journal: JournalUse {
            used: writes.journal_used,
            size: writes.journal_size,
            full: writes.journal_full,
            checkpoint_ms: writes.checkpointed / 1_000_000,
        },
        datasets,
        disks: disks.collect(),
    }
}
