//! Sizes of device classes and of records, from the blocks, the measurements and the requests of a pool.
//!
//! **Owns** the judgement. **Called by** `wirepool pool advise`. **Invariants**: pure; a number follows from blocks and requests that were counted or from times that were
//! measured, and a dataset whose blocks were not counted is named.

use crate::api::{
    Accesses, Answered, BlockCount, OperationTimes, Pool, ReadsByCache, RecordCache, SizeReport,
    VdevClass,
};
use crate::size::ByteSize;
use doctor::checks::SLOW_JOURNAL_US;
use pool::space::NODES_PART;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Waits of clients for durable data, at least, for advice.
const WAITS_MIN: u64 = 100;
/// A log helps if a client waits for durable data during this part of the time, at least; the waits of several clients add up.
const WAITING_MIN: f64 = 0.01;
/// Seconds of a day.
const DAY_S: f64 = 86_400.0;
/// A cache in memory that is fuller than this, %, does not grow any more.
const FULL_PERCENT: u64 = 90;
/// Reads in the sample of reuse distances, at least, for advice.
const SAMPLED_MIN: u64 = 1000;
/// A cache device that answers this part of the reads more than memory does helps.
const HELPS: f64 = 0.1;
/// A cache is large enough if it answers this part of the reads that a cache of any size answers.
const MOST: f64 = 0.95;
/// Requests to a dataset, at least, for advice.
const REQUESTS_MIN: u64 = 1000;
/// Least advised size of records, bytes.
const RECORD_MIN: u32 = 4096;
/// With a smaller share of misses that twice the memory would have answered, %, a cache device brings little.
pub(crate) const AGAIN_PERCENT: u64 = 10;
/// From this share on, %, more memory comes before a cache device.
pub(crate) const MEMORY_FIRST_PERCENT: u64 = 20;

/// Sizes of a special class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SpecialAdvice {
    /// One for each threshold.
    pub thresholds: Vec<Threshold>,
    /// Datasets whose blocks are not known, and not in the sums.
    pub not_counted: Vec<String>,
}

/// What a special class takes with a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Threshold {
    /// `special_small_blocks`, bytes; 0 for nodes only.
    pub special_small_blocks: u64,
    /// Records on the class.
    pub records: u64,
    /// Bytes of nodes and of these records, in whole sectors.
    pub bytes: u64,
    /// The least size of the class for them: small records leave a quarter of it to nodes.
    pub class_size: u64,
}

/// Bytes in whole sectors. The last sector of a record that is no multiple of one is half used on average.
fn in_sectors(count: &BlockCount, sector: u64) -> u64 {
    let is_whole = count.bytes == count.blocks * count.up_to;
    match count.up_to <= sector {
        true => count.blocks * sector,
        false if is_whole => count.bytes,
        false => count.bytes + count.blocks * sector / 2,
    }
}

/// Sizes of a special class for the blocks that a pool has: for nodes only, and for each threshold.
#[must_use]
pub fn special(report: &SizeReport) -> SpecialAdvice {
    let sector = u64::from(report.sector.max(1));
    let known = || report.datasets.iter().filter_map(|d| d.blocks.as_ref());
    let nodes: u64 = known()
        .map(|b| b.nodes.bytes.next_multiple_of(sector))
        .sum();
    let mut bounds: Vec<u64> = known().flat_map(|b| &b.records).map(|c| c.up_to).collect();
    bounds.push(0);
    bounds.sort_unstable();
    bounds.dedup();
    // the threshold of a class is a whole sector at least
    bounds.retain(|bound| *bound == 0 || *bound >= sector);
    let thresholds = bounds.into_iter().map(|bound| {
        let small = known()
            .flat_map(|b| &b.records)
            .filter(|c| c.up_to <= bound);
        let (mut records, mut bytes) = (0, nodes);
        for count in small {
            records += count.blocks;
            bytes += in_sectors(count, sector);
        }
        let class_size = match records {
            0 => bytes,
            _ => bytes.div_ceil(NODES_PART - 1) * NODES_PART,
        };
        Threshold {
            special_small_blocks: bound,
            records,
            bytes,
            class_size,
        }
    });
    let unknown = report.datasets.iter().filter(|d| d.blocks.is_none());
    SpecialAdvice {
        thresholds: thresholds.collect(),
        not_counted: unknown.map(|d| d.name.clone()).collect(),
    }
}

/// Whether a class of devices would help.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassAdvice {
    /// Whether it would.
    pub helps: bool,
    /// The reason, with the numbers that it follows from.
    pub reason: String,
    /// The size that is enough, bytes.
    pub size: u64,
}

/// Whether a log would make durable writes faster, and what it would have to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogAdvice {
    /// Whether it would, why, and the size that is enough: a larger log is not used.
    #[serde(flatten)]
    pub advice: ClassAdvice,
    /// Times that clients waited for durable data since the pool was opened.
    pub waits: OperationTimes,
    /// Their rate.
    pub waits_a_second: f64,
    /// Bytes of the journal a day, at the rate since the pool was opened.
    pub journal_a_day: u64,
}

/// Whether a log would make durable writes to a pool faster: by the times of the disks that have its journal, and by the number and the
/// times of the waits of clients.
#[must_use]
pub fn log(pool: &Pool) -> LogAdvice {
    let durable = pool.durable_writes.unwrap_or_default();
    let seconds = durable.open_ms.max(1) as f64 / 1000.0;
    let (helps, reason) = match journal_is_slow(pool) {
        Ok(measured) => waits_are_long(&durable.waits, seconds, &measured),
        Err(reason) => (false, reason),
    };
    LogAdvice {
        advice: ClassAdvice {
            helps,
            reason,
            size: durable.log_size_min,
        },
        waits: durable.waits,
        waits_a_second: durable.waits.count as f64 / seconds,
        journal_a_day: (durable.journal_written as f64 * DAY_S / seconds) as u64,
    }
}

/// The measured times of the slowest disk with the journal. Errors: why a log would not be faster.
fn journal_is_slow(pool: &Pool) -> Result<String, String> {
    let with_journal = pool.vdevs.iter().filter(|v| v.journal);
    let members = with_journal.clone().flat_map(|v| &v.members);
    let times = members.flat_map(|m| [("write", &m.write_times, m), ("flush", &m.flush_times, m)]);
    let Some((kind, slowest, member)) = times.max_by_key(|(_, t, _)| t.p50_us) else {
        return Err("the pool has no disk with its journal".into());
    };
    let path = member.path.as_deref().unwrap_or(Path::new("a disk"));
    let measured = format!(
        "the median {kind} of {} took {} µs, 99 % of {} took at most {} µs",
        path.display(),
        slowest.p50_us,
        slowest.count,
        slowest.p99_us
    );
    if with_journal.into_iter().any(|v| v.class == VdevClass::Log) {
        return Err(format!("the journal is on a log: {measured}"));
    }
    match slowest.p50_us >= SLOW_JOURNAL_US {
        true => Ok(measured),
        false => Err(format!(
            "{measured}: only a log that is faster than that would help"
        )),
    }
}

/// Whether clients wait for durable data often and long, in `seconds`, and the reason. `measured` are the times of the journal's disk.
fn waits_are_long(waits: &OperationTimes, seconds: f64, measured: &str) -> (bool, String) {
    if waits.count < WAITS_MIN {
        let reason = format!(
            "clients waited only {} times for durable data since the pool was opened: ask again after a usual day",
            waits.count
        );
        return (false, reason);
    }
    let waiting = waits.sum_us as f64 / 1e6 / seconds;
    if waiting < WAITING_MIN {
        let reason = format!(
            "clients wait for durable data during {:.2} % of the time only",
            100.0 * waiting
        );
        return (false, reason);
    }
    let reason = format!(
        "clients waited {} times for durable data, {} µs at the median and {} µs in all but 1 % of the times, and {measured}: with a log, a small \
         durable write waits for the log alone",
        waits.count, waits.p50_us, waits.p99_us
    );
    (true, reason)
}

/// Why the record cache in memory comes before a cache device: there is none, no dataset uses it, or it is not full. `None` if it is full.
fn unused_memory(pool: &Pool) -> Option<String> {
    let (memory, datasets) = (&pool.record_cache, &pool.cached_datasets);
    if memory.limit == 0 {
        return Some(
            "the pool has no record cache in memory (record_cache_mib = 0): a larger `record_cache_mib` in the configuration comes before a \
             cache device"
                .into(),
        );
    }
    if datasets.all > 0 && datasets.in_memory == 0 {
        return Some(
            "no dataset keeps data in memory (primarycache=none or metadata), so the record cache does not grow: `wirepool set \
             primarycache=all DATASET`, for data that is read several times, comes before a cache device"
                .into(),
        );
    }
    let full = memory.limit.saturating_mul(FULL_PERCENT);
    (memory.bytes.saturating_mul(100) < full).then(|| {
        let part = match datasets.all.saturating_sub(datasets.in_memory) {
            0 => String::new(),
            without => format!(
                "; {without} of {} datasets do not use it (primarycache=none or metadata)",
                datasets.all
            ),
        };
        format!(
            "the record cache in memory is still growing ({} of {}): do not add a cache device before it is full{part}",
            ByteSize(memory.bytes).human(),
            ByteSize(memory.limit).human()
        )
    })
}

/// Share of a record cache's misses that twice the memory would have answered, %.
fn again_percent(memory: &RecordCache) -> u64 {
    let again = memory.ghost_hits.saturating_mul(100);
    again.checked_div(memory.misses).unwrap_or(0)
}

/// Why memory comes before a cache device; `None` if it does not.
#[must_use]
pub fn memory_first(pool: &Pool) -> Option<String> {
    let share = again_percent(&pool.record_cache);
    unused_memory(pool).or_else(|| {
        (share >= MEMORY_FIRST_PERCENT).then(|| {
            format!(
                "twice the record cache in memory would find {share}% of what it does not find: raise `record_cache_mib` before you add \
                 cache devices"
            )
        })
    })
}

/// Whether a cache device would answer reads, and of which size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheAdvice {
    /// Whether it would, why, and the size that is enough.
    #[serde(flatten)]
    pub advice: ClassAdvice,
    /// Sizes from the one of the memory on, while a larger one answers more.
    pub sizes: Vec<CacheSize>,
}

/// A size of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CacheSize {
    /// Bytes.
    pub size: u64,
    /// The reads that it answers, %.
    pub answered_percent: f64,
}

/// The part of reads that a cache of `size` bytes answers, between 0 and 1.
fn answered(reads: &ReadsByCache, size: u64) -> f64 {
    let (mut below, mut sum) = (0, 0);
    for class in &reads.answered {
        if class.size > size {
            let part = (size - below) as f64 / (class.size - below) as f64;
            let more = class.reads.saturating_sub(sum) as f64;
            return (sum as f64 + part * more) / reads.reads.max(1) as f64;
        }
        (below, sum) = (class.size, class.reads);
    }
    sum as f64 / reads.reads.max(1) as f64
}

/// Whether a cache device would answer many reads of a pool, by their reuse distances.
#[must_use]
pub fn cache(pool: &Pool, reads: &ReadsByCache) -> CacheAdvice {
    let memory = &pool.record_cache;
    let no = |reason| CacheAdvice {
        advice: ClassAdvice {
            helps: false,
            reason,
            size: memory.limit,
        },
        sizes: Vec::new(),
    };
    if let Some(reason) = unused_memory(pool) {
        return no(reason);
    }
    let datasets = &pool.cached_datasets;
    if datasets.all > 0 && datasets.on_devices == 0 {
        return no(
            "no dataset keeps data on cache devices (secondarycache=none or metadata): a cache device would have no data before `wirepool \
             set secondarycache=all DATASET`"
                .into(),
        );
    }
    if reads.sampled < SAMPLED_MIN {
        return no(format!(
            "only {} reads are known since the pool was opened: ask again after a usual day",
            reads.reads
        ));
    }
    let of = |size| answered(reads, size);
    let (now, most) = (of(memory.limit), of(u64::MAX));
    let is_enough = |class: &&Answered| class.size > memory.limit && of(class.size) >= MOST * most;
    let enough = reads.answered.iter().find(is_enough);
    let size = enough.map_or(2 * memory.limit, |class| class.size);
    let larger = reads.answered.iter().map(|class| class.size);
    let larger = larger.filter(|class| *class > memory.limit && *class <= 2 * size);
    let sizes = std::iter::once(memory.limit).chain(larger);
    let sizes = sizes.map(|size| CacheSize {
        size,
        answered_percent: 100.0 * of(size),
    });
    let percent = |part: f64| format!("{:.0} %", 100.0 * part);
    let advice = ClassAdvice {
        helps: of(size) - now >= HELPS,
        reason: format!(
            "memory answers {} of {} reads, a device of the advised size answers {}, one of twice that {}; {} of the reads are the first of \
             their record, which no cache answers",
            percent(now),
            reads.reads,
            percent(of(size)),
            percent(of(2 * size)),
            percent(1.0 - most)
        ),
        size,
    };
    CacheAdvice {
        advice,
        sizes: sizes.collect(),
    }
}

/// The record size of a dataset, and a better one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordSizeAdvice {
    /// The volume or filesystem.
    pub dataset: String,
    /// Its `recordsize`, bytes.
    pub record_size: u32,
    /// Requests of clients since the pool was opened.
    pub accesses: Accesses,
    /// A `recordsize` that fits the requests better, bytes. It counts for new files and new volumes.
    pub advised: Option<u32>,
}

/// Record sizes for the requests that clients made. One for each dataset.
#[must_use]
pub fn record_sizes(report: &SizeReport) -> Vec<RecordSizeAdvice> {
    let of = report.datasets.iter().map(|d| RecordSizeAdvice {
        dataset: d.name.clone(),
        record_size: d.record_size,
        accesses: d.accesses,
        advised: advised(d.record_size, &d.accesses),
    });
    of.collect()
}

/// The size of most short requests, if these are half of all.
fn advised(record_size: u32, accesses: &Accesses) -> Option<u32> {
    let all = accesses.reads + accesses.writes;
    let short = accesses.short_reads + accesses.short_overwrites;
    let bytes = accesses.short_read_bytes + accesses.short_overwrite_bytes;
    if all < REQUESTS_MIN || 2 * short < all {
        return None;
    }
    let mean = u32::try_from(bytes / short).unwrap_or(u32::MAX);
    let better = mean.next_power_of_two().max(RECORD_MIN);
    (better < record_size).then_some(better)
}

#[cfg(test)]
mod tests;
