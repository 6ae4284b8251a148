//! Tests of advice, with pools made by hand.

use super::*;
use crate::api::{BlocksBySize, DatasetSizes};

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

fn cache_of(bytes: u64, misses: u64, ghost_hits: u64) -> serde_json::Value {
    serde_json::json!({"limit": 1000, "bytes": bytes, "hits": 0, "misses": misses, "ghost_hits": ghost_hits})
}

#[test]
fn a_log_helps_where_the_journal_is_on_slow_disks() {
    let advice = |class, us| log(&pool(class, us, cache_of(0, 0, 0)));
    let slow = advice("normal", 9000);
    assert!(
        slow.helps && slow.reason.contains("median flush of /dev/a took 9000 µs"),
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
fn a_cache_helps_once_memory_is_full_and_records_return() {
    let advice = |bytes, misses, again| cache(&pool("normal", 1, cache_of(bytes, misses, again)));
    let growing = advice(500, 100, 90);
    assert!(
        !growing.helps && growing.reason.contains("still growing (500 B of 1000 B)"),
        "{growing:?}"
    );
    assert!(advice(950, 100, 40).helps);
    assert!(!advice(950, 100, 4).helps, "a scan");
}
