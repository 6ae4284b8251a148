//! Changes to one disk that overlap take turns, in the order in which they were asked for.
//!
//! **Owns** the ranges of a disk that are being changed, and the line of those who wait. **Called by** backends whose
//! changes take time. **Invariants**: of two requests whose ranges overlap, the earlier one ends first, however long
//! its medium takes; requests that do not overlap never wait for each other, and nobody overtakes one that he overlaps.
//!
//! It is what keeps a write that outlived its connection from undoing a newer one (NVMe hosts give up after 30 s,
//! reconnect and repeat; a disk may take longer), and what keeps a compare-and-write one step.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// The ranges of one disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct RangeLock(Arc<Mutex<Ranges>>);

#[derive(Default)]
struct Ranges {
    held: Disjoint,
    line: VecDeque<Waiter>,
    next: u64,
}

struct Waiter {
    ticket: u64,
    range: Range<u64>,
    waker: Waker,
}

/// Ranges that do not overlap: where each begins, and where it ends.
#[derive(Default)]
struct Disjoint(BTreeMap<u64, u64>);

impl Disjoint {
    fn overlaps(&self, r: &Range<u64>) -> bool {
        self.0
            .range(..r.end)
            .next_back()
            .is_some_and(|(_, end)| *end > r.start)
    }

    /// Adds a range, together with those that it overlaps or touches.
    fn cover(&mut self, r: &Range<u64>) {
        let (mut start, mut end) = (r.start, r.end);
        while let Some((&s, &e)) = self.0.range(..=end).next_back()
            && e >= start
        {
            self.0.remove(&s);
            start = start.min(s);
            end = end.max(e);
        }
        self.0.insert(start, end);
    }
}

impl Ranges {
    /// Gives every waiter his range who overlaps neither a holder nor a waiter before him. Linear in the line.
    fn advance(&mut self, woken: &mut Vec<Waker>) {
        let mut before = Disjoint::default();
        let held = &mut self.held;
        self.line.retain(|w| {
            if held.overlaps(&w.range) || before.overlaps(&w.range) {
                before.cover(&w.range);
                return true;
            }
            held.0.insert(w.range.start, w.range.end);
            woken.push(w.waker.clone());
            false
        });
    }
}

impl RangeLock {
    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place in line for `range` (any unit, not empty), at once: what is asked for later comes later.
    ///
    /// # Panics
    /// If `range` is empty.
    #[must_use]
    pub fn enter(&self, range: Range<u64>) -> Turn {
        assert!(!range.is_empty(), "a change of nothing needs no turn");
        let mut all = self.ranges();
        let free =
            !all.held.overlaps(&range) && !all.line.iter().any(|w| overlap(&w.range, &range));
        let waits = if free {
            all.held.0.insert(range.start, range.end);
            None
        } else {
            all.next += 1;
            let ticket = all.next;
            all.line.push_back(Waiter {
                ticket,
                range: range.clone(),
                waker: Waker::noop().clone(),
            });
            Some(ticket)
        };
        drop(all);
        Turn {
            lock: self.clone(),
            range,
            waits,
        }
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// A place in line, then the range itself, until it is dropped.
pub struct Turn {
    lock: RangeLock,
    range: Range<u64>,
    /// The ticket, as long as the turn is not known to have come.
    waits: Option<u64>,
}

impl Turn {
    /// Waits until nobody before overlaps.
    pub async fn come(&mut self) {
        let Some(ticket) = self.waits else { return };
        poll_fn(|cx| {
            let mut all = self.lock.ranges();
            match all.line.iter_mut().find(|w| w.ticket == ticket) {
                Some(w) => {
                    w.waker.clone_from(cx.waker());
                    Poll::Pending
                }
                None => Poll::Ready(()),
            }
        })
        .await;
        self.waits = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut woken = Vec::new();
        let mut all = self.lock.ranges();
        let in_line = self
            .waits
            .and_then(|ticket| all.line.iter().position(|w| w.ticket == ticket));
        match in_line {
            Some(at) => drop(all.line.remove(at)),
            None => drop(all.held.0.remove(&self.range.start)),
        }
        if !all.line.is_empty() {
            all.advance(&mut woken);
        }
        drop(all);
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
    fn one_who_gives_up_lets_the_others_go_on() {
        let lock = RangeLock::default();
        let held = lock.enter(0..4);
        let waits = lock.enter(2..6);
        let mut behind = lock.enter(5..7);
        assert!(!has_come(&mut behind));
        drop(waits);
        assert!(has_come(&mut behind));
        drop((held, behind));
        let all = lock.ranges();
        assert!(all.held.0.is_empty() && all.line.is_empty());
    }

    proptest! {
        /// Against the rule itself: a turn has come exactly when no earlier one that overlaps is still there.
        #[test]
        fn turns_come_in_the_order_of_the_requests(
            steps in prop::collection::vec((0u64..24, 1u64..8, any::<prop::sample::Index>(), any::<bool>()), 1..80)
        ) {
            let lock = RangeLock::default();
            let mut there: Vec<Turn> = Vec::new();
            for (start, len, which, leave) in steps {
                if leave && !there.is_empty() {
                    drop(there.remove(which.index(there.len())));
                } else {
                    there.push(lock.enter(start..start + len));
                }
                for at in 0..there.len() {
                    let (before, rest) = there.split_at_mut(at);
                    let free = !before.iter().any(|b| overlap(&b.range, &rest[0].range));
                    prop_assert_eq!(has_come(&mut rest[0]), free);
                }
            }
        }
    }
}
