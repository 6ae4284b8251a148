//! Members that were absent while others left and joined: stale if their label is an ancestor of the pool's; refused if the
//! pool was used on both sides of a fork.

use io::sim::SimDisk;
use pool::format::{Birth, BlockPtr, MemberGuid, Uberblock, VdevId};
use pool::vdev::{MemberState, Opened, SetupError, Vdevs};

use crate::vdev::world::{
    disk, get_all, import, import_forced, machine, make, on, place, pointer, put_all, run,
};

/// A pool with a count of its checkpoints.
struct Tank {
    vdevs: Vdevs,
    last: Uberblock,
}

impl Tank {
    fn new(opened: Opened) -> Self {
        let (vdevs, last) = (opened.vdevs, opened.uberblock);
        Self { vdevs, last }
    }

    fn member(&self, index: usize) -> MemberGuid {
        self.vdevs.status()[0].members[index].guid
    }

    fn states(&self) -> Vec<MemberState> {
        self.vdevs.status()[0]
            .members
            .iter()
            .map(|s| s.state)
            .collect()
    }

    async fn checkpoint(&mut self) {
        self.last.sequence += 1;
        self.last.epoch = Birth(self.last.sequence);
        let _stable = self.vdevs.flush().await.expect("flushed");
        let written = self.vdevs.write_uberblock(&self.last).await;
        written.expect("written");
        let _stable = self.vdevs.flush().await.expect("flushed");
    }

    /// Copies blocks 0 to 8 of `version` to every stale member.
    async fn resilver(&mut self, version: u8) {
        for (_, member, _) in self.vdevs.stale_members() {
            self.vdevs.begin_resilver(member).expect("it is stale");
            self.checkpoint().await;
            let ptr = |n| BlockPtr {
                birth: Birth(self.last.sequence),
                placed: Birth(self.last.sequence),
                ..pointer(place(&self.vdevs, 0, n), version)
            };
            let blocks: Vec<_> = (0..8).map(ptr).collect();
            self.vdevs.resilver(member, blocks).await.expect("copied");
            self.vdevs.resilvered(member).await.expect("it is whole");
        }
    }

    async fn attach(&mut self, n: usize, version: u8) {
        let attached = self.vdevs.attach(VdevId(0), disk(n).await, false).await;
        attached.expect("attached");
        self.resilver(version).await;
    }

    async fn write(&mut self, version: u8) {
        put_all(&self.vdevs, 0..8, version).await;
        self.checkpoint().await;
    }

    async fn detach(&mut self, index: usize) {
        let detached = self.vdevs.detach(self.member(index)).await;
        detached.expect("another member is whole");
    }

    async fn offline(&mut self, index: usize) {
        let done = self.vdevs.offline(self.member(index)).await;
        done.expect("another member is whole");
    }
}

fn with(disks: usize, act: impl AsyncFnOnce(Vec<SimDisk>) + 'static) {
    run(1, async move {
        let (node, sims) = machine(disks);
        on(node, async move { act(sims).await })
            .await
            .expect("it has power");
    });
}

async fn open(which: &[usize]) -> Tank {
    Tank::new(import(which).await.expect("it opens"))
}

async fn refused(which: &[usize]) -> SetupError {
    match import_forced(which).await {
        Ok(_) => panic!("{which:?} opened"),
        Err(error) => error,
    }
}

/// `offline A`, writes, `replace B C`, restart.
#[test]
fn a_member_that_was_offline_through_a_replacement_comes_back_stale() {
    with(3, async |_| {
        let mut tank = Tank::new(make(&[&[0, 1]]).await.expect("made"));
        tank.write(1).await;
        tank.offline(0).await;
        tank.write(2).await;
        tank.attach(2, 2).await;
        tank.detach(1).await;
        assert_eq!(tank.states(), [MemberState::Offline, MemberState::Online]);
        drop(tank);
        let mut tank = open(&[0, 1, 2]).await;
        assert_eq!(tank.states(), [MemberState::Offline, MemberState::Online]);
        get_all(&tank.vdevs, 0..8, 2).await;
        let back = tank.vdevs.online(tank.member(0), None).await;
        back.expect("it is there");
        tank.resilver(2).await;
        assert_eq!(tank.states(), [MemberState::Online, MemberState::Online]);
        tank.offline(1).await;
        get_all(&tank.vdevs, 0..8, 2).await;
    });
}

/// As above with the member's file missing, and the replacement in two steps with a restart between.
#[test]
fn a_member_that_was_missing_through_a_replacement_comes_back_stale() {
    with(3, async |_| {
        let mut tank = Tank::new(make(&[&[0, 1]]).await.expect("made"));
        tank.write(1).await;
        drop(tank);
        let mut tank = Tank::new(import_forced(&[1]).await.expect("forced"));
        assert_eq!(tank.states(), [MemberState::Missing, MemberState::Online]);
        tank.write(2).await;
        tank.attach(2, 2).await;
        drop(tank);
        let mut tank = open(&[1, 2]).await;
        tank.detach(1).await;
        drop(tank);
        let tank = open(&[0, 2]).await;
        assert_eq!(tank.states(), [MemberState::Stale, MemberState::Online]);
        get_all(&tank.vdevs, 0..8, 2).await;
    });
}

/// The absent member's label names another stale member, which is the only one left when it returns.
#[test]
fn a_member_is_stale_beside_one_that_its_label_calls_stale() {
    with(3, async |_| {
        let mut tank = Tank::new(make(&[&[0, 1, 2]]).await.expect("made"));
        tank.offline(2).await;
        tank.write(1).await;
        tank.offline(0).await;
        let back = tank.vdevs.online(tank.member(2), None).await;
        back.expect("it is there");
        tank.write(2).await;
        tank.resilver(2).await;
        tank.detach(1).await;
        drop(tank);
        let tank = open(&[0, 2]).await;
        assert_eq!(tank.states(), [MemberState::Offline, MemberState::Online]);
        get_all(&tank.vdevs, 0..8, 2).await;
    });
}

/// A member that was detached while absent is not a member when it returns.
#[test]
fn a_member_that_was_detached_while_away_is_ignored() {
    with(2, async |_| {
        drop(make(&[&[0, 1]]).await.expect("made"));
        let mut tank = Tank::new(import_forced(&[1]).await.expect("forced"));
        tank.detach(0).await;
        tank.write(1).await;
        drop(tank);
        let tank = open(&[0, 1]).await;
        assert_eq!(tank.states(), [MemberState::Online]);
        get_all(&tank.vdevs, 0..8, 1).await;
    });
}

/// Each half is opened alone by force and replaces the other half: no label names a member of the other half.
#[test]
fn halves_that_replaced_each_other_are_refused() {
    for detach in [false, true] {
        for replace in [false, true] {
            with(4, async move |_| {
                drop(make(&[&[0, 1]]).await.expect("made"));
                for (own, new) in [(0, 2), (1, 3)] {
                    let forced = import_forced(&[own]).await.expect("forced");
                    let mut tank = Tank::new(forced);
                    tank.write(own as u8 + 1).await;
                    if replace {
                        tank.attach(new, own as u8 + 1).await;
                        tank.detach(own).await;
                    }
                    if detach {
                        let states = tank.states();
                        let gone = states.iter().position(|s| *s == MemberState::Missing);
                        tank.detach(gone.expect("the other half is missing")).await;
                    }
                }
                let both = if replace { [2, 3] } else { [0, 1] };
                let error = refused(&both).await;
                assert!(matches!(error, SetupError::Apart { .. }), "{error}");
                for (n, version) in both.into_iter().zip([1, 2]) {
                    let tank = open(&[n]).await;
                    get_all(&tank.vdevs, 0..8, version).await;
                }
            });
        }
    }
}

/// Two of three members are opened by force, and then the third one alone. Later one of the two is absent.
#[test]
fn a_part_of_a_half_is_refused_beside_the_other_half() {
    for one in [0, 1] {
        with(3, async move |_| {
            drop(make(&[&[0, 1, 2]]).await.expect("made"));
            let mut tank = Tank::new(import_forced(&[0, 1]).await.expect("forced"));
            tank.write(1).await;
            drop(tank);
            let mut tank = Tank::new(import_forced(&[2]).await.expect("forced"));
            tank.write(2).await;
            drop(tank);
            let error = refused(&[one, 2]).await;
            assert!(matches!(error, SetupError::Apart { .. }), "{error}");
        });
    }
}

/// Vdevs of different halves are not a pool.
#[test]
fn vdevs_of_different_halves_are_refused() {
    with(4, async |_| {
        drop(make(&[&[0, 1], &[2, 3]]).await.expect("made"));
        for half in [[0, 2], [1, 3]] {
            drop(import_forced(&half).await.expect("forced"));
        }
        let error = refused(&[0, 3]).await;
        assert!(matches!(error, SetupError::Apart { .. }), "{error}");
    });
}

/// The halves of one vdev share the disk of another vdev. Its label names the first half's branch, which the second half
/// never knew.
#[test]
fn halves_of_one_vdev_are_refused_beside_a_vdev_that_both_used() {
    with(3, async |_| {
        drop(make(&[&[0, 1], &[2]]).await.expect("made"));
        for half in [[0, 2], [1, 2]] {
            drop(import_forced(&half).await.expect("forced"));
        }
        let error = refused(&[0, 1, 2]).await;
        assert!(matches!(error, SetupError::Apart { .. }), "{error}");
        drop(open(&[1, 2]).await);
    });
}
