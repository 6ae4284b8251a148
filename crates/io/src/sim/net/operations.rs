//! Operations on simulated sockets, and the events of the network.
//!
//! **Called by** the world. **Invariants**: an operation is completed once, by its end, its cancellation, the drop of its
//! socket or a power cut.

use super::sockets::{Net, Socket, ip_of, node_of};
use super::stream::{Packet, Stream};
use super::transport::handle_result;
use crate::runtime::{NodeId, Op, OpTable};
use crate::sim::SocketId;
use crate::sim::core::Core;
use crate::sim::event::{Event, Nanos, NetEvent};
use std::net::SocketAddr;

/// Approximately the most bytes that one send takes; a longer batch takes several sends.
const SEND_MAX: usize = 1 << 20;
/// Time after which an unanswered connection attempt fails (tcp_syn_retries = 6).
const CONNECT_TIMEOUT: Nanos = 127_000_000_000;

impl Net {
    /// Starts an operation on a socket.
    pub(in crate::sim) fn start(
        &mut self,
        core: &mut Core,
        key: usize,
        id: SocketId,
        ops: &mut OpTable,
    ) {
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
            Op::Read { .. }
            | Op::Write { .. }
            | Op::Flush { .. }
            | Op::Zero { .. }
            | Op::Readable { .. } => {
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
        let Some(Socket::Fresh(node, bound)) = self.sockets.get(&id) else {
            core.complete(key, -libc::ENOTCONN);
            return;
        };
        let (node, bound) = (*node, *bound);
        let known = node_of(node, addr.ip()).filter(|n| (*n as usize) < core.nodes.len());
        let ip = if addr.ip().is_loopback() {
            addr.ip()
        } else {
            ip_of(node)
        };
        let local = SocketAddr::new(ip, bound.unwrap_or_else(|| self.free_port(node)));
        let mut stream = Stream::new(core, node, local, known.unwrap_or(node), addr);
        stream.connecting = Some(key);
        let epoch = stream.epoch;
        self.sockets.insert(id, Socket::Stream(Box::new(stream)));
        if known.is_none() {
            let at = core.clock + core.upto(1_000_000);
            let reset = NetEvent::Reset {
                to: id,
                from: node,
                errno: libc::EHOSTUNREACH,
            };
            core.schedule(at, Event::Net(reset));
            return;
        }
        core.schedule(
            core.clock + CONNECT_TIMEOUT,
            Event::Net(NetEvent::GiveUp { id, epoch }),
        );
        self.transmit(core, id, Packet::Syn);
    }

    /// Cancels the operation `key`. Packets that it has sent stay in flight.
    pub(in crate::sim) fn cancel(&mut self, id: SocketId, key: usize) {
        match self.sockets.get_mut(&id) {
            Some(Socket::Listener(l)) => l.waiting.retain(|k| *k != key),
            Some(Socket::Stream(s)) => s.forget(key),
            Some(Socket::Fresh(..)) | None => {}
        }
    }

    /// Handles the drop of a socket's last handle.
    pub(in crate::sim) fn close(&mut self, core: &mut Core, id: SocketId) {
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
            Some(Socket::Fresh(..)) => drop(self.sockets.remove(&id)),
            None => {}
        }
    }

    pub(in crate::sim) fn happen(&mut self, core: &mut Core, event: NetEvent, ops: &mut OpTable) {
        match event {
            NetEvent::Arrive(id) => self.arrive(core, id, ops),
            NetEvent::Reset { to, from, errno } => self.reset(core, to, from, errno),
            NetEvent::GiveUp { id, epoch } => {
                if self.stream(id).is_some_and(|s| s.epoch == epoch) {
                    self.fail(core, id, libc::ETIMEDOUT);
                }
            }
            NetEvent::Probe { id, lost } => self.probe(core, id, lost),
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
            let next = NetEvent::Probe { id, lost: None };
            return core.schedule(core.clock + idle, Event::Net(next));
        }
        let since = lost.unwrap_or(core.clock);
        if core.clock - since >= s.give_up_after {
            return self.fail(core, id, libc::ETIMEDOUT);
        }
        let (next, at) = (
            NetEvent::Probe {
                id,
                lost: Some(since),
            },
            since + s.give_up_after,
        );
        core.schedule(at, Event::Net(next));
    }

    /// Removes all sockets of `node`. Their peers are not notified.
    pub(in crate::sim) fn power_cut(&mut self, core: &mut Core, node: NodeId) {
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
                Some(Socket::Fresh(..)) | None => {}
            }
        }
    }
}
