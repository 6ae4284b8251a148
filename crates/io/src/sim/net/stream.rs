//! One end of a simulated connection, and the transport of its bytes to the other end.

use super::{CoreEvent, Event, Handshake, Net, RETRANSMIT_TIMEOUT, RTO_MAX, SEND_BUFFER, Socket};
use crate::runtime::{NodeId, Op, OpTable};
use crate::sim::SocketId;
use crate::sim::core::{Core, Nanos};
use crate::sim::world::nanos;
use std::collections::VecDeque;
use std::net::SocketAddr;

/// Sizes of a receive window, bytes. The seed chooses one for each direction of a connection.
const WINDOWS: [usize; 4] = [16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Largest segment (with segmentation offload), bytes.
const SEGMENT_MAX: usize = 64 << 10;

/// A packet between two ends.
#[derive(Debug)]
pub(super) enum Packet {
    Syn,
    SynAck,
    Data(Vec<u8>),
    /// The receiver consumed this many bytes: the window opens.
    Window(usize),
    Fin,
    Rst,
}

/// State of the sending direction.
#[derive(Debug, PartialEq, Eq)]
enum Fin {
    /// The application may send more.
    None,
    /// The end follows the bytes that wait to be sent.
    Queued,
    Sent,
}

struct PendingSend {
    key: usize,
    bytes: Vec<u8>,
    taken: usize,
}

/// One end of a connection.
pub(super) struct Stream {
    pub(super) node: NodeId,
    pub(super) local: SocketAddr,
    pub(super) remote_node: NodeId,
    pub(super) remote: SocketAddr,
    /// The other end; `None` before the handshake.
    pub(super) peer: Option<SocketId>,
    pub(super) connecting: Option<usize>,
    pub(super) give_up_after: Nanos,
    /// Time of silence after which the peer is probed.
    pub(super) keep_alive: Option<Nanos>,
    pub(super) abort_on_close: bool,
    pub(super) retransmits: u32,
    /// Whether the packet at the front of the wire could not arrive.
    pub(super) stuck: bool,
    /// Grows with each progress, so that outdated timers are recognised.
    pub(super) epoch: u64,
    wire: VecDeque<(Nanos, Packet)>,
    last_arrival: Nanos,
    inbox: VecDeque<u8>,
    window: usize,
    taken: usize,
    eof: bool,
    /// Set if the connection failed: the errno that the application has not seen yet, or 0.
    error: Option<i32>,
    receiving: Option<usize>,
    outbox: VecDeque<u8>,
    credit: usize,
    fin: Fin,
    sending: Option<PendingSend>,
    /// Whether the application shut it down.
    shut: bool,
    /// Whether the application dropped its last handle.
    closed: bool,
}

impl Stream {
    pub(super) fn new(
        core: &mut Core,
        node: NodeId,
        local: SocketAddr,
        other: NodeId,
        remote: SocketAddr,
    ) -> Stream {
        let window = WINDOWS[core.rng.below(WINDOWS.len() as u64) as usize];
        Stream {
            node,
            local,
            remote_node: other,
            remote,
            peer: None,
            connecting: None,
            give_up_after: RETRANSMIT_TIMEOUT,
            keep_alive: None,
            abort_on_close: false,
            retransmits: 0,
            stuck: false,
            epoch: core.serial(),
            wire: VecDeque::new(),
            last_arrival: 0,
            inbox: VecDeque::new(),
            window,
            taken: 0,
            eof: false,
            error: None,
            receiving: None,
            outbox: VecDeque::new(),
            credit: 0,
            fin: Fin::None,
            sending: None,
            shut: false,
            closed: false,
        }
    }

    pub(super) fn forget(&mut self, key: usize) {
        if self.connecting == Some(key) {
            self.connecting = None;
        }
        if self.receiving == Some(key) {
            self.receiving = None;
        }
        if self.sending.as_ref().is_some_and(|s| s.key == key) {
            self.sending = None;
        }
    }

    /// The operations that wait for this stream.
    pub(super) fn waiters(&self) -> impl Iterator<Item = usize> {
        let sending = self.sending.as_ref().map(|s| s.key);
        [self.connecting, self.receiving, sending]
            .into_iter()
            .flatten()
    }

    /// Moves bytes of the waiting send to the outbox. Returns whether any moved.
    fn refill(&mut self, core: &mut Core) -> bool {
        let Some(p) = &mut self.sending else {
            return false;
        };
        let n = (SEND_BUFFER - self.outbox.len()).min(p.bytes.len() - p.taken);
        self.outbox.extend(&p.bytes[p.taken..p.taken + n]);
        p.taken += n;
        // A kernel may return early from a send that had to wait.
        let short = p.taken > 0 && core.rng.chance(0.1);
        if p.taken == p.bytes.len() || short {
            let taken = i32::try_from(p.taken).expect("a batch is smaller than 2 GiB");
            core.complete(p.key, taken);
            self.sending = None;
        }
        n > 0
    }

    fn next_segment(&self, core: &mut Core) -> usize {
        let most = self.outbox.len().min(self.credit).min(SEGMENT_MAX);
        match core.rng.below(16) {
            0 => most.min(1 + core.upto(63) as usize),
            1..=5 => 1 + core.upto(most as u64 - 1) as usize,
            _ => most,
        }
    }
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
        core.schedule(at, CoreEvent::Net(Event::Arrive(id)));
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
                    let give_up = Event::GiveUp { id, epoch: s.epoch };
                    core.schedule(core.clock + s.give_up_after, CoreEvent::Net(give_up));
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
                core.schedule(at, CoreEvent::Net(Event::Arrive(from)));
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
        core.schedule(at, CoreEvent::Net(Event::Reset { to, from, errno }));
    }

    pub(super) fn reset(&mut self, core: &mut Core, to: SocketId, from: NodeId, errno: i32) {
        let Some(s) = self.stream(to) else { return };
        let node = s.node;
        if from != node && self.links.blocked(core, from, node) {
            // The reset is lost; the sender's next attempt causes another one.
            core.schedule(
                core.clock + RTO_MAX,
                CoreEvent::Net(Event::Reset { to, from, errno }),
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
}

fn copy_out(from: &mut VecDeque<u8>, to: &mut [u8]) {
    let (front, back) = from.as_slices();
    let split = front.len().min(to.len());
    to[..split].copy_from_slice(&front[..split]);
    let rest = to.len() - split;
    to[split..].copy_from_slice(&back[..rest]);
    from.drain(..to.len());
}
