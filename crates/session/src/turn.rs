//! Turns of a connection. One turn: handle signals, receive and dispatch everything that arrived, start deferred commands,
//! send the output batch with one system call, check deadlines.
//!
//! **Owns** the order of these steps. **Called by** a protocol's `serve`, once per connection ([`run`]). **Invariants**: one
//! task polls receiver, sender and timer, so that a turn is one wake-up; the connection's state is borrowed only between
//! awaits; each turn polls the sender, so that an empty output needs no waker.

use crate::link::Link;
use crate::signal::{CloseReason, Ended};
use io::SendBatch;
use io::net::TcpStream;
use io::time::{Instant, Sleep};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// A protocol's part of a turn.
pub trait Turns {
    /// The protocol's reasons for closing a connection.
    type Reason: CloseReason;

    /// The connection's link.
    fn link(&mut self) -> &mut Link<Self::Reason>;

    /// Decides the end of the connection. The first reason stays.
    fn end(&mut self, why: Self::Reason);

    /// Handles the signal flags that were raised since the last turn.
    fn signalled(&mut self, flags: u32, stream: &TcpStream);

    /// Called when everything that arrived has been dispatched.
    fn dispatched(&mut self) {}

    /// Starts commands that wait for buffers, in order, as far as there are buffers.
    fn run_deferred(&mut self);

    /// Whether a send that ended has made it possible to start deferred commands in this turn.
    fn can_resume(&self) -> bool;

    /// Whether the receiver must pause because too much output waits to be sent.
    fn is_congested(&self) -> bool;

    /// Publishes the counts of this turn.
    fn publish(&mut self, stream: &TcpStream);

    /// The reason for which the connection has ended; `None` while it goes on.
    fn over(&mut self) -> Option<Self::Reason>;

    /// The time at which [`Turns::check_deadlines`] must be called next.
    fn next_deadline(&self) -> Option<Instant>;

    /// Acts on deadlines that have passed.
    fn check_deadlines(&mut self);
}

/// Wraps a future so that it is not polled again after it has completed.
struct Fused<'a, F>(Option<Pin<&'a mut F>>);

impl<F: Future> Fused<'_, F> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        let Some(future) = &mut self.0 else {
            return Poll::Pending;
        };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

/// Runs turns until the connection ends, and returns the reason. `receive` receives and dispatches.
pub async fn run<C: Turns>(
    core: &RefCell<C>,
    stream: &TcpStream,
    receive: impl Future<Output = C::Reason>,
) -> C::Reason {
    let mut rx = pin!(receive);
    let mut tx = pin!(transmit(core, stream));
    let (mut rx, mut tx) = (Fused(Some(rx.as_mut())), Fused(Some(tx.as_mut())));
    let mut timer = None;
    poll_fn(|cx| take_turn(core, stream, &mut rx, &mut tx, &mut timer, cx)).await
}

fn take_turn<C: Turns>(
    core: &RefCell<C>,
    stream: &TcpStream,
    rx: &mut Fused<'_, impl Future<Output = C::Reason>>,
    tx: &mut Fused<'_, impl Future<Output = C::Reason>>,
    timer: &mut Option<(Instant, Sleep)>,
    cx: &mut Context<'_>,
) -> Poll<C::Reason> {
    {
        let mut core = core.borrow_mut();
        let flags = core.link().begin_turn(cx);
        if flags != 0 {
            core.signalled(flags, stream);
        }
    }
    if let Poll::Ready(why) = rx.poll(cx) {
        core.borrow_mut().end(why);
    }
    core.borrow_mut().dispatched();
    loop {
        core.borrow_mut().run_deferred();
        if let Poll::Ready(why) = tx.poll(cx) {
            core.borrow_mut().end(why);
        }
        let mut core = core.borrow_mut();
        if core.link().ending().is_some() || !core.can_resume() {
            break;
        }
    }
    let mut core = core.borrow_mut();
    core.publish(stream);
    loop {
        if let Some(why) = core.over() {
            return Poll::Ready(why);
        }
        let next = core.next_deadline();
        match (&mut *timer, next) {
            (Some((at, sleep)), Some(next)) if *at <= next => match Pin::new(sleep).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(()) => {
                    *timer = None;
                    core.check_deadlines();
                }
            },
            (_, Some(next)) => *timer = Some((next, io::time::sleep_until(next))),
            (_, None) => {
                *timer = None;
                return Poll::Pending;
            }
        }
    }
}

/// Sends output batches until the socket fails, and returns the reason.
async fn transmit<C: Turns>(core: &RefCell<C>, stream: &TcpStream) -> C::Reason {
    let mut spare = SendBatch::new();
    loop {
        let batch = poll_fn(|_| {
            let mut core = core.borrow_mut();
            let link = core.link();
            let now = link.now();
            match link.output.take(&mut spare, now) {
                Some(batch) => Poll::Ready(batch),
                None => Poll::Pending,
            }
        })
        .await;
        let (result, back) = stream.send(batch).await;
        spare = back;
        match result {
            Ok(()) => sent(&mut *core.borrow_mut()),
            Err(io::Error::TimedOut) => return Ended::SendStall.into(),
            Err(_) => return Ended::Network.into(),
        }
    }
}

fn sent<C: Turns>(core: &mut C) {
    let congested = core.is_congested();
    let link = core.link();
    let now = link.now();
    if let Some(bytes) = link.output.sent(&link.account, now) {
        link.tally.sent(bytes);
    }
    if congested {
        // The receiver was polled earlier in this turn: it needs another turn.
        link.waker().wake_by_ref();
    }
}

/// For a receiver: waits until the output is no longer congested (the sender then makes a turn) and `busy` returns false.
pub async fn until_drained<C: Turns>(core: &RefCell<C>, busy: impl Fn(&C) -> bool) {
    poll_fn(|_| {
        let mut core = core.borrow_mut();
        let ending = core.link().ending().is_some();
        match ending || busy(&core) || core.is_congested() {
            true => Poll::Pending,
            false => Poll::Ready(()),
        }
    })
    .await;
}

/// For a receiver: waits for the next turn.
pub async fn next_turn() {
    let mut waited = false;
    poll_fn(|_| match std::mem::replace(&mut waited, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
