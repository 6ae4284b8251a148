//! The NVMe target over TCP and RDMA: subsystems, controllers and queues above block backends.
//!
//! **Owns** everything between an accepted TCP stream or a connection request for RDMA, and [`backend::BlockBackend`]. **Called by** the server, which
//! configures it through [`Target`] and hands it every accepted connection with [`Target::serve`] on the shard that
//! owns it. **Invariants**: connections share nothing on the data path but atomics; control calls are short and
//! synchronous; a host can cause only bounded memory, and no cost for other hosts.
//!
//! | module | owns |
//! |---|---|
//! | [`config`], [`limits`] | configuration and limits |
//! | [`counters`], `latency`, [`status`] | totals and latencies; completions, and storage errors as NVMe status |
//! | `events`, `features`, `reservation` | events, features and reservations, without connections and commands |
//! | `queue_handle`, `namespace`, `subsystem`, `association`, `shared` | the state that connections share |
//! | [`session`], `discovery` | snapshots for users, and the discovery log |
//! | `request`, `command` | a command, parsed once, from its arrival to its reply |
//! | `table`, `pairs`, `event_requests`, `namespace_view` | commands that wait; the namespaces as one connection sees them |
//! | `common`, `framing`, `exchange` | state of every phase; the transport's form of replies and data; data from hosts, replies |
//! | `phase` | one connection: ICReq, Connect, queue, termination |
//! | `ready`, `io_commands`, `copy`, `fused`, `reservation_commands`, `admin`, `fabrics`, `connect` | handlers of commands |
//! | `dispatch` | from commands to handlers |
//! | `connection`, `deadline`, `tally` | turns of a connection, its deadlines, and its counts |
//! | `tcp`, `rdma` | connections over TCP: PDUs in both directions; connections over RDMA: messages and remote memory |
//!
//! A module imports only from its own row and from rows above it, and no modules import each other in a circle.
//!
//! Sections named "Base" are of NVM Express Base Specification 2.0, "NVM" of the NVM Command Set Specification 1.0,
//! "TCP" of the NVMe/TCP Transport Specification 1.0.

mod admin;
mod association;
mod command;
mod common;
pub mod config;
mod connect;
mod connection;
mod copy;
pub mod counters;
mod deadline;
mod discovery;
mod dispatch;
mod event_requests;
mod events;
mod exchange;
mod fabrics;
mod features;
mod framing;
mod fused;
mod io_commands;
mod latency;
pub mod limits;
mod namespace;
mod namespace_view;
mod pairs;
mod phase;
mod queue_handle;
mod rdma;
mod ready;
mod request;
mod reservation;
mod reservation_commands;
pub mod session;
mod shared;
pub mod status;
mod subsystem;
mod table;
mod tally;
mod tcp;

pub use ::session::latency::{CommandKind, CommandLatency};
pub use ::session::reservation::{
    NoReservationStore, RegisteredClient, ReservationStore, Reserved,
};
pub use config::{
    HostPolicy, NamespaceConfig, PortInfo, PortRole, Referral, SubsystemConfig, TargetConfig,
    TargetError, Transport, Transports,
};
pub use counters::{CloseReason, ConnectionState, Counters};
pub use latency::{LATENCY_BOUNDS_US, LatencyBuckets};
pub use session::{QueueInfo, SessionInfo, SessionKind, SessionState};
pub use subsystem::SubsystemTotals;

use crate::wire::nqn::Nqn;
use ::session::refused::{RefusalTotals, Refusals, RefusedHost};
use ::session::reservation::NotChanged;
use ::session::stages::StageCounters;
use namespace::Namespace;
use queue_handle::NAMESPACES;
use reservation::Reservations;
use reservation_commands::Audience;
use shared::TargetShared;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use subsystem::Subsystem;

/// Result of a control call.
pub type Result<T> = std::result::Result<T, TargetError>;

/// An NVMe target. Clones share it; control calls may come from any thread.
#[derive(Clone)]
pub struct Target(Arc<TargetShared>);

impl Target {
    /// A target without subsystems.
    #[must_use]
    pub fn new(config: TargetConfig) -> Target {
        Target(Arc::new(TargetShared::new(config)))
    }

    /// Serves one connection until it ends. Call it on the shard that owns the connection.
    pub async fn serve(&self, stream: io::net::TcpStream, role: PortRole) {
        tcp::serve(self.0.clone(), stream, role).await;
    }

    /// Answers one connection request for RDMA, and serves the connection until it ends. Call it on the shard that is to own the
    /// connection.
    pub async fn serve_rdma(&self, incoming: io::rdma::Incoming, role: PortRole) {
        rdma::serve(self.0.clone(), incoming, role).await;
    }

    /// Adds a subsystem. Errors: `SubsystemExists`, `ReservedName`.
    pub fn add_subsystem(&self, config: SubsystemConfig) -> Result<()> {
        if config.nqn.is_discovery() {
            return Err(TargetError::ReservedName(config.nqn));
        }
        let mut state = self.0.registry();
        if state.subsystems.contains_key(&config.nqn) {
            return Err(TargetError::SubsystemExists(config.nqn));
        }
        state
            .subsystems
            .insert(config.nqn.clone(), Arc::new(Subsystem::new(config)));
        drop(state);
        self.0.lists_changed();
        self.0.discovery_changed();
        Ok(())
    }

    /// Removes a subsystem; its hosts are disconnected. Errors: `NoSubsystem`.
    pub fn remove_subsystem(&self, nqn: &Nqn) -> Result<()> {
        let subsystem = self.find(nqn)?;
        self.0.registry().subsystems.remove(nqn);
        self.0.lists_changed();
        for c in self.0.controllers_of_subsystem(Some(&subsystem)) {
            c.close_all(CloseReason::Administrator);
        }
        self.0.discovery_changed();
        Ok(())
    }

    /// Changes which hosts may connect; hosts that may not any longer are disconnected. Errors: `NoSubsystem`.
    pub fn set_hosts(&self, nqn: &Nqn, hosts: HostPolicy) -> Result<()> {
        let subsystem = self.find(nqn)?;
        subsystem.set_hosts(hosts);
        self.0.lists_changed();
        for c in self.0.controllers_of_subsystem(Some(&subsystem)) {
            if !subsystem.allows(&c.host_nqn) {
                c.close_all(CloseReason::Administrator);
            }
        }
        self.0.discovery_changed();
        Ok(())
    }

    /// Changes the transports over which hosts may connect; hosts that use another one are disconnected. Errors: `NoSubsystem`.
    pub fn set_transports(&self, nqn: &Nqn, transports: Transports) -> Result<()> {
        let subsystem = self.find(nqn)?;
        subsystem.set_transports(transports);
        for c in self.0.controllers_of_subsystem(Some(&subsystem)) {
            if !transports.has(c.transport) {
                c.close_all(CloseReason::Administrator);
            }
        }
        self.0.discovery_changed();
        Ok(())
    }

    /// While held, hosts that connect are told to try again later: not all namespaces of the subsystem are open yet.
    /// Controllers that exist stay. Errors: `NoSubsystem`.
    pub fn hold_connects(&self, nqn: &Nqn, hold: bool) -> Result<()> {
        self.find(nqn)?.set_held(hold);
        Ok(())
    }

    /// Adds a namespace; connected hosts are told. Errors: `NoSubsystem`, `NamespaceExists`, `InvalidNsid`,
    /// `DamagedReservations`. May block while the stored reservations are read.
    pub fn add_namespace(&self, nqn: &Nqn, config: NamespaceConfig) -> Result<()> {
        let subsystem = self.find(nqn)?;
        let nsid = config.nsid;
        subsystem.add(Namespace::new(config)?)?;
        self.tell(&subsystem, nsid);
        Ok(())
    }

    /// Removes a namespace; connected hosts are told. Commands in flight end as they would have. Errors:
    /// `NoSubsystem`, `NoNamespace`.
    pub fn remove_namespace(&self, nqn: &Nqn, nsid: u32) -> Result<()> {
        let subsystem = self.find(nqn)?;
        subsystem.remove(nsid)?;
        self.tell(&subsystem, nsid);
        Ok(())
    }

    /// A namespace's size changed: connected hosts are told. Errors: `NoSubsystem`, `NoNamespace`.
    pub fn namespace_changed(&self, nqn: &Nqn, nsid: u32) -> Result<()> {
        let (subsystem, _) = self.namespace(nqn, nsid)?;
        self.tell(&subsystem, nsid);
        Ok(())
    }

    fn namespace(&self, nqn: &Nqn, nsid: u32) -> Result<(Arc<Subsystem>, Arc<Namespace>)> {
        let subsystem = self.find(nqn)?;
        let namespace = subsystem.namespaces().get(&nsid).cloned();
        let namespace = namespace.ok_or(TargetError::NoNamespace(nsid))?;
        Ok((subsystem, namespace))
    }

    /// The reservations of a namespace. Errors: `NoSubsystem`, `NoNamespace`.
    pub fn reservations(&self, nqn: &Nqn, nsid: u32) -> Result<Reserved> {
        let (_, namespace) = self.namespace(nqn, nsid)?;
        Ok(namespace.reservations().view())
    }

    /// Ends all registrations of a namespace and its reservation, without a key; the hosts that lose them are told as by Reservation
    /// Release with the action Clear (Base 7.4). Blocks. Errors: `NoSubsystem`, `NoNamespace`, `UnsavedReservations`.
    pub fn clear_reservations(&self, nqn: &Nqn, nsid: u32) -> Result<()> {
        let (subsystem, namespace) = self.namespace(nqn, nsid)?;
        let clear = |r: &mut Reservations| Ok::<_, Infallible>(r.clear_all());
        let notices = namespace.change(&clear).map_err(|e| match e {
            NotChanged::Unsaved(e) => TargetError::UnsavedReservations {
                nsid,
                reason: e.to_string(),
            },
        })?;
        Audience::new(self.0.clone(), Some(subsystem), namespace.nsid).tell(&notices);
        Ok(())
    }

    fn tell(&self, subsystem: &Arc<Subsystem>, nsid: u32) {
        for c in self.0.controllers_of_subsystem(Some(subsystem)) {
            c.namespace_changed(nsid);
            c.signal_all(NAMESPACES);
        }
    }

    fn find(&self, nqn: &Nqn) -> Result<Arc<Subsystem>> {
        self.0
            .subsystem(nqn)
            .ok_or_else(|| TargetError::NoSubsystem(nqn.clone()))
    }

    /// Sets the ports that discovery shows.
    pub fn set_ports(&self, ports: Vec<PortInfo>) {
        self.0.registry().ports = ports;
        self.0.discovery_changed();
    }

    /// Sets the other discovery services that ours refers to.
    pub fn set_referrals(&self, referrals: Vec<Referral>) {
        self.0.registry().referrals = referrals;
        self.0.discovery_changed();
    }

    /// Ends a controller's connections. Errors: `NoController`.
    pub fn disconnect(&self, cntlid: u16) -> Result<()> {
        let controller = self
            .0
            .controller(cntlid)
            .ok_or(TargetError::NoController(cntlid))?;
        controller.close_all(CloseReason::Administrator);
        Ok(())
    }

    /// The hosts that host lists refused, the newest first, and the number of refusals since the start.
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

    /// Totals of each subsystem since it was made, in the order of their names.
    #[must_use]
    pub fn subsystem_totals(&self) -> Vec<SubsystemTotals> {
        let subsystems = self.0.registry().subsystems.clone();
        subsystems.values().map(|s| s.totals()).collect()
    }

    /// The names of all subsystems, and the time of their I/O commands by stage since they were added.
    #[must_use]
    pub fn stages(&self) -> Vec<(Nqn, Arc<StageCounters>)> {
        let subsystems = self.0.registry().subsystems.clone();
        let of = |s: &Arc<Subsystem>| (s.nqn.clone(), s.totals.stages.clone());
        subsystems.values().map(of).collect()
    }

    /// Snapshots of all controllers. Numbers of the kernel are as old as their last reading; this call asks for a new reading.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let controllers = self.0.controllers();
        controllers.iter().map(|c| session::session_of(c)).collect()
    }

    /// Takes no more connections and commands, finishes those in flight, flushes every disk, and closes all
    /// connections; after `limit` they are closed as they are. Call it on a runtime. Errors: the first disk that
    /// could not be flushed.
    pub async fn drain(&self, limit: Duration) -> backend::Result<()> {
        self.0.connections.drain(limit).await;
        let subsystems: Vec<_> = self.0.registry().subsystems.values().cloned().collect();
        // A disk that fails keeps no other from its flush.
        let mut drained = Ok(());
        for subsystem in subsystems {
            for ns in subsystem.namespaces().values() {
                let flushed = ns.backend.flush().await;
                drained = drained.and(flushed.map(drop));
            }
        }
        drained
    }
}

#[cfg(test)]
#[path = "tests/access.rs"]
mod tests;
