//! Lets a compare-and-write run with no other write in between.
//!
//! **Owns** the count of writes in flight on one disk. **Invariants**: shared access (every plain write) costs one
//! atomic step while nobody wants the disk alone; whoever wants it alone waits for the writes in flight, holds new
//! ones back, and cannot be starved by them.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// A gate that many pass together or one alone. Clones are the same gate.
#[derive(Clone, Default)]
pub struct Exclusive(Arc<Gate>);

#[derive(Default)]
struct Gate {
    /// Twice the number of shared holders, plus 1 while somebody is or wants to be alone.
    state: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    alone: bool,
    /// Whoever wants to be alone, in order.
    unique: VecDeque<(u64, Waker)>,
    shared: Vec<Waker>,
    next: u64,
}

const WANTED: usize = 1;
const HOLDER: usize = 2;

impl Gate {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes who may go next, after a holder left.
    fn next(&self) {
        let mut q = self.queue();
        if q.alone {
            return;
        }
        if let Some((_, w)) = q.unique.front() {
            w.wake_by_ref();
            return;
        }
        self.state.fetch_and(!WANTED, Ordering::SeqCst);
        let shared = std::mem::take(&mut q.shared);
        drop(q);
        shared.into_iter().for_each(Waker::wake);
    }
}

impl Exclusive {
    /// Passes at once if nobody is or wants to be alone.
    #[must_use]
    pub fn try_shared(&self) -> Option<SharedAccess> {
        let before = self.0.state.fetch_add(HOLDER, Ordering::SeqCst);
        let access = SharedAccess(self.clone());
        (before & WANTED == 0).then_some(access)
    }

    /// Passes together with other shared holders.
    pub async fn shared(&self) -> SharedAccess {
        poll_fn(|cx| {
            if let Some(a) = self.try_shared() {
                return Poll::Ready(a);
            }
            let mut q = self.0.queue();
            if self.0.state.load(Ordering::SeqCst) & WANTED == 0 {
                cx.waker().wake_by_ref();
            } else {
                q.shared.push(cx.waker().clone());
            }
            Poll::Pending
        })
        .await
    }

    /// Passes alone.
    pub async fn unique(&self) -> UniqueAccess {
        let mut wait = Wait {
            gate: self.0.clone(),
            ticket: None,
        };
        poll_fn(|cx| {
            let mut q = self.0.queue();
            let ticket = *wait.ticket.get_or_insert_with(|| {
                q.next += 1;
                let t = q.next;
                q.unique.push_back((t, cx.waker().clone()));
                t
            });
            self.0.state.fetch_or(WANTED, Ordering::SeqCst);
            let first = q.unique.front().is_some_and(|(t, _)| *t == ticket);
            if first && !q.alone && self.0.state.load(Ordering::SeqCst) == WANTED {
                q.alone = true;
                q.unique.pop_front();
                return Poll::Ready(());
            }
            if let Some((_, w)) = q.unique.iter_mut().find(|(t, _)| *t == ticket) {
                w.clone_from(cx.waker());
            }
            Poll::Pending
        })
        .await;
        wait.ticket = None;
        UniqueAccess(self.0.clone())
    }
}

struct Wait {
    gate: Arc<Gate>,
    ticket: Option<u64>,
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.gate.queue().unique.retain(|(t, _)| *t != ticket);
            self.gate.next();
        }
    }
}

/// Held during a plain write.
pub struct SharedAccess(Exclusive);

impl Drop for SharedAccess {
    fn drop(&mut self) {
        if self.0.0.state.fetch_sub(HOLDER, Ordering::SeqCst) == HOLDER | WANTED {
            self.0.0.next();
        }
    }
}

/// Held during a compare-and-write.
pub struct UniqueAccess(Arc<Gate>);

impl Drop for UniqueAccess {
    fn drop(&mut self) {
        self.0.queue().alone = false;
        self.0.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::Context;

    fn poll<F: Future>(f: Pin<&mut F>) -> Option<F::Output> {
        match f.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(v) => Some(v),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_alone_waits_for_writes_and_holds_new_ones_back() {
        let gate = Exclusive::default();
        let a = gate.try_shared().expect("free");
        let b = gate.try_shared().expect("shared");
        let mut alone = pin!(gate.unique());
        assert!(poll(alone.as_mut()).is_none());
        assert!(gate.try_shared().is_none(), "new writes wait");
        drop(a);
        assert!(poll(alone.as_mut()).is_none());
        drop(b);
        let held = poll(alone.as_mut()).expect("now alone");
        assert!(gate.try_shared().is_none());
        let mut second = pin!(gate.unique());
        assert!(poll(second.as_mut()).is_none());
        drop(held);
        drop(poll(second.as_mut()).expect("next in line"));
        assert!(gate.try_shared().is_some());
    }

    #[test]
    fn one_who_gives_up_lets_the_writes_go_on() {
        let gate = Exclusive::default();
        let a = gate.try_shared().expect("free");
        {
            let mut alone = pin!(gate.unique());
            assert!(poll(alone.as_mut()).is_none());
        }
        assert!(gate.try_shared().is_some());
        drop(a);
        assert!(poll(pin!(gate.unique())).is_some());
    }
}
