//! The simulated world: seeded scheduler, virtual clock, network and disks that fail.

use crate::disk::{DiskInfo, OpenOptions};
use crate::runtime::NodeId;
use crate::{Error, Result};
use std::net::SocketAddr;
use std::path::Path;

/// A simulated socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SocketId(pub(crate) u32);

/// A simulated disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct DiskId(pub(crate) u32);

/// The state of the world that all simulated nodes share.
pub struct World {}

impl World {
    pub(crate) fn listen(
        &mut self,
        _node: NodeId,
        _addr: SocketAddr,
    ) -> Result<(SocketId, SocketAddr)> {
        Err(Error::Cancelled)
    }
    pub(crate) fn new_socket(&mut self, _node: NodeId) -> SocketId {
        SocketId(0)
    }
    pub(crate) fn addresses(&self, _id: SocketId) -> Result<(SocketAddr, SocketAddr)> {
        Err(Error::Cancelled)
    }
    pub(crate) fn close(&mut self, _id: SocketId) {}
    pub(crate) fn shutdown(&mut self, _id: SocketId) {}
    pub(crate) fn open_disk(
        &mut self,
        _node: NodeId,
        _path: &Path,
        _o: &OpenOptions,
    ) -> Result<(DiskId, DiskInfo)> {
        Err(Error::Cancelled)
    }
    pub(crate) fn disk_size(&mut self, _id: DiskId) -> Result<u64> {
        Err(Error::Cancelled)
    }
    pub(crate) fn resize_disk(&mut self, _id: DiskId, _size: u64) -> Result<()> {
        Err(Error::Cancelled)
    }
}
