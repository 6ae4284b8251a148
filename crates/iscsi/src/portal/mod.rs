//! The iSCSI target: targets, sessions and connections on top of SCSI devices.
//!
//! **Owns** everything between an accepted TCP stream and [`scsi::Device`]. **Called by** the server, which configures it
//! through [`Target`] and hands it every accepted connection with [`Target::serve`] on the shard that owns it.
//! **Invariants**: connections share nothing on the data path but a session's window; control calls are short and
//! synchronous; whatever an initiator sends, it costs bounded memory and other initiators nothing.
//!
//! | module | owns |
//! |---|---|
//! | [`config`], `entry` | what a target is told, and what may change of it |
//! | `connection`, `receive`, `transmit` | one connection: turns, PDUs in, PDUs out |
//! | `login_phase`, `throttle` | logins and what comes of them |
//! | `full_feature`, `task_management` | requests beside SCSI commands |
//! | `command`, `transfer`, `respond` | SCSI commands, their data and their responses |
//! | `recovery` | error recovery level 1 |
//! | `window` | CmdSN |
//! | `deadline`, `tally` | when a connection gives up waiting, and what it counts |
//! | [`session`], [`counters`] | what connections share, and what users see |

mod command;
pub mod config;
mod connection;
pub mod counters;
mod deadline;
mod early;
mod entry;
mod execute;
mod full_feature;
mod login_phase;
mod receive;
mod recovery;
mod respond;
pub mod session;
mod tally;
mod task_management;
mod throttle;
mod transfer;
mod transmit;
mod turn;
mod window;

pub use ::session::latency::{CommandKind, CommandLatency};
pub use config::{Acl, Authentication, Config, Redirect, TargetConfig, TargetError};
pub use counters::{CloseReason, ConnectionState, Counters};
pub use session::{ConnectionInfo, SessionInfo};

use crate::limits;
use crate::login::{Applicant, ChapPolicy, LoggedIn};
use crate::wire::IscsiName;
use ::session::connections::Connections;
use config::Unnamed;
use connection::Member;
use counters::CounterSet;
use entry::Entry;
use session::{NewSession, Session, SessionKind, lock};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use throttle::Throttle;

/// Result of a control call.
pub type Result<T> = std::result::Result<T, TargetError>;

/// The iSCSI service of a process. Clones share it; control calls may come from any thread.
#[derive(Clone)]
pub struct Target(Arc<Shared>);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) counters: CounterSet,
    state: Mutex<State>,
    throttle: Mutex<Throttle>,
    pub(crate) connections: Connections<ConnectionState, CloseReason>,
}

#[derive(Default)]
struct State {
    targets: BTreeMap<IscsiName, Arc<Entry>>,
    sessions: BTreeMap<u16, Arc<Session>>,
    last_tsih: u16,
    portals: Vec<(SocketAddr, u16)>,
    advertised: Vec<(SocketAddr, u16)>,
    discovery: Authentication,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(crate) fn throttle(&self) -> MutexGuard<'_, Throttle> {
        lock(&self.throttle)
    }

    pub(crate) fn entry(&self, name: &IscsiName) -> Option<Arc<Entry>> {
        self.state().targets.get(name).cloned()
    }

    pub(crate) fn session(&self, tsih: u16) -> Option<Arc<Session>> {
        self.state().sessions.get(&tsih).cloned()
    }

    /// The session that a login of `who` replaces (§6.3.5).
    pub(crate) fn session_of(&self, who: &Applicant) -> Option<Arc<Session>> {
        let state = self.state();
        let same = |s: &&Arc<Session>| s.is_of(&who.initiator, who.isid, who.target.as_ref());
        state.sessions.values().find(same).cloned()
    }

    pub(crate) fn sessions_of(&self, entry: &Arc<Entry>) -> Vec<Arc<Session>> {
        let mut all: Vec<Arc<Session>> = self.state().sessions.values().cloned().collect();
        all.retain(
            |s| matches!(&s.kind, SessionKind::Normal { entry: e, .. } if Arc::ptr_eq(e, entry)),
        );
        all
    }

    /// A new session; `None` if there are too many.
    pub(crate) fn add_session(&self, new: NewSession, listed: bool) -> Option<Arc<Session>> {
        let mut state = self.state();
        let mut has_room = state.sessions.len() < limits::SESSIONS_MAX;
        if let SessionKind::Normal { entry, nexus } = &new.kind {
            let normal = |s: &&Arc<Session>| s.target().is_some();
            let others = state.sessions.values().filter(normal).count();
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
        // Handles are not used again soon, so that a late connection does not join somebody else's session.
        let mut tsih = state.last_tsih;
        loop {
            tsih = tsih.checked_add(1).unwrap_or(1);
            if !state.sessions.contains_key(&tsih) {
                break;
            }
        }
        state.last_tsih = tsih;
        let session = Arc::new(Session::new(tsih, new));
        state.sessions.insert(tsih, session.clone());
        Some(session)
    }

    /// A connection has left its session, which ends with the last one.
    fn left(&self, m: &Member) {
        if !m.session.remove(&m.handle) {
            return;
        }
        self.session_ended(&m.session);
    }

    /// A session has no connection any more.
    pub(crate) fn session_ended(&self, session: &Session) {
        let gone = self.state().sessions.remove(&session.tsih);
        if let (Some(_), SessionKind::Normal { entry, nexus }) = (gone, &session.kind) {
            entry.device.logout(nexus);
        }
    }

    /// Tells the admission whether an access list exists.
    fn lists_changed(&self) {
        let state = self.state();
        let listed = state.targets.values().any(|e| e.has_list());
        self.connections.admission.set_reserving(listed);
    }

    /// Whether `initiator` is known: on a target's list, or has proven itself.
    pub(crate) fn is_listed(&self, who: &LoggedIn) -> bool {
        let entry = who.applicant.target.as_ref().and_then(|t| self.entry(t));
        who.proved.is_some() || entry.is_some_and(|e| e.lists(&who.applicant.initiator))
    }

    /// Whether a portal group that `local` belongs to serves a target. Without portals everything is served everywhere.
    pub(crate) fn serves(&self, entry: &Entry, local: SocketAddr) -> bool {
        let state = self.state();
        let mut here = state
            .portals
            .iter()
            .filter(|(p, _)| is_portal(*p, local))
            .peekable();
        here.peek().is_none() || here.any(|(_, tag)| *tag == entry.portal_group)
    }

    /// What `initiator` must prove before discovery tells it anything.
    pub(crate) fn discovery_chap_for(
        &self,
        initiator: &IscsiName,
    ) -> std::result::Result<Option<ChapPolicy>, Unnamed> {
        self.state().discovery.chap_for(initiator)
    }

    /// The targets that discovery shows to an initiator.
    pub(crate) fn targets_for(&self, initiator: &IscsiName) -> Vec<Arc<Entry>> {
        let mut all: Vec<Arc<Entry>> = self.state().targets.values().cloned().collect();
        all.retain(|e| e.allows(initiator));
        all
    }

    /// TargetAddress of a target (§13.8), as seen from a connection to `local`.
    pub(crate) fn addresses_of(&self, entry: &Entry, local: SocketAddr) -> Vec<String> {
        let tag = entry.portal_group;
        let mut out: Vec<String> = Vec::new();
        let state = self.state();
        let advertised = state.advertised.iter().any(|(_, t)| *t == tag);
        let shown = if advertised {
            &state.advertised
        } else {
            &state.portals
        };
        for (addr, _) in shown.iter().filter(|(_, t)| *t == tag) {
            let addr = if addr.ip().is_unspecified() {
                SocketAddr::new(local.ip(), addr.port())
            } else {
                *addr
            };
            let shown = format!("{addr},{tag}");
            if !out.contains(&shown) {
                out.push(shown);
            }
        }
        if out.is_empty() {
            out.push(format!("{local},{tag}"));
        }
        out
    }
}

/// Whether a connection to `local` came in at `portal`.
fn is_portal(portal: SocketAddr, local: SocketAddr) -> bool {
    portal.port() == local.port() && (portal.ip().is_unspecified() || portal.ip() == local.ip())
}

impl Target {
    /// A service without targets.
    #[must_use]
    pub fn new(config: Config) -> Target {
        let config = config.bounded();
        Target(Arc::new(Shared {
            connections: Connections::new(config.admission()),
            config,
            counters: CounterSet::default(),
            state: Mutex::default(),
            throttle: Mutex::default(),
        }))
    }

    /// Serves one connection until it ends. Call it on the shard that owns the connection.
    pub async fn serve(&self, stream: io::net::TcpStream) {
        connection::serve(self.0.clone(), stream).await;
    }

    /// Adds a target. Errors: `TargetExists`.
    pub fn add_target(&self, config: TargetConfig) -> Result<()> {
        let mut state = self.0.state();
        if state.targets.contains_key(&config.name) {
            return Err(TargetError::TargetExists(config.name));
        }
        state
            .targets
            .insert(config.name.clone(), Arc::new(Entry::new(config)));
        drop(state);
        self.0.lists_changed();
        Ok(())
    }

    /// Removes a target; its initiators are told and disconnected. Errors: `NoTarget`.
    pub fn remove_target(&self, name: &IscsiName) -> Result<()> {
        let gone = self.0.state().targets.remove(name);
        let entry = gone.ok_or_else(|| TargetError::NoTarget(name.clone()))?;
        self.0.lists_changed();
        for s in self.0.sessions_of(&entry) {
            s.connections.close(CloseReason::Administrator);
        }
        Ok(())
    }

    /// Changes who may log in and what they must prove. Initiators that no longer may, or that have proven nothing where
    /// something is asked for now, are disconnected; others keep their sessions. A login under way is decided by what holds
    /// when it ends. Errors: `NoTarget`.
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

    /// Sends new logins elsewhere, or no longer. Sessions stay. Errors: `NoTarget`.
    pub fn set_redirect(&self, name: &IscsiName, redirect: Option<Redirect>) -> Result<()> {
        self.find(name)?.set_redirect(redirect);
        Ok(())
    }

    /// Has initiators that log in told to try again later, or no longer: the target's logical units are not all there yet.
    /// Sessions that exist stay. Errors: `NoTarget`.
    pub fn hold_logins(&self, name: &IscsiName, hold: bool) -> Result<()> {
        self.find(name)?.hold(hold);
        Ok(())
    }

    fn find(&self, name: &IscsiName) -> Result<Arc<Entry>> {
        self.0
            .entry(name)
            .ok_or_else(|| TargetError::NoTarget(name.clone()))
    }

    /// Says which addresses belong to which portal group.
    pub fn set_portals(&self, portals: Vec<(SocketAddr, u16)>) {
        self.0.state().portals = portals;
    }

    /// Says which addresses discovery names instead of a portal group's own; groups without any name their own.
    pub fn set_advertised(&self, advertised: Vec<(SocketAddr, u16)>) {
        self.0.state().advertised = advertised;
    }

    /// Sets what initiators must prove in discovery sessions; at first nothing. Discovery sessions without that proof end.
    pub fn set_discovery(&self, authentication: Authentication) {
        let mut state = self.0.state();
        let kept = |s: &Arc<Session>| authentication.keeps(&s.initiator, s.authenticated);
        let discovering = state.sessions.values().filter(|s| s.target().is_none());
        let ended: Vec<_> = discovering.filter(|s| !kept(s)).cloned().collect();
        state.discovery = authentication;
        drop(state);
        for s in ended {
            s.connections.close(CloseReason::Administrator);
        }
    }

    /// Ends a session; its initiator is told. Errors: `NoSession`.
    pub fn disconnect(&self, tsih: u16) -> Result<()> {
        let session = self.0.session(tsih).ok_or(TargetError::NoSession(tsih))?;
        session.connections.close(CloseReason::Administrator);
        Ok(())
    }

    /// Totals since the start.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.0.counters.snapshot(&self.0.connections.counters)
    }

    /// How long an initiator may be silent: until it is asked whether it is there, and for its answer. Zero: for ever.
    #[must_use]
    pub fn patience(&self) -> Duration {
        let config = &self.0.config;
        match config.nop_interval {
            Duration::ZERO => Duration::ZERO,
            asked => asked + config.nop_timeout,
        }
    }

    /// Every session, as it is now. Numbers from the kernel are those of the last look; this call asks for another.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let all: Vec<Arc<Session>> = self.0.state().sessions.values().cloned().collect();
        all.iter().map(|s| s.info()).collect()
    }

    /// Takes no more connections, asks every initiator to log out, finishes the commands in flight, and closes all
    /// connections; after `limit` they are closed as they are. The disks are for the caller to flush, who knows them.
    /// Call it on a runtime.
    pub async fn drain(&self, limit: Duration) {
        self.0.connections.drain(limit).await;
    }
}
