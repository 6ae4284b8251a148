//! The conformance suite of `testkit`.

use std::sync::Arc;
use std::time::Duration;

use testkit::Runs;

use crate::filesystem::bed::new_filesystem;
use testkit::store::MemoryStore;
use testkit::store::check;

const RUNS: Runs = Runs {
    seeds: 1,
    limit: Duration::from_secs(60),
};

#[test]
fn the_filesystem_has_every_behaviour() {
    testkit::files::check_all(|behaviour| {
        RUNS.both(|| async {
            let store = MemoryStore::new(1);
            behaviour
                .check(Arc::new(new_filesystem(&store).await))
                .await;
            check(&store.now());
        });
    });
}
