//! An answer that is there at once or comes later.

use crate::Result;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future of `Result<T>` that costs no allocation when the answer is known at once (RAM, caches). Local to the
/// shard it was made on.
pub enum Reply<T> {
    /// Known now; `None` once taken.
    Ready(Option<Result<T>>),
    /// Comes later.
    Later(Pin<Box<dyn Future<Output = Result<T>>>>),
}

impl<T> Reply<T> {
    /// Known now.
    #[must_use]
    pub fn now(result: Result<T>) -> Reply<T> {
        Reply::Ready(Some(result))
    }

    /// Comes later.
    #[must_use]
    pub fn later(future: impl Future<Output = Result<T>> + 'static) -> Reply<T> {
        Reply::Later(Box::pin(future))
    }
}

impl<T: Unpin> Future for Reply<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        match &mut *self {
            Reply::Ready(r) => Poll::Ready(r.take().expect("a reply is taken once")),
            Reply::Later(f) => f.as_mut().poll(cx),
        }
    }
}
