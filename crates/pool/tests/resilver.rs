//! A side that is brought up to date while clients go on.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::{Host, SideGuid};
use pool::vdev::{PoolSpec, create};
use pool::{NewVolume, Options, Pool, Volume};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 6144;
/// Between two parts, where somebody wants it slow.
const REST: Duration = Duration::from_millis(100);

/// Runs on a machine with a mirror of two disks of so many bytes.
fn on_mirror<F: Future<Output = ()> + 'static>(
    seed: u64,
    size: u64,
    test: impl FnOnce(Pool, SideGuid) -> F + 'static,
) {
    Sim::new(seed, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let run = async move {
            let mut sides = Vec::new();
            for name in ["a", "b"] {
                let config = DiskConfig {
                    size,
                    ..DiskConfig::default()
                };
                node.create_disk(name, config);
                let opened = Disk::open(name, OpenOptions::default()).await;
                sides.push(opened.expect("the disk is there"));
            }
            let host = Host::new([1; 16], "here");
            let made = create(PoolSpec::new("tank", vec![sides], host)).await;
            let pool = Pool::open(made.expect("made"), Options::default()).await;
            let pool = pool.expect("a pool");
            let side = pool.vdevs().status()[0].sides[1].guid;
            test(pool, side).await;
        };
        node.spawn(run).await.expect("the power stays on");
    });
}

async fn volume(pool: &Pool) -> Volume {
    let new = NewVolume::new("vm", BLOCKS * BLOCK as u64);
    pool.create_volume(new).await.expect("a volume")
}

async fn write(volume: &Volume, at: u64, blocks: usize, byte: u8) {
    let mut data = io::pool().alloc(blocks * BLOCK).await;
    data.fill(byte);
    volume.write(Lba(at), data).await.expect("written");
}

async fn write_all(volume: &Volume, byte: u8) {
    for at in (0..BLOCKS).step_by(16) {
        write(volume, at, 16, byte).await;
    }
    let _proof = volume.flush().await.expect("flushed");
}

/// Every copy of every block is right without help.
async fn assert_whole(pool: &Pool) {
    let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
    assert_eq!((scrubbed.repaired, scrubbed.lost.len()), (0, 0));
    // what nobody waited for is written back, and space counted while nothing changes
    io::time::sleep(Duration::from_secs(5)).await;
    let found = pool.verify().await.expect("verified");
    assert_eq!(found.problems, Vec::<String>::new());
}

/// It kept all that was freed from being reused until it ended: clients of a pool with less room than they overwrote meanwhile
/// waited for that, however slowly it went.
#[test]
fn what_is_freed_while_a_side_is_brought_up_to_date_is_reused() {
    on_mirror(1, 64 << 20, |pool, side| async move {
        let vm = volume(&pool).await;
        write_all(&vm, 1).await;
        pool.vdevs().offline(side).await.expect("out");
        write_all(&vm, 2).await;
        pool.vdevs().online(side, None).await.expect("back");
        let (pool, rest) = (Rc::new(pool), Rc::new(Cell::new(Duration::from_secs(600))));
        let resilver = io::spawn({
            let (pool, rest) = (pool.clone(), rest.clone());
            async move { pool.resilver_paced(|_| rest.get()).await }
        });
        let (mut rng, mut slowest) = (Prng::new(1), Duration::ZERO);
        for n in 0..2 * pool.space().size / BLOCK as u64 {
            let begun = io::time::now();
            write(&vm, rng.below(BLOCKS), 1, n as u8 | 1).await;
            slowest = slowest.max(begun.elapsed());
        }
        assert!(slowest < Duration::from_secs(1), "{slowest:?}");
        assert!(!resilver.is_finished(), "it was to be slow");
        rest.set(Duration::ZERO);
        let resilvered = resilver.await.expect("not killed");
        assert!(resilvered.expect("resilvered") > 0);
        assert_whole(&pool).await;
    });
}

/// Changes of `vm` and what descends from it, each of which may bring blocks to where a resilver was already.
async fn change(pool: &Pool, rng: &mut Prng, names: &mut Vec<String>, n: u64) {
    let pick = |rng: &mut Prng, names: &[String]| {
        let index = rng.below(names.len().max(1) as u64) as usize;
        names.get(index).cloned()
    };
    let one = match pick(rng, names) {
        Some(name) if rng.chance(0.5) => name,
        _ => "vm".to_owned(),
    };
    let snapshots = |of: &str| -> Vec<String> {
        let all = pool.snapshots(of);
        all.iter().map(|s| s.dataset().name).collect()
    };
    match rng.below(8) {
        0 | 1 => {
            let _ = pool.create_snapshot(&one, &format!("s{n}")).await;
        }
        2 => {
            if let Some(snapshot) = pick(rng, &snapshots(&one)) {
                let _ = pool.destroy_snapshot(&one, &snapshot).await;
            }
        }
        3 => {
            if let Some(snapshot) = pick(rng, &snapshots(&one)) {
                let name = format!("c{n}");
                let made = pool.clone_snapshot(&one, &snapshot, &name).await;
                names.extend(made.is_ok().then_some(name));
            }
        }
        4 => {
            let _ = pool.promote(&one).await;
        }
        5 => {
            if let Some(snapshot) = snapshots(&one).pop() {
                let _ = pool.roll_back(&one, &snapshot).await;
            }
        }
        6 if one != "vm" && pool.destroy_volume(&one).await.is_ok() => {
            names.retain(|name| *name != one);
        }
        _ => {
            let volume = pool.volume(&one).expect("it is there");
            for _ in 0..24 {
                write(&volume, rng.below(BLOCKS), 1, n as u8 | 1).await;
            }
        }
    }
}

#[test]
fn what_moves_between_trees_while_a_side_is_brought_up_to_date_is_on_it() {
    for seed in 0..12 {
        on_mirror(seed, 512 << 20, move |pool, side| async move {
            let vm = volume(&pool).await;
            write_all(&vm, 1).await;
            let mut rng = Prng::new(seed);
            let mut names = Vec::new();
            for n in 0..12 {
                change(&pool, &mut rng, &mut names, n).await;
            }
            pool.vdevs().offline(side).await.expect("out");
            write(&vm, 0, 64, 2).await;
            for n in 12..40 {
                change(&pool, &mut rng, &mut names, n).await;
            }
            pool.vdevs().online(side, None).await.expect("back");
            let pool = Rc::new(pool);
            let resilver = io::spawn({
                let pool = pool.clone();
                async move { pool.resilver_paced(|_| REST).await }
            });
            let mut changes = 40;
            while !resilver.is_finished() {
                assert!(changes < 1000, "it ends");
                change(&pool, &mut rng, &mut names, changes).await;
                io::time::sleep(REST / 3).await;
                changes += 1;
            }
            let resilvered = resilver.await.expect("not killed");
            assert!(resilvered.expect("resilvered") > 0);
            assert!(changes > 40, "{changes}");
            assert_whole(&pool).await;
        });
    }
}
