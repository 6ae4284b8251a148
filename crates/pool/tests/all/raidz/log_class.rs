//! Vdevs for the journal: at the creation of a pool, added and removed beside clients, across power cuts, and with members away.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use backend::BlockBackend;
use io::sim::{Latency, Node, Sim, SimConfig, SimDisk};
use pool::format::{Host, JournalLayout, VdevClass, VdevId};
use pool::inspect::{Finding, FindingKind};
use pool::vdev::{MemberState, OpenOptions, PoolSpec, RING_SLOTS, SetupError, VdevSpec, create};
use pool::{Options, Pool};

use crate::blocks::{byte, first, simulated, sound, volume, write};
use crate::raidz::inspect::inspect;
use crate::raidz::journal_move::{Client, check_with_log, import_after_a_cut, lives};
use crate::raidz::members::{import, import_with, open_options};
use crate::raidz::remove::{DISK, VDEV, check, close, ended, furnished};
use crate::raidz::{cut_at_many_steps, disks, fill, raidz};

/// The first vdev of a furnished pool, a mirror of disks 0 and 1.
const MIRROR: VdevId = VdevId(0);
/// The vdev for the journal, which a furnished pool gets third.
const LOG: VdevId = VdevId(2);
/// Its first disk.
const LOG_DISK: usize = 3;

/// A vdev for the journal of `count` new disks.
async fn log(first: usize, count: usize) -> VdevSpec {
    VdevSpec::log(disks(first, (count, 0, 64)).await)
}

/// A furnished pool of disks 0 to 2 with a vdev for the journal of `count` disks.
async fn with_log(count: usize) -> Pool {
    let pool = furnished(DISK).await;
    let added = pool.add_vdev(log(LOG_DISK, count).await, false).await;
    assert_eq!(added, Ok(LOG));
    assert_eq!(pool.journal_vdevs(), [LOG]);
    pool
}

pub(super) async fn wait_for(client: &Client, more: u64) {
    let now = client.acked.get();
    while client.acked.get() < now + more {
        io::time::sleep(Duration::from_millis(1)).await;
    }
}

pub(super) fn spec(vdevs: Vec<VdevSpec>) -> PoolSpec {
    PoolSpec::new("tank", vdevs, Host::new([1; 16], "here"))
}

/// A pool that is created with a vdev for the journal has its journal there, and no block. All its data is there after a power cut.
#[test]
fn a_pool_is_created_with_a_log() {
    let made = async || {
        let log_first = vec![log(0, 2).await, raidz(2, (3, 1, 96)).await];
        let opened = create(spec(log_first)).await.expect("create");
        let pool = Pool::open(opened, Options::default()).await.expect("open");
        assert_eq!(pool.journal_vdevs(), [VdevId(0)]);
        let classes: Vec<_> = pool.vdevs().status().iter().map(|v| v.class).collect();
        assert_eq!(classes, [VdevClass::Log, VdevClass::Normal]);
        let vol = volume(&pool, "vm", 1 << 30).await;
        let end = fill(&vol, 0, 32).await;
        let size = pool.space().size;
        assert!(size < 192 << 20, "{size}");
        assert!(end * 4096 < size);
        drop(vol);
        end
    };
    lives(1, made, async |end| {
        let (findings, _) = inspect(5, &[]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(0..5).await.expect("all members");
        assert_eq!(pool.journal_vdevs(), [VdevId(0)]);
        let vol = pool.volume("vm").expect("there");
        for at in (0..end).step_by(32) {
            let found = first(&vol, at).await;
            assert!(found == byte(at) || found == 0, "block {at}");
        }
        sound(&pool).await;
    });
}

/// While a client writes, a pool gets a vdev for the journal and loses it again. Afterwards its disks have no label.
#[test]
fn a_log_comes_and_goes_beside_clients() {
    simulated(2, async || {
        let pool = furnished(DISK).await;
        let client = Client::new(&pool, Rc::default()).await;
        wait_for(&client, 20).await;
        let before = pool.space().size;
        for round in 0..3 {
            let at = LOG_DISK + 2 * round;
            let added = pool.add_vdev(log(at, 2).await, false).await;
            let vdev = added.expect("added");
            assert_eq!(pool.journal_vdevs(), [vdev]);
            assert_eq!(pool.space().size, before, "it has no place for blocks");
            wait_for(&client, 20).await;
            pool.remove_vdev(vdev).await.expect("it begins");
            ended(&pool).await;
            assert_eq!(pool.journal_vdevs(), [MIRROR, VDEV]);
            wait_for(&client, 20).await;
        }
        let acked = client.end().await;
        close(pool).await;
        let (findings, _) = inspect(9, &[3, 4, 5, 6, 7, 8]).await;
        assert!(findings.is_empty(), "{findings:?}");
        let pool = import(0..3).await.expect("the others have everything");
        check_with_log(&pool, acked).await;
        close(pool).await;
    });
}

/// The power is cut at many steps of the addition of a log, and of its removal. Then the pool has all writes that were answered, and its journal is
/// on the log if there is one.
#[test]
fn additions_and_removals_are_cut_short_at_many_steps() {
    let places = Rc::<RefCell<Vec<_>>>::default();
    let found = places.clone();
    let first = async |step, acked| {
        let pool = furnished(DISK).await;
        let client = Client::new(&pool, acked).await;
        let log = log(LOG_DISK, 1).await;
        Node::current().power_cut_after(step);
        assert_eq!(pool.add_vdev(log, false).await, Ok(LOG));
        wait_for(&client, 10).await;
        pool.remove_vdev(LOG).await.expect("it begins");
        ended(&pool).await;
        client.end().await;
    };
    cut_at_many_steps(11, 8, first, async move |_, acked| {
        let pool = import_after_a_cut(4).await;
        check_with_log(&pool, acked.get()).await;
        ended(&pool).await;
        io::time::sleep(Duration::from_secs(5)).await;
        let place = pool.journal_vdevs();
        let has_log = pool.vdevs().status().iter().any(|v| v.id == LOG);
        assert_eq!(place == [LOG], has_log);
        close(pool).await;
        found.borrow_mut().push(place);
    });
    let places = places.borrow();
    assert!(places.contains(&vec![LOG]) && places.contains(&vec![MIRROR, VDEV]));
}

/// A removal that is given up leaves the log, and the journal goes back to it.
#[test]
fn the_journal_returns_to_a_log_that_stays() {
    simulated(3, async || {
        let pool = with_log(1).await;
        pool.remove_vdev(LOG).await.expect("it begins");
        while pool.journal_vdevs() == [LOG] {
            if pool.removing().is_none() {
                return close(pool).await;
            }
            io::time::sleep(Duration::from_micros(10)).await;
        }
        if pool.stop_removal().await.is_ok() {
            ended(&pool).await;
            io::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(pool.journal_vdevs(), [LOG]);
        }
        check(&pool).await;
        close(pool).await;
    });
}

/// A member of a log is away, and has the journal when it is back.
#[test]
fn a_member_of_a_log_that_was_away_gets_the_journal() {
    let life = async || {
        let pool = with_log(2).await;
        let members = pool.vdevs().status()[2].members.clone();
        let client = Client::new(&pool, Rc::default()).await;
        let vdevs = pool.vdevs();
        vdevs.offline(members[1].guid).await.expect("offline");
        wait_for(&client, 20).await;
        vdevs.online(members[1].guid, None).await.expect("online");
        pool.resilver(|_| ()).await.expect("resilvered");
        let states = vdevs.status()[2].members.clone();
        assert!(states.iter().all(|m| m.state == MemberState::Online));
        vdevs.offline(members[0].guid).await.expect("offline");
        wait_for(&client, 20).await;
        client.end().await
    };
    lives(4, life, async |acked| {
        let pool = import(0..5).await.expect("all members");
        assert_eq!(pool.journal_vdevs(), [LOG]);
        check_with_log(&pool, acked).await;
        close(pool).await;
    });
}

/// Two logs share the journal. One of them leaves.
#[test]
fn two_logs_share_the_journal() {
    simulated(5, async || {
        let pool = with_log(1).await;
        let second = VdevId(3);
        let added = pool.add_vdev(log(LOG_DISK + 1, 2).await, false).await;
        assert_eq!(added, Ok(second));
        assert_eq!(pool.journal_vdevs(), [LOG, second]);
        pool.remove_vdev(LOG).await.expect("it begins");
        ended(&pool).await;
        assert_eq!(pool.journal_vdevs(), [second]);
        check(&pool).await;
        close(pool).await;
    });
}

#[test]
fn wrong_logs_are_refused_by_name() {
    simulated(6, async || {
        let only_logs = spec(vec![log(0, 2).await]);
        let refused = create(only_logs).await.err();
        assert_eq!(refused, Some(SetupError::NoBlocks));
        let mut rows = raidz(2, (3, 1, 96)).await;
        rows.class = VdevClass::Log;
        let with_rows = spec(vec![disks(5, (1, 0, 96)).await.into(), rows]);
        let refused = create(with_rows).await.err();
        assert_eq!(refused, Some(SetupError::LogLayout));
        let mut large = spec(vec![disks(6, (1, 0, 512)).await.into()]);
        large.journal = Some(JournalLayout {
            segment_size: 4 << 20,
            segments: 64,
        });
        let opened = create(large).await.expect("create");
        let pool = Pool::open(opened, Options::default()).await.expect("open");
        let refused = pool.add_vdev(log(7, 1).await, false).await;
        let (room, needed) = (62 << 20, 256 << 20);
        assert_eq!(refused, Err(SetupError::LogTooSmall { room, needed }));
        assert_eq!(pool.vdevs().status().len(), 1);
        assert_eq!(pool.vdevs().log_size_min(), (257 << 20) + (512 << 10));
        let larger = VdevSpec::log(disks(8, (1, 0, 258)).await);
        let vdev = pool.add_vdev(larger, false).await.expect("added");
        assert_eq!(pool.journal_vdevs(), [vdev]);
        let refused = pool.remove_vdev(VdevId(0)).await;
        let last = SetupError::LastVdev { vdev: VdevId(0) };
        assert_eq!(refused, Err(last), "a log has no place for blocks");
        close(pool).await;
    });
}

fn disk(n: usize) -> SimDisk {
    let disk = Node::current().disk(format!("d{n}"));
    disk.expect("it was created")
}

/// How a log is lost.
#[derive(Debug, Clone, Copy)]
enum Loss {
    Killed,
    Writes,
    Flushes,
    Hangs,
}

impl Loss {
    const ALL: [Self; 4] = [Self::Killed, Self::Writes, Self::Flushes, Self::Hangs];

    fn happens_to(self, disk: SimDisk) {
        match self {
            Self::Killed => disk.kill(),
            Self::Writes => disk.fail_writes(0..u64::MAX),
            Self::Flushes => disk.error_rates(0.0, 0.0, 1.0),
            Self::Hangs => disk.slow(Some(Latency {
                base: Duration::from_secs(1 << 20),
                ..Latency::default()
            })),
        }
    }
}

/// A log is lost beside a client, who sees a pause and no error. The journal is on the other vdevs then, and the log is no part of the pool. All
/// writes that were answered are there after a power cut.
#[test]
fn the_loss_of_a_log_loses_nothing() {
    for (seed, (loss, count)) in (20..).zip(Loss::ALL.into_iter().flat_map(|l| [(l, 1), (l, 2)])) {
        let life = async move || {
            let pool = with_log(count).await;
            let client = Client::new(&pool, Rc::default()).await;
            wait_for(&client, 20).await;
            for n in 0..count {
                loss.happens_to(disk(LOG_DISK + n));
            }
            wait_for(&client, 20).await;
            io::time::sleep(Duration::from_secs(5)).await;
            assert_eq!(pool.journal_vdevs(), [MIRROR, VDEV], "{loss:?}");
            assert_eq!(pool.vdevs().status().len(), 2);
            assert_eq!(pool.lost_logs(), [LOG]);
            assert_eq!(pool.trouble(), None);
            wait_for(&client, 20).await;
            client.end().await
        };
        lives(seed, life, async move |acked| {
            let (findings, _) = inspect(3, &[]).await;
            assert!(findings.is_empty(), "{findings:?}");
            let pool = import(0..3).await.expect("the others have everything");
            check_with_log(&pool, acked).await;
            close(pool).await;
        });
    }
}

/// An idle pool notices the loss of its log by its next checkpoint or label, and needs no write of a client to leave it.
#[test]
fn an_idle_pool_leaves_a_lost_log() {
    simulated(40, async || {
        let pool = with_log(1).await;
        disk(LOG_DISK).kill();
        pool.checkpoint().await.expect("a checkpoint");
        io::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(pool.lost_logs(), [LOG]);
        assert_eq!(pool.journal_vdevs(), [MIRROR, VDEV]);
        check(&pool).await;
        close(pool).await;
    });
}

/// The journal of two logs moves to the one that is left.
#[test]
fn a_second_log_takes_the_journal_of_a_lost_one() {
    let life = async || {
        let pool = with_log(1).await;
        let second = VdevId(3);
        let added = pool.add_vdev(log(LOG_DISK + 1, 1).await, false).await;
        assert_eq!(added, Ok(second));
        let client = Client::new(&pool, Rc::default()).await;
        wait_for(&client, 20).await;
        disk(LOG_DISK).kill();
        wait_for(&client, 20).await;
        io::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(pool.journal_vdevs(), [second]);
        client.end().await
    };
    lives(41, life, async |acked| {
        let pool = import([0, 1, 2, 4]).await.expect("the others");
        check_with_log(&pool, acked).await;
        close(pool).await;
    });
}

/// The step that a loss falls into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Amid {
    Writes,
    Removal,
    Addition,
}

/// A log is lost at some time amid `amid`, and the power is cut a moment later. Without the log, the pool is opened only if it has all writes that were
/// answered; with the log, it has them in any case.
fn lost_and_cut(amid: Amid, seed: u64) -> bool {
    Sim::new(seed, SimConfig::default()).block_on(async move {
        let node = Node::new();
        let acked = Rc::new(Cell::new(0));
        let counted = acked.clone();
        let (loss_after, cut_after) = (seed * 337 % 20_000, seed * 1_511 % 30_000);
        let prepared = node.spawn(async move {
            let pool = match amid {
                Amid::Addition => furnished(DISK).await,
                _ => with_log(1).await,
            };
            let client = Client::new(&pool, counted).await;
            wait_for(&client, 20).await;
            let spec = match amid {
                Amid::Addition => Some(log(LOG_DISK, 1).await),
                _ => None,
            };
            drop(io::spawn(async move {
                io::time::sleep(Duration::from_micros(loss_after)).await;
                disk(LOG_DISK).kill();
                io::time::sleep(Duration::from_micros(cut_after)).await;
                Node::current().power_cut_after(0);
            }));
            match amid {
                Amid::Writes => {}
                Amid::Removal => drop(pool.remove_vdev(LOG).await),
                Amid::Addition => drop(pool.add_vdev(spec.expect("made"), false).await),
            }
            while !pool.vdevs().is_read_only() {
                io::time::sleep(Duration::from_millis(1)).await;
            }
            drop(client);
        });
        assert!(prepared.await.is_none(), "it ends by the power cut");
        node.power_cut();
        node.power_on();
        let second = node.spawn(async move {
            let (findings, _) = inspect(3, &[]).await;
            let opened = import(0..3).await;
            let needs_log = opened.is_err();
            let is_missed = |finding: &Finding| finding.kind == FindingKind::Missing;
            assert_eq!(findings.iter().any(is_missed), needs_log, "{findings:?}");
            let pool = match opened {
                Ok(pool) => pool,
                Err(error) => {
                    let is_right = match amid {
                        Amid::Addition => true,
                        _ => matches!(
                            error,
                            SetupError::LogMissing {
                                vdev: LOG,
                                was_exported: false,
                                ..
                            }
                        ),
                    };
                    assert!(is_right, "{error:?}");
                    disk(LOG_DISK).revive();
                    import(0..4).await.expect("all members")
                }
            };
            check_with_log(&pool, acked.get()).await;
            ended(&pool).await;
            io::time::sleep(Duration::from_secs(5)).await;
            let is_on_log = pool.journal_vdevs() == [LOG];
            assert!(is_on_log || pool.vdevs().status().len() == 2);
            close(pool).await;
            needs_log
        });
        second
            .await
            .unwrap_or_else(|| panic!("{amid:?}, seed {seed}"))
    })
}

#[test]
fn a_loss_and_a_power_cut_lose_nothing_that_was_answered() {
    for amid in [Amid::Writes, Amid::Removal, Amid::Addition] {
        let outcomes: Vec<bool> = (1..=60).map(|seed| lost_and_cut(amid, seed)).collect();
        let with_log = outcomes.iter().filter(|needs_log| **needs_log).count();
        println!("{amid:?}: {with_log} of {} need the log", outcomes.len());
        assert!(
            outcomes.contains(&true) && outcomes.contains(&false),
            "{amid:?}"
        );
    }
}

async fn import_forced(which: impl IntoIterator<Item = usize>) -> Result<Pool, SetupError> {
    let options = OpenOptions {
        force_missing: true,
        ..open_options()
    };
    import_with(which, options).await
}

/// A log is lost together with the machine. The pool is refused by name, and opens at its newest checkpoint by consent. The log is no part of it then,
/// also when its disk is back.
#[test]
fn a_log_that_is_lost_with_the_machine_is_given_up_by_consent() {
    let life = async || {
        let pool = with_log(1).await;
        assert_eq!(pool.lost_changes(), None);
        // more checkpoints than the disks keep, in which only one dataset changes
        let busy = volume(&pool, "busy", 4 << 20).await;
        for n in 0..RING_SLOTS {
            io::time::sleep(Duration::from_secs(10)).await;
            write(&busy, n, 1, byte(n)).await.expect("written");
            let _proof = busy.flush().await.expect("flushed");
            pool.checkpoint().await.expect("a checkpoint");
        }
        io::time::sleep(Duration::from_secs(10)).await;
        let vol = volume(&pool, "late", 4 << 20).await;
        write(&vol, 0, 1, 1).await.expect("written");
        let _proof = vol.flush().await.expect("flushed");
        pool.checkpoint().await.expect("a checkpoint");
        write(&vol, 0, 1, 2).await.expect("written");
        let _proof = vol.flush().await.expect("flushed");
    };
    lives(60, life, async |()| {
        let refused = import(0..3).await.err();
        let Some(SetupError::LogMissing {
            vdev, was_exported, ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!((vdev, was_exported), (LOG, false));
        let pool = import_forced(0..3).await.expect("by consent");
        assert_eq!(pool.journal_vdevs(), [MIRROR, VDEV]);
        let lost = pool.lost_changes().expect("the log was in use");
        let named: Vec<_> = lost.changed.iter().map(|c| c.dataset.as_str()).collect();
        assert_eq!(named, ["late", "busy"], "{lost:?}");
        assert_eq!(lost.changed[0].time_ms, lost.since_ms);
        let before = lost.since_ms - lost.changed[1].time_ms;
        assert!((8_000..30_000).contains(&before), "{lost:?}");
        assert!(lost.known_ms < lost.changed[1].time_ms, "{lost:?}");
        check(&pool).await;
        let vol = pool.volume("late").expect("it was in the checkpoint");
        assert_eq!(first(&vol, 0).await, 1, "the later write is lost");
        write(&vol, 0, 1, 3).await.expect("written");
        let _proof = vol.flush().await.expect("flushed");
        drop(vol);
        io::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(pool.vdevs().status().len(), 2);
        close(pool).await;
        let pool = import(0..4)
            .await
            .expect("the disk that is back is no part of it");
        assert_eq!(pool.vdevs().status().len(), 2);
        let vol = pool.volume("late").expect("there");
        assert_eq!(first(&vol, 0).await, 3);
        drop(vol);
        check(&pool).await;
        close(pool).await;
        let (mut findings, _) = inspect(4, &[LOG_DISK]).await;
        findings.retain(|finding| finding.kind != FindingKind::Label);
        assert!(findings.is_empty(), "{findings:?}");
    });
}

/// A pool that was exported has nothing in its journal: the refusal has this, and nothing is lost.
#[test]
fn a_log_that_is_lost_after_an_export_loses_nothing() {
    simulated(61, async || {
        let pool = with_log(1).await;
        let vdevs = pool.vdevs();
        close(pool).await;
        vdevs.export().await.expect("exported");
        drop(vdevs);
        let refused = import(0..3).await.err();
        let is_named = matches!(
            refused,
            Some(SetupError::LogMissing {
                was_exported: true,
                ..
            })
        );
        assert!(is_named, "{refused:?}");
        let text = refused.expect("refused").to_string();
        assert!(text.contains("nothing is lost"), "{text}");
        let pool = import_forced(0..3).await.expect("by consent");
        assert_eq!(pool.lost_changes(), None);
        check(&pool).await;
        close(pool).await;
    });
}
