//! The NVMe/TCP target: subsystems, controllers and queues on top of block backends.
//!
//! **Owns** everything between an accepted TCP stream and [`backend::BlockBackend`]. **Called by** the server, which
//! configures it through [`Target`] and hands it every accepted connection with [`Target::serve`] on the shard that
//! owns it. **Invariants**: connections share nothing on the data path but atomics; control calls are short and
//! synchronous; whatever a host sends, it costs bounded memory and other hosts nothing.
//!
//! | module | owns |
//! |---|---|
//! | [`config`] | what a target is told |
//! | `connection`, `receive`, `transmit`, `transfer` | one connection: turns, PDUs in, PDUs out, parked commands |
//! | `deadline`, `tally` | when a connection gives up waiting, and what it counts |
//! | `connect` | fabrics commands: Connect, properties, Disconnect |
//! | `association`, `subsystem`, `namespace` | what connections share |
//! | `admin` | admin commands |
//! | `io_commands`, `copy`, `fused` | I/O commands |
//! | `reservation`, `reservation_commands` | reservations |
//! | `discovery` | the discovery log |
//! | [`session`], [`counters`] | what users see |
//! | [`status`] | storage errors as NVMe status |
//!
//! Sections named "Base" are of NVM Express Base Specification 2.0, "NVM" of the NVM Command Set Specification 1.0,
//! "TCP" of the NVMe/TCP Transport Specification 1.0.

mod admin;
mod association;
pub mod config;
mod connect;
mod connection;
mod copy;
pub mod counters;
mod deadline;
mod discovery;
mod fused;
mod io_commands;
mod latency;
pub mod limits;
mod namespace;
mod receive;
mod reservation;
mod reservation_commands;
pub mod session;
pub mod status;
mod subsystem;
mod tally;
mod transfer;
mod transmit;

pub use ::session::latency::{CommandKind, CommandLatency};
pub use ::session::reservation::{NoReservationStore, ReservationStore};
pub use config::{
    HostPolicy, NamespaceConfig, PortInfo, PortRole, Referral, SubsystemConfig, TargetConfig,
    TargetError,
};
pub use counters::{CloseReason, ConnectionState, Counters};
pub use latency::{LATENCY_BOUNDS_US, LatencyBuckets};
pub use session::{QueueInfo, SessionInfo, SessionKind, SessionState};
pub use subsystem::SubsystemTotals;

use crate::wire::nqn::{HostId, Nqn};
use ::session::admission::{NoPlace, Place};
use ::session::connections::Connections;
use ::session::lock;
use admin::async_event::EventKind;
use association::{Association, Controller, ControllerKind, NAMESPACES, QueueHandle};
use connection::Queue;
use counters::CounterSet;
use limits::{CONTROLLERS_MAX, HOSTS_REMEMBERED_MAX};
use namespace::Namespace;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use subsystem::Subsystem;

/// Result of a control call.
pub type Result<T> = std::result::Result<T, TargetError>;

/// An NVMe/TCP target. Clones share it; control calls may come from any thread.
#[derive(Clone)]
pub struct Target(Arc<Shared>);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) config: TargetConfig,
    pub(crate) counters: CounterSet,
    state: Mutex<State>,
    pub(crate) connections: Connections<ConnectionState, CloseReason>,
}

#[derive(Default)]
struct State {
    subsystems: BTreeMap<Nqn, Arc<Subsystem>>,
    controllers: BTreeMap<u16, Arc<Controller>>,
    last_cntlid: u16,
    ports: Vec<PortInfo>,
    referrals: Vec<Referral>,
    /// GENCTR of the discovery log.
    generation: u64,
    /// How often a host has connected to a subsystem.
    connects: BTreeMap<(HostId, Nqn), u64>,
}

/// Why there is no new controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unavailable {
    /// No place for another one.
    Full,
    /// The subsystem was removed, or the host taken off its list.
    Forbidden,
}

impl From<NoPlace> for Unavailable {
    fn from(_: NoPlace) -> Unavailable {
        Unavailable::Full
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn subsystem(&self, nqn: &Nqn) -> Option<Arc<Subsystem>> {
        self.state().subsystems.get(nqn).cloned()
    }

    fn controller(&self, cntlid: u16) -> Option<Arc<Controller>> {
        self.state().controllers.get(&cntlid).cloned()
    }

    fn controllers(&self) -> Vec<Arc<Controller>> {
        self.state().controllers.values().cloned().collect()
    }

    fn controllers_of_subsystem(&self, subsystem: Option<&Arc<Subsystem>>) -> Vec<Arc<Controller>> {
        let Some(subsystem) = subsystem else {
            return Vec::new();
        };
        let mut all = self.controllers();
        all.retain(|c| c.subsystem().is_some_and(|s| Arc::ptr_eq(s, subsystem)));
        all
    }

    pub(crate) fn controllers_of(&self, nqn: &Nqn) -> Vec<u16> {
        let subsystem = self.subsystem(nqn);
        self.controllers_of_subsystem(subsystem.as_ref())
            .iter()
            .map(|c| c.cntlid)
            .collect()
    }

    /// Tells the admission whether an access list exists.
    fn lists_changed(&self) {
        let state = self.state();
        let listed = state.subsystems.values().any(|s| s.has_list());
        self.connections.admission.set_reserving(listed);
    }

    /// A new controller with its admin queue, and its place among the connections. Access is decided here, under the
    /// lock that a change of it takes next: either this sees the change, or the change sees this controller.
    fn add_controller(
        &self,
        mut association: Association,
        subnqn: &Nqn,
        admin: Arc<QueueHandle>,
        place: &mut Place,
    ) -> std::result::Result<Arc<Controller>, Unavailable> {
        let mut state = self.state();
        if state.controllers.len() >= usize::from(CONTROLLERS_MAX) {
            return Err(Unavailable::Full);
        }
        match &association.kind {
            ControllerKind::Discovery => place.discovery()?,
            ControllerKind::Io(subsystem) => {
                let current = state.subsystems.get(subnqn);
                if !current.is_some_and(|s| Arc::ptr_eq(s, subsystem)) {
                    return Err(Unavailable::Forbidden);
                }
                if !subsystem.allows(&association.host_nqn) {
                    return Err(Unavailable::Forbidden);
                }
                let listed = subsystem.lists(&association.host_nqn);
                let others = state.controllers.values();
                let others = others.filter(|c| c.subsystem().is_some()).count();
                let most = self.config.controllers_max;
                if !self.connections.admission.has_room(others, most, listed) {
                    return Err(Unavailable::Full);
                }
                place.established(listed, true)?;
            }
        }
        // IDs are not used again soon, so that a late I/O queue does not find somebody else's controller.
        let mut cntlid = state.last_cntlid;
        loop {
            cntlid = if cntlid >= CONTROLLERS_MAX {
                1
            } else {
                cntlid + 1
            };
            if !state.controllers.contains_key(&cntlid) {
                break;
            }
        }
        state.last_cntlid = cntlid;
        let host = (association.host_id, subnqn.clone());
        if state.connects.len() >= HOSTS_REMEMBERED_MAX && !state.connects.contains_key(&host) {
            state.connects.pop_first();
        }
        let connects = state.connects.entry(host).or_default();
        association.reconnects = *connects;
        *connects += 1;
        let controller = Arc::new(Controller::new(
            cntlid,
            association,
            self.config.io_queues_max,
        ));
        controller.state().queues.insert(0, admin);
        state.controllers.insert(cntlid, controller.clone());
        Ok(controller)
    }

    /// A queue's connection has ended; the controller ends with its admin queue.
    fn queue_closed(&self, queue: &Queue, why: CloseReason) {
        let controller = &queue.controller;
        controller.remove_queue(queue.qid, &queue.handle);
        if queue.qid == 0 {
            self.state().controllers.remove(&controller.cntlid);
            match why {
                // The I/O queues drain by themselves.
                CloseReason::Drained => controller.end(),
                CloseReason::KeepAlive | CloseReason::Administrator => controller.close_all(why),
                _ => controller.close_all(CloseReason::ControllerEnded),
            }
        }
    }

    /// What the discovery log is made of.
    fn discovery(&self) -> (u64, Vec<PortInfo>, Vec<Referral>, Vec<Arc<Subsystem>>) {
        let s = self.state();
        (
            s.generation,
            s.ports.clone(),
            s.referrals.clone(),
            s.subsystems.values().cloned().collect(),
        )
    }

    /// The discovery log changed: hosts that stay connected are told (Base 8.5.3).
    fn discovery_changed(&self) {
        self.state().generation += 1;
        for c in self.controllers() {
            if matches!(c.kind, ControllerKind::Discovery) {
                c.raise(EventKind::DiscoveryChanged);
            }
        }
    }
}

impl Target {
    /// A target without subsystems.
    #[must_use]
    pub fn new(config: TargetConfig) -> Target {
        let config = config.bounded();
        Target(Arc::new(Shared {
            connections: Connections::new(config.admission()),
            config,
            counters: CounterSet::default(),
            state: Mutex::new(State {
                generation: 1,
                ..State::default()
            }),
        }))
    }

    /// Serves one connection until it ends. Call it on the shard that owns the connection.
    pub async fn serve(&self, stream: io::net::TcpStream, role: PortRole) {
        connection::serve(self.0.clone(), stream, role).await;
    }

    /// Adds a subsystem. Errors: `SubsystemExists`, `ReservedName`.
    pub fn add_subsystem(&self, config: SubsystemConfig) -> Result<()> {
        if config.nqn.is_discovery() {
            return Err(TargetError::ReservedName(config.nqn));
        }
        let mut state = self.0.state();
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
        self.0.state().subsystems.remove(nqn);
        self.0.lists_changed();
        for c in self.0.controllers_of_subsystem(Some(&subsystem)) {
            c.close_all(CloseReason::Administrator);
        }
        self.0.discovery_changed();
        Ok(())
    }

    /// Changes who may connect; hosts that no longer may are disconnected. Errors: `NoSubsystem`.
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

    /// Has hosts that connect told to try again later, or no longer: the subsystem's namespaces are not all there yet.
    /// Controllers that exist stay. Errors: `NoSubsystem`.
    pub fn hold_connects(&self, nqn: &Nqn, hold: bool) -> Result<()> {
        self.find(nqn)?.hold(hold);
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
        let subsystem = self.find(nqn)?;
        if !subsystem.namespaces().contains_key(&nsid) {
            return Err(TargetError::NoNamespace(nsid));
        }
        self.tell(&subsystem, nsid);
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

    /// Says which ports discovery shows.
    pub fn set_ports(&self, ports: Vec<PortInfo>) {
        self.0.state().ports = ports;
        self.0.discovery_changed();
    }

    /// Says which other discovery services ours points to.
    pub fn set_referrals(&self, referrals: Vec<Referral>) {
        self.0.state().referrals = referrals;
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

    /// Totals since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.0.counters.snapshot(&self.0.connections.counters)
    }

    /// What the sessions to each subsystem did since it was made, in the order of their names.
    #[must_use]
    pub fn subsystem_totals(&self) -> Vec<SubsystemTotals> {
        let subsystems = self.0.state().subsystems.clone();
        subsystems.values().map(|s| s.totals()).collect()
    }

    /// Every controller, as it is now. Numbers from the kernel are those of the last look; this call asks for
    /// another.
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
        let subsystems: Vec<_> = self.0.state().subsystems.values().cloned().collect();
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
