//! TCP: listeners and streams, real or simulated.
//!
//! **Owns** sockets. **Called by** the server's protocols and by initiators. **Invariants**: one receive and one send may be
//! in flight on a stream at a time (from different tasks); a stream that is dropped is closed; addresses are canonical ([`address`]).

pub mod address;
mod handle;
mod options;

pub use address::Endpoint;
pub(crate) use handle::SocketHandle;
pub use options::{TcpInfo, TcpOptions};

use crate::buf::{IoBuf, RecvBuf, SendBatch};
use crate::runtime::{Op, current};
use crate::{Error, Result};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;

/// A listening socket.
pub struct TcpListener {
    socket: Rc<SocketHandle>,
    local: SocketAddr,
}

impl TcpListener {
    /// Listens on `addr`; port 0 takes a free one. Errors: `Busy` if the port is taken, `Denied`, `Unreachable` if the
    /// address is not one of this machine.
    pub fn bind(addr: SocketAddr) -> Result<TcpListener> {
        let (socket, local) = SocketHandle::listen(addr)?;
        Ok(TcpListener {
            socket: Rc::new(socket),
            local: address::canonical(local),
        })
    }

    /// The listener's address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for a connection. Errors: `Exhausted` if descriptors ran out (wait and try again), `Closed` if the peer closed
    /// before the connection was accepted.
    pub async fn accept(&self) -> Result<TcpStream> {
        let (outcome, op) = current()
            .submit(Op::Accept {
                socket: self.socket.clone(),
                accepted: None,
            })
            .await;
        Error::check(outcome.result)?;
        match op {
            Op::Accept {
                accepted: Some(handle),
                ..
            } => TcpStream::from_handle(handle),
            _ => unreachable!("an accept that succeeded has a socket"),
        }
    }
}

/// A connected stream. [`TcpStream::detach`] moves it to another shard while no operation is in flight on it.
pub struct TcpStream {
    socket: Rc<SocketHandle>,
    local: SocketAddr,
    peer: SocketAddr,
    /// Whether the last receive emptied the socket, so that the next one first waits until it is ready.
    drained: Cell<bool>,
}

/// A stream that moves to another shard.
pub struct DetachedStream {
    socket: SocketHandle,
    local: SocketAddr,
    peer: SocketAddr,
}

impl DetachedStream {
    /// Attaches the stream to this shard.
    #[must_use]
    pub fn attach(self) -> TcpStream {
        TcpStream {
            socket: Rc::new(self.socket),
            local: self.local,
            peer: self.peer,
            drained: Cell::new(false),
        }
    }
}

impl TcpStream {
    /// Connects to `addr`. Errors: `Unreachable`, `TimedOut`.
    pub async fn connect(addr: SocketAddr) -> Result<TcpStream> {
        TcpStream::connect_with(SocketHandle::stream(addr)?, addr).await
    }

    /// Connects to `addr` from a port below [`PRIVILEGED_PORTS`](crate::limits::PRIVILEGED_PORTS) if this process may use one and one
    /// is free, else from another port. Errors: as [`TcpStream::connect`].
    pub async fn connect_privileged(addr: SocketAddr) -> Result<TcpStream> {
        let socket = SocketHandle::stream(addr)?;
        // Without the port, the peer decides.
        let _ = socket.bind_privileged(addr);
        TcpStream::connect_with(socket, addr).await
    }

    async fn connect_with(socket: SocketHandle, addr: SocketAddr) -> Result<TcpStream> {
        let rt = current();
        let socket = Rc::new(socket);
        let (outcome, op) = rt
            .submit(Op::Connect {
                socket: socket.clone(),
                addr,
            })
            .await;
        drop(op);
        Error::check(outcome.result)?;
        let handle = Rc::into_inner(socket).expect("the operation has given its reference back");
        TcpStream::from_handle(handle)
    }

    fn from_handle(handle: SocketHandle) -> Result<TcpStream> {
        let (local, peer) = handle.addresses()?;
        Ok(TcpStream {
            socket: Rc::new(handle),
            local: address::canonical(local),
            peer: address::canonical(peer),
            drained: Cell::new(false),
        })
    }

    /// Sets options. Errors: `NotFound` for an unknown congestion control, `Denied` if this process may not use it.
    pub fn set_options(&self, options: &TcpOptions) -> Result<()> {
        self.socket.set_options(options)
    }

    /// Our address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    /// Reads the kernel's statistics of the connection.
    pub fn info(&self) -> Result<TcpInfo> {
        self.socket.info()
    }

    /// Receives at least one byte into the free tail of `staging`, which must have room. `Ok(0)` is the end of the stream.
    pub async fn recv(&self, staging: RecvBuf) -> (Result<usize>, RecvBuf) {
        let (result, _, staging) = self.receive(None, staging).await;
        (result, staging)
    }

    /// Receives at least one byte: into `direct` from byte `at` on, and then into `staging`. One system call thus puts a
    /// payload into its buffer and the bytes behind it into the staging area. Returns the number of bytes in both together.
    pub async fn recv_direct(
        &self,
        direct: IoBuf,
        at: usize,
        staging: RecvBuf,
    ) -> (Result<usize>, IoBuf, RecvBuf) {
        let (result, direct, staging) = self.receive(Some((direct, at)), staging).await;
        let (direct, _) = direct.expect("the operation gives back what it was given");
        (result, direct, staging)
    }

    async fn receive(
        &self,
        direct: Option<(IoBuf, usize)>,
        staging: RecvBuf,
    ) -> (Result<usize>, Option<(IoBuf, usize)>, RecvBuf) {
        let op = Op::Recv {
            socket: self.socket.clone(),
            direct,
            staging,
            poll_first: self.drained.get(),
        };
        let (outcome, op) = current().submit(op).await;
        let Op::Recv {
            direct,
            mut staging,
            ..
        } = op
        else {
            unreachable!("a receive gives back a receive")
        };
        self.drained.set(!outcome.more);
        let result = Error::check(outcome.result);
        if let Ok(n) = result {
            let into_direct = direct.as_ref().map_or(0, |(b, at)| (b.len() - at).min(n));
            staging.filled(n - into_direct);
        }
        (result, direct, staging)
    }

    /// Sends all of `batch`. Returns it cleared, for reuse. Errors: `Closed`, `TimedOut`.
    pub async fn send(&self, batch: SendBatch) -> (Result<()>, SendBatch) {
        let rt = current();
        let mut batch = batch;
        let mut sent = 0;
        let result = loop {
            if sent == batch.len() {
                break Ok(());
            }
            let (outcome, op) = rt
                .submit(Op::Send {
                    socket: self.socket.clone(),
                    batch,
                    sent,
                })
                .await;
            let Op::Send { batch: back, .. } = op else {
                unreachable!("a send gives back a send")
            };
            batch = back;
            match Error::check(outcome.result) {
                Ok(0) => break Err(Error::Closed),
                Ok(n) => sent += n,
                Err(e) => break Err(e),
            }
        };
        batch.clear();
        (result, batch)
    }

    /// Shuts down both directions: a receive in flight sees the end of the stream, a send fails.
    pub fn shutdown(&self) {
        self.socket.shutdown();
    }

    /// Detaches the stream, to be attached on another shard. Panics while an operation is in flight on it.
    #[must_use]
    pub fn detach(self) -> DetachedStream {
        let socket =
            Rc::into_inner(self.socket).expect("nothing is in flight on a stream that moves");
        DetachedStream {
            socket,
            local: self.local,
            peer: self.peer,
        }
    }
}
