//! Transport of bytes between the two ends of simulated connections: packets, windows, resets.
//!
//! **Called by** operations on sockets, by events, and by the control of links. **Invariants**: see the header of [`super`].

use super::sockets::{Net, Socket};
use super::stream::{Fin, Packet, PendingSend, Stream};
use crate::limits::LISTEN_BACKLOG;
use crate::runtime::{NodeId, Op, OpTable};
use crate::sim::SocketId;
use crate::sim::core::Core;
use crate::sim::event::{Event, Nanos, NetEvent, nanos};
use std::collections::VecDeque;

/// Longest pause before a retransmission.
const RTO_MAX: Nanos = 800_000_000;

/// Result of a connection request.
enum Handshake {
    Done,
    /// The listener's queue is full: the request is sent again.
    Again,
}

impl Net {
    /// Sends a packet to the other end.
    pub(super) fn transmit(&mut self, core: &mut Core, id: SocketId, packet: Packet) {
        let Some(Socket::Stream(s)) = self.sockets.get_mut(&id) else {
            return;
        };
        let len = if let Packet::Data(d) = &packet {
            d.len()
        } else {
            0
        };
        let link = self.links.get(core, s.node, s.remote_node);
        let at = (core.clock + link.travel(core, len)).max(s.last_arrival);
        s.last_arrival = at;
        s.wire.push_back((at, packet));
        core.schedule(at, Event::Net(NetEvent::Arrive(id)));
    }

    pub(super) fn arrive(&mut self, core: &mut Core, id: SocketId, ops: &mut OpTable) {
        loop {
            let Some(Socket::Stream(s)) = self.sockets.get_mut(&id) else {
                return;
            };
            if s.wire.front().is_none_or(|(at, _)| *at > core.clock) {
                break;
            }
            if self.links.blocked(core, s.node, s.remote_node) {
                if s.abort_on_close && s.closed {
                    s.wire.clear();
                    break;
                }
                if !s.stuck && s.connecting.is_none() {
                    let give_up = NetEvent::GiveUp { id, epoch: s.epoch };
                    core.schedule(core.clock + s.give_up_after, Event::Net(give_up));
                }
                s.stuck = true;
                return;
            }
            if s.stuck {
                s.stuck = false;
                if s.connecting.is_none() {
                    s.epoch = core.serial();
                }
            }
            if let Some((_, packet)) = s.wire.pop_front() {
                self.deliver(core, id, packet, ops);
            }
        }
        self.bury(id);
    }

    /// Removes a closed stream that has nothing left to send.
    fn bury(&mut self, id: SocketId) {
        if self
            .stream(id)
            .is_some_and(|s| s.closed && s.fin == Fin::Sent && s.wire.is_empty())
        {
            self.sockets.remove(&id);
        }
    }

    fn deliver(&mut self, core: &mut Core, from: SocketId, packet: Packet, ops: &mut OpTable) {
        if matches!(packet, Packet::Syn) {
            if let Handshake::Again = self.syn(core, from)
                && let Some(s) = self.stream(from)
            {
                let at = core.clock + RTO_MAX;
                s.wire.push_front((at, Packet::Syn));
                core.schedule(at, Event::Net(NetEvent::Arrive(from)));
            }
            return;
        }
        let Some(sender) = self.stream(from) else {
            return;
        };
        let (to, to_node) = (sender.peer, sender.remote_node);
        let Some(s) = to.and_then(|to| self.stream(to)) else {
            if !matches!(packet, Packet::Rst) {
                self.reset_later(core, from, to_node, libc::ECONNRESET);
            }
            return;
        };
        let to = to.expect("it was just found");
        match packet {
            Packet::Syn => unreachable!("handled above"),
            Packet::SynAck => {
                s.peer = Some(from);
                s.epoch = core.serial();
                if let Some(key) = s.connecting.take() {
                    core.complete(key, 0);
                }
                let window = s.window;
                self.transmit(core, to, Packet::Window(window));
                let window = self.stream(from).map_or(0, |s| s.window);
                self.opened(core, to, window);
            }
            Packet::Data(d) if s.closed || s.shut => {
                core.trace.bytes(&d);
                self.reset_later(core, from, to_node, libc::ECONNRESET);
            }
            Packet::Data(d) => {
                core.trace
                    .note(core.clock, "data", u64::from(to.0), d.len() as u64);
                core.trace.bytes(&d);
                s.inbox.extend(d);
                self.wake_receiver(core, to, ops);
            }
            Packet::Window(n) => self.opened(core, to, n),
            Packet::Fin => {
                s.eof = true;
                if s.inbox.is_empty()
                    && let Some(key) = s.receiving.take()
                {
                    core.complete(key, 0);
                }
            }
            Packet::Rst => self.fail(core, to, libc::ECONNRESET),
        }
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

    /// Handles a window update: the peer has room for `n` more bytes.
    fn opened(&mut self, core: &mut Core, id: SocketId, n: usize) {
        if let Some(s) = self.stream(id) {
            s.credit += n;
        }
        self.pump(core, id);
    }

    /// Sends as much as the window allows, then refills the outbox from the waiting send.
    fn pump(&mut self, core: &mut Core, id: SocketId) {
        loop {
            let Some(s) = self.stream(id) else { return };
            if s.error.is_some() {
                return;
            }
            if !s.outbox.is_empty() && s.credit > 0 {
                let n = s.next_segment(core);
                s.credit -= n;
                let bytes: Vec<u8> = s.outbox.drain(..n).collect();
                self.transmit(core, id, Packet::Data(bytes));
            } else if s.outbox.is_empty() && s.fin == Fin::Queued {
                s.fin = Fin::Sent;
                self.transmit(core, id, Packet::Fin);
            } else if !s.refill(core) {
                return;
            }
        }
    }

    pub(super) fn send(&mut self, core: &mut Core, key: usize, id: SocketId, bytes: Vec<u8>) {
        let Some(s) = self.stream(id) else {
            core.complete(key, -libc::ENOTCONN);
            return;
        };
        if s.error.is_some() || s.fin != Fin::None || s.shut {
            core.complete(key, -libc::EPIPE);
            return;
        }
        assert!(s.sending.is_none(), "one send at a time on a stream");
        s.sending = Some(PendingSend {
            key,
            bytes,
            taken: 0,
        });
        self.pump(core, id);
    }

    pub(super) fn recv(&mut self, core: &mut Core, key: usize, id: SocketId, ops: &mut OpTable) {
        let Some(s) = self.stream(id) else {
            core.complete(key, -libc::ENOTCONN);
            return;
        };
        assert!(s.receiving.is_none(), "one receive at a time on a stream");
        s.receiving = Some(key);
        if !s.inbox.is_empty() {
            self.wake_receiver(core, id, ops);
        } else if let Some(errno) = s.error.take() {
            // The error is returned once; later receives see the end of the stream.
            s.error = Some(0);
            s.receiving = None;
            core.complete(key, -errno);
        } else if s.eof || s.shut {
            s.receiving = None;
            core.complete(key, 0);
        }
    }

    /// Completes the waiting receive with a part of the bytes that arrived.
    fn wake_receiver(&mut self, core: &mut Core, id: SocketId, ops: &mut OpTable) {
        let Some(s) = self.stream(id) else { return };
        let Some(key) = s.receiving.take() else {
            return;
        };
        let Op::Recv {
            direct, staging, ..
        } = ops.get_mut(key)
        else {
            unreachable!("a receive waits here")
        };
        let first: &mut [u8] = match direct {
            Some((buf, at)) => &mut buf[*at..],
            None => &mut [],
        };
        let room = first.len() + staging.tail().len();
        assert!(room > 0, "a receive needs room");
        let most = s.inbox.len().min(room);
        let n = if core.rng.chance(0.25) {
            1 + core.upto(most as u64 - 1) as usize
        } else {
            most
        };
        let into_first = n.min(first.len());
        copy_out(&mut s.inbox, &mut first[..into_first]);
        copy_out(&mut s.inbox, &mut staging.tail()[..n - into_first]);
        s.taken += n;
        core.complete_with(
            key,
            i32::try_from(n).expect("a buffer is small"),
            !s.inbox.is_empty(),
        );
        if s.inbox.is_empty() || s.taken >= s.window / 4 {
            let taken = std::mem::take(&mut s.taken);
            self.transmit(core, id, Packet::Window(taken));
        }
    }

    pub(in crate::sim) fn shutdown(&mut self, core: &mut Core, id: SocketId) {
        let Some(s) = self.stream(id) else { return };
        if s.shut || s.closed {
            return;
        }
        s.shut = true;
        if let Some(key) = s.receiving.take() {
            core.complete(key, 0);
        }
        if let Some(p) = s.sending.take() {
            core.complete(p.key, -libc::EPIPE);
        }
        if s.fin == Fin::None {
            s.fin = Fin::Queued;
        }
        self.pump(core, id);
    }

    pub(super) fn close_stream(&mut self, core: &mut Core, id: SocketId) {
        let Some(s) = self.stream(id) else { return };
        if s.error.is_some() || s.peer.is_none() {
            self.sockets.remove(&id);
            return;
        }
        s.closed = true;
        s.sending = None;
        if s.abort_on_close || !s.inbox.is_empty() {
            self.abort(core, id);
            return;
        }
        if s.fin == Fin::None {
            s.fin = Fin::Queued;
        }
        self.pump(core, id);
        self.bury(id);
    }

    /// Ends a connection at once with a reset. Packets in flight may arrive; nothing is sent again.
    pub(super) fn abort(&mut self, core: &mut Core, id: SocketId) {
        let Some(Socket::Stream(s)) = self.sockets.get_mut(&id) else {
            return;
        };
        s.outbox.clear();
        let link = self.links.get(core, s.node, s.remote_node);
        let on_its_way = core.clock + nanos(link.delay) + nanos(link.jitter);
        s.wire.retain(|(at, _)| *at <= on_its_way);
        s.last_arrival = s.wire.back().map_or(core.clock, |(at, _)| *at);
        s.closed = true;
        s.fin = Fin::Sent;
        self.transmit(core, id, Packet::Rst);
    }

    /// Schedules a reset from node `from` for the socket `to`, because `from` does not know the connection.
    pub(super) fn reset_later(&mut self, core: &mut Core, to: SocketId, from: NodeId, errno: i32) {
        let Some(s) = self.stream(to) else { return };
        let node = s.node;
        let at = core.clock + self.links.get(core, from, node).travel(core, 0);
        core.schedule(at, Event::Net(NetEvent::Reset { to, from, errno }));
    }

    pub(super) fn reset(&mut self, core: &mut Core, to: SocketId, from: NodeId, errno: i32) {
        let Some(s) = self.stream(to) else { return };
        let node = s.node;
        if from != node && self.links.blocked(core, from, node) {
            // The reset is lost; the sender's next attempt causes another one.
            core.schedule(
                core.clock + RTO_MAX,
                Event::Net(NetEvent::Reset { to, from, errno }),
            );
            return;
        }
        self.fail(core, to, errno);
    }

    /// Fails the connection at this end.
    pub(super) fn fail(&mut self, core: &mut Core, id: SocketId, errno: i32) {
        let drop_inbox = core.rng.chance(0.5);
        let Some(s) = self.stream(id) else { return };
        if s.error.is_some() {
            return;
        }
        core.trace
            .note(core.clock, "conn fails", u64::from(id.0), errno as u64);
        s.epoch = core.serial();
        s.wire.clear();
        s.outbox.clear();
        if drop_inbox {
            s.inbox.clear();
        }
        s.fin = Fin::Sent;
        s.error = Some(errno);
        let waiters: Vec<usize> = s.waiters().collect();
        (s.connecting, s.receiving, s.sending) = (None, None, None);
        if !waiters.is_empty() {
            s.error = Some(0);
        }
        for key in waiters {
            core.complete(key, -errno);
        }
        if s.closed {
            self.sockets.remove(&id);
        }
    }

    /// Called when links healed or nodes returned: schedules retransmission of waiting packets after a pause.
    pub(in crate::sim) fn unblock(&mut self, core: &mut Core) {
        for (id, socket) in &mut self.sockets {
            if let Socket::Stream(s) = socket
                && s.stuck
                && !self.links.blocked(core, s.node, s.remote_node)
            {
                s.retransmits += 1;
                let at = core.clock + core.upto(RTO_MAX);
                core.schedule(at, Event::Net(NetEvent::Arrive(*id)));
            }
        }
    }

    /// Resets every connection between two nodes, as the restart of a firewall does.
    pub(in crate::sim) fn reset_between(&mut self, core: &mut Core, a: NodeId, b: NodeId) {
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

fn copy_out(from: &mut VecDeque<u8>, to: &mut [u8]) {
    let (front, back) = from.as_slices();
    let split = front.len().min(to.len());
    to[..split].copy_from_slice(&front[..split]);
    let rest = to.len() - split;
    to[split..].copy_from_slice(&back[..rest]);
    from.drain(..to.len());
}

/// The result of an accept that takes socket `id`.
pub(super) fn handle_result(id: SocketId) -> i32 {
    i32::try_from(id.0).expect("a simulation opens fewer than 2^31 sockets")
}
