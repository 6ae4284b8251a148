//! Moves of the journal between vdevs: beside clients, across power cuts, with members away, and before a removal.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use backend::BlockBackend;
use io::disk::OpenOptions as DiskOptions;
use io::sim::{Node, Sim, SimConfig};
use pool::format::{Host, JournalLayout, LABEL_SIZE, UBERBLOCK_SIZE, VdevId};
use pool::inspect::FindingKind;
use pool::vdev::{
    AREA_SIZE, Layout, MemberState, OpenOptions, PoolSpec, RING_SLOTS, SetupError, VdevSpec, create,
};
use pool::{Error, Options, Pool, Volume};

use crate::blocks::{byte, first, simulated, sound, volume, write};
use crate::raidz::inspect::inspect;
use crate::raidz::members::{devices, import, open_options};
use crate::raidz::remove::{DISK, Kind, MIRROR, RAIDZ, VDEV, check, close, ended, furnished};
use crate::raidz::{Disk, cut_at_many_steps, disks, fill};

/// The vdev that the pool is created with: disks 0 and 1.
const OLD: VdevId = VdevId(0);
/// Blocks of the volume to which a client writes one after the other.
const LOG: u64 = 1000;

/// A client that writes blocks one after the other, each durably, until it is told to end.
pub(super) struct Client {
    /// Number of writes that were answered.
    pub(super) acked: Rc<Cell<u64>>,
    ends: Rc<Cell<bool>>,
    task: io::runtime::JoinHandle<()>,
}

impl Client {
    pub(super) async fn new(pool: &Pool, acked: Rc<Cell<u64>>) -> Self {
        let log = volume(pool, "log", 4 << 20).await;
        let ends = Rc::new(Cell::new(false));
        let (of_task, end) = (acked.clone(), ends.clone());
        let task = io::spawn(async move {
            while !end.get() {
                let n = of_task.get();
                write(&log, n % LOG, 1, byte(n)).await.expect("written");
                let _proof = log.flush().await.expect("flushed");
                of_task.set(n + 1);
            }
        });
        Self { acked, ends, task }
    }

    pub(super) async fn end(self) -> u64 {
        self.ends.set(true);
        self.task.await.expect("it ends");
        self.acked.get()
    }
}

/// The pool after a power cut while a vdev joined or left it. Its disks are right, except for labels of disks that have left.
pub(super) async fn import_after_a_cut(count: usize) -> Pool {
    let (mut findings, _) = inspect(count, &[]).await;
    findings.retain(|finding| finding.kind != FindingKind::Label);
    assert!(findings.is_empty(), "{findings:?}");
    import(0..count).await.expect("all members")
}

/// The pool has its furniture, and the writes of the client that were answered.
pub(super) async fn check_with_log(pool: &Pool, acked: u64) {
    check(pool).await;
    check_log(&pool.volume("log").expect("there"), acked).await;
}

/// Checks the contents of the volume after this number of writes was answered.
pub(super) async fn check_log(log: &Volume, acked: u64) {
    for n in acked.saturating_sub(LOG)..acked {
        // the next write may be there
        if n % LOG != acked % LOG {
            assert_eq!(first(log, n % LOG).await, byte(n), "write {n} of {acked}");
        }
    }
}

/// Runs `first`, cuts the power, and runs `second` with its result.
pub(super) fn lives<T: 'static>(
    seed: u64,
    first: impl AsyncFnOnce() -> T + 'static,
    second: impl AsyncFnOnce(T) + 'static,
) {
    Sim::new(seed, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let left = node.spawn(async move { first().await }).await;
        let left = left.expect("it ran to its end");
        node.power_cut();
        node.power_on();
        let done = node.spawn(async move { second(left).await }).await;
        done.expect("it ran to its end");
    });
}

/// While a client writes, the journal moves to another vdev and back. After each move a power cut leaves the pool with all writes.
#[test]
fn the_journal_moves_there_and_back_beside_clients() {
    for (seed, kind) in (71..).zip([DISK, MIRROR, RAIDZ]) {
        let count = 2 + kind.1;
        Sim::new(seed, SimConfig::default()).block_on(async move {
            let node = Node::new();
            let acked = Rc::new(Cell::new(0));
            for (round, to) in [VDEV, OLD, VDEV].into_iter().enumerate() {
                let counted = acked.clone();
                let life = node.spawn(async move {
                    let pool = match round {
                        0 => furnished(kind).await,
                        _ => import(0..count).await.expect("all members"),
                    };
                    check(&pool).await;
                    if round > 0 {
                        let log = pool.volume("log").expect("there");
                        check_log(&log, counted.get()).await;
                        drop(log);
                        pool.destroy_volume("log").await.expect("destroyed");
                    }
                    counted.set(0);
                    let client = Client::new(&pool, counted.clone()).await;
                    let before = pool.journal_vdevs();
                    assert_ne!(before, [to]);
                    while counted.get() < 50 {
                        io::time::sleep(Duration::from_millis(1)).await;
                    }
                    pool.move_journal(&[to]).await.expect("moved");
                    assert_eq!(pool.journal_vdevs(), [to]);
                    assert_eq!(pool.vdevs().journal_rings().next, None);
                    let now = counted.get();
                    while counted.get() < now + 50 {
                        io::time::sleep(Duration::from_millis(1)).await;
                    }
                    client.end().await;
                });
                life.await.expect("it ran");
                node.power_cut();
                node.power_on();
            }
            let last = node.spawn(async move {
                let (findings, _) = inspect(count, &[]).await;
                assert!(findings.is_empty(), "{findings:?}");
                let pool = import(0..count).await.expect("all members");
                check_with_log(&pool, acked.get()).await;
                sound(&pool).await;
            });
            last.await.expect("it ran");
        });
    }
}

/// Runs `work` beside a client with power cuts at many steps. After each the pool has all writes that were answered, and its first vdev can be removed.
fn move_with_cuts(kind: Kind, stride: u64, work: impl AsyncFn(&Pool) + Copy + 'static) {
    let count = 2 + kind.1;
    let places = Rc::<RefCell<Vec<_>>>::default();
    let found = places.clone();
    let first = async move |step, acked| {
        let pool = furnished(kind).await;
        let client = Client::new(&pool, acked).await;
        Node::current().power_cut_after(step);
        work(&pool).await;
        client.end().await;
    };
    cut_at_many_steps(stride, 7, first, async move |_, acked| {
        let pool = import_after_a_cut(count).await;
        found.borrow_mut().push(pool.journal_vdevs());
        assert_eq!(pool.vdevs().journal_rings().next, None);
        check_with_log(&pool, acked.get()).await;
        ended(&pool).await;
        if pool.vdevs().status().len() == 2 {
            pool.remove_vdev(OLD).await.expect("it begins");
            ended(&pool).await;
        }
        assert_eq!(pool.journal_vdevs(), [VDEV]);
        check(&pool).await;
        close(pool).await;
        let (findings, _) = inspect(count, &[0, 1]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(2..count).await.expect("the others have everything");
        check_with_log(&pool, acked.get()).await;
        close(pool).await;
    });
    let places = places.borrow();
    assert!(places.contains(&vec![OLD]) && places.contains(&vec![VDEV]));
}

#[test]
fn a_move_is_cut_short_at_many_steps() {
    move_with_cuts(DISK, 5, async |pool| {
        pool.move_journal(&[VDEV]).await.expect("moved");
    });
    move_with_cuts(RAIDZ, 17, async |pool| {
        pool.move_journal(&[VDEV]).await.expect("moved");
        pool.move_journal(&[OLD]).await.expect("moved");
        pool.move_journal(&[OLD, VDEV]).await.expect("moved");
    });
}

#[test]
fn the_removal_of_the_vdev_with_the_journal_goes_on_after_a_power_cut() {
    move_with_cuts(DISK, 13, async |pool| {
        pool.remove_vdev(OLD).await.expect("it begins");
        ended(pool).await;
    });
}

/// A removal that is given up leaves the journal where it is.
#[test]
fn a_removal_that_is_given_up_leaves_the_journal() {
    simulated(75, async || {
        let pool = furnished(MIRROR).await;
        pool.remove_vdev(OLD).await.expect("it begins");
        while pool.journal_vdevs() == [OLD] {
            io::time::sleep(Duration::from_millis(1)).await;
        }
        pool.stop_removal().await.expect("given up");
        ended(&pool).await;
        assert_eq!(pool.vdevs().status().len(), 2);
        assert_eq!(pool.journal_vdevs(), [VDEV]);
        check(&pool).await;
        close(pool).await;
        let pool = import(0..4).await.expect("all members");
        assert_eq!(pool.journal_vdevs(), [VDEV]);
        check(&pool).await;
        close(pool).await;
    });
}

/// A member of the vdev to which the journal moves is away, and has the journal when it is back.
#[test]
fn a_member_that_was_away_gets_the_journal() {
    let first = async || {
        let pool = furnished(MIRROR).await;
        let members = pool.vdevs().status()[1].members.clone();
        pool.vdevs()
            .offline(members[1].guid)
            .await
            .expect("offline");
        pool.move_journal(&[VDEV]).await.expect("moved");
        let client = Client::new(&pool, Rc::default()).await;
        pool.vdevs()
            .online(members[1].guid, None)
            .await
            .expect("online");
        pool.resilver(|_| ()).await.expect("resilvered");
        let states = pool.vdevs().status()[1].members.clone();
        assert!(states.iter().all(|m| m.state == MemberState::Online));
        pool.vdevs()
            .offline(members[0].guid)
            .await
            .expect("offline");
        client.end().await
    };
    lives(76, first, async |acked| {
        let pool = import(0..4).await.expect("all members");
        check_with_log(&pool, acked).await;
        close(pool).await;
    });
}

/// A pool that takes no more writes moves its journal.
#[test]
fn the_journal_of_a_full_pool_moves() {
    simulated(77, async || {
        let pool = furnished(DISK).await;
        let vol = volume(&pool, "full", 1 << 30).await;
        let end = fill(&vol, 0, 64).await;
        pool.move_journal(&[VDEV]).await.expect("moved");
        pool.move_journal(&[OLD, VDEV]).await.expect("moved");
        assert_eq!(pool.journal_vdevs(), [OLD, VDEV]);
        for at in (0..end).step_by(64) {
            assert_eq!(first(&vol, at).await, byte(at / 64 * 64));
        }
        drop(vol);
        check(&pool).await;
        close(pool).await;
    });
}

async fn open(count: usize, rewind: Option<u64>) -> Result<Pool, Error> {
    let options = OpenOptions {
        rewind,
        ..open_options()
    };
    let opened = devices(0..count, options).await.expect("its disks");
    let pool = Pool::open(opened, Options::default()).await;
    io::time::sleep(Duration::from_secs(1)).await;
    pool
}

/// Overwrites the uberblocks with these sequences on disks of 96 MiB.
async fn wipe_uberblocks(count: usize, sequences: std::ops::RangeInclusive<u64>) {
    for n in 0..count {
        let disk = Disk::open(format!("d{n}"), DiskOptions::default()).await;
        let disk = disk.expect("the disk is not in use");
        let end = disk.info().size;
        let areas = [0, AREA_SIZE, end - 2 * AREA_SIZE, end - AREA_SIZE];
        for (area, sequence) in areas
            .iter()
            .flat_map(|area| sequences.clone().map(move |s| (area, s)))
        {
            let mut buf = io::pool().alloc(UBERBLOCK_SIZE).await;
            buf.fill(0);
            let slot = sequence % RING_SLOTS * UBERBLOCK_SIZE as u64;
            let at = area + LABEL_SIZE as u64 + slot;
            disk.write(buf, at).await.expect("written");
        }
        let _durable = disk.flush().await.expect("flushed");
    }
}

/// A checkpoint from before a move is opened by a rewind, with an empty journal on the vdevs that have it now. If all later checkpoints
/// are damaged, the pool opens at it only if it is chosen, because the journal behind it is gone.
#[test]
fn a_rewind_to_before_a_move() {
    for (seed, is_damaged) in [(78, false), (79, true)] {
        let first = async move || {
            let pool = furnished(DISK).await;
            let before = pool.sequence();
            let log = volume(&pool, "log", 4 << 20).await;
            write(&log, 0, 1, 7).await.expect("written");
            let _proof = log.flush().await.expect("flushed");
            drop(log);
            pool.move_journal(&[VDEV]).await.expect("moved");
            let last = pool.sequence();
            close(pool).await;
            if is_damaged {
                wipe_uberblocks(3, before + 1..=last + 1).await;
                let refused = open(3, None).await.err();
                assert!(
                    matches!(refused, Some(Error::JournalCorrupt { .. })),
                    "{refused:?}"
                );
            }
            let pool = open(3, Some(before)).await.expect("its trees are whole");
            assert_eq!(pool.journal_vdevs(), [VDEV]);
            assert!(pool.volume("log").is_none());
            check(&pool).await;
            let client = Client::new(&pool, Rc::default()).await;
            while client.acked.get() < 20 {
                io::time::sleep(Duration::from_millis(1)).await;
            }
            client.end().await
        };
        lives(seed, first, async |acked| {
            let pool = open(3, None).await.expect("the rewind is final");
            check_with_log(&pool, acked).await;
            pool.move_journal(&[OLD]).await.expect("moved");
            check(&pool).await;
            close(pool).await;
        });
    }
}

/// A small vdev has no area: the journal does not move to it, and the vdev with the journal cannot be removed.
#[test]
fn a_vdev_without_an_area_is_refused_by_name() {
    simulated(80, async || {
        let mut spec = PoolSpec::new(
            "tank",
            vec![disks(0, (1, 0, 256)).await],
            Host::new([1; 16], "here"),
        );
        spec.journal = Some(JournalLayout {
            segment_size: 1 << 20,
            segments: 16,
        });
        let opened = create(spec).await.expect("create");
        let pool = Pool::open(opened, Options::default()).await.expect("open");
        let small = VdevSpec::new(Layout::Mirror, disks(1, (1, 0, 96)).await);
        assert_eq!(pool.add_vdev(small, false).await, Ok(VDEV));
        let refused = pool.remove_vdev(OLD).await;
        assert_eq!(refused, Err(SetupError::HasJournal { vdev: OLD }));
        let refused = pool.move_journal(&[VDEV]).await;
        assert_eq!(refused, Err(SetupError::NoJournalArea { vdev: VDEV }));
        let none = VdevId(2);
        let refused = pool.move_journal(&[none]).await;
        assert_eq!(refused, Err(SetupError::NoVdev { vdev: none }));
        let refused = pool.move_journal(&[]).await;
        assert_eq!(refused, Err(SetupError::JournalSegments { segments: 0 }));
        let large = VdevSpec::new(Layout::Mirror, disks(2, (1, 0, 256)).await);
        assert_eq!(pool.add_vdev(large, false).await, Ok(none));
        pool.remove_vdev(OLD).await.expect("it begins");
        let refused = pool.move_journal(&[OLD]).await;
        assert_eq!(refused, Err(SetupError::Removing { vdev: OLD }));
        ended(&pool).await;
        assert_eq!(pool.journal_vdevs(), [none]);
        close(pool).await;
    });
}
