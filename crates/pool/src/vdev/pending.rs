//! Outstanding operations of a disk.
//!
//! **Owns** the start time of each, and its waiter. **Called by** leaves, on any shard. **Invariants**: waiters are released
//! when the disk is given up, and never before; the lock is held for moments.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use io::time::{Instant, now};

#[derive(Default)]
struct Slots {
    slots: Vec<Option<(Instant, Option<Waker>)>>,
    free: Vec<usize>,
}

/// The outstanding operations of a disk.
#[derive(Default)]
pub(super) struct PendingOps {
    slots: Mutex<Slots>,
    given_up: AtomicBool,
}

/// One operation.
struct Slot<'a> {
    pending: &'a PendingOps,
    index: usize,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut slots = self.pending.lock();
        slots.slots[self.index] = None;
        slots.free.push(self.index);
    }
}

impl PendingOps {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self) -> Slot<'_> {
        let mut slots = self.lock();
        let entry = Some((now(), None));
        let index = match slots.free.pop() {
            Some(index) => {
                slots.slots[index] = entry;
                index
            }
            None => {
                slots.slots.push(entry);
                slots.slots.len() - 1
            }
        };
        Slot {
            pending: self,
            index,
        }
    }

    /// Waits for an operation; returns `None` if the disk is given up first.
    pub(super) async fn bound<T>(&self, operation: impl Future<Output = T>) -> Option<T> {
        if self.is_given_up() {
            return None;
        }
        let slot = self.enter();
        let mut operation = pin!(operation);
        poll_fn(|cx| {
            if let Poll::Ready(output) = operation.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            let mut slots = self.lock();
            if self.is_given_up() {
                return Poll::Ready(None);
            }
            if let Some((_, waker)) = &mut slots.slots[slot.index] {
                *waker = Some(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Age of the oldest operation.
    pub(super) fn oldest(&self) -> Duration {
        let slots = self.lock();
        let began = slots.slots.iter().flatten().map(|(began, _)| *began).min();
        began.map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Gives the disk up: releases all waiters.
    pub(super) fn give_up(&self) {
        let wakers: Vec<_> = {
            let mut slots = self.lock();
            self.given_up.store(true, Ordering::SeqCst);
            let waiting = slots.slots.iter_mut().flatten();
            waiting.filter_map(|(_, waker)| waker.take()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::SeqCst)
    }
}
