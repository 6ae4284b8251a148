//! The SCSI tasks of a session, by initiator task tag.
//!
//! **Owns** each task's data from submission until its waiter takes the result. **Called by** the engine. **Invariants**:
//! a tag is a slot's index with the slot's generation above it; the generation advances each time the slot sends a task,
//! so that an answer to an earlier one never finds the slot; a slot whose waiter went away keeps its data until the
//! answer comes.

use super::error::{Error, ProtocolError, Result};
use super::limits::QUEUE_DEPTH_MAX;
use super::sense::Sense;
use crate::wire::response::Residual;
use crate::wire::{Itt, Lun, Sn};
use io::IoBuf;
use io::sync::Permit;
use std::sync::Arc;
use std::task::Waker;

/// Bits of a tag that are the slot's index, and those that are its generation. The upper two bits are zero: tags of
/// other requests have one of them.
const INDEX_BITS: u32 = 10;
const GENERATION_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const _: () = assert!(QUEUE_DEPTH_MAX as u32 <= INDEX_MASK + 1);
const _: () = assert!(INDEX_BITS + GENERATION_BITS == 30);

/// A task's data.
#[derive(Debug)]
pub(super) enum Data {
    /// None.
    None,
    /// From the target, filling the buffer.
    In(IoBuf),
    /// To the target, sent from where it lies.
    Out(Arc<IoBuf>),
    /// To the target, a structure small enough to be copied.
    Small(Box<[u8]>),
}

impl Data {
    /// Bytes to transfer.
    pub(super) fn len(&self) -> u32 {
        let len = match self {
            Self::None => 0,
            Self::In(buf) => buf.len(),
            Self::Out(buf) => buf.len(),
            Self::Small(bytes) => bytes.len(),
        };
        u32::try_from(len).expect("buffers are shorter than 4 GiB")
    }

    /// The bytes to send.
    pub(super) fn outgoing(&self) -> Option<&[u8]> {
        match self {
            Self::Out(buf) => Some(buf),
            Self::Small(bytes) => Some(bytes),
            Self::None | Self::In(_) => None,
        }
    }
}

/// What becomes of a task when its connection breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replay {
    /// It is sent again in the next session: doing it twice is doing it once.
    Yes,
    /// It fails if it had been sent.
    No,
}

/// A task to submit.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) lun: Lun,
    pub(super) cdb: [u8; 16],
    pub(super) data: Data,
    pub(super) replay: Replay,
    /// Whether success with less data than asked for is an error.
    pub(super) whole: bool,
}

/// How a target ended a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) status: u8,
    pub(super) sense: Sense,
    pub(super) residual: Residual,
}

/// A task that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    /// The status, whatever it is, or why there is none.
    pub(super) result: Result<Ended>,
    /// The task's data.
    pub(super) data: Data,
    /// Bytes received.
    pub(super) received: u32,
}

/// Where a task is.
#[derive(Debug)]
enum State {
    /// No task.
    Free,
    /// Waiting for a connection, or for the target's window.
    Parked,
    /// Sent in the present session, or in the batch to be sent next.
    Sent,
    /// Sent, out of time, and to be aborted.
    Aborting,
    /// Answered or failed; the waiter has not looked yet.
    Done(Result<Ended>),
}

/// One task.
pub(super) struct Slot {
    generation: u32,
    state: State,
    pub(super) lun: Lun,
    pub(super) cdb: [u8; 16],
    pub(super) cmd_sn: Sn,
    /// The data; [`Data::None`] while the receiver has the buffer.
    pub(super) data: Data,
    /// Bytes of `data`.
    pub(super) data_len: u32,
    /// Bytes received, or sent and asked for.
    pub(super) moved: u32,
    /// The next DataSN of a read, or R2TSN of a write.
    pub(super) next_sn: u32,
    /// The batch that carries the data of the last R2T, and how many R2Ts it answers.
    pub(super) r2t_batch: (u64, u32),
    pub(super) whole: bool,
    replay: Replay,
    orphan: bool,
    tick: u32,
    order: u64,
    waker: Option<Waker>,
    permit: Option<Permit>,
}

/// All slots of a session.
pub(super) struct Tasks {
    slots: Vec<Slot>,
    free: Vec<u16>,
    next_order: u64,
}

impl Tasks {
    pub(super) fn new(depth: u16) -> Self {
        let slot = || Slot {
            generation: 0,
            state: State::Free,
            lun: Lun::default(),
            cdb: [0; 16],
            cmd_sn: Sn(0),
            data: Data::None,
            data_len: 0,
            moved: 0,
            next_sn: 0,
            r2t_batch: (u64::MAX, 0),
            whole: false,
            replay: Replay::No,
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

    /// Takes a task in, parked. The permit proves that a slot is free.
    pub(super) fn insert(&mut self, task: Task, permit: Permit) -> u16 {
        let index = self.free.pop().expect("as many permits as slots");
        let order = self.next_order;
        self.next_order += 1;
        let slot = &mut self.slots[usize::from(index)];
        let generation = slot.generation;
        *slot = Slot {
            generation,
            state: State::Parked,
            lun: task.lun,
            cdb: task.cdb,
            cmd_sn: Sn(0),
            data_len: task.data.len(),
            data: task.data,
            moved: 0,
            next_sn: 0,
            r2t_batch: (u64::MAX, 0),
            whole: task.whole,
            replay: task.replay,
            orphan: false,
            tick: 0,
            order,
            waker: None,
            permit: Some(permit),
        };
        index
    }

    /// Marks a parked task as sent under a new tag, which it returns; `None` if it is not parked any more.
    pub(super) fn send(&mut self, index: u16, cmd_sn: Sn, tick: u32) -> Option<Itt> {
        let slot = &mut self.slots[usize::from(index)];
        if !matches!(slot.state, State::Parked) {
            return None;
        }
        slot.generation = (slot.generation + 1) % (1 << GENERATION_BITS);
        slot.state = State::Sent;
        slot.cmd_sn = cmd_sn;
        slot.tick = tick;
        slot.moved = 0;
        slot.next_sn = 0;
        slot.r2t_batch = (u64::MAX, 0);
        Some(Itt(slot.generation << INDEX_BITS | u32::from(index)))
    }

    pub(super) fn get(&self, index: u16) -> &Slot {
        &self.slots[usize::from(index)]
    }

    pub(super) fn get_mut(&mut self, index: u16) -> &mut Slot {
        &mut self.slots[usize::from(index)]
    }

    /// The tag of the task in a slot.
    pub(super) fn tag(&self, index: u16) -> Itt {
        Itt(self.get(index).generation << INDEX_BITS | u32::from(index))
    }

    /// The slot of a task that is on its way.
    pub(super) fn find(&self, itt: Itt) -> std::result::Result<u16, ProtocolError> {
        let index = itt.0 & INDEX_MASK;
        match self.slots.get(index as usize) {
            Some(slot)
                if matches!(slot.state, State::Sent | State::Aborting)
                    && slot.generation == itt.0 >> INDEX_BITS =>
            {
                Ok(index as u16)
            }
            _ => Err(ProtocolError::NoTask),
        }
    }

    /// Ends a task, and wakes whoever waits for it.
    pub(super) fn finish(&mut self, index: u16, result: Result<Ended>) {
        let slot = &mut self.slots[usize::from(index)];
        slot.state = State::Done(result);
        if slot.orphan {
            self.release(index);
        } else if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// The result, if there is one, which frees the slot; else the waker is kept.
    pub(super) fn take(&mut self, index: u16, waker: &Waker) -> Option<Finished> {
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

    /// The waiter went away: the slot is freed now, or when the task ends.
    pub(super) fn abandon(&mut self, index: u16) {
        let slot = &mut self.slots[usize::from(index)];
        match slot.state {
            State::Sent | State::Aborting => {
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

    /// A task sent `ticks` or more ticks ago that has no answer yet; from now on it is being aborted, with its time
    /// counted anew.
    pub(super) fn expire(&mut self, now: u32, ticks: u32) -> Option<u16> {
        let late = |s: &Slot| matches!(s.state, State::Sent) && now.wrapping_sub(s.tick) >= ticks;
        let index = self.slots.iter().position(late)?;
        let slot = &mut self.slots[index];
        slot.state = State::Aborting;
        slot.tick = now;
        Some(index as u16)
    }

    /// Whether a task was to be aborted `ticks` or more ticks ago, and the target has not said that it was.
    pub(super) fn abort_expired(&self, now: u32, ticks: u32) -> bool {
        let late =
            |s: &Slot| matches!(s.state, State::Aborting) && now.wrapping_sub(s.tick) >= ticks;
        self.slots.iter().any(late)
    }

    /// The connection is gone: tasks that may be sent again, or never were, are parked; the others fail with `error`,
    /// and all do with `keep` false. What ran out of time says so.
    pub(super) fn disconnect(&mut self, error: &Error, keep: bool) {
        for index in 0..self.slots.len() as u16 {
            let slot = &mut self.slots[usize::from(index)];
            let (park, error) = match slot.state {
                State::Free | State::Done(_) => continue,
                State::Sent => (slot.replay == Replay::Yes && !slot.orphan, error),
                State::Aborting => (false, &Error::Timeout),
                State::Parked => (true, error),
            };
            if park && keep {
                slot.state = State::Parked;
            } else {
                self.finish(index, Err(error.clone()));
            }
        }
    }

    /// The parked tasks in the order of their submission.
    pub(super) fn parked(&self) -> Vec<u16> {
        let mut parked: Vec<u16> = (0..self.slots.len() as u16)
            .filter(|i| matches!(self.get(*i).state, State::Parked))
            .collect();
        parked.sort_by_key(|i| self.get(*i).order);
        parked
    }

    /// Tasks sent and not answered.
    pub(super) fn outstanding(&self) -> usize {
        let sent = |s: &&Slot| matches!(s.state, State::Sent | State::Aborting);
        self.slots.iter().filter(sent).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    fn task(replay: Replay) -> Task {
        Task {
            lun: Lun::default(),
            cdb: [0; 16],
            data: Data::None,
            replay,
            whole: false,
        }
    }

    const GOOD: Ended = Ended {
        status: 0,
        sense: Sense {
            key: 0,
            asc: 0,
            information: None,
        },
        residual: Residual::None,
    };

    #[test]
    fn an_answer_to_an_earlier_task_finds_nothing() {
        let permits = Semaphore::new(2);
        let mut tasks = Tasks::new(2);
        let index = tasks.insert(task(Replay::Yes), permit(&permits));
        let first = tasks.send(index, Sn(1), 0).expect("parked");
        assert_eq!(tasks.find(first), Ok(index));
        tasks.finish(index, Ok(GOOD));
        assert!(tasks.find(first).is_err(), "answered twice");
        assert!(tasks.take(index, Waker::noop()).is_some());
        assert_eq!(permits.available(), 2);
        let index = tasks.insert(task(Replay::Yes), permit(&permits));
        let second = tasks.send(index, Sn(2), 0).expect("parked");
        assert_ne!(first, second);
        assert!(tasks.find(first).is_err(), "stale");
        for wild in [Itt(1), Itt(1000), Itt::NONE, Itt(second.0 | 1 << 30)] {
            assert!(tasks.find(wild).is_err(), "{wild:?}");
        }
    }

    #[test]
    fn a_broken_connection_parks_what_may_be_sent_twice() {
        let permits = Semaphore::new(4);
        let mut tasks = Tasks::new(4);
        let [yes, no, unsent, late] = [Replay::Yes, Replay::No, Replay::No, Replay::Yes]
            .map(|r| tasks.insert(task(r), permit(&permits)));
        tasks.send(late, Sn(1), 0).expect("parked");
        assert_eq!(tasks.expire(9, 9), Some(late));
        tasks.send(yes, Sn(2), 9).expect("parked");
        tasks.send(no, Sn(3), 9).expect("parked");
        assert_eq!(tasks.outstanding(), 3);
        tasks.disconnect(&Error::Disconnected, true);
        assert_eq!(tasks.parked(), [yes, unsent]);
        for (index, error) in [(no, Error::Disconnected), (late, Error::Timeout)] {
            let ended = tasks.take(index, Waker::noop()).expect("it failed");
            assert_eq!(ended.result, Err(error));
        }
        tasks.disconnect(&Error::Closed, false);
        assert!(tasks.parked().is_empty());
    }

    #[test]
    fn a_waiter_that_goes_away_leaves_its_data_until_the_answer() {
        let permits = Semaphore::new(1);
        let mut tasks = Tasks::new(1);
        let index = tasks.insert(task(Replay::Yes), permit(&permits));
        tasks.send(index, Sn(1), 0).expect("parked");
        tasks.abandon(index);
        assert_eq!(permits.available(), 0, "the slot is in use");
        tasks.finish(index, Ok(GOOD));
        assert_eq!(permits.available(), 1);
    }
}
