//! Checks of the device classes of pools: special class, log and cache devices.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; without a server they are not made; a virtual disk, which says that it
//! has platters although its host decides, is not taken for a hard disk.

use super::member::{OPERATIONS_MIN, SLOW_JOURNAL_US, members};
use super::served::pools;
use crate::Known;
use crate::check::{Check, Judge, Side};
use crate::facts::{CacheDevice, Disk, Facts, Member};
use crate::report::Severity;
use crate::step::Step;

/// Lookups of a cache device that are enough for a judgement.
const LOOKUPS_MIN: u64 = 100_000;
/// Used part of a cache device from which it is warm, percent.
const WARM_PERCENT: u64 = 90;
/// A warm cache device that finds a smaller part of its lookups brings nothing, percent.
const HITS_PERCENT_MIN: u64 = 5;
/// Part of all reads of a pool's disks from which metadata dominates, percent.
const NODES_PERCENT: u64 = 50;
/// Datasets that a finding names at most.
const NAMES_MAX: usize = 3;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "special-full",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a special class that had no room for metadata or small records (a note if it has room again, or if three quarters of it are used)",
        why: "Metadata and small records are on the slow disks then, with a seek for each.",
        risk: "None for data: a special vdev needs the redundancy of the pool, since the pool is lost with it.",
        judge: special_full,
    },
    Check {
        id: "class-less-redundant",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a special vdev that survives fewer failed disks than the data (a note for a log)",
        why: "The whole pool is lost with a special vdev, although all disks with data are there. A log that fails together with the machine \
              loses the durable writes of the last seconds.",
        risk: "A resilver reads all data of the vdev's other members.",
        judge: less_redundant,
    },
    Check {
        id: "class-on-hard-disk",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a special vdev, a log or a cache device on a hard disk beside data on solid-state disks (a note if all data is on hard disks)",
        why: "Each metadata read, durable write or cached read then waits for platters that the data itself does not wait for.",
        risk: "A special vdev and a log can be replaced and removed under load; a cache device is never needed.",
        judge: on_hard_disk,
    },
    Check {
        id: "cache-device-out",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a cache device that is not used",
        why: "It failed or was not found. All data is read from the other disks, as slowly as without a cache.",
        risk: "None: a cache device is never needed.",
        judge: cache_out,
    },
    Check {
        id: "cache-device-idle",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a cache device that is 90 % full and finds less than 5 % of the blocks that memory does not have",
        why: "It takes memory for its tables, and wears out, and answers almost nothing: the clients' reads do not return, or return too late.",
        risk: "None: a cache device is never needed.",
        judge: cache_idle,
    },
    Check {
        id: "cache-before-memory",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a pool with cache devices whose record cache in memory is off, is used by no dataset (`primarycache`), is still growing, or would find a fifth more with twice its size",
        why: "Memory answers a thousand times faster than a device, and the device's tables take a part of it.",
        risk: "Memory that the record cache takes is not there for other programs.",
        judge: before_memory,
    },
    Check {
        id: "metadata-on-slow-disks",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a pool without a special class whose disks spend half of their reads or more on metadata, 2 ms or longer each",
        why: "Directories, inodes and pointers are many small blocks: on hard disks each costs a seek, and they would fit a small device on flash.",
        risk: "The pool is lost with its special vdev: it needs the redundancy of the data.",
        judge: metadata_on_slow,
    },
];

fn caches<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f CacheDevice)> {
    let server = j.know("", &facts.server);
    let caches = server.into_iter().flat_map(|s| &s.caches);
    let name = |c: &CacheDevice| format!("cache device {} of pool {}", c.path, c.pool);
    caches.map(|c| (name(c), c)).collect()
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

fn percent(part: u64, of: u64) -> u64 {
    part.saturating_mul(100).checked_div(of).unwrap_or(0)
}

fn special_full(facts: &Facts, j: &mut Judge) {
    for (name, pool) in pools(facts, j) {
        let Some(class) = &pool.special else { continue };
        let spilled: u64 = class.spilled.iter().map(|(_, bytes)| bytes).sum();
        let severity = match (spilled > 0, class.takes_small_records) {
            (true, false) => Severity::Warning,
            (false, true) => continue,
            _ => Severity::Note,
        };
        let mut evidence = format!("{} of {} free", mib(class.free), mib(class.size));
        let mut steps = Vec::new();
        let mut room = class.size;
        if spilled > 0 {
            let mut largest = class.spilled.clone();
            largest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
            let named = largest.iter().take(NAMES_MAX);
            let named: Vec<String> = named
                .map(|(dataset, bytes)| format!("{dataset} {}", mib(*bytes)))
                .collect();
            let left = largest.len().saturating_sub(NAMES_MAX);
            let more = match left {
                0 => String::new(),
                n => format!(" and {n} more datasets"),
            };
            evidence += &format!(
                "; {} went to the other vdevs since the pool was opened: {}{more}",
                mib(spilled),
                named.join(", ")
            );
            // a quarter stays free for metadata
            room = spilled + spilled / 3;
        }
        steps.push(Step::advice(format!(
            "wirepool pool add {} special mirror DISK DISK, of {} or more each (`wirepool pool advise special {}` counts what it would take)",
            pool.name,
            mib(room),
            pool.name
        )));
        steps.push(Step::advice(
            "or a smaller special_small_blocks for the datasets that need it least",
        ));
        j.find_as(severity, name, evidence, steps);
    }
}

fn is_of_data(m: &Member) -> bool {
    !matches!(m.class.as_str(), "special" | "log")
}

fn less_redundant(facts: &Facts, j: &mut Judge) {
    let all = members(facts, j);
    let mut seen = Vec::new();
    for (_, m) in all.iter().filter(|(_, m)| !is_of_data(m)) {
        let data = all.iter().map(|(_, d)| d);
        let data = data.filter(|d| d.pool == m.pool && is_of_data(d));
        let usual = data.map(|d| d.may_fail).min().unwrap_or(0);
        if m.may_fail >= usual || seen.contains(&(&m.pool, &m.vdev)) {
            continue;
        }
        seen.push((&m.pool, &m.vdev));
        let severity = match m.class.as_str() {
            "special" => Severity::Warning,
            _ => Severity::Note,
        };
        let evidence = format!(
            "{} of its disks may fail, and {usual} of each vdev with data",
            m.may_fail
        );
        let object = format!("{} {} of pool {}", m.class, m.vdev, m.pool);
        let text = format!("wirepool pool attach {} {} NEW-DISK", m.pool, m.path);
        j.find_as(severity, object, evidence, vec![Step::advice(text)]);
    }
}

/// Whether a disk has platters. `None` if that is not known, and for virtual disks.
fn is_hard(j: &mut Judge, name: &str, disks: &[Disk], disk: &Known<String>) -> Option<bool> {
    let disk = j.know(name, disk)?;
    let disk = disks.iter().find(|d| d.name == *disk)?;
    let is_rotational = *j.know(name, &disk.is_rotational)?;
    let is_real = matches!(disk.transport.as_str(), "sata" | "sas" | "scsi" | "usb");
    (!is_rotational || is_real).then_some(is_rotational)
}

fn on_hard_disk(facts: &Facts, j: &mut Judge) {
    let (members, caches) = (members(facts, j), caches(facts, j));
    let Some(disks) = j.know("", &facts.disks) else {
        return;
    };
    let mut classes: Vec<(String, &str, &Known<String>, &str)> = Vec::new();
    for (name, m) in members.iter().filter(|(_, m)| !is_of_data(m)) {
        let step = "wirepool pool replace POOL DISK NEW-DISK, with a disk of flash";
        classes.push((format!("{} {name}", m.class), &m.pool, &m.disk, step));
    }
    for (name, c) in &caches {
        let step = "wirepool pool remove POOL DISK, and add a device of flash";
        classes.push((name.clone(), &c.pool, &c.disk, step));
    }
    for (name, pool, disk, step) in classes {
        if is_hard(j, &name, disks, disk) != Some(true) {
            continue;
        }
        let data = members
            .iter()
            .filter(|(_, m)| m.pool == pool && is_of_data(m));
        let is_fast =
            |(name, m): &(String, &Member)| is_hard(j, name, disks, &m.disk) == Some(false);
        let (severity, beside) = match data.clone().any(is_fast) {
            true => (Severity::Warning, "the data is on solid-state disks"),
            false => (Severity::Note, "it is no faster than the disks of the data"),
        };
        let disk = disk.value().map_or("", String::as_str);
        let evidence = format!("{disk} has platters; {beside}");
        j.find_as(severity, name, evidence, vec![Step::advice(step)]);
    }
}

fn cache_out(facts: &Facts, j: &mut Judge) {
    for (name, cache) in caches(facts, j) {
        if let Some(reason) = &cache.unusable {
            let text = format!(
                "wirepool pool remove {0} {1}; then `wirepool pool add {0} cache DISK`, with this disk or another one",
                cache.pool, cache.path
            );
            j.find(name, reason.clone(), vec![Step::advice(text)]);
        }
    }
}

fn cache_idle(facts: &Facts, j: &mut Judge) {
    for (name, cache) in caches(facts, j) {
        let lookups = cache.hits + cache.misses;
        let is_warm = percent(cache.used, cache.size) >= WARM_PERCENT;
        let found = percent(cache.hits, lookups);
        if lookups < LOOKUPS_MIN || !is_warm || found >= HITS_PERCENT_MIN {
            continue;
        }
        let twice = cache.hits + cache.hits_of_twice.min(cache.misses);
        let evidence = format!(
            "it finds {found} % of {lookups} blocks, twice its size would find {} %",
            percent(twice, lookups)
        );
        let remove = format!("wirepool pool remove {} {}", cache.pool, cache.path);
        let text =
            "or secondarycache=metadata for datasets that are read once, from beginning to end";
        j.find(
            name,
            evidence,
            vec![Step::advice(remove), Step::advice(text)],
        );
    }
}

fn before_memory(facts: &Facts, j: &mut Judge) {
    let caches = caches(facts, j);
    for (name, pool) in pools(facts, j) {
        let Some(reason) = &pool.memory_first else {
            continue;
        };
        if caches.iter().any(|(_, c)| c.pool == pool.name) {
            let text = "a larger record_cache_mib of the pool in the configuration, if the machine has the memory, and primarycache=all for datasets that are read several times";
            j.find(name, reason.clone(), vec![Step::advice(text)]);
        }
    }
}

fn metadata_on_slow(facts: &Facts, j: &mut Judge) {
    let members = members(facts, j);
    for (name, pool) in pools(facts, j) {
        let own = members.iter().filter(|(_, m)| m.pool == pool.name);
        let reads: u64 = own.map(|(_, m)| m.reads.count).sum();
        let share = percent(pool.node_reads, reads.max(pool.node_reads));
        let is_slow = pool.node_read_us >= SLOW_JOURNAL_US;
        if pool.special.is_some()
            || pool.node_reads < OPERATIONS_MIN
            || !is_slow
            || share < NODES_PERCENT
        {
            continue;
        }
        let evidence = format!(
            "{} of {reads} reads of its disks were of metadata, {} µs each on average",
            pool.node_reads, pool.node_read_us
        );
        let text = format!(
            "wirepool pool add {0} special mirror DISK DISK, on flash (`wirepool pool advise special {0}` has the size)",
            pool.name
        );
        j.find(name, evidence, vec![Step::advice(text)]);
    }
}
