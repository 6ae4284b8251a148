//! TLS on a connection (RFC 9289, section 4.1): the probe, its reply, the handshake.
//!
//! **Called by** the receiver. **Invariants**: TLS begins with the first byte behind the probe, after the reply has left: a byte that
//! came earlier may be anybody's, and ends the connection; a connection begins TLS once, and before it does anything else, so nothing of a request
//! or a session was sent without protection.

use super::framing::ReplyTo;
use super::{Connection, Core};
use crate::export::{Protection, Security};
use crate::rpc::{AuthStat, Probe, Reply};
use crate::shared::counters::{CloseReason, ConnectionState, Refusal};
use crate::xdr::Writer;
use session::staging::Staging;
use session::turn::until_drained;
use std::sync::atomic::Ordering;
use tls::{Acceptor, Session, Stream};

/// A probe arrived: it is refused, or TLS begins. Returns at the end of the handshake. Errors: the handshake failed.
pub(super) async fn probed(
    connection: &Connection<Stream>,
    probe: Probe,
    staging: &mut Staging,
) -> Result<(), CloseReason> {
    let admitted = connection.core.borrow_mut().admit(probe, connection);
    let Some((xid, acceptor)) = admitted else {
        return Ok(());
    };
    {
        let mut core = connection.core.borrow_mut();
        let mut reply = Writer::new();
        Probe::encode_start(xid, &mut reply);
        core.send(reply, None, ReplyTo::Stream);
        core.enter(ConnectionState::Handshaking);
    }
    until_drained(&connection.core, |_| false).await;
    let begun = match staging.area().readable() {
        [] => acceptor.engine().map_err(|e| e.to_string()),
        _ => Err("bytes came before the reply to the probe for TLS".to_owned()),
    };
    let shaken = match begun {
        Ok(engine) => {
            let started = connection.carrier.start(engine).await;
            started.map_err(|e| e.to_string())
        }
        Err(e) => Err(e),
    };
    let mut core = connection.core.borrow_mut();
    match shaken {
        Ok(session) => {
            core.secured(session);
            Ok(())
        }
        Err(e) => {
            core.complaint = Some(e);
            Err(CloseReason::Handshake)
        }
    }
}

impl Core {
    /// The number of a probe that TLS may follow, and what the handshake needs. `None` if it is refused: then it was answered.
    fn admit(&mut self, probe: Probe, connection: &Connection<Stream>) -> Option<(u32, Acceptor)> {
        let (xid, status, reason) = match probe {
            Probe::Refused(xid, status) => (xid, status, "it is no NULL call without contents"),
            Probe::Start(xid) if connection.carrier.is_started() => {
                (xid, AuthStat::BadCredential, "the connection has TLS")
            }
            Probe::Start(xid) if !self.is_fresh() => {
                (xid, AuthStat::BadCredential, "the connection is in use")
            }
            Probe::Start(xid) => match self.shared.tls() {
                Some(acceptor) => return Some((xid, acceptor)),
                None => (xid, AuthStat::BadCredential, "no certificate is configured"),
            },
        };
        let counters = &self.shared.counters;
        counters.probes_refused.fetch_add(1, Ordering::Relaxed);
        counters.refused.add(Refusal::Credential);
        if self
            .shared
            .connections
            .counters
            .log
            .may_log(self.link.now())
        {
            let peer = self.link.peer();
            tracing::warn!(%peer, "a request for TLS over NFS was refused: {reason}");
        }
        let mut reply = Writer::new();
        Reply::AuthError(status).encode(xid, &mut reply);
        self.send(reply, None, ReplyTo::Stream);
        None
    }

    /// Whether nothing was done, and nothing is under way.
    fn is_fresh(&self) -> bool {
        self.state == ConnectionState::Connecting
            && self.running == 0
            && self.link.output().is_empty()
    }

    /// The handshake succeeded.
    fn secured(&mut self, session: Session) {
        self.protection = Protection {
            security: match session.peer {
                Some(_) => Security::MutualTls,
                None => Security::Tls,
            },
            identity: session.identity.clone(),
        };
        let peer = self.link.peer();
        let client = session.peer.as_deref().unwrap_or("none");
        tracing::debug!(%peer, cipher = session.cipher, certificate = client, "NFS with TLS");
        self.register.secured(session);
        let count = &self.shared.counters.handshakes;
        count.fetch_add(1, Ordering::Relaxed);
        self.enter(ConnectionState::Connecting);
    }
}
