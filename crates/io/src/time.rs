//! Clock and timers, from the driver: real or virtual.
//!
//! **Owns** [`sleep`], [`timeout`] and the present time. **Invariants**: a timer never fires early; a dropped sleep costs
//! nothing after its deadline.

pub use crate::clock::Instant;

use crate::runtime::{Shared, current, try_current};
use crate::{Error, Result};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

impl Instant {
    /// Time from `self` until now.
    #[must_use]
    pub fn elapsed(self) -> Duration {
        now().since(self)
    }
}

/// The present time. Outside of a runtime, on the clock that all Linux runtimes share.
#[must_use]
pub fn now() -> Instant {
    try_current().map_or_else(crate::linux::monotonic, |rt| rt.now())
}

/// Milliseconds since 1970-01-01 UTC. Outside of a runtime, on the clock that all Linux runtimes share.
#[must_use]
pub fn wall_clock_ms() -> u64 {
    try_current().map_or_else(crate::linux::wall_clock_ms, |rt| {
        rt.driver.borrow().wall_clock_ms()
    })
}

/// Sleeps for `d`.
pub fn sleep(d: Duration) -> Sleep {
    let rt = current();
    let at = rt.now() + d;
    Sleep { rt, at, id: None }
}

/// Sleeps until `at`.
pub fn sleep_until(at: Instant) -> Sleep {
    Sleep {
        rt: current(),
        at,
        id: None,
    }
}

/// See [`sleep`].
pub struct Sleep {
    rt: Rc<Shared>,
    at: Instant,
    id: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let fired = match self.id {
            Some(id) => !self.rt.timers.borrow().contains(id),
            None => self.rt.now() >= self.at,
        };
        if fired {
            self.id = None;
            return Poll::Ready(());
        }
        let id = self
            .rt
            .timers
            .borrow_mut()
            .set(self.id, self.at, cx.waker());
        self.id = Some(id);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.rt.timers.borrow_mut().cancel(id);
        }
    }
}

/// Waits for `future` for at most `limit`. Error: `TimedOut`; `future` is dropped then.
pub async fn timeout<F: Future>(limit: Duration, future: F) -> Result<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut sleep = std::pin::pin!(sleep(limit));
    std::future::poll_fn(move |cx: &mut Context<'_>| {
        if let Poll::Ready(v) = future.as_mut().poll(cx) {
            return Poll::Ready(Ok(v));
        }
        Pin::as_mut(&mut sleep)
            .poll(cx)
            .map(|()| Err(Error::TimedOut))
    })
    .await
}
