//! Snapshots of a dataset and all datasets below it: taken and destroyed together, also when the power goes.

use std::collections::BTreeMap;
use std::time::Duration;

use backend::{BlockBackend, Extent, Lba};
use io::rng::Prng;
use pool::{Error, NewFilesystem, NewVolume, Pool, Volume};
use testkit::store::check;

use crate::filesystem::bed::Bed;
use crate::filesystem::pooled::{
    Cuts, RECORD, again, create_pool, durables, on_disk, open, verified,
};

const BLOCK: usize = 4096;
const FILES: [&str; 2] = ["top", "top/below"];
const VOLUME: &str = "top/below/volume";

async fn make(pool: &Pool) {
    for name in FILES {
        let new = NewFilesystem {
            record_size: RECORD,
            ..NewFilesystem::new(name)
        };
        let store = pool.create_filesystem(new).await.expect("a filesystem");
        open(store).await.file("count").await;
    }
    let new = NewVolume::new(VOLUME, 1 << 20);
    drop(pool.create_volume(new).await.expect("a volume"));
    let other = NewVolume::new("top-other", 1 << 20);
    drop(pool.create_volume(other).await.expect("a volume"));
}

/// Writes a number to each of the datasets, one after the other, and to many records.
async fn count(pool: &Pool, n: u64) {
    for name in FILES {
        let bed = open(pool.filesystem(name).expect("it is there")).await;
        let file = bed.lookup(bed.root, "count").await.expect("found").handle;
        let text = [&n.to_le_bytes()[..], &vec![n as u8 | 1; 40_000]].concat();
        bed.write(file, 0, &text).await.expect("written");
    }
    let volume = pool.volume(VOLUME).expect("it is there");
    let mut data = io::pool().alloc(8 * BLOCK).await;
    data.fill(n as u8 | 1);
    data[..8].copy_from_slice(&n.to_le_bytes());
    volume.write(Lba(0), data).await.expect("written");
}

/// The snapshots of one name, by the number of the top-level one.
fn taken(pool: &Pool, name: &str) -> Vec<(String, Volume)> {
    let of = FILES.into_iter().chain([VOLUME]);
    of.filter_map(|of| Some((of.to_owned(), pool.snapshot(of, name)?)))
        .collect()
}

async fn number_in(pool: &Pool, of: &str, name: &str) -> u64 {
    let mut bytes = vec![0; BLOCK];
    if of == VOLUME {
        let snapshot = pool.snapshot(of, name).expect("it is there");
        let start = Lba(0);
        let read = snapshot.read(Extent { start, blocks: 1 }).await;
        read.expect("read").copy_to(&mut bytes);
    } else {
        let store = pool.filesystem_snapshot(of, name).expect("it is there");
        check(&durables(&store).await);
        let bed: Bed<_> = open(store).await;
        let file = bed.lookup(bed.root, "count").await.expect("found").handle;
        bytes = bed.read(file, 0, BLOCK).await.expect("read");
        bytes.resize(8.max(bytes.len()), 0);
    }
    u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"))
}

/// All snapshots of a name are there, or none; they are of one epoch and one moment.
async fn check_whole(pool: &Pool, name: &str) -> bool {
    let found = taken(pool, name);
    if found.is_empty() {
        return false;
    }
    assert_eq!(found.len(), 3, "all or none of {name}");
    let births: Vec<_> = found.iter().map(|(_, s)| s.dataset().birth).collect();
    assert!(births.iter().all(|birth| *birth == births[0]), "{births:?}");
    let mut numbers = Vec::new();
    for (of, _) in &found {
        numbers.push(number_in(pool, of, name).await);
    }
    assert!(numbers.is_sorted_by(|a, b| a >= b), "{name}: {numbers:?}");
    assert!(numbers[0] <= numbers[2] + 1, "{name}: {numbers:?}");
    true
}

#[test]
fn snapshots_of_a_tree_are_of_one_epoch() {
    on_disk(|_| async move {
        let pool = create_pool().await;
        make(&pool).await;
        count(&pool, 1).await;
        let made = pool.create_snapshot_tree("top", "s").await.expect("taken");
        assert_eq!(made.len(), 3);
        drop(made);
        assert!(check_whole(&pool, "s").await);
        assert!(pool.snapshot("top-other", "s").is_none());
        count(&pool, 2).await;
        assert_eq!(number_in(&pool, VOLUME, "s").await, 1);

        // one of them is there already: none is taken
        pool.create_snapshot("top/below", "t").await.expect("taken");
        let refused = pool.create_snapshot_tree("top", "t").await;
        assert_eq!(refused.err(), Some(Error::Exists));
        assert_eq!(taken(&pool, "t").len(), 1);
        // and all that are there are destroyed
        pool.destroy_snapshot_tree("top", "t").await.expect("gone");
        let refused = pool.destroy_snapshot_tree("top", "t").await;
        assert_eq!(refused, Err(Error::NotFound));

        pool.hold(VOLUME, "s", "tag").await.expect("held");
        let refused = pool.destroy_snapshot_tree("top", "s").await;
        assert!(matches!(refused, Err(Error::Held { .. })), "{refused:?}");
        assert!(check_whole(&pool, "s").await, "none is destroyed");
        pool.release(VOLUME, "s", "tag").await.expect("released");
        pool.destroy_snapshot_tree("top", "s").await.expect("gone");
        assert!(taken(&pool, "s").is_empty());
        pool.close().await.expect("closed");
        let pool = again().await;
        assert!(taken(&pool, "s").is_empty());
        verified(&pool).await;
    });
}

/// Numbers, snapshots and destructions at once, until the power goes.
async fn work(seed: u64) {
    let pool = std::rc::Rc::new(again().await);
    let mut kept = BTreeMap::new();
    for name in ["a", "b", "c"] {
        kept.insert(name, check_whole(&pool, name).await);
    }
    // the power cut may have taken different numbers from the datasets
    count(&pool, seed * 1_000_000).await;
    let counting = pool.clone();
    let counter = io::spawn(async move {
        for n in seed * 1_000_000 + 1.. {
            count(&counting, n).await;
            io::time::sleep(Duration::from_micros(200)).await;
        }
    });
    let mut rng = Prng::new(seed);
    loop {
        for (name, is_there) in &mut kept {
            match *is_there {
                true => pool.destroy_snapshot_tree("top", name).await,
                false => pool.create_snapshot_tree("top", name).await.map(drop),
            }
            .expect("done");
            *is_there = !*is_there;
            assert_eq!(check_whole(&pool, name).await, *is_there);
            if rng.below(4) == 0 {
                pool.checkpoint().await.expect("a checkpoint");
            }
        }
        assert!(!counter.is_finished());
    }
}

#[test]
fn a_power_cut_leaves_all_snapshots_of_a_tree_or_none() {
    for seed in 0..12 {
        let cuts = Cuts {
            rounds: 4,
            shortest: 1_001_000,
            spread: 60_000,
        };
        let make = async {
            let pool = create_pool().await;
            make(&pool).await;
            count(&pool, 0).await;
            pool.close().await.expect("closed");
        };
        let last = async {
            let pool = again().await;
            for name in ["a", "b", "c"] {
                check_whole(&pool, name).await;
            }
            verified(&pool).await;
            pool.close().await.expect("closed");
        };
        cuts.run(seed, make, work, last);
    }
}
