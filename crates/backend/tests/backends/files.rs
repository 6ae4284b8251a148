//! The file system in memory: the conformance suite of `testkit`.

use std::sync::Arc;
use std::time::Duration;

use backend::file::FileBackend;
use backend::file::memory::{MemoryFiles, MemoryOptions};
use proptest::prelude::*;
use testkit::Runs;
use testkit::files::{Operation, compare, operations};

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

fn compared(space_max: u64, operations: Vec<Operation>) {
    RUNS.simulated(move || {
        let operations = operations.clone();
        async move {
            let options = MemoryOptions {
                space_max,
                ..MemoryOptions::default()
            };
            let other = Arc::new(MemoryFiles::new(options));
            compare(files(65_000), other, &operations).await;
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Also a test of the comparison: no operation may have a result that depends on chance.
    #[test]
    fn two_file_systems_in_memory_are_equal(operations in operations(150)) {
        compared(1 << 30, operations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(10)
    })]

    #[test]
    #[should_panic(expected = "operation")]
    fn a_comparison_finds_a_file_system_that_refuses_an_operation(
        operations in operations(300).prop_filter("long", |all| all.len() > 200),
    ) {
        compared(10_000, operations);
    }
}
