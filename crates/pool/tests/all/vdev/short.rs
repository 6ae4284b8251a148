//! Members whose devices are shorter than their labels say: they count as missing, and their mirrors continue.

use io::sim::SimDisk;
use pool::format::{Birth, MemberGuid, Uberblock};
use pool::vdev::{Fault, MemberState, SetupError, Vdevs, least_size};

use crate::vdev::world::{
    DISK_SIZE, get_all, import, import_forced, machine, make, on, place, pointer, put_all, run,
};

const SHORT: u64 = DISK_SIZE / 2;

fn with(disks: usize, act: impl AsyncFnOnce(Vec<SimDisk>) + 'static) {
    run(1, async move {
        let (node, sims) = machine(disks);
        on(node, async move { act(sims).await })
            .await
            .expect("it has power");
    });
}

fn second(vdevs: &Vdevs) -> (MemberGuid, MemberState, Option<Fault>, Birth) {
    let member = vdevs.status().remove(0).members.remove(1);
    (member.guid, member.state, member.fault, member.held)
}

/// Regression: the pool was refused, and opened without the disk. Only its length is wrong, so neither force nor a record of
/// the last labels is needed.
#[test]
fn a_mirror_opens_beside_a_member_that_is_too_short() {
    with(2, async |sims| {
        let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
        put_all(&vdevs, 0..8, 1).await;
        let _stable = vdevs.flush().await.expect("flushed");
        drop(vdevs);
        sims[1].set_size(SHORT);
        for _ in 0..2 {
            let vdevs = import(&[0, 1]).await.expect("one member is whole").vdevs;
            let (_, state, fault, held) = second(&vdevs);
            assert_eq!(
                (state, fault, held),
                (MemberState::Faulted, Some(Fault::Short(SHORT)), Birth(0))
            );
            get_all(&vdevs, 0..8, 1).await;
            put_all(&vdevs, 0..8, 1).await;
            let _stable = vdevs.flush().await.expect("flushed");
        }
        assert_eq!(sims[1].size(), SHORT, "nothing was written to it");
        let opened = import(&[0, 1]).await.expect("one member is whole");
        let vdevs = opened.vdevs;
        let (member, ..) = second(&vdevs);
        let error = vdevs.online(member, None).await;
        assert!(
            matches!(error, Err(SetupError::Truncated { .. })),
            "{error:?}"
        );
        sims[1].set_size(DISK_SIZE);
        vdevs.online(member, None).await.expect("it is long again");
        let (_, state, fault, held) = second(&vdevs);
        assert_eq!((state, fault, held), (MemberState::Stale, None, Birth(0)));
        vdevs.begin_resilver(member).expect("it is stale");
        let uberblock = Uberblock {
            sequence: 2,
            epoch: Birth(2),
            ..opened.uberblock
        };
        let written = vdevs.write_uberblock(&uberblock).await;
        written.expect("written");
        let _stable = vdevs.flush().await.expect("flushed");
        let all: Vec<_> = (0..8).map(|n| pointer(place(&vdevs, 0, n), 1)).collect();
        vdevs.resilver(member, all).await.expect("copied");
        vdevs.resilvered(member).await.expect("it is whole");
        drop(vdevs);
        sims[0].fail_reads(1 << 20..DISK_SIZE - (1 << 20));
        let vdevs = import(&[0, 1]).await.expect("both are there").vdevs;
        get_all(&vdevs, 0..8, 1).await;
    });
}

/// A member that is offline stays offline, and data at its end is known to be lost.
#[test]
fn a_member_that_is_offline_and_too_short_stays_offline() {
    with(2, async |sims| {
        let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
        vdevs.offline(second(&vdevs).0).await.expect("one is in");
        drop(vdevs);
        sims[1].set_size(SHORT);
        let vdevs = import(&[0, 1]).await.expect("one member is whole").vdevs;
        let (member, state, _, held) = second(&vdevs);
        assert_eq!((state, held), (MemberState::Offline, Birth(0)));
        sims[1].set_size(DISK_SIZE);
        vdevs.online(member, None).await.expect("it is long again");
        assert_eq!(second(&vdevs).1, MemberState::Stale);
    });
}

#[test]
fn the_only_member_is_named_if_it_is_too_short() {
    with(2, async |sims| {
        drop(make(&[&[0], &[1]]).await.expect("made"));
        sims[1].set_size(SHORT);
        for opened in [import(&[0, 1]).await, import_forced(&[0, 1]).await] {
            let error = opened.map(|_| ()).expect_err("half of it is gone");
            let named =
                matches!(&error, SetupError::Truncated { path, .. } if path.ends_with("d1"));
            assert!(named, "{error}");
        }
    });
}

/// Regression: it was listed as online. A read beyond its end faults it, and so does the next check of its size.
#[test]
fn a_member_that_becomes_short_is_faulted_while_the_pool_is_open() {
    for by_reading in [true, false] {
        with(2, async move |sims| {
            let vdevs = make(&[&[0, 1]]).await.expect("made").vdevs;
            // Far enough to be beyond the end.
            let far = (SHORT / 4096)..(SHORT / 4096) + 8;
            put_all(&vdevs, far.clone(), 1).await;
            let _stable = vdevs.flush().await.expect("flushed");
            sims[1].set_size(SHORT);
            match by_reading {
                true => {
                    for n in far.clone() {
                        let ptr = pointer(place(&vdevs, 0, n), 1);
                        vdevs.scrub(&ptr).await.expect("one member has it");
                    }
                }
                false => vdevs.check_sizes().await,
            }
            let (_, state, fault, held) = second(&vdevs);
            assert_eq!(
                (state, fault, held),
                (MemberState::Faulted, Some(Fault::Short(SHORT)), Birth(0))
            );
            assert!(least_size(vdevs.table()[0].size) > SHORT);
            get_all(&vdevs, far, 1).await;
            let _stable = vdevs.flush().await.expect("the other member is whole");
            assert_eq!(sims[1].size(), SHORT, "nothing was written to it");
        });
    }
}

/// The last member that is in is not faulted: it has data that no other member has.
#[test]
fn the_last_member_that_is_in_stays_though_it_is_short() {
    with(1, async |sims| {
        let vdevs = make(&[&[0]]).await.expect("made").vdevs;
        put_all(&vdevs, 0..8, 1).await;
        let _stable = vdevs.flush().await.expect("flushed");
        sims[0].set_size(SHORT);
        vdevs.check_sizes().await;
        let member = &vdevs.status()[0].members[0];
        let found = (member.state, member.fault);
        assert_eq!(found, (MemberState::Online, Some(Fault::Short(SHORT))));
        get_all(&vdevs, 0..8, 1).await;
    });
}
