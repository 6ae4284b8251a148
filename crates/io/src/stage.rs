//! Stages: the parts of a request's time, from its arrival to the end of its reply.
//!
//! **Owns** the stages' names ([`Stage`]), the time that one request spent in each ([`Spent`]), and the trail of the request whose
//! future is polled now. **Called by** connections, which begin a [`Trail`] with each request, and by every place where a request
//! waits ([`wait`], [`enter_at`]). **Invariants**: a request is in one stage at each moment, so that the times of all stages add up
//! to its latency; outside of a request, a mark costs a look at a thread-local variable and does nothing; tasks that a request
//! starts are not part of it, because the request waits for them in a stage of its own.

use crate::clock::Instant;
use crate::time::now;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;

/// A part of a request's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Data of the request is on its way from the client.
    Receive,
    /// Changes that came earlier and overlap this one, or change the same directory, come first.
    Queue,
    /// It waits for memory: buffers of the shard, or room for unwritten data in the pool.
    Memory,
    /// The processor works on the connection's requests: parses, checks, copies, compresses, computes checksums.
    Compute,
    /// The journal has not taken its change into a batch.
    Journal,
    /// Devices read or write.
    Device,
    /// Devices make written data stable.
    Flush,
    /// The reply waits for the socket.
    Send,
}

impl Stage {
    /// All stages, in the order of a request's way.
    pub const ALL: [Stage; 8] = [
        Stage::Receive,
        Stage::Queue,
        Stage::Memory,
        Stage::Compute,
        Stage::Journal,
        Stage::Device,
        Stage::Flush,
        Stage::Send,
    ];
}

/// Time by stage, ns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent([u64; Stage::ALL.len()]);

impl Spent {
    /// All time in one stage, ns.
    #[must_use]
    pub fn only(stage: Stage, ns: u64) -> Spent {
        let mut spent = Spent::default();
        spent.add(stage, ns);
        spent
    }

    /// Time in one stage, ns.
    #[must_use]
    pub fn of(&self, stage: Stage) -> u64 {
        self.0[stage as usize]
    }

    /// Time in all stages, ns.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    fn add(&mut self, stage: Stage, ns: u64) {
        self.0[stage as usize] += ns;
    }
}

/// The time of one request so far, by stage.
#[derive(Debug, Clone, Copy)]
pub struct Trail {
    began: Instant,
    /// When its present stage began.
    since: Instant,
    stage: Stage,
    /// Waits that have begun and not ended.
    waits: u32,
    spent: Spent,
}

impl Trail {
    /// A request that arrived at `now`.
    #[must_use]
    pub fn begin(now: Instant) -> Trail {
        Trail {
            began: now,
            since: now,
            stage: Stage::Compute,
            waits: 0,
            spent: Spent::default(),
        }
    }

    /// When the request arrived.
    #[must_use]
    pub fn began(&self) -> Instant {
        self.began
    }

    /// Whether the request has been in no other stage than its first.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.since == self.began
    }

    /// The request enters a stage at `at`; a time before the present stage began counts as that beginning.
    pub fn enter(&mut self, stage: Stage, at: Instant) {
        let at = at.max(self.since);
        self.spent.add(self.stage, at.0 - self.since.0);
        (self.stage, self.since) = (stage, at);
    }

    /// The request ends at `at`. Returns the time in each stage.
    #[must_use]
    pub fn end(mut self, at: Instant) -> Spent {
        self.enter(self.stage, at);
        self.spent
    }

    /// Runs `future` as a part of this request. Returns its result, and the trail after it.
    pub async fn follow<F: Future>(mut self, future: F) -> (F::Output, Trail) {
        let mut future = pin!(future);
        let value = poll_fn(|cx| {
            let outer = CURRENT.replace(Some(self));
            let polled = future.as_mut().poll(cx);
            self = CURRENT.replace(outer).unwrap_or(self);
            polled
        })
        .await;
        if self.stage != Stage::Compute {
            self.enter(Stage::Compute, now());
        }
        (value, self)
    }
}

thread_local! {
    /// The request whose future is polled now.
    static CURRENT: RefCell<Option<Trail>> = const { RefCell::new(None) };
}

/// Acts on the trail of the request whose future is polled now, if there is one.
fn on_current(act: impl FnOnce(&mut Trail)) {
    CURRENT.with_borrow_mut(|trail| trail.as_mut().map(act));
}

/// The request whose future is polled now entered `stage` at `at`, which may be past.
pub fn enter_at(stage: Stage, at: Instant) {
    on_current(|trail| trail.enter(stage, at));
}

/// The request whose future is polled now waits in `stage` until the result is dropped. Of several waits at a time, the one that
/// began last names the stage, until all have ended.
#[must_use]
pub fn wait(stage: Stage) -> Wait {
    on_current(|trail| {
        trail.enter(stage, now());
        trail.waits += 1;
    });
    Wait(())
}

/// A wait of a request. See [`wait`].
#[derive(Debug)]
pub struct Wait(());

impl Drop for Wait {
    fn drop(&mut self) {
        on_current(|trail| {
            trail.waits = trail.waits.saturating_sub(1);
            if trail.waits == 0 {
                trail.enter(Stage::Compute, now());
            }
        });
    }
}
