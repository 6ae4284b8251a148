//! Names that were asked for lately, and names that a cache device evicted.
//!
//! A block enters a cache device when it is read from the members for the second time within a window. The window is a table of
//! one byte for each name: a later name takes the place of an earlier one at random. Of evicted names, one in 64 is remembered exactly:
//! the share of these that are asked for again is what a device of twice the size would have found.
//!
//! **Owns** both tables. **Called by** a cache device, under its lock. **Invariants**: the window has between one and two places for each block
//! of the device, and at least [`SLOTS_MIN`]; of names that are asked for once, less than one in a hundred enters.

use std::collections::{HashSet, VecDeque};

use super::index::slot;

/// Least places of the window.
const SLOTS_MIN: usize = 4 << 10;
/// Bytes of a device for one place of the window while the device is empty.
const BYTES_A_SLOT: u64 = 64 << 10;
/// Names for each one in the sample.
const SAMPLE: u64 = 64;

/// The names that were asked for lately.
pub(super) struct Sketch(Vec<u8>);

impl Sketch {
    /// An empty window for a device with `size` bytes for blocks.
    pub(super) fn new(size: u64) -> Self {
        Self(vec![0; ((size / BYTES_A_SLOT) as usize).max(SLOTS_MIN)])
    }

    /// Notes a name. Returns whether it was noted lately.
    pub(super) fn note(&mut self, hash: u64) -> bool {
        let mark = (hash as u8).max(1);
        let at = slot(hash, self.0.len());
        std::mem::replace(&mut self.0[at], mark) == mark
    }

    /// Makes the window large enough for a device of this number of blocks. The names in it stay.
    pub(super) fn fit(&mut self, blocks: usize) {
        while self.0.len() < blocks {
            self.0 = self.0.iter().flat_map(|mark| [*mark, *mark]).collect();
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.0.capacity()
    }
}

/// A sample of the names that were evicted.
#[derive(Default)]
pub(super) struct Evicted {
    order: VecDeque<u64>,
    names: HashSet<u64>,
}

impl Evicted {
    fn is_sample(hash: u64) -> bool {
        (hash >> 24).is_multiple_of(SAMPLE)
    }

    /// Notes an evicted name. The device has `blocks` blocks: as many evicted names count.
    pub(super) fn note(&mut self, hash: u64, blocks: usize) {
        if Self::is_sample(hash) && self.names.insert(hash) {
            self.order.push_back(hash);
        }
        while self.order.len() > blocks / SAMPLE as usize + 1 {
            let oldest = self.order.pop_front();
            oldest.map(|oldest| self.names.remove(&oldest));
        }
    }

    /// Lookups that this one stands for, if a device of twice the size would have answered it.
    pub(super) fn stands_for(&self, hash: u64) -> u64 {
        match Self::is_sample(hash) && self.names.contains(&hash) {
            true => SAMPLE,
            false => 0,
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.order.capacity() * 8 + self.names.capacity() * 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::rng::Prng;

    #[test]
    fn a_scan_does_not_enter_and_a_second_read_does() {
        let mut rng = Prng::new(1);
        let mut sketch = Sketch::new(1 << 30);
        let names: Vec<u64> = (0..4000).map(|_| rng.u64()).collect();
        let entered = names.iter().filter(|name| sketch.note(**name)).count();
        assert!(entered < 40, "{entered} of 4000 names that were met once");
        let entered = names.iter().filter(|name| sketch.note(**name)).count();
        assert!(
            entered > 3000,
            "{entered} of 4000 names that were met again"
        );
        sketch.fit(20_000);
        assert!((20_000..=40_000).contains(&sketch.memory()));
        let entered = names.iter().filter(|name| sketch.note(**name)).count();
        assert!(entered > 3000, "{entered} of 4000 names after it grew");
    }

    #[test]
    fn evicted_names_tell_the_hits_of_twice_the_size() {
        let mut rng = Prng::new(2);
        let names: Vec<u64> = (0..40_000).map(|_| rng.u64()).collect();
        let mut evicted = Evicted::default();
        for name in &names {
            evicted.note(*name, 20_000);
        }
        let asked = |names: &[u64]| names.iter().map(|n| evicted.stands_for(*n)).sum::<u64>();
        assert_eq!(
            asked(&names[..18_000]),
            0,
            "these were evicted too long ago"
        );
        let found = asked(&names[22_000..]);
        assert!((14_000..22_000).contains(&found), "{found} of 18000");
        assert!(evicted.memory() < 20_000, "{}", evicted.memory());
    }
}
