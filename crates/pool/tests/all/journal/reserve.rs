//! Reserved appends have room in a ring that is full for all others.

use pool::format::{Birth, Incarnation, Record};
use pool::journal::{Reserve, Writer};

use crate::journal::disk::{Random, ring};

/// Most bytes of a reserved append. In sectors of 512 bytes, its batch has three of them.
const RESERVED: usize = 1200;
/// Most bytes of another append.
const OTHER: u64 = 3000;

/// A change of this number of bytes.
fn change(bytes: usize) -> Vec<Record> {
    let header = Record::State([].into()).size();
    vec![Record::State(vec![7; bytes - header].into())]
}

/// Seals the open batch, and writes all batches.
fn write_all(writer: &mut Writer) {
    while let Some(write) = writer.next_write(true) {
        writer.written(write.sequence);
    }
}

#[test]
fn reserved_appends_have_room_in_a_full_ring() {
    let mut reserved = 0;
    for seed in 1..500 {
        let mut random = Random(seed);
        let ring = ring(4 + random.below(4), 4096 << random.below(3));
        let start = ring.start();
        let mut writer = Writer::new(ring, start, start, Incarnation(1), Birth(1));
        let mut failed = 0;
        while failed < 50 {
            if random.below(4) == 0 {
                let more = Reserve {
                    appends: 1 + random.below(3) as usize,
                    bytes: RESERVED,
                };
                let reserve = writer.reserve().with(more);
                if writer.may_reserve(reserve, 8) {
                    writer.set_reserve(reserve);
                }
            }
            let bytes = 8 + random.below(OTHER) as usize;
            let has_room = writer.has_room(bytes);
            let appended = writer.append(&change(bytes), 0);
            assert_eq!(appended.is_ok(), has_room, "seed {seed}: {appended:?}");
            failed += u64::from(!has_room);
            if random.below(3) == 0 {
                write_all(&mut writer);
            }
        }
        while writer.reserve().appends > 0 {
            let left = writer.reserve().without(1);
            writer.set_reserve(left);
            let bytes = 8 + random.below(RESERVED as u64 - 8) as usize;
            let appended = writer.append(&change(bytes), 0);
            assert!(appended.is_ok(), "seed {seed}, {left:?}: {appended:?}");
            reserved += 1;
            if random.below(2) == 0 {
                write_all(&mut writer);
            }
        }
    }
    assert!(reserved > 500, "{reserved}");
}
