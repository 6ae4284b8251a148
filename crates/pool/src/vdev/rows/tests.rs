//! Tests of the places of a raidz: none overlap, and ranges lie where their units lie.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::Rows;
use crate::format::{Expansion, JournalLayout, VdevClass, VdevEntry, VdevGuid, VdevKind};
use crate::vdev::geometry::DATA_START;

const UNIT: u64 = 4096;

fn rows(members: u16, parity: u8, segments: u32) -> Rows {
    let entry = VdevEntry {
        guid: VdevGuid(1),
        kind: VdevKind::Raidz { parity },
        ashift: 12,
        members,
        first_members: 0,
        expansion: None,
        has_journal: segments > 0,
        data_size: 8 << 20,
        is_removed: false,
        class: VdevClass::Normal,
    };
    let journal = JournalLayout {
        segment_size: 64 << 10,
        segments,
    };
    Rows::of(&entry, journal).expect("it has rows")
}

/// The members and offsets that have a unit behind the journal.
fn places(rows: &Rows, at: u64, len: u64, most: u64) -> Vec<(usize, u64)> {
    let mut places = Vec::new();
    for band in rows.bands(at, len, most) {
        let data = band.data();
        for number in 0..band.units {
            let index = band.first + number;
            let (row, column) = (index / data, index % data);
            assert!(band.rows_of(column).contains(&row));
            assert_eq!(band.unit(row, column), Some(number));
            assert_eq!(
                band.at + index as u64 * UNIT,
                at + places.len() as u64 * UNIT
            );
            places.push((band.member(column), band.offset + row as u64 * UNIT));
        }
    }
    places
}

proptest! {
    /// Each place of a member is that of one unit, of one parity, or of one copy of the journal; the copies of a range, and
    /// the units of a row, are on different members.
    #[test]
    fn no_two_places_overlap(parity in 1..=3_u8, data in 1..=13_u16, segments in 0..9_u32, size in 40..700_u64) {
        let members = data + u16::from(parity);
        let rows = rows(members, parity, segments);
        let size = rows.copies_size + size * UNIT;
        let (end, journal) = (rows.end(size), rows.journal.size());
        let mut taken = BTreeSet::new();
        let mut take = |member: usize, offset: u64| {
            let offset = offset - DATA_START;
            assert!(offset + UNIT <= size && member < usize::from(members));
            assert!(taken.insert((member, offset)), "member {member}, offset {offset}");
        };
        for at in (0..journal).step_by(UNIT as usize) {
            let copies: Vec<_> = rows.copies(at).collect();
            let different: BTreeSet<_> = copies.iter().map(|(member, _)| member).collect();
            assert_eq!(different.len(), usize::from(parity) + 1);
            copies.into_iter().for_each(|(member, offset)| take(member, offset));
        }
        let mut units = 0;
        for band in rows.bands(journal, end - journal, u64::MAX >> 8) {
            units += band.units as u64;
            for column in 0..usize::from(members) {
                assert_eq!(band.column(band.member(column)), Some(column));
                for row in 0..band.rows as u64 {
                    take(band.member(column), band.offset + row * UNIT);
                }
            }
        }
        assert_eq!(units * UNIT, end - journal);
        assert!(end - journal >= 40 * rows.row_size(), "each row is used");
    }

    /// A unit has the same place in every range, however it is cut.
    #[test]
    fn a_range_lies_where_its_units_lie(
        parity in 1..=3_u8, data in 1..=13_u16, row in 0..600_u64, skip in 0..13_u64, len in 1..60_u64, most in 1..9_u64,
    ) {
        let rows = rows(data + u16::from(parity), parity, 3);
        let at = rows.journal.size() + row * rows.row_size() + skip % u64::from(data) * UNIT;
        let alone: Vec<_> = (0..len).flat_map(|n| places(&rows, at + n * UNIT, UNIT, 1)).collect();
        assert_eq!(places(&rows, at, len * UNIT, u64::MAX >> 8), alone);
        assert_eq!(places(&rows, at, len * UNIT, most), alone);
    }

    /// The whole rows of a range are inside it, and less than a row is missing at each end.
    #[test]
    fn whole_rows_are_inside(at in 0..900_u64, len in 0..200_u64) {
        let rows = rows(7, 2, 3);
        let (at, len) = (at * UNIT, len * UNIT);
        for (start, size) in rows.whole_rows(at, len) {
            assert!(start >= at && size % rows.row_size() == 0 && size > 0);
            assert!(rows.is_writable(start, size) && !rows.is_journal(start));
            assert!(start + size <= at + len && at + len - (start + size) < rows.row_size());
        }
    }

    /// During an expansion, a range lies where its units lie; the whole rows of a range have one width each, and none is in a scratch
    /// area.
    #[test]
    fn an_expansion_has_rows_of_two_widths(
        parity in 1..=3_u8, data in 1..=12_u16, position in 0..500_u64, has_scratch in any::<bool>(), at in 0..900_u64, len in 1..300_u64,
        most in 1..9_u64,
    ) {
        let expansion = Expansion { position, has_scratch: has_scratch && position > 0 };
        let rows = rows(data + u16::from(parity), parity, 3).with_member().at(Some(expansion));
        let (at, len) = (rows.start() + at * UNIT, len * UNIT);
        let alone: Vec<_> = (at..at + len).step_by(UNIT as usize).flat_map(|at| places(&rows, at, UNIT, 1)).collect();
        assert_eq!(places(&rows, at, len, most), alone);
        let narrow = rows.address_of(position);
        for unit in (at..at + len).step_by(UNIT as usize) {
            let (start, end) = (rows.start_of_row(unit), rows.end_of_row(unit));
            assert!((start..end).contains(&unit));
            assert_eq!(start < narrow, unit < narrow);
            assert!((start..end).step_by(UNIT as usize).all(|other| rows.start_of_row(other) == start));
            let bands = rows.bands(unit, UNIT, 1);
            assert_eq!(bands[0].address(0), start);
        }
        let scratch = expansion.scratch_rows(UNIT as u32);
        for (start, size) in rows.whole_rows(at, len) {
            assert!(start >= at && start + size <= at + len && size > 0);
            assert!(rows.is_writable(start, size));
            assert_eq!(start < narrow, start + size <= narrow, "rows of one width");
            let in_scratch = rows.address_of(scratch.start)..rows.address_of(scratch.end);
            assert!(start >= in_scratch.end || start + size <= in_scratch.start || scratch.is_empty());
        }
    }
}
