//! Admission of logins: the targets, lists and secrets that the login machine asks for.
//!
//! **Called by** the login machine and, when the machine has finished, by the connection. **Invariants**: a login is admitted by the
//! rules that hold at its end (§6.3.2), not by the rules at its first request.

use super::config::IscsiTransport;
use super::session::SessionKind;
use super::shared::PortalShared;
use crate::login::{Admission, Applicant, LoggedIn, Realm, Refusal};
use crate::wire::IscsiName;
use crate::wire::response::LoginStatus;
use session::refused::{RefusalReason, RefusedHost};
use std::net::SocketAddr;
use std::sync::Arc;

/// The service as the login machine of one connection sees it.
pub(crate) struct Gate<'a> {
    pub(crate) target: &'a PortalShared,
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
    pub(crate) now_ns: u64,
    /// The transport of the connection.
    pub(crate) transport: IscsiTransport,
}

fn refused<T>(status: LoginStatus) -> Result<T, Refusal> {
    Err(Refusal::Status(status))
}

impl Gate<'_> {
    /// Whether a finished login is admitted by the lists and secrets of now.
    pub(crate) fn still_admits(&self, who: &LoggedIn) -> Result<(), Refusal> {
        let admission = self.admit(&who.applicant)?;
        let proved = who.proved.as_ref().map(|p| &p.initiator);
        match admission.chap {
            Some(asked) if proved != Some(&asked.initiator) => {
                refused(LoginStatus::AUTHENTICATION_FAILURE)
            }
            _ => Ok(()),
        }
    }

    /// The same for a login whose session exists: the session's target must be the one that is served under the name now.
    pub(crate) fn still_admits_to(
        &self,
        session: &SessionKind,
        who: &LoggedIn,
    ) -> Result<(), Refusal> {
        let served = who.applicant.target.as_ref();
        let served = served.and_then(|name| self.target.entry(name));
        if let SessionKind::Normal { entry, .. } = session
            && !served.is_some_and(|s| Arc::ptr_eq(&s, entry))
        {
            return refused(LoginStatus::TARGET_REMOVED);
        }
        self.still_admits(who)
    }
}

impl Gate<'_> {
    /// The target's access list refuses an initiator: it is logged and remembered.
    fn note_refused(&self, initiator: &IscsiName, target: &IscsiName, reason: RefusalReason) {
        let why = match reason {
            RefusalReason::NotListed => "the initiator is not on the list",
            RefusalReason::NoSecret => "the initiator has no secret",
            RefusalReason::UnprivilegedPort => "the initiator's port is not privileged",
            RefusalReason::Transport => "the target is not served over this transport",
        };
        let connections = &self.target.connections;
        if connections.counters.log.may_log(io::time::now()) {
            tracing::warn!(peer = %self.peer, %initiator, %target, why, "login refused");
        }
        let host = RefusedHost {
            name: initiator.as_str().to_owned(),
            address: self.peer.ip(),
            export: target.as_str().to_owned(),
        };
        connections.refused.note(host, reason);
    }
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
        if !self.target.serves(&entry, self.local, self.transport) {
            return refused(LoginStatus::NOT_FOUND);
        }
        if !entry.allows(&who.initiator) {
            self.note_refused(&who.initiator, name, RefusalReason::NotListed);
            return Err(Refusal::Forbidden(LoginStatus::AUTHORIZATION_FAILURE));
        }
        let Ok(chap) = entry.chap_for(&who.initiator) else {
            self.note_refused(&who.initiator, name, RefusalReason::NoSecret);
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
                // Connections of a session have one transport: its parameters depend on it.
                Some(s)
                    if s.is_of(&who.initiator, who.isid, Some(name))
                        && s.transport == self.transport =>
                {
                    Some(s.parameters)
                }
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
