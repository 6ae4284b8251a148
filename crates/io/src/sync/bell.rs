//! Bell: a wake-up for one task from any thread.

use super::lock::lock;
use std::future::poll_fn;
use std::sync::Mutex;
use std::task::{Poll, Waker};

#[derive(Default)]
struct Rung {
    rung: bool,
    listener: Option<Waker>,
}

/// Like [`super::Notify`], but `ring` may be called on another shard.
#[derive(Default)]
pub struct Bell(Mutex<Rung>);

impl Bell {
    /// Creates a bell that was not rung.
    #[must_use]
    pub fn new() -> Bell {
        Bell::default()
    }

    /// Wakes the listener, or the next task that listens.
    pub fn ring(&self) {
        let listener = {
            let mut state = lock(&self.0);
            state.rung = true;
            state.listener.take()
        };
        if let Some(waker) = listener {
            waker.wake();
        }
    }

    /// Waits until the bell was rung since the last call. One task may listen.
    pub async fn rung(&self) {
        poll_fn(|cx| {
            let mut state = lock(&self.0);
            if std::mem::take(&mut state.rung) {
                return Poll::Ready(());
            }
            state.listener = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
