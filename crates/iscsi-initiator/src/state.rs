//! Events and counts of a session, for users.

use super::sense::Sense;
use io::net::TcpInfo;
use io::rdma::RdmaInfo;
use iscsi::login::Parameters;
use iscsi::wire::Lun;
use std::net::SocketAddr;

/// An event that the target reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A unit attention: reset, capacity or mode parameters changed, LUNs changed.
    Attention(Lun, Sense),
    /// An asynchronous SCSI event.
    Scsi(Lun, Sense),
    /// The target asked for a logout. The session logs out and reconnects.
    LogoutRequested,
    /// The target drops the connection. The session reconnects.
    Dropped,
    /// An asynchronous message of another kind.
    Other(u8),
}

/// Counts since the first login.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Sessions restored.
    pub reconnects: u64,
    /// Unit attentions that reported a reset: writes that were not stable then may be lost.
    pub resets: u64,
    /// Pings sent.
    pub pings: u64,
    /// Events dropped because they were not fetched.
    pub events_lost: u64,
    /// Commands that the target ended.
    pub completed: u64,
}

/// Negotiated parameters of a session, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkInfo {
    /// Negotiated parameters; `max_send_data` is the target's limit.
    pub parameters: Parameters,
    /// TSIH.
    pub tsih: u16,
    /// TargetAlias.
    pub alias: Option<String>,
    /// TargetPortalGroupTag.
    pub portal_group: Option<u16>,
    /// The target's largest window, commands.
    pub window: u32,
    /// The portal that is connected, after redirections.
    pub portal: SocketAddr,
    /// TCP statistics of the kernel; zeroes over RDMA.
    pub tcp: TcpInfo,
    /// The numbers of the queue pair, over RDMA.
    pub rdma: Option<RdmaInfo>,
}
