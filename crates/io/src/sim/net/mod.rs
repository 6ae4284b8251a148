//! TCP between simulated nodes.
//!
//! **Owns** sockets and links. **Invariants**: the bytes of one direction of a connection arrive once and in order, or the
//! connection ends; a sender buffers at most [`SEND_BUFFER`] bytes beyond the receiver's window. A lost segment is sent
//! again, so loss appears as delay; a cut link delays sent bytes until it heals or the sender gives up.

mod link;
mod stream;

pub use link::LinkConfig;

use super::SocketId;
use super::core::{Core, Event as CoreEvent, Nanos};
use crate::limits::LISTEN_BACKLOG;
use crate::net::{TcpInfo, TcpOptions};
use crate::runtime::{NodeId, Op, OpTable};
use crate::{Error, Result};
use link::Links;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use stream::{Packet, Stream};

/// Bytes that a sender buffers beyond the receiver's window.
const SEND_BUFFER: usize = 128 << 10;
/// Approximately the most bytes that one send takes; a longer batch takes several sends.
const SEND_MAX: usize = 1 << 20;
/// First port assigned for port 0.
const EPHEMERAL_FIRST: u16 = 32_768;
/// Time after which an unanswered connection attempt fails (tcp_syn_retries = 6).
const CONNECT_TIMEOUT: Nanos = 127_000_000_000;
/// Time after which a connection with unacknowledged data fails (tcp_retries2 = 15).
const RETRANSMIT_TIMEOUT: Nanos = 924_000_000_000;
/// Longest pause before a retransmission.
const RTO_MAX: Nanos = 800_000_000;

/// An event on the network.
#[derive(Debug)]
pub(super) enum Event {
    /// The packet at the front of a stream's wire arrives.
    Arrive(SocketId),
    /// A host that does not know the connection answers with a reset.
    Reset {
        to: SocketId,
        from: NodeId,
        errno: i32,
    },
    /// A sender has waited too long for an acknowledgement.
    GiveUp { id: SocketId, epoch: u64 },
    /// A keep-alive probe of a silent peer, which has not answered since `lost`.
    Probe { id: SocketId, lost: Option<Nanos> },
}

struct Listener {
    node: NodeId,
    addr: SocketAddr,
    arrived: VecDeque<SocketId>,
    waiting: VecDeque<usize>,
}

enum Socket {
    Fresh(NodeId),
    Listener(Listener),
    Stream(Box<Stream>),
}

/// See the module header.
#[derive(Default)]
pub(super) struct Net {
    sockets: BTreeMap<SocketId, Socket>,
    next_id: u32,
    ports: BTreeMap<NodeId, u16>,
    pub(super) links: Links,
}

/// The address of a node.
pub(super) fn ip_of(node: NodeId) -> IpAddr {
    let [_, b, c, d] = (node + 1).to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(10, b, c, d))
}

/// The node with address `addr`, as seen from `from`.
fn node_of(from: NodeId, addr: IpAddr) -> Option<NodeId> {
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
    fn add(&mut self, socket: Socket) -> SocketId {
        let id = SocketId(self.next_id);
        self.next_id += 1;
        self.sockets.insert(id, socket);
        id
    }

    fn stream(&mut self, id: SocketId) -> Option<&mut Stream> {
        match self.sockets.get_mut(&id) {
            Some(Socket::Stream(s)) => Some(s),
            _ => None,
        }
    }

    fn free_port(&mut self, node: NodeId) -> u16 {
        let port = self.ports.entry(node).or_insert(EPHEMERAL_FIRST);
        let free = *port;
        *port = port.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
        free
    }

    pub(super) fn listen(
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

    fn listener_at(&self, node: NodeId, addr: SocketAddr) -> Option<SocketId> {
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

    pub(super) fn new_socket(&mut self, node: NodeId) -> SocketId {
        self.add(Socket::Fresh(node))
    }

    pub(super) fn addresses(&self, id: SocketId) -> Result<(SocketAddr, SocketAddr)> {
        match self.sockets.get(&id) {
            Some(Socket::Stream(s)) => Ok((s.local, s.remote)),
            _ => Err(Error::Closed),
        }
    }

    pub(super) fn set_options(&mut self, core: &mut Core, id: SocketId, options: &TcpOptions) {
        let Some(s) = self.stream(id) else { return };
        if let Some(idle) = options.keep_alive {
            let watched = s.keep_alive.replace(super::world::nanos(idle)).is_some();
            if !watched {
                let at = core.clock + super::world::nanos(idle);
                core.schedule(at, CoreEvent::Net(Event::Probe { id, lost: None }));
            }
        }
        if let Some(t) = options.user_timeout {
            s.give_up_after = super::world::nanos(t);
        }
        s.abort_on_close |= options.abort_on_close;
    }

    pub(super) fn info(&self, core: &Core, id: SocketId) -> Result<TcpInfo> {
        let Some(Socket::Stream(s)) = self.sockets.get(&id) else {
            return Err(Error::Closed);
        };
        let there = self.links.get(core, s.node, s.remote_node);
        let back = self.links.get(core, s.remote_node, s.node);
        Ok(TcpInfo {
            mss: 1448,
            path_mtu: 1500,
            rtt_us: u32::try_from((there.delay + back.delay).as_micros()).unwrap_or(u32::MAX),
            rtt_var_us: u32::try_from((there.jitter + back.jitter).as_micros()).unwrap_or(u32::MAX),
            retransmits: s.retransmits,
            congestion: "simulated".into(),
        })
    }

    /// Starts an operation on a socket.
    pub(super) fn start(&mut self, core: &mut Core, key: usize, id: SocketId, ops: &mut OpTable) {
        match ops.get_mut(key) {
            Op::Accept { .. } => self.accept(core, key, id),
            Op::Connect { addr, .. } => {
                let addr = *addr;
                self.connect(core, key, id, addr);
            }
            Op::Recv { .. } => self.recv(core, key, id, ops),
            Op::Send { batch, sent, .. } => {
                let bytes = batch.copy_from(*sent, SEND_MAX);
                self.send(core, key, id, bytes);
            }
            Op::Read { .. } | Op::Write { .. } | Op::Flush { .. } | Op::Zero { .. } => {
                unreachable!("the world sends disks their own operations")
            }
        }
    }

    fn accept(&mut self, core: &mut Core, key: usize, id: SocketId) {
        match self.sockets.get_mut(&id) {
            Some(Socket::Listener(l)) => match l.arrived.pop_front() {
                Some(s) => core.complete(key, handle_result(s)),
                None => l.waiting.push_back(key),
            },
            _ => core.complete(key, -libc::EINVAL),
        }
    }

    fn connect(&mut self, core: &mut Core, key: usize, id: SocketId, addr: SocketAddr) {
        let Some(Socket::Fresh(node)) = self.sockets.get(&id) else {
            core.complete(key, -libc::ENOTCONN);
            return;
        };
        let node = *node;
        let known = node_of(node, addr.ip()).filter(|n| (*n as usize) < core.nodes.len());
        let ip = if addr.ip().is_loopback() {
            addr.ip()
        } else {
            ip_of(node)
        };
        let local = SocketAddr::new(ip, self.free_port(node));
        let mut stream = Stream::new(core, node, local, known.unwrap_or(node), addr);
        stream.connecting = Some(key);
        let epoch = stream.epoch;
        self.sockets.insert(id, Socket::Stream(Box::new(stream)));
        if known.is_none() {
            let at = core.clock + core.upto(1_000_000);
            let reset = Event::Reset {
                to: id,
                from: node,
                errno: libc::EHOSTUNREACH,
            };
            core.schedule(at, CoreEvent::Net(reset));
            return;
        }
        core.schedule(
            core.clock + CONNECT_TIMEOUT,
            CoreEvent::Net(Event::GiveUp { id, epoch }),
        );
        self.transmit(core, id, Packet::Syn);
    }

    /// Handles a connection request that reached `node`.
    fn syn(&mut self, core: &mut Core, from: SocketId) -> Handshake {
        let Some(client) = self.stream(from) else {
            return Handshake::Done;
        };
        let (node, addr) = (client.remote_node, client.remote);
        let (peer_node, peer) = (client.node, client.local);
        let Some(listener) = self.listener_at(node, addr) else {
            self.reset_later(core, from, node, libc::ECONNREFUSED);
            return Handshake::Done;
        };
        let Some(Socket::Listener(l)) = self.sockets.get(&listener) else {
            return Handshake::Done;
        };
        if l.arrived.len() >= LISTEN_BACKLOG as usize {
            return Handshake::Again;
        }
        let mut stream = Stream::new(core, node, addr, peer_node, peer);
        stream.peer = Some(from);
        let server = self.add(Socket::Stream(Box::new(stream)));
        self.transmit(core, server, Packet::SynAck);
        if let Some(Socket::Listener(l)) = self.sockets.get_mut(&listener) {
            match l.waiting.pop_front() {
                Some(key) => core.complete(key, handle_result(server)),
                None => l.arrived.push_back(server),
            }
        }
        Handshake::Done
    }

    /// Cancels the operation `key`. Packets that it has sent stay in flight.
    pub(super) fn cancel(&mut self, id: SocketId, key: usize) {
        match self.sockets.get_mut(&id) {
            Some(Socket::Listener(l)) => l.waiting.retain(|k| *k != key),
            Some(Socket::Stream(s)) => s.forget(key),
            Some(Socket::Fresh(_)) | None => {}
        }
    }

    /// Handles the drop of a socket's last handle.
    pub(super) fn close(&mut self, core: &mut Core, id: SocketId) {
        match self.sockets.get(&id) {
            Some(Socket::Stream(_)) => self.close_stream(core, id),
            Some(Socket::Listener(_)) => {
                if let Some(Socket::Listener(l)) = self.sockets.remove(&id) {
                    l.waiting
                        .into_iter()
                        .for_each(|key| core.complete(key, -libc::EINVAL));
                    l.arrived.into_iter().for_each(|s| self.abort(core, s));
                }
            }
            Some(Socket::Fresh(_)) => drop(self.sockets.remove(&id)),
            None => {}
        }
    }

    pub(super) fn happen(&mut self, core: &mut Core, event: Event, ops: &mut OpTable) {
        match event {
            Event::Arrive(id) => self.arrive(core, id, ops),
            Event::Reset { to, from, errno } => self.reset(core, to, from, errno),
            Event::GiveUp { id, epoch } => {
                if self.stream(id).is_some_and(|s| s.epoch == epoch) {
                    self.fail(core, id, libc::ETIMEDOUT);
                }
            }
            Event::Probe { id, lost } => self.probe(core, id, lost),
        }
    }

    /// Probes the peer of a stream with keep-alive. The stream fails if no probe was answered for the user timeout.
    fn probe(&mut self, core: &mut Core, id: SocketId, lost: Option<Nanos>) {
        let Some(Socket::Stream(s)) = self.sockets.get(&id) else {
            return;
        };
        let Some(idle) = s.keep_alive else { return };
        let there = s.peer.is_some_and(|p| self.sockets.contains_key(&p));
        let blocked = self.links.blocked(core, s.node, s.remote_node)
            || self.links.blocked(core, s.remote_node, s.node);
        if there && !blocked {
            let next = Event::Probe { id, lost: None };
            return core.schedule(core.clock + idle, CoreEvent::Net(next));
        }
        let since = lost.unwrap_or(core.clock);
        if core.clock - since >= s.give_up_after {
            return self.fail(core, id, libc::ETIMEDOUT);
        }
        let (next, at) = (
            Event::Probe {
                id,
                lost: Some(since),
            },
            since + s.give_up_after,
        );
        core.schedule(at, CoreEvent::Net(next));
    }

    /// Removes all sockets of `node`. Their peers are not notified.
    pub(super) fn power_cut(&mut self, core: &mut Core, node: NodeId) {
        let gone: Vec<SocketId> = self
            .sockets
            .iter()
            .filter(|(_, s)| s.node() == node)
            .map(|(id, _)| *id)
            .collect();
        for id in gone {
            match self.sockets.remove(&id) {
                Some(Socket::Stream(s)) => s
                    .waiters()
                    .for_each(|key| core.complete(key, -libc::ECONNRESET)),
                Some(Socket::Listener(l)) => l
                    .waiting
                    .into_iter()
                    .for_each(|k| core.complete(k, -libc::EINVAL)),
                Some(Socket::Fresh(_)) | None => {}
            }
        }
    }

    /// Called when links healed or nodes returned: schedules retransmission of waiting packets after a pause.
    pub(super) fn unblock(&mut self, core: &mut Core) {
        for (id, socket) in &mut self.sockets {
            if let Socket::Stream(s) = socket
                && s.stuck
                && !self.links.blocked(core, s.node, s.remote_node)
            {
                s.retransmits += 1;
                let at = core.clock + core.upto(RTO_MAX);
                core.schedule(at, CoreEvent::Net(Event::Arrive(*id)));
            }
        }
    }

    /// Resets every connection between two nodes, as the restart of a firewall does.
    pub(super) fn reset_between(&mut self, core: &mut Core, a: NodeId, b: NodeId) {
        let both: Vec<(SocketId, NodeId)> = self
            .sockets
            .iter()
            .filter_map(|(id, s)| match s {
                Socket::Stream(s) if [(a, b), (b, a)].contains(&(s.node, s.remote_node)) => {
                    Some((*id, s.remote_node))
                }
                _ => None,
            })
            .collect();
        for (id, other) in both {
            self.reset_later(core, id, other, libc::ECONNRESET);
        }
    }
}

impl Socket {
    fn node(&self) -> NodeId {
        match self {
            Socket::Fresh(n) => *n,
            Socket::Listener(l) => l.node,
            Socket::Stream(s) => s.node,
        }
    }
}

/// Result of a connection request.
enum Handshake {
    Done,
    /// The listener's queue is full: the request is sent again.
    Again,
}

fn handle_result(id: SocketId) -> i32 {
    i32::try_from(id.0).expect("a simulation opens fewer than 2^31 sockets")
}
