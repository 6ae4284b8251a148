//! Power cuts of a raidz while groups and batches are written, with members whose writes fail, and which are lost or rot afterwards:
//! acknowledged batches are replayed, and all blocks of a replayed batch are readable.

use std::cell::Cell;
use std::rc::Rc;

use futures_util::future::join;
use io::rng;
use pool::WriteClass;
use pool::format::{Birth, BlockPtr, Incarnation, Key, Kind, ObjectId, Record, TreeId};
use pool::journal::{Replayed, Start, Writer, replay};
use pool::vdev::{DATA_START, MemberState, OpenOptions, SetupError, Vdevs, open};

use crate::vdev::raidz::{Group, bytes_of, look, make_raidz, states};
use crate::vdev::world::{BLOCK, DISK_SIZE, buffer, find, host, machine, on, run};

const SHAPES: [(usize, u8); 4] = [(3, 1), (4, 2), (5, 2), (6, 3)];

fn pointers(replayed: &Replayed) -> Vec<BlockPtr> {
    let records = replayed.batches.iter().flat_map(|b| &b.records);
    records.filter_map(Record::fresh).copied().collect()
}

/// The first row behind all blocks.
fn next_row(vdevs: &Vdevs, ptrs: &[BlockPtr], data: u64) -> u64 {
    let first = vdevs.table()[0].first_free.0;
    let ends = ptrs
        .iter()
        .map(|p| p.offset.0 + u64::from(p.physical_size) - first);
    ends.max().unwrap_or(0).div_ceil(data * BLOCK as u64)
}

/// Replays, and reads every block of the replayed batches. Returns them.
async fn recover(vdevs: &Vdevs, start: Start, acknowledged: u64) -> (Start, u64, Vec<BlockPtr>) {
    let replayed = replay(vdevs, &vdevs.ring(), start)
        .await
        .expect("it is sound");
    let batches = replayed.batches.len() as u64;
    assert!(batches >= acknowledged, "{batches} of {acknowledged}");
    let ptrs = pointers(&replayed);
    for ptr in &ptrs {
        let sectors = u64::from(ptr.physical_size) / BLOCK as u64;
        let want = bytes_of(ptr.offset.0, sectors, (ptr.birth.0 - 1) as u8);
        let read = vdevs.read(ptr).await;
        let read = read.unwrap_or_else(|e| panic!("a block of a replayed batch: {e}"));
        assert!(read[..] == want[..], "other bytes at {}", ptr.address());
    }
    (replayed.head, batches, ptrs)
}

/// Writes groups and their batches at the same time, and flushes, until something fails.
async fn write_on(
    vdevs: &Vdevs,
    head: Start,
    mut row: u64,
    (life, batches, data): (u64, u64, u64),
    acknowledged: &Cell<u64>,
) {
    let mut writer = Writer::new(vdevs.ring(), head, head, Incarnation(life), Birth(1));
    for number in batches + 1.. {
        let blocks: Vec<u64> = (0..1 + rng::u64() % 5)
            .map(|_| 1 + rng::u64() % 6)
            .collect();
        let rows = blocks.iter().sum::<u64>().div_ceil(data);
        let version = life as u8;
        let group = Group {
            row,
            blocks,
            version,
        };
        row += rows;
        let put = |(n, (ptr, _)): (u64, (BlockPtr, Vec<u8>))| {
            let key = Key::new(ObjectId(1), Kind(1), number * 100 + n);
            Record::PutFresh(TreeId(16), key, ptr.into())
        };
        let records: Vec<_> = (0..).zip(group.blocks(vdevs, data)).map(put).collect();
        let Ok(ticket) = writer.append(&records, 1) else {
            return;
        };
        let batch = writer.next_write(true).expect("a batch");
        let bytes = buffer(&batch.bytes).await;
        let batch_write = vdevs.write(batch.at, bytes, WriteClass::Journal);
        let (data_written, written) = join(group.put(vdevs, data), batch_write).await;
        if data_written.is_err() || written.is_err() {
            return;
        }
        writer.written(batch.sequence);
        writer.data_written(ticket);
        let flush = writer.begin_flush().expect("something was written");
        if vdevs.flush().await.is_err() {
            return;
        }
        writer.flushed(flush);
        acknowledged.set(number);
    }
}

/// Loses members, and lets one more rot if parity suffices. Returns whether the pool had enough members to check it.
async fn lose_members(members: usize, parity: usize, start: Start, acknowledged: u64) -> bool {
    let first = (rng::u64() % members as u64) as usize;
    let without: Vec<usize> = (0..parity).map(|n| (first + n) % members).collect();
    match look(members, &without).await {
        Ok(opened) => {
            recover(&opened.vdevs, start, acknowledged).await;
            true
        }
        // A member that failed writes is out, too.
        Err(SetupError::VdevMissing { .. }) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn nothing_acknowledged_is_lost_in_power_cuts_with_lost_members() {
    let (mut checked, mut torn) = (0, 0);
    for seed in 0..24 {
        let (members, parity) = SHAPES[seed as usize % SHAPES.len()];
        let (was_checked, gave_up) = run(seed, async move {
            let (node, disks) = machine(members);
            let data = (members - usize::from(parity)) as u64;
            let start = on(node, async move {
                make_raidz(members, parity).await.uberblock.journal
            });
            let start = start.await.expect("it has power");
            let acknowledged = Rc::new(Cell::new(0));
            let given_up = Rc::new(Cell::new(0));
            for life in 1..5 {
                let rate = if seed % 3 == 0 { 0.0 } else { 0.01 };
                disks[seed as usize % members].error_rates(0.0, rate, rate);
                let (acknowledged, given_up) = (acknowledged.clone(), given_up.clone());
                let work = node.spawn(async move {
                    let all: Vec<usize> = (0..members).collect();
                    let found = find(&all).await.expect("a pool");
                    let opened = open(found, OpenOptions::new(host())).await;
                    let vdevs = opened.expect("it opens").vdevs;
                    let (head, batches, ptrs) = recover(&vdevs, start, acknowledged.get()).await;
                    given_up.set(given_up.get() + u64::from(batches > acknowledged.get()));
                    let row = next_row(&vdevs, &ptrs, data);
                    write_on(&vdevs, head, row, (life, batches, data), &acknowledged).await;
                });
                node.power_cut_after(400 + (seed * 37 + life * 91) % 3000);
                work.await;
                node.power_cut();
                disks.iter().for_each(|disk| disk.heal());
                node.power_on();
            }
            let acknowledged = acknowledged.get();
            let checked = on(node, async move {
                let checked = lose_members(members, parity.into(), start, acknowledged).await;
                // A member that is not lost lies about everything. One that missed writes is as good as lost.
                let whole = look(members, &[]).await.expect("all members are there");
                let in_pool = states(&whole.vdevs, MemberState::Online);
                drop(whole);
                if parity > 1 && in_pool == members {
                    disks[0].rot(DATA_START..DISK_SIZE - (512 << 10));
                    let without: Vec<usize> = (1..usize::from(parity)).collect();
                    let opened = look(members, &without)
                        .await
                        .expect("enough members are in");
                    recover(&opened.vdevs, start, acknowledged).await;
                }
                checked
            });
            (checked.await.expect("it has power"), given_up.get())
        });
        checked += u32::from(was_checked);
        torn += gave_up;
    }
    assert!(checked > 5, "{checked} seeds had enough members");
    assert!(torn > 2, "{torn} lives replayed more than was acknowledged");
}
