//! Replies that are ready at once or later.

use crate::Result;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future of `Result<T>` that needs no allocation if the result is known at once (RAM, caches). Local to its shard.
pub enum Reply<T> {
    /// The result; `None` once it was taken.
    Ready(Option<Result<T>>),
    /// A future of the result.
    Later(Pin<Box<dyn Future<Output = Result<T>>>>),
}

impl<T> Reply<T> {
    /// A reply with a result.
    #[must_use]
    pub fn now(result: Result<T>) -> Reply<T> {
        Reply::Ready(Some(result))
    }

    /// A reply with a future.
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
