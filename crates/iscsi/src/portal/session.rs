//! A session: state that its connections share, and its description for users.
//!
//! **Owns** the command window, the handles of the connections, and the nexus. **Called by** connections on any shard and
//! by the control plane. **Invariants**: every mutex is held for a few instructions and never across an await; the
//! session ends with its last connection; every command of an older session of the same initiator port has ended when
//! this one begins (§6.3.5).

use super::config::{IscsiTransport, SessionParameters};
use super::counters::CloseReason;
use super::entry::TargetEntry;
use super::window::{Verdict, Window};
use crate::wire::{IscsiName, Isid, Itt, Lun, Sn};
use io::net::TcpInfo;
use io::rdma::RdmaInfo;
use io::sync::lock;
use io::sync::oneshot;
use io::time::Instant;
use session::latency::{CommandLatency, LatencySums};
use session::signal::{ABORT, INFO, OWN};
use session::tally::Totals;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Held by commands whose end a task management function waits for. The function is woken when the last holder drops it.
pub(crate) type Barrier = Arc<oneshot::Sender<()>>;

/// Lives as long as a connection, or a command of it at the backend. A login that replaces the connection waits for its end.
#[derive(Default)]
pub(crate) struct Alive(Mutex<Vec<oneshot::Sender<()>>>);

/// Close reason and flags of a connection, set by others.
pub(crate) type Signal = session::signal::Signal<CloseReason>;

/// Flag: the turn of held commands has come.
pub(crate) const RELEASE: u32 = OWN;

/// Which commands of a connection to abort.
#[derive(Clone)]
pub(crate) struct AbortOrder {
    /// Only commands of this logical unit; `None` means all.
    pub(crate) lun: Option<scsi::Lun>,
    /// Whether they end with TASK ABORTED status; else they end without a reply.
    pub(crate) task_aborted: bool,
    /// Tag of a request that is not aborted.
    pub(crate) except: Option<Itt>,
    /// Held until the commands have ended.
    pub(crate) barrier: Option<Barrier>,
}

impl AbortOrder {
    pub(crate) fn covers(&self, lun: Lun, itt: Itt) -> bool {
        self.except != Some(itt)
            && self
                .lun
                .is_none_or(|wanted| scsi::Lun::parse(lun.0) == Some(wanted))
    }
}

/// The totals of one connection, as others see them.
#[derive(Default)]
pub(crate) struct ConnectionTotals {
    pub(crate) shared: Totals,
    /// When bytes last arrived from the initiator; `None` until the first publication.
    pub(crate) heard_at: Option<Instant>,
}

/// A connection as others see it.
pub(crate) struct ConnectionHandle {
    pub(crate) cid: u16,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) shard: String,
    pub(crate) parameters: SessionParameters,
    pub(crate) signal: Arc<Signal>,
    pub(crate) totals: Mutex<ConnectionTotals>,
    orders: Mutex<Vec<AbortOrder>>,
    alive: Weak<Alive>,
}

impl ConnectionHandle {
    pub(crate) fn new(
        cid: u16,
        (local, peer): (SocketAddr, SocketAddr),
        parameters: SessionParameters,
        signal: Arc<Signal>,
        alive: &Arc<Alive>,
    ) -> ConnectionHandle {
        ConnectionHandle {
            cid,
            peer,
            local,
            shard: std::thread::current().name().unwrap_or("main").to_owned(),
            parameters,
            signal,
            totals: Mutex::default(),
            orders: Mutex::default(),
            alive: Arc::downgrade(alive),
        }
    }

    pub(crate) fn take_orders(&self) -> Vec<AbortOrder> {
        std::mem::take(&mut *lock(&self.orders))
    }

    fn order(&self, order: AbortOrder) {
        lock(&self.orders).push(order);
        self.signal.raise(ABORT);
    }

    /// Ends the connection. The receiver reports the end of its last command at the backend; `None` if it has ended before.
    pub(crate) fn replace(&self) -> Option<oneshot::Receiver<()>> {
        self.signal.close(CloseReason::Reinstated);
        let alive = self.alive.upgrade()?;
        let (end, ended) = oneshot::channel();
        lock(&alive.0).push(end);
        Some(ended)
    }
}

/// The connections of a session. A type of its own, because the nexus refers to them.
#[derive(Default)]
pub(crate) struct Connections(Mutex<BTreeMap<u16, Arc<ConnectionHandle>>>);

impl Connections {
    pub(crate) fn all(&self) -> Vec<Arc<ConnectionHandle>> {
        lock(&self.0).values().cloned().collect()
    }

    pub(crate) fn order(&self, order: &AbortOrder) {
        for c in self.all() {
            c.order(order.clone());
        }
    }

    pub(crate) fn close(&self, why: CloseReason) {
        for c in self.all() {
            c.signal.close(why);
        }
    }
}

impl scsi::TaskAborter for Connections {
    fn abort_tasks(&self, lun: Option<scsi::Lun>, task_aborted: bool) {
        self.order(&AbortOrder {
            lun,
            task_aborted,
            except: None,
            barrier: None,
        });
    }
}

/// Kind of a session.
#[derive(Clone)]
pub(crate) enum SessionKind {
    /// A target's logical units.
    Normal {
        entry: Arc<TargetEntry>,
        nexus: Arc<scsi::Nexus>,
    },
    /// Discovery.
    Discovery,
}

/// A session.
pub(crate) struct Session {
    pub(crate) tsih: u16,
    pub(crate) isid: Isid,
    pub(crate) initiator: IscsiName,
    pub(crate) alias: Option<String>,
    pub(crate) kind: SessionKind,
    pub(crate) transport: IscsiTransport,
    pub(crate) parameters: SessionParameters,
    pub(crate) authenticated: bool,
    pub(crate) connections: Arc<Connections>,
    pub(crate) since_ms: u64,
    /// Logins that are replacing one of its connections.
    joining: AtomicU32,
    window: Mutex<Window>,
}

/// Parameters of a new session.
pub(crate) struct NewSession {
    pub(crate) isid: Isid,
    pub(crate) initiator: IscsiName,
    pub(crate) alias: Option<String>,
    pub(crate) kind: SessionKind,
    pub(crate) transport: IscsiTransport,
    pub(crate) parameters: SessionParameters,
    pub(crate) authenticated: bool,
    pub(crate) connections: Arc<Connections>,
    pub(crate) first: Sn,
    pub(crate) depth: u32,
}

impl Session {
    pub(crate) fn new(tsih: u16, n: NewSession) -> Session {
        Session {
            tsih,
            isid: n.isid,
            initiator: n.initiator,
            alias: n.alias,
            kind: n.kind,
            transport: n.transport,
            parameters: n.parameters,
            authenticated: n.authenticated,
            connections: n.connections,
            since_ms: io::time::wall_clock_ms(),
            joining: AtomicU32::new(0),
            window: Mutex::new(Window::new(n.first, n.depth)),
        }
    }

    /// Whether it is the session of this initiator port with this target (§4.4.1: the nexus).
    pub(crate) fn is_of(
        &self,
        initiator: &IscsiName,
        isid: Isid,
        target: Option<&IscsiName>,
    ) -> bool {
        self.isid == isid && self.initiator == *initiator && self.target() == target
    }

    pub(crate) fn target(&self) -> Option<&IscsiName> {
        self.entry().map(|entry| &entry.name)
    }

    /// The target of the session; none for discovery.
    pub(crate) fn entry(&self) -> Option<&Arc<TargetEntry>> {
        match &self.kind {
            SessionKind::Normal { entry, .. } => Some(entry),
            SessionKind::Discovery => None,
        }
    }

    pub(crate) fn edges(&self) -> (Sn, Sn) {
        lock(&self.window).edges()
    }

    pub(crate) fn is_open_to(&self, sn: Sn) -> bool {
        lock(&self.window).is_open_to(sn)
    }

    /// A command with this number has arrived. Held commands that can follow it are released on their connections.
    pub(crate) fn arrived(&self, sn: Sn) -> Verdict {
        let verdict = lock(&self.window).arrived(sn);
        if verdict == (Verdict::Deliver { more: true }) {
            for c in self.connections.all() {
                c.signal.raise(RELEASE);
            }
        }
        verdict
    }

    pub(crate) fn command_ended(&self) {
        lock(&self.window).ended();
    }

    /// Adds a connection. Errors: the session has the negotiated number of connections.
    pub(crate) fn add(&self, handle: Arc<ConnectionHandle>) -> Result<(), TooMany> {
        let mut all = lock(&self.connections.0);
        let most = usize::from(self.parameters.max_connections);
        if !all.contains_key(&handle.cid) && all.len() >= most {
            return Err(TooMany);
        }
        all.insert(handle.cid, handle);
        Ok(())
    }

    pub(crate) fn connection(&self, cid: u16) -> Option<Arc<ConnectionHandle>> {
        lock(&self.connections.0).get(&cid).cloned()
    }

    /// The session stays until [`Session::joined`], also if all of its connections end.
    pub(crate) fn joining(&self) {
        self.joining.fetch_add(1, Ordering::SeqCst);
    }

    /// A login has joined, or has given up. Returns whether the session has no connection.
    pub(crate) fn joined(&self) -> bool {
        let all = lock(&self.connections.0);
        self.joining.fetch_sub(1, Ordering::SeqCst) == 1 && all.is_empty()
    }

    /// A connection has ended. Returns whether it was the last.
    pub(crate) fn remove(&self, handle: &Arc<ConnectionHandle>) -> bool {
        let mut all = lock(&self.connections.0);
        if all.get(&handle.cid).is_some_and(|h| Arc::ptr_eq(h, handle)) {
            all.remove(&handle.cid);
        }
        all.is_empty() && self.joining.load(Ordering::SeqCst) == 0
    }

    pub(crate) fn info(&self) -> SessionInfo {
        let mut sums = LatencySums::default();
        let connections = self.connections.all();
        let connections = connections.iter().map(|c| c.info(&mut sums)).collect();
        SessionInfo {
            tsih: self.tsih,
            isid: self.isid,
            initiator: self.initiator.clone(),
            alias: self.alias.clone(),
            target: self.target().cloned(),
            transport: self.transport,
            authenticated: self.authenticated,
            parameters: self.parameters,
            connections,
            connected_at_ms: self.since_ms,
            latency: sums.summary(),
        }
    }
}

/// The session has the negotiated number of connections.
#[derive(Debug)]
pub(crate) struct TooMany;

impl ConnectionHandle {
    fn info(&self, sums: &mut LatencySums) -> ConnectionInfo {
        self.signal.raise(INFO);
        let totals = lock(&self.totals);
        let of_all = &totals.shared;
        of_all.latencies.add_to(sums);
        ConnectionInfo {
            cid: self.cid,
            peer: self.peer,
            local: self.local,
            shard: self.shard.clone(),
            header_digest: self.parameters.header_digest,
            data_digest: self.parameters.data_digest,
            tcp: of_all.carrier.tcp(),
            rdma: of_all.carrier.rdma().cloned(),
            in_flight: of_all.in_flight,
            silent: totals.heard_at.map_or(Duration::ZERO, Instant::elapsed),
            bytes_in: of_all.bytes_in,
            bytes_out: of_all.bytes_out,
            commands: of_all.commands,
            errors: of_all.errors,
        }
    }
}

/// One connection of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionInfo {
    /// CID.
    pub cid: u16,
    /// The initiator's address.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// The thread that serves it.
    pub shard: String,
    /// CRC32C over headers.
    pub header_digest: bool,
    /// CRC32C over data.
    pub data_digest: bool,
    /// The kernel's view of the connection, at most a second older than the last traffic; zeroes over RDMA.
    pub tcp: TcpInfo,
    /// The numbers of the queue pair, over RDMA.
    pub rdma: Option<RdmaInfo>,
    /// Commands without a reply now.
    pub in_flight: u64,
    /// Time since the initiator sent its last byte.
    pub silent: Duration,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// SCSI commands taken.
    pub commands: u64,
    /// SCSI commands that did not end with GOOD.
    pub errors: u64,
}

/// One session, as it is now.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionInfo {
    /// TSIH.
    pub tsih: u16,
    /// ISID.
    pub isid: Isid,
    /// InitiatorName.
    pub initiator: IscsiName,
    /// InitiatorAlias.
    pub alias: Option<String>,
    /// TargetName; none for a discovery session.
    pub target: Option<IscsiName>,
    /// The transport in use.
    pub transport: IscsiTransport,
    /// Whether the initiator has proven itself.
    pub authenticated: bool,
    /// Parameters negotiated on the leading connection.
    pub parameters: SessionParameters,
    /// Its connections.
    pub connections: Vec<ConnectionInfo>,
    /// When it logged in, milliseconds since 1970.
    pub connected_at_ms: u64,
    /// Latencies by kind, of all its connections.
    pub latency: Vec<CommandLatency>,
}
