//! When a checkpoint is due: the later, the fewer changes arrive during one; and how many changes may arrive meanwhile.

use pool::format::{Birth, Incarnation, Sequence};
use pool::journal::{Pressure, Writer};

use crate::journal::disk::{commit, ring};

/// Segments of the ring. Each has room for a header and three batches.
const SEGMENTS: u64 = 100;
const BATCHES: u64 = 3 * SEGMENTS;

fn writer() -> Writer {
    let ring = ring(SEGMENTS, 2 << 10);
    let start = ring.start();
    Writer::new(ring, start, start, Incarnation(1), Birth(1))
}

/// Appends one batch and makes it durable.
fn put(writer: &mut Writer) -> Sequence {
    commit(writer, [1; 8], |_| ())
}

/// Appends until a checkpoint is due. Returns the number of batches, and the last one.
fn until_due(writer: &mut Writer) -> (u64, Sequence) {
    let mut batches = 0;
    loop {
        let last = put(writer);
        batches += 1;
        if writer.pressure() >= Pressure::Checkpoint {
            assert_eq!(
                writer.pressure(),
                Pressure::Checkpoint,
                "writers wait already"
            );
            return (batches, last);
        }
    }
}

/// Ends a checkpoint of all batches up to `up_to`, after `meanwhile` batches were appended during it.
fn checkpoint(writer: &mut Writer, up_to: Sequence, meanwhile: u64) {
    for _ in 0..meanwhile {
        put(writer);
    }
    let start = writer.start_after(up_to).expect("it is durable");
    writer.release(start);
}

#[test]
fn a_checkpoint_is_due_as_late_as_the_changes_during_it_permit() {
    let mut writer = writer();
    let (unknown, last) = until_due(&mut writer);
    assert_eq!(unknown, BATCHES / 2, "half, before anything is known");
    checkpoint(&mut writer, last, 0);
    let (quiet, last) = until_due(&mut writer);
    assert!(
        quiet > BATCHES * 7 / 10 && quiet < BATCHES * 8 / 10,
        "{quiet}"
    );
    let meanwhile = BATCHES / 10;
    checkpoint(&mut writer, last, meanwhile);
    let (some, last) = until_due(&mut writer);
    let used = some + meanwhile;
    assert!(used > BATCHES * 6 / 10 && used < quiet, "{used}");
    let meanwhile = BATCHES / 4;
    checkpoint(&mut writer, last, meanwhile);
    let (busy, _) = until_due(&mut writer);
    let used = busy + meanwhile;
    assert!(used <= BATCHES / 2 + 3, "{used}");
}

/// Appends until writers must wait. Returns the number of batches.
fn until_slow(writer: &mut Writer) -> u64 {
    let mut batches = 0;
    while writer.pressure() < Pressure::Slow {
        put(writer);
        batches += 1;
    }
    batches
}

#[test]
fn the_free_part_of_the_ring_lasts_until_the_checkpoint_ends() {
    let mut writer = writer();
    until_due(&mut writer);
    writer.begin_checkpoint();
    let at_once = until_slow(&mut writer);
    writer.set_parts_left(128);
    let halfway = until_slow(&mut writer);
    writer.set_parts_left(0);
    let ended = until_slow(&mut writer);
    let left = BATCHES * 35 / 100;
    let is_about = |batches: u64, part: u64| batches.abs_diff(left / part) <= 3;
    assert!(is_about(at_once, 2), "{at_once} of {left}");
    assert!(is_about(halfway, 4), "{halfway} of {left}");
    assert!(is_about(ended, 4), "{ended} of {left}");
}
