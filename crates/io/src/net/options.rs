//! Options and statistics of a stream.

use std::time::Duration;

/// Options of a stream. Nagle's algorithm is always off.
#[derive(Debug, Clone, Default)]
pub struct TcpOptions {
    /// Time after which the connection fails if sent data is not acknowledged (TCP_USER_TIMEOUT).
    pub user_timeout: Option<Duration>,
    /// Time of silence after which the kernel probes the peer (SO_KEEPALIVE, TCP_KEEPIDLE). Without an answer the connection
    /// ends after `user_timeout`.
    pub keep_alive: Option<Duration>,
    /// SO_SNDBUF, bytes.
    pub send_buffer: Option<usize>,
    /// SO_RCVBUF, bytes.
    pub recv_buffer: Option<usize>,
    /// TCP_CONGESTION, such as `cubic`.
    pub congestion: Option<String>,
    /// On close, discard data that the peer does not have yet and reset the connection (SO_LINGER of 0). For
    /// initiators that repeat unanswered requests over another connection.
    pub abort_on_close: bool,
}

/// The kernel's statistics of a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// Largest segment that we send, bytes.
    pub mss: u32,
    /// Path MTU, bytes.
    pub path_mtu: u32,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Smallest round-trip time of the connection, µs; 0 if it is not known.
    pub rtt_min_us: u32,
    /// Mean deviation of the round-trip time, µs.
    pub rtt_var_us: u32,
    /// Segments that were sent again, since the start.
    pub retransmits: u32,
    /// The congestion control in use.
    pub congestion: String,
}
