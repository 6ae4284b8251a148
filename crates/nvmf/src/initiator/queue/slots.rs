//! The commands of one queue, by command identifier.
//!
//! Owns each command's data from submission until its waiter takes the result.
//!
//! Invariants: a CID is a slot's index with the slot's generation above it. The generation advances
//! each time the slot sends a command, so an answer to an earlier one never finds the slot. A slot
//! whose waiter went away keeps its data until the answer comes.

use std::sync::Arc;
use std::task::Waker;

use io::IoBuf;
use io::sync::Permit;

use crate::initiator::error::{Error, Result};
use crate::initiator::limits::{ADMIN_DEPTH, ADMIN_RESERVED, IO_RESERVED, QUEUE_DEPTH_MAX};
use crate::wire::command::{Cid, Sqe};
use crate::wire::completion::Cqe;
use crate::wire::pdu::PduError;

/// Bits of a CID that are the slot's index.
const INDEX_BITS: u32 = 10;
const INDEX_MASK: u16 = (1 << INDEX_BITS) - 1;
const _: () = assert!(QUEUE_DEPTH_MAX + IO_RESERVED <= INDEX_MASK + 1);
const _: () = assert!(ADMIN_DEPTH + ADMIN_RESERVED <= INDEX_MASK + 1);

/// A command's data.
#[derive(Debug)]
pub(crate) enum Data {
    /// None.
    None,
    /// From the controller, filling the buffer.
    In(IoBuf),
    /// To the controller, sent from where it lies.
    Out(Arc<IoBuf>),
    /// To the controller, a structure small enough to be copied.
    Small(Box<[u8]>),
}

impl Data {
    /// Bytes to transfer.
    pub(crate) fn len(&self) -> u32 {
        let len = match self {
            Self::None => 0,
            Self::In(buf) => buf.len(),
            Self::Out(buf) => buf.len(),
            Self::Small(bytes) => bytes.len(),
        };
        u32::try_from(len).expect("buffers are shorter than 4 GiB")
    }

    /// The bytes to send.
    pub(crate) fn outgoing(&self) -> Option<&[u8]> {
        match self {
            Self::Out(buf) => Some(buf),
            Self::Small(bytes) => Some(bytes),
            Self::None | Self::In(_) => None,
        }
    }
}

/// What becomes of a command when its connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replay {
    /// It is sent again on the next connection: doing it twice is doing it once.
    Yes,
    /// It fails if it had been sent.
    No,
    /// It belongs to one connection and fails with it, sent or not.
    Never,
}

/// A command to submit.
#[derive(Debug)]
pub(crate) struct Command {
    /// The entry; CID and SGL are set by the queue.
    pub(crate) sqe: Sqe,
    /// Its data.
    pub(crate) data: Data,
    /// What a broken connection does to it.
    pub(crate) replay: Replay,
    /// Whether the controller may take as long as it likes.
    pub(crate) untimed: bool,
    /// Whether success with less data than asked for is an error.
    pub(crate) whole: bool,
}

/// A command that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The completion, whatever its status, or why there is none.
    pub(crate) result: Result<Cqe>,
    /// The command's data.
    pub(crate) data: Data,
    /// Bytes received.
    pub(crate) received: u32,
}

/// Where a command is.
#[derive(Debug)]
enum State {
    /// No command.
    Free,
    /// Waiting for a connection.
    Parked,
    /// Sent on the present connection, or in the batch to be sent next.
    Sent,
    /// Answered or failed; the waiter has not looked yet.
    Done(Result<Cqe>),
}

/// One command.
pub(crate) struct Slot {
    generation: u16,
    state: State,
    /// The entry as submitted.
    pub(crate) sqe: Sqe,
    /// The data; [`Data::None`] while the receiver has the buffer.
    pub(crate) data: Data,
    /// Bytes of `data`.
    pub(crate) data_len: u32,
    /// Bytes received, or asked for by R2T, or sent in the capsule.
    pub(crate) moved: u32,
    /// The batch that carries the data of the last R2T, and how many R2Ts it answers.
    pub(crate) r2t_batch: (u64, u64),
    whole: bool,
    replay: Replay,
    untimed: bool,
    orphan: bool,
    tick: u32,
    order: u64,
    waker: Option<Waker>,
    permit: Option<Permit>,
}

impl Slot {
    /// Whether the command belongs to one connection: set-up, keep alive, event requests.
    pub(crate) fn is_setup(&self) -> bool {
        self.replay == Replay::Never
    }
}

/// All slots of a queue.
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u16>,
    next_order: u64,
}

impl Slots {
    pub(crate) fn new(depth: u16) -> Self {
        let slot = || Slot {
            generation: 0,
            state: State::Free,
            sqe: Sqe::new(0, crate::wire::command::Nsid::NONE),
            data: Data::None,
            data_len: 0,
            moved: 0,
            r2t_batch: (u64::MAX, 0),
            whole: false,
            replay: Replay::Never,
            untimed: false,
            orphan: false,
            tick: 0,
            order: 0,
            waker: None,
            permit: None,
        };
        Self {
            slots: (0..depth).map(|_| slot()).collect(),
            free: (0..depth).rev().collect(),
            next_order: 0,
        }
    }

    /// Takes a command in, parked. The permit proves that a slot is free.
    pub(crate) fn insert(&mut self, command: Command, permit: Permit) -> u16 {
        let index = self.free.pop().expect("as many permits as slots");
        let order = self.next_order;
        self.next_order += 1;
        let slot = &mut self.slots[usize::from(index)];
        let generation = slot.generation;
        *slot = Slot {
            generation,
            state: State::Parked,
            sqe: command.sqe,
            data_len: command.data.len(),
            data: command.data,
            moved: 0,
            r2t_batch: (u64::MAX, 0),
            whole: command.whole,
            replay: command.replay,
            untimed: command.untimed,
            orphan: false,
            tick: 0,
            order,
            waker: None,
            permit: Some(permit),
        };
        index
    }

    /// Marks a parked command as sent under a new CID, which it returns.
    pub(crate) fn send(&mut self, index: u16, tick: u32) -> Cid {
        let slot = &mut self.slots[usize::from(index)];
        slot.generation = (slot.generation + 1) & (u16::MAX >> INDEX_BITS);
        slot.state = State::Sent;
        slot.tick = tick;
        slot.moved = 0;
        slot.r2t_batch = (u64::MAX, 0);
        Cid(slot.generation << INDEX_BITS | index)
    }

    pub(crate) fn get(&self, index: u16) -> &Slot {
        &self.slots[usize::from(index)]
    }

    pub(crate) fn get_mut(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[usize::from(index)]
    }

    /// The slot of a command that is on its way. Errors: a sequence error for any other CID.
    pub(crate) fn find(&self, cid: Cid) -> std::result::Result<u16, PduError> {
        let index = cid.0 & INDEX_MASK;
        match self.slots.get(usize::from(index)) {
            Some(slot)
                if matches!(slot.state, State::Sent) && slot.generation == cid.0 >> INDEX_BITS =>
            {
                Ok(index)
            }
            _ => Err(PduError::sequence(
                "answer to a command that is not outstanding",
            )),
        }
    }

    /// Ends a command. Returns whom to wake.
    pub(crate) fn finish(&mut self, index: u16, result: Result<Cqe>) -> Option<Waker> {
        let slot = &mut self.slots[usize::from(index)];
        let waker = slot.waker.take();
        slot.state = State::Done(result);
        if slot.orphan {
            self.release(index);
        }
        waker
    }

    /// Ends a command with its completion, if the data it moved fits that.
    pub(crate) fn complete(
        &mut self,
        index: u16,
        cqe: Cqe,
    ) -> std::result::Result<Option<Waker>, PduError> {
        let slot = &self.slots[usize::from(index)];
        if cqe.status().is_success() && slot.whole && slot.moved != slot.data_len {
            return Err(PduError::out_of_range(
                "success without all of the command's data",
            ));
        }
        Ok(self.finish(index, Ok(cqe)))
    }

    /// The result, if there is one, which frees the slot; else the waker is kept.
    pub(crate) fn take(&mut self, index: u16, waker: &Waker) -> Option<Finished> {
        let slot = &mut self.slots[usize::from(index)];
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Done(result) => {
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

    /// The waiter went away: the slot is freed now, or when the command ends.
    pub(crate) fn abandon(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        match slot.state {
            State::Sent => {
                slot.orphan = true;
                slot.waker = None;
            }
            State::Parked | State::Done(_) => self.release(index),
            State::Free => {}
        }
    }

    fn release(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        slot.state = State::Free;
        slot.data = Data::None;
        slot.waker = None;
        slot.orphan = false;
        self.free.push(index);
        slot.permit = None;
    }

    /// Whether a command sent `ticks` or more ticks ago has no answer yet.
    pub(crate) fn expired(&self, now: u32, ticks: u32) -> bool {
        self.slots.iter().any(|s| {
            matches!(s.state, State::Sent) && !s.untimed && now.wrapping_sub(s.tick) >= ticks
        })
    }

    /// The connection is gone: commands that may be sent again, or never were, are parked; the
    /// others fail with `error`, and all do with `keep` false. Returns whom to wake.
    pub(crate) fn disconnect(&mut self, error: &Error, keep: bool) -> Vec<Waker> {
        let mut wake = Vec::new();
        for index in 0..self.slots.len() as u16 {
            let slot = &mut self.slots[usize::from(index)];
            let park = match slot.state {
                State::Free | State::Done(_) => continue,
                State::Sent if slot.orphan => false,
                State::Sent => slot.replay == Replay::Yes,
                State::Parked => slot.replay != Replay::Never,
            };
            if park && keep {
                slot.state = State::Parked;
            } else {
                wake.extend(self.finish(index, Err(error.clone())));
            }
        }
        wake
    }

    /// The parked commands in the order of their submission.
    pub(crate) fn parked(&self) -> Vec<u16> {
        let mut parked: Vec<u16> = (0..self.slots.len() as u16)
            .filter(|i| matches!(self.slots[usize::from(*i)].state, State::Parked))
            .collect();
        parked.sort_by_key(|i| self.slots[usize::from(*i)].order);
        parked
    }

    /// Commands sent and not answered.
    pub(crate) fn outstanding(&self) -> usize {
        self.slots
            .iter()
            .filter(|s| matches!(s.state, State::Sent))
            .count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::command::Nsid;
    use crate::wire::status::Status;
    use io::sync::Semaphore;
    use std::task::{Context, Poll};

    fn permit(of: &Semaphore) -> Permit {
        let mut acquire = std::pin::pin!(of.acquire(1));
        match acquire
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(permit) => permit,
            Poll::Pending => panic!("a permit is free"),
        }
    }

    fn command(replay: Replay) -> Command {
        let sqe = Sqe::new(0, Nsid(1));
        Command {
            sqe,
            data: Data::None,
            replay,
            untimed: false,
            whole: false,
        }
    }

    #[test]
    fn an_answer_to_an_earlier_command_finds_nothing() {
        let permits = Semaphore::new(2);
        let mut slots = Slots::new(2);
        let index = slots.insert(command(Replay::Yes), permit(&permits));
        let first = slots.send(index, 0);
        assert_eq!(slots.find(first), Ok(index));
        slots
            .complete(index, Cqe::new(first, Status::SUCCESS))
            .expect("no data");
        assert!(slots.find(first).is_err(), "answered twice");
        assert!(slots.take(index, Waker::noop()).is_some());
        assert_eq!(permits.available(), 2);
        let index = slots.insert(command(Replay::Yes), permit(&permits));
        let second = slots.send(index, 0);
        assert_ne!(first, second);
        assert!(slots.find(first).is_err(), "stale");
        assert!(slots.find(Cid(1)).is_err() && slots.find(Cid(1000)).is_err());
    }

    #[test]
    fn a_broken_connection_parks_what_may_be_sent_twice() {
        let permits = Semaphore::new(4);
        let mut slots = Slots::new(4);
        let [yes, no, never, unsent] = [Replay::Yes, Replay::No, Replay::Never, Replay::No]
            .map(|replay| slots.insert(command(replay), permit(&permits)));
        for index in [yes, no, never] {
            slots.send(index, 0);
        }
        slots.disconnect(&Error::Disconnected, true);
        assert_eq!(slots.parked(), [yes, unsent]);
        for index in [no, never] {
            let finished = slots.take(index, Waker::noop()).expect("failed");
            assert_eq!(finished.result, Err(Error::Disconnected));
        }
        slots.disconnect(&Error::Closed, false);
        assert_eq!(
            slots.take(yes, Waker::noop()).expect("failed").result,
            Err(Error::Closed)
        );
        assert!(slots.parked().is_empty());
    }

    #[test]
    fn an_abandoned_command_holds_its_slot_until_the_answer() {
        let permits = Semaphore::new(1);
        let mut slots = Slots::new(1);
        let index = slots.insert(command(Replay::Yes), permit(&permits));
        let cid = slots.send(index, 3);
        slots.abandon(index);
        assert_eq!(permits.available(), 0);
        assert!(!slots.expired(6, 4) && slots.expired(7, 4));
        slots
            .complete(index, Cqe::new(cid, Status::SUCCESS))
            .expect("no data");
        assert_eq!((permits.available(), slots.outstanding()), (1, 0));
    }
}
