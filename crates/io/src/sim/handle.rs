//! Handles of simulated sockets and disks: the operations that are not passed through a driver.
//!
//! **Called by** [`crate::net`] and [`crate::disk`]. **Invariants**: `absent.rs` has the same interface for a build without
//! the feature `sim`; a dropped handle closes its socket or disk.

use super::{DiskId, SocketId, World};
use crate::disk::{DiskInfo, OpenOptions};
use crate::net::{TcpInfo, TcpOptions};
use crate::runtime::{NodeId, current, try_current};
use crate::{Error, Result};
use std::net::SocketAddr;
use std::path::Path;

/// A simulated socket.
pub(crate) struct SimulatedSocket(SocketId);

/// An open simulated disk.
pub(crate) struct SimulatedDisk(DiskId);

/// Whether this thread simulates.
pub(crate) fn is_running() -> bool {
    current().driver.borrow_mut().sim().is_some()
}

/// Runs `call` for the node of the running task; `None` outside of a simulation.
fn on_node<T>(call: impl FnOnce(&mut World, NodeId) -> T) -> Option<T> {
    let rt = current();
    let node = rt.tasks.node();
    let mut driver = rt.driver.borrow_mut();
    driver.sim().map(|w| call(w, node))
}

/// Runs `call` on the world. Errors: `Cancelled` outside of a simulation.
fn on_world<T>(call: impl FnOnce(&mut World) -> Result<T>) -> Result<T> {
    let rt = current();
    let mut driver = rt.driver.borrow_mut();
    call(driver.sim().ok_or(Error::Cancelled)?)
}

/// Runs `call` on the world, if there is one: a handle may be dropped after its runtime.
fn if_running(call: impl FnOnce(&mut World)) {
    if let Some(rt) = try_current()
        && let Some(world) = rt.driver.borrow_mut().sim()
    {
        call(world);
    }
}

impl SimulatedSocket {
    pub(crate) fn listen(addr: SocketAddr) -> Option<Result<(SimulatedSocket, SocketAddr)>> {
        let listening = on_node(|w, node| w.listen(node, addr))?;
        Some(listening.map(|(id, local)| (SimulatedSocket(id), local)))
    }

    pub(crate) fn stream() -> Option<SimulatedSocket> {
        on_node(World::new_socket).map(SimulatedSocket)
    }

    pub(crate) fn of_result(result: usize) -> Option<SimulatedSocket> {
        is_running().then(|| SimulatedSocket(SocketId(result as u32)))
    }

    pub(super) fn id(&self) -> SocketId {
        self.0
    }

    pub(crate) fn addresses(&self) -> Result<(SocketAddr, SocketAddr)> {
        on_world(|w| w.addresses(self.0))
    }

    pub(crate) fn bind_privileged(&self) -> Result<()> {
        on_world(|w| w.bind_privileged(self.0))
    }

    pub(crate) fn set_options(&self, options: &TcpOptions) -> Result<()> {
        on_world(|w| {
            w.set_options(self.0, options);
            Ok(())
        })
    }

    pub(crate) fn info(&self) -> Result<TcpInfo> {
        on_world(|w| w.tcp_info(self.0))
    }

    pub(crate) fn shutdown(&self) {
        if_running(|w| w.shutdown(self.0));
    }
}

impl Drop for SimulatedSocket {
    fn drop(&mut self) {
        if_running(|w| w.close(self.0));
    }
}

impl SimulatedDisk {
    pub(crate) fn open(
        path: &Path,
        options: &OpenOptions,
    ) -> Option<Result<(SimulatedDisk, DiskInfo)>> {
        let opened = on_node(|w, node| w.open_disk(node, path, options))?;
        Some(opened.map(|(id, info)| (SimulatedDisk(id), info)))
    }

    pub(super) fn id(&self) -> DiskId {
        self.0
    }

    pub(crate) fn size(&self) -> Result<u64> {
        on_world(|w| w.disk_size(self.0))
    }

    pub(crate) fn used(&self) -> Result<u64> {
        on_world(|w| w.disk_used(self.0))
    }

    pub(crate) fn resize(&self, size: u64) -> Result<()> {
        on_world(|w| w.resize_disk(self.0, size))
    }

    pub(crate) fn reserve(&self, offset: u64, len: u64) -> Result<()> {
        on_world(|w| w.reserve_disk(self.0, offset, len))
    }
}

impl Drop for SimulatedDisk {
    fn drop(&mut self) {
        if_running(|w| w.close_disk(self.0));
    }
}
