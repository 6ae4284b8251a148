//! Expansion of a raidz by one disk: beside clients, with power cuts, lost members and rot.

use std::time::Duration;

use backend::BlockBackend;
use io::disk::OpenOptions as DiskOptions;
use io::sim::{DiskConfig, Node};
use pool::Pool;
use pool::inspect::FindingKind;
use pool::vdev::{DATA_START, MemberState, SetupError};

use crate::blocks::{byte, first, simulated, sound, volume, write};
use crate::raidz::inspect::inspect;
use crate::raidz::members::import;
use crate::raidz::{Disk, Shape, cut_at_many_steps, disks, make};

const BLOCKS: u64 = 640;
/// Members that fail during one expansion, one after the other.
const LOSSES: usize = 3;
const SHAPES: [Shape; 4] = [(3, 1, 64), (2, 1, 160), (5, 2, 64), (6, 3, 64)];
const VDEV: pool::format::VdevId = pool::format::VdevId(0);

async fn new_disk(n: usize) -> Disk {
    loop {
        match Disk::open(format!("d{n}"), DiskOptions::default()).await {
            Err(io::Error::Busy(_)) => io::time::sleep(Duration::from_millis(1)).await,
            opened => return opened.expect("the disk is there"),
        }
    }
}

/// Waits until all rows are moved.
async fn ended(pool: &Pool) {
    for _ in 0..100_000 {
        if pool.expanding().is_empty() {
            return;
        }
        io::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not end: {:?}", pool.expanding());
}

/// Contents with rows that several groups share, holes, and a snapshot.
async fn furnish(pool: &Pool) {
    let vol = volume(pool, "vm", 16 << 20).await;
    for at in (0..BLOCKS).step_by(16) {
        write(&vol, at, 16, byte(at)).await.expect("written");
    }
    let _proof = vol.flush().await.expect("flushed");
    pool.create_snapshot("vm", "one").await.expect("a snapshot");
    for at in (0..BLOCKS).step_by(7) {
        write(&vol, at, 1, byte(at + 1)).await.expect("written");
    }
    let _proof = vol.flush().await.expect("flushed");
    pool.checkpoint().await.expect("a checkpoint");
}

/// The first byte of a block.
fn expected(at: u64) -> u8 {
    match at % 7 {
        0 => byte(at + 1),
        _ => byte(at / 16 * 16),
    }
}

async fn check(pool: &Pool) {
    let vol = pool.volume("vm").expect("there");
    for at in 0..BLOCKS {
        assert_eq!(first(&vol, at).await, expected(at), "block {at}");
    }
    let old = pool.snapshot("vm", "one").expect("there");
    for at in (0..BLOCKS).step_by(5) {
        assert_eq!(first(&old, at).await, byte(at / 16 * 16), "block {at}");
    }
    sound(pool).await;
}

async fn close(pool: Pool) {
    pool.close().await.expect("closed");
}

/// The offline reader finds nothing wrong on the disks that have a label.
async fn inspected(count: usize, without: &[usize]) {
    let mut without = without.to_vec();
    let last = new_disk(count - 1).await;
    if pool::vdev::scan(vec![last]).await.pools.is_empty() {
        without.push(count - 1);
    }
    let (mut findings, _) = inspect(count, &without).await;
    // the disks that are left out
    findings.retain(|f| f.kind != FindingKind::Missing);
    assert!(findings.is_empty(), "{findings:?}");
}

/// While a client writes, all blocks move to wider rows, parity is that of the wider rows, and the vdev is larger in the end.
#[test]
fn a_raidz_grows_by_a_disk_beside_clients() {
    for (seed, shape) in (1..).zip([SHAPES[0], SHAPES[1], SHAPES[3]]) {
        simulated(seed, async move || {
            let (count, parity, _) = shape;
            let pool = make(shape).await;
            furnish(&pool).await;
            let before = pool.vdevs().status().remove(0).size;
            let new = disks(count, (1, 0, shape.2)).await.remove(0);
            pool.expand(VDEV, new, false).await.expect("it joins");
            assert_eq!(pool.vdevs().status()[0].size, before, "not before the end");
            let other = volume(&pool, "other", 8 << 20).await;
            let mut at = 0;
            while !pool.expanding().is_empty() {
                write(&other, at % 2048, 3, byte(at))
                    .await
                    .expect("written");
                let _proof = other.flush().await.expect("flushed");
                io::time::sleep(Duration::from_millis(3)).await;
                at += 3;
            }
            let after = pool.vdevs().status().remove(0).size;
            let data = (count - usize::from(parity)) as u64;
            let wide = (after - before) * data;
            assert!(
                wide > before * 9 / 10 && wide <= before,
                "{before} to {after}"
            );
            check(&pool).await;
            let found = pool.scrub(|_| ()).await.expect("a scrub");
            assert_eq!(found.repaired, 0, "{found:?}");
            if seed == 1 {
                // the new space is used
                let big = volume(&pool, "big", 2 * before).await;
                let end = crate::raidz::fill(&big, 0, 256).await * 4096;
                assert!(
                    end + (32 << 20) > before - (before >> 2),
                    "{end} of {before}"
                );
            }
            drop(other);
            close(pool).await;
            inspected(count + 1, &[]).await;
            let gone: Vec<usize> = (0..usize::from(parity)).collect();
            inspected(count + 1, &gone).await;
            let pool = import(gone.len()..count + 1)
                .await
                .expect("it has all rows");
            check(&pool).await;
            close(pool).await;
        });
    }
}

/// Two expansions follow each other; the journal stays where it was.
#[test]
fn a_raidz_grows_twice() {
    simulated(9, async || {
        let pool = make((4, 2, 64)).await;
        furnish(&pool).await;
        for n in 4..6 {
            let new = disks(n, (1, 0, 64)).await.remove(0);
            pool.expand(VDEV, new, false).await.expect("it joins");
            ended(&pool).await;
            check(&pool).await;
        }
        close(pool).await;
        inspected(6, &[]).await;
        let pool = import(2..6).await.expect("it has all rows");
        check(&pool).await;
        close(pool).await;
    });
}

/// Runs an expansion whose power is cut at many steps, then `after` with the disks.
fn expand_with_cuts(shape: Shape, stride: u64, after: impl AsyncFn(Shape, u64) + Copy + 'static) {
    let expand = async move |step, _| {
        let pool = make(shape).await;
        furnish(&pool).await;
        let new = disks(shape.0, (1, 0, shape.2)).await.remove(0);
        Node::current().power_cut_after(step);
        pool.expand(VDEV, new, false).await.expect("it joins");
        ended(&pool).await;
    };
    cut_at_many_steps(stride, 10, expand, async move |step, _| {
        after(shape, step).await
    });
}

/// Ends what a cut left of an expansion, and checks that as many members may be gone then as there is parity.
async fn finish((count, parity, _): Shape, pool: Pool) {
    check(&pool).await;
    pool.resilver(|_| ()).await.expect("resilvered");
    if pool.vdevs().status()[0].members.len() == count {
        let new = new_disk(count).await;
        pool.expand(VDEV, new, false).await.expect("a repetition");
    }
    ended(&pool).await;
    check(&pool).await;
    close(pool).await;
    let pool = import(usize::from(parity)..count + 1).await;
    let pool = pool.expect("it has all rows");
    check(&pool).await;
    close(pool).await;
}

#[test]
fn an_expansion_goes_on_after_a_power_cut() {
    for (shape, stride) in [(SHAPES[0], 13), (SHAPES[2], 31)] {
        expand_with_cuts(shape, stride, async |shape, _| {
            inspected(shape.0 + 1, &[]).await;
            let pool = import(0..=shape.0).await.expect("all members");
            finish(shape, pool).await;
        });
    }
}

/// The power goes, and as many members as there is parity are gone; they come back, and the expansion ends.
#[test]
fn an_expansion_survives_a_power_cut_with_lost_members() {
    for (shape, stride) in [(SHAPES[0], 17), (SHAPES[2], 37)] {
        expand_with_cuts(shape, stride, async |shape, step| {
            let (count, parity, _) = shape;
            let parity = usize::from(parity);
            let gone = step as usize % (count + 2 - parity);
            let gone = gone..(gone + parity).min(count + 1);
            let there: Vec<usize> = (0..=count).filter(|n| !gone.contains(n)).collect();
            let pool = match import(there.iter().copied()).await {
                Ok(pool) => pool,
                // the disk had not joined, so more are gone than there is parity
                Err(_) if there.len() < count => import(0..=count).await.expect("all members"),
                Err(error) => panic!("{error}"),
            };
            check(&pool).await;
            io::time::sleep(Duration::from_secs(3)).await;
            close(pool).await;
            let gone: Vec<usize> = gone.collect();
            inspected(count + 1, &gone).await;
            let pool = import(0..=count).await.expect("all members");
            finish(shape, pool).await;
        });
    }
}

/// One member after another fails while rows are moved. The expansion waits, and ends when the member is back.
#[test]
fn an_expansion_waits_for_a_lost_member() {
    for (seed, shape) in (21..).zip([SHAPES[0], SHAPES[2]]) {
        simulated(seed, async move || {
            let (count, ..) = shape;
            let pool = make(shape).await;
            furnish(&pool).await;
            let new = disks(count, (1, 0, shape.2)).await.remove(0);
            pool.expand(VDEV, new, false).await.expect("it joins");
            let mut lost = 0;
            let mut turns = 0;
            while let Some(now) = pool.expanding().first().copied() {
                turns += 1;
                assert!(turns < 20_000, "it ends: {now:?}");
                let position = |pool: &Pool| pool.expanding().first().map(|e| e.status.done);
                if now.status.done > 0 && lost < LOSSES {
                    let member = pool.vdevs().status()[0].members[count - lost].guid;
                    pool.vdevs().offline(member).await.expect("offline");
                    io::time::sleep(Duration::from_secs(2)).await;
                    let waits = position(&pool);
                    io::time::sleep(Duration::from_secs(3)).await;
                    assert_eq!(position(&pool), waits, "it waits");
                    let vol = pool.volume("vm").expect("there");
                    for at in (0..BLOCKS).step_by(16) {
                        assert_eq!(first(&vol, at).await, expected(at), "block {at}");
                    }
                    pool.vdevs().online(member, None).await.expect("online");
                    pool.resilver(|_| ()).await.expect("resilvered");
                    lost += 1;
                }
                io::time::sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(lost, LOSSES, "it was not over at once");
            let states = pool.vdevs().status().remove(0).members;
            assert!(states.iter().all(|m| m.state == MemberState::Online));
            check(&pool).await;
            let found = pool.scrub(|_| ()).await.expect("a scrub");
            assert_eq!((found.repaired, found.lost.len()), (0, 0), "{found:?}");
            close(pool).await;
            inspected(count + 1, &[]).await;
        });
    }
}

/// Sectors of as many members as there is parity are rotten before rows are moved: all blocks are right after it, and parity is that of
/// right blocks.
#[test]
fn an_expansion_blesses_no_rot() {
    for (seed, shape) in (31..).zip(SHAPES) {
        simulated(seed, async move || {
            let (count, parity, _) = shape;
            let pool = make(shape).await;
            furnish(&pool).await;
            for n in 0..usize::from(parity) {
                let disk = Node::current().disk(format!("d{n}")).expect("a disk");
                disk.rot(DATA_START + (12 << 20)..DATA_START + (40 << 20));
            }
            let new = disks(count, (1, 0, shape.2)).await.remove(0);
            pool.expand(VDEV, new, false).await.expect("it joins");
            ended(&pool).await;
            check(&pool).await;
            let found = pool.scrub(|_| ()).await.expect("a scrub");
            assert_eq!((found.repaired, found.lost.len()), (0, 0), "{found:?}");
            close(pool).await;
            let pool = import(usize::from(parity)..count + 1).await;
            check(&pool.expect("it has all rows")).await;
        });
    }
}

#[test]
fn an_expansion_is_refused_without_change() {
    simulated(41, async || {
        let pool = make((4, 1, 64)).await;
        furnish(&pool).await;
        let config = DiskConfig {
            size: 48 << 20,
            ..DiskConfig::default()
        };
        Node::current().create_disk("small", config);
        let small = Disk::open("small", DiskOptions::default())
            .await
            .expect("a disk");
        let refused = pool.expand(VDEV, small, false).await;
        assert!(
            matches!(refused, Err(SetupError::Truncated { .. })),
            "{refused:?}"
        );
        let mut new = disks(4, (3, 0, 64)).await;
        let spare = new.pop().expect("a disk");
        pool.add_spare(&spare, false).await.expect("a spare");
        let refused = pool.expand(VDEV, spare, false).await;
        assert!(refused.is_err(), "a spare");
        let member = pool.vdevs().status()[0].members[1].guid;
        pool.vdevs().offline(member).await.expect("offline");
        let refused = pool.expand(VDEV, new[0].clone(), false).await;
        assert!(
            matches!(refused, Err(SetupError::Degraded { .. })),
            "{refused:?}"
        );
        pool.vdevs().online(member, None).await.expect("online");
        let refused = pool.expand(VDEV, new[0].clone(), false).await;
        assert!(
            matches!(refused, Err(SetupError::Degraded { .. })),
            "{refused:?}"
        );
        pool.resilver(|_| ()).await.expect("resilvered");
        assert!(pool.expanding().is_empty());
        pool.expand(VDEV, new.remove(0), false)
            .await
            .expect("it joins");
        let refused = pool.expand(VDEV, new.remove(0), false).await;
        assert!(
            matches!(refused, Err(SetupError::Expanding { .. })),
            "{refused:?}"
        );
        ended(&pool).await;
        check(&pool).await;
    });
    simulated(42, async || {
        let pool = make((16, 2, 64)).await;
        let new = disks(16, (1, 0, 64)).await.remove(0);
        let refused = pool.expand(VDEV, new, false).await;
        assert!(
            matches!(refused, Err(SetupError::Widest { .. })),
            "{refused:?}"
        );
    });
}
