//! Range lock: overlapping changes of one disk run in the order of their requests.
//!
//! **Owns** the order of changes on one disk. **Called by** backends whose changes take time. **Invariants**: of two
//! requests with overlapping ranges, the earlier one ends first, however long its medium takes; requests that do not
//! overlap never wait for each other; no request overtakes one that it overlaps. Taking and releasing a turn costs
//! the logarithm of the number of turns, also while many wait for a stalled medium.
//!
//! The lock prevents a write that survived its connection from undoing a newer one (NVMe hosts give up after 30 s,
//! reconnect and repeat; a disk may take longer). It also makes a compare-and-write atomic.

use io::stage::{self, Stage};
use io::sync::lock;
use slab::Slab;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Poll, Waker};

/// The ranges of one disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct RangeLock(Arc<Mutex<Order>>);

#[derive(Default)]
struct Order {
    /// Disjoint ranges by their start: the end of each, and its latest request. The next overlapping request waits
    /// only for that one, which waits for the earlier ones.
    latest: BTreeMap<u64, (u64, usize)>,
    requests: Slab<Request>,
}

struct Request {
    range: Range<u64>,
    /// Number of earlier requests that must end first.
    blockers: usize,
    /// Requests that wait for this one.
    dependents: Vec<usize>,
    waker: Option<Waker>,
    /// Its future was dropped; it ends when its turn has come.
    abandoned: bool,
}

impl Order {
    fn enter(&mut self, range: Range<u64>) -> usize {
        let key = self.requests.insert(Request {
            range: range.clone(),
            blockers: 0,
            dependents: Vec::new(),
            waker: None,
            abandoned: false,
        });
        let mut blockers = 0;
        while let Some((&start, &(end, before))) = self.latest.range(..range.end).next_back()
            && end > range.start
        {
            self.latest.remove(&start);
            if start < range.start {
                self.latest.insert(start, (range.start, before));
            }
            if end > range.end {
                self.latest.insert(range.end, (end, before));
            }
            let dependents = &mut self.requests[before].dependents;
            if dependents.last() != Some(&key) {
                dependents.push(key);
                blockers += 1;
            }
        }
        self.latest.insert(range.start, (range.end, key));
        self.requests[key].blockers = blockers;
        key
    }

    /// Ends a request whose turn had come, and abandoned requests that come next. Returns the wakers of the requests
    /// that may run.
    fn leave(&mut self, key: usize) -> Vec<Waker> {
        let mut woken = Vec::new();
        let mut ended = vec![key];
        while let Some(key) = ended.pop() {
            let request = self.requests.remove(key);
            self.forget(key, &request.range);
            for next in request.dependents {
                let r = &mut self.requests[next];
                r.blockers -= 1;
                if r.blockers > 0 {
                    continue;
                }
                match r.abandoned {
                    true => ended.push(next),
                    false => woken.extend(r.waker.take()),
                }
            }
        }
        woken
    }

    /// Removes the ranges of which `key` is the latest request.
    fn forget(&mut self, key: usize, range: &Range<u64>) {
        let whole = (range.end, key);
        if self.latest.get(&range.start) == Some(&whole) {
            self.latest.remove(&range.start);
            return;
        }
        let within = self.latest.range(range.clone());
        let rest: Vec<u64> = within
            .filter(|(_, (_, latest))| *latest == key)
            .map(|(start, _)| *start)
            .collect();
        for start in rest {
            self.latest.remove(&start);
        }
    }
}

impl RangeLock {
    fn order(&self) -> MutexGuard<'_, Order> {
        lock(&self.0)
    }

    /// Takes a place in line for `range` (any unit, not empty) at once: later requests come later.
    ///
    /// # Panics
    /// If `range` is empty.
    #[must_use]
    pub fn enter(&self, range: Range<u64>) -> Turn {
        assert!(!range.is_empty(), "a change of nothing needs no turn");
        let mut order = self.order();
        let key = order.enter(range);
        let has_come = order.requests[key].blockers == 0;
        drop(order);
        Turn {
            lock: self.clone(),
            key,
            has_come,
        }
    }
}

/// A place in line, and then the lock of the range, until it is dropped. If it is dropped before its turn, it keeps
/// its place until then.
pub struct Turn {
    lock: RangeLock,
    key: usize,
    /// Whether its turn is known to have come.
    has_come: bool,
}

impl Turn {
    /// Waits until all earlier overlapping changes have ended.
    pub async fn come(&mut self) {
        let mut waiting = None;
        poll_fn(|cx| {
            if self.has_come {
                return Poll::Ready(());
            }
            let mut order = self.lock.order();
            let request = &mut order.requests[self.key];
            if request.blockers > 0 {
                request.waker = Some(cx.waker().clone());
                waiting.get_or_insert_with(|| stage::wait(Stage::Queue));
                return Poll::Pending;
            }
            self.has_come = true;
            Poll::Ready(())
        })
        .await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut order = self.lock.order();
        let request = &mut order.requests[self.key];
        if request.blockers > 0 {
            request.abandoned = true;
            return;
        }
        let woken = order.leave(self.key);
        drop(order);
        woken.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::pin::pin;
    use std::task::Context;

    fn has_come(turn: &mut Turn) -> bool {
        let mut cx = Context::from_waker(Waker::noop());
        pin!(turn.come()).poll(&mut cx).is_ready()
    }

    #[test]
    fn a_write_that_repeats_a_stalled_one_waits_for_it_and_a_newer_one_for_both() {
        let lock = RangeLock::default();
        let mut stalled = lock.enter(8..16);
        let mut repeated = lock.enter(8..16);
        let mut newer = lock.enter(12..20);
        let mut elsewhere = lock.enter(16..17);
        assert!(has_come(&mut stalled) && !has_come(&mut repeated) && !has_come(&mut newer));
        assert!(!has_come(&mut elsewhere), "it overlaps one that waits");
        drop(stalled);
        assert!(has_come(&mut repeated) && !has_come(&mut newer));
        drop(repeated);
        assert!(has_come(&mut newer) && !has_come(&mut elsewhere));
        drop(newer);
        assert!(has_come(&mut elsewhere));
    }

    #[test]
    fn one_who_gives_up_holds_nobody_for_ever() {
        let lock = RangeLock::default();
        let held = lock.enter(0..4);
        let waits = lock.enter(2..6);
        let mut behind = lock.enter(5..7);
        drop(waits);
        assert!(!has_come(&mut behind), "the place in line is kept");
        drop(held);
        assert!(has_come(&mut behind));
        drop(behind);
        let order = lock.order();
        assert!(order.latest.is_empty() && order.requests.is_empty());
    }

    /// Whether no turn before `at` overlaps it.
    fn is_first(all: &[(Range<u64>, Option<Turn>)], at: usize) -> bool {
        let r = &all[at].0;
        all[..at]
            .iter()
            .all(|(b, _)| b.end <= r.start || r.end <= b.start)
    }

    proptest! {
        /// Against a model: a turn has come exactly when no earlier overlapping one exists.
        #[test]
        fn turns_come_in_the_order_of_the_requests(
            steps in prop::collection::vec((0u64..24, 1u64..8, any::<prop::sample::Index>(), any::<bool>()), 1..120)
        ) {
            let lock = RangeLock::default();
            let mut there: Vec<(Range<u64>, Option<Turn>)> = Vec::new();
            for (start, len, which, leave) in steps {
                if leave && !there.is_empty() {
                    let at = which.index(there.len());
                    there[at].1 = None;
                } else {
                    let range = start..start + len;
                    there.push((range.clone(), Some(lock.enter(range))));
                }
                // Abandoned turns stay until their turn has come.
                let mut at = 0;
                while at < there.len() {
                    if there[at].1.is_none() && is_first(&there, at) {
                        there.remove(at);
                        at = 0;
                    } else {
                        at += 1;
                    }
                }
                for at in 0..there.len() {
                    let first = is_first(&there, at);
                    if let Some(turn) = &mut there[at].1 {
                        prop_assert_eq!(has_come(turn), first);
                    }
                }
            }
            drop(there);
            let order = lock.order();
            prop_assert!(order.latest.is_empty() && order.requests.is_empty());
        }
    }
}
