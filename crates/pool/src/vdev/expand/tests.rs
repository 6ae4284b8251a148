//! Tests of the order of an expansion: no step destroys an address that counts, wherever it is interrupted.

use std::collections::BTreeMap;
use std::ops::Range;

use proptest::prelude::*;

use super::{NextMove, RowsToMove, next_move};
use crate::format::{Expansion, JournalLayout, VdevClass, VdevEntry, VdevGuid, VdevKind};
use crate::vdev::rows::Rows;

/// The address that each place of the members has.
#[derive(Default)]
struct Disks(BTreeMap<(usize, u64), u64>);

impl Disks {
    /// Writes the rows of a range as `rows` place them. Parity has no address.
    fn write(&mut self, rows: &Rows, at: u64, len: u64) {
        let unit = rows.unit() as u64;
        for band in rows.bands(at, len, u64::MAX >> 8) {
            for row in 0..band.rows {
                for column in 0..band.members() {
                    let place = (band.member(column), band.offset + row as u64 * unit);
                    match band.unit(row, column) {
                        Some(_) => {
                            let at = band.at + (row * band.data() + column) as u64 * unit;
                            self.0.insert(place, at)
                        }
                        None => self.0.remove(&place),
                    };
                }
            }
        }
    }

    /// Panics unless all units of these ranges are where `rows` place them.
    fn check(&self, rows: &Rows, kept: &[Range<u64>]) {
        let unit = rows.unit() as u64;
        for range in kept {
            for band in rows.bands(range.start, range.end - range.start, u64::MAX >> 8) {
                for row in 0..band.rows {
                    for column in (0..band.data()).filter(|c| band.unit(row, *c).is_some()) {
                        let at = band.at + (row * band.data() + column) as u64 * unit;
                        let place = (band.member(column), band.offset + row as u64 * unit);
                        assert_eq!(self.0.get(&place), Some(&at), "{:?}", rows.expansion());
                    }
                }
            }
        }
    }
}

fn rows(data: u16, parity: u8, ashift: u8) -> Rows {
    let entry = VdevEntry {
        guid: VdevGuid(1),
        kind: VdevKind::Raidz { parity },
        ashift,
        members: data + u16::from(parity),
        first_members: 0,
        expansion: None,
        has_journal: true,
        data_size: 1 << 30,
        is_removed: false,
        class: VdevClass::Normal,
    };
    let journal = JournalLayout {
        segment_size: 1 << ashift << 1,
        segments: 3,
    };
    Rows::of(&entry, journal).expect("it has rows")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// At each step, and if the power goes when all of it is written and its label is not, each kept address is where the label says. At
    /// the end, all are in rows of the new width.
    #[test]
    fn no_step_destroys_what_counts(
        parity in 1..=3_u8, data in 1..=12_u16, ashift in prop::sample::select(vec![12_u8, 14, 16]), count in 1..500_u64, ends in 1..4_u64,
        holes in prop::collection::vec((0..4000_u64, 1..2000_u64), 0..4),
    ) {
        let narrow = rows(data, parity, ashift);
        let unit = 1_u64 << ashift;
        let data_size = (count + 64) * unit;
        let (start, end) = (narrow.start(), narrow.end(data_size));
        let mut kept: Vec<Range<u64>> = std::iter::once(start..end).collect();
        for (from, len) in holes {
            let hole = start + from * unit..start + (from + len) * unit;
            let cut = |range: Range<u64>| [range.start..range.end.min(hole.start), range.start.max(hole.end)..range.end];
            kept = kept.into_iter().flat_map(cut).filter(|range| range.start < range.end).collect();
        }
        let mut disks = Disks::default();
        disks.write(&narrow, start, end - start);
        let mut now = narrow.with_member();
        let last = now.rows_to_move(data_size);
        let mut steps = 0;
        // the windows of the owner end where an expansion can go on
        for part in 1..=ends {
            let to = last * part / ends;
            if part < ends && now.in_place(to).free_rows().is_empty() {
                continue;
            }
            let mut task = RowsToMove { end: to, kept: kept.clone(), ..RowsToMove::default() };
            // the rest of the last row of the window before counts in any case
            let position = now.address_of(now.expansion().map_or(0, |e| e.position));
            task.kept.insert(0, position..(position + unit).min(end));
            task.kept.retain(|range| range.start < range.end);
            while let Some(next) = next_move(&now, &task) {
                steps += 1;
                let position = now.expansion().expect("it has not ended").position;
                let (range, to, after) = match next {
                    NextMove::Jump { to } => (position..position, now, to),
                    NextMove::FromScratch(range) => (range, now.in_place(position), position),
                    NextMove::ToScratch { to } => (position..to, now.in_scratch(&(position..to)), to),
                    NextMove::InPlace { to } => (position..to, now.in_place(to), to),
                };
                for run in task.rows(&now, &range) {
                    let at = now.address_of(run.start);
                    disks.write(&to, at, now.address_of(run.end) - at);
                }
                let has_scratch = to.expansion().is_some_and(|e| e.has_scratch);
                disks.check(&now, &kept);
                now = now.at(Some(Expansion { position: after, has_scratch }));
                disks.check(&now, &kept);
                assert!(steps < 5000, "it goes on");
            }
            assert_eq!(now.expansion().map(|e| e.position), Some(to), "it came to the end of the window");
        }
        let wide = now.at(None);
        disks.check(&wide, &kept);
        assert!(wide.end(data_size) >= end);
    }
}
