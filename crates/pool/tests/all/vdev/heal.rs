//! Reads return right data as long as one member has it, and repair the other members.

use pool::Error;
use pool::format::{BlockPtr, VdevId};
use pool::vdev::limits::HANG_MAX;
use pool::vdev::{DATA_START, Fault, MemberState, SetupError};

use crate::vdev::world::{
    BLOCK, DISK_SIZE, get, get_all, machine, make, on, place, pointer, put_all, run,
};

const SHAPES: [&[&[usize]]; 4] = [&[&[0]], &[&[0], &[1]], &[&[0, 1], &[2]], &[&[0, 1, 2]]];

#[test]
fn written_blocks_are_read_on_every_layout() {
    for shape in SHAPES {
        run(1, async move {
            let (node, _) = machine(3);
            on(node, async move {
                let vdevs = make(shape).await.expect("made").vdevs;
                assert_eq!(vdevs.table().len(), shape.len());
                put_all(&vdevs, 0..40, 1).await;
                let _stable = vdevs.flush().await.expect("flushed");
                get_all(&vdevs, 0..40, 1).await;
            })
            .await
        });
    }
}

/// All of one member rots, then all of the other, repeatedly: no wrong data is read, and wrong copies are repaired.
#[test]
fn rot_on_one_member_is_never_returned_and_is_repaired() {
    run(2, async {
        let (node, disks) = machine(2);
        on(node, async move {
            let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
            put_all(&vdevs, 0..20, 1).await;
            let _stable = vdevs.flush().await.expect("flushed");
            for round in 0..4 {
                disks[round % 2].rot(DATA_START..DISK_SIZE - (512 << 10));
                get_all(&vdevs, 0..20, 1).await;
                for n in 0..20 {
                    let ptr = pointer(place(&vdevs, 0, n), 1);
                    vdevs.scrub(&ptr).await.expect("a member has it");
                    assert_eq!(vdevs.scrub(&ptr).await, Ok(0), "it was repaired");
                }
            }
            for member in &vdevs.status()[0].members {
                let counters = member.counters;
                assert_eq!((counters.checksum_errors, counters.repairs), (40, 40));
            }
        })
        .await
    });
}

/// A misdirected write damages two blocks of a member; neither is returned.
#[test]
fn a_misdirected_write_is_never_returned_and_is_repaired() {
    for wrong in 0..2 {
        run(6, async move {
            let (node, disks) = machine(2);
            on(node, async move {
                let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
                put_all(&vdevs, 0..4, 1).await;
                let elsewhere = DATA_START + place(&vdevs, 0, 2).offset.0;
                disks[wrong].misdirect_next_write(elsewhere);
                put_all(&vdevs, 4..5, 1).await;
                get_all(&vdevs, 0..5, 1).await;
                for n in [2, 4] {
                    let ptr = pointer(place(&vdevs, 0, n), 1);
                    vdevs.scrub(&ptr).await.expect("a member has it");
                }
                let repairs = vdevs.status()[0].members[wrong].counters.repairs;
                assert_eq!(repairs, 2);
            })
            .await
        });
    }
}

#[test]
fn a_run_with_rot_and_errors_on_both_members_is_read_right() {
    run(3, async {
        let (node, disks) = machine(2);
        on(node, async move {
            let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
            put_all(&vdevs, 0..16, 1).await;
            let _stable = vdevs.flush().await.expect("flushed");
            let byte = |n| DATA_START + place(&vdevs, 0, n).offset.0;
            disks[0].rot(byte(2)..byte(5));
            disks[0].fail_reads(byte(7)..byte(8));
            disks[1].rot(byte(9)..byte(12));
            disks[1].fail_reads(byte(14)..byte(15));
            let ptrs: Vec<BlockPtr> = (0..16).map(|n| pointer(place(&vdevs, 0, n), 1)).collect();
            let run = vdevs
                .read_run(&ptrs, &io::pool())
                .await
                .expect("each is on a member");
            for (n, block) in run.chunks(BLOCK).enumerate() {
                assert!(ptrs[n].verify(block).is_ok(), "block {n}");
            }
            disks[0].rot(byte(10)..byte(11));
            disks[0].fail_reads(byte(14)..byte(15));
            let failed = vdevs
                .read_run(&ptrs, &io::pool())
                .await
                .expect_err("no member has them");
            let [
                Error::Corrupt { at: rotten, .. },
                Error::Unreadable { at: gone },
            ] = failed[..]
            else {
                panic!("{failed:?}")
            };
            assert_eq!((rotten, gone), (ptrs[10].address(), ptrs[14].address()));
        })
        .await
    });
}

#[test]
fn a_block_that_no_member_has_is_an_error_by_its_cause() {
    run(4, async {
        let (node, disks) = machine(2);
        on(node, async move {
            let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
            let at = place(&vdevs, 0, 3);
            let unwritten = get(&vdevs, at, 1).await.expect_err("never written");
            assert!(matches!(unwritten, Error::Corrupt { .. }), "{unwritten}");
            disks.iter().for_each(|d| d.fail_reads(0..DISK_SIZE));
            assert_eq!(get(&vdevs, at, 1).await, Err(Error::Unreadable { at }));
            let info = vdevs.table()[0];
            let mut beyond = pointer(at, 1);
            beyond.offset.0 = info.size;
            let mut other = pointer(at, 1);
            other.vdev = VdevId(1);
            let mut large = pointer(at, 1);
            (large.logical_size, large.physical_size) = (16 << 20, 16 << 20);
            let mut odd = pointer(at, 1);
            odd.offset.0 += 512;
            for ptr in [beyond, other, large, odd] {
                let error = vdevs.read(&ptr).await.expect_err("there is no such place");
                assert!(matches!(error, Error::Corrupt { .. }), "{error}");
            }
        })
        .await
    });
}

/// Occasional errors are repaired. Many errors fault a member, but never the last one.
#[test]
fn a_member_is_faulted_by_many_errors_and_never_the_last() {
    run(5, async {
        let (node, disks) = machine(2);
        on(node, async move {
            let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
            put_all(&vdevs, 0..64, 1).await;
            let _stable = vdevs.flush().await.expect("flushed");
            disks[0].error_rates(0.2, 0.0, 0.0);
            get_all(&vdevs, 0..20, 1).await;
            let states = |vdevs: &pool::vdev::Vdevs| -> Vec<MemberState> {
                vdevs.status()[0].members.iter().map(|s| s.state).collect()
            };
            assert_eq!(states(&vdevs), [MemberState::Online, MemberState::Online]);
            disks[0].error_rates(1.0, 0.0, 0.0);
            for _ in 0..8 {
                get_all(&vdevs, 0..64, 1).await;
            }
            assert_eq!(states(&vdevs), [MemberState::Faulted, MemberState::Online]);
            disks[1].error_rates(0.5, 0.0, 0.0);
            for n in 0..640 {
                let _either = get(&vdevs, place(&vdevs, 0, n % 64), 1).await;
            }
            disks[1].heal();
            assert_eq!(states(&vdevs), [MemberState::Faulted, MemberState::Online]);
            get_all(&vdevs, 0..64, 1).await;
        })
        .await
    });
}

/// A member that does not answer is faulted, and waiting operations go on with the other one. It can return once it has no
/// operation outstanding. The seed decides whether the simulated disk withdraws a cancelled operation.
#[test]
fn a_member_that_hangs_is_faulted() {
    let owed = (77..85).filter(|seed| is_owed_when_given_up(*seed)).count();
    assert!((1..8).contains(&owed), "{owed} of 8 owed an answer");
}

/// Returns whether the member had operations outstanding when it was given up.
fn is_owed_when_given_up(seed: u64) -> bool {
    let is_owed = run(seed, async {
        let (node, disks) = machine(2);
        on(node, async move {
            let opened = make(&[&[0, 1]]).await.expect("made");
            let pool = pool::Pool::open(opened, pool::Options::default());
            let pool = pool.await.expect("open");
            let vdevs = pool.vdevs();
            put_all(&vdevs, 1000..1008, 1).await;
            disks[1].stall_next(HANG_MAX * 10);
            let began = io::time::now();
            put_all(&vdevs, 1000..1008, 2).await;
            let took = began.elapsed();
            assert!((HANG_MAX..HANG_MAX * 2).contains(&took), "{took:?}");
            let member = &vdevs.status()[0].members[1];
            assert_eq!(
                (member.state, member.fault),
                (MemberState::Faulted, Some(Fault::Hung))
            );
            let _stable = vdevs.flush().await.expect("the other member has it");
            let guid = member.guid;
            let online = vdevs.online(guid, None).await;
            let is_owed = online == Err(SetupError::Owed { member: guid });
            if is_owed {
                assert!(!vdevs.answers(guid).await);
                io::time::sleep(HANG_MAX * 10).await;
                assert!(vdevs.answers(guid).await);
                vdevs.online(guid, None).await.expect("it owes nothing");
            } else {
                online.expect("it owes nothing");
            }
            pool.resilver(|_| ()).await.expect("resilvered");
            let back = &vdevs.status()[0].members[1];
            assert_eq!(back.state, MemberState::Online);
            is_owed
        })
        .await
    });
    is_owed.expect("it has power")
}
