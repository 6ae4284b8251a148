//! Tests of advice, with pools made by hand.

use super::*;
use crate::api::{BlocksBySize, CachedDatasets, DatasetSizes};

fn count(up_to: u64, blocks: u64, bytes: u64) -> BlockCount {
    BlockCount {
        up_to,
        blocks,
        bytes,
    }
}

fn dataset(name: &str, blocks: Option<BlocksBySize>) -> DatasetSizes {
    DatasetSizes {
        name: name.into(),
        blocks,
        record_size: 4096,
        accesses: Accesses::default(),
    }
}

#[test]
fn a_special_class_is_as_large_as_nodes_and_small_records_in_sectors() {
    let blocks = BlocksBySize {
        nodes: count(0, 3, 3 * 65_536),
        records: vec![
            count(512, 10, 4000),
            count(4096, 10, 10 * 4096),
            count(16_384, 4, 4 * 10_000),
            count(131_072, 2, 2 * 131_072),
        ],
    };
    let report = SizeReport {
        sector: 4096,
        datasets: vec![dataset("tank/a", Some(blocks)), dataset("tank/old", None)],
        reads: ReadsByCache::default(),
    };
    let advice = special(&report);
    assert_eq!(advice.not_counted, ["tank/old"]);
    let of = |bound| {
        advice
            .thresholds
            .iter()
            .find(move |t| t.special_small_blocks == bound)
    };
    let nodes = of(0).expect("nodes only");
    assert_eq!(
        (nodes.records, nodes.bytes, nodes.class_size),
        (0, 196_608, 196_608)
    );
    let small = of(4096).expect("one sector");
    assert_eq!((small.records, small.bytes), (20, 196_608 + 20 * 4096));
    assert_eq!(small.class_size * 3, small.bytes.next_multiple_of(3) * 4);
    let medium = of(16_384).expect("four sectors");
    assert_eq!(medium.bytes, small.bytes + 40_000 + 4 * 2048);
    let all = of(131_072).expect("all records");
    assert_eq!(all.bytes, medium.bytes + 2 * 131_072);
    assert!(of(512).is_none(), "no record takes less than a sector");
}

fn no_cache() -> serde_json::Value {
    serde_json::json!({"limit": 0, "bytes": 0, "hits": 0, "misses": 0, "ghost_hits": 0})
}

/// A pool whose journal is on a disk of this class with this median of a flush, and whose clients waited `waits` times for it in ten minutes.
fn waiting(class: &str, flush_us: u64, waits: u64) -> Pool {
    let mut pool = pool(class, flush_us, no_cache());
    pool.durable_writes = Some(crate::api::DurableWrites {
        waits: OperationTimes {
            count: waits,
            sum_us: waits * flush_us,
            p50_us: flush_us,
            p99_us: 2 * flush_us,
            max_us: 3 * flush_us,
        },
        open_ms: 600_000,
        journal_written: 10 << 20,
        log_size_min: 258 << 20,
        ..Default::default()
    });
    pool
}

/// A pool whose journal is on a disk of this class with this median of a flush.
fn pool(class: &str, flush_us: u64, cache: serde_json::Value) -> Pool {
    let times = |us: u64| serde_json::json!({"count": 5000, "sum_us": 5000 * us, "p50_us": us, "p99_us": 2 * us, "max_us": 3 * us});
    let member = serde_json::json!({
        "guid": "", "path": "/dev/a", "state": "online", "write_times": times(50), "flush_times": times(flush_us), "reads": 0, "writes": 1,
        "read_errors": 0, "write_errors": 0, "checksum_errors": 0, "repairs": 0,
    });
    let vdev = serde_json::json!({
        "name": "disk-0", "layout": "disk", "class": class, "journal": true, "health": "online", "size": 1, "members": [member],
    });
    let pool = serde_json::json!({
        "name": "tank", "guid": "", "state": "online", "health": "online", "reason": null, "disks": [], "size": 1, "used": 0,
        "freeing": 0, "free": 1, "reserved": 0, "dirty": 0, "vdevs": [vdev], "record_cache": cache,
    });
    serde_json::from_value(pool).expect("a pool")
}

#[test]
fn a_log_helps_where_the_journal_is_on_slow_disks() {
    let advice = |class, us| log(&waiting(class, us, 6000)).advice;
    let slow = advice("normal", 9000);
    assert!(
        slow.helps && slow.reason.contains("median flush of /dev/a took 9000 µs"),
        "{slow:?}"
    );
    assert!(
        slow.reason.contains("clients waited 6000 times") && slow.size == 258 << 20,
        "{slow:?}"
    );
    assert!(!advice("normal", 100).helps);
    let has_log = advice("log", 9000);
    assert!(
        !has_log.helps && has_log.reason.contains("on a log"),
        "{has_log:?}"
    );
}

#[test]
fn a_log_helps_where_clients_wait_for_durable_data() {
    let of = |waits| log(&waiting("normal", 9000, waits));
    let few = of(99).advice;
    assert!(
        !few.helps && few.reason.contains("only 99 times"),
        "{few:?}"
    );
    // 0.9 % and 1.05 % of ten minutes
    let seldom = of(600).advice;
    assert!(
        !seldom.helps && seldom.reason.contains("0.90 % of the time"),
        "{seldom:?}"
    );
    let often = of(700);
    assert!(often.advice.helps, "{often:?}");
    assert!((often.waits_a_second - 7.0 / 6.0).abs() < 1e-9, "{often:?}");
    assert_eq!(often.journal_a_day, 144 * (10 << 20));
    let unknown = log(&pool("normal", 9000, no_cache()));
    assert!(!unknown.advice.helps, "{unknown:?}");
}

/// Reads of a set of this many bytes in turn, and as many first reads.
fn turns(size: u64) -> ReadsByCache {
    let classes = (0..25).map(|n| 1 << 20 << n);
    let answered = classes.map(|class| Answered {
        size: class,
        reads: if class >= size { 50_000 } else { 0 },
    });
    ReadsByCache {
        sampled: 2000,
        reads: 100_000,
        answered: answered.collect(),
    }
}

#[test]
fn a_cache_helps_once_memory_is_full_and_records_return() {
    const MIB: u64 = 1 << 20;
    let memory = |bytes| serde_json::json!({"limit": 64 * MIB, "bytes": bytes, "hits": 0, "misses": 0, "ghost_hits": 0});
    let advice = |bytes, reads: &ReadsByCache| cache(&pool("normal", 1, memory(bytes)), reads);
    let growing = advice(32 * MIB, &turns(512 * MIB)).advice;
    assert!(
        !growing.helps && growing.reason.contains("still growing (32 MiB of 64 MiB)"),
        "{growing:?}"
    );
    let full = 63 * MIB;
    let helps = advice(full, &turns(512 * MIB));
    assert!(helps.advice.helps, "{helps:?}");
    assert_eq!(helps.advice.size, 512 * MIB);
    let sizes: Vec<_> = helps
        .sizes
        .iter()
        .map(|s| (s.size / MIB, s.answered_percent))
        .collect();
    assert_eq!(
        sizes,
        [(64, 0.0), (128, 0.0), (256, 0.0), (512, 50.0), (1024, 50.0)]
    );
    let fits = advice(full, &turns(64 * MIB)).advice;
    assert!(
        !fits.helps && fits.reason.contains("memory answers 50 %"),
        "{fits:?}"
    );
    let few = ReadsByCache {
        sampled: 10,
        ..turns(512 * MIB)
    };
    let few = advice(full, &few).advice;
    assert!(!few.helps && few.reason.contains("ask again"), "{few:?}");
}

#[test]
fn a_cache_waits_for_data_that_caches_keep() {
    const MIB: u64 = 1 << 20;
    let advice = |limit: u64, bytes: u64, (in_memory, on_devices): (u64, u64)| {
        let memory = serde_json::json!({"limit": limit, "bytes": bytes, "hits": 0, "misses": 0, "ghost_hits": 0});
        let mut pool = pool("normal", 1, memory);
        pool.cached_datasets = CachedDatasets {
            all: 3,
            in_memory,
            on_devices,
        };
        (cache(&pool, &turns(512 * MIB)).advice, memory_first(&pool))
    };
    // records stay in memory when `primarycache` changes
    for bytes in [0, 64 * MIB] {
        let (unused, first) = advice(64 * MIB, bytes, (0, 3));
        assert!(
            !unused.helps
                && unused.reason.contains("no dataset keeps data in memory")
                && unused.reason.contains("wirepool set primarycache=all")
                && !unused.reason.contains("growing"),
            "{unused:?}"
        );
        assert_eq!(first, Some(unused.reason));
    }
    let (partly, _) = advice(64 * MIB, 0, (1, 3));
    assert!(
        partly.reason.contains("still growing (0 B of 64 MiB)")
            && partly.reason.contains("2 of 3 datasets"),
        "{partly:?}"
    );
    let (off, first) = advice(0, 0, (3, 3));
    assert!(
        !off.helps && off.reason.contains("record_cache_mib = 0"),
        "{off:?}"
    );
    assert_eq!(first, Some(off.reason));
    let (nothing_for_devices, first) = advice(64 * MIB, 64 * MIB, (3, 0));
    assert!(
        !nothing_for_devices.helps
            && nothing_for_devices
                .reason
                .contains("wirepool set secondarycache=all"),
        "{nothing_for_devices:?}"
    );
    assert_eq!(first, None);
    assert!(advice(64 * MIB, 64 * MIB, (1, 1)).0.helps);
}

#[test]
fn records_are_as_long_as_most_short_requests() {
    let accesses = |reads: (u64, u64), writes: (u64, u64)| Accesses {
        reads: reads.0,
        short_reads: reads.1,
        short_read_bytes: reads.1 * 4096,
        writes: writes.0,
        short_overwrites: writes.1,
        short_overwrite_bytes: writes.1 * 12_000,
    };
    let advice = |accesses| {
        let mut of = dataset("tank/a", None);
        of.record_size = 131_072;
        of.accesses = accesses;
        let report = SizeReport {
            sector: 4096,
            datasets: vec![of],
            reads: ReadsByCache::default(),
        };
        record_sizes(&report)[0].advised
    };
    assert_eq!(advice(accesses((5000, 4000), (0, 0))), Some(4096));
    assert_eq!(advice(accesses((0, 0), (5000, 4000))), Some(16_384));
    assert_eq!(
        advice(accesses((5000, 1000), (5000, 1000))),
        None,
        "mostly long"
    );
    assert_eq!(advice(accesses((500, 400), (0, 0))), None, "few");
    assert_eq!(advice(accesses((0, 0), (0, 0))), None, "none");
}
