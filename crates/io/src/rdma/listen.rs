//! Listeners and connection requests.
//!
//! **Called by** the server's protocols. **Invariants**: a request that is neither accepted nor rejected is rejected when it is dropped;
//! a listener keeps at most [`crate::limits::RDMA_BACKLOG`] requests, and refuses more. A request moves to another shard before it is answered;
//! the shard that accepts it owns the queue pair.

use super::handle::{ListenerHandle, RequestHandle};
use super::{EndpointHandle, PRIVATE_DATA_MAX, QueuePair, QueuePairConfig};
use crate::net::address;
use crate::{Error, Result};
use std::future::poll_fn;
use std::net::SocketAddr;

/// A listener for connection requests.
pub struct RdmaListener {
    handle: ListenerHandle,
    local: SocketAddr,
}

impl RdmaListener {
    /// Listens on `addr`; port 0 takes a free one. Errors: `Unsupported` if this machine has no RDMA, `Busy` if the port is taken,
    /// `Unreachable` if the address is not one of this machine's RDMA devices.
    pub fn bind(addr: SocketAddr) -> Result<RdmaListener> {
        let (handle, local) = ListenerHandle::listen(addr)?;
        Ok(RdmaListener {
            handle,
            local: address::canonical(local),
        })
    }

    /// The listener's address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for a connection request. Errors: `Gone` if the device was removed.
    pub async fn accept(&self) -> Result<Incoming> {
        let (endpoint, private) = poll_fn(|cx| self.handle.poll_arrived(cx)).await?;
        let (local, peer) = endpoint.addresses();
        Ok(Incoming {
            endpoint: Some(endpoint),
            private,
            local: address::canonical(local),
            peer: address::canonical(peer),
        })
    }
}

/// A connection request that moves to another shard. Dropping it rejects the request.
pub struct DetachedIncoming {
    /// `None` once it was attached.
    request: Option<RequestHandle>,
    private: Vec<u8>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl DetachedIncoming {
    /// Attaches the request to this shard.
    #[must_use]
    pub fn attach(mut self) -> Incoming {
        Incoming {
            endpoint: self.request.take().map(RequestHandle::attach),
            private: std::mem::take(&mut self.private),
            local: self.local,
            peer: self.peer,
        }
    }

    /// The peer's address.
    #[must_use]
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }
}

impl Drop for DetachedIncoming {
    fn drop(&mut self) {
        if let Some(request) = self.request.take() {
            request.attach().reject(&[]);
        }
    }
}

/// A connection request of a peer. [`Incoming::detach`] moves it to another shard.
pub struct Incoming {
    /// `None` once it was answered.
    endpoint: Option<EndpointHandle>,
    private: Vec<u8>,
    local: SocketAddr,
    peer: SocketAddr,
}

impl Incoming {
    /// The peer's private data. The connection manager may have filled it up with zeroes.
    #[must_use]
    pub fn private_data(&self) -> &[u8] {
        &self.private
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

    /// READs that the peer serves at a time.
    #[must_use]
    pub fn reads_allowed(&self) -> u8 {
        self.endpoint.as_ref().map_or(0, |e| e.info().reads_out)
    }

    /// Accepts with at most [`PRIVATE_DATA_MAX`] bytes of private data, and waits until the connection is established. All receives are
    /// posted before the peer hears of it. Errors: `Exhausted`, after which the request may still be rejected; `Closed`, `TimedOut`.
    pub async fn accept(&mut self, config: QueuePairConfig, private: &[u8]) -> Result<QueuePair> {
        assert!(private.len() <= PRIVATE_DATA_MAX, "private data is short");
        let endpoint = self.endpoint.as_ref().ok_or(Error::Closed)?;
        endpoint.accept(config, private)?;
        let endpoint = self.endpoint.take().ok_or(Error::Closed)?;
        poll_fn(|cx| endpoint.poll_established(cx)).await?;
        Ok(QueuePair::new(endpoint, self.local, self.peer))
    }

    /// Detaches the request, to be attached and answered on another shard.
    #[must_use]
    pub fn detach(mut self) -> DetachedIncoming {
        DetachedIncoming {
            request: self.endpoint.take().map(EndpointHandle::detach),
            private: std::mem::take(&mut self.private),
            local: self.local,
            peer: self.peer,
        }
    }

    /// Rejects the request with at most [`PRIVATE_DATA_MAX`] bytes of private data.
    pub fn reject(mut self, private: &[u8]) {
        assert!(private.len() <= PRIVATE_DATA_MAX, "private data is short");
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.reject(private);
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint.take() {
            endpoint.reject(&[]);
        }
    }
}
