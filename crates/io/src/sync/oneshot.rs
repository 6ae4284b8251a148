//! Oneshot: one value from a task of any thread to one waiting task.

use super::lock::lock;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

#[derive(Debug)]
struct Promise<T> {
    value: Option<T>,
    waker: Option<Waker>,
    closed: bool,
}

/// Creates the sender and the receiver of one value.
#[must_use]
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let state = Arc::new(Mutex::new(Promise {
        value: None,
        waker: None,
        closed: false,
    }));
    (Sender(state.clone()), Receiver(state))
}

/// Sends the value. If it is dropped without a value, the receiver gets `None`.
#[derive(Debug)]
pub struct Sender<T>(Arc<Mutex<Promise<T>>>);

impl<T> Sender<T> {
    /// Sends the value.
    pub fn send(self, value: T) {
        lock(&self.0).value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
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

/// Future of the value; `None` if the sender was dropped without one.
pub struct Receiver<T>(Arc<Mutex<Promise<T>>>);

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let mut s = lock(&self.0);
        if s.closed {
            return Poll::Ready(s.value.take());
        }
        s.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
