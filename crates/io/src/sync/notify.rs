//! Notify: a wake-up for one waiting task of the same shard.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Remembers one notification, so that one sent before the wait is not lost. One task may wait at a time.
#[derive(Default)]
pub struct Notify {
    set: Cell<bool>,
    waiter: RefCell<Option<Waker>>,
}

impl Notify {
    /// Creates a `Notify` without a notification.
    #[must_use]
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the waiting task, or the next task that waits.
    pub fn notify(&self) {
        self.set.set(true);
        if let Some(w) = self.waiter.borrow_mut().take() {
            w.wake();
        }
    }

    /// Waits for a notification and consumes it.
    pub async fn notified(&self) {
        poll_fn(|cx| {
            if self.set.take() {
                return Poll::Ready(());
            }
            *self.waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
