//! The file system in memory: the conformance suite of `testkit`.

use std::sync::Arc;
use std::time::Duration;

use backend::file::FileBackend;
use backend::file::memory::{MemoryFiles, MemoryOptions};
use testkit::Runs;

const RUNS: Runs = Runs {
    seeds: 1,
    limit: Duration::from_secs(60),
};

fn files(links_max: u32) -> Arc<dyn FileBackend> {
    Arc::new(MemoryFiles::new(MemoryOptions {
        links_max,
        ..MemoryOptions::default()
    }))
}

#[test]
fn the_file_system_in_memory_has_every_behaviour() {
    testkit::files::check_all(|behaviour| {
        RUNS.both(|| async { behaviour.check(files(65_000)).await });
    });
}

#[test]
fn the_file_system_in_memory_limits_links() {
    let all = testkit::files::ALL.iter();
    let limit = all.filter(|behaviour| behaviour.name() == "names::links_are_limited");
    assert_eq!(limit.clone().count(), 1);
    for behaviour in limit {
        RUNS.both(|| async { behaviour.check(files(10)).await });
    }
}
