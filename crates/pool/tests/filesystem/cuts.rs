//! Power cuts amid random operations on a filesystem of a pool: the values that survive agree with each other.

use std::time::Duration;

use io::rng::Prng;
use io::sim::{Node, Sim, SimConfig};
use pool::filesystem::Store;
use testkit::files::random::Random;
use testkit::store::{check, check_charges};

use crate::pooled::{again, create_pool, disk_config, durables, new_files, open};

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
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let node = Node::new();
            node.create_disk("disk", disk_config());
            let made = node.spawn(async {
                let pool = create_pool().await;
                let store = pool.create_filesystem(new_files()).await;
                drop(store.expect("a filesystem"));
                pool.close().await.expect("closed");
            });
            made.await.expect("it has power");
            let mut rng = Prng::new(seed);
            for round in 0..6 {
                let working = node.spawn(work(seed * 10 + round));
                let time = Duration::from_micros(1_050_000 + rng.below(3_000_000));
                let ended = io::timeout(time, working).await;
                assert!(ended.is_err(), "seed {seed}: a panic in round {round}");
                node.power_cut();
                node.power_on();
            }
            let last = node.spawn(async {
                let pool = again().await;
                let store = pool.filesystem("files").expect("it is there");
                check(&durables(&store).await);
                check_charges(&durables(&store).await);
                let verified = pool.verify().await.expect("verified");
                assert_eq!(verified.problems, Vec::<String>::new());
                pool.close().await.expect("closed");
            });
            last.await.expect("it has power");
        });
    }
}
