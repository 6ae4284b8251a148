//! The NFS server of a simulated system: an export of a pool's filesystem.
//!
//! **Owns** [`NfsServer`], the service of one incarnation, and [`ClientFile`], the records of clients that survive it. **Called by** the
//! simulated server. **Invariants**: handles are the same after a restart; a client that had state when the server ended may
//! reclaim it during the grace period.

use super::pooled::PoolPlan;
use backend::file::FileBackend;
use io::spawn;
use io::sync::lock;
use io::time::sleep;
use nfs::export::{ExportConfig, Hosts, Rule, Squash};
use nfs::service::{ClientStore, Service, ServiceConfig};
use pool::Pool;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The path of the export.
pub(super) const PATH: &str = "/sim";
/// Time for which the server keeps the state of a silent client, and the length of the grace period. Longer than a client needs to
/// notice that its connection is dead.
const LEASE: Duration = Duration::from_secs(15);
/// Pause between two removals of old clients.
const SWEEP_EVERY: Duration = Duration::from_secs(5);

/// The server's file of NFS clients with state, which survives crashes.
#[derive(Debug, Default)]
pub(super) struct ClientFile(Mutex<BTreeSet<Vec<u8>>>);

impl ClientFile {
    fn owners(&self) -> MutexGuard<'_, BTreeSet<Vec<u8>>> {
        lock(&self.0)
    }
}

impl ClientStore for ClientFile {
    fn keep(&self, owner: &[u8]) -> std::io::Result<()> {
        self.owners().insert(owner.to_vec());
        Ok(())
    }

    fn forget(&self, owner: &[u8]) -> std::io::Result<()> {
        self.owners().remove(owner);
        Ok(())
    }
}

/// See the module header.
#[derive(Clone)]
pub(super) struct NfsServer {
    pub(super) service: Service,
    files: Arc<dyn FileBackend>,
}

impl NfsServer {
    /// Opens the pool's filesystem, and starts the service, without the export.
    pub(super) async fn open(plan: &PoolPlan, pool: &Pool, clients: Arc<ClientFile>) -> NfsServer {
        let files = plan.filesystem(pool).await;
        drop(spawn(files.clone().free_orphans()));
        let reclaimers: Vec<Vec<u8>> = clients.owners().iter().cloned().collect();
        let service = Service::new(ServiceConfig {
            handle_key: [7; 16],
            server: "sim".into(),
            reclaimers,
            records: clients,
            grace: LEASE,
            lease: LEASE,
            ..ServiceConfig::default()
        });
        let swept = service.clone();
        drop(spawn(async move {
            loop {
                sleep(SWEEP_EVERY).await;
                swept.sweep().await;
            }
        }));
        let files = Arc::new(files);
        NfsServer { service, files }
    }

    /// Adds the export.
    pub(super) fn publish(&self) {
        let config = ExportConfig {
            id: 1,
            path: PATH.into(),
            files: self.files.clone(),
            rules: vec![Rule {
                squash: Squash::None,
                ..Rule::read_write(Hosts::Any)
            }],
        };
        self.service.add_export(config).expect("it is not there");
    }

    /// Removes the export.
    pub(super) fn withdraw(&self) {
        self.service.remove_export(PATH).expect("it is there");
    }
}
