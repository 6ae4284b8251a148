//! The NFS service: exports, clients and connections.
//!
//! **Owns** [`Service`]. **Called by** the server, which configures it and hands it every accepted connection on the shard that
//! owns it. **Invariants**: control calls are short and synchronous.

pub use crate::shared::config::{Delegations, ServiceConfig};
pub use crate::shared::counters::{CloseReason, ConnectionState, Counters};
pub use crate::v3::Mount;

use crate::connection;
use crate::export::{ExportConfig, ExportError};
use crate::guard::GuardedFiles;
use crate::rpcbind::Registry;
use crate::shared::Shared;
use backend::file::FileBackend;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The NFS service of a process. Clones share it; control calls may be made on any thread with a runtime.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

impl Service {
    /// A service without exports. Must be called in a runtime.
    #[must_use]
    pub fn new(config: ServiceConfig) -> Self {
        Self(Arc::new(Shared::new(config)))
    }

    /// Serves one connection until it ends. Call it on the shard that owns the connection.
    pub async fn serve(&self, stream: io::net::TcpStream) {
        connection::serve(self.0.clone(), stream).await;
    }

    /// The same files for users that are no clients of this service: FUSE mounts, SMB. Their operations recall delegations that are
    /// in the way, and wait until these are returned or revoked.
    #[must_use]
    pub fn guarded(&self, files: Arc<dyn FileBackend>) -> Arc<dyn FileBackend> {
        Arc::new(GuardedFiles::new(files, self.0.clone()))
    }

    /// Adds an export. Errors: `PathExists`, `NumberExists`, `InvalidPath`, `TooMany`.
    pub fn add_export(&self, export: ExportConfig) -> Result<(), ExportError> {
        self.0.change_exports(|all| {
            all.push((export, io::rng::u64().to_be_bytes()));
            Ok(())
        })
    }

    /// Removes an export: its handles become stale. Errors: `NoExport`.
    pub fn remove_export(&self, path: &str) -> Result<(), ExportError> {
        self.0.change_exports(|all| {
            let before = all.len();
            all.retain(|(export, _)| export.path != path);
            match all.len() < before {
                true => Ok(()),
                false => Err(ExportError::NoExport(path.into())),
            }
        })
    }

    /// Replaces the rules of an export; clients keep their state. Errors: `NoExport`.
    pub fn set_rules(
        &self,
        path: &str,
        rules: Vec<crate::export::Rule>,
    ) -> Result<(), ExportError> {
        self.0.change_exports(|all| {
            let export = all.iter_mut().find(|(export, _)| export.path == path);
            let (export, _) = export.ok_or_else(|| ExportError::NoExport(path.into()))?;
            export.rules = rules;
            Ok(())
        })
    }

    /// Owners of the clients that have state, to be kept for [`ServiceConfig::reclaimers`].
    #[must_use]
    pub fn client_owners(&self) -> Vec<Vec<u8>> {
        self.0.clients().owners()
    }

    /// Numbers of client records, sessions and slots, and of opens and lock states.
    #[must_use]
    pub fn state_counts(&self) -> (usize, usize, usize, usize) {
        let (clients, sessions, slots) = self.0.clients().counts();
        (clients, sessions, slots, self.0.states().len())
    }

    /// Mounts of version 3, as hosts asked for them and did not end them, oldest first.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        self.0.mounts().all().to_vec()
    }

    /// Counters of operations.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.0.counters.snapshot()
    }

    /// Removes clients whose courtesy is over. Call it now and then.
    pub fn sweep(&self) {
        let removed = self.0.clients().sweep(io::time::now());
        self.0.forget(&removed);
    }

    /// Registers NFS and MOUNT with the rpcbind that listens at `socket` ([`crate::rpcbind::SOCKET`]), for clients that ask it for
    /// ports. A failure is a line in the log. Returns the number of entries that are there. Call it once, when the listeners are bound.
    pub async fn register(&self, socket: &Path, listeners: &[SocketAddr]) -> usize {
        let registry = Registry::register(socket, listeners).await;
        let count = registry.len();
        *self.0.registry() = registry;
        count
    }

    /// Removes the entries of [`Service::register`]. Call it when the listeners are closed. Returns their number.
    pub async fn unregister(&self) -> usize {
        let registry = std::mem::take(&mut *self.0.registry());
        registry.unregister().await
    }

    /// Refuses new connections and waits until the open ones have ended; closes the rest after `limit`.
    pub async fn drain(&self, limit: Duration) {
        self.0.connections.drain(limit).await;
    }
}
