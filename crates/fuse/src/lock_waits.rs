//! Owners of locks that wait for each other.
//!
//! **Owns** the list of waits of a mount. **Called by** requests for locks. **Invariants**: a wait is in the list until its value is dropped; there are
//! at most [`LOCK_WAITERS_MAX`].

use crate::limits::LOCK_WAITERS_MAX;
use io::sync::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

/// Number of an owner that is not in this mount.
const FOREIGN: u64 = 0;

/// The waits of a mount: the owner that is waited for, by the owner that waits and the number of the wait.
#[derive(Debug, Default)]
pub(crate) struct LockWaits(Mutex<Waits>);

#[derive(Debug, Default)]
struct Waits {
    /// Number of the last wait.
    last: u64,
    held_by: BTreeMap<(u64, u64), u64>,
}

/// One wait of an owner.
pub(crate) struct Waiting<'a> {
    waits: &'a LockWaits,
    /// Owner and number of the wait.
    id: (u64, u64),
}

impl LockWaits {
    /// An owner begins to wait. None at the limit.
    pub(crate) fn enter(&self, owner: u64) -> Option<Waiting<'_>> {
        let mut waits = lock(&self.0);
        if waits.held_by.len() >= LOCK_WAITERS_MAX {
            return None;
        }
        waits.last += 1;
        let id = (owner, waits.last);
        waits.held_by.insert(id, FOREIGN);
        Some(Waiting { waits: self, id })
    }
}

impl Waiting<'_> {
    /// Notes the owner of the lock that is in the way, 0 for one outside of this mount. Returns whether that owner waits for
    /// this one, directly or through others: then neither would ever get its lock. As on Linux, an owner of several threads counts as
    /// waiting if one of them waits.
    pub(crate) fn is_deadlock(&self, holder: u64) -> bool {
        let mut waits = lock(&self.waits.0);
        waits.held_by.insert(self.id, holder);
        let mut seen = BTreeSet::from([FOREIGN]);
        let mut next = vec![holder];
        while let Some(owner) = next.pop() {
            if owner == self.id.0 {
                return true;
            }
            if seen.insert(owner) {
                let waits_of = waits.held_by.range((owner, 0)..=(owner, u64::MAX));
                next.extend(waits_of.map(|(_, holder)| *holder));
            }
        }
        false
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        lock(&self.waits.0).held_by.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_of_waits_is_a_deadlock() {
        let waits = LockWaits::default();
        let [a, b, c] = [1, 2, 3].map(|owner| waits.enter(owner).expect("there is room"));
        assert!(!a.is_deadlock(2));
        assert!(!b.is_deadlock(3));
        assert!(!b.is_deadlock(FOREIGN), "the lock went to another machine");
        assert!(!c.is_deadlock(1));
        assert!(!b.is_deadlock(FOREIGN));
        assert!(b.is_deadlock(3));
        drop(a);
        assert!(!b.is_deadlock(3));
        assert!(!waits.enter(4).expect("there is room").is_deadlock(FOREIGN));
    }

    #[test]
    fn an_owner_may_wait_several_times() {
        let waits = LockWaits::default();
        let [first, second] = [1, 1].map(|owner| waits.enter(owner).expect("there is room"));
        assert!(!first.is_deadlock(5));
        assert!(!second.is_deadlock(2));
        let other = waits.enter(2).expect("there is room");
        assert!(other.is_deadlock(1));
        drop(second);
        assert!(!other.is_deadlock(1));
    }

    #[test]
    fn waits_are_bounded() {
        let waits = LockWaits::default();
        let mut all: Vec<_> = (0..LOCK_WAITERS_MAX).map(|_| waits.enter(1)).collect();
        assert!(all.iter().all(Option::is_some) && waits.enter(1).is_none());
        all.pop();
        assert!(waits.enter(1).is_some());
    }
}
