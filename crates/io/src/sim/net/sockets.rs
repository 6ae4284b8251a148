//! The table of simulated sockets: addresses, ports, options.
//!
//! **Owns** [`Net`]. **Called by** the world, and by transport and operations, which change the sockets in it.

use super::link::Links;
use super::stream::Stream;
use crate::limits::{PRIVILEGED_CLIENT_PORT_FIRST, PRIVILEGED_PORTS};
use crate::net::{TcpInfo, TcpOptions};
use crate::runtime::NodeId;
use crate::sim::SocketId;
use crate::sim::core::Core;
use crate::sim::event::{Event, NetEvent, nanos};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// First port assigned for port 0.
const EPHEMERAL_FIRST: u16 = 32_768;

/// A listening socket, its connections that no accept has taken, and its waiting accepts.
pub(super) struct Listener {
    pub(super) node: NodeId,
    pub(super) addr: SocketAddr,
    pub(super) arrived: VecDeque<SocketId>,
    pub(super) waiting: VecDeque<usize>,
}

/// A socket of any state.
pub(super) enum Socket {
    /// A new one, with the port that it is bound to.
    Fresh(NodeId, Option<u16>),
    Listener(Listener),
    Stream(Box<Stream>),
}

impl Socket {
    /// The node that it belongs to.
    pub(super) fn node(&self) -> NodeId {
        match self {
            Socket::Fresh(n, _) => *n,
            Socket::Listener(l) => l.node,
            Socket::Stream(s) => s.node,
        }
    }
}

/// All sockets and links.
#[derive(Default)]
pub(in crate::sim) struct Net {
    pub(super) sockets: BTreeMap<SocketId, Socket>,
    next_id: u32,
    ports: BTreeMap<NodeId, u16>,
    pub(in crate::sim) links: Links,
}

/// The address of a node.
pub(in crate::sim) fn ip_of(node: NodeId) -> IpAddr {
    let [_, b, c, d] = (node + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, b, c, d))
}

/// The node with address `addr`, as seen from `from`.
pub(in crate::sim) fn node_of(from: NodeId, addr: IpAddr) -> Option<NodeId> {
    match addr {
        a if a.is_loopback() || a.is_unspecified() => Some(from),
        IpAddr::V4(a) => match a.octets() {
            [10, b, c, d] => u32::from_be_bytes([0, b, c, d]).checked_sub(1),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

impl Net {
    pub(super) fn add(&mut self, socket: Socket) -> SocketId {
        let id = SocketId(self.next_id);
        self.next_id += 1;
        self.sockets.insert(id, socket);
        id
    }

    pub(super) fn stream(&mut self, id: SocketId) -> Option<&mut Stream> {
        match self.sockets.get_mut(&id) {
            Some(Socket::Stream(s)) => Some(s),
            _ => None,
        }
    }

    pub(super) fn free_port(&mut self, node: NodeId) -> u16 {
        let port = self.ports.entry(node).or_insert(EPHEMERAL_FIRST);
        let free = *port;
        *port = port.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
        free
    }

    pub(in crate::sim) fn listen(
        &mut self,
        node: NodeId,
        addr: SocketAddr,
    ) -> Result<(SocketId, SocketAddr)> {
        if !addr.ip().is_unspecified() && node_of(node, addr.ip()) != Some(node) {
            return Err(Error::Unreachable(libc::EADDRNOTAVAIL));
        }
        let mut local = addr;
        while local.port() == 0 || (addr.port() == 0 && self.listener_at(node, local).is_some()) {
            local.set_port(self.free_port(node));
        }
        if self.listener_at(node, local).is_some() {
            return Err(Error::Busy(libc::EADDRINUSE));
        }
        let listener = Listener {
            node,
            addr: local,
            arrived: VecDeque::new(),
            waiting: VecDeque::new(),
        };
        Ok((self.add(Socket::Listener(listener)), local))
    }

    pub(super) fn listener_at(&self, node: NodeId, addr: SocketAddr) -> Option<SocketId> {
        let overlap = |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() || b.is_unspecified();
        self.sockets.iter().find_map(|(id, s)| match s {
            Socket::Listener(l) => {
                let same = l.node == node
                    && l.addr.port() == addr.port()
                    && overlap(l.addr.ip(), addr.ip());
                same.then_some(*id)
            }
            _ => None,
        })
    }

    pub(in crate::sim) fn new_socket(&mut self, node: NodeId) -> SocketId {
        self.add(Socket::Fresh(node, None))
    }

    /// Gives a new socket a privileged port that no connection of its node has. Errors: `Busy` if there is none, `Closed`.
    pub(in crate::sim) fn bind_privileged(&mut self, id: SocketId) -> Result<()> {
        let Some(Socket::Fresh(node, None)) = self.sockets.get(&id) else {
            return Err(Error::Closed);
        };
        let node = *node;
        let used = |s: &Socket| match s {
            Socket::Fresh(at, port) if *at == node => *port,
            Socket::Stream(s) if s.node == node => Some(s.local.port()),
            _ => None,
        };
        let used: BTreeSet<u16> = self.sockets.values().filter_map(used).collect();
        let mut ports = (PRIVILEGED_CLIENT_PORT_FIRST..PRIVILEGED_PORTS).rev();
        let free = ports.find(|port| !used.contains(port));
        let port = free.ok_or(Error::Busy(libc::EADDRINUSE))?;
        self.sockets.insert(id, Socket::Fresh(node, Some(port)));
        Ok(())
    }

    pub(in crate::sim) fn addresses(&self, id: SocketId) -> Result<(SocketAddr, SocketAddr)> {
        match self.sockets.get(&id) {
            Some(Socket::Stream(s)) => Ok((s.local, s.remote)),
            _ => Err(Error::Closed),
        }
    }

    pub(in crate::sim) fn set_options(
        &mut self,
        core: &mut Core,
        id: SocketId,
        options: &TcpOptions,
    ) {
        let Some(s) = self.stream(id) else { return };
        if let Some(idle) = options.keep_alive {
            let watched = s.keep_alive.replace(nanos(idle)).is_some();
            if !watched {
                let at = core.clock + nanos(idle);
                core.schedule(at, Event::Net(NetEvent::Probe { id, lost: None }));
            }
        }
        if let Some(t) = options.user_timeout {
            s.give_up_after = nanos(t);
        }
        s.abort_on_close |= options.abort_on_close;
    }

    pub(in crate::sim) fn info(&self, core: &Core, id: SocketId) -> Result<TcpInfo> {
        let Some(Socket::Stream(s)) = self.sockets.get(&id) else {
            return Err(Error::Closed);
        };
        let there = self.links.get(core, s.node, s.remote_node);
        let back = self.links.get(core, s.remote_node, s.node);
        Ok(TcpInfo {
            mss: 1448,
            path_mtu: 1500,
            rtt_us: u32::try_from((there.delay + back.delay).as_micros()).unwrap_or(u32::MAX),
            rtt_min_us: u32::try_from((there.delay + back.delay).as_micros()).unwrap_or(u32::MAX),
            rtt_var_us: u32::try_from((there.jitter + back.jitter).as_micros()).unwrap_or(u32::MAX),
            retransmits: s.retransmits,
            congestion: "simulated".into(),
        })
    }
}
