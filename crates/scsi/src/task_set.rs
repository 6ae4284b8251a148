//! The task set of a logical unit: order of commands by task attribute (SAM-5 8.6).
//!
//! **Owns** the order of tasks that are not all SIMPLE. **Called by** [`crate::Device::accept`], and by transports
//! through [`crate::Task::poll_turn`]. **Invariants**: an ORDERED task begins when every older one has ended; no task
//! begins before every older ORDERED and HEAD OF QUEUE task has ended, except a HEAD OF QUEUE task, which begins at
//! once. While all tasks are SIMPLE no lock is taken.

use io::sync::lock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// Task attributes (SAM-5 8.9). Simple tasks run concurrently; for the others see [`crate::Task::poll_turn`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)]
pub enum TaskAttribute {
    #[default]
    Simple,
    Ordered,
    HeadOfQueue,
    Aca,
}

/// Tasks of one logical unit.
#[derive(Default)]
pub(crate) struct TaskSet {
    /// SIMPLE tasks that came while the queue was empty. They are older than every other task in the queue that is
    /// not SIMPLE.
    free: AtomicUsize,
    /// Tasks in the queue that are not SIMPLE.
    strict: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// In the order of their arrival.
    tasks: Vec<Queued>,
    next: u64,
}

struct Queued {
    number: u64,
    attribute: TaskAttribute,
    waker: Option<Waker>,
}

impl TaskSet {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        lock(&self.queue)
    }

    /// A SIMPLE task outside of the queue has ended.
    pub(crate) fn leave_free(&self) {
        // Either this sees a strict task, or that task sees that no free task remains.
        if self.free.fetch_sub(1, Ordering::SeqCst) == 1 && self.strict.load(Ordering::SeqCst) > 0 {
            self.queue().wake();
        }
    }

    /// Adds a task. Returns its number in the queue; `None` for a SIMPLE task that needs no place in it.
    pub(crate) fn join(&self, attribute: TaskAttribute) -> Option<u64> {
        if attribute == TaskAttribute::Simple {
            self.free.fetch_add(1, Ordering::SeqCst);
            if self.strict.load(Ordering::SeqCst) == 0 {
                return None;
            }
            self.leave_free();
        }
        let mut queue = self.queue();
        let number = queue.next;
        queue.next += 1;
        queue.tasks.push(Queued {
            number,
            attribute,
            waker: None,
        });
        if attribute != TaskAttribute::Simple {
            self.strict.fetch_add(1, Ordering::SeqCst);
        }
        Some(number)
    }

    /// The task with this number has ended.
    pub(crate) fn leave(&self, number: u64) {
        let mut queue = self.queue();
        if let Some(i) = queue.tasks.iter().position(|t| t.number == number) {
            let gone = queue.tasks.remove(i);
            if gone.attribute != TaskAttribute::Simple {
                self.strict.fetch_sub(1, Ordering::SeqCst);
            }
            queue.wake();
        }
    }

    /// Whether the task with this number may begin.
    pub(crate) fn poll(&self, number: u64, cx: &mut Context<'_>) -> Poll<()> {
        let mut queue = self.queue();
        let Some(i) = queue.tasks.iter().position(|t| t.number == number) else {
            return Poll::Ready(());
        };
        queue.tasks[i].waker = Some(cx.waker().clone());
        let older = &queue.tasks[..i];
        let may_begin = match queue.tasks[i].attribute {
            TaskAttribute::HeadOfQueue => true,
            TaskAttribute::Ordered => older.is_empty() && self.free.load(Ordering::SeqCst) == 0,
            TaskAttribute::Simple | TaskAttribute::Aca => {
                older.iter().all(|t| t.attribute == TaskAttribute::Simple)
            }
        };
        if !may_begin {
            return Poll::Pending;
        }
        queue.tasks[i].waker = None;
        Poll::Ready(())
    }
}

impl Queue {
    fn wake(&mut self) {
        for waker in self.tasks.iter_mut().filter_map(|t| t.waker.take()) {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TaskAttribute::{HeadOfQueue, Ordered, Simple};

    fn may_begin(set: &TaskSet, number: Option<u64>) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        number.is_none_or(|n| set.poll(n, &mut cx).is_ready())
    }

    #[test]
    fn an_ordered_task_parts_those_before_it_from_those_behind() {
        let set = TaskSet::default();
        assert_eq!((set.join(Simple), set.join(Simple)), (None, None));
        let ordered = set.join(Ordered);
        let behind = set.join(Simple);
        let last = set.join(Ordered);
        set.leave_free();
        assert!(!may_begin(&set, ordered) && !may_begin(&set, behind));
        set.leave_free();
        assert!(may_begin(&set, ordered) && !may_begin(&set, behind));
        set.leave(ordered.expect("queued"));
        assert!(may_begin(&set, behind) && !may_begin(&set, last));
        set.leave(behind.expect("queued"));
        assert!(may_begin(&set, last));
        set.leave(last.expect("queued"));
        assert_eq!(set.join(Simple), None, "as before");
    }

    #[test]
    fn a_task_at_the_head_begins_at_once_and_others_behind_it_wait() {
        let set = TaskSet::default();
        assert_eq!(set.join(Simple), None);
        let ordered = set.join(Ordered);
        let head = set.join(HeadOfQueue);
        let behind = set.join(Simple);
        assert!(may_begin(&set, head) && !may_begin(&set, ordered) && !may_begin(&set, behind));
        // a task that is aborted while it waits
        set.leave(ordered.expect("queued"));
        assert!(!may_begin(&set, behind));
        set.leave(head.expect("queued"));
        assert!(may_begin(&set, behind));
    }
}
