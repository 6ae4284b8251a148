//! Crashes between any two transactions: what is there is whole.

use crate::filesystem::bed::{Bed, open, run};
use testkit::files::random::{NAMES, Random};
use testkit::store::{MemoryStore, check};

#[test]
fn every_state_between_two_transactions_is_whole() {
    run(|| async {
        for seed in 0..40 {
            let bed = Bed::new(seed).await;
            bed.store.remember();
            let mut random = Random::new(seed, bed.root, 0.0);
            for _ in 0..120 {
                let _refused = random.step(&bed.files).await;
            }
            let states = bed.store.history();
            for (n, state) in states.into_iter().enumerate() {
                check(&state);
                if n % 10 == 0 {
                    let store = MemoryStore::with(state, seed);
                    let again = Bed::of(store.clone(), open(&store).await);
                    again.free_orphans().await;
                    check(&store.now());
                    let orphans = store.now().inodes.values().any(|inode| inode.links == 0);
                    assert!(!orphans, "seed {seed}, state {n}");
                }
            }
        }
    });
}

/// Several tasks at once; each state is whole all the same.
#[test]
fn operations_at_the_same_time_leave_whole_states() {
    run(|| async {
        for seed in 0..40 {
            let store = MemoryStore::new(seed);
            let bed = Bed::new(seed).await;
            drop(store);
            bed.store.remember();
            // All tasks know the same directories.
            let mut first = Random::new(seed, bed.root, 0.0);
            for at in NAMES {
                let directory = bed.directory(bed.root, at).await;
                let below = bed.directory(directory, at).await;
                first.directories.extend([directory, below]);
            }
            let (store, files) = (bed.store.clone(), bed.files.clone());
            drop(io::spawn(files.clone().free_orphans()));
            let tasks: Vec<_> = (0..8)
                .map(|task| {
                    let bed = Bed::of(store.clone(), files.clone());
                    let mut random = Random::new(seed * 100 + task, bed.root, 0.0);
                    random.directories.clone_from(&first.directories);
                    io::spawn(async move {
                        for _ in 0..60 {
                            let _refused = random.step(&bed.files).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await;
            }
            store.history().iter().for_each(check);
        }
    });
}
