//! A member that missed a write is never trusted.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use io::rng;
use io::sim::{DiskConfig, Node, PowerCutFate};
use pool::format::{LabelEpoch, Uberblock, VdevId};
use pool::vdev::{MemberState, OpenOptions, Opened, SetupError, Witness, Witnessed};

use crate::vdev::world::{
    DISK_SIZE, config, find, get_all, host, import, import_forced, machine, make, on, path, place,
    put, put_all, run,
};

fn missing(error: &SetupError) -> bool {
    matches!(error, SetupError::MemberMissing { vdev: VdevId(0), members } if members.len() == 1)
}

/// Member 1 fails writes, so that later acknowledged writes are only on member 0. Then a crash, after which member 1 works.
#[test]
fn a_member_that_failed_writes_and_returned_is_not_trusted() {
    for seed in 0..20 {
        run(seed, async move {
            let (node, disks) = machine(2);
            let faulty = disks.clone();
            let lost = on(node, async move {
                let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
                put_all(&vdevs, 0..8, 1).await;
                let _stable = vdevs.flush().await.expect("flushed");
                faulty[1].error_rates(0.0, 1.0, 0.0);
                put_all(&vdevs, 0..8, 2).await;
                let states: Vec<_> = vdevs.status()[0].members.iter().map(|s| s.state).collect();
                assert_eq!(states, [MemberState::Online, MemberState::Stale]);
                let _stable = vdevs.flush().await.expect("a member has it");
            });
            lost.await.expect("it has power");
            node.power_cut();
            disks[1].heal();
            node.power_on();
            let after = on(node, async move {
                // Only the stale member is present. Nothing on it shows that it is stale, so it is not trusted.
                let error = import(&[1]).await.map(|_| ()).expect_err("refused");
                let all_stale = matches!(error, SetupError::VdevMissing { .. });
                assert!(missing(&error) || all_stale, "{error}");
                let opened = import(&[0]).await.expect("its label says who is stale");
                get_all(&opened.vdevs, 0..8, 2).await;
                drop(opened);
                let opened = import(&[0, 1]).await.expect("both are there");
                get_all(&opened.vdevs, 0..8, 2).await;
                let states: Vec<_> = opened.vdevs.status()[0]
                    .members
                    .iter()
                    .map(|s| s.state)
                    .collect();
                assert_eq!(states, [MemberState::Online, MemberState::Stale]);
            });
            after.await.expect("it has power");
        });
    }
}

/// Writes fail at random on both members, and the power is cut at a random step: every flushed write is read, with both
/// members present and with each alone, if it opens.
#[test]
fn flushed_writes_are_read_whichever_member_failed() {
    let (mut degraded, mut alone, mut refused) = (0, 0, 0);
    for seed in 0..150 {
        let (d, a, r) = run(seed, async move {
            let (node, disks) = machine(3);
            let told = Rc::new(Cell::new(0));
            let (tell, faulty) = (told.clone(), disks.clone());
            let work = node.spawn(async move {
                let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
                let rate = [0.0, 0.002, 0.02][rng::u64() as usize % 3];
                faulty[0].error_rates(0.0, rate, rate);
                faulty[1].error_rates(0.0, rate * 2.0, rate * 2.0);
                node.power_cut_after(rng::u64() % 600);
                let breaks_at = rng::u64() % 40;
                for version in 1..100 {
                    if u64::from(version) == breaks_at {
                        faulty[1].error_rates(0.0, 1.0, 1.0);
                    }
                    for n in 0..4 {
                        if put(
                            &vdevs,
                            place(&vdevs, 0, u64::from(version) * 4 + n),
                            version,
                        )
                        .await
                        .is_err()
                        {
                            return;
                        }
                    }
                    if vdevs.flush().await.is_err() {
                        return;
                    }
                    tell.set(version);
                }
            });
            work.await;
            node.power_cut();
            disks.iter().for_each(|d| d.heal());
            let durable = told.get();
            node.power_on();
            let check = async move |opened: pool::vdev::Opened| {
                for version in 1..=durable {
                    let from = u64::from(version) * 4;
                    get_all(&opened.vdevs, from..from + 4, version).await;
                }
            };
            let counts = on(node, async move {
                let (mut alone, mut refused) = (0, 0);
                for member in 0..2 {
                    let found = find(&[member]).await.expect("it has a label");
                    let options = pool::vdev::OpenOptions {
                        read_only: true,
                        ..pool::vdev::OpenOptions::new(crate::vdev::world::host())
                    };
                    match pool::vdev::open(found, options).await {
                        Ok(opened) => {
                            check(opened).await;
                            alone += 1;
                        }
                        Err(_) => refused += 1,
                    }
                }
                let opened = import(&[0, 1]).await.expect("both are there");
                let members = &opened.vdevs.status()[0].members;
                let degraded = members.iter().any(|s| s.state != MemberState::Online);
                check(opened).await;
                (u32::from(degraded), alone, refused)
            });
            counts.await.expect("it has power")
        });
        (degraded, alone, refused) = (degraded + d, alone + a, refused + r);
    }
    assert!(
        degraded > 10 && alone > 10 && refused > 10,
        "{degraded} {alone} {refused}"
    );
}

#[test]
fn a_missing_member_is_refused_unless_forced_and_is_stale_then() {
    run(7, async {
        let (node, _) = machine(2);
        on(node, async {
            let opened = make(&[&[0, 1]]).await.expect("made");
            put_all(&opened.vdevs, 0..8, 1).await;
            let _stable = opened.vdevs.flush().await.expect("flushed");
            drop(opened);
            let error = import(&[0]).await.map(|_| ()).expect_err("refused");
            assert!(missing(&error), "{error}");
            let opened = import_forced(&[0]).await.expect("forced");
            put_all(&opened.vdevs, 0..8, 2).await;
            let _stable = opened.vdevs.flush().await.expect("flushed");
            drop(opened);
            let opened = import(&[0])
                .await
                .expect("its label says that the other is stale");
            drop(opened);
            let opened = import(&[0, 1]).await.expect("both");
            assert_eq!(
                opened.vdevs.status()[0].members[1].state,
                MemberState::Stale
            );
            get_all(&opened.vdevs, 0..8, 2).await;
        })
        .await
    });
}

/// Uberblocks of a member that is not in do not count, although it receives them while it is present.
#[test]
fn an_uberblock_that_only_a_stale_member_has_is_not_used() {
    run(10, async {
        let node = Node::new();
        let fates = [PowerCutFate::AllLost, PowerCutFate::AllKept];
        let disk = |(n, power_cut)| {
            node.create_disk(
                path(n),
                DiskConfig {
                    power_cut,
                    ..config()
                },
            )
        };
        let disks: Vec<_> = fates.into_iter().enumerate().map(disk).collect();
        on(node, async move {
            let opened = make(&[&[0, 1]]).await.expect("made");
            disks[1].error_rates(0.0, 1.0, 0.0);
            put_all(&opened.vdevs, 0..1, 1).await;
            let _stable = opened.vdevs.flush().await.expect("a member has it");
            disks[1].heal();
            let uberblock = Uberblock {
                sequence: 2,
                ..opened.uberblock
            };
            opened
                .vdevs
                .write_uberblock(&uberblock)
                .await
                .expect("written");
        })
        .await;
        node.power_cut();
        node.power_on();
        on(node, async {
            let opened = import(&[0, 1]).await.expect("both are there");
            assert_eq!(opened.uberblock.sequence, 1);
            get_all(&opened.vdevs, 0..1, 1).await;
        })
        .await
    });
}

#[test]
fn members_that_were_used_apart_are_refused() {
    run(8, async {
        let (node, _) = machine(2);
        on(node, async {
            drop(make(&[&[0, 1]]).await.expect("made"));
            drop(import_forced(&[0]).await.expect("forced"));
            drop(import_forced(&[1]).await.expect("forced"));
            for _ in 0..2 {
                let error = import_forced(&[0, 1])
                    .await
                    .map(|_| ())
                    .expect_err("refused");
                assert!(matches!(error, SetupError::Apart { .. }), "{error}");
                // The epochs differ the second time.
                drop(import(&[0]).await.expect("alone it is whole"));
            }
        })
        .await
    });
}

/// Failures of the last member are always reported: the write or flush fails, and so do later flushes.
#[test]
fn failures_of_the_last_member_are_reported() {
    run(9, async {
        let (node, disks) = machine(1);
        on(node, async move {
            let vdevs = make(&[&[0]]).await.expect("made").vdevs;
            let at = place(&vdevs, 0, 0);
            disks[0].fail_writes(0..DISK_SIZE);
            assert!(put(&vdevs, at, 1).await.is_err());
            disks[0].heal();
            put(&vdevs, at, 1).await.expect("it works again");
            disks[0].error_rates(0.0, 0.0, 1.0);
            assert!(vdevs.flush().await.is_err());
            disks[0].heal();
            assert!(vdevs.flush().await.is_err(), "what was lost stays lost");
        })
        .await
    });
}

/// A witness whose record is durable at once.
#[derive(Debug, Default, Clone)]
struct Memory(Arc<AtomicU64>);

impl Witness for Memory {
    fn last(&self) -> Option<LabelEpoch> {
        Some(LabelEpoch(self.0.load(Ordering::SeqCst)))
    }

    fn record(&self, epoch: LabelEpoch) -> Witnessed {
        self.0.store(epoch.0, Ordering::SeqCst);
        Box::pin(async { true })
    }
}

async fn import_witnessed(which: &[usize], memory: &Memory) -> Result<Opened, SetupError> {
    let options = OpenOptions {
        witness: Some(Arc::new(memory.clone())),
        ..OpenOptions::new(host())
    };
    pool::vdev::open(find(which).await.expect("a label"), options).await
}

/// As [`flushed_writes_are_read_whichever_member_failed`], with a witness, and then one member alone for good: if it
/// opens, it has all data.
#[test]
fn a_member_alone_opens_only_with_all_data() {
    let (mut opened, mut refused) = (0, 0);
    for seed in 0..200 {
        let is_open = run(seed, async move {
            let (node, disks) = machine(2);
            let told = Rc::new(Cell::new(0));
            let memory = Memory::default();
            let (tell, faulty, remember) = (told.clone(), disks.clone(), memory.clone());
            let work = node.spawn(async move {
                let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
                let set = vdevs.set_witness(Arc::new(remember)).await;
                set.expect("it remembers");
                let rate = [0.0, 0.0, 0.01][rng::u64() as usize % 3];
                faulty[0].error_rates(0.0, rate, rate);
                faulty[1].error_rates(0.0, rate, rate);
                node.power_cut_after(rng::u64() % 600);
                let (breaks_at, which) = (rng::u64() % 60, rng::u64() as usize % 2);
                for version in 1..100 {
                    if u64::from(version) == breaks_at {
                        faulty[which].error_rates(0.0, 1.0, 1.0);
                    }
                    for n in 0..4 {
                        let at = place(&vdevs, 0, u64::from(version) * 4 + n);
                        if put(&vdevs, at, version).await.is_err() {
                            return;
                        }
                    }
                    if vdevs.flush().await.is_err() {
                        return;
                    }
                    tell.set(version);
                }
            });
            work.await;
            node.power_cut();
            disks.iter().for_each(|d| d.heal());
            let (durable, alone) = (told.get(), rng::u64() as usize % 2);
            node.power_on();
            let is_open = on(node, async move {
                if find(&[alone]).await.is_none() {
                    return false;
                }
                let Ok(opened) = import_witnessed(&[alone], &memory).await else {
                    return false;
                };
                for version in 1..=durable {
                    let from = u64::from(version) * 4;
                    get_all(&opened.vdevs, from..from + 4, version).await;
                }
                // The other member is back: it is stale, independent of its own label. Or it is not used at all,
                // because its labels exclude this member and no write relied on them when the power was cut.
                drop(opened);
                let both = import_witnessed(&[0, 1], &memory).await;
                match both {
                    Ok(both) => {
                        let other = &both.vdevs.status()[0].members[1 - alone];
                        assert_eq!(other.state, MemberState::Stale);
                    }
                    Err(e) => assert!(matches!(e, SetupError::Apart { .. }), "{e}"),
                }
                true
            });
            is_open.await.expect("it has power")
        });
        if is_open {
            opened += 1;
        } else {
            refused += 1;
        }
    }
    assert!(opened > 15 && refused > 15, "{opened} {refused}");
}
