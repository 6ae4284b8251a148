//! Carrier: the transport's connection below a session.
//!
//! **Owns** [`Carrier`], which the turns and the link of every transport need, and [`ByteStream`], for transports that carry bytes
//! and not messages. **Called by** [`crate::connections`], [`crate::link`], [`crate::turn`], and [`crate::staging`] and
//! [`crate::stream`] for byte streams; TCP implements both, and so does TLS (crate `tls`). RDMA is a carrier and no byte stream.
//! **Invariants**: one receive and one send of a byte stream may be in flight at a time, from different tasks.

use io::net::{TcpInfo, TcpOptions, TcpStream};
use io::rdma::{Incoming, RdmaInfo};
use io::{IoBuf, RecvBuf, Result, SendBatch};
use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

/// The transport's own numbers of a connection.
#[derive(Debug, Clone, Default)]
pub enum CarrierInfo {
    /// They have not been read yet.
    #[default]
    Unread,
    /// Those of TCP in the kernel.
    Tcp(TcpInfo),
    /// Those of a queue pair.
    Rdma(RdmaInfo),
}

impl CarrierInfo {
    /// The numbers of TCP; zeroes for other transports, and before the first reading.
    #[must_use]
    pub fn tcp(&self) -> TcpInfo {
        match self {
            CarrierInfo::Unread | CarrierInfo::Rdma(_) => TcpInfo::default(),
            CarrierInfo::Tcp(info) => info.clone(),
        }
    }

    /// The numbers of a queue pair; `None` for other transports, and before the first reading.
    #[must_use]
    pub fn rdma(&self) -> Option<&RdmaInfo> {
        match self {
            CarrierInfo::Rdma(info) => Some(info),
            CarrierInfo::Unread | CarrierInfo::Tcp(_) => None,
        }
    }
}

/// A connection of a transport.
pub trait Carrier {
    /// The peer's address.
    fn peer_addr(&self) -> SocketAddr;

    /// Our address.
    fn local_addr(&self) -> SocketAddr;

    /// Reads the transport's own numbers.
    fn info(&self) -> Result<CarrierInfo>;

    /// Has the transport end the connection when the peer does not acknowledge sent bytes within `limit`. A transport that cannot
    /// leaves it to the deadlines of the session, which are coarser.
    fn limit_unacknowledged(&self, limit: Duration);

    /// Has the transport probe a peer that has been silent for `after`. Without probes, a vanished peer is found with the next
    /// reply to it.
    fn probe_silent(&self, after: Duration);
}

/// A connection that carries a stream of bytes.
pub trait ByteStream: Carrier {
    /// See [`TcpStream::recv`].
    fn recv(&self, staging: RecvBuf) -> impl Future<Output = (Result<usize>, RecvBuf)>;

    /// See [`TcpStream::recv_direct`].
    fn recv_direct(
        &self,
        direct: IoBuf,
        at: usize,
        staging: RecvBuf,
    ) -> impl Future<Output = (Result<usize>, IoBuf, RecvBuf)>;

    /// See [`TcpStream::send`].
    fn send(&self, batch: SendBatch) -> impl Future<Output = (Result<()>, SendBatch)>;
}

impl Carrier for TcpStream {
    fn peer_addr(&self) -> SocketAddr {
        TcpStream::peer_addr(self)
    }

    fn local_addr(&self) -> SocketAddr {
        TcpStream::local_addr(self)
    }

    fn info(&self) -> Result<CarrierInfo> {
        TcpStream::info(self).map(CarrierInfo::Tcp)
    }

    fn limit_unacknowledged(&self, limit: Duration) {
        let options = TcpOptions {
            user_timeout: Some(limit),
            ..TcpOptions::default()
        };
        let _ = self.set_options(&options);
    }

    fn probe_silent(&self, after: Duration) {
        let options = TcpOptions {
            keep_alive: Some(after),
            ..TcpOptions::default()
        };
        let _ = self.set_options(&options);
    }
}

/// A connection request for RDMA, while it is admitted. The protocol's own carrier replaces it when the request was accepted.
impl Carrier for Incoming {
    fn peer_addr(&self) -> SocketAddr {
        Incoming::peer_addr(self)
    }

    fn local_addr(&self) -> SocketAddr {
        Incoming::local_addr(self)
    }

    fn info(&self) -> Result<CarrierInfo> {
        Ok(CarrierInfo::Unread)
    }

    fn limit_unacknowledged(&self, _: Duration) {}

    fn probe_silent(&self, _: Duration) {}
}

impl ByteStream for TcpStream {
    async fn recv(&self, staging: RecvBuf) -> (Result<usize>, RecvBuf) {
        TcpStream::recv(self, staging).await
    }

    async fn recv_direct(
        &self,
        direct: IoBuf,
        at: usize,
        staging: RecvBuf,
    ) -> (Result<usize>, IoBuf, RecvBuf) {
        TcpStream::recv_direct(self, direct, at, staging).await
    }

    async fn send(&self, batch: SendBatch) -> (Result<()>, SendBatch) {
        TcpStream::send(self, batch).await
    }
}
