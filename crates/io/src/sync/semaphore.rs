//! Semaphore: a counted limit for the tasks of one shard, served in order of arrival.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A number of permits. Clones share them.
#[derive(Clone)]
pub struct Semaphore(Rc<Inner>);

struct Inner {
    free: Cell<usize>,
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    want: usize,
    granted: Cell<bool>,
    gone: Cell<bool>,
    waker: RefCell<Waker>,
}

impl Semaphore {
    /// Creates a semaphore with `permits` free permits.
    #[must_use]
    pub fn new(permits: usize) -> Semaphore {
        Semaphore(Rc::new(Inner {
            free: Cell::new(permits),
            waiters: RefCell::default(),
        }))
    }

    /// Number of free permits.
    #[must_use]
    pub fn available(&self) -> usize {
        self.0.free.get()
    }

    /// Waits for `n` permits at once. Never returns if the semaphore has fewer in all.
    pub async fn acquire(&self, n: usize) -> Permit {
        if self.0.waiters.borrow().is_empty() && self.0.free.get() >= n {
            self.0.free.set(self.0.free.get() - n);
            return Permit {
                of: self.0.clone(),
                n,
            };
        }
        let waiter = Rc::new(Waiter {
            want: n,
            granted: Cell::new(false),
            gone: Cell::new(false),
            waker: RefCell::new(Waker::noop().clone()),
        });
        self.0.waiters.borrow_mut().push_back(waiter.clone());
        let guard = Waiting {
            of: self.0.clone(),
            waiter,
        };
        poll_fn(|cx| {
            if guard.waiter.granted.get() {
                return Poll::Ready(());
            }
            guard.waiter.waker.borrow_mut().clone_from(cx.waker());
            Poll::Pending
        })
        .await;
        guard.waiter.granted.set(false);
        Permit {
            of: self.0.clone(),
            n,
        }
    }
}

impl Inner {
    fn release(&self, n: usize) {
        self.free.set(self.free.get() + n);
        loop {
            let first = self.waiters.borrow().front().cloned();
            let Some(w) = first else { return };
            if !w.gone.get() {
                if self.free.get() < w.want {
                    return;
                }
                self.free.set(self.free.get() - w.want);
                w.granted.set(true);
                w.waker.borrow().wake_by_ref();
            }
            self.waiters.borrow_mut().pop_front();
        }
    }
}

struct Waiting {
    of: Rc<Inner>,
    waiter: Rc<Waiter>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.waiter.gone.set(true);
        let back = if self.waiter.granted.take() {
            self.waiter.want
        } else {
            0
        };
        self.of.release(back);
    }
}

/// Acquired permits; dropping this gives them back.
pub struct Permit {
    of: Rc<Inner>,
    n: usize,
}

impl Permit {
    /// Number of permits.
    #[must_use]
    pub fn count(&self) -> usize {
        self.n
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.release(self.n);
    }
}
