//! Sizes of device classes, from the blocks and the measurements of a pool.
//!
//! **Owns** the judgement. **Called by** `wirepool pool advise`. **Invariants**: pure; a number follows from blocks that were counted or from times that were
//! measured, and a dataset whose blocks were not counted is named.

use crate::api::{BlockCount, Pool, RecordCache, SizeReport, VdevClass};
use crate::size::ByteSize;
use doctor::checks::SLOW_JOURNAL_US;
use pool::space::NODES_PART;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A log device of this size has room for the largest journal and the labels, bytes.
pub const LOG_SIZE: u64 = 512 << 20;
/// A cache in memory that is fuller than this, %, does not grow any more.
const FULL_PERCENT: u64 = 90;
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

/// Whether a log would make durable writes to a pool faster: by the times of the disks that have its journal.
#[must_use]
pub fn log(pool: &Pool) -> ClassAdvice {
    let with_journal = pool.vdevs.iter().filter(|v| v.journal);
    let advice = |helps, reason| ClassAdvice {
        helps,
        reason,
        size: LOG_SIZE,
    };
    let members = with_journal.clone().flat_map(|v| &v.members);
    let times = members.flat_map(|m| [("write", &m.write_times, m), ("flush", &m.flush_times, m)]);
    let Some((kind, slowest, member)) = times.max_by_key(|(_, t, _)| t.p50_us) else {
        return advice(false, "the pool has no disk with its journal".into());
    };
    let path = member
        .path
        .as_deref()
        .unwrap_or(std::path::Path::new("a disk"));
    let measured = format!(
        "the median {kind} of {} took {} µs, 99 % of {} took at most {} µs",
        path.display(),
        slowest.p50_us,
        slowest.count,
        slowest.p99_us
    );
    if with_journal.into_iter().any(|v| v.class == VdevClass::Log) {
        return advice(false, format!("the journal is on a log: {measured}"));
    }
    match slowest.p50_us >= SLOW_JOURNAL_US {
        true => advice(
            true,
            format!(
                "{measured}: a small durable write waits for it, and with a log for the log alone"
            ),
        ),
        false => advice(
            false,
            format!("{measured}: only a log that is faster than that would help"),
        ),
    }
}

/// The reason if the record cache in memory is not full yet.
fn growing(memory: &RecordCache) -> Option<String> {
    let full = memory.limit.saturating_mul(FULL_PERCENT);
    (memory.bytes.saturating_mul(100) < full).then(|| {
        format!(
            "the record cache in memory is still growing ({} of {}): do not add a cache device before it is full",
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
pub fn memory_first(memory: &RecordCache) -> Option<String> {
    if memory.limit == 0 {
        return Some(
            "the pool has no record cache in memory: `record_cache_mib` comes first".into(),
        );
    }
    let share = again_percent(memory);
    growing(memory).or_else(|| {
        (share >= MEMORY_FIRST_PERCENT).then(|| {
            format!(
                "twice the record cache in memory would find {share}% of what it does not find: raise `record_cache_mib` before you add \
                 cache devices"
            )
        })
    })
}

/// Whether a cache device would answer many reads of a pool: by the misses of its cache in memory.
#[must_use]
pub fn cache(pool: &Pool) -> ClassAdvice {
    let memory = &pool.record_cache;
    let advice = |helps, reason| ClassAdvice {
        helps,
        reason,
        size: memory.limit,
    };
    if let Some(reason) = growing(memory) {
        return advice(false, reason);
    }
    let again = again_percent(memory);
    let measured = format!(
        "{again} % of {} reads that the cache in memory did not answer were of records that it had evicted a short time before",
        memory.misses
    );
    match again >= AGAIN_PERCENT {
        true => advice(
            true,
            format!(
                "{measured}: a device of at least the size of that memory answers them; more memory does it faster"
            ),
        ),
        false => advice(
            false,
            format!("{measured}: a cache device would answer few reads"),
        ),
    }
}

#[cfg(test)]
mod tests;
