//! Notify: a wake-up for one waiting task of the same shard.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Remembers one notification, so that one sent before the wait is not lost. One task waits at a time.
#[derive(Default)]
pub struct Notify {
    set: Cell<bool>,
    waiter: RefCell<Option<Waker>>,
}

impl Notify {
    /// Nothing was notified yet.
    #[must_use]
    pub fn new() -> Notify {
        Notify::default()
    }

    /// Wakes the waiter, or the next one that comes.
    pub fn notify(&self) {
        self.set.set(true);
        if let Some(w) = self.waiter.borrow_mut().take() {
            w.wake();
        }
    }

    /// Waits for a notification and takes it.
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
