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
pub(crate) use routes::{questions, requests, router};
pub(crate) use socket::ControlSocket;

use crate::accounts::Accounts;
use crate::api::{
    AskWhy, ConsoleStatus, RefusedHost, Session, SessionSummary, Stages, Status, StoredReport,
    Writes,
};
use crate::diagnosis::doctor_facts;
use crate::limits::WHY_SECONDS_MAX;
use crate::protocols::rdma::is_over_tcp;
use crate::rates::{self, History};
use crate::server::Handle;
use crate::wear::Monitor;
use crate::why::{self, Why};
use crate::{Error, Result, rdma_ports, reports};
use io::rdma::LockedMemory;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// State of the process that the server's shard does not have.
#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) config: PathBuf,
    pub(crate) control: PathBuf,
    pub(crate) state_dir: PathBuf,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) console: Option<ConsoleStatus>,
    /// Directory of stored reports.
    pub(crate) reports: PathBuf,
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
    pub(crate) accounts: Accounts,
    pub(crate) rates: History,
    /// Permit for one examination by the doctor at a time.
    pub(crate) examining: Arc<Semaphore>,
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
        let locked_memory = io::rdma::locked_memory();
        Ok(Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            state: view.state,
            pid: std::process::id(),
            uptime_s: view.uptime_s,
            config: facts.config.clone(),
            control: facts.control.clone(),
            state_dir: facts.state_dir.clone(),
            listen: view.listen,
            not_listening: view.not_listening,
            metrics: facts.metrics,
            console: facts.console.clone(),
            fd_limit: facts.fd_limit,
            locked_memory: locked_memory.into(),
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
                .chain(too_little(locked_memory))
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

    /// The hosts that access lists refused, the newest first.
    pub(crate) fn refused(&self) -> Vec<RefusedHost> {
        self.server.protocols().refused()
    }

    /// Every session in one line.
    pub(crate) fn summaries(&self) -> Vec<SessionSummary> {
        self.sessions().into_iter().map(|s| s.summary).collect()
    }

    /// One session. The state of the machine's RDMA ports is read for a session over RDMA, and over TCP to a server that listens for RDMA
    /// for the reason. Errors: `NoSession`, `Unavailable`.
    pub(crate) async fn session(&self, id: u32) -> Result<Session> {
        let mut all = self.sessions().into_iter();
        let mut session = all
            .find(|s| s.summary.id == id)
            .ok_or(Error::NoSession(id))?;
        let m = &session.summary;
        let may_have_reason = m.kind == "io"
            && m.not_rdma.is_none()
            && is_over_tcp(m)
            && self.server.protocols().listens_for_rdma(&m.protocol);
        let local = session.queues.first().map(|q| q.local.ip());
        if let Some(local) = local.filter(|_| may_have_reason) {
            let examined = tokio::task::spawn_blocking(move || {
                let ports = doctor::capture::rdma_ports(&doctor::source::Host::this());
                rdma_ports::trouble(local, &ports)
            });
            session.summary.not_rdma = examined.await.ok().flatten();
        }
        if session.queues.iter().any(|q| q.rdma.is_some()) {
            let read = || doctor::capture::rdma_ports(&doctor::source::Host::this());
            if let Ok(ports) = tokio::task::spawn_blocking(read).await {
                for queue in &mut session.queues {
                    let local = queue.local.ip();
                    if let Some(pair) = &mut queue.rdma {
                        pair.port = rdma_ports::behind(&pair.device, local, &ports);
                    }
                }
            }
        }
        Ok(session)
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

    /// Watches the exports, and judges where the time of their requests goes. Errors: `Invalid`, `NoExport`, `Unavailable`.
    pub(crate) async fn why(&self, request: AskWhy) -> Result<Vec<Why>> {
        if !(1..=WHY_SECONDS_MAX).contains(&request.seconds) {
            let message = format!("seconds are 1 to {WHY_SECONDS_MAX}");
            return Err(Error::Invalid(message));
        }
        let before = self.reading().await?;
        if let Some(name) = request.export.as_ref().filter(|e| !before.has_export(e)) {
            let text = format!("no such export {name}");
            return Err(Error::NoExport(text));
        }
        tokio::time::sleep(Duration::from_secs(request.seconds)).await;
        let after = self.reading().await?;
        Ok(why::judge(&before, &after, request.export.as_deref()))
    }

    async fn reading(&self) -> Result<why::Reading> {
        Ok(why::Reading {
            status: self.status().await?,
            sessions: self.summaries(),
            stages: self.stages(),
        })
    }

    /// Adds the present counters to the history of rates. Errors: `Unavailable`.
    pub(crate) async fn note_rates(&self) -> Result<()> {
        let state = self.server.call(|server| async move {
            let shards = server.shards.status().await;
            let pools = server.state.borrow().pools();
            (pools, shards)
        });
        let (pools, shards) = state.await?;
        let protocols = self.server.protocols();
        let traffic = protocols.all().map(|p| p.traffic());
        let traffic = traffic.fold((0, 0), |sum, t| (sum.0 + t.0, sum.1 + t.1));
        let exports = self.stages().exports;
        let reading = rates::Reading::new(&exports, traffic, &pools, &shards);
        self.rates.add(reading);
        Ok(())
    }

    /// The doctor's report of this machine, as far as the server may see it. Errors: `Unavailable`.
    pub(crate) async fn doctor(&self) -> Result<doctor::Report> {
        // The semaphore is never closed.
        let _permit = self.examining.acquire().await.ok();
        let status = self.status().await?;
        let sessions = self.sessions();
        let examined = tokio::task::spawn_blocking(move || {
            let all: Vec<_> = sessions.iter().map(|s| s.summary.clone()).collect();
            let queues = |id| {
                let session = sessions.iter().find(|s| s.summary.id == id);
                Ok(session.map_or_else(Vec::new, |s| s.queues.clone()))
            };
            let now_ms = io::time::wall_clock_ms();
            let server = doctor_facts(&status, &all, now_ms, queues);
            let host = doctor::source::Host::this();
            let facts = doctor::capture::capture(&host, doctor::Known::Value(server));
            doctor::checks::judge(&facts, false)
        });
        examined.await.map_err(|_| Error::Unavailable("ending"))
    }

    /// The stored reports. Errors: `File`.
    pub(crate) async fn reports(&self) -> Result<Vec<StoredReport>> {
        let dir = self.facts.reports.clone();
        let listed = tokio::task::spawn_blocking(move || {
            reports::list(&dir).map_err(|source| Error::File {
                what: "list the reports in",
                path: dir,
                source,
            })
        });
        listed.await.unwrap_or(Err(Error::Unavailable("ending")))
    }

    /// Ends one session. Errors: `NoSession`.
    pub(crate) fn end_session(&self, id: u32) -> Result<()> {
        let mut protocols = self.server.protocols().all();
        let ended = protocols.any(|p| p.end_session(id));
        ended.then_some(()).ok_or(Error::NoSession(id))
    }
}

/// The warning of a server that may lock too little memory for RDMA.
fn too_little(memory: LockedMemory) -> Option<String> {
    let refused = memory.refused;
    (refused > 0).then(|| format!("RDMA: {refused} registrations of memory were refused; {memory}"))
}
