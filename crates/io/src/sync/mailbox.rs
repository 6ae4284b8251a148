//! Mailbox: a bounded queue from tasks of any thread to one task.

use super::lock::lock;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

struct Letters<T> {
    queue: VecDeque<T>,
    capacity: usize,
    waker: Option<Waker>,
    senders: usize,
    closed: bool,
}

type SharedLetters<T> = Arc<Mutex<Letters<T>>>;

/// Creates a queue of at most `capacity` values.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Mailbox<T>) {
    let state = Letters {
        queue: VecDeque::new(),
        capacity,
        waker: None,
        senders: 1,
        closed: false,
    };
    let shared = Arc::new(Mutex::new(state));
    (Sender(shared.clone()), Mailbox(shared))
}

/// The sending end. Clones share the queue.
pub struct Sender<T>(SharedLetters<T>);

impl<T> Sender<T> {
    /// Appends a value. Errors: `Cancelled` if the mailbox was dropped, `Exhausted` if the queue is full.
    pub fn send(&self, value: T) -> Result<()> {
        let waker = {
            let mut s = lock(&self.0);
            if s.closed {
                return Err(Error::Cancelled);
            }
            if s.queue.len() >= s.capacity {
                return Err(Error::Exhausted(libc::ENOBUFS));
            }
            s.queue.push_back(value);
            s.waker.take()
        };
        if let Some(w) = waker {
            w.wake();
        }
        Ok(())
    }

    /// Closes the queue: the reader gets its remaining values, then `None`.
    pub fn close(&self) {
        let waker = {
            let mut s = lock(&self.0);
            s.closed = true;
            s.waker.take()
        };
        if let Some(w) = waker {
            w.wake();
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        lock(&self.0).senders += 1;
        Sender(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let last = {
            let mut s = lock(&self.0);
            s.senders -= 1;
            s.senders == 0
        };
        if last {
            self.close();
        }
    }
}

/// The receiving end.
pub struct Mailbox<T>(SharedLetters<T>);

impl<T> Mailbox<T> {
    /// Waits for the next value; `None` once the queue is closed and empty.
    pub async fn recv(&self) -> Option<T> {
        poll_fn(|cx| {
            let mut s = lock(&self.0);
            if let Some(v) = s.queue.pop_front() {
                return Poll::Ready(Some(v));
            }
            if s.closed {
                return Poll::Ready(None);
            }
            s.waker = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Returns the next value if the queue is not empty.
    #[must_use]
    pub fn try_recv(&self) -> Option<T> {
        lock(&self.0).queue.pop_front()
    }
}

impl<T> Drop for Mailbox<T> {
    fn drop(&mut self) {
        let rest = {
            let mut s = lock(&self.0);
            s.closed = true;
            std::mem::take(&mut s.queue)
        };
        drop(rest);
    }
}
