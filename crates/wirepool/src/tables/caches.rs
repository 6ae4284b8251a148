//! Cache devices in `wirepool pool status`: their state, what they bring, and whether memory comes first.
//!
//! **Called by** [`super::pools`]. **Invariant**: a pool without cache devices has no line of them.

use crate::columns::human;
use comfy_table::Table;
use server::advice;
use server::api::{Cache, Pool};
use std::fmt::Write;

/// The rows of the table of disks.
pub(super) fn rows(table: &mut Table, pool: &Pool, verbose: bool) {
    if !pool.caches.is_empty() {
        table.add_row(["cache"]);
    }
    for cache in &pool.caches {
        let state = match &cache.reason {
            None => "ONLINE".to_owned(),
            Some(reason) => format!("UNAVAIL ({reason})"),
        };
        let mut row = vec![format!("  {}", cache.path.display()), state];
        if verbose {
            row.extend(["", "", "", "", "", "", &cache.guid].map(str::to_owned));
        }
        table.add_row(row);
    }
}

/// The lines behind the table.
pub(super) fn lines(pool: &Pool, verbose: bool) -> String {
    let mut out = String::new();
    for cache in pool.caches.iter().filter(|c| verbose && c.size > 0) {
        out += &one(cache);
    }
    let first = advice::memory_first(pool);
    if let Some(advice) = first.filter(|_| !pool.caches.is_empty()) {
        let _ = writeln!(out, "cache: {advice}");
    }
    out
}

fn percent(part: u64, of: u64) -> u64 {
    part.saturating_mul(100).checked_div(of).unwrap_or(0)
}

fn one(c: &Cache) -> String {
    let lookups = c.hits + c.misses;
    let twice = c.hits + c.hits_of_twice.min(c.misses);
    let mut out = format!(
        "cache {}: {} of {} used by {} blocks ({} of memory); found {}% of {lookups} blocks that memory did not have ({}), twice its \
         size would find {}%; {} of {} a day written",
        c.path.display(),
        human(c.used),
        human(c.size),
        c.blocks,
        human(c.memory),
        percent(c.hits, lookups),
        human(c.hit_bytes),
        percent(twice, lookups),
        human(c.written_today),
        human(c.daily),
    );
    if c.over_budget > 0 {
        let _ = write!(out, ", {} blocks waited for the next day", c.over_budget);
    }
    if c.wrong + c.read_errors > 0 {
        let (wrong, failed) = (c.wrong, c.read_errors);
        let _ = write!(out, "; {wrong} wrong blocks, {failed} failed reads");
    }
    out + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use server::api::RecordCache;

    fn memory(bytes: u64, misses: u64, ghost_hits: u64) -> RecordCache {
        RecordCache {
            limit: 1 << 30,
            bytes,
            misses,
            ghost_hits,
            ..RecordCache::default()
        }
    }

    fn pool(record_cache: RecordCache, caches: Vec<Cache>) -> Pool {
        let text = r#"{"name":"tank","guid":"","state":"online","disks":[],"size":0,"used":0,"freeing":0,"free":0,"reserved":0,
            "dirty":0,"vdevs":[]}"#;
        let pool: Pool = serde_json::from_str(text).expect("a pool");
        Pool {
            record_cache,
            caches,
            ..pool
        }
    }

    #[test]
    fn memory_comes_first() {
        let cache = Cache {
            path: "/dev/fast".into(),
            size: 1 << 30,
            hits: 60,
            misses: 40,
            hits_of_twice: 64,
            ..Cache::default()
        };
        for (record_cache, said) in [
            (memory(1 << 20, 0, 0), "still growing (1 MiB of 1 GiB)"),
            (memory(1 << 30, 100, 30), "would find 30% of what"),
            (RecordCache::default(), "no record cache"),
        ] {
            let lines = lines(&pool(record_cache, vec![cache.clone()]), true);
            assert!(lines.contains(said), "{lines}");
            assert!(lines.contains("found 60% of 100 blocks"), "{lines}");
            assert!(lines.contains("twice its size would find 100%"), "{lines}");
        }
        let grown = memory(1 << 30, 100, 3);
        let sound = lines(&pool(grown, vec![cache]), false);
        assert_eq!(sound, "");
        assert_eq!(lines(&pool(memory(0, 0, 0), Vec::new()), true), "");
    }
}
