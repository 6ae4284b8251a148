//! Turns of a connection: look at signals, receive and dispatch everything that arrived, start deferred work, send everything
//! that became ready with one system call, look at deadlines.
//!
//! **Owns** the order of a turn. **Called by** a protocol's `serve`, once per connection ([`run`]). **Invariants**: one task
//! polls receiver, sender and timer, so that a turn is one wake-up; the connection's state is borrowed only between awaits; the
//! sender is polled in every turn, so that an empty output needs no waker; a deadline that passes within a turn is checked
//! against the present, not against the turn's start, and once a turn, so that no deadline can hold the shard.

use crate::carrier::{Carrier, CarrierInfo};
use crate::link::Link;
use crate::signal::{ABORT, CLOSE, CloseReason, DRAIN, INFO, OWN};
use io::time::{Instant, Sleep};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

/// What a protocol does within a turn.
pub trait Turns {
    /// Why its connections end.
    type Reason: CloseReason;

    /// The connection's link.
    fn link(&mut self) -> &mut Link<Self::Reason>;

    /// Ends the connection; the first reason stays.
    fn end(&mut self, why: Self::Reason) {
        self.link().end(why);
    }

    /// The connection was told to end.
    fn close_requested(&mut self, why: Self::Reason) {
        self.end(why);
    }

    /// Commands of the connection are to be aborted.
    fn abort_requested(&mut self);

    /// The connection is to finish its commands, then to end.
    fn drain_requested(&mut self);

    /// Flags of the protocol's own were raised.
    fn signalled(&mut self, flags: u32, carrier: &impl Carrier);

    /// Everything that arrived was dispatched.
    fn dispatched(&mut self) {}

    /// Starts commands that were deferred because buffers were missing, as far as buffers are there now.
    fn run_deferred(&mut self);

    /// Whether deferred commands can go on in this turn, since a send ended.
    fn can_resume(&self) -> bool;

    /// Whether the receiver takes no more because too much lies unsent.
    fn is_congested(&self) -> bool;

    /// Publishes the counts of this turn. They are set to zero afterwards.
    fn publish(&mut self);

    /// Publishes the transport's own numbers of the connection.
    fn publish_info(&mut self, info: CarrierInfo);

    /// Why the connection is over, if it is.
    fn over(&mut self) -> Option<Self::Reason>;

    /// When [`Turns::check_deadlines`] is due.
    fn next_deadline(&self) -> Option<Instant>;

    /// Acts on deadlines that have passed by the link's time, which is the present. Another turn follows.
    fn check_deadlines(&mut self);
}

/// A future that is not polled again after its end.
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

/// Takes turns until the connection is over. `receive` receives and dispatches, `transmit` sends what becomes ready
/// ([`crate::stream::transmit`] over a byte stream).
pub async fn run<C: Turns>(
    core: &RefCell<C>,
    carrier: &impl Carrier,
    receive: impl Future<Output = C::Reason>,
    transmit: impl Future<Output = C::Reason>,
) -> C::Reason {
    let mut rx = pin!(receive);
    let mut tx = pin!(transmit);
    let (mut rx, mut tx) = (Fused(Some(rx.as_mut())), Fused(Some(tx.as_mut())));
    let mut timer = None;
    poll_fn(|cx| take_turn(core, carrier, &mut rx, &mut tx, &mut timer, cx)).await
}

fn take_turn<C: Turns>(
    core: &RefCell<C>,
    carrier: &impl Carrier,
    rx: &mut Fused<'_, impl Future<Output = C::Reason>>,
    tx: &mut Fused<'_, impl Future<Output = C::Reason>>,
    timer: &mut Option<(Instant, Sleep)>,
    cx: &mut Context<'_>,
) -> Poll<C::Reason> {
    {
        let mut core = core.borrow_mut();
        let flags = core.link().begin_turn(cx);
        if flags != 0 {
            heed(&mut *core, flags, carrier);
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
    publish(&mut *core, carrier);
    if core.over().is_none() && is_deadline_due(core.next_deadline(), timer, cx) {
        // The turn took time: a deadline may lie between its start and now, and must be due for the check.
        core.link().refresh_now();
        core.check_deadlines();
        // What the check made ready leaves in the next turn. A check that leaves its deadline due costs turns then, in
        // which other connections have theirs.
        cx.waker().wake_by_ref();
    }
    match core.over() {
        Some(why) => Poll::Ready(why),
        None => Poll::Pending,
    }
}

/// Whether the deadline `next` has passed. If not, `timer` wakes the task at `next`, or before.
fn is_deadline_due(
    next: Option<Instant>,
    timer: &mut Option<(Instant, Sleep)>,
    cx: &mut Context<'_>,
) -> bool {
    let Some(next) = next else {
        *timer = None;
        return false;
    };
    let (_, sleep) = match timer {
        Some(set) if set.0 <= next => set,
        _ => timer.insert((next, io::time::sleep_until(next))),
    };
    let is_due = Pin::new(sleep).poll(cx).is_ready();
    if is_due {
        *timer = None;
    }
    is_due
}

/// Acts on flags that were raised.
fn heed<C: Turns>(core: &mut C, flags: u32, carrier: &impl Carrier) {
    if flags & CLOSE != 0
        && let Some(why) = core.link().signal().close_reason()
    {
        core.close_requested(why);
    }
    if flags & ABORT != 0 {
        core.abort_requested();
    }
    if flags >= OWN {
        core.signalled(flags, carrier);
    }
    if flags & DRAIN != 0 {
        core.drain_requested();
    }
    if flags & INFO != 0 {
        publish_info(core, carrier);
    }
}

/// Publishes the counts of a turn, and the transport's own numbers if they are old. A turn without counts publishes nothing.
fn publish<C: Turns>(core: &mut C, carrier: &impl Carrier) {
    if !core.link().tally().is_dirty() {
        return;
    }
    core.publish();
    core.link().tally().clear();
    if core.link().is_info_due() {
        publish_info(core, carrier);
    }
}

fn publish_info<C: Turns>(core: &mut C, carrier: &impl Carrier) {
    if let Ok(info) = core.link().read_info(carrier) {
        core.publish_info(info);
    }
}

/// For a receiver: waits until the output has drained, which the sender makes a turn for, and `busy` is over.
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
