//! iSCSI portal: targets, sessions and connections on top of SCSI devices.
//!
//! **Owns** everything between an accepted TCP stream, or a connection request over RDMA, and [`scsi::Device`]. **Called by** the server,
//! which configures it through [`Target`] and hands it every connection with [`Target::serve`] or [`Target::serve_rdma`] on the shard that
//! owns it.
//! **Invariants**: connections share nothing on the data path but a session's window; control calls are short and
//! synchronous; an initiator costs bounded memory, and nothing that it sends slows other initiators down.
//!
//! A module uses modules of its own row and of the rows above it:
//!
//! | module | owns |
//! |---|---|
//! | [`config`], [`counters`], `window` | settings, totals, CmdSN |
//! | `entry`, [`session`], `throttle`, `shared` | a target, a session, wrong secrets, their registers |
//! | `incoming`, `framing`, `transport` | the PDUs of one connection in both directions, StatSN, its end |
//! | `retained`, `text_exchange`, `member` | a connection's part in its session: responses, pings, text, logout |
//! | `early`, `full_feature`, `discovery` | full feature phase of a normal and of a discovery session |
//! | `gate`, `connection` | logins, the phases of a connection, its turns, receiving, deadlines |

pub mod config;
mod connection;
pub mod counters;
mod discovery;
mod early;
mod entry;
mod framing;
mod full_feature;
mod gate;
mod incoming;
mod member;
mod retained;
pub mod session;
mod shared;
mod text_exchange;
mod throttle;
mod transport;
mod window;

pub use ::session::latency::{CommandKind, CommandLatency};
pub use config::{
    Acl, Authentication, Config, IscsiTransport, Portal, Redirect, TargetConfig, TargetError,
};
pub use counters::{CloseReason, ConnectionState, Counters};
pub use session::{ConnectionInfo, SessionInfo};

use crate::wire::IscsiName;
use ::session::refused::{RefusalTotals, Refusals, RefusedHost};
use ::session::stages::StageCounters;
use entry::TargetEntry;
use shared::PortalShared;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Result of a control call.
pub type Result<T> = std::result::Result<T, TargetError>;

/// The iSCSI service of a process. Clones share it; control calls may be made on any thread.
#[derive(Clone)]
pub struct Target(Arc<PortalShared>);

impl Target {
    /// A service without targets.
    #[must_use]
    pub fn new(config: Config) -> Target {
        Target(Arc::new(PortalShared::new(config)))
    }

    /// Serves one connection until it ends. Call it on the shard that owns the connection.
    pub async fn serve(&self, stream: io::net::TcpStream) {
        connection::serve(self.0.clone(), stream).await;
    }

    /// Answers one connection request over RDMA (iSER), and serves the connection until it ends. Call it on the shard that owns the
    /// connection.
    pub async fn serve_rdma(&self, incoming: io::rdma::Incoming) {
        connection::serve_rdma(self.0.clone(), incoming).await;
    }

    /// Adds a target. Errors: `TargetExists`.
    pub fn add_target(&self, config: TargetConfig) -> Result<()> {
        self.0.add_target(config)
    }

    /// Removes a target; its initiators are told and disconnected. Errors: `NoTarget`.
    pub fn remove_target(&self, name: &IscsiName) -> Result<()> {
        let entry = self.0.remove_target(name)?;
        for s in self.0.sessions_of(&entry) {
            s.connections.close(CloseReason::Administrator);
        }
        Ok(())
    }

    /// Changes the access list and the authentication of a target. Initiators that are no longer allowed, and initiators
    /// without a proof where one is required now, are disconnected. Other sessions stay. A login under way is decided by the
    /// rules that hold when it ends. Errors: `NoTarget`.
    pub fn set_access(
        &self,
        name: &IscsiName,
        acl: Acl,
        authentication: Authentication,
    ) -> Result<()> {
        let entry = self.find(name)?;
        entry.set_access(acl, authentication);
        self.0.lists_changed();
        for s in self.0.sessions_of(&entry) {
            if !entry.keeps(&s.initiator, s.authenticated) {
                s.connections.close(CloseReason::Administrator);
            }
        }
        Ok(())
    }

    /// Redirects new logins to another address; `None` ends the redirection. Sessions stay. Errors: `NoTarget`.
    pub fn set_redirect(&self, name: &IscsiName, redirect: Option<Redirect>) -> Result<()> {
        self.find(name)?.set_redirect(redirect);
        Ok(())
    }

    /// Holds logins: initiators are told to try again later, because logical units of the target are missing. `false` ends
    /// it. Sessions that exist stay. Errors: `NoTarget`.
    pub fn hold_logins(&self, name: &IscsiName, hold: bool) -> Result<()> {
        self.find(name)?.set_held(hold);
        Ok(())
    }

    /// The names of all targets, and the time of their commands by stage since they were added.
    #[must_use]
    pub fn stages(&self) -> Vec<(IscsiName, Arc<StageCounters>)> {
        self.0.stages()
    }

    fn find(&self, name: &IscsiName) -> Result<Arc<TargetEntry>> {
        self.0
            .entry(name)
            .ok_or_else(|| TargetError::NoTarget(name.clone()))
    }

    /// Sets the addresses and the tags of the portal groups.
    pub fn set_portals(&self, portals: Vec<Portal>) {
        self.0.set_portals(portals);
    }

    /// Sets the addresses that discovery over TCP names instead of a portal group's own; a group without such an address names its
    /// own.
    pub fn set_advertised(&self, advertised: Vec<(SocketAddr, u16)>) {
        self.0.set_advertised(advertised);
    }

    /// Sets the authentication of discovery sessions; the default is none. Discovery sessions without that proof end.
    pub fn set_discovery(&self, authentication: Authentication) {
        for s in self.0.set_discovery(authentication) {
            s.connections.close(CloseReason::Administrator);
        }
    }

    /// Ends a session; its initiator is told. Errors: `NoSession`.
    pub fn disconnect(&self, tsih: u16) -> Result<()> {
        let session = self.0.session(tsih).ok_or(TargetError::NoSession(tsih))?;
        session.connections.close(CloseReason::Administrator);
        Ok(())
    }

    /// The hosts that access lists refused, the newest first, and the number of refusals since the start.
    #[must_use]
    pub fn refused(&self) -> (Vec<(RefusedHost, Refusals)>, RefusalTotals) {
        let refused = &self.0.connections.refused;
        (refused.list(), refused.totals())
    }

    /// Totals since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.0.counters.snapshot(&self.0.connections.counters)
    }

    /// Longest silence of an initiator: the NOP-In interval and the time for its answer. Zero means without limit.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let config = &self.0.config;
        match config.nop_interval {
            Duration::ZERO => Duration::ZERO,
            asked => asked + config.nop_timeout,
        }
    }

    /// Every session, as it is now. The kernel's numbers of a connection are those of its last publication; this call
    /// requests the next one.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.0.sessions().iter().map(|s| s.info()).collect()
    }

    /// Takes no new connections, asks every initiator to log out, finishes the commands in flight, and closes all
    /// connections; after `limit` they are closed at once. The caller flushes the disks. Call it on a runtime.
    pub async fn drain(&self, limit: Duration) {
        self.0.connections.drain(limit).await;
    }
}
