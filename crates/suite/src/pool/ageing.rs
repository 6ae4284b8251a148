//! Theory of random overwrites in a pool that is partly full, stated beside the measurement.
//!
//! Records of one size are overwritten with equal probability, out of place. There are two ways to get free space:
//! - *Holes are filled.* Nothing is moved, so devices get each byte once. The block behind a free one is live with the probability that any block is, so the
//!   share of live blocks is also the number of runs of free blocks, and of device writes, for each record.
//! - *Regions are cleaned.* The oldest region is emptied, its live records are written again, and writes are as long as a region. Let `u` be the live
//!   share of a region when its turn comes; then a region has lived for `-ln u` overwrites of each record, and `full = (1 - u) / -ln u`. Devices
//!   get `1 / (1 - u)` bytes for each (J. Menon, "A performance comparison of RAID-5 and log-structured arrays", HPDC 1995).
//!
//! A pool that moves a part of the records lies between the two.

/// Steps of the bisection: enough for a `f64`.
const STEPS: u32 = 60;

/// Device writes for each record, if holes are filled. `full` is the live share of the space.
pub(super) fn writes_into_holes(full: f64) -> f64 {
    full
}

/// Bytes that devices get for each byte, if regions are cleaned in turn. `full` is the live share of the space, below 1.
pub(super) fn bytes_with_cleaning(full: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let live: f64 = f64::midpoint(low, high);
        match (1.0 - live) / -live.ln() < full {
            true => low = live,
            false => high = live,
        }
    }
    1.0 / (1.0 - low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::rng::Prng;

    const REGION: usize = 256;
    const REGIONS: usize = 200;
    const BLOCKS: usize = REGION * REGIONS;

    /// Overwrites all records several times in a log of regions, and counts the records that cleaning writes again in the last time.
    fn cleaned(full: f64) -> f64 {
        let records = (BLOCKS as f64 * full) as usize;
        let mut rng = Prng::new(1);
        let mut place: Vec<usize> = (0..records).collect();
        let mut owner: Vec<Option<usize>> =
            (0..BLOCKS).map(|b| (b < records).then_some(b)).collect();
        let (mut head, mut moved) = (records, 0);
        let ages = 8;
        for write in 0..ages * records {
            let mut waiting = vec![rng.below(records as u64) as usize];
            while let Some(record) = waiting.pop() {
                if head % REGION == 0 {
                    // the next region is emptied before it is written
                    let at = head % BLOCKS;
                    let live = (at..at + REGION).filter_map(|b| owner[b].take());
                    let live: Vec<usize> = live.filter(|r| *r != record).collect();
                    moved += if write >= (ages - 1) * records {
                        live.len()
                    } else {
                        0
                    };
                    waiting.extend(live);
                }
                let at = head % BLOCKS;
                if owner[place[record]] == Some(record) {
                    owner[place[record]] = None;
                }
                (owner[at], place[record]) = (Some(record), at);
                head += 1;
            }
        }
        1.0 + moved as f64 / records as f64
    }

    #[test]
    fn cleaning_costs_in_a_simulation_what_the_theory_says() {
        for full in [0.5, 0.7, 0.8, 0.9] {
            let (theory, simulated) = (bytes_with_cleaning(full), cleaned(full));
            let error = (simulated / theory - 1.0).abs();
            assert!(
                error < 0.05,
                "{full}: {simulated:.2}, in theory {theory:.2}"
            );
        }
    }

    #[test]
    fn free_runs_of_scattered_records_are_as_many_as_the_theory_says() {
        let mut rng = Prng::new(2);
        for full in [0.2, 0.7, 0.9] {
            let live: Vec<bool> = (0..BLOCKS)
                .map(|_| (rng.below(1000) as f64) < full * 1000.0)
                .collect();
            let free = live.iter().filter(|is_live| !**is_live).count();
            let runs = live.windows(2).filter(|w| !w[0] && w[1]).count();
            let (theory, counted) = (writes_into_holes(full), runs as f64 / free as f64);
            assert!(
                (counted / theory - 1.0).abs() < 0.05,
                "{full}: {counted:.3}"
            );
        }
    }
}
