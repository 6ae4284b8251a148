//! Transport: the byte stream below a connection.
//!
//! **Owns** [`Transport`]. **Called by** [`crate::staging`] and [`crate::turn`]; TCP implements it, and so does TLS (crate `tls`).
//! **Invariants**: one receive and one send may be in flight at a time, from different tasks.

use io::net::TcpStream;
use io::{IoBuf, RecvBuf, Result, SendBatch};
use std::future::Future;

/// A byte stream of a connection.
pub trait Transport {
    /// The TCP connection, for its options and statistics.
    fn tcp(&self) -> &TcpStream;

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

impl Transport for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }

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
