//! The simulator's interface in a build without the feature `sim`: nothing is ever simulated.
//!
//! **Called by** [`crate::net`], [`crate::rdma`] and [`crate::disk`]. **Invariants**: the same interface as `handle.rs`; the types have no
//! values, so that the compiler drops each branch for simulated sockets and disks.

use crate::Result;
use crate::disk::{DiskInfo, OpenOptions};
use crate::net::{TcpInfo, TcpOptions};
use crate::rdma::{
    ConnectError, Exposed, Memory, NoRdma, QueuePairConfig, Raised, RdmaInfo, WorkRequest,
};
use std::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll};

/// A simulated socket: there is none.
pub(crate) enum SimulatedSocket {}

/// An open simulated disk: there is none.
pub(crate) enum SimulatedDisk {}

/// A simulated listener for RDMA: there is none.
pub(crate) enum SimulatedVerbsListener {}

/// One end of a simulated RDMA connection: there is none.
pub(crate) enum SimulatedEndpoint {}

pub(crate) fn is_running() -> bool {
    false
}

impl SimulatedSocket {
    pub(crate) fn listen(_: SocketAddr) -> Option<Result<(SimulatedSocket, SocketAddr)>> {
        None
    }

    pub(crate) fn stream() -> Option<SimulatedSocket> {
        None
    }

    pub(crate) fn of_result(_: usize) -> Option<SimulatedSocket> {
        None
    }

    pub(crate) fn addresses(&self) -> Result<(SocketAddr, SocketAddr)> {
        match *self {}
    }

    pub(crate) fn bind_privileged(&self) -> Result<()> {
        match *self {}
    }

    pub(crate) fn set_options(&self, _: &TcpOptions) -> Result<()> {
        match *self {}
    }

    pub(crate) fn info(&self) -> Result<TcpInfo> {
        match *self {}
    }

    pub(crate) fn shutdown(&self) {
        match *self {}
    }
}

impl SimulatedDisk {
    pub(crate) fn open(_: &Path, _: &OpenOptions) -> Option<Result<(SimulatedDisk, DiskInfo)>> {
        None
    }

    pub(crate) fn size(&self) -> Result<u64> {
        match *self {}
    }

    pub(crate) fn used(&self) -> Result<u64> {
        match *self {}
    }

    pub(crate) fn resize(&self, _: u64) -> Result<()> {
        match *self {}
    }

    pub(crate) fn reserve(&self, _: u64, _: u64) -> Result<()> {
        match *self {}
    }
}

impl SimulatedVerbsListener {
    pub(crate) fn support() -> Option<std::result::Result<(), NoRdma>> {
        None
    }

    pub(crate) fn listen(_: SocketAddr) -> Option<Result<(SimulatedVerbsListener, SocketAddr)>> {
        None
    }

    pub(crate) fn poll_arrived(
        &self,
        _: &mut Context<'_>,
    ) -> Poll<Result<(SimulatedEndpoint, Vec<u8>)>> {
        match *self {}
    }
}

impl SimulatedEndpoint {
    pub(crate) fn connect(
        _: SocketAddr,
        _: QueuePairConfig,
        _: &[u8],
    ) -> Option<Result<SimulatedEndpoint>> {
        None
    }

    pub(crate) fn poll_connected(
        &self,
        _: &mut Context<'_>,
    ) -> Poll<std::result::Result<Vec<u8>, ConnectError>> {
        match *self {}
    }

    pub(crate) fn accept(&self, _: QueuePairConfig, _: &[u8]) -> Result<()> {
        match *self {}
    }

    pub(crate) fn poll_established(&self, _: &mut Context<'_>) -> Poll<Result<()>> {
        match *self {}
    }

    pub(crate) fn reject(&self, _: &[u8]) {
        match *self {}
    }

    pub(crate) fn addresses(&self) -> (SocketAddr, SocketAddr) {
        match *self {}
    }

    pub(crate) fn info(&self) -> RdmaInfo {
        match *self {}
    }

    pub(crate) fn post(&self, _: &mut Vec<WorkRequest>) {
        match *self {}
    }

    pub(crate) fn post_receive(&self, _: Vec<u8>) {
        match *self {}
    }

    pub(crate) fn expose(&self, _: Memory) -> std::result::Result<Exposed, Memory> {
        match *self {}
    }

    pub(crate) fn poll_event(&self, _: &mut Context<'_>) -> Poll<Raised> {
        match *self {}
    }

    pub(crate) fn disconnect(&self) {
        match *self {}
    }
}
