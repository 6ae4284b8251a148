//! Replies that are ready at once or later.

use crate::StorageError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future of a result that needs no allocation if the result is known at once (RAM, caches). Local to its shard.
pub enum Reply<T, E = StorageError> {
    /// The result; `None` once it was taken.
    Ready(Option<Result<T, E>>),
    /// A future of the result.
    Later(Pin<Box<dyn Future<Output = Result<T, E>>>>),
}

impl<T, E> Reply<T, E> {
    /// A reply with a result.
    #[must_use]
    pub fn now(result: Result<T, E>) -> Self {
        Reply::Ready(Some(result))
    }

    /// A reply with a future.
    #[must_use]
    pub fn later(future: impl Future<Output = Result<T, E>> + 'static) -> Self {
        Reply::Later(Box::pin(future))
    }
}

impl<T: Unpin, E: Unpin> Future for Reply<T, E> {
    type Output = Result<T, E>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, E>> {
        match &mut *self {
            Reply::Ready(r) => Poll::Ready(r.take().expect("a reply is taken once")),
            Reply::Later(f) => f.as_mut().poll(cx),
        }
    }
}
