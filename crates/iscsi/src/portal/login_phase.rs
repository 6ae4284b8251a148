//! A connection that logs in: what the login machine asks of the target, and the session that comes of it.
//!
//! **Called by** the receiver, with every PDU before full feature phase. **Invariants**: a session or connection that is
//! replaced has ended, with everything it had at the backend, before its successor is in full feature phase (§6.3.5).

use super::Shared;
use super::connection::{Core, Member};
use super::counters::{CloseReason, ConnectionState};
use super::session::{Alive, ConnectionHandle, Connections, NewSession, Session, SessionKind};
use crate::login::{Admission, Applicant, LoggedIn, Realm, Refusal, Step, Then, refuse};
use crate::wire::decode::Rules;
use crate::wire::request::LoginRequest;
use crate::wire::response::{LoginResponse, LoginStatus};
use crate::wire::{Bhs, IscsiName, Opcode};
use io::spawn;
use io::sync::oneshot;
use session::HostKey;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The target as the login machine sees it.
struct Gate<'a> {
    target: &'a Shared,
    local: SocketAddr,
    peer: SocketAddr,
    now_ns: u64,
}

/// Keeps a session while a login takes the place of its last connection (§6.3.4).
struct Joining {
    target: Arc<Shared>,
    session: Arc<Session>,
}

impl Drop for Joining {
    fn drop(&mut self) {
        if self.session.joined() {
            self.target.session_ended(&self.session);
        }
    }
}

fn refused<T>(status: LoginStatus) -> Result<T, Refusal> {
    Err(Refusal::Status(status))
}

impl Realm for Gate<'_> {
    fn admit(&self, who: &Applicant) -> Result<Admission, Refusal> {
        let Some(name) = &who.target else {
            let Ok(chap) = self.target.discovery_chap_for(&who.initiator) else {
                return refused(LoginStatus::AUTHENTICATION_FAILURE);
            };
            if who.tsih != 0 {
                return refused(LoginStatus::CANNOT_INCLUDE);
            }
            return Ok(Admission {
                chap,
                portal_group: None,
                alias: None,
                joined: None,
            });
        };
        let Some(entry) = self.target.entry(name) else {
            return refused(LoginStatus::NOT_FOUND);
        };
        if !self.target.serves(&entry, self.local) {
            return refused(LoginStatus::NOT_FOUND);
        }
        if !entry.allows(&who.initiator) {
            return Err(Refusal::Forbidden(LoginStatus::AUTHORIZATION_FAILURE));
        }
        let Ok(chap) = entry.chap_for(&who.initiator) else {
            return Err(Refusal::Forbidden(LoginStatus::AUTHENTICATION_FAILURE));
        };
        if let Some(r) = entry.redirect() {
            return Err(Refusal::Moved {
                address: r.address,
                permanently: r.permanently,
            });
        }
        let joined = match who.tsih {
            0 => None,
            tsih => match self.target.session(tsih) {
                Some(s) if s.is_of(&who.initiator, who.isid, Some(name)) => Some(s.parameters),
                Some(_) => return refused(LoginStatus::CANNOT_INCLUDE),
                None => return refused(LoginStatus::SESSION_DOES_NOT_EXIST),
            },
        };
        Ok(Admission {
            chap,
            portal_group: Some(entry.portal_group),
            alias: entry.alias.clone(),
            joined,
        })
    }

    fn is_throttled(&self, initiator: &IscsiName) -> bool {
        self.target
            .throttle()
            .is_throttled(initiator, self.peer.ip(), self.now_ns)
    }

    fn proven(&self, initiator: &IscsiName, right: bool) {
        self.target
            .throttle()
            .proven(initiator, self.peer.ip(), right, self.now_ns);
    }

    fn random(&self, out: &mut [u8]) {
        io::rng::fill(out);
    }
}

impl Core {
    /// A PDU before full feature phase.
    pub(super) fn login_pdu(&mut self, bhs: &Bhs, data: &[u8]) {
        let request = LoginRequest::parse(bhs);
        if bhs.opcode() != Some(Opcode::LoginRequest) {
            // §6.3: nothing else may come. Who has not even begun gets no answer.
            self.complaint = Some("not a login request");
            let begun = self.login.as_ref().is_some_and(|l| l.initiator().is_some());
            if begun {
                let no = Refusal::Status(LoginStatus::INVALID_DURING_LOGIN);
                return self.send_login(&request, refuse(&request, no));
            }
            return self.end(CloseReason::Protocol);
        }
        let depth = self.target().config.command_window;
        self.login_window = (request.cmd_sn, request.cmd_sn.plus(depth - 1));
        let Some(mut login) = self.login.take() else {
            return;
        };
        let target = self.target().clone();
        let step = login.request(&request, data, &self.gate(&target));
        self.login = Some(login);
        self.send_login(&request, step);
    }

    fn gate<'a>(&self, target: &'a Shared) -> Gate<'a> {
        Gate {
            target,
            local: self.link.local(),
            peer: self.link.peer(),
            now_ns: self.link.now().as_nanos(),
        }
    }

    /// Whether a login that did everything right is let in by what holds now, at the transition to full feature phase
    /// (§6.3.2): lists and secrets may have changed since its first request.
    fn is_still_admitted(&self, who: &LoggedIn) -> Result<(), Refusal> {
        let admission = self.gate(self.target()).admit(&who.applicant)?;
        let proved = who.proved.as_ref().map(|p| &p.initiator);
        match admission.chap {
            Some(asked) if proved != Some(&asked.initiator) => {
                refused(LoginStatus::AUTHENTICATION_FAILURE)
            }
            _ => Ok(()),
        }
    }

    /// The same once the session exists: its target is the one that is served under the name now.
    fn is_current(&self, member: &Member, who: &LoggedIn) -> Result<(), Refusal> {
        let served = who.applicant.target.as_ref();
        let served = served.and_then(|name| self.target().entry(name));
        if let SessionKind::Normal { entry, .. } = &member.session.kind
            && !served.is_some_and(|s| Arc::ptr_eq(&s, entry))
        {
            return refused(LoginStatus::TARGET_REMOVED);
        }
        self.is_still_admitted(who)
    }

    fn send_login(&mut self, request: &LoginRequest, step: Step) {
        let Step {
            response,
            status,
            text,
            then,
        } = step;
        match then {
            Then::Continue => self.put_login(&response, &text),
            Then::Close => {
                self.target().counters.refused(status);
                self.complaint = self.complaint.or(Some(status.words()));
                self.put_login(&response, &text);
                self.close_after_output(CloseReason::LoginRefused);
            }
            Then::Finish(who) => self.reinstate(*request, response, text, who),
        }
    }

    fn put_login(&mut self, response: &LoginResponse, text: &[u8]) {
        let mut bhs = response.build();
        self.stamp_status(&mut bhs);
        self.send(bhs, text);
    }

    /// Ends what this login replaces, and establishes the session when that has ended.
    fn reinstate(
        &mut self,
        request: LoginRequest,
        response: LoginResponse,
        text: Vec<u8>,
        who: Box<LoggedIn>,
    ) {
        if let Err(refusal) = self.is_still_admitted(&who) {
            return self.send_login(&request, refuse(&request, refusal));
        }
        let a = &who.applicant;
        let target = self.target().clone();
        let replaced = match a.tsih {
            0 => target.session_of(a).map(|s| s.connections.all()),
            tsih => target
                .session(tsih)
                .and_then(|s| s.connection(a.cid))
                .map(|c| vec![c]),
        };
        let joined = (a.tsih != 0).then(|| target.session(a.tsih)).flatten();
        let joining = joined.map(|session| {
            session.joining();
            Joining { target, session }
        });
        let old: Vec<oneshot::Receiver<()>> = replaced
            .iter()
            .flatten()
            .filter_map(|c| c.replace())
            .collect();
        if old.is_empty() {
            return self.establish(&request, response, &text, &who);
        }
        self.enter(ConnectionState::Reinstating);
        let me = self.me.clone();
        drop(spawn(async move {
            for ended in old {
                ended.await;
            }
            if let Some(conn) = me.upgrade() {
                let mut core = conn.core.borrow_mut();
                if core.state() == ConnectionState::Reinstating && core.ending().is_none() {
                    // Another login may have been faster.
                    core.reinstate(request, response, text, who);
                    core.link.waker().wake_by_ref();
                }
            }
            drop(joining);
        }));
    }

    /// Makes the session, or joins it, and says so.
    fn establish(
        &mut self,
        request: &LoginRequest,
        mut response: LoginResponse,
        text: &[u8],
        who: &LoggedIn,
    ) {
        let joined = self.join(request, who).map_err(Refusal::Status);
        // A change of access either saw the session just made and ends it, or is seen here.
        let admitted = joined.and_then(|member| match self.is_current(&member, who) {
            Ok(()) => Ok(member),
            Err(refusal) => {
                self.target().left(&member);
                Err(refusal)
            }
        });
        let member = match admitted {
            Ok(member) => member,
            Err(refusal) => return self.send_login(request, refuse(request, refusal)),
        };
        response.tsih = member.session.tsih;
        let discovery = matches!(member.session.kind, SessionKind::Discovery);
        self.link.account().belongs_to(HostKey::named(
            member.session.initiator.as_str(),
            self.link.peer().ip(),
        ));
        self.member = Some(member);
        self.put_login(&response, text);
        self.parameters = who.parameters;
        self.rules = Rules {
            header_digest: who.parameters.header_digest,
            data_digest: who.parameters.data_digest,
            data_max: who.parameters.max_recv_data,
        };
        self.login = None;
        self.target()
            .counters
            .logins
            .fetch_add(1, Ordering::Relaxed);
        self.enter(if discovery {
            ConnectionState::Discovery
        } else {
            ConnectionState::FullFeature
        });
        tracing::info!(peer = %self.link.peer(), initiator = %who.applicant.initiator,
            target = who.applicant.target.as_ref().map(|t| t.as_str()), "logged in");
    }

    fn join(&mut self, request: &LoginRequest, who: &LoggedIn) -> Result<Member, LoginStatus> {
        let a = &who.applicant;
        let alive = Arc::new(Alive::default());
        let addresses = (self.link.local(), self.link.peer());
        let signal = self.link.signal().clone();
        let handle = ConnectionHandle::new(a.cid, addresses, who.parameters, signal, &alive);
        let handle = Arc::new(handle);
        let place = match a.target {
            None => self.link.place().discovery(),
            Some(_) => {
                let listed = self.target().is_listed(who);
                self.link.place().established(listed, a.tsih == 0)
            }
        };
        place.map_err(|_| LoginStatus::OUT_OF_RESOURCES)?;
        let session = match a.tsih {
            0 => self.new_session(request, who)?,
            tsih => self
                .target()
                .session(tsih)
                .ok_or(LoginStatus::SESSION_DOES_NOT_EXIST)?,
        };
        session
            .add(handle.clone())
            .map_err(|_| LoginStatus::TOO_MANY_CONNECTIONS)?;
        Ok(Member {
            session,
            handle,
            alive,
        })
    }

    fn new_session(
        &self,
        request: &LoginRequest,
        who: &LoggedIn,
    ) -> Result<Arc<Session>, LoginStatus> {
        let a = &who.applicant;
        let target = self.target();
        let connections = Arc::new(Connections::default());
        let kind = match &a.target {
            None => SessionKind::Discovery,
            Some(name) => {
                // It may have gone while the initiator proved itself.
                let entry = target.entry(name).ok_or(LoginStatus::TARGET_REMOVED)?;
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
            parameters: who.parameters,
            authenticated: who.proved.is_some(),
            connections,
            first: request.cmd_sn,
            depth: target.config.command_window,
        };
        let listed = target.is_listed(who);
        target
            .add_session(new, listed)
            .ok_or(LoginStatus::OUT_OF_RESOURCES)
    }
}
