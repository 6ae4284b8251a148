//! Choice of the next block.
//!
//! **Owns** the address generator of one job. **Invariants**: every offset is a multiple of the block size and lies
//! within the region; the same seed and job give the same offsets; sequential jobs never overlap.

use super::zipf::Zipf;
use super::{Access, Workload};
use io::rng::Prng;

/// The addresses and directions of one job.
#[derive(Debug, Clone)]
pub struct Pattern {
    order: Order,
    block_size: u64,
    read_percent: u64,
    rng: Prng,
}

#[derive(Debug, Clone)]
enum Order {
    Sequential {
        first: u64,
        blocks: u64,
        next: u64,
    },
    Random {
        blocks: u64,
    },
    /// Ranks are spread over the region by a step that visits every block once.
    Zipf {
        zipf: Zipf,
        blocks: u64,
        step: u64,
    },
}

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// Offset, bytes.
    pub offset: u64,
    /// Whether it is a read.
    pub read: bool,
}

impl Pattern {
    /// The pattern of job `job` in a region of `region` bytes ([`Workload::check`] gave it).
    #[must_use]
    pub fn new(w: &Workload, job: u32, region: u64) -> Pattern {
        let block_size = u64::from(w.block_size);
        let blocks = region / block_size;
        let order = match w.access {
            Access::Sequential => {
                let at = |j: u32| (u128::from(blocks) * u128::from(j) / u128::from(w.jobs)) as u64;
                Order::Sequential {
                    first: at(job),
                    blocks: at(job + 1) - at(job),
                    next: 0,
                }
            }
            Access::Random => Order::Random { blocks },
            Access::Zipf(theta) => Order::Zipf {
                zipf: Zipf::new(blocks, theta),
                blocks,
                step: step(blocks),
            },
        };
        let rng = Prng::new(w.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(job));
        Pattern {
            order,
            block_size,
            read_percent: w.read_percent.into(),
            rng,
        }
    }

    /// The next I/O.
    pub fn choose(&mut self) -> Choice {
        let block = match &mut self.order {
            Order::Sequential {
                first,
                blocks,
                next,
            } => {
                let at = *first + *next;
                *next = (*next + 1) % *blocks;
                at
            }
            Order::Random { blocks } => self.rng.below(*blocks),
            Order::Zipf { zipf, blocks, step } => {
                let rank = zipf.sample(&mut self.rng) - 1;
                (u128::from(rank) * u128::from(*step) % u128::from(*blocks)) as u64
            }
        };
        let read = match self.read_percent {
            100 => true,
            0 => false,
            p => self.rng.below(100) < p,
        };
        Choice {
            offset: block * self.block_size,
            read,
        }
    }
}

/// A step without common divisor with `n`, near the golden section of it.
fn step(n: u64) -> u64 {
    let near = ((n as f64 * 0.618_033_988_75) as u64).max(1);
    (near..).find(|s| gcd(*s, n) == 1).unwrap_or(1)
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn offsets_stay_in_the_region(
            blocks in 1u64..5000, jobs in 1u32..8, seed: u64, kind in 0..3usize, bs in prop::sample::select(vec![512u32, 4096, 131_072]),
        ) {
            let blocks = blocks.max(u64::from(jobs));
            let access = [Access::Sequential, Access::Random, Access::Zipf(0.9)][kind];
            let w = Workload { access, jobs, seed, block_size: bs, read_percent: 50, ..Workload::default() };
            let region = blocks * u64::from(bs);
            for job in 0..jobs {
                let (mut a, mut b) = (Pattern::new(&w, job, region), Pattern::new(&w, job, region));
                for _ in 0..100 {
                    let c = a.choose();
                    prop_assert_eq!(c, b.choose());
                    prop_assert!(c.offset + u64::from(bs) <= region && c.offset.is_multiple_of(u64::from(bs)));
                }
            }
        }

        #[test]
        fn the_zipf_step_visits_every_block(blocks in 1u64..3000) {
            let s = step(blocks);
            let seen: BTreeSet<u64> = (0..blocks).map(|r| r * s % blocks).collect();
            prop_assert_eq!(seen.len() as u64, blocks);
        }
    }

    #[test]
    fn sequential_jobs_share_the_region_without_overlap() {
        let w = Workload {
            access: Access::Sequential,
            jobs: 3,
            ..Workload::default()
        };
        let region = 10 * 4096;
        let mut all = Vec::new();
        for (job, count) in [(0, 3), (1, 3), (2, 4)] {
            let mut p = Pattern::new(&w, job, region);
            let mine: Vec<u64> = (0..count).map(|_| p.choose().offset).collect();
            assert_eq!(p.choose().offset, mine[0], "wraps in its own part");
            all.extend(mine);
        }
        assert_eq!(all, (0..10).map(|b| b * 4096).collect::<Vec<_>>());
    }

    #[test]
    fn the_read_share_holds() {
        let w = Workload {
            read_percent: 70,
            ..Workload::default()
        };
        let mut p = Pattern::new(&w, 0, 1 << 30);
        let reads = (0..10_000).filter(|_| p.choose().read).count();
        assert!((6800..7200).contains(&reads), "{reads} of 10000 at 70 %");
    }
}
