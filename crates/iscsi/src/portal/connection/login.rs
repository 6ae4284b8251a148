//! A connection that logs in, and its step to full feature phase.
//!
//! **Called by** the receiver, with every PDU before full feature phase. **Invariants**: a session or connection that is replaced has
//! ended, with all of its commands at the backend, before its successor is in full feature phase (§6.3.5).

use super::{Accepted, Core, Phase};
use crate::limits::{ISER_SEND_DATA_MAX, LOGIN_DATA_MAX};
use crate::login::{LoggedIn, Refusal, Step, Then, refuse};
use crate::portal::config::IscsiTransport;
use crate::portal::counters::{CloseReason, ConnectionState};
use crate::portal::discovery::Discovery;
use crate::portal::full_feature::FullFeature;
use crate::portal::gate::Gate;
use crate::portal::member::Member;
use crate::portal::session::{
    Alive, ConnectionHandle, Connections, NewSession, Session, SessionKind,
};
use crate::portal::shared::PortalShared;
use crate::portal::transport::PortalTransport;
use crate::wire::decode::Rules;
use crate::wire::request::LoginRequest;
use crate::wire::response::{LoginResponse, LoginStatus};
use crate::wire::{Bhs, Opcode};
use io::spawn;
use io::sync::oneshot;
use session::HostKey;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Keeps a session while a login replaces its last connection (§6.3.4).
struct Joining {
    shared: Arc<PortalShared>,
    session: Arc<Session>,
}

impl Drop for Joining {
    fn drop(&mut self) {
        if self.session.joined() {
            self.shared.session_ended(&self.session);
        }
    }
}

/// The part of a session that a login makes: session, the connection's handle, and the token for its commands.
struct Joined {
    session: Arc<Session>,
    handle: Arc<ConnectionHandle>,
    alive: Arc<Alive>,
}

impl Core {
    /// A PDU before full feature phase is here, whole.
    pub(super) fn login_pdu(&mut self, bhs: &Bhs, data: &[u8]) {
        let request = LoginRequest::parse(bhs);
        let Phase::Login(login) = &mut self.phase else {
            return;
        };
        if bhs.opcode() != Some(Opcode::LoginRequest) {
            // §6.3: only login requests may arrive. An initiator that has not begun a login gets no answer.
            self.transport.complain("not a login request");
            if login.initiator().is_some() {
                let no = Refusal::Status(LoginStatus::INVALID_DURING_LOGIN);
                return self.send_step(&request, refuse(&request, no));
            }
            return self.end(CloseReason::Protocol);
        }
        let depth = self.transport.shared().config.command_window;
        let max = request.cmd_sn.plus(depth - 1);
        self.transport.set_login_window(request.cmd_sn, max);
        let shared = self.transport.shared().clone();
        let step = login.request(&request, data, &gate(&self.transport, &shared));
        self.send_step(&request, step);
    }

    fn send_step(&mut self, request: &LoginRequest, step: Step) {
        let Step {
            response,
            status,
            text,
            then,
        } = step;
        match then {
            Then::Continue => self.send_login(&response, &text),
            Then::Close => {
                self.transport.shared().counters.refused(status);
                self.transport.complain_first(status.words());
                self.send_login(&response, &text);
                self.transport.close_after_output(CloseReason::LoginRefused);
            }
            Then::Finish(who) => self.reinstate(Rc::new(Accepted {
                request: *request,
                response,
                text,
                who,
            })),
        }
    }

    fn send_login(&mut self, response: &LoginResponse, text: &[u8]) {
        let mut bhs = response.build();
        self.transport.stamp_status(&mut bhs);
        self.transport.send(bhs, text);
    }

    fn refuse(&mut self, request: &LoginRequest, refusal: Refusal) {
        self.send_step(request, refuse(request, refusal));
    }

    /// An accepted login: ends the session or connection that it replaces, then establishes its own.
    fn reinstate(&mut self, accepted: Rc<Accepted>) {
        let who = &accepted.who;
        let shared = self.transport.shared().clone();
        if let Err(refusal) = gate(&self.transport, &shared).still_admits(who) {
            return self.refuse(&accepted.request, refusal);
        }
        let a = &who.applicant;
        let replaced = match a.tsih {
            0 => shared.session_of(a).map(|s| s.connections.all()),
            tsih => shared
                .session(tsih)
                .and_then(|s| s.connection(a.cid))
                .map(|c| vec![c]),
        };
        let joined = (a.tsih != 0).then(|| shared.session(a.tsih)).flatten();
        let joining = joined.map(|session| {
            session.joining();
            Joining { shared, session }
        });
        let replaced = replaced.iter().flatten();
        let old: Vec<oneshot::Receiver<()>> = replaced.filter_map(|c| c.replace()).collect();
        if old.is_empty() {
            return self.establish(&accepted);
        }
        self.phase = Phase::Reinstating(accepted);
        self.transport.enter(ConnectionState::Reinstating);
        let me = self.me.clone();
        drop(spawn(async move {
            for ended in old {
                ended.await;
            }
            if let Some(conn) = me.upgrade() {
                conn.core.borrow_mut().replaced_has_ended();
            }
            drop(joining);
        }));
    }

    /// The session or connection that this login replaces has ended.
    fn replaced_has_ended(&mut self) {
        if !self.is_reinstating() || self.transport.link().ending().is_some() {
            return;
        }
        if let Phase::Reinstating(accepted) = &self.phase {
            // Another login may have been faster, so there may be a session to replace again.
            self.reinstate(accepted.clone());
            self.wake();
        }
    }

    /// Makes or joins the session, and sends the final login response.
    fn establish(&mut self, accepted: &Accepted) {
        let Accepted { request, who, .. } = accepted;
        let shared = self.transport.shared().clone();
        let joined = self.join(request, who).map_err(Refusal::Status);
        // A change of access either finds the new session and ends it, or is seen here.
        let admitted = joined.and_then(|joined| {
            let gate = gate(&self.transport, &shared);
            match gate.still_admits_to(&joined.session.kind, who) {
                Ok(()) => Ok(joined),
                Err(refusal) => {
                    shared.left(&joined.session, &joined.handle);
                    Err(refusal)
                }
            }
        });
        let joined = match admitted {
            Ok(joined) => joined,
            Err(refusal) => return self.refuse(request, refusal),
        };
        let session = joined.session;
        let link = self.transport.link();
        let host = HostKey::named(session.initiator.as_str(), link.peer().ip());
        link.account().belongs_to(host);
        tracing::info!(peer = %link.peer(), initiator = %who.applicant.initiator,
            target = who.applicant.target.as_ref().map(|t| t.as_str()), "logged in");
        self.transport.set_session_window(session.clone());
        let response = LoginResponse {
            tsih: session.tsih,
            ..accepted.response
        };
        self.send_login(&response, &accepted.text);
        self.transport.set_rules(Rules {
            header_digest: who.parameters.header_digest,
            data_digest: who.parameters.data_digest,
            data_max: who.parameters.max_recv_data,
        });
        shared.counters.logins.fetch_add(1, Ordering::Relaxed);
        let kind = session.kind.clone();
        if let Some(iser) = self.transport.iser_mut() {
            iser.set_data_max(match kind {
                SessionKind::Discovery => LOGIN_DATA_MAX,
                SessionKind::Normal { .. } => ISER_SEND_DATA_MAX,
            });
        }
        let member = Member::new(session, joined.handle, joined.alive, who.parameters);
        self.established(match kind {
            SessionKind::Discovery => Phase::Discovery(Box::new(Discovery::new(member))),
            SessionKind::Normal { entry, nexus } => {
                Phase::FullFeature(Box::new(FullFeature::new(member, entry, nexus)))
            }
        });
    }

    /// Registers the connection in a new session, or in the one that the login names.
    fn join(&mut self, request: &LoginRequest, who: &LoggedIn) -> Result<Joined, LoginStatus> {
        let a = &who.applicant;
        let alive = Arc::new(Alive::default());
        let shared = self.transport.shared().clone();
        let transport = self.transport.kind();
        let link = self.transport.link_mut();
        let addresses = (link.local(), link.peer());
        let signal = link.signal().clone();
        let handle = ConnectionHandle::new(a.cid, addresses, who.parameters, signal, &alive);
        let handle = Arc::new(handle);
        let place = match a.target {
            None => link.place().discovery(),
            Some(_) => {
                let listed = shared.is_listed(who);
                link.place().established(listed, a.tsih == 0)
            }
        };
        place.map_err(|_| LoginStatus::OUT_OF_RESOURCES)?;
        let session = match a.tsih {
            0 => new_session(&shared, request, who, transport)?,
            tsih => shared
                .session(tsih)
                .ok_or(LoginStatus::SESSION_DOES_NOT_EXIST)?,
        };
        session
            .add(handle.clone())
            .map_err(|_| LoginStatus::TOO_MANY_CONNECTIONS)?;
        Ok(Joined {
            session,
            handle,
            alive,
        })
    }
}

/// The login machine's view of the service.
fn gate<'a>(transport: &PortalTransport, shared: &'a PortalShared) -> Gate<'a> {
    let link = transport.link();
    Gate {
        target: shared,
        local: link.local(),
        peer: link.peer(),
        now_ns: link.now().as_nanos(),
        transport: transport.kind(),
    }
}

fn new_session(
    shared: &PortalShared,
    request: &LoginRequest,
    who: &LoggedIn,
    transport: IscsiTransport,
) -> Result<Arc<Session>, LoginStatus> {
    let a = &who.applicant;
    let connections = Arc::new(Connections::default());
    let kind = match &a.target {
        None => SessionKind::Discovery,
        Some(name) => {
            // The target may have been removed while the initiator proved itself.
            let entry = shared.entry(name).ok_or(LoginStatus::TARGET_REMOVED)?;
            if entry.is_held() {
                return Err(LoginStatus::SERVICE_UNAVAILABLE);
            }
            let port = scsi::InitiatorPort::iscsi(a.initiator.as_str(), a.isid.0);
            let nexus = entry
                .device
                .login(port, entry.relative_port, connections.clone())
                .map_err(|_| LoginStatus::OUT_OF_RESOURCES)?;
            SessionKind::Normal { entry, nexus }
        }
    };
    let new = NewSession {
        isid: a.isid,
        initiator: a.initiator.clone(),
        alias: who.alias.clone(),
        kind,
        transport,
        parameters: who.parameters,
        authenticated: who.proved.is_some(),
        connections,
        first: request.cmd_sn,
        depth: shared.config.command_window,
    };
    let listed = shared.is_listed(who);
    shared
        .add_session(new, listed)
        .ok_or(LoginStatus::OUT_OF_RESOURCES)
}
