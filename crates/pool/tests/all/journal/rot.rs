//! Rot: a lost durable batch is reported, never skipped; one member repairs the other.

use pool::Error;
use pool::format::{Birth, Incarnation, Record, Sequence};
use pool::journal::{Store, Writer, replay};

use crate::journal::disk::{Mirror, SECTOR, commit, now, ring};

/// Writes seven batches of a sector each. Later batches record each of them but the last as durable.
fn written(members: usize) -> Mirror {
    let disk = Mirror::new(members);
    let ring = ring(4, 2 << 10);
    let start = ring.start();
    let mut writer = Writer::new(ring, start, start, Incarnation(1), Birth(1));
    for n in 0..7 {
        commit(&mut writer, [n; 8], |write| {
            now(disk.write(write.at, &write.bytes)).expect("a good disk");
        });
    }
    disk
}

/// Offset of batch number `batch`: three batches fit behind a segment's header.
fn place(batch: usize) -> usize {
    batch / 3 * (2 << 10) + (1 + batch % 3) * SECTOR
}

#[test]
fn a_durable_batch_that_is_damaged_on_every_member_is_reported() {
    let ring = ring(4, 2 << 10);
    for batch in 0..7 {
        let disk = written(2);
        for member in disk.members.borrow_mut().iter_mut() {
            member[place(batch) + 100] ^= 1;
        }
        let result = now(replay(&disk, &ring, ring.start()));
        if batch == 6 {
            assert_eq!(
                result.expect("nothing proves it was flushed").batches.len(),
                6
            );
            continue;
        }
        let error = result.expect_err("a durable batch is gone");
        let Error::JournalCorrupt { sequence, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(sequence, Sequence(batch as u64 + 1));
    }
}

#[test]
fn one_member_repairs_the_other() {
    let ring = ring(4, 2 << 10);
    for batch in 0..7 {
        let disk = written(2);
        disk.members.borrow_mut()[batch % 2][place(batch) + 100] ^= 1;
        let replayed = now(replay(&disk, &ring, ring.start())).expect("a member has it");
        assert_eq!((replayed.batches.len(), replayed.repaired), (7, 1));
        let again = now(replay(&disk, &ring, ring.start())).expect("both have it");
        assert_eq!((again.batches.len(), again.repaired), (7, 0));
    }
}

/// The first batch of an incarnation is lost, the second is intact. The next incarnation writes an identical first batch.
#[test]
fn a_batch_of_an_earlier_incarnation_never_follows_an_equal_one_of_a_later() {
    let ring = ring(4, 2 << 10);
    let disk = Mirror::new(1);
    let start = ring.start();
    for (life, batches) in [(1, 2), (2, 1)] {
        let mut writer = Writer::new(ring.clone(), start, start, Incarnation(life), Birth(1));
        for n in 0..batches {
            let record = Record::State(vec![n; 8].into());
            writer.append(&[record], 0).expect("room");
            let write = writer.next_write(true).expect("a batch");
            if (life, n) != (1, 0) {
                now(disk.write(write.at, &write.bytes)).expect("a good disk");
            }
        }
        let replayed = now(replay(&disk, &ring, start)).expect("nothing is rotten");
        assert_eq!(replayed.batches.len() as u64, life - 1);
    }
}

/// Regression: the ring is searched to its end for proof of a loss; each batch and each sector was read by itself.
#[test]
fn a_segment_is_read_at_once() {
    let ring = ring(4, 16 << 10);
    let start = ring.start();
    let mut writer = Writer::new(ring.clone(), start, start, Incarnation(1), Birth(1));
    let disk = Mirror::new(1);
    for n in 0..20 {
        // Three sectors each.
        let record = Record::State(vec![n; 2 * SECTOR].into());
        writer.append(&[record], 0).expect("room");
        let write = writer.next_write(true).expect("a batch");
        now(disk.write(write.at, &write.bytes)).expect("a good disk");
        writer.written(write.sequence);
    }
    let replayed = now(replay(&disk, &ring, start)).expect("nothing is rotten");
    assert_eq!(replayed.batches.len(), 20);
    // The search reads again from the last batch on.
    assert_eq!(disk.reads.get(), 4 + 1);
}
