//! One connection: RPC records in, replies out.
//!
//! | module | owns |
//! |---|---|
//! | `serve` | a connection from its begin to its end, and its turns |
//! | `receive` | records from the byte stream |
//! | `upgrade` | TLS, from the probe to the end of the handshake |
//! | `rdma` | the same over RDMA: records from messages and from the client's memory, replies into it |
//! | `framing` | the form that records have on the connection |
//! | `request` | requests that have arrived |
//! | `execute` | requests that are being executed, and their replies |
//!
//! **Owns** the order in which a connection works. **Called by** [`crate::service::Service::serve`] and
//! [`crate::service::Service::serve_rdma`], once per connection, on the shard that owns it. **Invariants**: one task per connection polls receiver, sender and timer, so that a turn is one wake-up.
//! Requests are executed side by side, and a request whose reply is known at once costs no task. Every wait for the client has a
//! deadline, and the bytes that a connection may hold of the buffer pool are bounded by its budget.

mod execute;
mod framing;
mod rdma;
mod receive;
mod request;
mod serve;
mod upgrade;

pub(crate) use rdma::serve_rdma;
pub(crate) use serve::serve;

use crate::client::CallbackPath;
use crate::export::{Protection, Standing};
use crate::limits::CONNECTION_REQUESTS_MAX;
use crate::shared::Shared;
use crate::shared::counters::{CloseReason, ConnectionState};
use crate::shared::peers::Peer;
use framing::AnyFraming;
use io::time::Instant;
use session::carrier::Carrier;
use session::link::Link;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

/// Silence after which the kernel probes the client of an established connection.
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// A connection: its carrier, and its state.
struct Connection<C> {
    carrier: C,
    core: RefCell<Core>,
}

/// The state of a connection.
struct Core {
    shared: Arc<Shared>,
    link: Link<CloseReason>,
    framing: AnyFraming,
    /// The connection in the register.
    register: Arc<Peer>,
    /// The connection, as callbacks use it.
    path: Arc<CallbackPath>,
    state: ConnectionState,
    /// When the state began.
    state_since: Instant,
    /// How the connection is protected.
    protection: Protection,
    /// Requests that are being executed.
    running: usize,
    is_draining: bool,
    complaint: Option<String>,
}

impl Core {
    /// Sends callbacks that were added.
    fn send_callbacks(&mut self) {
        let records = self.path.take_unsent(self.framing.calls_allowed());
        for record in records {
            self.framing.put_call(self.link.output_mut(), record);
        }
    }

    /// Whether no further request is taken now.
    fn is_busy(&self) -> bool {
        self.is_draining || self.running >= CONNECTION_REQUESTS_MAX
    }

    /// Bytes arrived.
    fn arrived(&mut self, bytes: usize) {
        self.link.tally().received(bytes);
        if self.link.transfer_due().is_some() {
            self.link.data_received(bytes);
        }
    }

    /// The deadline of the phase.
    fn phase_deadline(&self) -> Option<Instant> {
        let config = &self.shared.config;
        match self.state {
            ConnectionState::Connecting => Some(self.state_since + config.establish_timeout),
            ConnectionState::Handshaking => Some(self.state_since + config.handshake_timeout),
            ConnectionState::Established => None,
        }
    }

    /// The deadline of the phase has passed.
    fn end_phase(&mut self) {
        self.link.end(match self.state {
            ConnectionState::Handshaking => CloseReason::HandshakeTimeout,
            ConnectionState::Connecting | ConnectionState::Established => CloseReason::NoSession,
        });
    }

    /// The next state begins.
    fn enter(&mut self, state: ConnectionState) {
        let counters = &self.shared.connections.counters;
        counters.moved(Some(self.state), Some(state));
        self.state = state;
        self.state_since = self.link.now();
    }

    /// A session is used on the connection.
    fn established(&mut self, carrier: &impl Carrier) {
        if self.state == ConnectionState::Established {
            return;
        }
        let is_listed = match self.shared.tree().standing(self.link.peer().ip()) {
            // It keeps no place from hosts that an export admits: the connection ends after the time for a session.
            Standing::Stranger => return,
            Standing::Admitted => false,
            Standing::Listed => true,
        };
        if self.link.place().established(is_listed, true).is_err() {
            return self.link.end(CloseReason::Limit);
        }
        self.enter(ConnectionState::Established);
        carrier.probe_silent(PROBE_AFTER);
    }

    fn log(&self, why: CloseReason) {
        let peer = self.link.peer();
        let log = &self.shared.connections.counters.log;
        if !why.is_trouble() {
            tracing::debug!(%peer, "NFS connection ended: {why:?}");
        } else if log.may_log(self.link.now()) {
            let error = self.complaint.as_deref().unwrap_or("none");
            tracing::warn!(%peer, error, "NFS connection ended: {why:?}");
        }
    }
}
