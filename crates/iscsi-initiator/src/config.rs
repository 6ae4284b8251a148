//! What a session is made with.

use super::limits::{DATA_SEGMENT_MAX, DATA_SEGMENT_MIN, QUEUE_DEPTH_MAX};
use io::net::TcpOptions;
use iscsi::login::{Algorithm, Credential};
use iscsi::wire::{IscsiName, Isid};
use std::net::SocketAddr;
use std::time::Duration;

/// How to log in, and how long to wait for what.
#[derive(Debug, Clone)]
pub struct Config {
    /// The portal's address.
    pub addr: SocketAddr,
    /// The target.
    pub target: IscsiName,
    /// This initiator's name.
    pub initiator: IscsiName,
    /// ISID: two sessions of one initiator with one target must differ in it, since the later replaces the earlier.
    pub isid: Isid,
    /// What to prove, and what to have proven.
    pub chap: Option<Chap>,
    /// What to propose in the negotiation.
    pub proposal: Proposal,
    /// Tasks outstanding; the target's window may allow fewer.
    pub queue_depth: u16,
    /// Silence after which the target is asked whether it is there (NOP-Out), and how long it has to answer; zero
    /// never asks.
    pub keep_alive: Duration,
    /// Limit of one attempt to connect and log in.
    pub connect_timeout: Duration,
    /// Limit of one command, kept to a quarter of it; then it is aborted, for which there is as much time again.
    pub command_timeout: Duration,
    /// What to do when the connection breaks.
    pub reconnect: Reconnect,
    /// Socket options.
    pub tcp: TcpOptions,
}

/// Who proves what (§12.1.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chap {
    /// What we prove.
    pub initiator: Credential,
    /// What the target must prove (mutual authentication).
    pub target: Option<Credential>,
    /// Digests offered, those preferred first. Some targets know a number by another digest than IANA does.
    pub algorithms: Vec<Algorithm>,
}

impl Chap {
    /// With all digests, the strongest first.
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

/// What is proposed in a login; the target may give less.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// CRC32C over headers.
    pub header_digest: bool,
    /// CRC32C over data.
    pub data_digest: bool,
    /// Send no Data-Out before an R2T.
    pub initial_r2t: bool,
    /// Send data within command PDUs.
    pub immediate_data: bool,
    /// Longest data segment that we take, bytes.
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

/// What to do when the connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// Wait before the first attempt; each later wait is twice as long. The target's Time2Wait counts if it is longer.
    pub delay_min: Duration,
    /// Longest wait between attempts.
    pub delay_max: Duration,
    /// Give the session up after so long without it; zero: never reconnect.
    pub loss_timeout: Duration,
}

impl Reconnect {
    /// No reconnect: commands fail when their connection breaks.
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

    /// The same with values brought into their ranges.
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
