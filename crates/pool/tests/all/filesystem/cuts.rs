//! Power cuts amid random operations on a filesystem of a pool: the values that survive agree with each other.

use std::time::Duration;

use io::rng::Prng;
use pool::filesystem::Store;
use testkit::files::random::Random;
use testkit::store::{check, check_charges};

use crate::filesystem::pooled::{Cuts, again, create_pool, durables, new_files, open, verified};

/// Random operations, with checkpoints and snapshots between them, until the power goes.
async fn work(seed: u64) {
    let pool = again().await;
    let store = pool.filesystem("files").expect("it is there");
    check(&durables(&store).await);
    check_charges(&durables(&store).await);
    let bed = open(store).await;
    drop(io::spawn(bed.files.clone().free_orphans()));
    let mut rng = Prng::new(seed);
    let mut random = Random::new(seed, bed.root, 0.0);
    loop {
        let _refused = random.step(&bed.files).await;
        match rng.below(100) {
            0 => pool.checkpoint().await.expect("a checkpoint"),
            1 => {
                let _proof = bed.store.durable(None).await.expect("durable");
            }
            2 => {
                let name = format!("at{}", rng.below(3));
                if pool.create_snapshot("files", &name).await.is_err() {
                    let _gone = pool.destroy_snapshot("files", &name).await;
                }
            }
            3 => io::time::sleep(Duration::from_millis(rng.below(3000))).await,
            _ => {}
        }
    }
}

#[test]
fn every_state_after_a_power_cut_is_whole() {
    for seed in 0..30 {
        let cuts = Cuts {
            rounds: 6,
            shortest: 1_050_000,
            spread: 3_000_000,
        };
        let make = async {
            let pool = create_pool().await;
            let store = pool.create_filesystem(new_files()).await;
            drop(store.expect("a filesystem"));
            pool.close().await.expect("closed");
        };
        let last = async {
            let pool = again().await;
            let store = pool.filesystem("files").expect("it is there");
            check(&durables(&store).await);
            check_charges(&durables(&store).await);
            verified(&pool).await;
            pool.close().await.expect("closed");
        };
        cuts.run(seed, make, work, last);
    }
}
