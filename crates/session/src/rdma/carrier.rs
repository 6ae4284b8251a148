//! The queue pair as the session's carrier.
//!
//! **Owns** the queue pair, and the probe of a silent host. **Called by** the turns, the receiver and the sender. **Invariants**: a probe is
//! posted only if nothing has arrived for the time that was asked for, and one at a time.
//!
//! A queue pair that only receives never finds out that its peer has vanished. A WRITE of no bytes needs no key (IBA C9-88) and no receive,
//! and the host's device answers it by itself. Without an answer it fails when its retries are exceeded, and the queue pair with it.

use crate::carrier::{Carrier, CarrierInfo};
use io::Payload;
use io::rdma::{QueuePair, Remote, Verb, WorkRequest};
use io::time::{Instant, Sleep};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

/// Tag of a probe.
const TAG_PROBE: u64 = 4 << 32;

/// A queue pair with its probe.
pub struct RdmaCarrier {
    queue_pair: QueuePair,
    /// Silence after which the host is probed; none before it was asked for.
    probe_after: Cell<Option<Duration>>,
    /// When something arrived from the host last.
    heard_at: Cell<Instant>,
    /// Set while a probe is due later.
    timer: RefCell<Option<Pin<Box<Sleep>>>>,
    is_probing: Cell<bool>,
}

impl RdmaCarrier {
    /// The carrier of a connection that was just accepted.
    #[must_use]
    pub fn new(queue_pair: QueuePair) -> RdmaCarrier {
        RdmaCarrier {
            queue_pair,
            probe_after: Cell::new(None),
            heard_at: Cell::new(io::time::now()),
            timer: RefCell::new(None),
            is_probing: Cell::new(false),
        }
    }

    /// The queue pair.
    #[must_use]
    pub fn queue_pair(&self) -> &QueuePair {
        &self.queue_pair
    }

    /// Disconnects.
    pub fn disconnect(&self) {
        self.queue_pair.disconnect();
    }

    /// Something arrived from the host's device.
    pub(super) fn heard(&self, now: Instant) {
        self.heard_at.set(now);
    }

    /// Whether the request with this tag was a probe; it has ended.
    pub(super) fn probe_ended(&self, tag: u64) -> bool {
        let is_probe = tag == TAG_PROBE;
        if is_probe {
            self.is_probing.set(false);
        }
        is_probe
    }

    /// Posts a probe if one is due, and has `cx` woken when the next one is.
    pub(super) fn probe_if_due(&self, cx: &mut Context<'_>) {
        let Some(after) = self.probe_after.get().filter(|_| !self.is_probing.get()) else {
            return;
        };
        let mut timer = self.timer.borrow_mut();
        loop {
            let due = self.heard_at.get() + after;
            let sleep = timer.get_or_insert_with(|| Box::pin(io::time::sleep_until(due)));
            if sleep.as_mut().poll(cx).is_pending() {
                return;
            }
            *timer = None;
            if due <= io::time::now() {
                break;
            }
        }
        self.is_probing.set(true);
        let nothing = Verb::Write {
            data: Payload::zeroes(0),
            to: Remote::NOWHERE,
        };
        self.queue_pair.post(&mut vec![WorkRequest {
            tag: Some(TAG_PROBE),
            work: nothing,
        }]);
    }
}

impl Carrier for RdmaCarrier {
    fn peer_addr(&self) -> SocketAddr {
        self.queue_pair.peer_addr()
    }

    fn local_addr(&self) -> SocketAddr {
        self.queue_pair.local_addr()
    }

    fn info(&self) -> io::Result<CarrierInfo> {
        Ok(CarrierInfo::Rdma(self.queue_pair.info()))
    }

    /// The device's retries, some seconds, find a peer that does not answer; a peer without receives is found by the deadline of sends.
    fn limit_unacknowledged(&self, _: Duration) {}

    fn probe_silent(&self, after: Duration) {
        self.probe_after.set(Some(after));
    }
}
