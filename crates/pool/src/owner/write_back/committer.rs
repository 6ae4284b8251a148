//! Write-back in flight, and the requests that wait until their batch is durable.
//!
//! **Owns** the counts of groups and of bytes in flight, the last batch of each volume, the waiting demands, and the last
//! confirmation of the devices. **Called by** the owner's loop and by the tasks that it starts (`commit.rs`).
//! **Invariants**: a demand is answered with a confirmation that the devices gave after the demand's batch was durable; at
//! most one flush is in flight.

use std::collections::BTreeMap;

use io::time::{Instant, now};

use super::durable_way::DurableWay;
use super::gathering::Gathering;
use super::preparations::Preparations;
use super::waits::Waits;
use crate::Error;
use crate::dataset::{Demand, Promise};
use crate::format::TreeId;
use crate::journal::{Flush, Pressure, Ticket, Writer};
use crate::options::DurableWrites;
use crate::vdev::Stable;

/// Bytes of groups that one turn of the owner makes ready. The groups go to the devices before more are made ready.
const TURN_BYTES: usize = 256 << 10;
/// The most groups in flight.
const GROUPS_MAX: usize = 8;
/// The most batches with waiting demands. Further demands collect in their volumes, so that one flush answers them together.
const WAITED_BATCHES_MAX: usize = 2;

/// A demand that waits for a flush.
struct Waiter {
    /// The batch that must be durable first.
    ticket: Ticket,
    taken_at: Instant,
    demand: Demand,
    /// Whether a checkpoint waits, which may itself make the batch durable.
    is_checkpoint: bool,
}

impl Waiter {
    fn is_answered(&self, journal: &Writer) -> bool {
        match self.is_checkpoint {
            true => journal.may_be_in_checkpoint(self.ticket),
            false => journal.is_durable(self.ticket),
        }
    }
}

/// See the module header.
pub(in crate::owner) struct Committer {
    /// Groups in flight.
    groups: usize,
    /// Bytes of the groups that the current turn of the owner made ready.
    turn_bytes: usize,
    /// Whether all dirty records are written back now, however few they are.
    writes_all: bool,
    /// The last batch of each volume.
    last: BTreeMap<TreeId, Ticket>,
    waiters: Vec<Waiter>,
    /// What the devices confirmed last. None if the pool is read-only.
    confirmed: Option<Stable>,
    is_flushing: bool,
    /// When the last flush began.
    flush_at: Instant,
    pub(super) way: DurableWay,
    pub(super) preparations: Preparations,
    pub(super) gathering: Gathering,
    pub(super) waits: Waits,
}

impl Committer {
    /// Nothing is in flight. The devices gave the confirmation `confirmed` during the opening.
    pub(in crate::owner) fn new(confirmed: Option<Stable>, durable_writes: DurableWrites) -> Self {
        Self {
            groups: 0,
            turn_bytes: 0,
            writes_all: false,
            last: BTreeMap::new(),
            waiters: Vec::new(),
            confirmed,
            is_flushing: false,
            flush_at: now(),
            way: DurableWay::new(durable_writes),
            preparations: Preparations::default(),
            gathering: Gathering::default(),
            waits: Waits::new(),
        }
    }

    /// A turn of the owner begins.
    pub(super) fn begin_turn(&mut self) {
        self.turn_bytes = 0;
    }

    /// Whether the groups of this turn go to the devices before more are made ready.
    pub(in crate::owner) fn has_much_ready(&self) -> bool {
        self.turn_bytes >= TURN_BYTES
    }

    /// Requests that all dirty records are written back.
    pub(in crate::owner) fn write_all(&mut self) {
        self.writes_all = true;
    }

    /// Whether all dirty records are to be written back.
    pub(super) fn writes_all(&self) -> bool {
        self.writes_all
    }

    /// Ends a write-back of all dirty records unless the turn left some.
    pub(super) fn end_write_back(&mut self, is_some_left: bool) {
        self.writes_all &= is_some_left;
    }

    /// Whether another group may be taken now.
    pub(super) fn may_take_group(&self, journal: &Writer) -> bool {
        !self.has_much_ready()
            && self.groups < GROUPS_MAX
            && journal.pressure() < Pressure::Slow
            && !journal.is_flush_overdue()
    }

    /// Whether records that only the journal has may get blocks now. A full journal does not keep them from it: the checkpoint that
    /// frees it waits for them.
    pub(super) fn may_write_journaled(&self, journal: &Writer) -> bool {
        self.groups < GROUPS_MAX && !journal.is_flush_overdue()
    }

    /// A group of a volume is in the batch `ticket`.
    pub(super) fn journaled(&mut self, volume: TreeId, ticket: Ticket) {
        self.last.insert(volume, ticket);
    }

    /// This turn made a group of `bytes` bytes ready.
    pub(super) fn made_ready(&mut self, bytes: usize) {
        self.turn_bytes += bytes;
    }

    /// The data of a group goes to the devices.
    pub(super) fn begin_group(&mut self) {
        self.groups += 1;
    }

    /// The devices have the data of a group.
    pub(super) fn end_group(&mut self) {
        self.groups -= 1;
    }

    /// Forgets a destroyed volume.
    pub(in crate::owner) fn forget(&mut self, volume: TreeId) {
        self.last.remove(&volume);
        self.preparations.forget(volume);
    }

    /// Whether demands may be taken from the volumes now: they would join the open batch, or few batches have waiting demands.
    pub(super) fn may_take_demands(&self, journal: &Writer) -> bool {
        if self
            .waiters
            .last()
            .is_some_and(|last| journal.is_open(last.ticket))
        {
            return true;
        }
        let tickets = self.waiters.iter().map(|waiter| waiter.ticket);
        let next = tickets.clone().skip(1);
        let changes = tickets.zip(next).filter(|(a, b)| a != b).count();
        let batches = changes + usize::from(!self.waiters.is_empty());
        batches < WAITED_BATCHES_MAX
    }

    /// Number of demands that wait for a batch.
    pub(super) fn waiters(&self) -> usize {
        self.waiters.len()
    }

    /// Answers demands once the last batch of a volume is durable.
    pub(super) fn wait_for_volume(
        &mut self,
        journal: &Writer,
        volume: TreeId,
        demands: Vec<Demand>,
    ) {
        let ticket = self.last.get(&volume).copied();
        for demand in demands {
            self.answer_when_durable(journal, ticket, demand);
        }
    }

    /// Answers a demand once the batch `ticket` is durable; at once without a ticket.
    pub(in crate::owner) fn answer_when_durable(
        &mut self,
        journal: &Writer,
        ticket: Option<Ticket>,
        demand: Demand,
    ) {
        match ticket.filter(|ticket| !journal.is_durable(*ticket)) {
            Some(ticket) => self.waiters.push(Waiter {
                ticket,
                taken_at: now(),
                demand,
                is_checkpoint: false,
            }),
            None => {
                if let Some(confirmed) = &self.confirmed {
                    let at = now();
                    demand.send(Ok(promise(confirmed, at, at)));
                }
            }
        }
    }

    /// Answers a checkpoint once it may have the batch `ticket`.
    pub(in crate::owner) fn wait_for_checkpoint(&mut self, ticket: Ticket, demand: Demand) {
        self.waiters.push(Waiter {
            ticket,
            taken_at: now(),
            demand,
            is_checkpoint: true,
        });
    }

    /// Answers the demands whose batch is durable.
    pub(in crate::owner) fn answer(&mut self, journal: &Writer) {
        let Some(confirmed) = &self.confirmed else {
            return;
        };
        let is_answered = |waiter: &mut Waiter| waiter.is_answered(journal);
        for waiter in self.waiters.extract_if(.., is_answered) {
            if !waiter.is_checkpoint {
                self.waits.ended(waiter.taken_at);
            }
            let promise = promise(confirmed, waiter.taken_at, self.flush_at);
            waiter.demand.send(Ok(promise));
        }
    }

    /// Answers all waiting demands with an error.
    pub(in crate::owner) fn refuse(&mut self, error: &Error) {
        for waiter in self.waiters.drain(..) {
            waiter.demand.send(Err(error.clone()));
        }
    }

    /// Begins a flush if it answers a demand, or if replay would have to read too much data otherwise.
    pub(super) fn begin_flush(&mut self, journal: &mut Writer) -> Option<Flush> {
        let is_due = journal.is_flush_due();
        if self.is_flushing || (self.waiters.is_empty() && !is_due) {
            return None;
        }
        let flush = journal.begin_flush()?;
        let answers = |waiter: &Waiter| flush.covers(waiter.ticket);
        let covers_all = self.waiters.iter().all(answers);
        if !is_due && self.gathering.waits_for_batch(covers_all, now()) {
            return None;
        }
        self.is_flushing = is_due || self.waiters.iter().any(answers);
        if self.is_flushing {
            self.flush_at = now();
        }
        self.is_flushing.then_some(flush)
    }

    /// The devices confirmed a flush: answers the demands that it covers. `outstanding` demands have waited until now.
    pub(super) fn end_flush(
        &mut self,
        journal: &mut Writer,
        (flush, confirmed): (Flush, Stable),
        outstanding: usize,
    ) {
        self.is_flushing = false;
        let took = self.flush_at.elapsed();
        self.gathering.flush_ended(outstanding, took, now());
        journal.flushed(flush);
        self.way.flushed(journal);
        self.confirmed = Some(confirmed);
        self.answer(journal);
    }
}

/// The answer to a demand, from what the devices confirmed.
fn promise(confirmed: &Stable, taken_at: Instant, flush_at: Instant) -> Promise {
    Promise {
        proof: confirmed.into(),
        taken_at,
        flush_at,
    }
}
