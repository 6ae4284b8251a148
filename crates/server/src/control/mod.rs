//! The control plane: the control API over a Unix socket, on the thread of the process's tokio runtime.
//!
//! **Owns** the socket and the HTTP side of [`crate::api`]. **Called by** [`crate::process`]. **Invariants**: the
//! data path is not involved: the target answers requests about connections, and all other requests run on the
//! server's shard through [`Handle`]; only the socket's owner may connect (mode 0600).

mod description;
pub(crate) mod route;
mod routes;
mod socket;

pub use routes::openapi;
pub(crate) use routes::router;
pub(crate) use socket::ControlSocket;

use crate::api::{Session, SessionSummary, Stages, Status, Writes};
use crate::server::Handle;
use crate::wear::Monitor;
use crate::{Error, Result};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// State of the process that the server's shard does not have.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) config: PathBuf,
    pub(crate) control: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) fd_limit: u64,
    pub(crate) connections_max: usize,
    pub(crate) warnings: Vec<String>,
}

/// Answers requests and forwards changes. Clones are the same.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) server: Handle,
    pub(crate) facts: Arc<Facts>,
    pub(crate) wear: Monitor,
}

impl Control {
    /// The complete status. Errors: `Unavailable`.
    pub(crate) async fn status(&self) -> Result<Status> {
        let view = self
            .server
            .call(|server| async move { server.view().await })
            .await?;
        let sessions = self.sessions();
        let mut exports = view.exports;
        for protocol in self.server.protocols().all() {
            protocol.count_sessions(&sessions, &mut exports);
        }
        let facts = &self.facts;
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: view.state,
            pid: std::process::id(),
            uptime_s: view.uptime_s,
            config: facts.config.clone(),
            control: facts.control.clone(),
            state_dir: facts.state_dir.clone(),
            listen: view.listen,
            metrics: facts.metrics,
            fd_limit: facts.fd_limit,
            connections_max: facts.connections_max,
            sessions: sessions.len(),
            shards: view.shards,
            disks: view.disks,
            pools: view.pools,
            volumes: view.volumes,
            filesystems: view.filesystems,
            exports,
            warnings: facts
                .warnings
                .iter()
                .cloned()
                .chain(view.warnings)
                .collect(),
        })
    }

    /// Written bytes of pools, and the wear of their disks from readings that are at most `age` old. Errors: `Unavailable`.
    pub(crate) async fn writes(&self, age: Duration) -> Result<Writes> {
        let (mut writes, config) = self.server.call(|s| async move { s.writes() }).await?;
        self.wear.fill(&mut writes, &config, age).await;
        Ok(writes)
    }

    /// Every session in full.
    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.server.protocols().sessions()
    }

    /// Every session in one line.
    pub(crate) fn summaries(&self) -> Vec<SessionSummary> {
        self.sessions().into_iter().map(|s| s.summary).collect()
    }

    /// One session. Errors: `NoSession`.
    pub(crate) fn session(&self, id: u32) -> Result<Session> {
        self.sessions()
            .into_iter()
            .find(|s| s.summary.id == id)
            .ok_or(Error::NoSession(id))
    }

    /// The time of requests by stage, of every export.
    pub(crate) fn stages(&self) -> Stages {
        let now = io::time::now();
        let protocols = self.server.protocols();
        Stages {
            at_ms: now.as_nanos() / 1_000_000,
            exports: protocols.all().flat_map(|p| p.stages(now)).collect(),
        }
    }

    /// Ends one session. Errors: `NoSession`.
    pub(crate) fn end_session(&self, id: u32) -> Result<()> {
        let mut protocols = self.server.protocols().all();
        let ended = protocols.any(|p| p.end_session(id));
        ended.then_some(()).ok_or(Error::NoSession(id))
    }
}
