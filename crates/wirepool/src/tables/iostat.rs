//! Differences between two readings of counters, and the text output of `pool iostat`.
//!
//! **Owns** the differences between two readings of the counters. **Called by** `pool iostat` and `top`. **Invariants**:
//! counters that went back, because a pool was opened anew, count from zero.

use crate::columns::{table, text};
use serde::Serialize;
use server::ByteSize;
use server::api::{Cache, Member, Pool, RecordCache};
use std::time::Duration;

/// I/O statistics of an interval.
#[derive(Serialize)]
pub(crate) struct Iostat {
    /// Length of the interval, seconds; none since the pools were opened.
    seconds: Option<f64>,
    /// In the order of the reading.
    pub(crate) pools: Vec<PoolLoad>,
}

/// I/O statistics of the disks of a pool.
#[derive(Serialize)]
pub(crate) struct PoolLoad {
    name: String,
    used: u64,
    free: u64,
    #[serde(flatten)]
    pub(crate) load: Load,
    /// Lookups in the record cache that found a record, misses, and misses that a cache of twice the size would have
    /// found.
    pub(crate) cache_hits: u64,
    pub(crate) cache_misses: u64,
    cache_ghost_hits: u64,
    /// Blocks that cache devices had, and blocks that neither they nor memory had.
    pub(crate) cache_device_hits: u64,
    pub(crate) cache_device_misses: u64,
    /// In the order of the pool's vdevs and their members.
    pub(crate) disks: Vec<DiskLoad>,
}

#[derive(Serialize)]
pub(crate) struct DiskLoad {
    disk: String,
    #[serde(flatten)]
    pub(crate) load: Load,
}

/// Counts, or rates per second if the interval is known.
#[derive(Default, Clone, Serialize)]
pub(crate) struct Load {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Average duration of an operation, µs.
    pub(crate) read_us: u64,
    pub(crate) write_us: u64,
    pub(crate) flush_us: u64,
}

/// The rate of a counter per second; the count itself if the interval is not known.
pub(crate) fn per_second(count: u64, time: Option<Duration>) -> u64 {
    time.map_or(count, |t| (count as f64 / t.as_secs_f64()).round() as u64)
}

/// The growth of a counter between two readings.
pub(crate) fn growth(before: u64, now: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn load(before: Option<&Member>, now: &Member, time: Option<Duration>) -> Load {
    let since = |of: fn(&Member) -> u64| growth(before.map_or(0, of), of(now));
    let mean = |sum: fn(&Member) -> u64, count: fn(&Member) -> u64| {
        since(sum).checked_div(since(count)).unwrap_or(0)
    };
    Load {
        reads: per_second(since(|s| s.reads), time),
        writes: per_second(since(|s| s.writes), time),
        read_bytes: per_second(since(|s| s.read_bytes), time),
        written_bytes: per_second(since(|s| s.written_bytes), time),
        read_us: mean(|s| s.read_times.sum_us, |s| s.read_times.count),
        write_us: mean(|s| s.write_times.sum_us, |s| s.write_times.count),
        flush_us: mean(|s| s.flush_times.sum_us, |s| s.flush_times.count),
    }
}

fn members(p: &Pool) -> impl Iterator<Item = &Member> {
    p.vdevs.iter().flat_map(|v| &v.members)
}

impl PoolLoad {
    /// Hit rate of the record cache, and additional hits with twice the memory, percent.
    fn cached(&self) -> [String; 2] {
        let percent = |n: u64| match self.cache_hits + self.cache_misses {
            0 => "-".to_owned(),
            all => format!("{}%", n * 100 / all),
        };
        let more = percent(self.cache_ghost_hits);
        [
            percent(self.cache_hits),
            more.replacen("", "+", usize::from(more != "-")),
        ]
    }
}

impl Iostat {
    /// Statistics since the pools were opened.
    pub(crate) fn since_open(now: &[Pool]) -> Iostat {
        Iostat::of(&[], now, None)
    }

    /// Statistics between two readings.
    pub(crate) fn between(before: &[Pool], now: &[Pool], time: Duration) -> Iostat {
        Iostat::of(before, now, Some(time))
    }

    fn of(before: &[Pool], now: &[Pool], time: Option<Duration>) -> Iostat {
        let of_pool = |p: &Pool| {
            let old = before.iter().find(|b| b.guid == p.guid);
            let of_member = |s: &Member| {
                let old = old.and_then(|o| members(o).find(|b| b.guid == s.guid));
                let path = s.path.as_ref().map(|p| p.display().to_string());
                DiskLoad {
                    disk: path.unwrap_or_else(|| s.guid.clone()),
                    load: load(old, s, time),
                }
            };
            let disks: Vec<_> = members(p).map(of_member).collect();
            let sum = |of: fn(&Load) -> u64| disks.iter().map(|d| of(&d.load)).sum();
            let longest = |of: fn(&Load) -> u64| disks.iter().map(|d| of(&d.load)).max();
            let cached = |of: fn(&RecordCache) -> u64| {
                let (now, before) = (of(&p.record_cache), old.map_or(0, |o| of(&o.record_cache)));
                per_second(growth(before, now), time)
            };
            let on_devices = |of: fn(&Cache) -> u64| {
                let sum = |p: &Pool| p.caches.iter().map(of).sum::<u64>();
                per_second(growth(old.map_or(0, sum), sum(p)), time)
            };
            PoolLoad {
                cache_device_hits: on_devices(|c| c.hits),
                cache_device_misses: on_devices(|c| c.misses),
                cache_hits: cached(|c| c.hits),
                cache_misses: cached(|c| c.misses),
                cache_ghost_hits: cached(|c| c.ghost_hits),
                name: p.name.clone(),
                used: p.used,
                free: p.free,
                load: Load {
                    reads: sum(|l| l.reads),
                    writes: sum(|l| l.writes),
                    read_bytes: sum(|l| l.read_bytes),
                    written_bytes: sum(|l| l.written_bytes),
                    read_us: longest(|l| l.read_us).unwrap_or(0),
                    write_us: longest(|l| l.write_us).unwrap_or(0),
                    flush_us: longest(|l| l.flush_us).unwrap_or(0),
                },
                disks,
            }
        };
        Iostat {
            seconds: time.map(|t| t.as_secs_f64()),
            pools: now.iter().map(of_pool).collect(),
        }
    }

    /// As a table.
    pub(crate) fn text(&self, verbose: bool) -> String {
        let human = |bytes: u64| ByteSize(bytes).human();
        let mut header = vec![
            "POOL", "ALLOC", "FREE", "READS", "WRITES", "READ", "WRITTEN", "CACHED", "X2",
        ];
        if verbose {
            header.extend(["READ WAIT", "WRITE WAIT", "FLUSH WAIT"]);
        }
        let mut t = table(&header, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
        let row = |name: String, space: [String; 2], l: &Load, cached: [String; 2]| {
            let mut row = vec![name];
            row.extend(space);
            row.extend([l.reads.to_string(), l.writes.to_string()]);
            row.extend([human(l.read_bytes), human(l.written_bytes)]);
            row.extend(cached);
            if verbose {
                row.extend([l.read_us, l.write_us, l.flush_us].map(|us| format!("{us} µs")));
            }
            row
        };
        for p in &self.pools {
            let space = [human(p.used), human(p.free)];
            t.add_row(row(p.name.clone(), space, &p.load, p.cached()));
            for d in p.disks.iter().filter(|_| verbose) {
                let none = || ["-".to_owned(), "-".to_owned()];
                t.add_row(row(format!("  {}", d.disk), none(), &d.load, none()));
            }
        }
        text(&t)
    }
}
