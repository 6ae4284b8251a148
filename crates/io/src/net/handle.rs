//! Handle of a socket on either driver.
//!
//! **Called by** listeners and streams, and by the drivers. **Invariants**: the only place that tells real sockets from
//! simulated ones. Without the feature `sim` a simulated socket is a type without values, so the compiler drops its branches.

use super::options::{TcpInfo, TcpOptions};
use crate::Result;
use crate::linux;
use crate::sim::SimulatedSocket;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// A socket of either driver.
pub(crate) enum SocketHandle {
    Linux(OwnedFd),
    Sim(SimulatedSocket),
}

impl SocketHandle {
    /// See [`super::TcpListener::bind`].
    pub(super) fn listen(addr: SocketAddr) -> Result<(SocketHandle, SocketAddr)> {
        if let Some(listening) = SimulatedSocket::listen(addr) {
            return listening.map(|(socket, local)| (SocketHandle::Sim(socket), local));
        }
        linux::bind(addr).map(|(fd, local)| (SocketHandle::Linux(fd), local))
    }

    /// A new socket, to be connected to `addr`.
    pub(super) fn stream(addr: SocketAddr) -> Result<SocketHandle> {
        match SimulatedSocket::stream() {
            Some(socket) => Ok(SocketHandle::Sim(socket)),
            None => linux::new_stream(addr).map(SocketHandle::Linux),
        }
    }

    /// Gives a new socket a free privileged port for a connection to `addr`. Errors: `Denied`, `Busy` if none is free.
    pub(super) fn bind_privileged(&self, addr: SocketAddr) -> Result<()> {
        match self {
            SocketHandle::Linux(fd) => linux::bind_privileged(fd, addr),
            SocketHandle::Sim(s) => s.bind_privileged(),
        }
    }

    /// The new socket in the result of an accept.
    pub(crate) fn of_result(result: usize) -> SocketHandle {
        if let Some(socket) = SimulatedSocket::of_result(result) {
            return SocketHandle::Sim(socket);
        }
        // SAFETY: the kernel just created this descriptor, and it has no other owner.
        SocketHandle::Linux(unsafe { OwnedFd::from_raw_fd(result as RawFd) })
    }

    /// The descriptor of a real socket. Panics on a simulated one.
    pub(crate) fn fd(&self) -> RawFd {
        match self {
            SocketHandle::Linux(fd) => fd.as_raw_fd(),
            SocketHandle::Sim(_) => {
                unreachable!("a simulated socket never reaches the real driver")
            }
        }
    }

    /// The simulator's socket. Panics on a real one.
    #[cfg(feature = "sim")]
    pub(crate) fn sim(&self) -> &SimulatedSocket {
        match self {
            SocketHandle::Sim(s) => s,
            SocketHandle::Linux(_) => unreachable!("a real socket never reaches the simulator"),
        }
    }

    /// Our address, and the peer's.
    pub(super) fn addresses(&self) -> Result<(SocketAddr, SocketAddr)> {
        match self {
            SocketHandle::Linux(fd) => Ok((linux::local_addr(fd)?, linux::peer_addr(fd)?)),
            SocketHandle::Sim(s) => s.addresses(),
        }
    }

    /// See [`super::TcpStream::set_options`].
    pub(super) fn set_options(&self, options: &TcpOptions) -> Result<()> {
        match self {
            SocketHandle::Linux(fd) => linux::set_options(fd, options),
            SocketHandle::Sim(s) => s.set_options(options),
        }
    }

    /// See [`super::TcpStream::info`].
    pub(super) fn info(&self) -> Result<TcpInfo> {
        match self {
            SocketHandle::Linux(fd) => linux::tcp_info(fd),
            SocketHandle::Sim(s) => s.info(),
        }
    }

    /// See [`super::TcpStream::shutdown`].
    pub(super) fn shutdown(&self) {
        match self {
            SocketHandle::Linux(fd) => linux::shutdown(fd),
            SocketHandle::Sim(s) => s.shutdown(),
        }
    }
}
