//! The top-level vdevs of an open pool.
//!
//! **Owns** their list, which only grows. **Called by** `Vdevs`, on any shard. **Invariants**: a vdev keeps its index, also after its
//! removal; it is in the list before any label names it; only the task that writes labels adds one.

use std::ops::Index;
use std::sync::OnceLock;

use super::top::TopVdev;
use crate::format::VDEVS_MAX;

/// See the module header.
pub(super) struct Stripe(Box<[OnceLock<TopVdev>]>);

impl Stripe {
    /// # Panics
    /// If there are more than [`VDEVS_MAX`].
    pub(super) fn new(tops: Vec<TopVdev>) -> Self {
        assert!(tops.len() <= VDEVS_MAX, "{} vdevs", tops.len());
        let slots: Box<[_]> = (0..VDEVS_MAX).map(|_| OnceLock::new()).collect();
        for (slot, top) in slots.iter().zip(tops) {
            let _it_is_empty = slot.set(top);
        }
        Self(slots)
    }

    /// The vdevs that were not removed, without those for the journal that take no writes any longer.
    pub(super) fn iter(&self) -> impl Iterator<Item = &TopVdev> {
        self.all().filter(|top| !top.is_removed() && !top.is_gone())
    }

    /// All vdevs, by index.
    pub(super) fn all(&self) -> impl Iterator<Item = &TopVdev> {
        self.0.iter().map_while(OnceLock::get)
    }

    pub(super) fn len(&self) -> usize {
        self.all().count()
    }

    pub(super) fn get(&self, index: usize) -> Option<&TopVdev> {
        self.0.get(index)?.get()
    }

    /// Appends a vdev.
    ///
    /// # Panics
    /// If there are [`VDEVS_MAX`] vdevs already, or the vdev's index is not the next one.
    pub(super) fn push(&self, top: TopVdev) {
        assert_eq!(usize::from(top.id().0), self.len(), "index of a new vdev");
        let taken = self.0[self.len()].set(top).is_err();
        assert!(!taken, "only one adds vdevs");
    }
}

impl Index<usize> for Stripe {
    type Output = TopVdev;

    fn index(&self, index: usize) -> &TopVdev {
        self.get(index).expect("there is such a vdev")
    }
}
