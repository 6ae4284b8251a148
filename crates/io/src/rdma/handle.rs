//! Handles of listeners and queue pairs on either driver.
//!
//! **Called by** listeners and queue pairs. **Invariants**: the only place that chooses the driver. Without the feature `sim` a simulated
//! endpoint is a type without values, so the compiler drops its branches.

use super::{
    ConnectError, Exposed, Memory, QueuePairConfig, Raised, RdmaInfo, ReceiveBuffer, WorkRequest,
};
use crate::Result;
use crate::linux::{LinuxEndpoint, LinuxRequest, LinuxVerbsListener};
use crate::sim::{SimulatedEndpoint, SimulatedVerbsListener};
use std::net::SocketAddr;
use std::task::{Context, Poll};

/// A listener of either driver.
pub(super) enum ListenerHandle {
    Linux(LinuxVerbsListener),
    Sim(SimulatedVerbsListener),
}

impl ListenerHandle {
    /// See [`super::RdmaListener::bind`].
    pub(super) fn listen(addr: SocketAddr) -> Result<(ListenerHandle, SocketAddr)> {
        if let Some(listening) = SimulatedVerbsListener::listen(addr) {
            return listening.map(|(listener, local)| (ListenerHandle::Sim(listener), local));
        }
        let (listener, local) = LinuxVerbsListener::listen(addr)?;
        Ok((ListenerHandle::Linux(listener), local))
    }

    /// See [`super::RdmaListener::accept`].
    pub(super) fn poll_arrived(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(EndpointHandle, Vec<u8>)>> {
        match self {
            ListenerHandle::Linux(l) => l
                .poll_arrived(cx)
                .map_ok(|(endpoint, private)| (EndpointHandle::Linux(Box::new(endpoint)), private)),
            ListenerHandle::Sim(l) => l
                .poll_arrived(cx)
                .map_ok(|(endpoint, private)| (EndpointHandle::Sim(endpoint), private)),
        }
    }
}

/// A connection request of either driver that no shard owns.
pub(super) enum RequestHandle {
    Linux(LinuxRequest),
    Sim(SimulatedEndpoint),
}

impl RequestHandle {
    /// See [`super::DetachedIncoming::attach`].
    pub(super) fn attach(self) -> EndpointHandle {
        match self {
            RequestHandle::Linux(r) => EndpointHandle::Linux(Box::new(r.attach())),
            RequestHandle::Sim(e) => EndpointHandle::Sim(e),
        }
    }
}

/// One end of a connection, on either driver.
pub(crate) enum EndpointHandle {
    Linux(Box<LinuxEndpoint>),
    Sim(SimulatedEndpoint),
}

impl EndpointHandle {
    /// Sends a connection request.
    pub(super) fn connect(
        addr: SocketAddr,
        config: QueuePairConfig,
        private: &[u8],
    ) -> Result<EndpointHandle> {
        match SimulatedEndpoint::connect(addr, config, private) {
            Some(connecting) => connecting.map(EndpointHandle::Sim),
            None => LinuxEndpoint::connect(addr, config, private)
                .map(|endpoint| EndpointHandle::Linux(Box::new(endpoint))),
        }
    }

    /// See [`super::Incoming::detach`].
    pub(super) fn detach(self) -> RequestHandle {
        match self {
            EndpointHandle::Linux(e) => RequestHandle::Linux(e.detach()),
            EndpointHandle::Sim(e) => RequestHandle::Sim(e),
        }
    }

    /// Waits for the answer to the connection request.
    pub(super) fn poll_connected(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<std::result::Result<Vec<u8>, ConnectError>> {
        match self {
            EndpointHandle::Linux(e) => e.poll_connected(cx),
            EndpointHandle::Sim(e) => e.poll_connected(cx),
        }
    }

    /// Answers a connection request: yes.
    pub(super) fn accept(&self, config: QueuePairConfig, private: &[u8]) -> Result<()> {
        match self {
            EndpointHandle::Linux(e) => e.accept(config, private),
            EndpointHandle::Sim(e) => e.accept(config, private),
        }
    }

    /// Waits until the peer has heard that it was accepted.
    pub(super) fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        match self {
            EndpointHandle::Linux(e) => e.poll_established(cx),
            EndpointHandle::Sim(e) => e.poll_established(cx),
        }
    }

    /// Answers a connection request: no.
    pub(super) fn reject(&self, private: &[u8]) {
        match self {
            EndpointHandle::Linux(e) => e.reject(private),
            EndpointHandle::Sim(e) => e.reject(private),
        }
    }

    /// Our address, and the peer's.
    pub(super) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match self {
            EndpointHandle::Linux(e) => e.addresses(),
            EndpointHandle::Sim(e) => e.addresses(),
        }
    }

    /// See [`super::QueuePair::info`].
    pub(super) fn info(&self) -> RdmaInfo {
        match self {
            EndpointHandle::Linux(e) => e.info(),
            EndpointHandle::Sim(e) => e.info(),
        }
    }

    /// See [`super::QueuePair::post`].
    pub(super) fn post(&self, chain: &mut Vec<WorkRequest>) {
        match self {
            EndpointHandle::Linux(e) => e.post(chain),
            EndpointHandle::Sim(e) => e.post(chain),
        }
    }

    /// Posts a receive with the buffer of an earlier one.
    pub(super) fn post_receive(&self, buffer: ReceiveBuffer) {
        match (self, buffer) {
            (EndpointHandle::Linux(e), ReceiveBuffer::Slot(slot)) => e.post_receive(slot),
            (EndpointHandle::Sim(e), ReceiveBuffer::Heap(bytes)) => e.post_receive(bytes),
            _ => unreachable!("a message goes back to the driver that it came from"),
        }
    }

    /// See [`super::QueuePair::expose`].
    pub(super) fn expose(&self, memory: Memory) -> std::result::Result<Exposed, Memory> {
        match self {
            EndpointHandle::Linux(e) => e.expose(memory),
            EndpointHandle::Sim(e) => e.expose(memory),
        }
    }

    /// See [`super::QueuePair::poll_event`].
    pub(super) fn poll_event(&self, cx: &mut Context<'_>) -> Poll<Raised> {
        match self {
            EndpointHandle::Linux(e) => e.poll_event(cx),
            EndpointHandle::Sim(e) => e.poll_event(cx),
        }
    }

    /// See [`super::QueuePair::disconnect`].
    pub(super) fn disconnect(&self) {
        match self {
            EndpointHandle::Linux(e) => e.disconnect(),
            EndpointHandle::Sim(e) => e.disconnect(),
        }
    }
}
