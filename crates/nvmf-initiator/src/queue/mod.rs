//! One queue of a controller: sends commands in batches, and matches answers to them. It outlives its connections.
//!
//! **Owns** the operations on a queue, whose state is in [`shared`]. **Called by** the controller, which attaches
//! connections, and by the commands of users.
//!
//! Commands that are submitted without a connection are parked and sent on the next one. So are unanswered commands that may
//! be sent twice.
//!
//! **Invariants**: one sender and one receiver task per connection; slots change only in synchronous code, never across an
//! `await`; once the end of a connection was decided, nothing but one termination request is sent on it.

mod rdma_receiver;
mod receiver;
mod shared;
mod slots;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use io::sync::{Notify, Semaphore};
use io::{RecvBuf, SendBatch, spawn};

pub(crate) use slots::{Command, Data, Finished, Replay, Slots};

use super::config::Config;
use super::error::{Error, Result};
use super::limits::TERM_TIMEOUT;
use super::link::{Link, LinkInfo};
use super::rdma::RdmaLink;
use initiator::outbound;
use initiator::slots::Waiting;
use nvmf::controller::Transport;
use nvmf::wire::command::Fuse;
use nvmf::wire::completion::Cqe;
use nvmf::wire::features::AsyncEvent;
use shared::{AnyLink, Attached, Mode, QueueShared};
use slots::new_slots;

/// A new connection for a queue.
pub(crate) enum Opened {
    /// Over TCP, with the bytes that were received after ICResp.
    Tcp(Link, RecvBuf),
    /// Over RDMA.
    Rdma(RdmaLink),
}

impl Opened {
    /// Connects for queue `qid` of `entries` entries, of the controller `cntlid`.
    pub(crate) async fn connect(config: &Config, queue: (u16, u16), cntlid: u16) -> Result<Opened> {
        match config.transport {
            Transport::Tcp => {
                let opened = Link::open(config.addr, &config.tcp, &config.offer).await;
                opened.map(|(link, staging)| Opened::Tcp(link, staging))
            }
            Transport::Rdma => {
                let opened = RdmaLink::open(config.addr, queue, cntlid).await;
                opened.map(Opened::Rdma)
            }
        }
    }
}

/// A queue. Clones share its state.
#[derive(Clone)]
pub(crate) struct Queue(Rc<QueueShared>);

impl Queue {
    /// Creates a queue without a connection. It has places for `depth` outstanding commands, and `reserved` more for set-up
    /// commands.
    pub(crate) fn new(qid: u16, depth: u16, reserved: u16, broken: Rc<Notify>) -> Self {
        Self(Rc::new(QueueShared {
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
    pub(crate) fn attach(&self, opened: Opened) {
        let q = &self.0;
        assert!(q.mode.get() == Mode::Down, "a queue has one connection");
        q.batch.borrow_mut().clear();
        q.cause.replace(None);
        q.terminating.set(false);
        q.mode.set(Mode::Setup);
        let attached = match opened {
            Opened::Tcp(link, staging) => {
                let link = Rc::new(link);
                let receiver = spawn(receiver::run(q.clone(), link.clone(), staging));
                let (outbox, stream) = (q.clone(), link.clone());
                let sender = spawn(async move { outbound::run(&*outbox, &stream.stream).await });
                Attached {
                    link: AnyLink::Tcp(link),
                    tasks: vec![receiver, sender],
                }
            }
            Opened::Rdma(link) => {
                let link = Rc::new(link);
                let receiver = spawn(rdma_receiver::run(q.clone(), link.clone()));
                Attached {
                    link: AnyLink::Rdma(link),
                    tasks: vec![receiver],
                }
            }
        };
        q.attached.replace(Some(attached));
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
        if let Some(Attached { link, mut tasks }) = attached {
            if q.terminating.get()
                && let AnyLink::Tcp(link) = &link
            {
                // TCP 3.5: the controller closes the connection after a termination request. Waiting for this lets it read
                // the request, which a reset could discard.
                let ended = async {
                    for task in tasks.iter_mut().rev() {
                        task.await;
                    }
                    link.ended().await;
                };
                let _ = io::timeout(TERM_TIMEOUT, ended).await;
            }
            link.shutdown();
            q.send_wanted.notify();
            for task in tasks {
                task.await;
            }
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

/// The result of a command for its caller: the completion, or an error for any status but success.
pub(crate) fn checked(result: Result<Cqe>) -> Result<Cqe> {
    let cqe = result?;
    if cqe.status().is_success() {
        Ok(cqe)
    } else {
        Err(Error::Refused(cqe.status()))
    }
}
