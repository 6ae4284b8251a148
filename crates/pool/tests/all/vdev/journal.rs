//! The journal on a stripe of mirrors: acknowledged batches are replayed under any failure, with any members present.

use std::cell::Cell;
use std::rc::Rc;

use pool::WriteClass;
use pool::format::{Birth, Incarnation, Record, Sequence};
use pool::journal::{Start, Writer, replay};
use pool::vdev::{DATA_START, MemberState, Vdevs};

use crate::vdev::world::{buffer, import, machine, make, on, run};

fn record(number: u64, size: usize) -> Record {
    let mut bytes = vec![number as u8; size];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Record::State(bytes.into())
}

fn number(record: &Record) -> u64 {
    let Record::State(bytes) = record else {
        panic!("{record:?}")
    };
    u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"))
}

/// Appends a record and writes its batch.
async fn put_batch(vdevs: &Vdevs, writer: &mut Writer, record: Record) -> pool::Result<()> {
    let _ticket = writer.append(&[record], 0)?;
    while let Some(write) = writer.next_write(true) {
        let bytes = buffer(&write.bytes).await;
        vdevs.write(write.at, bytes, WriteClass::Journal).await?;
        writer.written(write.sequence);
    }
    Ok(())
}

/// Appends, writes and flushes until something fails. Counts acknowledged batches in `durable`.
async fn write_on(vdevs: &Vdevs, start: Start, life: u64, from: u64, durable: &Cell<u64>) {
    let mut writer = Writer::new(vdevs.ring(), start, start, Incarnation(life), Birth(1));
    for number in from.. {
        let size = 8 + (number as usize * 977) % 4000;
        let put = put_batch(vdevs, &mut writer, record(number, size));
        if put.await.is_err() {
            return;
        }
        let flush = writer.begin_flush().expect("something was written");
        if vdevs.flush().await.is_err() {
            return;
        }
        writer.flushed(flush);
        durable.set(number);
    }
}

#[test]
fn acknowledged_batches_are_replayed_after_many_crashes() {
    let mut degraded = 0;
    for seed in 0..60 {
        degraded += run(seed, async move {
            let (node, disks) = machine(3);
            let start = on(node, async {
                let opened = make(&[&[0, 1], &[2]]).await.expect("made");
                opened.uberblock.journal
            });
            let start = start.await.expect("it has power");
            let durable = Rc::new(Cell::new(0));
            for life in 1..6 {
                let rate = if seed % 3 == 0 { 0.0 } else { 0.02 };
                disks[(seed % 2) as usize].error_rates(0.0, rate, rate);
                let durable = durable.clone();
                let floor = durable.get();
                let work = node.spawn(async move {
                    let vdevs = import(&[0, 1, 2]).await.expect("it opens").vdevs;
                    let replayed = replay(&vdevs, &vdevs.ring(), start)
                        .await
                        .expect("it is sound");
                    let records = replayed.batches.iter().flat_map(|b| &b.records);
                    let found: Vec<u64> = records.map(number).collect();
                    assert!(
                        found.iter().copied().eq(1..=found.len() as u64),
                        "{found:?}"
                    );
                    assert!(found.len() as u64 >= floor, "{} of {floor}", found.len());
                    let next = found.len() as u64 + 1;
                    write_on(&vdevs, replayed.head, life, next, &durable).await;
                });
                node.power_cut_after(150 + (seed * 37 + life * 91) % 900);
                work.await;
                node.power_cut();
                disks.iter().for_each(|d| d.heal());
                node.power_on();
            }
            let degraded = on(node, async {
                let vdevs = import(&[0, 1, 2]).await.expect("it opens").vdevs;
                vdevs.status()[0]
                    .members
                    .iter()
                    .any(|s| s.state != MemberState::Online)
            });
            u32::from(degraded.await.expect("it has power"))
        });
    }
    assert!((10..50).contains(&degraded), "{degraded} lost a member");
}

/// A member leaves with a batch that the others gave up. When it returns, the batch must not be replayed.
#[test]
fn a_batch_that_only_a_stale_member_has_is_not_replayed() {
    run(1, async {
        let (node, disks) = machine(2);
        on(node, async move {
            let opened = make(&[&[0, 1]]).await.expect("made");
            let (vdevs, start) = (opened.vdevs, opened.uberblock.journal);
            let mut writer = Writer::new(vdevs.ring(), start, start, Incarnation(1), Birth(1));
            writer.append(&[record(1, 8)], 0).expect("room");
            let first = writer.next_write(true).expect("a batch");
            // Member 1 is out before; the batch still reaches its disk, and only that.
            let last = vdevs.table()[0].size - 4096;
            disks[1].fail_writes(DATA_START + last..DATA_START + last + 4096);
            let at = pool::format::Address {
                offset: pool::format::VdevOffset(last),
                ..first.at
            };
            vdevs
                .write(at, buffer(&[0; 4096]).await, WriteClass::Data)
                .await
                .expect("member 0 has it");
            let _stable = vdevs.flush().await.expect("flushed");
            disks[0].drop_next_write();
            vdevs
                .write(first.at, buffer(&first.bytes).await, WriteClass::Journal)
                .await
                .expect("it says so");
            assert_eq!(vdevs.status()[0].members[1].state, MemberState::Stale);
            drop(vdevs);
            let vdevs = import(&[0, 1]).await.expect("it opens").vdevs;
            let replayed = replay(&vdevs, &vdevs.ring(), start)
                .await
                .expect("it is sound");
            assert_eq!(
                (replayed.batches.len(), replayed.head.sequence),
                (0, Sequence(1))
            );
        })
        .await
    });
}
