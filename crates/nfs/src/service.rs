//! The NFS service: exports, clients and connections.
//!
//! **Owns** [`Service`]. **Called by** the server, which configures it and hands it every accepted connection on the shard that
//! owns it. **Invariants**: control calls are short and synchronous.

pub use crate::client::{ClientInfo, ConnectionInfo};
pub use crate::shared::config::{Delegations, ServiceConfig};
pub use crate::shared::counters::{CloseReason, ConnectionState, Counters, Refusal};
pub use crate::shared::records::{ClientStore, NoClientStore};
pub use crate::transport::NfsTransport;
pub use crate::v3::{HostInfo, Mount};

use crate::connection;
use crate::export::{ExportConfig, ExportError};
use crate::guard::GuardedFiles;
use crate::rpcbind::Registry;
use crate::shared::Shared;
use backend::file::FileBackend;
use session::refused::{RefusalTotals, Refusals, RefusedHost};
use session::stages::StageCounters;
use std::net::{IpAddr, SocketAddr};
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

    /// Answers one connection request for RPC-over-RDMA, and serves the connection until it ends. Call it on the shard that owns the
    /// connection.
    pub async fn serve_rdma(&self, incoming: io::rdma::Incoming) {
        connection::serve_rdma(self.0.clone(), incoming).await;
    }

    /// The same files for users that are no clients of this service: FUSE mounts, SMB. Their operations recall delegations that are
    /// in the way, and wait until these are returned or revoked.
    #[must_use]
    pub fn guarded(&self, files: Arc<dyn FileBackend>) -> Arc<dyn FileBackend> {
        Arc::new(GuardedFiles::new(files, self.0.clone()))
    }

    /// Replaces what TLS handshakes need (RFC 9289); `None`, as at the begin: there is no TLS. Connections keep what they agreed on.
    /// The acceptor is one for [`crate::rpc::ALPN`].
    pub fn set_tls(&self, tls: Option<tls::Acceptor>) {
        self.0.set_tls(tls);
    }

    /// Adds an export. Errors: `PathExists`, `NumberExists`, `InvalidPath`, `TooMany`.
    pub fn add_export(&self, export: ExportConfig) -> Result<(), ExportError> {
        let files = export.files.clone();
        self.0.change_exports(|all| {
            all.push((export, io::rng::u64().to_be_bytes()));
            Ok(())
        })?;
        self.0.restore_files(&files);
        Ok(())
    }

    /// Recalls the delegations of an export, and waits until they are returned or revoked. It gets no others until it is added again:
    /// call it before [`Service::remove_export`], if the files are about to change.
    pub async fn recall_export(&self, path: &str) {
        let tree = self.0.tree();
        let export = tree.exports().find(|export| export.config.path == path);
        if let Some(export) = export {
            self.0.recall_files(export.files().root().filesystem).await;
        }
    }

    /// Removes an export: its handles become stale. Opens, locks and delegations of its files go on if the same file system is exported
    /// again within a lease; else they are revoked by [`Service::sweep`], and their clients are told. Errors: `NoExport`.
    pub fn remove_export(&self, path: &str) -> Result<(), ExportError> {
        let mut gone = None;
        self.0.change_exports(|all| {
            let found = all.iter().position(|(export, _)| export.path == path);
            let found = found.ok_or_else(|| ExportError::NoExport(path.into()))?;
            gone = Some(all.remove(found).0.files.root().filesystem);
            Ok(())
        })?;
        if let Some(filesystem) = gone {
            self.0.withdraw_files(filesystem);
        }
        Ok(())
    }

    /// Replaces the rules of an export. Clients keep their state. A client that no rule admits any more loses it. Errors: `NoExport`.
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
        })?;
        self.0.end_denied(path);
        Ok(())
    }

    /// The paths of the exports that a host may use, in the order of the exports.
    #[must_use]
    pub fn exports_for(&self, host: IpAddr) -> Vec<String> {
        let tree = self.0.tree();
        let allowed = tree.exports().filter(|export| export.rule(host).is_some());
        allowed.map(|export| export.config.path.clone()).collect()
    }

    /// The time of requests by stage since the start, of all exports together.
    #[must_use]
    pub fn stages(&self) -> Arc<StageCounters> {
        self.0.stages.clone()
    }

    /// Numbers of client records, sessions and slots, and of opens and lock states.
    #[must_use]
    pub fn state_counts(&self) -> (usize, usize, usize, usize) {
        let (clients, sessions, slots) = self.0.clients().counts();
        (clients, sessions, slots, self.0.states.len())
    }

    /// Mounts of version 3, as hosts asked for them and did not end them, oldest first.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        self.0.mounts().all().to_vec()
    }

    /// Hosts that use version 3, by address.
    #[must_use]
    pub fn hosts(&self) -> Vec<HostInfo> {
        self.0.hosts().infos(io::time::now())
    }

    /// Number of delegations that clients hold.
    #[must_use]
    pub fn delegations(&self) -> usize {
        self.0.states.delegations()
    }

    /// Time for which a client keeps its state without a renewal.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.0.config.lease
    }

    /// The clients with a confirmed record, by ID.
    #[must_use]
    pub fn clients(&self) -> Vec<ClientInfo> {
        self.0.client_infos()
    }

    /// Ends a client: its sessions, opens and locks go, and its connections are closed. A client that is still there comes back
    /// with nothing. Returns whether there was one.
    pub fn end_client(&self, id: u64) -> bool {
        let is_ended = self.0.end(id);
        self.0.wake_lockers();
        is_ended
    }

    /// The hosts that rules of exports refused, the newest first, and the number of refusals since the start.
    #[must_use]
    pub fn refused(&self) -> (Vec<(RefusedHost, Refusals)>, RefusalTotals) {
        let refused = &self.0.connections.refused;
        (refused.list(), refused.totals())
    }

    /// Counters of connections and operations.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let connections = self.0.connections.counters.snapshot();
        self.0.counters.snapshot(connections)
    }

    /// Removes clients whose courtesy is over, and stores changed records of clients. Call it now and then.
    pub async fn sweep(&self) {
        let removed = self.0.clients().sweep(io::time::now());
        self.0.forget(&removed);
        self.0.revoke_withdrawn();
        self.0.wake_lockers();
        // A failure is logged, and the next call or the next client tries again.
        let _ = self.0.store_records().await;
    }

    /// Registers NFS and MOUNT with the rpcbind that listens at `socket` ([`crate::rpcbind::SOCKET`]), for clients that ask it for
    /// ports. A failure is a line in the log. Returns the number of entries that are there. Call it once, when the listeners are bound.
    pub async fn register(&self, socket: &Path, listeners: &[(SocketAddr, NfsTransport)]) -> usize {
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
        // A failure is logged; the clients have the grace period then.
        let _ = self.0.store_records().await;
    }
}
