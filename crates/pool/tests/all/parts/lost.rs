//! Lost blocks: which reads find them, which data clients lose, and when a loss ends.

use backend::{BlockBackend, Extent, Lba, StorageError};
use io::disk::{Disk, OpenOptions as DiskOptions};
use io::sim::{DiskConfig, Node, Sim, SimConfig, SimDisk};
use pool::format::{Host, Packing};
use pool::vdev::{OpenOptions, PoolSpec, SetupError, create, open, scan};
use pool::{Damage, LOST_MAX, LostBlock, NewVolume, Options, Pool, Volume};
use std::time::Duration;

const BLOCK: u64 = 4096;
/// Nodes begin at multiples of this.
const SECTOR: u64 = 512;
/// Offset of the tree's identifier in a node's header.
const TREE_AT: usize = 16;
/// Blocks of the volume that are written.
const BLOCKS: u64 = 256;

fn host() -> Host {
    Host::new([1; 16], "here")
}

/// Runs on a machine with disks `d0` to `d2`.
fn on_disks<F: Future<Output = ()> + 'static>(test: impl FnOnce(Vec<SimDisk>) -> F + 'static) {
    Sim::new(2, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let disk = |n| node.create_disk(format!("d{n}"), DiskConfig::default());
        let disks: Vec<_> = (0..3).map(disk).collect();
        node.spawn(test(disks)).await.expect("the power stays on");
    });
}

async fn disk(n: usize) -> Disk {
    loop {
        match Disk::open(format!("d{n}"), DiskOptions::default()).await {
            // Operations of a closed pool are still ending.
            Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
            opened => return opened.expect("the disk is there"),
        }
    }
}

/// Options without caches: records and nodes are read from the disks.
fn options() -> Options {
    Options {
        cache_bytes: 0,
        record_cache_bytes: 0,
        ..Options::default()
    }
}

async fn make(members: usize) -> (Pool, Volume) {
    let mut disks = Vec::new();
    for n in 0..members {
        disks.push(disk(n).await);
    }
    let opened = create(PoolSpec::new("tank", vec![disks], host())).await;
    let pool = Pool::open(opened.expect("made"), options()).await;
    let pool = pool.expect("open");
    let new = NewVolume {
        compression: Packing::Off,
        ..NewVolume::new("one", 1 << 30)
    };
    let volume = pool.create_volume(new).await.expect("a volume");
    for at in 0..BLOCKS {
        write(&volume, at, 1).await;
    }
    let _proof = volume.flush().await.expect("flushed");
    pool.checkpoint().await.expect("checkpoint");
    (pool, volume)
}

async fn import(members: usize) -> Pool {
    let mut disks = Vec::new();
    for n in 0..members {
        disks.push(disk(n).await);
    }
    let found = scan(disks).await.pools.pop().expect("a pool");
    let opened = open(found, OpenOptions::new(host())).await;
    let pool = Pool::open(opened.expect("opened"), options()).await;
    pool.expect("open")
}

fn marks(at: u64, age: u64) -> [u8; 16] {
    let mut marks = [0; 16];
    marks[..8].copy_from_slice(&(at | 1 << 63).to_le_bytes());
    marks[8..].copy_from_slice(&(age | 1 << 62).to_le_bytes());
    marks
}

async fn write(volume: &Volume, at: u64, age: u64) {
    let mut buf = io::pool().alloc(BLOCK as usize).await;
    buf.fill(age as u8);
    buf[..16].copy_from_slice(&marks(at, age));
    volume.write(Lba(at), buf).await.expect("written");
}

async fn read(volume: &Volume, at: u64, blocks: u64) -> Result<(), StorageError> {
    let start = Lba(at);
    volume.read(Extent { start, blocks }).await.map(drop)
}

/// Offset of a block on the disks: the only place with its first bytes.
fn find(disk: &SimDisk, at: u64, age: u64) -> u64 {
    let image = disk.durable();
    let mut sectors = image.bytes().chunks(BLOCK as usize);
    let found = sectors.position(|c| c[..16] == marks(at, age));
    found.expect("it is durable") as u64 * BLOCK
}

fn rot(disks: &[SimDisk], at: u64, age: u64) {
    let place = find(&disks[0], at, age);
    disks.iter().for_each(|d| d.rot(place..place + BLOCK));
}

/// Damages all leaves of volumes, which the disks have at the same places. Returns their number.
fn rot_leaves(disks: &[SimDisk]) -> usize {
    let image = disks[0].durable();
    let sectors = image.bytes().chunks(SECTOR as usize).enumerate();
    let is_leaf = |c: &[u8]| c[..4] == *b"WPtn" && c[5] == 0 && c[TREE_AT] > 2;
    let places: Vec<u64> = sectors
        .filter(|(_, sector)| is_leaf(sector))
        .map(|(n, _)| n as u64 * SECTOR)
        .collect();
    for at in &places {
        disks.iter().for_each(|d| d.rot(*at..at + SECTOR));
    }
    places.len()
}

fn of(dataset: &str, blocks: std::ops::Range<u64>) -> Damage {
    Damage {
        dataset: Some(dataset.into()),
        objects: None,
        start: Some(blocks.start * BLOCK),
        end: Some(blocks.end * BLOCK),
    }
}

async fn damage(pool: &Pool) -> Vec<Damage> {
    let found = pool.damages().await;
    assert!(!found.more);
    found.ranges
}

/// Regression: only the client learned of a lost block that its read found; only a scrub's findings were recorded.
#[test]
fn a_lost_block_that_a_read_finds_is_reported_until_it_is_overwritten() {
    on_disks(async |disks| {
        let (pool, volume) = make(1).await;
        assert_eq!(damage(&pool).await, []);
        rot(&disks[..1], 77, 1);
        rot(&disks[..1], 78, 1);
        rot(&disks[..1], 200, 1);
        assert_eq!(damage(&pool).await, [], "nobody has been there");
        for at in [77, 78, 200] {
            assert!(read(&volume, at, 1).await.is_err());
        }
        let all = [of("one", 77..79), of("one", 200..201)];
        assert_eq!(damage(&pool).await, all);
        // A snapshot loses the same block, and keeps it lost.
        pool.create_snapshot("one", "s").await.expect("snapshot");
        write(&volume, 77, 2).await;
        let _proof = volume.flush().await.expect("flushed");
        let now = [of("one", 78..79), of("one", 200..201)];
        let kept = [of("one@s", 77..79), of("one@s", 200..201)];
        assert_eq!(damage(&pool).await, [&now[..], &kept[..]].concat());
        pool.destroy_snapshot("one", "s").await.expect("destroyed");
        pool.checkpoint().await.expect("checkpoint");
        assert_eq!(damage(&pool).await, now);
        let gone = Extent {
            start: Lba(78),
            blocks: 1,
        };
        volume.deallocate(gone).await.expect("dropped");
        let _proof = volume.flush().await.expect("flushed");
        assert_eq!(damage(&pool).await, [of("one", 200..201)]);
        pool.destroy_volume("one").await.expect("destroyed");
        assert_eq!(damage(&pool).await, []);
        assert_eq!(pool.lost_blocks(), []);
    });
}

/// Regression: a read ended at its first lost block, so only a scrub recorded the others.
#[test]
fn a_read_of_several_records_reports_all_its_lost_blocks() {
    on_disks(async |disks| {
        let (pool, volume) = make(1).await;
        // Overwritten blocks are elsewhere, so that the read consists of several runs.
        for at in [20, 21, 40] {
            write(&volume, at, 2).await;
        }
        let _proof = volume.flush().await.expect("flushed");
        pool.checkpoint().await.expect("checkpoint");
        for (at, age) in [
            (9, 1),
            (12, 1),
            (13, 1),
            (21, 2),
            (30, 1),
            (40, 2),
            (50, 1),
            (53, 1),
        ] {
            rot(&disks[..1], at, age);
        }
        assert!(read(&volume, 10, 31).await.is_err());
        let met = [12..14, 21..22, 30..31, 40..41].map(|at| of("one", at));
        assert_eq!(damage(&pool).await, met, "9 and 50 were not read");
        // One run is one request.
        assert!(read(&volume, 50, 8).await.is_err());
        write(&volume, 12, 3).await;
        let _proof = volume.flush().await.expect("flushed");
        let left = [13..14, 21..22, 30..31, 40..41, 50..51, 53..54];
        let left = left.map(|at| of("one", at));
        assert_eq!(damage(&pool).await, left);
    });
}

#[test]
fn a_lost_block_is_remembered_and_forgotten_when_it_is_right() {
    on_disks(async |disks| {
        let (pool, volume) = make(1).await;
        rot(&disks[..1], 9, 1);
        assert!(read(&volume, 9, 1).await.is_err());
        let blocks: Vec<_> = pool.lost_blocks().iter().map(LostBlock::encode).collect();
        assert_eq!(blocks.len(), 1);
        drop(volume);
        pool.close().await.expect("closed");
        let pool = import(1).await;
        assert_eq!(damage(&pool).await, []);
        let decoded = blocks.iter().filter_map(|b| LostBlock::decode(b));
        pool.remember_lost(decoded);
        assert_eq!(damage(&pool).await, [of("one", 9..10)]);
        assert_eq!(LostBlock::decode(&blocks[0][1..]), None);
        let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
        assert_eq!(scrubbed.lost.len(), 1);
        assert_eq!(damage(&pool).await, [of("one", 9..10)]);
    });
}

/// A member that is temporarily unreadable is not rot.
#[test]
fn a_scrub_that_finds_a_block_right_takes_it_from_the_list() {
    on_disks(async |disks| {
        let (pool, volume) = make(2).await;
        let places: Vec<u64> = (10..14).map(|at| find(&disks[0], at, 1)).collect();
        for (disk, place) in [(0, 0), (1, 0), (0, 1), (1, 1)] {
            let place = places[place];
            disks[disk].fail_reads(place..place + BLOCK);
        }
        assert!(read(&volume, 10, 1).await.is_err());
        assert!(read(&volume, 11, 1).await.is_err());
        assert_eq!(damage(&pool).await, [of("one", 10..12)]);
        disks.iter().for_each(|d| d.heal());
        read(&volume, 10, 1).await.expect("it is there again");
        assert_eq!(damage(&pool).await, [of("one", 11..12)]);
        let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
        assert!(scrubbed.lost.is_empty());
        assert_eq!(damage(&pool).await, []);
        // One of two copies is not a loss.
        disks[0].rot(places[2]..places[2] + BLOCK);
        read(&volume, 12, 1).await.expect("from the other member");
        assert_eq!(damage(&pool).await, []);
    });
}

/// A scrub that ends has visited all blocks that existed when it began. Blocks that it did not find lost again are not lost.
#[test]
fn a_complete_scrub_removes_blocks_that_it_did_not_find_lost() {
    on_disks(async |disks| {
        let (pool, volume) = make(1).await;
        for at in [3, 5] {
            rot(&disks[..1], at, 1);
            assert!(read(&volume, at, 1).await.is_err());
        }
        let known = pool.lost_blocks();
        assert_eq!(known.len(), 2);
        write(&volume, 3, 2).await;
        let _proof = volume.flush().await.expect("flushed");
        for _ in 0..2 {
            pool.checkpoint().await.expect("checkpoint");
        }
        let mut next = Some(pool.begin_scrub().await.expect("begun"));
        let mut parts = 0;
        while let Some(at) = next {
            assert_eq!(pool.lost_blocks().len(), 2, "a part is not the whole");
            (_, next) = pool.scrub_part(at, 64 << 10).await.expect("scrubbed");
            parts += 1;
        }
        assert!(parts > 1, "{parts}");
        let left: Vec<_> = pool.lost_blocks().iter().map(|b| b.ptr).collect();
        assert_eq!(
            left,
            [known.iter().find(|b| b.first.offset() == 5)].map(|b| b.expect("5").ptr)
        );
    });
}

/// Every read of a node, for any purpose, records that the data below it is lost.
#[test]
fn a_lost_node_is_reported_with_the_range_below_it() {
    on_disks(async |disks| {
        let (pool, volume) = make(1).await;
        let size = 1 << 30;
        // Enough records for several leaves.
        for at in (0..size / BLOCK).step_by(256) {
            write(&volume, at, 2).await;
        }
        let _proof = volume.flush().await.expect("flushed");
        pool.checkpoint().await.expect("checkpoint");
        let leaves = rot_leaves(&disks[..1]);
        assert!(leaves > 3, "{leaves}");
        assert!(read(&volume, 0, 1).await.is_err());
        let found = damage(&pool).await;
        let [one] = &found[..] else {
            panic!("one leaf was read: {found:?}");
        };
        let (start, end) = (one.start.expect("known"), one.end.expect("known"));
        assert_eq!((start, one.dataset.as_deref()), (0, Some("one")));
        assert!(end > BLOCK && end < size && end % BLOCK == 0, "{end}");
        // A scrub visits all of them.
        let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
        assert!(scrubbed.damaged.len() > 3, "{scrubbed:?}");
        let all = Damage {
            dataset: Some("one".into()),
            objects: None,
            start: Some(0),
            end: Some(size),
        };
        assert_eq!(damage(&pool).await, [all]);
        pool.destroy_volume("one").await.expect("destroyed");
        assert_eq!(damage(&pool).await, []);
    });
}

/// One damaged node ended all changes of the pool, also of other volumes, after a restart too: the next checkpoint that changed keys in it
/// could not read it, and failed.
#[test]
fn a_volume_with_lost_nodes_takes_writes_and_keeps_the_loss_of_other_blocks() {
    on_disks(async |disks| {
        let (pool, volume) = make(2).await;
        drop(volume);
        pool.close().await.expect("closed");
        rot_leaves(&disks[..2]);
        let mut lost = Vec::new();
        let pool = import(2).await;
        let volume = pool.volume("one").expect("a volume");
        for at in 0..BLOCKS {
            lost.push(read(&volume, at, 1).await.is_err());
        }
        assert!(lost.iter().filter(|l| **l).count() > 200);
        drop(volume);
        pool.close().await.expect("closed");
        for round in 2..5 {
            let pool = import(2).await;
            let volume = pool.volume("one").expect("a volume");
            let new = round * 20..round * 20 + 5;
            for at in new.clone() {
                write(&volume, at, round).await;
            }
            let hole = Extent {
                start: Lba(round * 20 + 10),
                blocks: 3,
            };
            volume.deallocate(hole).await.expect("deallocated");
            drop(volume);
            pool.close().await.expect("all changes are in the trees");
            let pool = import(2).await;
            let volume = pool.volume("one").expect("a volume");
            for at in 0..BLOCKS {
                let (of, place) = (at / 20, at % 20);
                let is_here = (2..=round).contains(&of) && (place < 5 || (10..13).contains(&place));
                let is_lost = lost[at as usize] && !is_here;
                assert_eq!(read(&volume, at, 1).await.is_err(), is_lost, "block {at}");
            }
            let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
            assert!(!scrubbed.damaged.is_empty());
            assert!(!damage(&pool).await.is_empty(), "a scrub keeps the loss");
            drop(volume);
            pool.close().await.expect("closed");
        }
        // new data for all blocks end the loss
        let pool = import(2).await;
        let volume = pool.volume("one").expect("a volume");
        let all = Extent {
            start: Lba(0),
            blocks: (1 << 30) / BLOCK,
        };
        volume.deallocate(all).await.expect("deallocated");
        pool.checkpoint().await.expect("written");
        let scrubbed = pool.scrub(|_| ()).await.expect("scrubbed");
        assert_eq!((scrubbed.lost, scrubbed.damaged), (vec![], vec![]));
        assert_eq!(damage(&pool).await, []);
        read(&volume, 0, BLOCKS).await.expect("a hole");
    });
}

/// A disk that is away may have a right copy: then nothing is given up.
#[test]
fn a_lost_node_is_not_given_up_while_a_disk_is_away() {
    on_disks(async |disks| {
        let (pool, volume) = make(2).await;
        let members = pool.vdevs().status().remove(0).members;
        pool.vdevs()
            .offline(members[1].guid)
            .await
            .expect("offline");
        rot_leaves(&disks[..1]);
        write(&volume, 3, 2).await;
        let _proof = volume.flush().await.expect("flushed");
        let failed = pool.checkpoint().await;
        assert!(
            matches!(failed, Err(pool::Error::Corrupt { .. })),
            "{failed:?}"
        );
        drop(volume);
        let _ = pool.close().await;
        let pool = import(2).await;
        let online = pool.vdevs().online(members[1].guid, None).await;
        online.expect("online");
        let volume = pool.volume("one").expect("a volume");
        read(&volume, 0, BLOCKS)
            .await
            .expect("the other disk has all");
        pool.checkpoint().await.expect("written");
    });
}

/// Each part of a scrub visits the nodes above it.
#[test]
fn a_lost_node_above_many_parts_is_counted_once() {
    on_disks(async |disks| {
        let (pool, one) = make(1).await;
        let two = pool.create_volume(NewVolume::new("two", 1 << 30)).await;
        let two = two.expect("a volume");
        for at in BLOCKS..4 * BLOCKS {
            write(&one, at, 1).await;
        }
        // So few records that the tree is only a root.
        write(&two, 0, 2).await;
        let _proof = two.flush().await.expect("flushed");
        pool.checkpoint().await.expect("checkpoint");
        let image = disks[0].durable();
        let tree = |c: &[u8]| (c[..4] == *b"WPtn").then(|| c[TREE_AT]);
        let trees = || image.bytes().chunks(BLOCK as usize).map(tree);
        let last = trees().max().expect("nodes");
        for (n, _) in trees().enumerate().filter(|(_, tree)| *tree == last) {
            let at = n as u64 * BLOCK;
            disks[0].fail_reads(at..at + BLOCK);
        }
        // No cache has it.
        drop((one, two));
        pool.close().await.expect("closed");
        let pool = import(1).await;
        let (mut parts, mut damaged) = (0, Vec::new());
        let mut next = Some(pool.begin_scrub().await.expect("begun"));
        while let Some(at) = next {
            let found;
            (found, next) = pool.scrub_part(at, 64 << 10).await.expect("scrubbed");
            damaged.extend(found.damaged);
            parts += 1;
        }
        assert!(parts > 10, "{parts}");
        let [(tree, _)] = &damaged[..] else {
            panic!("one node is lost: {damaged:?}");
        };
        assert_eq!(Some(tree.0 as u8), last);
        assert_eq!(damage(&pool).await, [of("two", 0..(1 << 30) / BLOCK)]);
    });
}

/// Regression: a resilver that found lost blocks reported their number, but not which ones.
#[test]
fn blocks_that_a_resilver_cannot_copy_are_reported() {
    on_disks(async |disks| {
        let (pool, _volume) = make(1).await;
        rot(&disks[..1], 42, 1);
        let vdev = pool.vdevs().status()[0].id;
        let attached = pool.vdevs().attach(vdev, disk(1).await, false).await;
        attached.expect("attached");
        let resilvered = pool.resilver(|_| ()).await;
        assert!(
            matches!(resilvered, Err(SetupError::Lost { blocks: 1, .. })),
            "{resilvered:?}"
        );
        assert_eq!(damage(&pool).await, [of("one", 42..43)]);
    });
}

#[test]
fn the_list_is_bounded_and_reports_that_it_is_full() {
    on_disks(async |disks| {
        let (pool, volume) = make(1).await;
        let blocks = LOST_MAX as u64 + 3;
        for at in 0..blocks {
            write(&volume, at, 7).await;
        }
        let _proof = volume.flush().await.expect("flushed");
        pool.checkpoint().await.expect("checkpoint");
        let image = disks[0].durable();
        for (n, sector) in image.bytes().chunks(BLOCK as usize).enumerate() {
            if sector[8..16] == marks(0, 7)[8..] {
                let at = n as u64 * BLOCK;
                disks[0].rot(at..at + BLOCK);
            }
        }
        for at in 0..blocks {
            assert!(read(&volume, at, 1).await.is_err());
        }
        assert_eq!(pool.lost_blocks().len(), LOST_MAX);
        let found = pool.damages().await;
        assert!(found.more);
        assert_eq!(found.ranges, [of("one", 0..LOST_MAX as u64)]);
    });
}

/// A resilver reports its progress and its total, and keeps to the requested pace.
#[test]
fn a_resilver_reports_its_progress_and_keeps_its_pace() {
    on_disks(async |_| {
        let (pool, volume) = make(1).await;
        for at in BLOCKS..12 * BLOCKS {
            write(&volume, at, 1).await;
        }
        let _proof = volume.flush().await.expect("flushed");
        let vdev = pool.vdevs().status()[0].id;
        let attached = pool.vdevs().attach(vdev, disk(1).await, false).await;
        attached.expect("attached");
        let mut seen = Vec::new();
        let began = io::time::now();
        let rest = Duration::from_secs(3);
        let copied = pool.resilver_paced(async |r| {
            seen.push(*r);
            io::time::sleep(rest).await;
        });
        let copied = copied.await.expect("resilvered");
        assert!(copied >= 12 * BLOCKS, "{copied}");
        assert!(seen.len() >= 4, "{}", seen.len());
        assert!(began.elapsed() >= rest * seen.len() as u32);
        assert!(seen.is_sorted_by(|a, b| a.done <= b.done && a.of == b.of));
        let last = seen.last().expect("told");
        assert_eq!(last.done, last.of);
        assert!(last.of >= 12 * BLOCKS * BLOCK, "{last:?}");
        // A resilver that begins again finds the blocks that were copied.
        let member = last.member;
        pool.vdevs().offline(member).await.expect("offline");
        write(&volume, 1, 2).await;
        let _proof = volume.flush().await.expect("flushed");
        pool.vdevs().online(member, None).await.expect("online");
        let again = pool.resilver(|_| ()).await.expect("resilvered");
        assert!(again < 64, "{again} of what it missed");
    });
}
