//! All simulated queue pairs, listeners and exposed memory, and their events.
//!
//! **Called by** the world. **Invariants**: identifiers are not used again; a key gives access for the peer of one queue pair only.

use super::message::{Lane, ListenerId, QueuePairId, SharedId, VerbsEvent};
use super::queue_pair::{QueuePair, Refused, Stage};
use super::shared::SharedReceives;
use crate::rdma::{
    Ending, Exposed, Memory, QueuePairEvent, Raised, RdmaInfo, Remote, RemoteKey, Returned, Verb,
    WorkError, WorkRequest,
};
use crate::runtime::NodeId;
use crate::sim::core::Core;
use crate::sim::event::{Event, Nanos};
use crate::sim::net::Links;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker};

/// A listener, and the requests that no accept has taken.
pub(super) struct Listener {
    pub(super) node: NodeId,
    pub(super) addr: SocketAddr,
    pub(super) arrived: VecDeque<(QueuePairId, Vec<u8>)>,
    pub(super) waker: Option<Waker>,
}

/// Memory that the peer of a queue pair may use.
pub(super) struct Region {
    pub(super) owner: QueuePairId,
    pub(super) address: u64,
    pub(super) memory: Memory,
}

/// The verbs devices of all nodes.
#[derive(Default)]
pub(in crate::sim) struct Verbs {
    pub(super) queue_pairs: BTreeMap<QueuePairId, QueuePair>,
    pub(super) listeners: BTreeMap<ListenerId, Listener>,
    /// Receive queues that queue pairs share.
    pub(super) shared: BTreeMap<SharedId, SharedReceives>,
    /// By key. Keys are unique in the world, so that a key of another node finds nothing.
    pub(super) regions: BTreeMap<u32, Region>,
    /// Nodes whose device was removed.
    pub(super) removed: BTreeSet<NodeId>,
    ports: BTreeMap<NodeId, u16>,
    next_id: u32,
}

/// Longest time from the failure of a queue pair to the end of its requests.
const FLUSH_MAX: Nanos = 50_000;
/// Time without an answer after which a requester gives up, if nothing gets through to the peer.
pub(super) const RETRIES_TIMEOUT: Nanos = 3_000_000_000;
/// Longest time until packets travel on when a link has healed.
const RESUME_MAX: Nanos = 1_000_000_000;
/// First port assigned for port 0.
const EPHEMERAL_FIRST: u16 = 49_152;

impl Verbs {
    pub(super) fn add(&mut self, queue_pair: QueuePair) -> QueuePairId {
        let id = QueuePairId(self.next_id());
        self.queue_pairs.insert(id, queue_pair);
        id
    }

    pub(super) fn next_id(&mut self) -> u32 {
        self.next_id += 1;
        self.next_id
    }

    pub(super) fn free_port(&mut self, node: NodeId) -> u16 {
        let port = self.ports.entry(node).or_insert(EPHEMERAL_FIRST);
        let free = *port;
        *port = port.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
        free
    }

    pub(in crate::sim) fn happen(&mut self, core: &mut Core, links: &Links, event: VerbsEvent) {
        match event {
            VerbsEvent::Arrive(id, lane) => self.arrive(core, links, id, lane),
            VerbsEvent::Letter(letter) => self.deliver_message(core, links, letter),
            VerbsEvent::Watch { id, progress } => self.watch(core, links, id, progress),
            VerbsEvent::Flush(id) => self.flush(core, id),
            VerbsEvent::Unanswered(id) => self.unanswered(core, id),
        }
    }

    /// Posts requests.
    pub(super) fn post(
        &mut self,
        core: &mut Core,
        links: &Links,
        id: QueuePairId,
        chain: &mut Vec<WorkRequest>,
    ) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return chain.clear();
        };
        for WorkRequest { tag, work } in chain.drain(..) {
            let serial = queue_pair.next_serial;
            queue_pair.next_serial += 1;
            queue_pair
                .outstanding
                .push_back(super::queue_pair::Outstanding {
                    serial,
                    tag,
                    work,
                    result: None,
                    returned: Returned::Nothing,
                });
        }
        if queue_pair.has_ended() {
            let at = core.clock + core.upto(FLUSH_MAX);
            return core.schedule(at, Event::Verbs(VerbsEvent::Flush(id)));
        }
        self.issue(core, links, id);
    }

    /// Posts a receive with the buffer of an earlier one.
    pub(super) fn post_receive(&mut self, id: QueuePairId, mut buffer: Vec<u8>) {
        if let Some(queue_pair) = self.queue_pairs.get_mut(&id)
            && !queue_pair.has_ended()
        {
            buffer.clear();
            queue_pair.receives.push_back(buffer);
        }
    }

    /// Gives the peer of a queue pair access to memory. Returns the memory if the queue pair has ended.
    pub(super) fn expose(
        &mut self,
        core: &mut Core,
        id: QueuePairId,
        memory: Memory,
    ) -> std::result::Result<Exposed, Memory> {
        let key = loop {
            let key = core.rng.u64() as u32;
            if key != 0 && !self.regions.contains_key(&key) {
                break key;
            }
        };
        let address = core.rng.u64() >> 1 & !0xfff;
        let len = u32::try_from(memory.len()).expect("a buffer is small");
        if self.queue_pairs.get(&id).is_none_or(QueuePair::has_ended) {
            return Err(memory);
        }
        let region = Region {
            owner: id,
            address,
            memory,
        };
        self.regions.insert(key, region);
        Ok(Exposed {
            at: Remote {
                address,
                key: RemoteKey(key),
            },
            len,
            can_invalidate: true,
        })
    }

    /// Withdraws the access to memory of a queue pair.
    pub(super) fn withdraw(&mut self, id: QueuePairId, key: u32) -> Result<Memory, WorkError> {
        match self.regions.get(&key) {
            Some(region) if region.owner == id => {}
            _ => return Err(WorkError::LocalKey),
        }
        let region = self.regions.remove(&key);
        region.map(|r| r.memory).ok_or(WorkError::LocalKey)
    }

    /// Memory that the peer of `id` asks for by its key: `len` bytes at `address`. Returns the position in the memory.
    pub(super) fn region(
        &mut self,
        id: QueuePairId,
        (address, key, len): (u64, u32, usize),
    ) -> Result<(usize, &mut Memory), Refused> {
        let region = self.regions.get_mut(&key).filter(|r| r.owner == id);
        let region = region.ok_or(Refused::Access)?;
        let start = address.checked_sub(region.address).ok_or(Refused::Access)?;
        let start = usize::try_from(start).map_err(|_| Refused::Access)?;
        let end = start.checked_add(len).ok_or(Refused::Access)?;
        match end <= region.memory.len() {
            true => Ok((start, &mut region.memory)),
            false => Err(Refused::Access),
        }
    }

    pub(super) fn poll_event(&mut self, id: QueuePairId, cx: &mut Context<'_>) -> Poll<Raised> {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return Poll::Pending;
        };
        if let Some(event) = queue_pair.events.pop_front() {
            return Poll::Ready(event);
        }
        queue_pair.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    pub(super) fn info(&self, id: QueuePairId) -> RdmaInfo {
        let Some(q) = self.queue_pairs.get(&id) else {
            return RdmaInfo::default();
        };
        RdmaInfo {
            device: format!("sim{}", q.node),
            queue_pair: id.0,
            peer_queue_pair: q.peer.map_or(0, |peer| peer.0),
            path_mtu: 1024,
            reads_out: q.reads_out,
            reads_in: q.reads_in,
            rnr_retries: Some(q.rnr_retries),
            receives: match q.shared() {
                Some(shared) => self.shared_posted(shared),
                None => q.receives.len() as u32,
            },
            shared_receives: q.config.shared_receives,
            receive_len: q.config.receive_len,
            // A simulated device reads all bytes from where they lie.
            inline_max: 0,
        }
    }

    /// Ends a queue pair; the first reason stays.
    pub(super) fn fail(&mut self, core: &mut Core, id: QueuePairId, why: Ending) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if queue_pair.has_ended() {
            return;
        }
        core.trace
            .note(core.clock, "queue pair ends", u64::from(id.0), 0);
        queue_pair.stage = Stage::Ended(why);
        let at = core.clock + core.upto(FLUSH_MAX);
        core.schedule(at, Event::Verbs(VerbsEvent::Flush(id)));
    }

    /// Ends the requests of a queue pair that has ended.
    fn flush(&mut self, core: &mut Core, id: QueuePairId) {
        let half_read = self.half_read(core, id);
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if let Some((serial, bytes)) = half_read
            && let Some(Verb::Read { into, at, .. }) = queue_pair.find(serial).map(|o| &mut o.work)
        {
            into[*at..*at + bytes.len()].copy_from_slice(&bytes);
        }
        while let Some(ended) = queue_pair.outstanding.pop_front() {
            let result = ended.result.unwrap_or(Err(WorkError::Flushed));
            queue_pair.end(core, ended, result);
        }
        queue_pair.issued = 0;
        queue_pair.receives.clear();
        for (key, region) in self.regions.extract_if(.., |_, r| r.owner == id) {
            let released = QueuePairEvent::Released {
                key: RemoteKey(key),
                memory: region.memory,
            };
            queue_pair.raise(core, Err(released));
        }
        if let Stage::Ended(why) = queue_pair.stage {
            queue_pair.stage = Stage::Flushed;
            queue_pair.raise(core, Err(QueuePairEvent::Ended(why)));
        }
        if queue_pair.is_orphan {
            self.remove(id);
        }
    }

    /// Data of a READ that was on its way when the queue pair ended: a part of it may have arrived.
    fn half_read(&mut self, core: &mut Core, id: QueuePairId) -> Option<(u64, Vec<u8>)> {
        let peer = self.queue_pairs.get(&id)?.peer?;
        let answers = &self.queue_pairs.get(&peer)?.answers;
        let (serial, bytes) =
            answers
                .packets
                .iter()
                .find_map(|(_, serial, packet)| match packet {
                    super::queue_pair::Packet::Data { bytes } => Some((*serial, bytes)),
                    _ => None,
                })?;
        let arrived = core.upto(bytes.len() as u64) as usize;
        Some((serial, bytes[..arrived].to_vec()))
    }

    /// The last handle of a queue pair was dropped.
    pub(super) fn close(&mut self, core: &mut Core, links: &Links, id: QueuePairId) {
        self.disconnect(core, links, id);
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        queue_pair.is_orphan = true;
        queue_pair.waker = None;
        if queue_pair.stage == Stage::Flushed {
            self.remove(id);
        }
    }

    /// A requester looks whether answers come, and gives up if nothing gets through to the peer.
    fn watch(&mut self, core: &mut Core, links: &Links, id: QueuePairId, seen: u64) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if queue_pair.issued == 0 || queue_pair.has_ended() {
            queue_pair.is_watched = false;
            return;
        }
        let (here, there) = (queue_pair.node, queue_pair.remote_node);
        let (progress, peer) = (queue_pair.progress, queue_pair.peer);
        let is_silent = progress == seen;
        let is_lost = links.blocked(core, here, there)
            || links.blocked(core, there, here)
            || peer.is_none_or(|peer| self.is_gone(peer));
        if is_silent && is_lost {
            return self.fail_request(core, id, WorkError::RetriesExceeded);
        }
        let next = VerbsEvent::Watch { id, progress };
        core.schedule(core.clock + RETRIES_TIMEOUT, Event::Verbs(next));
    }

    /// Whether a queue pair answers nothing any longer.
    fn is_gone(&self, id: QueuePairId) -> bool {
        self.queue_pairs.get(&id).is_none_or(QueuePair::has_ended)
    }

    /// The first request that was sent failed: the queue pair ends.
    pub(super) fn fail_request(&mut self, core: &mut Core, id: QueuePairId, why: WorkError) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if queue_pair.has_ended() {
            return;
        }
        if let Some(first) = queue_pair
            .outstanding
            .iter_mut()
            .find(|o| o.result.is_none())
        {
            first.result = Some(Err(why));
        }
        // Later requests never overtake one that was given up.
        queue_pair.requests.packets.clear();
        self.fail(core, id, Ending::Failed(why));
    }

    /// Removes everything of `node`. Peers are not notified.
    pub(in crate::sim) fn power_cut(&mut self, node: NodeId) {
        let gone = self.of_node(node);
        for id in &gone {
            self.remove(*id);
        }
        self.regions.retain(|_, r| !gone.contains(&r.owner));
        self.listeners.retain(|_, l| l.node != node);
    }

    pub(super) fn of_node(&self, node: NodeId) -> BTreeSet<QueuePairId> {
        let of_node = self.queue_pairs.iter().filter(|(_, q)| q.node == node);
        of_node.map(|(id, _)| *id).collect()
    }

    /// Called when links healed or nodes returned: packets that wait travel on after a pause.
    pub(in crate::sim) fn unblock(&mut self, core: &mut Core, links: &Links) {
        for (id, q) in &mut self.queue_pairs {
            if links.blocked(core, q.node, q.remote_node) {
                continue;
            }
            for lane in [Lane::Requests, Lane::Answers] {
                if std::mem::take(&mut q.wire(lane).is_stuck) {
                    let at = core.clock + core.upto(RESUME_MAX);
                    core.schedule(at, Event::Verbs(VerbsEvent::Arrive(*id, lane)));
                }
            }
        }
    }
}
