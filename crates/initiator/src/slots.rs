//! Table of an initiator's outstanding commands, by tag.
//!
//! **Owns** each command's data from submission until the caller takes the result. **Called by** the queue of an initiator.
//! **Invariants**: a tag is a slot's index with the slot's generation above it; the generation advances each time the slot
//! sends a command, so that an answer to an earlier command never matches; a slot whose caller was dropped keeps its data
//! until the answer arrives.

use io::IoBuf;
use io::sync::Permit;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Low bits of a tag, which are the slot's index.
const INDEX_BITS: u32 = 10;
/// Most slots of a table.
pub const SLOTS_MAX: u16 = 1 << INDEX_BITS;

/// A command's data.
#[derive(Debug)]
pub enum Data {
    /// No data.
    None,
    /// From the target, received into the buffer.
    In(IoBuf),
    /// To the target, sent from the buffer without a copy.
    Out(Arc<IoBuf>),
    /// To the target: a structure that is small enough to be copied.
    Small(Box<[u8]>),
}

impl Data {
    /// Bytes to transfer.
    #[must_use]
    pub fn len(&self) -> u32 {
        let len = match self {
            Self::None => 0,
            Self::In(buf) => buf.len(),
            Self::Out(buf) => buf.len(),
            Self::Small(bytes) => bytes.len(),
        };
        u32::try_from(len).expect("buffers are shorter than 4 GiB")
    }

    /// Whether there is nothing to transfer.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes to send.
    #[must_use]
    pub fn outgoing(&self) -> Option<&[u8]> {
        match self {
            Self::Out(buf) => Some(buf),
            Self::Small(bytes) => Some(bytes),
            Self::None | Self::In(_) => None,
        }
    }
}

/// What happens to a command when its connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replay {
    /// It is sent again on the next connection: the command is idempotent.
    Yes,
    /// It fails if it was sent before; otherwise it is sent on the next connection.
    No,
    /// It belongs to one connection and fails with it, sent or not.
    Never,
}

/// A command to submit; `C` is the protocol's part of it.
#[derive(Debug)]
pub struct Request<C> {
    /// The protocol's part of the command.
    pub command: C,
    /// Its data.
    pub data: Data,
    /// What happens when the connection breaks.
    pub replay: Replay,
    /// Whether success with less data than asked for is an error.
    pub whole: bool,
}

/// A command that has ended, with a result `R`.
#[derive(Debug)]
pub struct Finished<R> {
    /// The answer, or the reason why there is none.
    pub result: R,
    /// The command's data.
    pub data: Data,
    /// Bytes received.
    pub received: u32,
}

/// State of a slot.
#[derive(Debug)]
enum SlotState<R> {
    /// No command.
    Free,
    /// Waiting for a connection, or for room in the target's window.
    Parked,
    /// Sent on the present connection, or in the batch to be sent next.
    Sent,
    /// Timed out: the command is being aborted.
    Aborting,
    /// Answered or failed; the caller has not taken the result.
    Done(R),
}

/// A slot with its command.
pub struct Slot<C, R> {
    /// The protocol's part of the command.
    pub command: C,
    /// The data; [`Data::None`] while the receiver has the buffer.
    pub data: Data,
    /// Bytes of `data`.
    pub data_len: u32,
    /// Bytes received, or bytes sent that the target asked for.
    pub moved: u32,
    /// The batch with the data of the last R2T, and the number of R2Ts that this batch answers.
    pub r2t_batch: (u64, u64),
    generation: u32,
    state: SlotState<R>,
    whole: bool,
    replay: Replay,
    orphan: bool,
    tick: u32,
    order: u64,
    waker: Option<Waker>,
    permit: Option<Permit>,
}

impl<C, R> Slot<C, R> {
    fn new(generation: u32, request: Request<C>) -> Slot<C, R> {
        Slot {
            command: request.command,
            data_len: request.data.len(),
            data: request.data,
            moved: 0,
            r2t_batch: (u64::MAX, 0),
            generation,
            state: SlotState::Free,
            whole: request.whole,
            replay: request.replay,
            orphan: false,
            tick: 0,
            order: 0,
            waker: None,
            permit: None,
        }
    }

    /// Whether the command belongs to one connection: set-up, keep-alive, event request.
    pub fn is_setup(&self) -> bool {
        self.replay == Replay::Never
    }

    /// Whether data is missing, so that success would be an error.
    pub fn is_short(&self) -> bool {
        self.whole && self.moved != self.data_len
    }

    /// Whether success with less data than asked for is an error.
    pub fn is_whole(&self) -> bool {
        self.whole
    }

    fn is_out(&self) -> bool {
        matches!(self.state, SlotState::Sent | SlotState::Aborting)
    }

    fn is_late(&self, now: u32, ticks: u32) -> bool {
        now.wrapping_sub(self.tick) >= ticks
    }
}

/// All slots of a queue.
pub struct Slots<C, R> {
    slots: Vec<Slot<C, R>>,
    free: Vec<u16>,
    next_order: u64,
    generations: u32,
}

impl<C: Default, R> Slots<C, R> {
    /// Creates `depth` free slots. Their tags have `generation_bits` above the index.
    #[must_use]
    pub fn new(depth: u16, generation_bits: u32) -> Slots<C, R> {
        assert!(depth <= SLOTS_MAX, "a tag has {INDEX_BITS} bits of index");
        let nothing = || Request {
            command: C::default(),
            data: Data::None,
            replay: Replay::Never,
            whole: false,
        };
        Slots {
            slots: (0..depth).map(|_| Slot::new(0, nothing())).collect(),
            free: (0..depth).rev().collect(),
            next_order: 0,
            generations: 1 << generation_bits,
        }
    }
}

impl<C, R> Slots<C, R> {
    /// Puts a new command into a free slot, parked. Returns the slot. The permit proves that a slot is free.
    pub fn insert(&mut self, request: Request<C>, permit: Permit) -> u16 {
        let index = self.free.pop().expect("as many permits as slots");
        let order = self.next_order;
        self.next_order += 1;
        let slot = &mut self.slots[usize::from(index)];
        *slot = Slot {
            state: SlotState::Parked,
            order,
            permit: Some(permit),
            ..Slot::new(slot.generation, request)
        };
        index
    }

    /// Marks a parked command as sent, and returns its new tag. `None` if the command is no longer parked.
    pub fn send(&mut self, index: u16, tick: u32) -> Option<u32> {
        let generations = self.generations;
        let slot = self.get_mut(index);
        if !matches!(slot.state, SlotState::Parked) {
            return None;
        }
        slot.generation = (slot.generation + 1) % generations;
        slot.state = SlotState::Sent;
        slot.tick = tick;
        slot.moved = 0;
        slot.r2t_batch = (u64::MAX, 0);
        Some(self.tag(index))
    }

    /// Returns a slot.
    #[must_use]
    pub fn get(&self, index: u16) -> &Slot<C, R> {
        &self.slots[usize::from(index)]
    }

    /// Returns a slot for changes.
    pub fn get_mut(&mut self, index: u16) -> &mut Slot<C, R> {
        &mut self.slots[usize::from(index)]
    }

    /// The tag of the command in a slot.
    #[must_use]
    pub fn tag(&self, index: u16) -> u32 {
        self.get(index).generation << INDEX_BITS | u32::from(index)
    }

    /// Returns the slot of the outstanding command with this tag; `None` for any other tag.
    #[must_use]
    pub fn find(&self, tag: u32) -> Option<u16> {
        let index = (tag & u32::from(SLOTS_MAX - 1)) as u16;
        let slot = self.slots.get(usize::from(index))?;
        (slot.is_out() && slot.generation == tag >> INDEX_BITS).then_some(index)
    }

    /// Ends a command with `result`. Returns the waker of its caller, if it waits.
    #[must_use]
    pub fn finish(&mut self, index: u16, result: R) -> Option<Waker> {
        let slot = self.get_mut(index);
        let waker = slot.waker.take();
        slot.state = SlotState::Done(result);
        if slot.orphan {
            self.release(index);
        }
        waker
    }

    /// Returns the result and frees the slot. If the command has not ended, keeps the waker and returns `None`.
    pub fn take(&mut self, index: u16, waker: &Waker) -> Option<Finished<R>> {
        let slot = self.get_mut(index);
        match std::mem::replace(&mut slot.state, SlotState::Free) {
            SlotState::Done(result) => {
                let data = std::mem::replace(&mut slot.data, Data::None);
                let received = slot.moved;
                self.release(index);
                Some(Finished {
                    result,
                    data,
                    received,
                })
            }
            state => {
                slot.state = state;
                match &mut slot.waker {
                    Some(known) if known.will_wake(waker) => {}
                    known => *known = Some(waker.clone()),
                }
                None
            }
        }
    }

    /// The caller was dropped: frees the slot now, or when the command ends.
    pub fn abandon(&mut self, index: u16) {
        let slot = self.get_mut(index);
        match slot.state {
            SlotState::Sent | SlotState::Aborting => {
                slot.orphan = true;
                slot.waker = None;
            }
            SlotState::Parked | SlotState::Done(_) => self.release(index),
            SlotState::Free => {}
        }
    }

    fn release(&mut self, index: u16) {
        let slot = self.get_mut(index);
        slot.state = SlotState::Free;
        slot.data = Data::None;
        slot.waker = None;
        slot.orphan = false;
        slot.permit = None;
        self.free.push(index);
    }

    /// Whether a command for which `counts` is true was sent at least `ticks` ago and has no answer.
    pub fn has_expired(&self, now: u32, ticks: u32, counts: impl Fn(&C) -> bool) -> bool {
        let late = |s: &Slot<C, R>| matches!(s.state, SlotState::Sent) && s.is_late(now, ticks);
        self.slots.iter().any(|s| late(s) && counts(&s.command))
    }

    /// Finds an unanswered command that was sent at least `ticks` ago. Marks it as being aborted, and restarts its time.
    pub fn expire(&mut self, now: u32, ticks: u32) -> Option<u16> {
        let late = |s: &Slot<C, R>| matches!(s.state, SlotState::Sent) && s.is_late(now, ticks);
        let index = self.slots.iter().position(late)?;
        let slot = &mut self.slots[index];
        slot.state = SlotState::Aborting;
        slot.tick = now;
        Some(index as u16)
    }

    /// Whether the abort of a command began at least `ticks` ago and the target has not confirmed it.
    #[must_use]
    pub fn has_abort_expired(&self, now: u32, ticks: u32) -> bool {
        let late = |s: &Slot<C, R>| matches!(s.state, SlotState::Aborting) && s.is_late(now, ticks);
        self.slots.iter().any(late)
    }

    /// Handles a broken connection. Commands that may be sent again or were never sent are parked; other commands end with
    /// `failed`. If `keep` is false, all commands end. `failed` is told whether the command had timed out. Returns the wakers
    /// of the callers.
    #[must_use]
    pub fn disconnect(&mut self, keep: bool, failed: impl Fn(bool) -> R) -> Vec<Waker> {
        let mut wake = Vec::new();
        for index in 0..self.slots.len() as u16 {
            let slot = self.get_mut(index);
            let late = matches!(slot.state, SlotState::Aborting);
            let park = match slot.state {
                SlotState::Free | SlotState::Done(_) => continue,
                SlotState::Sent => slot.replay == Replay::Yes && !slot.orphan,
                SlotState::Aborting => false,
                SlotState::Parked => slot.replay != Replay::Never,
            };
            if park && keep {
                slot.state = SlotState::Parked;
            } else {
                wake.extend(self.finish(index, failed(late)));
            }
        }
        wake
    }

    /// The parked commands in the order of their submission.
    #[must_use]
    pub fn parked(&self) -> Vec<u16> {
        let mut parked: Vec<u16> = (0..self.slots.len() as u16)
            .filter(|i| matches!(self.get(*i).state, SlotState::Parked))
            .collect();
        parked.sort_by_key(|i| self.get(*i).order);
        parked
    }

    /// Commands sent and not answered.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.slots.iter().filter(|s| s.is_out()).count()
    }
}

/// Something that owns a table of slots behind a cell.
pub trait HasSlots {
    /// The protocol's part of a command.
    type Command;
    /// How a command ends.
    type Result;

    /// Calls `f` with the slots.
    fn with_slots<T>(&self, f: impl FnOnce(&mut Slots<Self::Command, Self::Result>) -> T) -> T;
}

/// Future of a command's result. Dropping it abandons the command.
pub struct Waiting<'q, Q: HasSlots> {
    queue: &'q Q,
    index: u16,
    is_taken: bool,
}

impl<'q, Q: HasSlots> Waiting<'q, Q> {
    /// Waits for the command in slot `index`.
    pub fn new(queue: &'q Q, index: u16) -> Waiting<'q, Q> {
        Waiting {
            queue,
            index,
            is_taken: false,
        }
    }
}

impl<Q: HasSlots> Future for Waiting<'_, Q> {
    type Output = Finished<Q::Result>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Finished<Q::Result>> {
        let index = self.index;
        match self.queue.with_slots(|s| s.take(index, cx.waker())) {
            Some(finished) => {
                self.is_taken = true;
                Poll::Ready(finished)
            }
            None => Poll::Pending,
        }
    }
}

impl<Q: HasSlots> Drop for Waiting<'_, Q> {
    fn drop(&mut self) {
        if !self.is_taken {
            self.queue.with_slots(|s| s.abandon(self.index));
        }
    }
}

#[cfg(test)]
mod tests;
