//! Names that were asked for lately, and names that a cache device evicted.
//!
//! A block enters a cache device when it is read from the members for the second time within a window. The window is a table of
//! one byte for each name: a later name takes the place of an earlier one at random. Of evicted names, one in 64 is remembered exactly:
//! the share of these that are asked for again is what a device of twice the size would have found.
//!
//! **Owns** both tables. **Called by** a cache device, under its lock. **Invariants**: the window grows with the names that it meets, to between one and two
//! places for each block that the device has room for, and has at least [`SLOTS_MIN`]; of names that are asked for once, less than one in a hundred enters.

use std::collections::{HashSet, VecDeque};

use super::index::slot;

/// Least places of the window.
const SLOTS_MIN: usize = 4 << 10;
/// Bytes of a device for one place of a new window.
const BYTES_A_SLOT: u64 = 64 << 10;
/// The upper bit of a count times this is about random.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;
/// Names for each one in the sample.
const SAMPLE: u64 = 64;

/// The names that were asked for lately.
pub(super) struct Sketch {
    /// Bytes of the device for blocks.
    size: u64,
    /// A mark of the last name at each place; 0 for none.
    marks: Vec<u8>,
    /// Names that were not known when they were noted, and the bytes of their blocks.
    fresh: u64,
    fresh_bytes: u64,
}

impl Sketch {
    /// An empty window for a device with `size` bytes for blocks.
    pub(super) fn new(size: u64) -> Self {
        Self {
            size,
            marks: vec![0; ((size / BYTES_A_SLOT) as usize).max(SLOTS_MIN)],
            fresh: 0,
            fresh_bytes: 0,
        }
    }

    /// Notes the name of a block of `bytes` bytes. Returns whether it was noted lately.
    pub(super) fn note(&mut self, hash: u64, bytes: usize) -> bool {
        let mark = (hash as u8).max(1);
        let at = slot(hash, self.marks.len());
        if self.marks[at] == mark {
            return true;
        }
        // else names of a set that is read in turn could keep each other out for ever
        let takes_place = self.marks[at] == 0 || self.fresh.wrapping_mul(MIXER) >> 63 == 0;
        if takes_place {
            self.marks[at] = mark;
        }
        self.fresh += 1;
        self.fresh_bytes += bytes as u64;
        self.grow();
        false
    }

    /// Doubles the window if it met more names than it has places, and the device has room for as many of these blocks.
    fn grow(&mut self) {
        let places = self.marks.len() as u64;
        if self.fresh > places && self.size / (self.fresh_bytes / self.fresh).max(1) > places {
            self.fit(self.marks.len() + 1);
        }
    }

    /// Makes the window large enough for a device of this number of blocks. The names in it stay.
    pub(super) fn fit(&mut self, blocks: usize) {
        while self.marks.len() < blocks {
            let twice = self.marks.iter().flat_map(|mark| [*mark, *mark]);
            self.marks = twice.collect();
        }
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        self.marks.capacity()
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

    /// Notes all names in turn. Returns how many were noted lately.
    fn entered(sketch: &mut Sketch, names: &[u64]) -> usize {
        let noted = names.iter().filter(|name| sketch.note(**name, 4096));
        noted.count()
    }

    fn names(rng: &mut Prng, count: usize) -> Vec<u64> {
        (0..count).map(|_| rng.u64()).collect()
    }

    #[test]
    fn a_scan_does_not_enter_and_a_second_read_does() {
        let mut sketch = Sketch::new(1 << 30);
        let names = names(&mut Prng::new(1), 4000);
        let once = entered(&mut sketch, &names);
        assert!(once < 40, "{once} of 4000 names that were met once");
        let again = entered(&mut sketch, &names);
        assert!(again > 3000, "{again} of 4000 names that were met again");
        sketch.fit(20_000);
        assert!((20_000..=40_000).contains(&sketch.memory()));
        let grown = entered(&mut sketch, &names);
        assert!(grown > 3000, "{grown} of 4000 names after it grew");
    }

    #[test]
    fn a_window_grows_to_the_blocks_that_the_device_has_room_for() {
        let mut rng = Prng::new(3);
        // room for 32,768 blocks
        let mut sketch = Sketch::new(128 << 20);
        let names = names(&mut rng, 30_000);
        let once = entered(&mut sketch, &names);
        assert!(once < 300, "{once} of 30,000 names that were met once");
        let mut waiting = names;
        for _ in 0..16 {
            waiting.retain(|name| !sketch.note(*name, 4096));
        }
        assert!(waiting.len() < 600, "{} of 30,000 wait", waiting.len());
        for _ in 0..20 {
            let others: Vec<u64> = (0..30_000).map(|_| rng.u64()).collect();
            let once = entered(&mut sketch, &others);
            assert!(once < 300, "{once} of 30,000 others");
        }
        assert!(sketch.memory() <= 65_536, "{}", sketch.memory());
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
