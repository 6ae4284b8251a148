//! Weak members of the pool, which fail, are absent, and are rebuilt or replaced.
//!
//! **Owns** their choice. **Called by** scenario `files`. **Invariants**: there are at most as many weak members as the layout
//! can lack; all other members are sound, present and complete at any time, so that the pool opens without the weak ones. Other
//! members become weak only when a rebuild has made all members complete.

use crate::absence::Away;
use io::rng::Prng;
use io::sim::Node;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

/// See the module header.
#[derive(Debug, Clone)]
pub(super) struct Weak {
    /// Numbers of their disks.
    disks: Rc<RefCell<Vec<usize>>>,
    away: Away,
}

impl Weak {
    pub(super) fn new(disks: Range<usize>) -> Self {
        Self {
            disks: Rc::new(RefCell::new(disks.collect())),
            away: Away::default(),
        }
    }

    /// Chooses up to `most` weak members among those on these disks.
    pub(super) fn choose(&self, mut members: Vec<usize>, most: usize, rng: &mut Prng) {
        let count = 1 + rng.below(most as u64) as usize;
        let mut weak = Vec::new();
        while weak.len() < count {
            let at = rng.below(members.len() as u64) as usize;
            weak.push(members.swap_remove(at));
        }
        *self.disks.borrow_mut() = weak;
    }

    /// The disks that are absent.
    pub(super) fn away(&self) -> &Away {
        &self.away
    }

    /// Takes all weak members away, or returns them.
    pub(super) fn set_away(&self, is_away: bool) {
        let disks = self.disks.borrow().clone().into_iter();
        self.away.set(disks.filter(|_| is_away));
    }

    /// Makes the weak members fail at this rate.
    pub(super) fn fail(&self, rate: f64) {
        for number in self.disks.borrow().iter() {
            if let Some(disk) = Node::current().disk(format!("disk{number}")) {
                disk.error_rates(rate, rate, rate / 4.0);
            }
        }
    }

    /// Numbers of their disks.
    pub(super) fn disks(&self) -> Vec<usize> {
        self.disks.borrow().clone()
    }
}
