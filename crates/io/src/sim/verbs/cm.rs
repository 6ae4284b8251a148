//! Messages of the simulated connection manager (IBA 12.6): requests, answers, disconnects.
//!
//! **Called by** the table. **Invariants**: a request is answered once; a message that gets lost on a cut link is sent again
//! [`CM_RETRIES`] times; an end that does not know a connection answers with a disconnect.

use super::message::{CmMessage, Letter, ListenerId, QueuePairId, VerbsEvent};
use super::queue_pair::{QueuePair, Stage};
use super::table::{Listener, Verbs};
use crate::limits::RDMA_BACKLOG;
use crate::rdma::{ConnectError, Ending, QueuePairConfig};
use crate::runtime::NodeId;
use crate::sim::core::Core;
use crate::sim::event::{Event, Nanos};
use crate::sim::net::{Links, ip_of, node_of};
use crate::{Error, Result};
use std::net::{IpAddr, SocketAddr};
use std::task::{Context, Poll};

/// Time after which an unanswered connection request fails.
const CONNECT_TIMEOUT: Nanos = 20_000_000_000;
/// Pause before a message that got lost is sent again.
const CM_RETRY: Nanos = 1_000_000_000;
/// How often a message is sent again.
const CM_RETRIES: u8 = 15;

impl Verbs {
    /// Sends a message from a queue pair that exists.
    pub(super) fn say(&mut self, core: &mut Core, links: &Links, mut message: Letter) {
        let Some(from) = self.queue_pairs.get(&message.from) else {
            return;
        };
        message.nodes = (from.node, from.remote_node);
        self.send(core, links, message);
    }

    fn send(&mut self, core: &mut Core, links: &Links, message: Letter) {
        let link = links.get(core, message.nodes.0, message.nodes.1);
        let at = core.clock + link.travel(core, 0);
        core.schedule(at, Event::Verbs(VerbsEvent::Letter(message)));
    }

    pub(super) fn deliver_message(&mut self, core: &mut Core, links: &Links, mut message: Letter) {
        let (from, to) = message.nodes;
        if links.blocked(core, from, to) || self.removed.contains(&to) {
            if message.tries < CM_RETRIES {
                message.tries += 1;
                let again = VerbsEvent::Letter(message);
                core.schedule(core.clock + CM_RETRY, Event::Verbs(again));
            }
            return;
        }
        let (sender, receiver) = (message.from, message.to);
        match message.said {
            CmMessage::Request { private, config } => {
                self.requested(core, links, sender, (private, config))
            }
            CmMessage::Accepted { private, config } => {
                if !self.accepted(core, receiver, sender, (private, config)) {
                    // The requester has gone meanwhile.
                    let answer = Letter {
                        nodes: (to, from),
                        ..Letter::new(receiver, sender, CmMessage::Disconnect)
                    };
                    return self.send(core, links, answer);
                }
                self.say(core, links, Letter::new(receiver, sender, CmMessage::Ready));
                self.issue(core, links, receiver);
            }
            CmMessage::Ready => {
                if let Some(queue_pair) = self.queue_pairs.get_mut(&receiver)
                    && queue_pair.stage == Stage::Accepting
                {
                    queue_pair.stage = Stage::Established;
                    queue_pair.wake(core);
                }
                self.issue(core, links, receiver);
            }
            CmMessage::Rejected(private) => {
                self.answer(core, receiver, ConnectError::Rejected(private));
            }
            CmMessage::Unknown => {
                let refused = Error::Unreachable(libc::ECONNREFUSED);
                self.answer(core, receiver, refused.into());
            }
            CmMessage::Disconnect => self.fail(core, receiver, Ending::Peer),
            CmMessage::Refused { serial, error } => self.refused(core, receiver, serial, error),
        }
    }

    /// Listens on `addr`.
    pub(super) fn listen(
        &mut self,
        node: NodeId,
        addr: SocketAddr,
    ) -> Result<(ListenerId, SocketAddr)> {
        if self.removed.contains(&node) {
            return Err(Error::Unsupported(libc::EOPNOTSUPP));
        }
        if !addr.ip().is_unspecified() && node_of(node, addr.ip()) != Some(node) {
            return Err(Error::Unreachable(libc::EADDRNOTAVAIL));
        }
        let mut local = addr;
        while local.port() == 0 {
            local.set_port(self.free_port(node));
        }
        if self.listener_at(node, local).is_some() {
            return Err(Error::Busy(libc::EADDRINUSE));
        }
        let id = ListenerId(self.next_id());
        let listener = Listener {
            node,
            addr: local,
            arrived: Default::default(),
            waker: None,
        };
        self.listeners.insert(id, listener);
        Ok((id, local))
    }

    fn listener_at(&self, node: NodeId, addr: SocketAddr) -> Option<ListenerId> {
        let overlap = |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() || b.is_unspecified();
        let mut listeners = self.listeners.iter();
        listeners.find_map(|(id, l)| {
            let is_same =
                l.node == node && l.addr.port() == addr.port() && overlap(l.addr.ip(), addr.ip());
            is_same.then_some(*id)
        })
    }

    /// The next request that arrived at a listener.
    pub(super) fn poll_arrived(
        &mut self,
        id: ListenerId,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(QueuePairId, Vec<u8>)>> {
        let Some(listener) = self.listeners.get_mut(&id) else {
            return Poll::Ready(Err(Error::Gone(libc::ENODEV)));
        };
        match listener.arrived.pop_front() {
            Some(arrived) => Poll::Ready(Ok(arrived)),
            None => {
                listener.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The last handle of a listener was dropped.
    pub(super) fn close_listener(&mut self, core: &mut Core, links: &Links, id: ListenerId) {
        if let Some(listener) = self.listeners.remove(&id) {
            for (request, _) in listener.arrived {
                self.reject(core, links, request, CmMessage::Unknown);
            }
        }
    }

    /// Sends a connection request.
    pub(super) fn connect(
        &mut self,
        core: &mut Core,
        links: &Links,
        (node, addr): (NodeId, SocketAddr),
        config: QueuePairConfig,
        private: &[u8],
    ) -> Result<QueuePairId> {
        if self.removed.contains(&node) {
            return Err(Error::Unsupported(libc::EOPNOTSUPP));
        }
        let known = node_of(node, addr.ip()).filter(|n| (*n as usize) < core.nodes.len());
        let remote_node = known.ok_or(Error::Unreachable(libc::EHOSTUNREACH))?;
        let local = SocketAddr::new(ip_of(node), self.free_port(node));
        let mut queue_pair = QueuePair::new((node, local), (remote_node, addr), Stage::Connecting);
        queue_pair.configure(config);
        let id = self.add(queue_pair);
        self.join_shared(id);
        let private = private.to_vec();
        let request = Letter::new(id, id, CmMessage::Request { private, config });
        self.say(core, links, request);
        core.schedule(
            core.clock + CONNECT_TIMEOUT,
            Event::Verbs(VerbsEvent::Unanswered(id)),
        );
        Ok(id)
    }

    /// A connection request arrives.
    fn requested(
        &mut self,
        core: &mut Core,
        links: &Links,
        from: QueuePairId,
        (private, config): (Vec<u8>, QueuePairConfig),
    ) {
        let Some(sender) = self.queue_pairs.get(&from) else {
            return;
        };
        let (node, addr) = (sender.remote_node, sender.remote);
        let there = (sender.node, sender.local);
        let local = match addr.ip().is_loopback() {
            true => addr,
            false => SocketAddr::new(ip_of(node), addr.port()),
        };
        let mut queue_pair = QueuePair::new((node, local), there, Stage::Requested);
        queue_pair.peer = Some(from);
        queue_pair.reads_out = config.reads_in;
        queue_pair.reads_in = config.reads_out;
        queue_pair.rnr_limit = config.rnr_retries;
        let id = self.add(queue_pair);
        let listener = self.listener_at(node, addr);
        let listener = listener.and_then(|l| self.listeners.get_mut(&l));
        match listener.filter(|l| l.arrived.len() < RDMA_BACKLOG) {
            Some(listener) => {
                listener.arrived.push_back((id, private));
                if let Some(waker) = listener.waker.take() {
                    core.wake(&waker);
                }
            }
            None => self.reject(core, links, id, CmMessage::Unknown),
        }
    }

    /// Accepts a request.
    pub(super) fn accept(
        &mut self,
        core: &mut Core,
        links: &Links,
        id: QueuePairId,
        config: QueuePairConfig,
        private: &[u8],
    ) -> Result<()> {
        let queue_pair = self.queue_pairs.get_mut(&id).ok_or(Error::Closed)?;
        if queue_pair.stage != Stage::Requested {
            return Err(Error::Closed);
        }
        queue_pair.configure(config);
        queue_pair.reads_out = queue_pair.reads_out.min(config.reads_out);
        queue_pair.reads_in = queue_pair.reads_in.min(config.reads_in);
        queue_pair.stage = Stage::Accepting;
        let Some(peer) = queue_pair.peer else {
            return Err(Error::Closed);
        };
        self.join_shared(id);
        let private = private.to_vec();
        let accepted = Letter::new(id, peer, CmMessage::Accepted { private, config });
        self.say(core, links, accepted);
        Ok(())
    }

    /// Waits until the peer has heard that it was accepted.
    pub(super) fn poll_established(
        &mut self,
        id: QueuePairId,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return Poll::Ready(Err(Error::Closed));
        };
        match queue_pair.stage {
            Stage::Established => Poll::Ready(Ok(())),
            Stage::Ended(_) | Stage::Flushed => Poll::Ready(Err(Error::Closed)),
            Stage::Connecting | Stage::Requested | Stage::Accepting => {
                queue_pair.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Answers a request with a rejection.
    pub(super) fn reject(
        &mut self,
        core: &mut Core,
        links: &Links,
        id: QueuePairId,
        said: CmMessage,
    ) {
        if let Some(peer) = self.queue_pairs.get(&id).and_then(|q| q.peer) {
            self.say(core, links, Letter::new(id, peer, said));
        }
        self.remove(id);
    }

    /// The request of `id` was accepted by `peer`. False if `id` waits for no answer any longer.
    fn accepted(
        &mut self,
        core: &mut Core,
        id: QueuePairId,
        peer: QueuePairId,
        (private, config): (Vec<u8>, QueuePairConfig),
    ) -> bool {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return false;
        };
        if queue_pair.stage != Stage::Connecting {
            return false;
        }
        queue_pair.peer = Some(peer);
        queue_pair.stage = Stage::Established;
        queue_pair.reads_out = queue_pair.config.reads_out.min(config.reads_in);
        queue_pair.reads_in = queue_pair.config.reads_in.min(config.reads_out);
        queue_pair.rnr_limit = config.rnr_retries;
        queue_pair.answer = Some(Ok(private));
        queue_pair.wake(core);
        true
    }

    /// The request of `id` failed.
    fn answer(&mut self, core: &mut Core, id: QueuePairId, error: ConnectError) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if queue_pair.stage != Stage::Connecting {
            return;
        }
        queue_pair.answer = Some(Err(error));
        queue_pair.wake(core);
        self.fail(core, id, Ending::Peer);
    }

    pub(super) fn unanswered(&mut self, core: &mut Core, id: QueuePairId) {
        self.answer(core, id, Error::TimedOut.into());
    }

    /// Waits for the answer to a connection request.
    pub(super) fn poll_connected(
        &mut self,
        id: QueuePairId,
        cx: &mut Context<'_>,
    ) -> Poll<std::result::Result<Vec<u8>, ConnectError>> {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return Poll::Ready(Err(Error::Closed.into()));
        };
        match queue_pair.answer.take() {
            Some(answer) => Poll::Ready(answer),
            None if queue_pair.has_ended() => Poll::Ready(Err(Error::Closed.into())),
            None => {
                queue_pair.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// This side disconnects.
    pub(super) fn disconnect(&mut self, core: &mut Core, links: &Links, id: QueuePairId) {
        let Some(queue_pair) = self.queue_pairs.get(&id) else {
            return;
        };
        if queue_pair.has_ended() {
            return;
        }
        if let Some(peer) = queue_pair.peer {
            self.say(core, links, Letter::new(id, peer, CmMessage::Disconnect));
        }
        self.fail(core, id, Ending::Here);
    }
}
