//! Damage to uberblocks, labels and the journal: how a pool is recovered, and which writes are lost.

use std::time::Duration;

use io::sim::Node;
use pool::format::{JournalPosition, Sequence, UBERBLOCK_SIZE};
use pool::inspect::{Findings, Image};
use pool::vdev::{
    AREA_SIZE, DATA_START, MemberState, OpenOptions, Opened, RING_SLOTS, SetupError, open,
};
use pool::{Choice, Error, Options, Pool};

use crate::vdev::open_cuts::{check_all, furnish, import, write_all};
use crate::vdev::world::{DISK_SIZE, buffer, disk, disks, find, host, machine, on, path, run};

const MEMBERS: [usize; 2] = [0, 1];
const LABEL: u64 = AREA_SIZE - RING_SLOTS * UBERBLOCK_SIZE as u64;
const AREAS: [u64; 4] = [
    0,
    AREA_SIZE,
    DISK_SIZE - 2 * AREA_SIZE,
    DISK_SIZE - AREA_SIZE,
];

/// Runs with a mirror whose process was killed. If it `is_dirty`, its newest checkpoint has version 11 and its journal
/// version 100; otherwise its newest checkpoint has version 12. `act` gets the sequence of that checkpoint.
fn with_mirror<F: Future<Output = ()> + 'static>(
    is_dirty: bool,
    act: impl FnOnce(Node, u64) -> F + 'static,
) {
    run(1, async move {
        let (node, _) = machine(MEMBERS.len());
        let mut sequence = phase(node, furnish(&MEMBERS)).await;
        if !is_dirty {
            sequence = phase(node, async {
                let pool = import(&MEMBERS).await;
                write_all(&pool, 12).await;
                pool.checkpoint().await.expect("a checkpoint");
                pool.sequence()
            })
            .await;
        }
        act(node, sequence).await;
    });
}

/// Runs a process on the machine, and kills it.
async fn phase<T: 'static>(node: Node, act: impl Future<Output = T> + 'static) -> T {
    let done = on(node, act).await.expect("it has power");
    node.kill();
    io::time::sleep(Duration::from_secs(1)).await;
    done
}

/// Zeroes a part of a disk.
async fn wipe(disk_number: usize, offset: u64, len: u64) {
    let disk = disk(disk_number).await;
    let zeroes = buffer(&vec![0; len as usize]).await;
    disk.write(zeroes, offset).await.expect("written");
    let _flushed = disk.flush().await.expect("flushed");
}

async fn wipe_rings(disk_number: usize, areas: impl IntoIterator<Item = usize>) {
    for area in areas {
        wipe(disk_number, AREAS[area] + LABEL, AREA_SIZE - LABEL).await;
    }
}

async fn open_at(
    which: &[usize],
    rewind: Option<u64>,
    read_only: bool,
) -> Result<Opened, SetupError> {
    let options = OpenOptions {
        rewind,
        read_only,
        ..OpenOptions::new(host())
    };
    open(find(which).await.expect("a pool"), options).await
}

async fn pool_at(which: &[usize], rewind: Option<u64>) -> pool::Result<Pool> {
    let opened = open_at(which, rewind, false).await;
    Pool::open(opened.expect("its devices open"), Options::default()).await
}

async fn choices(which: &[usize]) -> Vec<Choice> {
    let opened = open_at(which, None, true).await.expect("it is looked at");
    Pool::choices(&opened, 8).await
}

async fn findings(which: &'static [usize]) -> Vec<String> {
    let image = Image::open(disks(which).await).await.expect("a pool");
    let mut findings = Findings::default();
    image.check_disks(&mut findings);
    let damage = findings.damage.iter();
    let mut lines: Vec<_> = damage.map(ToString::to_string).collect();
    lines.extend(findings.notes);
    lines
}

/// Sequence of a durable batch of the newest checkpoint's journal, and its offset on each member in bytes.
async fn batch_at(index: usize) -> (Sequence, u64, u64) {
    let image = Image::open(disks(&MEMBERS).await).await.expect("a pool");
    let newest = image.uberblock(None).expect("an uberblock");
    let journal = image.journal(&newest).await;
    let batch = &journal.batches[index];
    let JournalPosition { segment, .. } = batch.position;
    assert!(segment >= newest.journal.position.segment);
    let at = DATA_START + batch.at.offset.0;
    (batch.header.sequence, at, journal.batches.len() as u64)
}

/// Regression: the message said that the pool was never finished, and to create it again by force.
#[test]
fn the_message_for_a_pool_without_rings_warns_of_creating_it_again() {
    with_mirror(true, |node, _| async move {
        let lost = SetupError::UberblocksLost {
            checkpoint: None,
            missing: Vec::new(),
        };
        phase(node, async move {
            for member in MEMBERS {
                wipe_rings(member, 0..4).await;
            }
            let problem = find(&MEMBERS)
                .await
                .expect("its labels are whole")
                .problem();
            assert_eq!(problem, Some(lost.clone()));
            let text = lost.to_string();
            assert!(
                text.contains("backup") && text.contains("do not create"),
                "{text}"
            );
            let refused = open_at(&MEMBERS, None, false).await.err();
            assert_eq!(refused, Some(lost));
            let alone = find(&[1]).await.expect("its label is whole").problem();
            let text = alone.expect("a reason").to_string();
            assert!(text.contains("connect"), "{text}");
        })
        .await;
    });
}

/// A member that missed writes has older checkpoints when the others have none.
#[test]
fn a_pool_without_rings_opens_at_the_checkpoint_of_a_stale_member() {
    with_mirror(false, |node, sequence| async move {
        phase(node, async {
            let pool = import(&MEMBERS).await;
            let members = pool.vdevs().status()[0].members.clone();
            pool.vdevs()
                .offline(members[1].guid)
                .await
                .expect("offline");
            pool.checkpoint().await.expect("a checkpoint");
        })
        .await;
        phase(node, async move {
            wipe_rings(0, 0..4).await;
            let lost = SetupError::UberblocksLost {
                checkpoint: Some(sequence),
                missing: Vec::new(),
            };
            let problem = find(&MEMBERS)
                .await
                .expect("its labels are whole")
                .problem();
            assert_eq!(problem, Some(lost));
            let pool = pool_at(&MEMBERS, Some(sequence))
                .await
                .expect("it goes back");
            check_all(&pool, 12, "as of the stale member's checkpoint").await;
            assert!(pool.sequence() > sequence + 1);
        })
        .await;
        phase(node, async {
            check_all(&import(&MEMBERS).await, 12, "once it went back").await;
        })
        .await;
    });
}

/// Regression: a scrub did not restore wiped copies of uberblocks and labels.
#[test]
fn a_scrub_restores_wiped_uberblocks_and_labels() {
    with_mirror(false, |node, sequence| async move {
        phase(node, async {
            assert_eq!(findings(&MEMBERS).await, Vec::<String>::new());
            // Member 0 has no uberblock of its own, member 1 lacks half of the copies.
            wipe_rings(0, 0..4).await;
            wipe_rings(1, [0, 2]).await;
            let pool = import(&MEMBERS).await;
            let rot = |member: usize, area: usize| {
                let disk = Node::current().disk(path(member)).expect("a disk");
                disk.rot(AREAS[area]..AREAS[area] + LABEL);
            };
            (0..4).for_each(|area| rot(0, area));
            rot(1, 1);
            rot(1, 3);
            let done = pool.scrub(|_| ()).await.expect("scrubbed");
            assert!(done.lost.is_empty() && done.damaged.is_empty());
            assert!(done.repaired >= 6 + 2 * 10, "{} copies", done.repaired);
            let again = pool.scrub(|_| ()).await.expect("scrubbed");
            assert_eq!(again.repaired, 0);
        })
        .await;
        phase(node, async move {
            assert_eq!(findings(&MEMBERS).await, Vec::<String>::new());
            wipe_rings(1, 0..4).await;
            let found = find(&MEMBERS).await.expect("a pool");
            assert_eq!(found.problem(), None);
            assert!(found.uberblocks.iter().any(|u| u.sequence == sequence));
            drop(found);
            let pool = import(&MEMBERS).await;
            check_all(&pool, 12, "by the member that was restored").await;
            let members = &pool.vdevs().status()[0].members;
            assert!(
                members
                    .iter()
                    .all(|member| member.state == MemberState::Online)
            );
        })
        .await;
    });
}

/// Regression: if the labels at a disk's end were lost, rings were copied from the front to the end although the front had
/// none.
#[test]
fn rings_at_one_end_and_labels_at_the_other_make_a_pool() {
    with_mirror(true, |node, sequence| async move {
        phase(node, async {
            for member in MEMBERS {
                wipe_rings(member, [0, 1]).await;
                wipe(member, AREAS[2], LABEL).await;
                wipe(member, AREAS[3], LABEL).await;
            }
        })
        .await;
        for _ in 0..2 {
            phase(node, async move {
                let pool = import(&MEMBERS).await;
                assert_eq!(pool.sequence(), sequence);
                check_all(&pool, 100, "by the rings at the end").await;
            })
            .await;
        }
        let found = phase(node, findings(&MEMBERS)).await;
        let newest = format!("uberblock {sequence}:");
        assert!(
            !found.iter().any(|line| line.contains(&newest)),
            "{found:#?}"
        );
    });
}

#[test]
fn a_journal_that_is_damaged_on_one_member_loses_nothing() {
    with_mirror(true, |node, sequence| async move {
        phase(node, async move {
            let (_, at, _) = batch_at(2).await;
            wipe(1, at, 4096).await;
            let choices = choices(&MEMBERS).await;
            assert!(choices[0].loses_nothing() && choices[0].batches > 0);
            assert_eq!(choices[0].uberblock.sequence, sequence);
            check_all(&import(&MEMBERS).await, 100, "by the other member").await;
        })
        .await;
    });
}

/// Regression: neither the trial nor a rewind to the newest checkpoint worked; only an older one opened.
#[test]
fn a_journal_that_is_damaged_on_both_members_is_applied_up_to_the_damage() {
    with_mirror(true, |node, sequence| async move {
        phase(node, async {
            let (lost, at, all) = batch_at(3).await;
            for member in MEMBERS {
                wipe(member, at, 4096).await;
            }
            let found = choices(&MEMBERS).await;
            assert_eq!((found[0].batches, found[0].error.clone()), (3, None));
            // The last batch is not known to have been flushed.
            assert!((1..=all - 3).contains(&found[0].lost_batches));
            assert_eq!((found[1].lost_checkpoints, found[1].batches), (1, 0));
            assert!(found[1].lost_batches > found[0].lost_batches);
            let refused = pool_at(&MEMBERS, None).await.err();
            let Some(Error::JournalCorrupt { sequence, .. }) = refused else {
                panic!("{refused:?}");
            };
            assert_eq!(sequence, lost);
        })
        .await;
        phase(node, async move {
            let pool = pool_at(&MEMBERS, Some(sequence)).await.expect("it opens");
            assert_eq!(pool.sequence(), sequence);
            let found = pool.verify().await.expect("verified");
            assert_eq!(found.problems, Vec::<String>::new());
            write_all(&pool, 55).await;
        })
        .await;
        phase(node, async {
            assert!(choices(&MEMBERS).await[0].loses_nothing());
            check_all(&import(&MEMBERS).await, 55, "after what was given up").await;
        })
        .await;
    });
}

#[test]
fn a_damaged_root_of_the_newest_checkpoint_leaves_the_one_before() {
    with_mirror(true, |node, sequence| async move {
        phase(node, async {
            let image = Image::open(disks(&MEMBERS).await).await.expect("a pool");
            let root = image.uberblock(None).expect("one").root.expect("a root");
            drop(image);
            for member in MEMBERS {
                wipe(member, DATA_START + root.offset.0, 4096).await;
            }
            let found = choices(&MEMBERS).await;
            assert!(matches!(found[0].error, Some(Error::Corrupt { .. })));
            assert!(found[1].error.is_none() && !found[1].loses_nothing());
        })
        .await;
        for choice in [None, Some(sequence)] {
            phase(node, async move {
                let refused = pool_at(&MEMBERS, choice).await.err();
                assert!(
                    matches!(refused, Some(Error::Corrupt { .. })),
                    "{refused:?}"
                );
            })
            .await;
        }
        phase(node, async move {
            let before = Some(sequence - 1);
            let pool = pool_at(&MEMBERS, before).await.expect("it goes back");
            check_all(&pool, 10, "as of the checkpoint before").await;
            write_all(&pool, 77).await;
        })
        .await;
        phase(node, async {
            check_all(&import(&MEMBERS).await, 77, "after going back").await;
        })
        .await;
    });
}

/// Regression: the journal was wiped before the older checkpoint was read, so that a failed rewind lost the journal.
#[test]
fn a_failed_rewind_to_a_damaged_checkpoint_loses_nothing() {
    with_mirror(true, |node, sequence| async move {
        phase(node, async move {
            let image = Image::open(disks(&MEMBERS).await).await.expect("a pool");
            let older = image.uberblock(Some(sequence - 1)).expect("one");
            drop(image);
            let at = DATA_START + older.root.expect("a root").offset.0;
            for member in MEMBERS {
                wipe(member, at, 4096).await;
            }
            let refused = pool_at(&MEMBERS, Some(sequence - 1)).await.err();
            assert!(
                matches!(refused, Some(Error::Corrupt { .. })),
                "{refused:?}"
            );
        })
        .await;
        phase(node, async move {
            let pool = import(&MEMBERS).await;
            assert_eq!(pool.sequence(), sequence);
            check_all(&pool, 100, "nothing was given up").await;
        })
        .await;
    });
}
