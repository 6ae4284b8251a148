//! Runs the benches at a small size.

#[path = "../../../benches/compression.rs"]
mod compression;
#[path = "../../../benches/files.rs"]
mod files;
#[path = "../../../benches/many_datasets.rs"]
mod many_datasets;
#[path = "../../../benches/owner.rs"]
mod owner;
#[path = "../../../benches/parity.rs"]
mod parity;
#[path = "../../../benches/short_reads.rs"]
mod short_reads;
#[path = "../../../benches/tree.rs"]
mod tree;

use pool::tree::memory::MemoryStore;

#[test]
fn the_tree_bench_runs() {
    tree::run(&[2000], &[10, 500], 1000);
}

#[test]
fn the_compression_bench_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let scale = compression::Scale {
        size: 1 << 20,
        disk: 128 << 20,
    };
    compression::run(dir.path(), scale);
}

#[test]
fn a_change_never_costs_more_than_its_path() {
    let mut store = MemoryStore::new();
    let root = tree::aged_tree(&mut store, 16, 20_000);
    for (deltas, writes_max) in [(1, 2.0), (100, 1.0), (10_000, 0.02)] {
        let cost = tree::merge(&mut store, 16, root, 20_000, deltas);
        assert!(cost.writes <= writes_max, "{} of {deltas}", cost.writes);
        assert!(cost.reads <= writes_max && cost.bytes <= cost.writes * 16384.0);
    }
}

#[test]
fn the_bench_of_many_datasets_runs() {
    let scale = many_datasets::Scale {
        volumes: 3,
        snapshots: 2,
        checkpoints: 2,
        writes: 10,
    };
    many_datasets::run(&[scale]);
}

#[test]
fn the_bench_of_parity_runs() {
    parity::run(100, 2);
}

#[test]
fn the_bench_of_files_runs() {
    files::run(files::Scale {
        operations: 64,
        bytes: 8 << 20,
        entries: 100,
    });
}

/// A short read of a long record reads little more from the devices than one of a record of its size.
#[test]
fn a_short_read_costs_its_parts() {
    let [small, parts, whole] = short_reads::run(short_reads::Scale {
        reads: 500,
        bytes: 64 << 20,
    });
    for object in 0..2 {
        let bytes = |costs: [short_reads::Cost; 2]| costs[object].device_bytes;
        assert!(bytes(parts) <= 1.3 * bytes(small), "{parts:?} {small:?}");
        assert!(bytes(whole) > 10.0 * bytes(small), "{whole:?} {small:?}");
    }
}

#[test]
fn the_bench_of_the_owner_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let scale = owner::Scale {
        size: 4 << 20,
        disk: 256 << 20,
    };
    let costs = owner::run(dir.path(), scale);
    assert!(
        costs
            .iter()
            .all(|cost| cost.owner_us >= 0.0 && cost.shard_us >= 0.0)
    );
}
