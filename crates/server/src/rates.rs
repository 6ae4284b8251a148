//! Rates of the last half hour and of the last day.
//!
//! **Owns** [`History`], and the difference of two readings. **Called by** the console, which takes a reading every
//! [`crate::limits::RATE_STEP`], and by the control API. **Invariants**: the memory is bounded; a counter that went back, because an export or a pool
//! was opened anew, counts as no change.

use crate::api::{ExportStages, ListRates, Pool, Rates, ShardStatus};
use crate::limits::{MINUTES_MAX, RATES_MAX, RATES_OF_MINUTE};
use io::sync::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

/// Counters at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reading {
    /// On a clock that never goes back, ms.
    at_ms: u64,
    /// ms since 1970.
    time_ms: u64,
    /// Requests by export and command, and the sum of their times, ns.
    requests: BTreeMap<(String, String), (u64, u64)>,
    bytes_in: u64,
    bytes_out: u64,
    /// Bytes read and written, by disk.
    disks: BTreeMap<String, (u64, u64)>,
    cpu_ms: BTreeMap<usize, u64>,
    used: u64,
}

impl Reading {
    /// The counters of now. `traffic` has the bytes from and to clients since the start.
    pub(crate) fn new(
        exports: &[ExportStages],
        traffic: (u64, u64),
        pools: &[Pool],
        shards: &[ShardStatus],
    ) -> Reading {
        let mut requests = BTreeMap::new();
        for export in exports {
            for r in &export.requests {
                let ns = r.stages.iter().map(|s| s.sum_ns).sum();
                requests.insert((export.export.clone(), r.command.clone()), (r.count, ns));
            }
        }
        let members = pools.iter().flat_map(|p| &p.vdevs);
        let members = members.flat_map(|v| &v.members);
        Reading {
            at_ms: io::time::now().as_nanos() / 1_000_000,
            time_ms: io::time::wall_clock_ms(),
            requests,
            bytes_in: traffic.0,
            bytes_out: traffic.1,
            disks: members
                .map(|s| (s.guid.clone(), (s.read_bytes, s.written_bytes)))
                .collect(),
            cpu_ms: shards.iter().map(|s| (s.shard, s.cpu_ms)).collect(),
            used: pools.iter().map(|p| p.used).sum(),
        }
    }

    /// The rates since an earlier reading.
    fn since(&self, old: &Reading) -> Rates {
        let seconds = (self.at_ms.saturating_sub(old.at_ms) as f64 / 1e3).max(1e-3);
        let mut rates = Rates {
            time_ms: self.time_ms,
            bytes_in: self.bytes_in.saturating_sub(old.bytes_in) as f64 / seconds,
            bytes_out: self.bytes_out.saturating_sub(old.bytes_out) as f64 / seconds,
            used: self.used,
            ..Rates::default()
        };
        let (mut all, mut all_ns) = (0, 0);
        for (key, (count, ns)) in &self.requests {
            let before = old.requests.get(key).copied().unwrap_or_default();
            let more = count.saturating_sub(before.0);
            all += more;
            all_ns += ns.saturating_sub(before.1);
            let rate = more as f64 / seconds;
            match key.1.as_str() {
                "read" => rates.reads += rate,
                "write" => rates.writes += rate,
                _ => rates.others += rate,
            }
        }
        if all > 0 {
            rates.mean_us = all_ns as f64 / 1e3 / all as f64;
        }
        for (disk, (read, written)) in &self.disks {
            // A disk that was not there counts from the next reading on.
            let before = old.disks.get(disk).copied().unwrap_or((*read, *written));
            rates.disk_read += read.saturating_sub(before.0) as f64 / seconds;
            rates.disk_written += written.saturating_sub(before.1) as f64 / seconds;
        }
        for (shard, ms) in &self.cpu_ms {
            let before = old.cpu_ms.get(shard).copied().unwrap_or(*ms);
            let percent = ms.saturating_sub(before) as f64 / 10.0 / seconds;
            rates.cpu_percent = rates.cpu_percent.max(percent);
        }
        rates
    }
}

/// The mean of some steps.
fn mean(steps: &[Rates]) -> Rates {
    let Some(last) = steps.last() else {
        return Rates::default();
    };
    let of = |value: fn(&Rates) -> f64| steps.iter().map(value).sum::<f64>() / steps.len() as f64;
    let requests = |r: &Rates| r.reads + r.writes + r.others;
    let weight: f64 = steps.iter().map(requests).sum();
    let times: f64 = steps.iter().map(|r| r.mean_us * requests(r)).sum();
    Rates {
        time_ms: last.time_ms,
        reads: of(|r| r.reads),
        writes: of(|r| r.writes),
        others: of(|r| r.others),
        mean_us: if weight > 0.0 { times / weight } else { 0.0 },
        bytes_in: of(|r| r.bytes_in),
        bytes_out: of(|r| r.bytes_out),
        disk_read: of(|r| r.disk_read),
        disk_written: of(|r| r.disk_written),
        cpu_percent: of(|r| r.cpu_percent),
        used: last.used,
    }
}

#[derive(Default)]
struct Kept {
    last: Option<Reading>,
    /// The last half hour, oldest first.
    steps: VecDeque<Rates>,
    /// The last day, oldest first.
    minutes: VecDeque<Rates>,
    /// The steps of the present minute.
    minute: Vec<Rates>,
}

fn push(ring: &mut VecDeque<Rates>, rates: Rates, max: usize) {
    if ring.len() == max {
        ring.pop_front();
    }
    ring.push_back(rates);
}

/// The kept rates. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Kept>>);

impl History {
    /// Takes a reading.
    pub(crate) fn add(&self, reading: Reading) {
        let mut kept = lock(&self.0);
        if let Some(old) = kept.last.replace(reading.clone()) {
            let rates = reading.since(&old);
            push(&mut kept.steps, rates, RATES_MAX);
            kept.minute.push(rates);
            if kept.minute.len() == RATES_OF_MINUTE {
                let minute = mean(&std::mem::take(&mut kept.minute));
                push(&mut kept.minutes, minute, MINUTES_MAX);
            }
        }
    }

    /// See [`ListRates`].
    pub(crate) fn list(&self, request: &ListRates) -> Vec<Rates> {
        let kept = lock(&self.0);
        let ring = if request.day {
            &kept.minutes
        } else {
            &kept.steps
        };
        let newer = ring.iter().filter(|r| r.time_ms > request.after_ms);
        newer.copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(step: u64, reads: u64) -> Reading {
        let key = ("export".to_owned(), "read".to_owned());
        Reading {
            at_ms: step * 2000,
            time_ms: 1_000_000 + step * 2000,
            requests: [(key, (reads, reads * 50_000))].into(),
            bytes_out: reads * 4096,
            disks: [("d".to_owned(), (reads * 4096, 0))].into(),
            cpu_ms: [(0, step * 1000), (1, 0)].into(),
            used: 7,
            ..Reading::default()
        }
    }

    #[test]
    fn rates_are_differences_of_readings() {
        let rates = reading(2, 300).since(&reading(1, 100));
        assert_eq!((rates.reads, rates.writes, rates.others), (100.0, 0.0, 0.0));
        assert_eq!(rates.mean_us, 50.0);
        assert_eq!(rates.bytes_out, 100.0 * 4096.0);
        assert_eq!(rates.disk_read, 100.0 * 4096.0);
        assert_eq!(rates.cpu_percent, 50.0);
        let back = reading(2, 0).since(&reading(1, 100));
        assert_eq!((back.reads, back.bytes_out, back.mean_us), (0.0, 0.0, 0.0));
    }

    #[test]
    fn the_history_is_bounded_and_has_minutes() {
        let history = History::default();
        let steps = (RATES_MAX + 2 * RATES_OF_MINUTE) as u64;
        for step in 0..=steps {
            history.add(reading(step, step * 10));
        }
        let all = history.list(&ListRates::default());
        assert_eq!(all.len(), RATES_MAX);
        assert!(all.iter().all(|r| r.reads == 5.0));
        let after_ms = all[all.len() - 3].time_ms;
        let newer = ListRates {
            after_ms,
            ..ListRates::default()
        };
        assert_eq!(history.list(&newer).len(), 2);
        let day = ListRates {
            day: true,
            ..ListRates::default()
        };
        let minutes = history.list(&day);
        assert_eq!(minutes.len(), steps as usize / RATES_OF_MINUTE);
        assert_eq!((minutes[0].reads, minutes[0].mean_us), (5.0, 50.0));
    }
}
