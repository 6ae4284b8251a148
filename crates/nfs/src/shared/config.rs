//! Configuration of the service.

use crate::client::Bounds;
use crate::identity::IdentityConfig;
use crate::limits::CONNECTION_REQUESTS_MAX;
use crate::shared::records::{ClientStore, NoClientStore};
use filestate::limits::{DELEGATIONS_MAX, STATES_MAX};
use session::admission::AdmissionLimits;
use std::sync::Arc;
use std::time::Duration;

/// The delegations that clients get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delegations {
    /// None.
    None,
    /// For reading.
    Read,
    /// For reading, and for writing.
    Write,
}

/// The configuration of the service.
#[derive(Debug, Clone)]
pub struct ServiceConfig {
    /// The secret key of file handles: random, and the same after a restart, or else every handle is unknown afterwards.
    pub handle_key: [u8; 16],
    /// The server's name among servers (`so_major_id` and `eir_server_scope`): unique, and the same after a restart.
    pub server: String,
    /// Client owners that had state before a restart, as `records` kept them: they may reclaim it in the grace period. Without any there is no grace period.
    pub reclaimers: Vec<Vec<u8>>,
    /// How users and groups are looked up. Without it they are numbers, and callers have the groups of their credentials.
    pub identity: Option<IdentityConfig>,
    /// Keeps the owners of clients with state, for `reclaimers` after a restart.
    pub records: Arc<dyn ClientStore>,
    /// The grace period.
    pub grace: Duration,
    /// Time for which a client keeps its state without a renewal.
    pub lease: Duration,
    /// Further time for which state is kept unless it is in the way.
    pub courtesy: Duration,
    /// Most client records.
    pub clients_max: usize,
    /// Most sessions of one client.
    pub sessions_max: usize,
    /// Most slots of all sessions. Each may keep a reply of [`crate::limits::CACHED_REPLY_MAX`] bytes.
    pub slots_max: usize,
    /// Most connections with a session.
    pub connections_max: usize,
    /// Most connections without a session; for a new one an old one is closed.
    pub connecting_max: usize,
    /// Bytes of buffers that one connection may hold.
    pub connection_budget: usize,
    /// How long a connection may be without a session, and without a TLS handshake.
    pub establish_timeout: Duration,
    /// How long a TLS handshake may take.
    pub handshake_timeout: Duration,
    /// How long the rest of a request may take, in addition to the time for its bytes.
    pub data_timeout: Duration,
    /// The delegations that clients get. Every other user of the files must use them through
    /// [`crate::service::Service::guarded`].
    pub delegations: Delegations,
    /// Most delegations. While less than an eighth is left, clients are asked to return some.
    pub delegations_max: usize,
    /// Most opens, lock states and delegations of all clients.
    pub states_max: usize,
    /// How long a client may keep a delegation that is recalled, before it is revoked.
    pub recall_timeout: Duration,
    /// How long a client may take to answer a callback.
    pub callback_timeout: Duration,
    /// How long replies may lie unsent because the client does not read.
    pub stall_timeout: Duration,
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self {
            handle_key: [0; 16],
            server: "wirepool".into(),
            reclaimers: Vec::new(),
            identity: None,
            records: Arc::new(NoClientStore),
            grace: Duration::from_secs(90),
            lease: Duration::from_secs(90),
            courtesy: Duration::from_secs(24 * 3600),
            clients_max: 4096,
            sessions_max: 16,
            slots_max: 65_536,
            connections_max: 4096,
            connecting_max: 1024,
            connection_budget: 16 << 20,
            establish_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(30),
            data_timeout: Duration::from_secs(30),
            delegations: Delegations::Write,
            delegations_max: DELEGATIONS_MAX,
            states_max: STATES_MAX,
            recall_timeout: Duration::from_secs(60),
            callback_timeout: Duration::from_secs(10),
            stall_timeout: Duration::from_secs(30),
        }
    }
}

impl ServiceConfig {
    /// The limits of connections by phase.
    pub(crate) fn admission(&self) -> AdmissionLimits {
        AdmissionLimits {
            connections_max: self.connections_max,
            connecting_max: self.connecting_max,
            discovery_max: 1,
            companions: CONNECTION_REQUESTS_MAX,
        }
    }

    /// The limits of client records.
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            lease: self.lease,
            courtesy: self.courtesy,
            clients_max: self.clients_max,
            sessions_max: self.sessions_max,
            slots_max: self.slots_max,
        }
    }
}
