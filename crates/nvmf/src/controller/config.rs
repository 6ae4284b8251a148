//! Configuration of a target: limits, subsystems, namespaces, ports.

use super::limits;
use crate::wire::log::TransportType;
use crate::wire::nqn::Nqn;
use backend::BlockBackend;
use session::admission::AdmissionLimits;
use session::reservation::ReservationStore;
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use uuid::Uuid;

/// The configuration of the whole target. Values above the named limits are lowered to them.
#[derive(Debug, Clone)]
pub struct TargetConfig {
    /// Firmware revision shown to hosts, at most 8 characters.
    pub firmware: String,
    /// In-capsule data of I/O queues, bytes; a multiple of 16.
    pub in_capsule: u32,
    /// Most data of one command, bytes; a power of two from 4096 on.
    pub mdts: u32,
    /// Most I/O queues of one controller.
    pub io_queues_max: u16,
    /// Most entries of one I/O queue.
    pub queue_depth_max: u16,
    /// Receives that connections over RDMA share, for each thread and device; 0: each has one for each entry of its queue.
    pub rdma_shared_receives: u32,
    /// Whether hosts may ask for header digests.
    pub header_digest: bool,
    /// Whether hosts may ask for data digests.
    pub data_digest: bool,
    /// Most connections that are queues of I/O controllers; further ones are refused. Also bounds all connections
    /// together.
    pub connections_max: usize,
    /// Most connections without a Connect; for a new one an old one is closed ([`session::admission`]).
    pub connecting_max: usize,
    /// Most discovery controllers; for a new one an old one is closed.
    pub discovery_max: usize,
    /// Most I/O controllers; further ones are refused.
    pub controllers_max: usize,
    /// Bytes of buffers that one connection may hold: data on its way to the host or from it.
    pub connection_budget: usize,
    /// How long after the connection ICReq may take, and how long after that Connect.
    pub establish_timeout: Duration,
    /// How long the data that an R2T asked for may take.
    pub data_timeout: Duration,
    /// How long replies may lie unsent because the host does not read.
    pub stall_timeout: Duration,
    /// How long a host has to close the connection after a termination request.
    pub linger: Duration,
    /// The longest keep alive timeout that is granted.
    pub keep_alive_max: Duration,
}

impl Default for TargetConfig {
    fn default() -> Self {
        TargetConfig {
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
            in_capsule: 8192,
            mdts: limits::MDTS_MAX,
            io_queues_max: limits::IO_QUEUES_MAX,
            queue_depth_max: limits::QUEUE_DEPTH_MAX,
            rdma_shared_receives: 0,
            header_digest: true,
            data_digest: true,
            connections_max: 4096,
            connecting_max: 1024,
            discovery_max: 256,
            controllers_max: 1024,
            connection_budget: 8 << 20,
            establish_timeout: Duration::from_secs(10),
            data_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            keep_alive_max: Duration::from_secs(3600),
        }
    }
}

impl TargetConfig {
    /// The limits by phase.
    pub(crate) fn admission(&self) -> AdmissionLimits {
        AdmissionLimits {
            connections_max: self.connections_max,
            connecting_max: self.connecting_max,
            discovery_max: self.discovery_max,
            companions: usize::from(self.io_queues_max),
        }
    }

    /// Most in-capsule data of an I/O queue, bytes. Over RDMA each receive has room for it, so there it is less.
    pub(crate) fn in_capsule(&self, transport: Transport) -> u32 {
        match transport {
            Transport::Tcp => self.in_capsule,
            Transport::Rdma => self.in_capsule.min(limits::RDMA_IN_CAPSULE_MAX),
        }
    }

    /// Most entries of an I/O queue. Over RDMA each entry has a receive, so there they are fewer.
    pub(crate) fn queue_depth(&self, transport: Transport) -> u16 {
        match transport {
            Transport::Tcp => self.queue_depth_max,
            Transport::Rdma => self.queue_depth_max.min(limits::RDMA_QUEUE_DEPTH_MAX),
        }
    }

    /// The same within the named limits.
    pub(crate) fn bounded(mut self) -> TargetConfig {
        self.in_capsule = self.in_capsule.min(limits::IN_CAPSULE_MAX) / 16 * 16;
        let mdts = self.mdts.clamp(4096, limits::MDTS_MAX);
        self.mdts = 1 << mdts.ilog2();
        self.io_queues_max = self.io_queues_max.clamp(1, limits::IO_QUEUES_MAX);
        self.queue_depth_max = self.queue_depth_max.clamp(2, limits::QUEUE_DEPTH_MAX);
        if self.rdma_shared_receives > 0 {
            let (min, max) = (
                limits::RDMA_SHARED_RECEIVES_MIN,
                limits::RDMA_SHARED_RECEIVES_MAX,
            );
            self.rdma_shared_receives = self.rdma_shared_receives.clamp(min, max);
        }
        self.controllers_max = self.controllers_max.clamp(
            1,
            usize::from(limits::CONTROLLERS_MAX) - limits::DISCOVERY_MAX,
        );
        self.discovery_max = self.discovery_max.clamp(1, limits::DISCOVERY_MAX);
        self.connection_budget = self.connection_budget.max(2 * self.mdts as usize);
        self
    }
}

/// Which hosts may connect to a subsystem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPolicy {
    /// Every host.
    Any,
    /// The hosts of a list.
    List(BTreeSet<Nqn>),
}

impl HostPolicy {
    /// Whether `host` is on a list, and not only allowed because all hosts are.
    #[must_use]
    pub fn lists(&self, host: &Nqn) -> bool {
        matches!(self, HostPolicy::List(list) if list.contains(host))
    }

    /// Whether `host` may connect. A host without a name is on no list, so it may connect only where all hosts may.
    #[must_use]
    pub fn allows(&self, host: &Nqn) -> bool {
        match self {
            HostPolicy::Any => true,
            HostPolicy::List(list) => !host.is_unnamed() && list.contains(host),
        }
    }
}

/// A subsystem to serve.
#[derive(Debug, Clone)]
pub struct SubsystemConfig {
    /// Its name.
    pub nqn: Nqn,
    /// Serial number, ASCII, at most 20 characters.
    pub serial: String,
    /// Model number, ASCII, at most 40 characters.
    pub model: String,
    /// Hosts that may connect.
    pub hosts: HostPolicy,
    /// The transports over which hosts may connect.
    pub transports: Transports,
}

/// A namespace to serve.
#[derive(Clone)]
pub struct NamespaceConfig {
    /// Its ID in the subsystem, from 1 to [`limits::NAMESPACES_MAX`].
    pub nsid: u32,
    /// Its identity for ever; also its NGUID.
    pub uuid: Uuid,
    /// The disk behind it.
    pub backend: Arc<dyn BlockBackend>,
    /// Where its reservations are kept.
    pub reservations: Arc<dyn ReservationStore>,
}

impl fmt::Debug for NamespaceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamespaceConfig")
            .field("nsid", &self.nsid)
            .field("uuid", &self.uuid)
            .finish_non_exhaustive()
    }
}

/// The transport of a port or a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// NVMe/TCP.
    Tcp,
    /// NVMe/RDMA.
    Rdma,
}

impl Transport {
    /// All of them.
    pub const ALL: [Transport; 2] = [Transport::Tcp, Transport::Rdma];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Rdma => "RDMA",
        }
    }

    /// Its TRTYPE.
    pub(crate) fn code(self) -> TransportType {
        match self {
            Transport::Tcp => TransportType::Tcp,
            Transport::Rdma => TransportType::Rdma,
        }
    }
}

/// A set of transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transports {
    has_tcp: bool,
    has_rdma: bool,
}

impl Transports {
    /// Every transport.
    pub const ALL: Transports = Transports {
        has_tcp: true,
        has_rdma: true,
    };

    /// Whether `transport` is one of them.
    #[must_use]
    pub fn has(self, transport: Transport) -> bool {
        match transport {
            Transport::Tcp => self.has_tcp,
            Transport::Rdma => self.has_rdma,
        }
    }
}

impl FromIterator<Transport> for Transports {
    fn from_iter<I: IntoIterator<Item = Transport>>(all: I) -> Transports {
        let mut set = Transports {
            has_tcp: false,
            has_rdma: false,
        };
        for transport in all {
            match transport {
                Transport::Tcp => set.has_tcp = true,
                Transport::Rdma => set.has_rdma = true,
            }
        }
        set
    }
}

/// The controllers that a listening port offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortRole {
    /// Subsystems and the discovery controller.
    Io,
    /// The discovery controller only.
    DiscoveryOnly,
}

/// A port as discovery shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortInfo {
    /// PORTID: unique among the ports.
    pub id: u16,
    /// The transport that hosts should use.
    pub transport: Transport,
    /// The address and port that hosts should use.
    pub addr: SocketAddr,
    /// The controllers that it offers.
    pub role: PortRole,
}

/// Another discovery service that ours points to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referral {
    /// Its address and port.
    pub addr: SocketAddr,
    /// Its subsystem name; usually [`Nqn::discovery`].
    pub nqn: Nqn,
}

/// Why a control call was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// A subsystem of this name is served already: choose another name.
    #[error("subsystem {0} exists already")]
    SubsystemExists(Nqn),
    /// No such subsystem: add it first.
    #[error("there is no subsystem {0}")]
    NoSubsystem(Nqn),
    /// The name is reserved.
    #[error("{0} is the discovery subsystem")]
    ReservedName(Nqn),
    /// The subsystem has a namespace with this ID: choose another.
    #[error("namespace {0} exists already")]
    NamespaceExists(u32),
    /// No such namespace.
    #[error("there is no namespace {0}")]
    NoNamespace(u32),
    /// The ID is zero or too large.
    #[error("namespace ID {0} is not between 1 and {max}", max = limits::NAMESPACES_MAX)]
    InvalidNsid(u32),
    /// The stored reservations of the namespace cannot be read.
    #[error("the stored reservations of namespace {nsid} are damaged, in {place}")]
    DamagedReservations {
        /// The namespace.
        nsid: u32,
        /// Where they are stored, and the remedy.
        place: String,
    },
    /// A change of the reservations of the namespace cannot be saved; nothing has changed.
    #[error("the reservations of namespace {nsid} cannot be saved: {reason}")]
    UnsavedReservations {
        /// The namespace.
        nsid: u32,
        /// The error of the medium.
        reason: String,
    },
    /// No such controller.
    #[error("there is no controller {0}")]
    NoController(u16),
}
