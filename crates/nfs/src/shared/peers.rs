//! Open connections and their clients, as the control plane sees them.
//!
//! **Owns** [`Peers`]. **Called by** connections, once per turn, and by control calls. **Invariants**: an open connection is in the
//! register until it ends; it belongs to the client whose session was used on it last.

use super::counters::CloseReason;
use crate::client::ConnectionInfo;
use crate::transport::NfsTransport;
use io::sync::lock;
use session::latency::{CommandLatency, LatencySums};
use session::signal::{INFO, Signal};
use session::tally::Totals;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use tls::Session;

/// An open connection.
pub(crate) struct Peer {
    peer: SocketAddr,
    local: SocketAddr,
    transport: NfsTransport,
    shard: String,
    signal: Arc<Signal<CloseReason>>,
    /// The client ID; 0 if no session was used.
    client: AtomicU64,
    minor: AtomicU32,
    tls: OnceLock<Session>,
    pub(crate) totals: Mutex<Totals>,
}

impl Peer {
    pub(crate) fn new(
        (local, peer): (SocketAddr, SocketAddr),
        transport: NfsTransport,
        signal: Arc<Signal<CloseReason>>,
    ) -> Self {
        Self {
            peer,
            local,
            transport,
            shard: std::thread::current().name().unwrap_or("main").to_owned(),
            signal,
            client: AtomicU64::new(0),
            minor: AtomicU32::new(0),
            tls: OnceLock::new(),
            totals: Mutex::default(),
        }
    }

    /// A session of this client was used with this minor version. Returns whether another client, or none, used the connection
    /// before.
    pub(crate) fn used_by(&self, client: u64, minor: u32) -> bool {
        self.minor.store(minor, Ordering::Relaxed);
        self.client.swap(client, Ordering::Relaxed) != client
    }

    /// A TLS handshake succeeded.
    pub(crate) fn secured(&self, session: Session) {
        // There is one handshake for a connection.
        let _ = self.tls.set(session);
    }

    fn info(&self, sums: &mut LatencySums) -> ConnectionInfo {
        self.signal.raise(INFO);
        let totals = lock(&self.totals);
        totals.latencies.add_to(sums);
        ConnectionInfo {
            peer: self.peer,
            local: self.local,
            transport: self.transport,
            shard: self.shard.clone(),
            tls: self.tls.get().cloned(),
            tcp: totals.carrier.tcp(),
            rdma: totals.carrier.rdma().cloned(),
            in_flight: totals.in_flight,
            bytes_in: totals.bytes_in,
            bytes_out: totals.bytes_out,
            requests: totals.commands,
            failures: totals.errors,
        }
    }
}

/// The open connections, by their key.
#[derive(Default)]
pub(crate) struct Peers(Mutex<BTreeMap<usize, Arc<Peer>>>);

impl Peers {
    pub(crate) fn insert(&self, key: usize, peer: Arc<Peer>) {
        lock(&self.0).insert(key, peer);
    }

    pub(crate) fn remove(&self, key: usize) {
        lock(&self.0).remove(&key);
    }

    fn of(&self, client: u64) -> Vec<Arc<Peer>> {
        let all = lock(&self.0);
        let is_its = |peer: &&Arc<Peer>| peer.client.load(Ordering::Relaxed) == client;
        all.values().filter(is_its).cloned().collect()
    }

    /// Closes the connections of a client.
    pub(crate) fn close(&self, client: u64) {
        for peer in self.of(client) {
            peer.signal.close(CloseReason::Administrator);
        }
    }

    /// The connections of a client, the latencies of their requests by kind, and the highest minor version on them.
    pub(crate) fn infos(&self, client: u64) -> (Vec<ConnectionInfo>, Vec<CommandLatency>, u32) {
        let mut sums = LatencySums::default();
        let peers = self.of(client);
        let connections = peers.iter().map(|peer| peer.info(&mut sums)).collect();
        let minors = peers.iter().map(|peer| peer.minor.load(Ordering::Relaxed));
        (connections, sums.summary(), minors.max().unwrap_or(0))
    }
}
