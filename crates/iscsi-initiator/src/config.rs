//! Configuration of a session.

use super::limits::{DATA_SEGMENT_MAX, DATA_SEGMENT_MIN, QUEUE_DEPTH_MAX};
use io::net::TcpOptions;
use iscsi::login::{Algorithm, Credential};
use iscsi::portal::IscsiTransport;
use iscsi::wire::{IscsiName, Isid};
use std::net::SocketAddr;
use std::time::Duration;

/// Address, names, parameters and limits of a session.
#[derive(Debug, Clone)]
pub struct Config {
    /// The portal's address.
    pub addr: SocketAddr,
    /// The transport.
    pub transport: IscsiTransport,
    /// Whether responses of the target may withdraw the memory of their task, over RDMA. Devices of Linux cannot have that of memory that a
    /// program registered.
    pub remote_invalidation: bool,
    /// The target's name.
    pub target: IscsiName,
    /// This initiator's name.
    pub initiator: IscsiName,
    /// ISID. Sessions of one initiator with one target need different ones: a login with the same ISID replaces the session.
    pub isid: Isid,
    /// Authentication; `None` for none.
    pub chap: Option<Chap>,
    /// Parameters to propose in the negotiation.
    pub proposal: Proposal,
    /// Outstanding tasks; the target's window may allow fewer.
    pub queue_depth: u16,
    /// Silence after which the initiator pings the target (NOP-Out), and time for the answer. Zero: no pings.
    pub keep_alive: Duration,
    /// Time limit of one attempt to connect and log in.
    pub connect_timeout: Duration,
    /// Time limit of one command, precise to a quarter of it. Then the command is aborted; the abort has the same limit.
    pub command_timeout: Duration,
    /// How to restore a broken connection.
    pub reconnect: Reconnect,
    /// Socket options, over TCP.
    pub tcp: TcpOptions,
}

/// Authentication of both ends (§12.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// Our name and secret.
    pub initiator: Credential,
    /// The target's name and secret, if it must authenticate itself (mutual authentication).
    pub target: Option<Credential>,
    /// Digests to offer, the preferred ones first. Some targets use other numbers for digests than IANA.
    pub algorithms: Vec<Algorithm>,
}

impl Chap {
    /// Offers all digests, the strongest first.
    #[must_use]
    pub fn new(initiator: Credential, target: Option<Credential>) -> Chap {
        let mut algorithms = Algorithm::ALL.to_vec();
        algorithms.reverse();
        Chap {
            initiator,
            target,
            algorithms,
        }
    }
}

/// Parameters proposed in a login; the target may grant less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// CRC32C over headers.
    pub header_digest: bool,
    /// CRC32C over data.
    pub data_digest: bool,
    /// InitialR2T: no Data-Out is sent before an R2T.
    pub initial_r2t: bool,
    /// ImmediateData: data may be sent in command PDUs.
    pub immediate_data: bool,
    /// Longest data segment that we receive, bytes.
    pub max_recv_data: u32,
    /// MaxBurstLength, bytes.
    pub max_burst: u32,
    /// FirstBurstLength, bytes.
    pub first_burst: u32,
    /// MaxOutstandingR2T.
    pub max_outstanding_r2t: u16,
}

impl Default for Proposal {
    fn default() -> Self {
        Proposal {
            header_digest: false,
            data_digest: false,
            initial_r2t: false,
            immediate_data: true,
            max_recv_data: 256 << 10,
            max_burst: 1 << 20,
            first_burst: 128 << 10,
            max_outstanding_r2t: 4,
        }
    }
}

/// How to restore a broken connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// Wait before the first attempt; each later wait is twice as long. The target's Time2Wait applies if it is longer.
    pub delay_min: Duration,
    /// Longest wait between attempts.
    pub delay_max: Duration,
    /// Time after which the session is given up; zero: never reconnect.
    pub loss_timeout: Duration,
}

impl Reconnect {
    /// No reconnection: commands fail when their connection breaks.
    pub const NEVER: Self = Self {
        delay_min: Duration::ZERO,
        delay_max: Duration::ZERO,
        loss_timeout: Duration::ZERO,
    };
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(10),
            loss_timeout: Duration::from_secs(600),
        }
    }
}

impl Config {
    /// 128 tasks, no digests, a ping after 5 s of silence, 30 s for a command, a random ISID.
    #[must_use]
    pub fn new(addr: SocketAddr, target: IscsiName, initiator: IscsiName) -> Self {
        Self {
            addr,
            transport: IscsiTransport::Tcp,
            remote_invalidation: false,
            target,
            initiator,
            isid: random_isid(),
            chap: None,
            proposal: Proposal::default(),
            queue_depth: 128,
            keep_alive: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(10),
            command_timeout: Duration::from_secs(30),
            reconnect: Reconnect::default(),
            tcp: TcpOptions::default(),
        }
    }

    /// Returns the configuration with all values brought into their ranges.
    pub(super) fn clamped(mut self) -> Self {
        self.queue_depth = self.queue_depth.clamp(1, QUEUE_DEPTH_MAX);
        let p = &mut self.proposal;
        p.max_recv_data = p.max_recv_data.clamp(DATA_SEGMENT_MIN, DATA_SEGMENT_MAX);
        p.max_burst = p.max_burst.clamp(DATA_SEGMENT_MIN, DATA_SEGMENT_MAX);
        p.first_burst = p.first_burst.clamp(DATA_SEGMENT_MIN, p.max_burst);
        p.max_outstanding_r2t = p.max_outstanding_r2t.max(1);
        self
    }
}

/// An ISID of the random format (§11.12.5, type 10b).
pub(super) fn random_isid() -> Isid {
    let mut isid = [0; 6];
    io::rng::fill(&mut isid);
    isid[0] = 0x80;
    Isid(isid)
}
