//! Requests from one end of a simulated connection to the other.
//!
//! **Called by** the table. **Invariants**: see the header of [`super`].

use super::message::{CmMessage, Lane, Letter, QueuePairId, VerbsEvent};
use super::queue_pair::{Packet, Refused, Stage};
use super::table::{RETRIES_TIMEOUT, Verbs};
use crate::rdma::{
    Ending, Memory, RNR_RETRIES_UNLIMITED, ReceiveBuffer, RemoteKey, Returned, Verb, WorkError,
};
use crate::sim::core::Core;
use crate::sim::event::{Event, Nanos};
use crate::sim::net::Links;

/// Pause before a message that found no receive is sent again: that of Linux' connection manager (IBA table 45, code 0).
const RNR_DELAY: Nanos = 655_360_000;

/// The same for a queue pair with a shared receive queue, which sets the pause itself (IBA table 45, code 12).
const SHARED_RNR_DELAY: Nanos = 640_000;

/// The result of a request at the other end.
enum Carried {
    Answered(Packet),
    Refused(Refused),
    /// No receive was posted.
    NotReady(Packet),
}

impl Verbs {
    /// Sends requests, as far as the device's queue and the peer's limit of READs allow.
    pub(super) fn issue(&mut self, core: &mut Core, links: &Links, id: QueuePairId) {
        loop {
            let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
                return;
            };
            if !queue_pair.carries() || queue_pair.issued >= usize::from(queue_pair.config.sends) {
                return;
            }
            let all_reads = queue_pair.reads >= usize::from(queue_pair.reads_out);
            let Some(next) = queue_pair.outstanding.get_mut(queue_pair.issued) else {
                return;
            };
            let packet = match &mut next.work {
                Verb::Read { .. } if all_reads => return,
                Verb::Read { into, at, from } => Packet::Read {
                    address: from.address,
                    key: from.key.0,
                    len: into.len() - *at,
                },
                Verb::Send {
                    head,
                    data,
                    invalidate,
                } => {
                    let mut bytes = std::mem::take(head);
                    if let Some(data) = data {
                        let at = bytes.len();
                        bytes.resize(at + data.len(), 0);
                        data.copy_to(&mut bytes[at..]);
                    }
                    Packet::Send {
                        bytes,
                        invalidate: invalidate.map(|key| key.0),
                    }
                }
                Verb::Write { data, to } => {
                    let mut bytes = vec![0; data.len()];
                    data.copy_to(&mut bytes);
                    Packet::Write {
                        bytes,
                        address: to.address,
                        key: to.key.0,
                    }
                }
                Verb::Withdraw { key } => {
                    let key = key.0;
                    self.withdraw_next(core, id, key);
                    continue;
                }
            };
            let serial = next.serial;
            queue_pair.reads += usize::from(matches!(packet, Packet::Read { .. }));
            queue_pair.issued += 1;
            if !std::mem::replace(&mut queue_pair.is_watched, true) {
                let progress = queue_pair.progress;
                let watch = VerbsEvent::Watch { id, progress };
                core.schedule(core.clock + RETRIES_TIMEOUT, Event::Verbs(watch));
            }
            self.transmit(core, links, id, (Lane::Requests, serial, packet));
        }
    }

    /// Carries out the withdrawal that is next in the queue.
    fn withdraw_next(&mut self, core: &mut Core, id: QueuePairId, key: u32) {
        let withdrawn = self.withdraw(id, key);
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if let Some(next) = queue_pair.outstanding.get_mut(queue_pair.issued) {
            next.result = Some(match withdrawn {
                Ok(memory) => {
                    next.returned = Returned::Memory(memory);
                    Ok(())
                }
                Err(e) => Err(e),
            });
            queue_pair.issued += 1;
        }
        self.end_requests(core, id);
    }

    fn end_requests(&mut self, core: &mut Core, id: QueuePairId) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if let Some(why) = queue_pair.end_requests(core) {
            self.fail(core, id, Ending::Failed(why));
        }
    }

    fn transmit(
        &mut self,
        core: &mut Core,
        links: &Links,
        id: QueuePairId,
        (lane, serial, packet): (Lane, u64, Packet),
    ) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        let link = links.get(core, queue_pair.node, queue_pair.remote_node);
        let wire = queue_pair.wire(lane);
        let at = (core.clock + link.travel(core, packet.len())).max(wire.last_arrival);
        wire.last_arrival = at;
        wire.packets.push_back((at, serial, packet));
        core.schedule(at, Event::Verbs(VerbsEvent::Arrive(id, lane)));
    }

    /// Packets at the front of a wire arrive.
    pub(super) fn arrive(&mut self, core: &mut Core, links: &Links, id: QueuePairId, lane: Lane) {
        loop {
            let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
                return;
            };
            let is_blocked = links.blocked(core, queue_pair.node, queue_pair.remote_node);
            let peer = queue_pair.peer;
            let wire = queue_pair.wire(lane);
            if wire.packets.front().is_none_or(|(at, ..)| *at > core.clock) {
                return;
            }
            if is_blocked {
                wire.is_stuck = true;
                return;
            }
            let Some((_, serial, packet)) = wire.packets.pop_front() else {
                return;
            };
            let Some(peer) = peer else { return };
            match lane {
                Lane::Answers => self.answered(core, links, peer, serial, packet),
                Lane::Requests => {
                    if let Some(packet) = self.request(core, links, (id, peer), serial, packet) {
                        let shared = self.queue_pairs.get(&peer).and_then(|q| q.shared());
                        let pause = shared.map_or(RNR_DELAY, |_| SHARED_RNR_DELAY);
                        self.not_ready(core, id, (serial, packet), pause);
                    }
                }
            }
        }
    }

    /// A request of `from` arrives at `to`. Returns it if it finds no receive.
    fn request(
        &mut self,
        core: &mut Core,
        links: &Links,
        (from, to): (QueuePairId, QueuePairId),
        serial: u64,
        packet: Packet,
    ) -> Option<Packet> {
        let queue_pair = self.queue_pairs.get_mut(&to)?;
        if queue_pair.stage == Stage::Accepting {
            // Data says as well as RTU that the peer has heard (IBA 12.9.7.2.4).
            queue_pair.stage = Stage::Established;
            queue_pair.wake(core);
        }
        if !queue_pair.carries() {
            return None;
        }
        match self.carry_out(core, to, packet) {
            Carried::Answered(answer) => {
                if let Some(from) = self.queue_pairs.get_mut(&from) {
                    from.rnr_tries = 0;
                }
                self.transmit(core, links, to, (Lane::Answers, serial, answer));
                None
            }
            Carried::NotReady(packet) => Some(packet),
            Carried::Refused(why) => {
                core.trace
                    .note(core.clock, "refused", u64::from(to.0), serial);
                let said = CmMessage::Refused {
                    serial,
                    error: why.into(),
                };
                self.say(core, links, Letter::new(to, from, said));
                self.fail(core, to, Ending::BadRequest);
                None
            }
        }
    }

    /// Carries a request out at the end that it was sent to.
    fn carry_out(&mut self, core: &mut Core, id: QueuePairId, packet: Packet) -> Carried {
        match packet {
            Packet::Send { bytes, invalidate } => {
                let Some(queue_pair) = self.queue_pairs.get(&id) else {
                    return Carried::Refused(Refused::Access);
                };
                let (shared, most) = (queue_pair.shared(), queue_pair.config.receive_len as usize);
                let Some(mut buffer) = self.take_receive(id) else {
                    return Carried::NotReady(Packet::Send { bytes, invalidate });
                };
                if bytes.len() > most {
                    self.flush_receive(shared, buffer);
                    return Carried::Refused(Refused::TooLong);
                }
                let withdrawn = match invalidate.map(|key| (key, self.withdraw(id, key))) {
                    None => None,
                    Some((key, Ok(memory))) => Some((RemoteKey(key), memory)),
                    Some((_, Err(_))) => {
                        self.flush_receive(shared, buffer);
                        return Carried::Refused(Refused::Access);
                    }
                };
                core.trace
                    .note(core.clock, "message", u64::from(id.0), bytes.len() as u64);
                core.trace.bytes(&bytes);
                buffer.extend_from_slice(&bytes);
                if let Some(queue_pair) = self.queue_pairs.get_mut(&id) {
                    queue_pair.raise(core, Ok((ReceiveBuffer::Heap(buffer), withdrawn)));
                }
                Carried::Answered(Packet::Ack)
            }
            Packet::Write {
                bytes,
                address,
                key,
            } => {
                if bytes.is_empty() {
                    return Carried::Answered(Packet::Ack);
                }
                match self.region(id, (address, key, bytes.len())) {
                    Ok((at, Memory::Writable(buf))) => {
                        buf[at..at + bytes.len()].copy_from_slice(&bytes);
                        core.trace.bytes(&bytes);
                        Carried::Answered(Packet::Ack)
                    }
                    Ok((_, Memory::Readable(_))) => Carried::Refused(Refused::Access),
                    Err(why) => Carried::Refused(why),
                }
            }
            Packet::Read { address, key, len } => match self.region(id, (address, key, len)) {
                Ok((at, Memory::Readable(payload))) => {
                    let mut bytes = vec![0; len];
                    payload.copy_part(at, &mut bytes);
                    Carried::Answered(Packet::Data { bytes })
                }
                Ok((_, Memory::Writable(_))) => Carried::Refused(Refused::Access),
                Err(why) => Carried::Refused(why),
            },
            Packet::Ack | Packet::Data { .. } => unreachable!("an answer travels with answers"),
        }
    }

    /// A message found no receive: it is sent again, and everything behind it waits.
    fn not_ready(
        &mut self,
        core: &mut Core,
        id: QueuePairId,
        (serial, packet): (u64, Packet),
        pause: Nanos,
    ) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        queue_pair.rnr_retries += 1;
        if queue_pair.rnr_limit != RNR_RETRIES_UNLIMITED {
            if queue_pair.rnr_tries >= queue_pair.rnr_limit {
                return self.fail_request(core, id, WorkError::RnrExceeded);
            }
            queue_pair.rnr_tries += 1;
        }
        let at = core.clock + pause;
        queue_pair.requests.packets.push_front((at, serial, packet));
        let again = VerbsEvent::Arrive(id, Lane::Requests);
        core.schedule(at, Event::Verbs(again));
    }

    /// The answer to a request of `id` arrives.
    fn answered(
        &mut self,
        core: &mut Core,
        links: &Links,
        id: QueuePairId,
        serial: u64,
        packet: Packet,
    ) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if queue_pair.stage == Stage::Flushed {
            return;
        }
        queue_pair.progress += 1;
        let Some(request) = queue_pair.find(serial) else {
            return;
        };
        if let (Packet::Data { bytes }, Verb::Read { into, at, .. }) = (&packet, &mut request.work)
        {
            into[*at..].copy_from_slice(bytes);
            core.trace.bytes(bytes);
        }
        request.result = Some(Ok(()));
        if matches!(packet, Packet::Data { .. }) {
            queue_pair.reads = queue_pair.reads.saturating_sub(1);
        }
        self.end_requests(core, id);
        self.issue(core, links, id);
    }

    /// The other end did not carry a request of `id` out.
    pub(super) fn refused(
        &mut self,
        core: &mut Core,
        id: QueuePairId,
        serial: u64,
        error: WorkError,
    ) {
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        if queue_pair.stage == Stage::Flushed {
            return;
        }
        // Refusals are answers in order: requests before this one were carried out.
        for request in &mut queue_pair.outstanding {
            if request.serial < serial && !matches!(request.work, Verb::Read { .. }) {
                request.result.get_or_insert(Ok(()));
            }
        }
        if let Some(request) = queue_pair.find(serial) {
            request.result = Some(Err(error));
        }
        self.fail(core, id, Ending::Failed(error));
    }
}
