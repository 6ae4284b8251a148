//! One queue of a controller: sends commands in batches, and matches answers to them. It outlives its connections.
//!
//! **Owns** the queue's slots, the batch to be sent next and the connection. **Called by** the controller, which attaches
//! connections, and by the commands of users.
//!
//! Commands that are submitted without a connection are parked and sent on the next one. So are unanswered commands that may
//! be sent twice.
//!
//! **Invariants**: one sender and one receiver task per connection; slots change only in synchronous code, never across an
//! `await`; once the end of a connection was decided, nothing but one termination request is sent on it.

mod receiver;
mod sender;
mod slots;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use io::sync::{Notify, Semaphore};
use io::{JoinHandle, RecvBuf, SendBatch, spawn};

pub(crate) use slots::{Command, Data, Finished, Replay};

use super::error::{Error, Result};
use super::limits::TERM_TIMEOUT;
use super::link::{Link, LinkInfo};
use initiator::slots::{HasSlots, Waiting};
use nvmf::wire::command::{Fuse, Sgl, SglDescriptor};
use nvmf::wire::completion::Cqe;
use nvmf::wire::features::AsyncEvent;
use nvmf::wire::opcode::FABRICS;
use nvmf::wire::opcode::admin::ASYNC_EVENT_REQUEST;
use nvmf::wire::pdu::{DATA_HEADER_LEN, HEADER_LEN_MAX, PduError, PduType, TERM_DATA_MAX, encode};
use slots::{Entry, Slots, new_slots};

/// State of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// No connection: commands are parked.
    Down,
    /// Only the set-up commands of the controller are sent.
    Setup,
    /// Commands are sent at once.
    Live,
    /// The end of the connection was decided, and its tasks are ending. Commands are parked.
    Breaking,
    /// Closed for good: commands fail.
    Dead,
}

/// The connection of a queue and its tasks.
struct Attached {
    link: Rc<Link>,
    receiver: JoinHandle<()>,
    sender: JoinHandle<()>,
}

/// The state of one queue.
pub(crate) struct Shared {
    qid: u16,
    slots: RefCell<Slots>,
    permits: Semaphore,
    /// Reserved places for set-up commands, so that commands that wait for a connection cannot block its set-up.
    reserved: Semaphore,
    fusing: Semaphore,
    depth: u16,
    mode: Cell<Mode>,
    attached: RefCell<Option<Attached>>,
    /// Why the present connection ended.
    cause: RefCell<Option<Error>>,
    /// The batch to be sent next.
    batch: RefCell<SendBatch>,
    /// Number of the batch to be sent next.
    batch_number: Cell<u64>,
    send_wanted: Notify,
    /// The batch ends with a termination request: the sender ends after it.
    terminating: Cell<bool>,
    /// Most in-capsule data of an I/O command, bytes.
    capsule_data: Cell<u32>,
    tick: Cell<u32>,
    completed: Cell<u64>,
    /// Asynchronous events, in the order in which they were reported.
    events: RefCell<VecDeque<AsyncEvent>>,
    /// Notified when the connection breaks.
    broken: Rc<Notify>,
}

/// A queue. Clones share its state.
#[derive(Clone)]
pub(crate) struct Queue(Rc<Shared>);

impl Queue {
    /// Creates a queue without a connection. It has places for `depth` outstanding commands, and `reserved` more for set-up
    /// commands.
    pub(crate) fn new(qid: u16, depth: u16, reserved: u16, broken: Rc<Notify>) -> Self {
        Self(Rc::new(Shared {
            qid,
            slots: RefCell::new(new_slots(depth + reserved)),
            permits: Semaphore::new(usize::from(depth)),
            reserved: Semaphore::new(usize::from(reserved)),
            fusing: Semaphore::new(1),
            depth,
            mode: Cell::new(Mode::Down),
            attached: RefCell::new(None),
            cause: RefCell::new(None),
            batch: RefCell::new(SendBatch::new()),
            batch_number: Cell::new(0),
            send_wanted: Notify::new(),
            terminating: Cell::new(false),
            capsule_data: Cell::new(0),
            tick: Cell::new(0),
            completed: Cell::new(0),
            events: RefCell::default(),
            broken,
        }))
    }

    /// The queue's identifier.
    pub(crate) fn qid(&self) -> u16 {
        self.0.qid
    }

    /// Number of commands that may be outstanding.
    pub(crate) fn depth(&self) -> u16 {
        self.0.depth
    }

    /// Commands answered since the queue was created, without set-up and keep-alive commands.
    pub(crate) fn completed(&self) -> u64 {
        self.0.completed.get()
    }

    /// Commands sent and not answered.
    pub(crate) fn outstanding(&self) -> usize {
        self.0.slots.borrow().outstanding()
    }

    /// Takes the oldest asynchronous event; `None` if there is none.
    pub(crate) fn take_event(&self) -> Option<AsyncEvent> {
        self.0.events.borrow_mut().pop_front()
    }

    /// Sets the most in-capsule data of an I/O command, bytes.
    pub(crate) fn set_capsule_data(&self, bytes: u32) {
        self.0.capsule_data.set(bytes);
    }

    /// The parameters that the present connection negotiated.
    pub(crate) fn link_info(&self) -> Option<LinkInfo> {
        self.0.attached.borrow().as_ref().map(|a| a.link.info())
    }

    /// Attaches a connection. Only set-up commands are sent on it until [`Queue::go_live`].
    pub(crate) fn attach(&self, link: Link, staging: RecvBuf) {
        let q = &self.0;
        assert!(q.mode.get() == Mode::Down, "a queue has one connection");
        q.batch.borrow_mut().clear();
        q.cause.replace(None);
        q.terminating.set(false);
        q.mode.set(Mode::Setup);
        let link = Rc::new(link);
        let receiver = spawn(receiver::run(q.clone(), link.clone(), staging));
        let sender = spawn(sender::run(q.clone(), link.clone()));
        q.attached.replace(Some(Attached {
            link,
            receiver,
            sender,
        }));
    }

    /// Sends parked commands. New commands are sent at once from here on.
    pub(crate) fn go_live(&self) {
        let q = &self.0;
        if q.mode.get() != Mode::Setup {
            return;
        }
        q.mode.set(Mode::Live);
        let parked = q.slots.borrow().parked();
        for index in parked {
            q.transmit(index);
        }
    }

    /// Ends the connection, if there is one, and waits for its tasks. With `keep`, commands that may be sent on another
    /// connection are parked; the others fail.
    pub(crate) async fn down(&self, keep: bool) {
        let q = &self.0;
        if q.mode.get() != Mode::Dead {
            q.mode.set(Mode::Breaking);
        }
        let attached = q.attached.take();
        if let Some(Attached {
            link,
            mut receiver,
            mut sender,
        }) = attached
        {
            if q.terminating.get() {
                // TCP 3.5: the controller closes the connection after a termination request. Waiting for this lets it read
                // the request, which a reset could discard.
                let ended = async {
                    (&mut sender).await;
                    (&mut receiver).await;
                    link.ended().await;
                };
                let _ = io::timeout(TERM_TIMEOUT, ended).await;
            }
            link.stream.shutdown();
            q.send_wanted.notify();
            receiver.await;
            sender.await;
        }
        let cause = q.cause.take().unwrap_or(Error::Disconnected);
        let wake = q
            .slots
            .borrow_mut()
            .disconnect(keep, |_| Err(cause.clone()));
        wake.into_iter().for_each(|w| w.wake());
        if q.mode.get() == Mode::Breaking {
            q.mode.set(Mode::Down);
        }
    }

    /// Closes the queue for good: every command fails with `error`.
    pub(crate) async fn kill(&self, error: Error) {
        self.0.mode.set(Mode::Dead);
        self.0.cause.replace(Some(error.clone()));
        self.down(false).await;
        self.0.cause.replace(Some(error));
    }

    /// Whether the connection broke and was not taken down yet.
    pub(crate) fn is_breaking(&self) -> bool {
        self.0.mode.get() == Mode::Breaking
    }

    /// Why the connection broke; `None` unless it is breaking.
    pub(crate) fn break_cause(&self) -> Option<Error> {
        if self.is_breaking() {
            self.0.cause.borrow().clone()
        } else {
            None
        }
    }

    /// Ends the connection because of `cause`.
    pub(crate) fn fail(&self, cause: Error) {
        self.0.fail(cause);
    }

    /// Called once per tick, a fraction of the command timeout. Breaks the connection if a command has had no answer for
    /// `ticks` ticks.
    pub(crate) fn tick(&self, ticks: u32) {
        let q = &self.0;
        q.tick.set(q.tick.get().wrapping_add(1));
        let expired = q
            .slots
            .borrow()
            .has_expired(q.tick.get(), ticks, |c| !c.untimed);
        if expired {
            q.fail(Error::Timeout);
        }
    }

    /// Submits a command and waits for its end. Waits for a free place first.
    pub(crate) async fn execute(&self, command: Command) -> Finished {
        let places = if command.replay == Replay::Never {
            &self.0.reserved
        } else {
            &self.0.permits
        };
        let permit = places.acquire(1).await;
        let index = self.0.submit(command, permit);
        Waiting::new(&*self.0, index).await
    }

    /// Submits two fused commands, one right after the other, and waits for both.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the queue holds only one command.
    pub(crate) async fn execute_fused(
        &self,
        first: Command,
        second: Command,
    ) -> Result<(Finished, Finished)> {
        if self.0.depth < 2 {
            return Err(Error::Invalid(
                "a fused pair needs a queue for two commands",
            ));
        }
        // Only one pair at a time takes its two places: two pairs with one place each would wait for ever.
        let gathering = self.0.fusing.acquire(1).await;
        let one = self.0.permits.acquire(1).await;
        let two = self.0.permits.acquire(1).await;
        drop(gathering);
        let first = Command {
            sqe: first.sqe.with_fuse(Fuse::First),
            ..first
        };
        let second = Command {
            sqe: second.sqe.with_fuse(Fuse::Second),
            ..second
        };
        let (a, b) = (self.0.submit(first, one), self.0.submit(second, two));
        let a = Waiting::new(&*self.0, a);
        let b = Waiting::new(&*self.0, b);
        Ok((a.await, b.await))
    }
}

impl Shared {
    fn submit(&self, command: Command, permit: io::sync::Permit) -> u16 {
        let setup = command.replay == Replay::Never;
        let index = self.slots.borrow_mut().insert(command.into(), permit);
        match self.mode.get() {
            Mode::Live => self.transmit(index),
            Mode::Setup if setup => self.transmit(index),
            Mode::Dead => {
                let error = self.cause.borrow().clone().unwrap_or(Error::Closed);
                // The caller does not wait yet.
                let _ = self.slots.borrow_mut().finish(index, Err(error));
            }
            Mode::Down | Mode::Breaking if setup => {
                let _ = self
                    .slots
                    .borrow_mut()
                    .finish(index, Err(Error::Disconnected));
            }
            Mode::Setup | Mode::Down | Mode::Breaking => {}
        }
        index
    }

    /// Puts the capsule of a parked command into the batch.
    fn transmit(&self, index: u16) {
        let attached = self.attached.borrow();
        let Some(Attached { link, .. }) = attached.as_ref() else {
            return;
        };
        let mut slots = self.slots.borrow_mut();
        let Some(cid) = slots.send(index, self.tick.get()) else {
            return;
        };
        let slot = slots.get_mut(index);
        let mut sqe = slot.command.sqe;
        sqe.cid = (cid as u16).into();
        let len = slot.data_len;
        let in_capsule = slot.data.outgoing().is_some() && len <= self.capsule_limit(sqe.opcode);
        let sgl = match (len, in_capsule) {
            (0, _) => Sgl::Transport { length: 0 },
            (length, true) => Sgl::InCapsule { offset: 0, length },
            (length, false) => Sgl::Transport { length },
        };
        sqe.sgl = SglDescriptor::new(sgl);
        let carried = if in_capsule { len } else { 0 };
        let mut header = [0; HEADER_LEN_MAX];
        let n = link.encoder.capsule_cmd(&sqe, carried, &mut header);
        let mut batch = self.batch.borrow_mut();
        batch.put(&header[..n]);
        if carried > 0 {
            slot.moved = len;
            sender::put_data(&mut batch, &slot.data, 0, len, link.encoder.data_digest());
        }
        self.send_wanted.notify();
    }

    /// Whether the end of the connection was decided.
    fn is_ending(&self) -> bool {
        !matches!(self.mode.get(), Mode::Setup | Mode::Live)
    }

    fn capsule_limit(&self, opcode: u8) -> u32 {
        if self.qid == 0 || opcode == FABRICS {
            return super::limits::ADMIN_CAPSULE_DATA;
        }
        self.capsule_data.get()
    }

    fn finish(&self, index: u16, cqe: Cqe) -> std::result::Result<(), PduError> {
        let mut slots = self.slots.borrow_mut();
        if !slots.get(index).is_setup() {
            self.completed.set(self.completed.get() + 1);
        }
        if slots.get(index).command.sqe.opcode == ASYNC_EVENT_REQUEST
            && self.qid == 0
            && cqe.status().is_success()
        {
            // The number of events is bounded by the outstanding requests: the next request is sent after these events were
            // taken.
            self.events
                .borrow_mut()
                .push_back(AsyncEvent::from_dword(cqe.dw0.get()));
        }
        if cqe.status().is_success() && slots.get(index).is_short() {
            return Err(PduError::out_of_range(
                "success without all of the command's data",
            ));
        }
        let waker = slots.finish(index, Ok(cqe));
        drop(slots);
        if let Some(w) = waker {
            w.wake();
        }
        Ok(())
    }

    /// Breaks the connection because of `cause`. The first cause counts.
    fn fail(&self, cause: Error) {
        if self.is_ending() {
            return;
        }
        tracing::info!(queue = self.qid, %cause, "connection ends");
        self.mode.set(Mode::Breaking);
        self.cause.replace(Some(cause));
        if !self.terminating.get()
            && let Some(Attached { link, .. }) = self.attached.borrow().as_ref()
        {
            link.stream.shutdown();
        }
        self.broken.notify();
    }

    /// Breaks the connection because the controller violated the protocol, and sends a termination request (TCP 3.5).
    fn terminate(&self, error: PduError, offender: &[u8]) {
        let mut pdu = [0; DATA_HEADER_LEN + TERM_DATA_MAX];
        let len = encode::term_req(
            PduType::H2cTermReq,
            error.fes,
            error.fei,
            offender,
            &mut pdu,
        );
        let mut batch = self.batch.borrow_mut();
        batch.clear();
        batch.put(&pdu[..len]);
        drop(batch);
        self.terminating.set(true);
        self.send_wanted.notify();
        self.fail(Error::Protocol(error));
    }
}

impl HasSlots for Shared {
    type Command = Entry;
    type Result = Result<Cqe>;

    fn with_slots<T>(&self, f: impl FnOnce(&mut Slots) -> T) -> T {
        f(&mut self.slots.borrow_mut())
    }
}

/// Why the receiver ended.
enum End {
    /// The controller violated the protocol. Has the head of the offending PDU, for the termination request.
    Violation(PduError, Vec<u8>),
    /// Any other error.
    Cause(Error),
}

impl From<PduError> for End {
    fn from(error: PduError) -> Self {
        Self::Violation(error, Vec::new())
    }
}

/// The result of a command for its caller: the completion, or an error for any status but success.
pub(crate) fn checked(result: Result<Cqe>) -> Result<Cqe> {
    let cqe = result?;
    if cqe.status().is_success() {
        Ok(cqe)
    } else {
        Err(Error::Refused(cqe.status()))
    }
}
