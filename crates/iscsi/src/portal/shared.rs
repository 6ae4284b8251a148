//! Shared state of the iSCSI service: targets, sessions, portals.
//!
//! **Owns** the registers of targets and sessions, the counters and the login throttle. **Called by** [`super::Target`], by
//! logins and by connections that end. **Invariants**: the mutex of the registers is held for a few instructions and never
//! across an await; a session is registered until its last connection has left.

use super::config::{
    Authentication, Config, IscsiTransport, Portal, TargetConfig, TargetError, Unnamed,
};
use super::counters::{CloseReason, ConnectionState, CounterSet};
use super::entry::TargetEntry;
use super::session::{ConnectionHandle, NewSession, Session, SessionKind};
use super::throttle::Throttle;
use crate::limits;
use crate::login::{Applicant, ChapPolicy, LoggedIn};
use crate::wire::IscsiName;
use ::session::connections::Connections;
use ::session::stages::StageCounters;
use io::net::address::{reached_at, told};
use io::sync::lock;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};

/// State that all connections share.
pub(crate) struct PortalShared {
    pub(crate) config: Config,
    pub(crate) counters: CounterSet,
    pub(crate) connections: Connections<ConnectionState, CloseReason>,
    registers: Mutex<Registers>,
    throttle: Mutex<Throttle>,
}

#[derive(Default)]
struct Registers {
    targets: BTreeMap<IscsiName, Arc<TargetEntry>>,
    sessions: BTreeMap<u16, Arc<Session>>,
    last_tsih: u16,
    portals: Vec<Portal>,
    advertised: Vec<(SocketAddr, u16)>,
    discovery: Authentication,
}

impl PortalShared {
    /// State of a service without targets. `config` is lowered to the named limits.
    pub(crate) fn new(config: Config) -> PortalShared {
        let config = config.bounded();
        PortalShared {
            connections: Connections::new(config.admission()),
            config,
            counters: CounterSet::default(),
            registers: Mutex::default(),
            throttle: Mutex::default(),
        }
    }

    fn registers(&self) -> MutexGuard<'_, Registers> {
        lock(&self.registers)
    }

    /// The login throttle, locked.
    pub(crate) fn throttle(&self) -> MutexGuard<'_, Throttle> {
        lock(&self.throttle)
    }

    /// Registers a target. Errors: `TargetExists`.
    pub(crate) fn add_target(&self, config: TargetConfig) -> Result<(), TargetError> {
        let mut registers = self.registers();
        if registers.targets.contains_key(&config.name) {
            return Err(TargetError::TargetExists(config.name));
        }
        let name = config.name.clone();
        registers
            .targets
            .insert(name, Arc::new(TargetEntry::new(config)));
        drop(registers);
        self.lists_changed();
        Ok(())
    }

    /// Removes a target from the register and returns it. Its sessions stay. Errors: `NoTarget`.
    pub(crate) fn remove_target(&self, name: &IscsiName) -> Result<Arc<TargetEntry>, TargetError> {
        let removed = self.registers().targets.remove(name);
        let entry = removed.ok_or_else(|| TargetError::NoTarget(name.clone()))?;
        self.lists_changed();
        Ok(entry)
    }

    /// The target of this name.
    pub(crate) fn entry(&self, name: &IscsiName) -> Option<Arc<TargetEntry>> {
        self.registers().targets.get(name).cloned()
    }

    /// The names of all targets, and the time of their commands by stage.
    pub(crate) fn stages(&self) -> Vec<(IscsiName, Arc<StageCounters>)> {
        let registers = self.registers();
        let of = |entry: &Arc<TargetEntry>| (entry.name.clone(), entry.stages.clone());
        registers.targets.values().map(of).collect()
    }

    /// The session with this handle.
    pub(crate) fn session(&self, tsih: u16) -> Option<Arc<Session>> {
        self.registers().sessions.get(&tsih).cloned()
    }

    /// All sessions.
    pub(crate) fn sessions(&self) -> Vec<Arc<Session>> {
        self.registers().sessions.values().cloned().collect()
    }

    /// The session that a login of `who` replaces (§6.3.5).
    pub(crate) fn session_of(&self, who: &Applicant) -> Option<Arc<Session>> {
        let registers = self.registers();
        let same = |s: &&Arc<Session>| s.is_of(&who.initiator, who.isid, who.target.as_ref());
        registers.sessions.values().find(same).cloned()
    }

    /// The sessions with a target.
    pub(crate) fn sessions_of(&self, entry: &Arc<TargetEntry>) -> Vec<Arc<Session>> {
        let mut all = self.sessions();
        all.retain(
            |s| matches!(&s.kind, SessionKind::Normal { entry: e, .. } if Arc::ptr_eq(e, entry)),
        );
        all
    }

    /// Registers a new session; `None` if there are too many.
    pub(crate) fn add_session(&self, new: NewSession, listed: bool) -> Option<Arc<Session>> {
        let mut registers = self.registers();
        let mut has_room = registers.sessions.len() < limits::SESSIONS_MAX;
        if let SessionKind::Normal { entry, nexus } = &new.kind {
            let normal = |s: &&Arc<Session>| s.target().is_some();
            let others = registers.sessions.values().filter(normal).count();
            has_room &=
                self.connections
                    .admission
                    .has_room(others, self.config.sessions_max, listed);
            if !has_room {
                entry.device.logout(nexus);
            }
        }
        if !has_room {
            return None;
        }
        // A handle is not used again soon, so that a late connection does not join another initiator's session.
        let mut tsih = registers.last_tsih;
        loop {
            tsih = tsih.checked_add(1).unwrap_or(1);
            if !registers.sessions.contains_key(&tsih) {
                break;
            }
        }
        registers.last_tsih = tsih;
        let session = Arc::new(Session::new(tsih, new));
        registers.sessions.insert(tsih, session.clone());
        Some(session)
    }

    /// A connection has left its session. The session ends with its last connection.
    pub(crate) fn left(&self, session: &Session, handle: &Arc<ConnectionHandle>) {
        if session.remove(handle) {
            self.session_ended(session);
        }
    }

    /// A session has no connections.
    pub(crate) fn session_ended(&self, session: &Session) {
        let removed = self.registers().sessions.remove(&session.tsih);
        if let (Some(_), SessionKind::Normal { entry, nexus }) = (removed, &session.kind) {
            entry.device.logout(nexus);
        }
    }

    /// Tells the admission whether an access list exists.
    pub(crate) fn lists_changed(&self) {
        let registers = self.registers();
        let listed = registers.targets.values().any(|e| e.has_list());
        self.connections.admission.set_reserving(listed);
    }

    /// Whether `initiator` is known: on a target's list, or has proven itself.
    pub(crate) fn is_listed(&self, who: &LoggedIn) -> bool {
        let entry = who.applicant.target.as_ref().and_then(|t| self.entry(t));
        who.proved.is_some() || entry.is_some_and(|e| e.lists(&who.applicant.initiator))
    }

    /// Whether a portal group that `local` belongs to serves a target. Without portals everything is served everywhere.
    pub(crate) fn serves(
        &self,
        entry: &TargetEntry,
        local: SocketAddr,
        transport: IscsiTransport,
    ) -> bool {
        let registers = self.registers();
        let mut matching = registers
            .portals
            .iter()
            .filter(|p| p.transport == transport && is_portal(p.address, local))
            .peekable();
        matching.peek().is_none() || matching.any(|p| p.group == entry.portal_group)
    }

    /// Sets the addresses of portal groups.
    pub(crate) fn set_portals(&self, portals: Vec<Portal>) {
        self.registers().portals = portals;
    }

    /// Sets the addresses that discovery names instead of those of a portal group.
    pub(crate) fn set_advertised(&self, advertised: Vec<(SocketAddr, u16)>) {
        self.registers().advertised = advertised;
    }

    /// Sets what initiators must prove in discovery sessions. Returns the discovery sessions without that proof.
    pub(crate) fn set_discovery(&self, authentication: Authentication) -> Vec<Arc<Session>> {
        let mut registers = self.registers();
        let kept = |s: &Arc<Session>| authentication.keeps(&s.initiator, s.authenticated);
        let discovering = registers.sessions.values().filter(|s| s.target().is_none());
        let ended = discovering.filter(|s| !kept(s)).cloned().collect();
        registers.discovery = authentication;
        ended
    }

    /// The proof that `initiator` must give before a discovery session names any target.
    pub(crate) fn discovery_chap_for(
        &self,
        initiator: &IscsiName,
    ) -> Result<Option<ChapPolicy>, Unnamed> {
        self.registers().discovery.chap_for(initiator)
    }

    /// The targets that discovery names to an initiator.
    pub(crate) fn targets_for(&self, initiator: &IscsiName) -> Vec<Arc<TargetEntry>> {
        let mut all: Vec<Arc<TargetEntry>> = self.registers().targets.values().cloned().collect();
        all.retain(|e| e.allows(initiator));
        all
    }

    /// TargetAddress of a target (§13.8), as seen from a connection to `local`. SendTargets does not name transports, so the addresses are those
    /// of the connection's own transport.
    pub(crate) fn addresses_of(
        &self,
        entry: &TargetEntry,
        local: SocketAddr,
        transport: IscsiTransport,
    ) -> Vec<String> {
        let tag = entry.portal_group;
        let mut out: Vec<String> = Vec::new();
        let registers = self.registers();
        let listening = registers.portals.iter();
        let listening = listening.filter(|p| p.transport == transport && p.group == tag);
        let mut shown: Vec<SocketAddr> = listening.map(|p| p.address).collect();
        if transport == IscsiTransport::Tcp {
            let advertised = registers.advertised.iter().filter(|(_, t)| *t == tag);
            let advertised: Vec<SocketAddr> = advertised.map(|(a, _)| *a).collect();
            if !advertised.is_empty() {
                shown = advertised;
            }
        }
        for addr in shown.into_iter().filter_map(|a| reached_at(a, local.ip())) {
            let shown = format!("{addr},{tag}");
            if !out.contains(&shown) {
                out.push(shown);
            }
        }
        if out.is_empty() {
            out.push(format!("{},{tag}", told(local)));
        }
        out
    }
}

/// Whether a connection to `local` arrived at `portal`.
fn is_portal(portal: SocketAddr, local: SocketAddr) -> bool {
    portal.port() == local.port() && (portal.ip().is_unspecified() || portal.ip() == local.ip())
}
