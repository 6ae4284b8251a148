//! Configuration of a session.

use super::limits::{CONNECTIONS_MAX, SLOTS_MAX};
use io::net::TcpOptions;
use nfs::rpc::{AuthSys, Credential};
use nfs::service::NfsTransport;
use std::net::SocketAddr;
use std::time::Duration;

/// Address, caller, extent and limits of a session.
#[derive(Debug, Clone)]
pub struct Config {
    /// The server's address.
    pub addr: SocketAddr,
    /// The transport.
    pub transport: NfsTransport,
    /// Whether the server may withdraw keys of this side with its replies over RDMA. Keys of a process's registered memory cannot be withdrawn by a
    /// message: such a reply would end the connection.
    pub remote_invalidation: bool,
    /// The client's name (`co_ownerid`). A client of the same name replaces this one and ends its sessions.
    pub owner: Vec<u8>,
    /// Whether the session begins with [`Session::reclaim`](crate::Session::reclaim): the caller ends that with
    /// [`Session::reclaimed`](crate::Session::reclaimed). Else nothing is reclaimed.
    pub reclaims: bool,
    /// Minor version: 1 or 2.
    pub minor: u32,
    /// Slots: outstanding calls; the server may grant fewer.
    pub slots: u16,
    /// Connections of the session (trunking, `nconnect`).
    pub connections: u16,
    /// The caller (AUTH_SYS).
    pub uid: u32,
    /// The caller's group.
    pub gid: u32,
    /// Time limit of connecting and of creating the session.
    pub connect_timeout: Duration,
    /// Time limit of one call, precise to a quarter of it. Then the session ends.
    pub command_timeout: Duration,
    /// Silence after which the lease is renewed with a SEQUENCE. Zero: never.
    pub keep_alive: Duration,
    /// Socket options.
    pub tcp: TcpOptions,
}

impl Config {
    /// 64 slots on one connection over TCP, version 4.2, root, 30 s for a call, a random name.
    #[must_use]
    pub fn new(addr: SocketAddr) -> Self {
        let mut id = [0; 8];
        io::rng::fill(&mut id);
        Self {
            addr,
            transport: NfsTransport::Tcp,
            remote_invalidation: false,
            owner: format!("wirepool-{:016x}", u64::from_be_bytes(id)).into_bytes(),
            reclaims: false,
            minor: 2,
            slots: 64,
            connections: 1,
            uid: 0,
            gid: 0,
            connect_timeout: Duration::from_secs(10),
            command_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(20),
            tcp: TcpOptions::default(),
        }
    }

    /// Returns the configuration with all values brought into their ranges.
    pub(super) fn clamped(mut self) -> Self {
        self.slots = self.slots.clamp(1, SLOTS_MAX);
        self.connections = self.connections.clamp(1, CONNECTIONS_MAX);
        self.minor = self.minor.clamp(1, 2);
        self
    }

    /// The credential of calls.
    pub(super) fn credential(&self) -> Credential {
        Credential::Sys(AuthSys {
            stamp: 0,
            machine: b"wirepool".to_vec(),
            uid: self.uid,
            gid: self.gid,
            groups: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Devices of Linux end the connection instead.
    #[test]
    fn servers_are_not_asked_to_withdraw_keys() {
        assert!(!Config::new(([127, 0, 0, 1], 20049).into()).remote_invalidation);
    }
}
