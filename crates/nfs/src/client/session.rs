//! One session: its slots, and the reply cache (§2.10.6).
//!
//! **Owns** [`Session`]. **Called by** the service for each COMPOUND that begins with SEQUENCE, on any shard. **Invariants**: a
//! slot executes one request at a time; a request with the sequence number of the last one is never executed; the cache holds
//! at most one reply for each slot, of at most `cached_max` bytes.

use super::back::BackChannel;
use super::budget::SlotBudget;
use super::{Lease, Visitor};
use crate::export::{Protection, Standing};
use crate::wire::channel::{Channel, Sequence};
use crate::wire::{SessionId, Status};
use io::sync::lock;
use io::time::Instant;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The last request of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Last {
    /// There was none.
    None,
    /// It is being executed.
    Executing,
    /// It was executed; its reply was not kept.
    Forgotten,
    /// It was executed; the results of its COMPOUND.
    Kept(Arc<[u8]>),
}

#[derive(Debug, Clone)]
struct Slot {
    sequence: u32,
    /// A hash of the request.
    fingerprint: u64,
    last: Last,
    /// The number of slots that the client was asked to use in the last reply of this slot.
    told: u32,
}

impl Slot {
    const NEW: Self = Self {
        sequence: 0,
        fingerprint: 0,
        last: Last::None,
        told: 0,
    };
}

/// What is to be done with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    /// It is executed; [`Session::complete`] must follow.
    Execute,
    /// It was executed before, with these results.
    Replay(Arc<[u8]>),
    /// It was executed before, and the results were not kept.
    Forgotten,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    client: u64,
    lease: Arc<Lease>,
    fore: Channel,
    back: BackChannel,
    slots: Mutex<Vec<Slot>>,
    budget: Arc<SlotBudget>,
    /// The host that made it.
    creator: Visitor,
    is_destroyed: AtomicBool,
}

impl Session {
    pub(super) fn new(
        (id, client): (SessionId, u64),
        lease: Arc<Lease>,
        (fore, back): (Channel, BackChannel),
        budget: Arc<SlotBudget>,
        creator: &Visitor,
    ) -> Self {
        budget.session_made();
        Self {
            id,
            client,
            lease,
            fore,
            back,
            slots: Mutex::new(vec![Slot::NEW; fore.slots as usize]),
            budget,
            creator: creator.clone(),
            is_destroyed: AtomicBool::new(false),
        }
    }

    /// Whether a host may use the session over a connection with this protection: not a stranger at another address, unless a
    /// stranger made it, and only over a connection that is as protected as the one that made it (§2.10.8.3, decision 0329).
    pub fn admits(&self, address: IpAddr, standing: Standing, protection: &Protection) -> bool {
        let creator = &self.creator;
        let is_known = standing > Standing::Stranger || creator.standing == Standing::Stranger;
        let is_protected = creator.protection.is_met_by(protection);
        (is_known || address == creator.address) && is_protected
    }

    /// Its ID.
    pub fn id(&self) -> SessionId {
        self.id
    }

    /// Its client.
    pub fn client(&self) -> u64 {
        self.client
    }

    /// The limits of its requests.
    pub fn fore(&self) -> &Channel {
        &self.fore
    }

    /// The channel of calls to the client.
    pub fn back(&self) -> &BackChannel {
        &self.back
    }

    /// Whether the client sent RECLAIM_COMPLETE.
    pub fn has_reclaimed(&self) -> bool {
        self.lease.has_reclaimed()
    }

    /// Whether the client had state, so that its record is stored or about to be.
    pub fn is_recorded(&self) -> bool {
        self.lease.is_recorded()
    }

    /// The flags of SEQUENCE for revoked stateids that the client did not free.
    pub fn revoked_flags(&self) -> u32 {
        self.lease.revoked.load(Ordering::Acquire)
    }

    /// Whether the last request of a slot has this sequence number: the client may not have seen its reply.
    pub fn is_last(&self, slot: u32, sequence: u32) -> bool {
        let slots = self.slots();
        slots
            .get(slot as usize)
            .is_some_and(|slot| slot.sequence == sequence)
    }

    /// Whether the session was destroyed, or its client removed.
    pub fn is_gone(&self) -> bool {
        self.is_destroyed.load(Ordering::Acquire) || self.lease.is_removed()
    }

    /// Gives all slots back. Called once.
    pub(super) fn destroy(&self) {
        self.is_destroyed.store(true, Ordering::Release);
        let slots = std::mem::take(&mut *self.slots());
        self.budget.give(slots.len());
        self.budget.session_ended();
        self.back.destroy();
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Slot>> {
        lock(&self.slots)
    }

    /// A request begins (§18.46.3). Renews the lease. Errors: `Badsession`, `Badslot`, `BadHighSlot`, `SeqMisordered`,
    /// `SeqFalseRetry`, and `Delay` for a retry of a request that is being executed (§2.10.6.2).
    pub fn begin(&self, args: &Sequence, fingerprint: u64, now: Instant) -> Result<Begun, Status> {
        let mut slots = self.slots();
        if self.is_gone() {
            return Err(Status::Badsession);
        }
        let count = slots.len() as u32;
        let slot = slots.get_mut(args.slot as usize).ok_or(Status::Badslot)?;
        if args.highest_slot >= count {
            return Err(Status::BadHighSlot);
        }
        let begun = match (&slot.last, args.sequence.wrapping_sub(slot.sequence)) {
            (Last::Executing, 0) => return Err(Status::Delay),
            (Last::None, 0) | (Last::Executing, _) | (_, 2..) => {
                return Err(Status::SeqMisordered);
            }
            (_, 1) => {
                slot.sequence = args.sequence;
                slot.fingerprint = fingerprint;
                slot.last = Last::Executing;
                Begun::Execute
            }
            (_, 0) if slot.fingerprint != fingerprint => return Err(Status::SeqFalseRetry),
            (Last::Kept(reply), 0) => Begun::Replay(reply.clone()),
            (Last::Forgotten, 0) => Begun::Forgotten,
        };
        drop(slots);
        self.lease.renew(now);
        Ok(begun)
    }

    /// Number of slots.
    pub fn size(&self) -> u32 {
        self.slots().len() as u32
    }

    /// The highest slot, and the highest one that the client should use, for the reply to a request that began (§2.10.6.1).
    /// Slots that the client no longer uses, after it was told so, are given back.
    pub fn highest_slots(&self, args: &Sequence) -> (u32, u32) {
        let mut slots = self.slots();
        let size = slots.len() as u32;
        let (at, granted) = (args.slot as usize, self.fore.slots);
        let target = match self.budget.shrink_to() {
            Some(share) => share.min(size),
            None if size < granted && self.budget.may_grow() => {
                if self.budget.take((granted - size) as usize) {
                    slots.resize(granted as usize, Slot::NEW);
                }
                slots.len() as u32
            }
            None => size,
        };
        let knows = slots.get(at).is_some_and(|slot| slot.told == target);
        if target < size && knows && args.highest_slot < target {
            let unused = slots
                .iter()
                .rev()
                .take_while(|slot| slot.last != Last::Executing);
            let kept = size as usize - unused.count().min((size - target) as usize);
            self.budget.give(size as usize - kept);
            slots.truncate(kept);
        }
        if let Some(slot) = slots.get_mut(at) {
            slot.told = target;
        }
        (
            (slots.len() as u32).saturating_sub(1),
            target.saturating_sub(1),
        )
    }

    /// The request of a slot was executed. `reply` has the results to be kept for a retry.
    pub fn complete(&self, slot: u32, reply: Option<Arc<[u8]>>, now: Instant) {
        let last = reply.map_or(Last::Forgotten, Last::Kept);
        if let Some(slot) = self.slots().get_mut(slot as usize) {
            slot.last = last;
        }
        self.lease.renew(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap() {
        let now = io::time::now();
        let fore = Channel {
            header_padding: 0,
            request_max: 0,
            reply_max: 0,
            cached_max: 0,
            operations_max: 0,
            slots: 1,
        };
        let back = BackChannel::new(fore, 1, None);
        let budget = Arc::new(SlotBudget::new(1));
        let host = Visitor {
            address: [10, 0, 0, 1].into(),
            standing: Standing::Listed,
            is_reserving: true,
            protection: Protection::default(),
        };
        let lease = Arc::new(Lease::new(now));
        let session = Session::new(([1; 16], 1), lease, (fore, back), budget, &host);
        session.slots()[0].sequence = u32::MAX - 1;
        for sequence in [u32::MAX, 0, 1] {
            let args = Sequence {
                session: [1; 16],
                sequence,
                slot: 0,
                highest_slot: 0,
                cache_this: false,
            };
            assert_eq!(session.begin(&args, 5, now), Ok(Begun::Execute));
            session.complete(0, None, now);
        }
    }
}
