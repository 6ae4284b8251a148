//! The benches run, at a size that takes no time.

#[path = "../benches/snapshots.rs"]
mod snapshots;
#[path = "../benches/tree.rs"]
mod tree;
#[path = "../benches/volume.rs"]
mod volume;

use std::time::Duration;

use pool::tree::memory::MemoryStore;

#[test]
fn the_tree_bench_runs() {
    tree::run(&[2000], &[10, 500], 1000);
}

#[test]
fn the_volume_bench_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let scale = volume::Scale {
        size: 4 << 20,
        disk: 128 << 20,
        time: Duration::from_millis(5),
        rounds: 1,
    };
    volume::run(dir.path(), scale, "");
}

#[test]
fn the_snapshots_bench_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let scale = snapshots::Scale {
        size: 1 << 20,
        disk: 128 << 20,
        snapshots: 3,
        time: Duration::from_millis(5),
    };
    snapshots::run(dir.path(), scale);
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
