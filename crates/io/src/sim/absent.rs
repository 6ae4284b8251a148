//! The simulator's interface in a build without the feature `sim`: nothing is ever simulated.
//!
//! **Called by** [`crate::net`] and [`crate::disk`]. **Invariants**: the same interface as `handle.rs`; the types have no
//! values, so that the compiler drops each branch for simulated sockets and disks.

use crate::Result;
use crate::disk::{DiskInfo, OpenOptions};
use crate::net::{TcpInfo, TcpOptions};
use std::net::SocketAddr;
use std::path::Path;

/// A simulated socket: there is none.
pub(crate) enum SimulatedSocket {}

/// An open simulated disk: there is none.
pub(crate) enum SimulatedDisk {}

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
