//! Handles of listeners and queue pairs on either driver.
//!
//! **Called by** listeners and queue pairs. **Invariants**: the only place that chooses the driver. Without the feature `sim` a simulated
//! endpoint is a type without values, so the compiler drops its branches.

use super::{ConnectError, Exposed, Memory, QueuePairConfig, Raised, RdmaInfo, WorkRequest};
use crate::sim::{SimulatedEndpoint, SimulatedVerbsListener};
use crate::{Error, Result};
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// The error of a machine without RDMA.
const WITHOUT_RDMA: Error = Error::Unsupported(libc::EOPNOTSUPP);

/// A listener of either driver.
pub(super) enum ListenerHandle {
    Sim(SimulatedVerbsListener),
}

impl ListenerHandle {
    /// See [`super::RdmaListener::bind`].
    pub(super) fn listen(addr: SocketAddr) -> Result<(ListenerHandle, SocketAddr)> {
        let listening = SimulatedVerbsListener::listen(addr).ok_or(WITHOUT_RDMA)?;
        listening.map(|(listener, local)| (ListenerHandle::Sim(listener), local))
    }

    /// See [`super::RdmaListener::accept`].
    pub(super) fn poll_arrived(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(EndpointHandle, Vec<u8>)>> {
        match self {
            ListenerHandle::Sim(l) => l
                .poll_arrived(cx)
                .map_ok(|(endpoint, private)| (EndpointHandle::Sim(endpoint), private)),
        }
    }
}

/// One end of a connection, on either driver.
pub(crate) enum EndpointHandle {
    Sim(SimulatedEndpoint),
}

impl EndpointHandle {
    /// Sends a connection request.
    pub(super) fn connect(
        addr: SocketAddr,
        config: QueuePairConfig,
        private: &[u8],
    ) -> Result<EndpointHandle> {
        let connecting = SimulatedEndpoint::connect(addr, config, private).ok_or(WITHOUT_RDMA)?;
        connecting.map(EndpointHandle::Sim)
    }

    /// Waits for the answer to the connection request.
    pub(super) fn poll_connected(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<std::result::Result<Vec<u8>, ConnectError>> {
        match self {
            EndpointHandle::Sim(e) => e.poll_connected(cx),
        }
    }

    /// Answers a connection request: yes.
    pub(super) fn accept(&self, config: QueuePairConfig, private: &[u8]) -> Result<()> {
        match self {
            EndpointHandle::Sim(e) => e.accept(config, private),
        }
    }

    /// Waits until the peer has heard that it was accepted.
    pub(super) fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match self {
            EndpointHandle::Sim(e) => e.poll_established(cx),
        }
    }

    /// Answers a connection request: no.
    pub(super) fn reject(&self, private: &[u8]) {
        match self {
            EndpointHandle::Sim(e) => e.reject(private),
        }
    }

    /// Our address, and the peer's.
    pub(super) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match self {
            EndpointHandle::Sim(e) => e.addresses(),
        }
    }

    /// See [`super::QueuePair::info`].
    pub(super) fn info(&self) -> RdmaInfo {
        match self {
            EndpointHandle::Sim(e) => e.info(),
        }
    }

    /// See [`super::QueuePair::post`].
    pub(super) fn post(&self, chain: &mut Vec<WorkRequest>) {
        match self {
            EndpointHandle::Sim(e) => e.post(chain),
        }
    }

    /// Posts a receive with the buffer of an earlier one.
    pub(super) fn post_receive(&self, buffer: Vec<u8>) {
        match self {
            EndpointHandle::Sim(e) => e.post_receive(buffer),
        }
    }

    /// See [`super::QueuePair::expose`].
    pub(super) fn expose(&self, memory: Memory) -> Exposed {
        match self {
            EndpointHandle::Sim(e) => e.expose(memory),
        }
    }

    /// See [`super::QueuePair::poll_event`].
    pub(super) fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Raised> {
        match self {
            EndpointHandle::Sim(e) => e.poll_event(cx),
        }
    }

    /// See [`super::QueuePair::disconnect`].
    pub(super) fn disconnect(&self) {
        match self {
            EndpointHandle::Sim(e) => e.disconnect(),
        }
    }
}
