//! A raidz is opened: with members missing, and after a power cut that tore rows.

use pool::WriteClass;
use pool::format::{Birth, BlockPtr, Incarnation, Key, Kind, ObjectId, Record, TreeId};
use pool::journal::{Start, Writer, replay};
use pool::vdev::{MemberState, OpenOptions, Opened, SetupError, Vdevs, open};

use crate::vdev::raidz::{
    Group, SHAPES, absences, fail_writes, get_groups, groups, look, make_raidz, put_groups, states,
};
use crate::vdev::world::{buffer, find, host, machine, on, run};

/// Opens for writing, without force.
async fn import_without(members: usize, without: &[usize]) -> Result<Opened, SetupError> {
    let there: Vec<usize> = (0..members).filter(|m| !without.contains(m)).collect();
    open(
        find(&there).await.expect("a pool"),
        OpenOptions::new(host()),
    )
    .await
}

/// Members are missing, and no record of the last labels helps: the pool opens if one of the present members must have
/// the labels of each round.
#[test]
fn a_pool_opens_if_one_present_member_has_each_label() {
    for (members, parity, missing, opens) in [
        (3, 1, 1, true),
        (5, 2, 2, true),
        (7, 3, 3, true),
        (4, 2, 1, true),
        (4, 2, 2, false),
        (2, 1, 1, false),
        (6, 3, 3, false),
        (6, 3, 2, true),
    ] {
        run(6, async move {
            let (node, _) = machine(members);
            on(node, async move {
                let data = (members - usize::from(parity)) as u64;
                let vdevs = make_raidz(members, parity).await.vdevs;
                put_groups(&vdevs, data).await;
                drop(vdevs);
                let without: Vec<usize> = (0..missing).collect();
                match import_without(members, &without).await {
                    Ok(opened) => {
                        assert!(opens, "{missing} of {members} missing");
                        get_groups(&opened.vdevs, data, &groups(data)).await;
                        drop(opened);
                        let all = import_without(members, &[]).await.expect("all are back");
                        assert_eq!(states(&all.vdevs, MemberState::Stale), missing);
                    }
                    Err(SetupError::MemberMissing { members, .. }) => {
                        assert!(!opens && members.len() == missing);
                    }
                    Err(error) => panic!("{error}"),
                }
            })
            .await
            .expect("it has power");
        });
    }
}

/// Members that missed writes are not enough to open with; the members that went on are.
#[test]
fn members_that_missed_writes_do_not_open_the_pool() {
    run(7, async {
        let (node, disks) = machine(5);
        on(node, async move {
            let vdevs = make_raidz(5, 2).await.vdevs;
            fail_writes(&disks[..2]);
            put_groups(&vdevs, 3).await;
            disks[..2].iter().for_each(|disk| disk.heal());
            drop(vdevs);
            // One of the three that went on is missing: two that are in, and two that are not.
            let error = import_without(5, &[4]).await.err().expect("refused");
            assert!(matches!(error, SetupError::VdevMissing { .. }), "{error}");
            let vdevs = import_without(5, &[0, 1])
                .await
                .expect("three of five")
                .vdevs;
            get_groups(&vdevs, 3, &groups(3)).await;
        })
        .await
        .expect("it has power");
    });
}

/// Writes a batch that points to blocks.
async fn put_batch(vdevs: &Vdevs, start: Start, blocks: &[(BlockPtr, Vec<u8>)]) {
    let mut writer = Writer::new(vdevs.ring(), start, start, Incarnation(1), Birth(2));
    let put = |(n, (ptr, _)): (u64, &(BlockPtr, Vec<u8>))| {
        Record::PutFresh(TreeId(16), Key::new(ObjectId(1), Kind(1), n), (*ptr).into())
    };
    let records: Vec<_> = (0..).zip(blocks).map(put).collect();
    writer.append(&records, 0).expect("room");
    let batch = writer.next_write(true).expect("a batch");
    let bytes = buffer(&batch.bytes).await;
    let written = vdevs.write(batch.at, bytes, WriteClass::Journal).await;
    written.expect("written");
}

/// A batch and the group that it points to, whose rows some members lost in a power cut. If enough is left, replay keeps the
/// batch and writes the rows again, so that any other members may be missing; if not, it gives the batch up.
#[test]
fn replay_mends_torn_rows() {
    for (members, parity) in SHAPES.into_iter().filter(|(members, _)| *members < 10) {
        for torn in 0..=usize::from(parity) + 1 {
            run(11, async move {
                let (node, disks) = machine(members);
                on(node, async move {
                    let data = (members - usize::from(parity)) as u64;
                    let opened = make_raidz(members, parity).await;
                    let (vdevs, start) = (opened.vdevs, opened.uberblock.journal);
                    let group = Group {
                        row: 3,
                        blocks: vec![2, 1, data * 2, 3],
                        version: 1,
                    };
                    disks[..torn.min(members)]
                        .iter()
                        .for_each(|disk| disk.drop_next_write());
                    group.put(&vdevs, data).await.expect("they say so");
                    put_batch(&vdevs, start, &group.blocks(&vdevs, data)).await;
                    let _stable = vdevs.flush().await.expect("flushed");
                    drop(vdevs);
                    let vdevs = import_without(members, &[]).await.expect("it opens").vdevs;
                    let replayed = replay(&vdevs, &vdevs.ring(), start).await.expect("sound");
                    drop(vdevs);
                    if torn > usize::from(parity) {
                        assert!(replayed.batches.is_empty(), "torn on {torn} of {members}");
                        return;
                    }
                    assert_eq!(replayed.batches.len(), 1, "torn on {torn} of {members}");
                    assert_eq!(replayed.repaired > 0, torn > 0);
                    for without in absences(members, parity.into()) {
                        let vdevs = look(members, &without).await.expect("it opens").vdevs;
                        get_groups(&vdevs, data, std::slice::from_ref(&group)).await;
                    }
                })
                .await
                .expect("it has power");
            });
        }
    }
}

/// Replay asked stale members for the data of a batch, which the offline reader does not: the pool kept a batch of which it said
/// nothing (seed 20261121 of scenario `pool`).
#[test]
fn replay_gives_up_a_batch_whose_data_only_a_stale_member_completes() {
    run(12, async {
        let (node, disks) = machine(3);
        on(node, async move {
            let opened = make_raidz(3, 1).await;
            let (vdevs, start) = (opened.vdevs, opened.uberblock.journal);
            disks[2].error_rates(0.0, 1.0, 1.0);
            put_groups(&vdevs, 2).await;
            disks[2].heal();
            assert_eq!(states(&vdevs, MemberState::Stale), 1);
            let group = Group {
                row: 400,
                blocks: vec![4],
                version: 1,
            };
            disks[0].drop_next_write();
            group.put(&vdevs, 2).await.expect("they say so");
            put_batch(&vdevs, start, &group.blocks(&vdevs, 2)).await;
            let _stable = vdevs.flush().await.expect("flushed");
            drop(vdevs);
            let vdevs = import_without(3, &[]).await.expect("it opens").vdevs;
            let replayed = replay(&vdevs, &vdevs.ring(), start).await.expect("sound");
            assert!(replayed.batches.is_empty(), "{:?}", replayed.batches);
        })
        .await
        .expect("it has power");
    });
}
