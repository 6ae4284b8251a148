//! Configuration of a connection to a controller.

use std::net::SocketAddr;
use std::time::Duration;

use io::net::TcpOptions;

use super::limits::{IO_QUEUES_MAX, QUEUE_DEPTH_MAX};
use super::link::Offer;
use nvmf::controller::Transport;
use nvmf::wire::nqn::{HostId, Nqn};

/// Address, names and limits of a controller's connections.
#[derive(Debug, Clone)]
pub struct Config {
    /// The transport to the controller.
    pub transport: Transport,
    /// The controller's address.
    pub addr: SocketAddr,
    /// The subsystem's name.
    pub subnqn: Nqn,
    /// This host's name.
    pub hostnqn: Nqn,
    /// This host's identifier.
    pub host_id: HostId,
    /// I/O queues to request; the controller may grant fewer. 0 for a discovery controller.
    pub io_queues: u16,
    /// Outstanding commands per I/O queue; the controller may allow fewer.
    pub queue_depth: u16,
    /// Parameters to offer over TCP: digests, alignment, R2Ts.
    pub offer: Offer,
    /// Keep-alive timeout; zero for none.
    pub keep_alive: Duration,
    /// Time limit of one attempt to connect all queues.
    pub connect_timeout: Duration,
    /// Time limit of one command, precise to a quarter of it.
    pub command_timeout: Duration,
    /// How to restore a broken connection.
    pub reconnect: Reconnect,
    /// Socket options.
    pub tcp: TcpOptions,
}

/// How to restore a broken connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// Wait before the first attempt; each later wait is twice as long.
    pub delay_min: Duration,
    /// Longest wait between attempts.
    pub delay_max: Duration,
    /// Time after which the controller is given up; zero: never reconnect.
    pub ctrl_loss_timeout: Duration,
}

impl Reconnect {
    /// No reconnection: commands fail when their connection breaks.
    pub const NEVER: Self = Self {
        delay_min: Duration::ZERO,
        delay_max: Duration::ZERO,
        ctrl_loss_timeout: Duration::ZERO,
    };
}

impl Default for Reconnect {
    fn default() -> Self {
        Self {
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(10),
            ctrl_loss_timeout: Duration::from_secs(600),
        }
    }
}

impl Config {
    /// Over TCP, one I/O queue of 128 commands, no digests, keep alive of 5 s, Linux's time limits.
    #[must_use]
    pub fn new(addr: SocketAddr, subnqn: Nqn, hostnqn: Nqn, host_id: HostId) -> Self {
        Self {
            transport: Transport::Tcp,
            addr,
            subnqn,
            hostnqn,
            host_id,
            io_queues: 1,
            queue_depth: 128,
            offer: Offer::default(),
            keep_alive: Duration::from_secs(5),
            connect_timeout: Duration::from_secs(10),
            command_timeout: Duration::from_secs(30),
            reconnect: Reconnect::default(),
            tcp: TcpOptions::default(),
        }
    }

    /// Returns the configuration with all values brought into their ranges.
    pub(crate) fn clamped(mut self) -> Self {
        self.io_queues = self.io_queues.min(IO_QUEUES_MAX);
        self.queue_depth = self.queue_depth.clamp(1, QUEUE_DEPTH_MAX);
        self
    }

    /// KATO, the keep-alive timeout in Connect, milliseconds.
    pub(crate) fn kato_ms(&self) -> u32 {
        u32::try_from(self.keep_alive.as_millis()).unwrap_or(u32::MAX)
    }
}
