//! Members that leave and return: a member is in again only when it has all data.

use std::cell::Cell;
use std::rc::Rc;

use io::rng;
use io::sim::{DiskConfig, Node, PowerCutFate, SimDisk};
use pool::format::{Birth, BlockPtr, MemberGuid, Uberblock, VdevId, VdevKind};
use pool::vdev::limits::HANG_MAX;
use pool::vdev::{MemberState, OpenOptions, Resilvered, SetupError, Vdevs, open};

use crate::vdev::world::{
    DISK_SIZE, config, disk, disks, find, get_all, host, import, machine, make, on, path, place,
    pointer, put, put_all, run,
};

fn member(vdevs: &Vdevs, index: usize) -> MemberGuid {
    vdevs.status()[0].members[index].guid
}

fn states(vdevs: &Vdevs) -> Vec<MemberState> {
    vdevs.status()[0].members.iter().map(|s| s.state).collect()
}

/// Writes an uberblock that ends `epoch`, durably.
async fn checkpoint(vdevs: &Vdevs, last: &Uberblock, epoch: u64) -> pool::Result<()> {
    let uberblock = Uberblock {
        sequence: epoch,
        epoch: Birth(epoch),
        ..*last
    };
    let _stable = vdevs.flush().await?;
    vdevs.write_uberblock(&uberblock).await?;
    let _stable = vdevs.flush().await?;
    Ok(())
}

fn pointers(vdevs: &Vdevs, blocks: std::ops::Range<u64>, version: u8, birth: u64) -> Vec<BlockPtr> {
    let ptr = |n| BlockPtr {
        birth: Birth(birth),
        placed: Birth(birth),
        ..pointer(place(vdevs, 0, n), version)
    };
    blocks.map(ptr).collect()
}

/// Blocks 0 to 8 of epoch 2 are on both members, 8 to 16 of epoch 3 on member 0 only.
async fn half_missed(disks: &[SimDisk]) -> (Vdevs, Uberblock) {
    let opened = make(&[&[0, 1]]).await.expect("made");
    let (vdevs, uberblock) = (opened.vdevs, opened.uberblock);
    put_all(&vdevs, 0..8, 1).await;
    checkpoint(&vdevs, &uberblock, 2).await.expect("durable");
    disks[1].error_rates(0.0, 1.0, 0.0);
    put_all(&vdevs, 8..16, 1).await;
    let _stable = vdevs.flush().await.expect("a member has it");
    disks[1].heal();
    checkpoint(&vdevs, &uberblock, 3).await.expect("durable");
    (vdevs, uberblock)
}

#[test]
fn a_stale_member_gets_its_missed_blocks_and_is_in_again() {
    for reopen in [false, true] {
        run(1, async move {
            let (node, disks) = machine(2);
            on(node, async move {
                let (mut vdevs, uberblock) = half_missed(&disks).await;
                if reopen {
                    drop(vdevs);
                    vdevs = import(&[0, 1]).await.expect("both are there").vdevs;
                }
                let stale = member(&vdevs, 1);
                assert_eq!(vdevs.stale_members(), [(VdevId(0), stale, Birth(2))]);
                vdevs.begin_resilver(stale).expect("it is stale");
                let early = vdevs.resilvered(stale).await;
                assert_eq!(early, Err(SetupError::NoCheckpoint { member: stale }));
                checkpoint(&vdevs, &uberblock, 4).await.expect("durable");
                let mut all = pointers(&vdevs, 0..8, 1, 2);
                all.extend(pointers(&vdevs, 8..16, 1, 3));
                // The simulator carried out some of the failed writes.
                let first = vdevs.resilver(stale, all.clone()).await.expect("copied");
                assert!(
                    first.copied > 0 && first.copied + first.had == 8,
                    "{first:?}"
                );
                let had = Resilvered {
                    copied: 0,
                    had: 8,
                    lost: Vec::new(),
                };
                assert_eq!(vdevs.resilver(stale, all).await, Ok(had));
                vdevs.resilvered(stale).await.expect("it has everything");
                assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Online]);
                drop(vdevs);
                let vdevs = import(&[0, 1]).await.expect("both are there").vdevs;
                assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Online]);
                disks[0].fail_reads(0..DISK_SIZE);
                get_all(&vdevs, 0..16, 1).await;
            })
            .await
        });
    }
}

#[test]
fn a_member_that_misses_a_write_during_its_resilver_begins_again() {
    run(1, async {
        let (node, disks) = machine(2);
        on(node, async move {
            let (vdevs, uberblock) = half_missed(&disks).await;
            let stale = member(&vdevs, 1);
            let missed = Err(SetupError::Missed { member: stale });
            assert_eq!(vdevs.resilvered(stale).await, missed, "it never began");
            vdevs.begin_resilver(stale).expect("it is stale");
            checkpoint(&vdevs, &uberblock, 4).await.expect("durable");
            disks[1].error_rates(0.0, 1.0, 0.0);
            put_all(&vdevs, 16..17, 1).await;
            disks[1].heal();
            assert_eq!(vdevs.resilvered(stale).await, missed);
            vdevs.begin_resilver(stale).expect("it is stale");
            checkpoint(&vdevs, &uberblock, 5).await.expect("durable");
            disks[1].error_rates(0.0, 1.0, 0.0);
            let all = pointers(&vdevs, 8..12, 1, 3);
            let error = vdevs.resilver(stale, all).await.expect_err("it takes none");
            assert_eq!(error, SetupError::Missed { member: stale });
            assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Stale]);
        })
        .await
    });
}

/// Resilvers a member up to the last step, which the caller makes fail.
async fn all_but_in(disks: &[SimDisk]) -> (Vdevs, MemberGuid) {
    let (vdevs, uberblock) = half_missed(disks).await;
    let stale = member(&vdevs, 1);
    vdevs.begin_resilver(stale).expect("it is stale");
    checkpoint(&vdevs, &uberblock, 4).await.expect("durable");
    let all = pointers(&vdevs, 8..16, 1, 3);
    vdevs.resilver(stale, all).await.expect("copied");
    (vdevs, stale)
}

/// A power cut may keep the label by which a member is in, and lose the blocks that it needs for that.
#[test]
fn a_member_is_in_only_after_its_blocks_are_durable() {
    let cut_at = |step| {
        run(step, async move {
            let node = Node::new();
            let fates = [PowerCutFate::AllKept, PowerCutFate::AllLost];
            let disk = |(n, power_cut)| {
                let config = DiskConfig {
                    power_cut,
                    ..config()
                };
                node.create_disk(path(n), config)
            };
            let disks: Vec<_> = fates.into_iter().enumerate().map(disk).collect();
            let done = on(node, async move {
                let (vdevs, stale) = all_but_in(&disks).await;
                node.power_cut_after(step);
                vdevs.resilvered(stale).await.expect("it has everything");
            });
            let done = done.await.is_some();
            node.power_cut();
            node.power_on();
            let is_in = on(node, async {
                let vdevs = import(&[0, 1]).await.expect("both are there").vdevs;
                let is_in = states(&vdevs)[1] == MemberState::Online;
                for ptr in pointers(&vdevs, 0..16, 1, 1) {
                    let wrong = vdevs.scrub(&ptr).await.expect("a member has it");
                    assert!(!is_in || wrong == 0, "it lacks {ptr:?}");
                }
                is_in
            });
            let is_in = is_in.await.expect("it has power");
            assert!(is_in || !done, "it was in");
            !done
        })
    };
    let cuts = (0..2000).take_while(|step| cut_at(*step)).count();
    assert!((10..2000).contains(&cuts), "{cuts} cuts");
}

#[test]
fn a_member_that_fails_while_joining_is_stale_in_every_label() {
    run(6, async {
        let (node, disks) = machine(2);
        on(node, async move {
            let (vdevs, stale) = all_but_in(&disks).await;
            disks[1].fail_writes(0..512 << 10);
            disks[1].fail_writes(DISK_SIZE - (512 << 10)..DISK_SIZE);
            let missed = Err(SetupError::Missed { member: stale });
            assert_eq!(vdevs.resilvered(stale).await, missed);
            let _stable = vdevs.flush().await.expect("the other is in");
            disks[1].heal();
            drop(vdevs);
            let vdevs = import(&[0, 1]).await.expect("both are there").vdevs;
            assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Stale]);
        })
        .await
    });
}

#[test]
fn a_member_is_taken_offline_and_returns_stale_but_never_the_last() {
    run(3, async {
        let (node, _) = machine(3);
        on(node, async {
            let opened = make(&[&[0, 1]]).await.expect("made");
            let (vdevs, uberblock) = (opened.vdevs, opened.uberblock);
            let (first, second) = (member(&vdevs, 0), member(&vdevs, 1));
            vdevs.offline(second).await.expect("the other is in");
            for error in [vdevs.offline(first).await, vdevs.detach(first).await] {
                assert_eq!(error, Err(SetupError::LastMember { member: first }));
            }
            put_all(&vdevs, 0..8, 1).await;
            let _stable = vdevs.flush().await.expect("flushed");
            drop(vdevs);
            // The label of the member that is in says that the other one is not needed.
            let vdevs = import(&[0]).await.expect("it opens").vdevs;
            assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Missing]);
            let absent = vdevs.online(second, None).await;
            assert_eq!(absent, Err(SetupError::Absent { member: second }));
            let other = vdevs.online(second, Some(disk(2).await)).await;
            assert!(
                matches!(other, Err(SetupError::OtherDisk { .. })),
                "{other:?}"
            );
            vdevs
                .online(second, Some(disk(1).await))
                .await
                .expect("it is that one");
            assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Stale]);
            vdevs.begin_resilver(second).expect("it is stale");
            checkpoint(&vdevs, &uberblock, 2).await.expect("durable");
            let all = pointers(&vdevs, 0..8, 1, 2);
            vdevs.resilver(second, all).await.expect("copied");
            vdevs.resilvered(second).await.expect("it has everything");
            vdevs.offline(first).await.expect("the other is in");
            get_all(&vdevs, 0..8, 1).await;
        })
        .await
    });
}

#[test]
fn a_disk_is_replaced_by_attaching_another_and_detaching_it() {
    run(4, async {
        let (node, _) = machine(3);
        node.create_disk(
            path(3),
            DiskConfig {
                size: 65 << 20,
                ..config()
            },
        );
        node.create_disk(
            path(4),
            DiskConfig {
                size: 32 << 20,
                ..config()
            },
        );
        on(node, async {
            drop(make(&[&[2]]).await.expect("another pool"));
            let opened = make(&[&[0]]).await.expect("made");
            let (vdevs, uberblock) = (opened.vdevs, opened.uberblock);
            put_all(&vdevs, 0..8, 1).await;
            let used = vdevs.attach(VdevId(0), disk(2).await, false).await;
            assert!(matches!(used, Err(SetupError::InUse { .. })), "{used:?}");
            let small = vdevs.attach(VdevId(0), disk(4).await, false).await;
            assert!(
                matches!(small, Err(SetupError::Truncated { .. })),
                "{small:?}"
            );
            let none = vdevs.attach(VdevId(1), disk(3).await, false).await;
            assert_eq!(none, Err(SetupError::NoVdev { vdev: VdevId(1) }));
            let new = vdevs
                .attach(VdevId(0), disk(3).await, false)
                .await
                .expect("attached");
            assert_eq!(vdevs.status()[0].kind, VdevKind::Mirror);
            assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Stale]);
            vdevs.begin_resilver(new).expect("it is stale");
            checkpoint(&vdevs, &uberblock, 2).await.expect("durable");
            let all = pointers(&vdevs, 0..8, 1, 2);
            vdevs.resilver(new, all).await.expect("copied");
            vdevs.resilvered(new).await.expect("it has everything");
            vdevs
                .detach(member(&vdevs, 0))
                .await
                .expect("the other is in");
            assert_eq!(vdevs.status()[0].kind, VdevKind::Disk);
            drop(vdevs);
            assert!(find(&[0]).await.is_none(), "it belongs to no pool");
            let opened = import(&[3]).await.expect("it is whole");
            assert_eq!(opened.uberblock.sequence, 2);
            get_all(&opened.vdevs, 0..8, 1).await;
        })
        .await
    });
}

/// Regression: the wipe of the old disk's labels waited for a disk that hung.
#[test]
fn a_disk_that_hangs_does_not_delay_its_replacement() {
    run(1, async {
        let (node, disks) = machine(4);
        on(node, async move {
            let opened = make(&[&[0, 1]]).await.expect("made");
            let vdevs = opened.vdevs;
            let began = io::time::now();
            let [replaced, detached] = [1, 0].map(|index| member(&vdevs, index));
            vdevs.offline(replaced).await.expect("the other is in");
            disks[1].stall_next(HANG_MAX * 10);
            let new = vdevs.replace(replaced, disk(2).await, false).await;
            let new = new.expect("replaced");
            assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Stale]);
            vdevs.begin_resilver(new).expect("it is stale");
            checkpoint(&vdevs, &opened.uberblock, 2)
                .await
                .expect("durable");
            vdevs.resilvered(new).await.expect("nothing was written");
            vdevs.offline(detached).await.expect("the other is in");
            disks[0].stall_next(HANG_MAX * 10);
            vdevs.detach(detached).await.expect("the other is in");
            let took = began.elapsed();
            assert!(took < HANG_MAX * 3, "{took:?}");
        })
        .await
    });
}

/// Power cuts at every step of replacing a disk: the pool opens with all acknowledged writes.
#[test]
fn an_interrupted_replacement_loses_nothing() {
    let cut_at = |step| {
        run(step, async move {
            let (node, _) = machine(2);
            let done = on(node, async move {
                let opened = make(&[&[0]]).await.expect("made");
                let (vdevs, uberblock) = (opened.vdevs, opened.uberblock);
                put_all(&vdevs, 0..4, 1).await;
                let _stable = vdevs.flush().await.expect("flushed");
                node.power_cut_after(step);
                let new = vdevs
                    .attach(VdevId(0), disk(1).await, false)
                    .await
                    .expect("attached");
                vdevs.begin_resilver(new).expect("it is stale");
                checkpoint(&vdevs, &uberblock, 2).await.expect("durable");
                let all = pointers(&vdevs, 0..4, 1, 2);
                vdevs.resilver(new, all).await.expect("copied");
                vdevs.resilvered(new).await.expect("it has everything");
                vdevs
                    .detach(member(&vdevs, 0))
                    .await
                    .expect("the other is in");
            });
            let done = done.await.is_some();
            node.power_cut();
            node.power_on();
            let opens = on(node, async {
                let opened = import(&[0, 1]).await.expect("it opens");
                get_all(&opened.vdevs, 0..4, 1).await;
            });
            opens.await.expect("it has power");
            !done
        })
    };
    let cuts = (0..2000).take_while(|step| cut_at(*step)).count();
    assert!((50..2000).contains(&cuts), "{cuts} cuts");
}

/// Writes, failures, resilvers and power cuts in any order: flushed blocks are read from both members together, and from each
/// that opens alone.
#[test]
fn members_that_fail_and_are_resilvered_repeatedly_lose_nothing() {
    let (mut resilvered, mut alone) = (0, 0);
    for seed in 0..150 {
        let (r, a) = run(seed, async move {
            let (node, sims) = machine(2);
            let (told, count) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let (tell, tally, faulty) = (told.clone(), count.clone(), sims.clone());
            let work = node.spawn(async move {
                let opened = make(&[&[0, 1]]).await.expect("made");
                let vdevs = Rc::new(opened.vdevs);
                node.power_cut_after(200 + rng::u64() % 3000);
                for version in 1..60_u8 {
                    let rate = [0.0, 0.0, 0.3][rng::u64() as usize % 3];
                    faulty[rng::u64() as usize % 2].error_rates(0.0, rate, rate);
                    let epoch = u64::from(version) + 1;
                    let from = u64::from(version) * 4;
                    let writer = vdevs.clone();
                    let write = async move {
                        for n in from..from + 4 {
                            put(&writer, place(&writer, 0, n), version).await?;
                        }
                        Ok::<(), pool::Error>(())
                    };
                    // The write runs concurrently with the resilver of earlier blocks.
                    let write = io::spawn(write);
                    for (_, member, _) in vdevs.stale_members() {
                        let begun = vdevs.begin_resilver(member).is_ok();
                        if !begun || checkpoint(&vdevs, &opened.uberblock, epoch).await.is_err() {
                            break;
                        }
                        let blocks = (1..version).flat_map(|v| {
                            let from = u64::from(v) * 4;
                            pointers(&vdevs, from..from + 4, v, u64::from(v) + 1)
                        });
                        let copied = vdevs.resilver(member, blocks).await;
                        if copied.is_ok_and(|c| c.lost.is_empty())
                            && vdevs.resilvered(member).await.is_ok()
                        {
                            tally.set(tally.get() + 1);
                        }
                    }
                    let written = write.await.is_some_and(|w| w.is_ok());
                    if !written || vdevs.flush().await.is_err() {
                        return;
                    }
                    tell.set(version);
                    faulty.iter().for_each(|d| d.heal());
                }
            });
            work.await;
            node.power_cut();
            sims.iter().for_each(|d| d.heal());
            node.power_on();
            let durable = told.get();
            let counts = on(node, async move {
                let mut alone = 0;
                for only in [&[0][..], &[1], &[0, 1]] {
                    let options = OpenOptions {
                        read_only: true,
                        ..OpenOptions::new(host())
                    };
                    let opened = open(find(only).await.expect("found"), options).await;
                    let opened = match opened {
                        Ok(opened) => opened,
                        Err(_) if only.len() == 1 => continue,
                        Err(error) => panic!("both are there: {error}"),
                    };
                    alone += u32::from(only.len() == 1);
                    for version in 1..=durable {
                        let from = u64::from(version) * 4;
                        get_all(&opened.vdevs, from..from + 4, version).await;
                        // Without rot, a member that is in has all data.
                        for ptr in pointers(&opened.vdevs, from..from + 4, version, 1) {
                            assert_eq!(opened.vdevs.scrub(&ptr).await, Ok(0), "{ptr:?}");
                        }
                    }
                }
                alone
            });
            (count.get(), counts.await.expect("it has power"))
        });
        (resilvered, alone) = (resilvered + r, alone + a);
    }
    assert!(resilvered > 50 && alone > 10, "{resilvered} {alone}");
}

#[test]
fn too_many_members_are_refused() {
    run(5, async {
        let (node, _) = machine(18);
        on(node, async {
            let all: Vec<usize> = (0..17).collect();
            let error = make(&[&all]).await.map(|_| ()).expect_err("too many");
            assert_eq!(error, SetupError::Shape { got: 17 });
            let opened = make(&[&all[..16]]).await.expect("made");
            let mut two = disks(&[16, 17]).await;
            let last = two.pop().expect("two");
            let error = opened.vdevs.attach(VdevId(0), last, false).await;
            assert_eq!(error, Err(SetupError::Shape { got: 17 }));
            put_all(&opened.vdevs, 0..4, 1).await;
            get_all(&opened.vdevs, 0..4, 1).await;
        })
        .await
    });
}
