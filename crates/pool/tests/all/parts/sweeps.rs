//! Resilver and scrub under load.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use backend::{BlockBackend, Lba};
use io::disk::{Disk, OpenOptions};
use io::rng::Prng;
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::{Host, MemberGuid};
use pool::inspect::{FindingKind, Findings, Image};
use pool::vdev::{DATA_START, PoolSpec, create};
use pool::{NewVolume, Options, Pool, ScrubPosition, Volume};

const BLOCK: usize = 4096;
const BLOCKS: u64 = 6144;
/// Size of each disk, bytes.
const SIZE: u64 = 512 << 20;
/// Pause between two parts of a slow sweep.
const REST: Duration = Duration::from_millis(100);

/// Runs on a machine with a mirror of two disks of `size` bytes.
fn on_mirror<F: Future<Output = ()> + 'static>(
    seed: u64,
    size: u64,
    test: impl FnOnce(Pool, MemberGuid) -> F + 'static,
) {
    Sim::new(seed, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let run = async move {
            let mut members = Vec::new();
            for name in ["a", "b"] {
                let config = DiskConfig {
                    size,
                    ..DiskConfig::default()
                };
                node.create_disk(name, config);
                let opened = Disk::open(name, OpenOptions::default()).await;
                members.push(opened.expect("the disk is there"));
            }
            let host = Host::new([1; 16], "here");
            let made = create(PoolSpec::new("tank", vec![members], host)).await;
            let pool = Pool::open(made.expect("made"), Options::default()).await;
            let pool = pool.expect("a pool");
            let member = pool.vdevs().status()[0].members[1].guid;
            test(pool, member).await;
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

/// Checks that every copy of every block is right, without repairs.
async fn assert_whole(pool: &Pool) {
    let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
    assert_eq!((scrubbed.repaired, scrubbed.lost.len()), (0, 0));
    // Time for the write-back of dirty records; then nothing changes while space is counted.
    io::time::sleep(Duration::from_secs(5)).await;
    let found = pool.verify().await.expect("verified");
    assert_eq!(found.problems, Vec::<String>::new());
}

/// As `assert_whole`, with the offline reader, which reads both members. The journal is not checked.
async fn assert_both_members_whole(pool: Pool) {
    pool.close().await.expect("closed");
    let mut disks = Vec::new();
    for name in ["a", "b"] {
        disks.push(reopen(name).await);
    }
    let image = Image::open(disks).await.expect("an image");
    let mut findings = Findings::default();
    let newest = image.uberblock(None).expect("an uberblock");
    let contents = image
        .contents(newest, &mut findings)
        .await
        .expect("contents");
    let journal = image.journal(&newest).await;
    let found = image.verify(&contents, &journal, true, |_| ()).await;
    let damage = findings.damage.iter().chain(&found.findings.damage);
    let damage: Vec<_> = damage.filter(|f| f.kind != FindingKind::Journal).collect();
    assert!(damage.is_empty(), "{damage:#?}");
}

async fn reopen(name: &str) -> Disk {
    loop {
        match Disk::open(name, OpenOptions::default()).await {
            // Operations of the closed pool are still ending.
            Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
            opened => return opened.expect("the disk is there"),
        }
    }
}

/// Regression: a resilver prevented the reuse of all blocks freed before it ended, so clients of a pool with little free
/// space waited for it, at any speed.
#[test]
fn space_freed_during_a_resilver_is_reused() {
    on_mirror(1, 64 << 20, |pool, member| async move {
        let vm = volume(&pool).await;
        write_all(&vm, 1).await;
        pool.vdevs().offline(member).await.expect("out");
        write_all(&vm, 2).await;
        pool.vdevs().online(member, None).await.expect("back");
        let (pool, rest) = (Rc::new(pool), Rc::new(Cell::new(Duration::from_secs(600))));
        let resilver = io::spawn({
            let (pool, rest) = (pool.clone(), rest.clone());
            async move {
                pool.resilver_paced(async |_| io::time::sleep(rest.get()).await)
                    .await
            }
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

/// Changes `vm` and its clones. Each change may move blocks to keys that a resilver has passed already.
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
fn blocks_that_move_between_trees_during_a_resilver_are_copied() {
    for seed in 0..12 {
        on_mirror(seed, SIZE, move |pool, member| async move {
            let vm = volume(&pool).await;
            write_all(&vm, 1).await;
            let mut rng = Prng::new(seed);
            let mut names = Vec::new();
            for n in 0..12 {
                change(&pool, &mut rng, &mut names, n).await;
            }
            pool.vdevs().offline(member).await.expect("out");
            write(&vm, 0, 64, 2).await;
            for n in 12..40 {
                change(&pool, &mut rng, &mut names, n).await;
            }
            pool.vdevs().online(member, None).await.expect("back");
            let pool = Rc::new(pool);
            let resilver = io::spawn({
                let pool = pool.clone();
                async move {
                    pool.resilver_paced(async |_| io::time::sleep(REST).await)
                        .await
                }
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

/// Regression: a scrub went from tree to tree, snapshots first. Blocks that a volume gave to a new snapshot, and overwrote
/// before the scrub reached the volume, were not read.
#[test]
fn blocks_that_move_between_trees_during_a_scrub_are_read() {
    for seed in 0..12 {
        on_mirror(seed, SIZE, move |pool, _| async move {
            let vm = volume(&pool).await;
            write_all(&vm, 1).await;
            let mut rng = Prng::new(seed);
            let mut names = Vec::new();
            for n in 0..24 {
                change(&pool, &mut rng, &mut names, n).await;
            }
            let mut next = Some(pool.begin_scrub().await.expect("begun"));
            let disk = Node::current().disk("b").expect("it is there");
            disk.rot(DATA_START..SIZE - (1 << 20));
            let (mut changes, mut repaired) = (24, 0);
            while let Some(at) = next {
                // The scrub may continue after a restart.
                let at = ScrubPosition::decode(&at.encode()).expect("a position");
                let found;
                (found, next) = pool.scrub_part(at, 1 << 20).await.expect("scrubbed");
                assert_eq!((found.lost.len(), found.damaged.len()), (0, 0));
                repaired += found.repaired;
                change(&pool, &mut rng, &mut names, changes).await;
                changes += 1;
                assert!(changes < 1000, "it ends");
            }
            assert!(changes > 40, "{changes}");
            assert!(repaired > BLOCKS, "{repaired}");
            drop(vm);
            assert_both_members_whole(pool).await;
        });
    }
}

/// Continues a scrub in parts of `part` bytes to its end. Returns blocks, their bytes, and parts.
async fn scrub_from(pool: &Pool, begun: ScrubPosition, part: u64) -> (u64, u64, u64) {
    let (mut blocks, mut bytes, mut parts) = (0, 0, 0);
    let mut next = Some(begun);
    while let Some(at) = next {
        let found;
        (found, next) = pool.scrub_part(at, part).await.expect("scrubbed");
        blocks += found.blocks;
        bytes += found.bytes;
        parts += 1;
    }
    (blocks, bytes, parts)
}

/// Regression: nodes above a part counted as its own, so that with many snapshots a part of 64 KiB had ever fewer keys,
/// finally one.
#[test]
fn a_scrub_in_parts_reads_each_block_once() {
    on_mirror(1, SIZE, |pool, _| async move {
        let vm = volume(&pool).await;
        write_all(&vm, 1).await;
        let mut rng = Prng::new(1);
        for n in 0..100 {
            let made = pool.create_snapshot("vm", &format!("s{n}")).await;
            made.expect("a snapshot");
            write(&vm, rng.below(BLOCKS), 1, n | 1).await;
        }
        let mut names = Vec::new();
        for n in 100..160 {
            change(&pool, &mut rng, &mut names, n).await;
        }
        // Pending destroys have ended by then.
        io::time::sleep(Duration::from_secs(60)).await;
        let verified = pool.verify().await.expect("verified");
        let whole = pool.scrub(|_| ()).await.expect("scrubbed");
        let part = 64 << 10;
        let begun = pool.begin_scrub().await.expect("begun");
        let (blocks, bytes, parts) = scrub_from(&pool, begun, part).await;
        // Nodes of the checkpoint that settles a snapshot are as young as those of its successor.
        let once = verified.blocks..verified.blocks * 51 / 50;
        for read in [whole.blocks, blocks] {
            assert!(once.contains(&read), "{read} of {once:?}");
        }
        assert!(parts > 20 && parts < 2 * bytes / part, "{parts} of {bytes}");
    });
}

/// Regression: blocks written since the scrub began are skipped, but nodes must be read to know this; a part with such blocks
/// alone had no end.
#[test]
fn a_scrub_of_parts_without_blocks_to_read_ends() {
    on_mirror(1, SIZE, |pool, _| async move {
        let vm = volume(&pool).await;
        write_all(&vm, 1).await;
        let begun = pool.begin_scrub().await.expect("begun");
        write_all(&vm, 2).await;
        pool.checkpoint().await.expect("checkpoint");
        let (blocks, _, parts) = scrub_from(&pool, begun, 64 << 10).await;
        assert!(blocks < 10, "{blocks}");
        assert!(parts > 5, "{parts}");
    });
}
