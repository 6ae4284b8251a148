//! Reuse distances of reads: the bytes of other blocks that are read between two reads of a block.
//!
//! A cache of the blocks that were used last answers each read whose distance is below its size. So the distances tell how many reads a cache of any
//! size would answer. They are measured on a sample: the names whose hash is below a bound. Each of them stands for as many names as the
//! bound leaves out (C. A. Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015, sections 3.1 and 3.3). When the sample is
//! full, the bound falls.
//!
//! **Owns** the sample and the counts. **Called by** clients' reads of records, on all shards. **Invariants**: a name that is not in the sample costs
//! one comparison; the sample has at most [`SAMPLE_MAX`] names.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use io::sync::lock;

/// Names in the sample, at most. A thousand tell the answered share within a few percent.
const SAMPLE_MAX: usize = 1024;
/// The largest part of all names that is in the sample, as a divisor.
const PART: u64 = 64;
/// Bytes of the smallest class of distances. Each class is twice the one before.
const CLASS_MIN: u64 = 1 << 20;
/// Number of classes: the last one ends at 16 TiB, and has longer distances, too.
const CLASSES: usize = 25;

/// Clients' reads of blocks by reuse distance, since the pool was opened. A read of several blocks counts for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReuseDistances {
    /// Reads in the sample. The other numbers are estimates from them.
    pub sampled: u64,
    /// All reads.
    pub reads: u64,
    by_class: [u64; CLASSES],
}

impl ReuseDistances {
    /// Sizes of caches, bytes, ascending, with the reads that a cache of this size answers. First reads of a block are answered by none.
    pub fn answered(&self) -> impl Iterator<Item = (u64, u64)> {
        let sums = self.by_class.iter().scan(0, |sum, reads| {
            *sum += reads;
            Some(*sum)
        });
        sums.enumerate().map(|(n, sum)| (CLASS_MIN << n, sum))
    }
}

/// The class of a distance.
fn class_of(bytes: u64) -> usize {
    let units = bytes.div_ceil(CLASS_MIN).max(1);
    (units.next_power_of_two().trailing_zeros() as usize).min(CLASSES - 1)
}

/// Names in the order of their last reads, with the bytes of their blocks.
#[derive(Default)]
struct Sample {
    recent: Vec<(u64, u32)>,
    counts: ReuseDistances,
}

impl Sample {
    /// Notes a read. The name stands for `names` names.
    fn note(&mut self, name: u64, bytes: u32, names: u64) {
        self.counts.sampled += 1;
        self.counts.reads += names;
        let mut distance = u64::from(bytes);
        let mut before = None;
        for (at, (other, bytes)) in self.recent.iter().enumerate().rev() {
            if *other == name {
                before = Some(at);
                break;
            }
            distance += u64::from(*bytes) * names;
        }
        if let Some(at) = before {
            self.recent.remove(at);
            self.counts.by_class[class_of(distance)] += names;
        }
        self.recent.push((name, bytes));
    }

    /// Removes the highest name if there are too many. Returns it.
    fn shrink(&mut self) -> Option<u64> {
        if self.recent.len() <= SAMPLE_MAX {
            return None;
        }
        let highest = self.recent.iter().map(|(name, _)| *name).max()?;
        self.recent.retain(|(name, _)| *name < highest);
        Some(highest)
    }
}

/// See the module header.
pub(crate) struct Reuse {
    /// Names below it are in the sample.
    bound: AtomicU64,
    sample: Mutex<Sample>,
}

impl Default for Reuse {
    fn default() -> Self {
        Self {
            bound: AtomicU64::new(u64::MAX / PART),
            sample: Mutex::default(),
        }
    }
}

impl Reuse {
    /// Notes a read of the block whose name has this hash.
    pub(crate) fn note(&self, name: u64, bytes: u32) {
        if name >= self.bound.load(Ordering::Relaxed) {
            return;
        }
        let mut sample = lock(&self.sample);
        // the bound changes under the lock
        let bound = self.bound.load(Ordering::Relaxed);
        if name >= bound {
            return;
        }
        sample.note(name, bytes, u64::MAX / bound);
        if let Some(bound) = sample.shrink() {
            self.bound.store(bound, Ordering::Relaxed);
        }
    }

    /// The present counts.
    pub(crate) fn distances(&self) -> ReuseDistances {
        lock(&self.sample).counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::rng::Prng;

    const BLOCK: u64 = 4096;

    fn names(count: usize) -> Vec<u64> {
        let mut rng = Prng::new(1);
        (0..count).map(|_| rng.u64()).collect()
    }

    /// Percent of reads that a cache of this size answers.
    fn share(reuse: &Reuse, size: u64) -> u64 {
        let counts = reuse.distances();
        let answered = counts.answered().find(|(bytes, _)| *bytes == size);
        answered.expect("a class").1 * 100 / counts.reads
    }

    #[test]
    fn a_scan_that_returns_needs_a_cache_for_all_of_it() {
        let (reuse, names) = (Reuse::default(), names(30_000));
        for _ in 0..10 {
            for name in &names {
                reuse.note(*name, BLOCK as u32);
            }
        }
        // 117 MiB
        assert_eq!(share(&reuse, 64 << 20), 0);
        assert_eq!(share(&reuse, 128 << 20), 90);
    }

    #[test]
    fn random_reads_are_answered_by_the_part_that_fits() {
        let (reuse, names) = (Reuse::default(), names(65_536));
        let mut rng = Prng::new(2);
        for _ in 0..2_000_000 {
            let name = names[rng.below(65_536) as usize];
            reuse.note(name, BLOCK as u32);
        }
        // of 256 MiB; the first reads are a thirtieth
        for (size, percent) in [(64, 24), (128, 48), (256, 94)] {
            let share = share(&reuse, size << 20);
            assert!(share.abs_diff(percent) <= 5, "{size} MiB: {share} %");
        }
        let counts = reuse.distances();
        assert!(counts.reads.abs_diff(2_000_000) < 200_000, "{counts:?}");
    }

    #[test]
    fn a_sample_stays_small_and_first_reads_are_answered_by_nothing() {
        let (reuse, names) = (Reuse::default(), names(1_000_000));
        for name in &names {
            reuse.note(*name, BLOCK as u32);
        }
        assert!(lock(&reuse.sample).recent.len() <= SAMPLE_MAX);
        assert_eq!(share(&reuse, CLASS_MIN << (CLASSES - 1)), 0);
        let reads = reuse.distances().reads;
        assert!(reads.abs_diff(1_000_000) < 150_000, "{reads}");
    }

    #[test]
    fn classes_end_at_powers_of_two() {
        let mib = |n: u64| n << 20;
        let of = [1, mib(1), mib(1) + 1, mib(2), mib(3), u64::MAX >> 1].map(class_of);
        assert_eq!(of, [0, 0, 1, 1, 2, CLASSES - 1]);
    }
}
