//! Unit attention conditions (SAM-5 5.14) of one nexus, by logical unit.
//!
//! **Invariants**: each queue is bounded; a pending condition is not queued twice; the data path takes no lock while
//! nothing is pending.

use crate::limits::UNIT_ATTENTIONS_MAX;
use crate::sense::Asc;
use io::sync::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The pending conditions of a nexus, by LUN.
#[derive(Default)]
pub(crate) struct Attentions {
    pending: AtomicUsize,
    queues: Mutex<BTreeMap<u16, VecDeque<Asc>>>,
}

type Queues = BTreeMap<u16, VecDeque<Asc>>;

impl Attentions {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    /// The number of pending conditions of one unit, or of all, has changed.
    fn changed(&self, before: usize, after: usize) {
        self.pending.fetch_add(after, Ordering::AcqRel);
        self.pending.fetch_sub(before, Ordering::AcqRel);
    }

    /// Establishes a condition. A reset or power on clears the earlier ones (SAM-5 5.14.4).
    pub(crate) fn raise(&self, lun: u16, asc: Asc) {
        let mut queues = self.lock();
        let queue = queues.entry(lun).or_default();
        let before = queue.len();
        if asc.0 >> 8 == Asc::POWER_ON_OR_RESET.0 >> 8 {
            queue.clear();
        }
        if !queue.contains(&asc) {
            if queue.len() >= UNIT_ATTENTIONS_MAX {
                queue.pop_front();
            }
            queue.push_back(asc);
        }
        self.changed(before, queue.len());
    }

    /// Reports and clears the oldest condition of a logical unit.
    pub(crate) fn take(&self, lun: u16) -> Option<Asc> {
        if self.pending.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut queues = self.lock();
        let asc = queues.get_mut(&lun)?.pop_front()?;
        self.changed(1, 0);
        Some(asc)
    }

    /// Clears a condition on every logical unit, as REPORT LUNS does with REPORTED LUNS DATA HAS CHANGED.
    pub(crate) fn clear(&self, asc: Asc) {
        if self.pending.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut queues = self.lock();
        for queue in queues.values_mut() {
            let before = queue.len();
            queue.retain(|a| *a != asc);
            self.changed(before, queue.len());
        }
    }

    /// Drops the conditions of a removed logical unit.
    pub(crate) fn forget(&self, lun: u16) {
        let mut queues = self.lock();
        let gone = queues.remove(&lun);
        self.changed(gone.map_or(0, |queue| queue.len()), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_come_out_once_in_order_and_the_queue_is_bounded() {
        let a = Attentions::default();
        assert_eq!(a.take(0), None);
        a.raise(0, Asc::CAPACITY_CHANGED);
        a.raise(0, Asc::REPORTED_LUNS_CHANGED);
        a.raise(0, Asc::CAPACITY_CHANGED);
        a.raise(1, Asc::REPORTED_LUNS_CHANGED);
        a.clear(Asc::REPORTED_LUNS_CHANGED);
        assert_eq!(
            (a.take(0), a.take(0), a.take(1)),
            (Some(Asc::CAPACITY_CHANGED), None, None)
        );
        a.raise(2, Asc::CAPACITY_CHANGED);
        a.forget(2);
        assert_eq!(a.pending.load(Ordering::Acquire), 0);
        for n in 0..100 {
            a.raise(0, Asc(0x2a00 + n));
        }
        a.raise(0, Asc::POWER_ON_OR_RESET);
        assert_eq!((a.take(0), a.take(0)), (Some(Asc::POWER_ON_OR_RESET), None));
        for n in 0..100 {
            a.raise(0, Asc(0x2a00 + n));
        }
        assert_eq!(
            std::iter::from_fn(|| a.take(0)).count(),
            UNIT_ATTENTIONS_MAX
        );
    }
}
