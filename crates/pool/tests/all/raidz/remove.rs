//! Removal of vdevs: beside clients, with snapshots, with rot, and given up.

use std::time::Duration;

use backend::BlockBackend;
use io::sim::{Latency, Node};
use pool::format::{Host, VdevId};
use pool::inspect::FindingKind;
use pool::vdev::{
    self, DATA_START, Layout, MemberState, OpenOptions, PoolSpec, SetupError, VdevSpec, create,
    scan,
};
use pool::{Error, Options, Pool, RemovalWait};

use crate::blocks::{byte, first, free_all, read, simulated, sound, volume, write};
use crate::raidz::inspect::inspect;
use crate::raidz::members::import;
use crate::raidz::{Disk, disks, fill};

/// Blocks of the test's volume: 12 MiB.
pub(super) const BLOCKS: u64 = 3072;
/// MiB of each disk.
const MIB: u64 = 96;
/// The vdev that is removed.
pub(super) const VDEV: VdevId = VdevId(1);
/// The first disk of that vdev: the mirror with the journal has two.
const FIRST: usize = 2;

/// A kind of vdev, and its number of disks.
pub(super) type Kind = (Layout, usize);
pub(super) const DISK: Kind = (Layout::Mirror, 1);
pub(super) const MIRROR: Kind = (Layout::Mirror, 2);
pub(super) const RAIDZ: Kind = (Layout::Raidz { parity: 1 }, 3);

async fn spec(first: usize, (layout, count): Kind) -> VdevSpec {
    let members = disks(first, (count, 0, MIB)).await;
    VdevSpec::new(layout, members)
}

/// A pool of a mirror.
async fn mirror() -> Pool {
    let host = Host::new([1; 16], "here");
    let spec = PoolSpec::new("tank", vec![spec(0, MIRROR).await], host);
    let opened = create(spec).await.expect("create");
    let pool = Pool::open(opened, Options::default()).await;
    pool.expect("open")
}

/// A pool of a mirror and a vdev of this kind, with a volume, a snapshot and a clone on both.
pub(super) async fn furnished(kind: Kind) -> Pool {
    let pool = mirror().await;
    let vdev = spec(FIRST, kind).await;
    assert_eq!(pool.add_vdev(vdev, false).await, Ok(VDEV));
    let vol = volume(&pool, "vm", 64 << 20).await;
    for at in (0..BLOCKS).step_by(32) {
        write(&vol, at, 32, byte(at)).await.expect("written");
    }
    let _proof = vol.flush().await.expect("flushed");
    pool.create_snapshot("vm", "one").await.expect("a snapshot");
    let clone = pool.clone_snapshot("vm", "one", "clone").await;
    let clone = clone.expect("a clone");
    for at in (0..BLOCKS).step_by(7) {
        write(&vol, at, 1, byte(at + 1)).await.expect("written");
    }
    for at in (0..BLOCKS).step_by(11) {
        write(&clone, at, 1, byte(at + 2)).await.expect("written");
    }
    let _proof = vol.flush().await.expect("flushed");
    let _proof = clone.flush().await.expect("flushed");
    pool.checkpoint().await.expect("a checkpoint");
    pool
}

pub(super) async fn check(pool: &Pool) {
    let vol = pool.volume("vm").expect("there");
    let clone = pool.volume("clone").expect("there");
    let old = pool.snapshot("vm", "one").expect("there");
    for at in 0..BLOCKS {
        let of_old = byte(at / 32 * 32);
        let now = match at % 7 {
            0 => byte(at + 1),
            _ => of_old,
        };
        let of_clone = match at % 11 {
            0 => byte(at + 2),
            _ => of_old,
        };
        assert_eq!(first(&vol, at).await, now, "block {at}");
        assert_eq!(first(&clone, at).await, of_clone, "block {at} of the clone");
        assert_eq!(first(&old, at).await, of_old, "block {at} of the snapshot");
    }
    sound(pool).await;
}

/// Waits until the removal has ended.
pub(super) async fn ended(pool: &Pool) {
    for _ in 0..30_000 {
        if pool.removing().is_none() {
            return;
        }
        io::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not end: {:?}", pool.removing());
}

pub(super) async fn close(pool: Pool) {
    pool.close().await.expect("closed");
    // tasks that end hold the disks
    io::time::sleep(Duration::from_secs(1)).await;
}

fn vdevs(pool: &Pool) -> Vec<u16> {
    pool.vdevs().status().iter().map(|v| v.id.0).collect()
}

async fn has_label(n: usize) -> bool {
    loop {
        match Disk::open(format!("d{n}"), io::disk::OpenOptions::default()).await {
            Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
            opened => {
                let found = scan(vec![opened.expect("the disk is there")]).await;
                return !found.pools.is_empty();
            }
        }
    }
}

/// Regression: a checkpoint that wrote nodes of the pool's own tree again put entries as they were before, although it had changed them itself. Renamed
/// volumes had their old names back, and relocated blocks their old places.
#[test]
fn changes_beside_a_removal_are_kept() {
    simulated(9, async || {
        let pool = furnished(DISK).await;
        for n in 0..300 {
            volume(&pool, &format!("old{n}"), 1 << 20).await;
        }
        pool.checkpoint().await.expect("a checkpoint");
        for n in 0..300 {
            let (old, new) = (format!("old{n}"), format!("new{n}"));
            pool.rename_volume(&old, &new).await.expect("renamed");
        }
        pool.remove_vdev(VdevId(0)).await.expect("it begins");
        ended(&pool).await;
        close(pool).await;
        let pool = import(2..3).await.expect("the others have everything");
        for n in 0..300 {
            assert!(pool.volume(&format!("new{n}")).is_some(), "{n}");
        }
        close(pool).await;
    });
}

/// While a client writes, all blocks of a vdev move to the other one. Its disks have no label then, and the pool opens without them. The
/// blocks of the snapshot and the clone have moved, too, and are freed when these are destroyed.
#[test]
fn a_vdev_is_removed_beside_clients() {
    for (seed, kind) in (1..).zip([DISK, MIRROR, RAIDZ]) {
        simulated(seed, async move || {
            let pool = furnished(kind).await;
            let other = volume(&pool, "other", 8 << 20).await;
            pool.remove_vdev(VDEV).await.expect("it begins");
            let mut at = 0;
            while pool.removing().is_some() {
                write(&other, at % 2000, 3, byte(at))
                    .await
                    .expect("written");
                let _proof = other.flush().await.expect("flushed");
                io::time::sleep(Duration::from_millis(2)).await;
                at += 3;
            }
            assert_eq!(vdevs(&pool), [0]);
            check(&pool).await;
            let found = pool.scrub(|_| ()).await.expect("a scrub");
            assert_eq!((found.repaired, found.lost.len()), (0, 0), "{found:?}");
            drop(other);
            close(pool).await;
            for n in FIRST..FIRST + kind.1 {
                assert!(!has_label(n).await, "disk {n} can be used elsewhere");
            }
            let (findings, _) = inspect(2, &[]).await;
            assert!(findings.is_empty(), "{findings:?}");
            let pool = import(0..2).await.expect("it has everything");
            assert_eq!(vdevs(&pool), [0]);
            check(&pool).await;
            let used = pool.space().used;
            pool.destroy_volume("clone").await.expect("destroyed");
            pool.destroy_snapshot("vm", "one").await.expect("destroyed");
            pool.destroy_volume("vm").await.expect("destroyed");
            free_all(&pool).await;
            assert!(pool.space().used + (12 << 20) < used, "{:?}", pool.space());
            sound(&pool).await;
            close(pool).await;
            let (findings, _) = inspect(2, &[]).await;
            assert!(findings.is_empty(), "{findings:?}");
        });
    }
}

/// Copies of a vdev's blocks are on a vdev that is removed later.
#[test]
fn vdevs_are_removed_one_after_the_other() {
    simulated(11, async || {
        let pool = furnished(DISK).await;
        let added = pool.add_vdev(spec(3, RAIDZ).await, false).await;
        assert_eq!(added, Ok(VdevId(2)));
        pool.remove_vdev(VDEV).await.expect("it begins");
        ended(&pool).await;
        check(&pool).await;
        pool.remove_vdev(VdevId(2)).await.expect("it begins");
        ended(&pool).await;
        assert_eq!(vdevs(&pool), [0]);
        check(&pool).await;
        close(pool).await;
        let (findings, _) = inspect(2, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(0..2).await.expect("it has everything");
        check(&pool).await;
        // the index of a removed vdev is not used again
        let added = pool.add_vdev(spec(6, MIRROR).await, false).await;
        assert_eq!(added, Ok(VdevId(3)));
        pool.destroy_volume("clone").await.expect("destroyed");
        free_all(&pool).await;
        sound(&pool).await;
        close(pool).await;
    });
}

/// Datasets are destroyed, rolled back and promoted while their blocks are copied.
#[test]
fn datasets_change_while_a_vdev_is_removed() {
    for (seed, kind) in (21..).zip([DISK, RAIDZ]) {
        simulated(seed, async move || {
            let pool = furnished(kind).await;
            let other = volume(&pool, "other", 16 << 20).await;
            for at in (0..2048).step_by(64) {
                write(&other, at, 64, byte(at)).await.expect("written");
            }
            let _proof = other.flush().await.expect("flushed");
            drop(other);
            let back = volume(&pool, "back", 4 << 20).await;
            for n in [5, 6] {
                for at in (0..512).step_by(64) {
                    write(&back, at, 64, byte(at + n)).await.expect("written");
                }
                let _proof = back.flush().await.expect("flushed");
                if n == 5 {
                    pool.create_snapshot("back", "five").await.expect("taken");
                }
            }
            drop(back);
            pool.remove_vdev(VDEV).await.expect("it begins");
            io::time::sleep(Duration::from_millis(20 * seed)).await;
            pool.destroy_volume("other").await.expect("destroyed");
            pool.create_snapshot("vm", "two").await.expect("a snapshot");
            io::time::sleep(Duration::from_millis(20)).await;
            pool.promote("clone").await.expect("promoted");
            pool.roll_back("back", "five").await.expect("rolled back");
            io::time::sleep(Duration::from_millis(20)).await;
            pool.destroy_snapshot("vm", "two").await.expect("destroyed");
            ended(&pool).await;
            assert_eq!(vdevs(&pool), [0]);
            free_all(&pool).await;
            let vol = pool.volume("vm").expect("there");
            let old = pool.snapshot("clone", "one").expect("there");
            let back = pool.volume("back").expect("there");
            for at in 0..512 {
                assert_eq!(first(&back, at).await, byte(at / 64 * 64 + 5), "block {at}");
            }
            drop(back);
            for at in (0..BLOCKS).step_by(7) {
                assert_eq!(first(&vol, at).await, byte(at + 1), "block {at}");
                assert_eq!(first(&old, at).await, byte(at / 32 * 32), "block {at}");
            }
            sound(&pool).await;
            drop((vol, old));
            close(pool).await;
            let (findings, _) = inspect(2, &[]).await;
            assert!(findings.is_empty(), "{findings:?}");
        });
    }
}

/// A removal that is given up leaves the vdev as it was. It can be removed later.
#[test]
fn a_removal_is_given_up() {
    for seed in 31..37 {
        simulated(seed, async move || {
            let pool = furnished(MIRROR).await;
            assert_eq!(pool.stop_removal().await, Err(SetupError::NotRemoving));
            let before = pool.space();
            pool.remove_vdev(VDEV).await.expect("it begins");
            io::time::sleep(Duration::from_millis(4 * (seed - 30))).await;
            assert_eq!(pool.stop_removal().await, Ok(()), "it copies for longer");
            ended(&pool).await;
            assert_eq!(vdevs(&pool), [0, 1]);
            check(&pool).await;
            free_all(&pool).await;
            let after = pool.space();
            assert_eq!(after.size, before.size);
            assert!(after.used < before.used + (1 << 20), "{after:?}");
            check(&pool).await;
            let other = volume(&pool, "other", 16 << 20).await;
            write(&other, 0, 256, 9).await.expect("written");
            drop(other);
            close(pool).await;
            let (findings, _) = inspect(4, &[]).await;
            assert!(findings.is_empty(), "{findings:?}");
            let pool = import(0..4).await.expect("all members");
            check(&pool).await;
            pool.remove_vdev(VDEV).await.expect("it begins again");
            ended(&pool).await;
            assert_eq!(vdevs(&pool), [0]);
            check(&pool).await;
            close(pool).await;
        });
    }
}

/// A vdev is removed again in the moment in which its removal was given up. Regression: it gave out space, and its blocks were copied onto it.
#[test]
fn a_vdev_is_removed_again_at_once() {
    for seed in 111..115 {
        simulated(seed, async || {
            let pool = furnished(DISK).await;
            pool.remove_vdev(VDEV).await.expect("it begins");
            assert_eq!(pool.stop_removal().await, Ok(()), "it copies for longer");
            while pool.removing().is_some() {
                io::time::sleep(Duration::from_micros(10)).await;
            }
            pool.remove_vdev(VDEV).await.expect("it begins again");
            ended(&pool).await;
            assert_eq!(vdevs(&pool), [0]);
            check(&pool).await;
            close(pool).await;
        });
    }
}

/// A removal is given up near its end. The answer is true: after `Ok` the vdev stays, and after an error it leaves. Regression: a batch of
/// copies that was written meanwhile took the end of the removal back.
#[test]
fn a_removal_that_cannot_be_given_up_says_so() {
    let (mut stopped, mut late, mut over) = (0, 0, 0);
    for seed in 71..95 {
        let (ok, ends) = simulated(seed, async move || {
            let pool = furnished(DISK).await;
            pool.remove_vdev(VDEV).await.expect("it begins");
            let left = [8 << 20, 1 << 20, 0, 0][seed as usize % 4];
            while pool.removing().is_some_and(|r| r.left > left) {
                io::time::sleep(Duration::from_micros(500)).await;
            }
            let slow = Latency {
                base: Duration::from_millis(10),
                ..Latency::default()
            };
            for n in 0..3 {
                let disk = Node::current().disk(format!("d{n}")).expect("a disk");
                disk.slow(Some(slow));
            }
            io::time::sleep(Duration::from_millis((seed - 71) * 10)).await;
            let answer = pool.stop_removal().await;
            ended(&pool).await;
            match &answer {
                Ok(()) => assert_eq!(vdevs(&pool), [0, 1]),
                Err(SetupError::RemovalEnds { vdev: VDEV } | SetupError::NotRemoving) => {
                    assert_eq!(vdevs(&pool), [0]);
                }
                Err(other) => panic!("{other}"),
            }
            for n in 0..3 {
                let disk = Node::current().disk(format!("d{n}")).expect("a disk");
                disk.slow(None);
            }
            check(&pool).await;
            close(pool).await;
            let ends = matches!(answer, Err(SetupError::RemovalEnds { .. }));
            (answer.is_ok(), ends)
        });
        stopped += usize::from(ok);
        late += usize::from(ends);
        over += usize::from(!ok && !ends);
    }
    assert!(
        stopped > 2 && late > 0,
        "{stopped} stopped, {late} too late, {over} over"
    );
}

/// A checkpoint from before the removal needs the disks that left: a rewind to it is refused by name, and changes nothing.
#[test]
fn a_rewind_to_before_a_removal_is_refused() {
    simulated(62, async || {
        let pool = furnished(DISK).await;
        let before = pool.sequence();
        pool.remove_vdev(VDEV).await.expect("it begins");
        ended(&pool).await;
        let last = pool.sequence();
        close(pool).await;
        let open = async |sequence| {
            let mut disks = Vec::new();
            for n in 0..2 {
                let disk = Disk::open(format!("d{n}"), io::disk::OpenOptions::default()).await;
                disks.push(disk.expect("the disk is not in use"));
            }
            let found = scan(disks).await.pools.pop().expect("a pool");
            let mut options = OpenOptions::new(Host::new([1; 16], "here"));
            options.rewind = sequence;
            let opened = vdev::open(found, options).await.expect("its disks");
            Pool::open(opened, Options::default()).await
        };
        let refused = open(Some(before)).await.err();
        assert_eq!(refused, Some(Error::BeforeRemoval { vdev: VDEV }));
        io::time::sleep(Duration::from_secs(1)).await;
        let pool = open(None).await.expect("nothing was changed");
        check(&pool).await;
        close(pool).await;
        let pool = open(Some(last)).await.expect("it has all copies");
        check(&pool).await;
        close(pool).await;
    });
}

/// The second step of a scrub mends a row of a raidz with copies, whose parity is wrong.
#[test]
fn a_scrub_mends_rows_with_copies() {
    simulated(63, async || {
        let pool = furnished(DISK).await;
        let added = pool.add_vdev(spec(3, RAIDZ).await, false).await;
        assert_eq!(added, Ok(VdevId(2)));
        pool.remove_vdev(VDEV).await.expect("it begins");
        ended(&pool).await;
        pool.checkpoint().await.expect("a checkpoint");
        // parity, data and free units of one disk
        let disk = Node::current().disk("d3").expect("a disk");
        disk.rot(DATA_START..DATA_START + (8 << 20));
        let found = pool.scrub(|_| ()).await.expect("a scrub");
        assert!(found.repaired > 0 && found.lost.is_empty(), "{found:?}");
        let found = pool.scrub(|_| ()).await.expect("a scrub");
        assert_eq!((found.repaired, found.lost.len()), (0, 0), "{found:?}");
        check(&pool).await;
        close(pool).await;
        let (findings, _) = inspect(6, &[]).await;
        let findings: Vec<_> = findings
            .into_iter()
            .filter(|finding| finding.kind != FindingKind::Label)
            .collect();
        assert!(findings.is_empty(), "{findings:?}");
    });
}

/// A block that rotted is never copied as if it were right. The removal waits, and ends when the block's dataset is gone.
#[test]
fn a_removal_waits_for_damaged_blocks() {
    simulated(41, async || {
        let pool = furnished(DISK).await;
        let disk = Node::current().disk("d2").expect("a disk");
        let start = DATA_START + pool.vdevs().table()[1].first_free.0 + (2 << 20);
        disk.rot(start..start + 65536);
        pool.remove_vdev(VDEV).await.expect("it begins");
        let mut turns = 0;
        while pool.removing().and_then(|r| r.waits_for).is_none() {
            io::time::sleep(Duration::from_millis(10)).await;
            turns += 1;
            assert!(turns < 30_000, "{:?}", pool.removing());
        }
        let state = pool.removing().expect("it is not over");
        assert_eq!(state.waits_for, Some(RemovalWait::Damaged));
        assert_eq!(vdevs(&pool), [0, 1]);
        assert!(!pool.lost_blocks().is_empty(), "they are named");
        let vol = pool.volume("vm").expect("there");
        let mut damaged = 0;
        for at in 0..BLOCKS {
            let wanted = match at % 7 {
                0 => byte(at + 1),
                _ => byte(at / 32 * 32),
            };
            match read(&vol, at).await {
                Ok(found) => assert_eq!(found, wanted, "block {at}"),
                Err(_) => damaged += 1,
            }
        }
        assert!(damaged > 0 && damaged < 64, "{damaged}");
        drop(vol);
        for name in ["clone", "vm"] {
            if name == "vm" {
                pool.destroy_snapshot("vm", "one").await.expect("destroyed");
            }
            pool.destroy_volume(name).await.expect("destroyed");
        }
        free_all(&pool).await;
        ended(&pool).await;
        assert_eq!(vdevs(&pool), [0]);
        sound(&pool).await;
        close(pool).await;
        let (findings, _) = inspect(2, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
    });
}

/// A member of the vdev that takes the copies is away meanwhile. It gets all copies when it is back.
#[test]
fn copies_are_resilvered() {
    for (seed, during) in [(51, false), (52, true)] {
        simulated(seed, async move || {
            let pool = furnished(MIRROR).await;
            let member = pool.vdevs().status()[0].members[0].guid;
            pool.vdevs().offline(member).await.expect("offline");
            pool.remove_vdev(VDEV).await.expect("it begins");
            if during {
                while pool.removing().is_some_and(|r| r.copied < 2 << 20) {
                    io::time::sleep(Duration::from_millis(1)).await;
                }
            } else {
                ended(&pool).await;
            }
            pool.vdevs().online(member, None).await.expect("online");
            pool.resilver(|_| ()).await.expect("resilvered");
            ended(&pool).await;
            let members = pool.vdevs().status().remove(0).members;
            assert!(members.iter().all(|m| m.state == MemberState::Online));
            check(&pool).await;
            close(pool).await;
            let (findings, _) = inspect(2, &[]).await;
            assert!(findings.is_empty(), "{findings:?}");
        });
    }
}

#[test]
fn a_removal_is_refused_without_change() {
    simulated(61, async || {
        let pool = mirror().await;
        let first = VdevId(0);
        let refused = pool.remove_vdev(first).await;
        assert_eq!(refused, Err(SetupError::LastVdev { vdev: first }));
        let refused = pool.remove_vdev(VDEV).await;
        assert_eq!(refused, Err(SetupError::NoVdev { vdev: VDEV }));
        let added = pool.add_vdev(spec(FIRST, RAIDZ).await, false).await;
        assert_eq!(added, Ok(VDEV));
        let vol = volume(&pool, "vm", 1 << 30).await;
        let end = fill(&vol, 0, 256).await;
        let refused = pool.remove_vdev(VDEV).await;
        let Err(SetupError::NoRoom { needed, free, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(needed > (32 << 20) && free < needed, "{needed}, {free}");
        assert_eq!(pool.removing(), None);
        for at in (0..end).step_by(64) {
            assert_eq!(crate::blocks::first(&vol, at).await, byte(at / 256 * 256));
        }
        sound(&pool).await;
        drop(vol);
        close(pool).await;
    });
}
