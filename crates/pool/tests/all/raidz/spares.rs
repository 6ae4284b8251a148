//! Hot spares of mirrors and raidz: taken, given back, replaced, shared; with power cuts at every step.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use io::disk::OpenOptions as DiskOptions;
use io::sim::{DiskConfig, Node, Sim, SimConfig};
use pool::format::{
    Host, LABEL_SIZE, Label, MemberGuid, SpareEntry, SpareGuid, SparePool, SpareUse, VdevOffset,
};
use pool::vdev::{
    self, Layout, MemberState, OpenOptions, PoolSpec, SetupError, VdevSpec, create, spare_label,
};
use pool::{Options, Pool};

use crate::blocks::{byte, first, simulated, sound, volume, write};
use crate::raidz::Disk;

const BLOCKS: u64 = 64;
/// Small, so that a wiped disk is a short step.
const SIZE: u64 = 64 << 20;
/// More disk steps than any act takes.
const STEPS_MAX: u64 = 4000;

/// Layout, members.
type Shape = (Layout, usize);
const SHAPES: [Shape; 3] = [
    (Layout::Mirror, 2),
    (Layout::Raidz { parity: 1 }, 3),
    (Layout::Raidz { parity: 2 }, 5),
];

fn config(size: u64) -> DiskConfig {
    DiskConfig {
        size,
        ..DiskConfig::default()
    }
}

fn host() -> Host {
    Host::new([1; 16], "here")
}

/// Disk `d<n>`, which may be closing.
async fn disk(n: usize) -> Disk {
    loop {
        match Disk::open(format!("d{n}"), DiskOptions::default()).await {
            Err(io::Error::Busy(_)) => io::time::sleep(std::time::Duration::from_millis(1)).await,
            opened => return opened.expect("the disk is there"),
        }
    }
}

async fn disks(which: impl IntoIterator<Item = usize>) -> Vec<Disk> {
    let mut disks = Vec::new();
    for n in which {
        disks.push(disk(n).await);
    }
    disks
}

async fn open(opened: vdev::Opened) -> Pool {
    let pool = Pool::open(opened, Options::default()).await;
    pool.expect("its trees are whole")
}

async fn make(name: &str, layout: Layout, which: impl IntoIterator<Item = usize>) -> Pool {
    let members = disks(which).await;
    let spec = VdevSpec::new(layout, members);
    let opened = create(PoolSpec::new(name, vec![spec], host())).await;
    open(opened.expect("created")).await
}

/// A pool with contents on the first disks, and its spare, the next disk.
async fn furnish((layout, count): Shape) -> (Pool, SpareGuid) {
    let pool = make("tank", layout, 0..count).await;
    let vol = volume(&pool, "vm", 4 << 20).await;
    for at in (0..BLOCKS).step_by(16) {
        write(&vol, at, 16, byte(at)).await.expect("written");
    }
    let spare = pool.add_spare(&disk(count).await, false).await;
    (pool, spare.expect("added"))
}

async fn check(pool: &Pool) {
    let vol = pool.volume("vm").expect("there");
    for at in 0..BLOCKS {
        assert_eq!(first(&vol, at).await, byte(at / 16 * 16), "block {at}");
    }
    sound(pool).await;
}

async fn import(which: impl IntoIterator<Item = usize>) -> Result<Pool, SetupError> {
    let found = vdev::scan(disks(which).await).await.pools.pop();
    let opened = vdev::open(found.expect("a pool"), OpenOptions::new(host())).await?;
    Ok(open(opened).await)
}

fn members(pool: &Pool) -> Vec<(MemberGuid, MemberState)> {
    let members = pool.vdevs().status().remove(0).members;
    members.into_iter().map(|m| (m.guid, m.state)).collect()
}

fn used(pool: &Pool, spare: SpareGuid) -> Option<SpareUse> {
    pool.spares().get(&spare).expect("a spare").used
}

/// Whether the disk `n` is a spare by its label.
async fn is_labelled(n: usize, spare: SpareGuid) -> bool {
    let label = spare_label(&disk(n).await).await;
    label.is_some_and(|label| label.spare == spare)
}

/// The disks that are no members.
fn free(pool: &Pool, which: Range<usize>) -> Vec<usize> {
    let members = pool.vdevs().status().remove(0).members;
    let is_member = |n: &usize| {
        members
            .iter()
            .any(|m| m.path == Path::new(&format!("d{n}")))
    };
    which.filter(|n| !is_member(n)).collect()
}

/// Ends or undoes what a power cut interrupted, as a server does that has opened the pool. `which` are all disks.
async fn settle(pool: &Pool, which: Range<usize>) {
    for (spare, entry) in pool.spares() {
        let Some(used) = entry.used else { continue };
        match pool.vdevs().state_of(used.member) {
            None => {
                let mut is_settled = false;
                for n in free(pool, which.clone()) {
                    let settled = pool.settle_spare(spare, &disk(n).await, &[]).await;
                    is_settled |= settled.expect("settled");
                }
                assert!(is_settled, "a disk has a label of it");
            }
            Some(MemberState::Missing) => {
                for n in free(pool, which.clone()) {
                    if is_labelled(n, spare).await {
                        let taken = pool.take_spare(spare, used.member, disk(n).await).await;
                        taken.expect("taken again");
                    }
                }
            }
            Some(_) => {}
        }
    }
}

/// Either the spare is available and labelled, or its disk is a member.
async fn check_spare(pool: &Pool, spare: SpareGuid, n: usize) {
    match used(pool, spare) {
        None => assert!(is_labelled(n, spare).await, "an available spare"),
        Some(used) => {
            let state = pool.vdevs().state_of(used.member);
            let is_there = matches!(state, Some(MemberState::Online | MemberState::Stale));
            assert!(is_there, "{state:?}");
        }
    }
}

/// Runs `prepare` and then `act` on a machine whose power is cut after each number of steps of `act`, and `after` when it is on again.
fn at_every_step<T: Clone + 'static>(
    shape: Shape,
    stride: usize,
    prepare: impl AsyncFn(&Pool, SpareGuid) -> T + Copy + 'static,
    act: impl AsyncFn(Pool, SpareGuid, T) + Copy + 'static,
    after: impl AsyncFn(Pool, SpareGuid, T) + Copy + 'static,
) {
    for (cuts, step) in (0..STEPS_MAX).step_by(stride).enumerate() {
        let was_cut = Sim::new(step, SimConfig::default()).block_on(async move {
            let node = Node::new();
            for n in 0..shape.1 + 2 {
                node.create_disk(format!("d{n}"), config(SIZE));
            }
            let state = Rc::new(RefCell::new(None));
            let shown = state.clone();
            let first = node.spawn(async move {
                let (pool, spare) = furnish(shape).await;
                let prepared = prepare(&pool, spare).await;
                *shown.borrow_mut() = Some((spare, prepared.clone()));
                node.power_cut_after(step);
                act(pool, spare, prepared).await;
            });
            let was_cut = first.await.is_none();
            node.power_cut();
            node.power_on();
            let (spare, prepared) = state.borrow().clone().expect("it was prepared");
            let second = node.spawn(async move {
                let pool = import(0..shape.1 + 2).await;
                let pool = pool.unwrap_or_else(|e| panic!("step {step}: {e}"));
                settle(&pool, 0..shape.1 + 2).await;
                after(pool, spare, prepared).await;
            });
            second.await.expect("it has power");
            was_cut
        });
        if !was_cut {
            assert!(cuts > 10, "{cuts} cuts");
            return;
        }
    }
    panic!("it does not end");
}

async fn offline_first(pool: &Pool, _: SpareGuid) -> MemberGuid {
    let member = members(pool)[0].0;
    pool.vdevs().offline(member).await.expect("offline");
    member
}

async fn take(pool: &Pool, spare: SpareGuid, member: MemberGuid, n: usize) {
    let taken = pool.take_spare(spare, member, disk(n).await).await;
    let new = taken.expect("taken");
    pool.resilver(|_| ()).await.expect("resilvered");
    assert_eq!(pool.vdevs().state_of(new), Some(MemberState::Online));
}

/// The power goes at each step of a take-over and of its resilver: the spare is available or a member, and takes over in the end.
#[test]
fn a_take_over_that_was_interrupted_is_finished_or_undone() {
    for shape in [SHAPES[0], SHAPES[1]] {
        let count = shape.1;
        at_every_step(
            shape,
            3,
            async |pool, spare| offline_first(pool, spare).await,
            async move |pool, spare, member| take(&pool, spare, member, count).await,
            async move |pool, spare, member| {
                check_spare(&pool, spare, count).await;
                if used(&pool, spare).is_none() {
                    let taken = pool.take_spare(spare, member, disk(count).await).await;
                    taken.expect("taken");
                }
                pool.resilver(|_| ()).await.expect("resilvered");
                check(&pool).await;
                pool.close().await.expect("closed");
                // without the member that the spare stands in for
                let pool = import(1..=count).await.expect("it has every block");
                check(&pool).await;
            },
        );
    }
}

/// The power goes at each step of giving a spare back.
#[test]
fn a_spare_that_is_given_back_is_available_or_still_a_member() {
    at_every_step(
        SHAPES[0],
        1,
        async |pool, spare| {
            let member = offline_first(pool, spare).await;
            take(pool, spare, member, 2).await;
            let used = used(pool, spare).expect("in use");
            assert!(!pool.may_give_back(used), "the original is offline");
            pool.vdevs().online(member, None).await.expect("online");
            pool.resilver(|_| ()).await.expect("resilvered");
            assert!(pool.may_give_back(used));
        },
        async |pool, spare, ()| pool.give_back_spare(spare, &[]).await.expect("given back"),
        async |pool, spare, ()| {
            check_spare(&pool, spare, 2).await;
            if used(&pool, spare).is_some() {
                pool.give_back_spare(spare, &[]).await.expect("given back");
            }
            assert!(is_labelled(2, spare).await);
            assert_eq!(members(&pool).len(), 2);
            check(&pool).await;
        },
    );
}

/// The power goes at each step of replacing a raidz's member that was a spare.
#[test]
fn a_spare_of_a_raidz_is_relieved_by_a_new_disk() {
    let count = SHAPES[1].1;
    at_every_step(
        SHAPES[1],
        2,
        async move |pool, spare| {
            let member = offline_first(pool, spare).await;
            take(pool, spare, member, count).await;
        },
        async move |pool, spare, ()| {
            let new = disk(count + 1).await;
            let relieved = pool.relieve_spare(spare, new, false, &[]).await;
            relieved.expect("replaced");
        },
        async move |pool, spare, ()| {
            check_spare(&pool, spare, count).await;
            if used(&pool, spare).is_some() {
                let new = disk(count + 1).await;
                let relieved = pool.relieve_spare(spare, new, true, &[]).await;
                relieved.expect("replaced");
            }
            assert!(is_labelled(count, spare).await);
            pool.resilver(|_| ()).await.expect("resilvered");
            check(&pool).await;
        },
    );
}

/// The power goes at each step of an addition: it is complete, or a repetition completes it.
#[test]
fn an_addition_that_was_interrupted_can_be_repeated() {
    at_every_step(
        SHAPES[0],
        1,
        async |_, _| (),
        async |pool, _, ()| {
            pool.add_spare(&disk(3).await, false).await.expect("added");
        },
        async |pool, first, ()| {
            let label = spare_label(&disk(3).await).await;
            let is_known = |spare| pool.spares().contains_key(&spare);
            match label.map(|label| label.spare) {
                Some(spare) if is_known(spare) => {}
                _ => {
                    assert_eq!(pool.spares().len(), 1, "no entry without a label");
                    pool.add_spare(&disk(3).await, false).await.expect("added");
                }
            }
            assert_eq!(pool.spares().len(), 2);
            let twice = pool.add_spare(&disk(3).await, false).await;
            assert!(matches!(twice, Err(SetupError::SpareTwice { .. })));
            check_spare(&pool, first, 2).await;
        },
    );
}

/// A spare that fails while it is resilvered is replaced by the next one, and is no spare any more.
#[test]
fn the_next_spare_takes_the_place_of_one_that_failed() {
    for shape in SHAPES {
        simulated(5, async move || {
            let count = shape.1;
            for n in 0..count + 2 {
                Node::current().create_disk(format!("d{n}"), config(SIZE));
            }
            let (pool, first) = furnish(shape).await;
            let second = pool.add_spare(&disk(count + 1).await, false).await;
            let second = second.expect("added");
            let member = offline_first(&pool, first).await;
            let failed = pool.take_spare(first, member, disk(count).await).await;
            let failed = failed.expect("taken");
            let again = pool.take_spare(first, member, disk(count + 1).await).await;
            assert!(matches!(again, Err(SetupError::NoSpare { .. })));
            let other = pool.take_spare(second, failed, disk(count + 1).await).await;
            let other = other.expect("taken");
            let expected = SpareUse {
                member: other,
                instead_of: member,
            };
            assert_eq!(used(&pool, second), Some(expected));
            assert!(!pool.spares().contains_key(&first));
            pool.resilver(|_| ()).await.expect("resilvered");
            assert_eq!(pool.vdevs().state_of(other), Some(MemberState::Online));
            check(&pool).await;
        });
    }
}

/// The power goes at each step in which a spare takes the place of one that failed. The one that failed is a spare with a label on its disk,
/// or no spare any more.
#[test]
fn a_spare_that_failed_has_a_label_until_it_is_no_spare() {
    for shape in [SHAPES[0], SHAPES[1]] {
        let count = shape.1;
        at_every_step(
            shape,
            1,
            async move |pool, first| {
                let second = pool.add_spare(&disk(count + 1).await, false).await;
                let member = offline_first(pool, first).await;
                take(pool, first, member, count).await;
                let failed = used(pool, first).expect("in use").member;
                pool.vdevs().offline(failed).await.expect("offline");
                (second.expect("added"), failed)
            },
            async move |pool, _, (second, failed)| {
                let taken = pool.take_spare(second, failed, disk(count + 1).await).await;
                taken.expect("taken");
            },
            async move |pool, _, (second, failed)| {
                if used(&pool, second).is_none() {
                    let taken = pool.take_spare(second, failed, disk(count + 1).await).await;
                    taken.expect("taken");
                }
                pool.resilver(|_| ()).await.expect("resilvered");
                check(&pool).await;
            },
        );
    }
}

/// A spare has a label that other pools respect, and is found by it.
#[test]
fn a_spare_is_not_taken_by_accident() {
    simulated(6, async || {
        for n in 0..5 {
            Node::current().create_disk(format!("d{n}"), config(SIZE));
        }
        let (pool, spare) = furnish(SHAPES[0]).await;
        let refused = create(PoolSpec::new("other", vec![disks([2]).await], host())).await;
        assert!(matches!(refused.err(), Some(SetupError::IsSpare { .. })));
        let member = members(&pool)[0].0;
        let vdevs = pool.vdevs();
        let refused = vdevs.replace(member, disk(2).await, false).await;
        assert!(matches!(refused, Err(SetupError::IsSpare { .. })));
        let refused = vdevs.add(vec![disk(2).await], false).await;
        assert!(matches!(refused.err(), Some(SetupError::IsSpare { .. })));
        let found = vdev::scan(disks([2, 3]).await).await;
        assert_eq!(found.spares[0].label.spare, spare);
        assert_eq!(found.unread.len(), 1);
        // a release without spares takes it for a disk of a later version
        let buf = io::pool().alloc(LABEL_SIZE).await;
        let (read, buf) = disk(2).await.read(buf, 0).await;
        read.expect("read");
        let defect = Label::decode(&buf, VdevOffset(0)).expect_err("a spare's");
        assert!(defect.to_string().contains("version"), "{defect}");
        // a disk with a pool, one that is too small, and one of another host
        let other = make("other", Layout::Mirror, [3]).await;
        other.close().await.expect("closed");
        let refused = pool.add_spare(&disk(3).await, false).await;
        assert!(matches!(refused, Err(SetupError::InUse { .. })));
        Node::current().create_disk("d5", config(SIZE / 2));
        let refused = pool.add_spare(&disk(5).await, true).await;
        assert!(matches!(refused, Err(SetupError::SpareTooSmall { .. })));
        assert_eq!(pool.spares().len(), 1);
        pool.add_spare(&disk(3).await, true).await.expect("forced");
        // removed, its disk is free
        let removed = pool.remove_spare(spare, Some(&disk(2).await)).await;
        removed.expect("removed");
        assert_eq!(spare_label(&disk(2).await).await, None);
        assert_eq!(pool.spares().len(), 1);
    });
}

/// Two pools share a spare: the one that takes it first has it, and the other one finds no spare on the disk.
#[test]
fn a_shared_spare_serves_the_first_pool_that_needs_it() {
    simulated(7, async || {
        for n in 0..5 {
            Node::current().create_disk(format!("d{n}"), config(SIZE));
        }
        let (pool, spare) = furnish(SHAPES[0]).await;
        let other = make("other", Layout::Mirror, [3, 4]).await;
        let shared = other.add_spare(&disk(2).await, false).await;
        assert_eq!(shared.expect("shared"), spare);
        let label = spare_label(&disk(2).await).await.expect("a spare");
        assert_eq!(label.names(), "other, tank");
        let member = offline_first(&other, spare).await;
        take(&other, spare, member, 2).await;
        let entry = SpareEntry {
            size: SIZE,
            used: None,
        };
        assert_eq!(pool.spares().get(&spare), Some(&entry));
        // it is given back with both pools in its label, and removed from one of them
        other.vdevs().online(member, None).await.expect("online");
        other.resilver(|_| ()).await.expect("resilvered");
        let tank = SparePool {
            guid: pool.vdevs().pool(),
            name: "tank".into(),
        };
        let given = other.give_back_spare(spare, &[tank]).await;
        given.expect("given back");
        let removed = other.remove_spare(spare, Some(&disk(2).await)).await;
        removed.expect("removed");
        let label = spare_label(&disk(2).await).await.expect("of one pool");
        assert!(label.is_of(pool.vdevs().pool()) && !label.is_of(other.vdevs().pool()));
        let member = members(&pool)[0].0;
        pool.vdevs().offline(member).await.expect("offline");
        take(&pool, spare, member, 2).await;
        check(&pool).await;
    });
}

/// A disk whose label names another spare or another host is not taken.
#[test]
fn a_disk_that_is_another_spare_is_not_taken() {
    simulated(8, async || {
        for n in 0..4 {
            Node::current().create_disk(format!("d{n}"), config(SIZE));
        }
        let (pool, spare) = furnish(SHAPES[0]).await;
        let member = offline_first(&pool, spare).await;
        let refused = pool.take_spare(spare, member, disk(3).await).await;
        assert!(matches!(refused, Err(SetupError::NotSpare { .. })));
        assert_eq!(used(&pool, spare), None);
    });
}
