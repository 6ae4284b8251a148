//! Places of a raidz: where its addresses lie on members.
//!
//! **Owns** the mapping of addresses to rows, columns and members, to the scratch areas of an expansion, and to the copies of the
//! journal's segments. **Called by** vdevs with that layout. **Invariants**: an address of a row has one place; the copies of
//! a segment are on different members; the places of rows, parity and copies do not overlap, but for places that an expansion has left.
//! Pure. `docs/decisions/0152`, `0166`.

use std::ops::Range;

use super::geometry::{DATA_START, SCRATCH_START};
use crate::format::{Expansion, JournalLayout, SCRATCH_AREA_SIZE, VdevEntry, VdevKind, VdevOffset};

/// Rows whose columns are on the same members.
const BAND_ROWS: u64 = 256;

/// The rows of a vdev that an expansion has not reached yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NarrowRows {
    /// Sectors of data of such a row.
    pub row: u32,
    /// Addresses below this one are in wide rows that are in their places.
    pub in_place: VdevOffset,
    /// Addresses from this one on are in narrow rows.
    pub from: VdevOffset,
}

/// The places of a raidz. During an expansion, rows have two widths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    members: usize,
    parity: usize,
    /// Bytes of a unit: one sector.
    unit: u64,
    /// The journal at the start of the addresses. It has no segments on a vdev without a part of it.
    journal: JournalLayout,
    /// Members with copies of the journal: the first ones.
    journal_members: u64,
    /// Bytes of the journal's copies on each member.
    copies_size: u64,
    /// Rows below the position have a unit on each member; others have none on the last one.
    expansion: Option<Expansion>,
}

/// Rows of a range that are in one band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Band {
    /// Address of the first row.
    pub(super) at: u64,
    /// Columns are shifted by this number of members.
    shift: usize,
    /// Number of members that have a unit of each row.
    members: usize,
    /// Number of data columns.
    data: usize,
    unit: u64,
    /// Addresses below this one are in other rows. Only the row with the position of an expansion has such addresses.
    least: u64,
    /// Offset of the first row's unit on each member's disk, bytes.
    pub(super) offset: u64,
    /// Number of rows.
    pub(super) rows: usize,
    /// First unit of the range in the data of the first row, and number of units of the range in these rows.
    pub(super) first: usize,
    pub(super) units: usize,
}

impl Band {
    /// The member that has a column: data columns first, then parity.
    pub(super) fn member(&self, column: usize) -> usize {
        (column + self.shift) % self.members
    }

    /// The column that a member has; `None` if it has none.
    pub(super) fn column(&self, member: usize) -> Option<usize> {
        (member < self.members).then(|| (member + self.members - self.shift) % self.members)
    }

    /// Number of columns.
    pub(super) fn members(&self) -> usize {
        self.members
    }

    /// Number of data columns.
    pub(super) fn data(&self) -> usize {
        self.data
    }

    /// The lowest address in a row.
    pub(super) fn address(&self, row: usize) -> u64 {
        let start = self.at + row as u64 * self.data as u64 * self.unit;
        start.max(self.least)
    }

    /// The rows of a column in which the range has a unit. Empty if it has none.
    pub(super) fn rows_of(&self, column: usize) -> Range<usize> {
        let start = usize::from(column < self.first);
        let behind = (self.first + self.units).saturating_sub(column);
        start..behind.div_ceil(self.data).max(start)
    }

    /// The number of a unit in the range, by its row and column; `None` if it is not in the range.
    pub(super) fn unit(&self, row: usize, column: usize) -> Option<usize> {
        let number = (row * self.data + column).checked_sub(self.first)?;
        (column < self.data && number < self.units).then_some(number)
    }
}

impl Rows {
    /// The places of a vdev; `None` if it has no rows.
    pub(super) fn of(entry: &VdevEntry, journal: JournalLayout) -> Option<Self> {
        let VdevKind::Raidz { parity } = entry.kind else {
            return None;
        };
        let segments = if entry.has_journal {
            journal.segments
        } else {
            0
        };
        Some(Self {
            members: entry.members.into(),
            parity: parity.into(),
            unit: entry.sector().into(),
            journal: JournalLayout {
                segments,
                ..journal
            },
            journal_members: entry.journal_members().into(),
            copies_size: journal.size_on_member(entry),
            expansion: entry.expansion,
        })
    }

    /// The places with one member more, of which no row has a unit yet.
    pub(super) fn with_member(self) -> Self {
        Self {
            members: self.members + 1,
            expansion: Some(Expansion::default()),
            ..self
        }
    }

    /// The places at another state of the expansion; `None` when it has ended.
    pub(super) fn at(self, expansion: Option<Expansion>) -> Self {
        Self { expansion, ..self }
    }

    /// The expansion in progress.
    pub(super) fn expansion(&self) -> Option<Expansion> {
        self.expansion
    }

    /// Number of members that the vdev was created with, if it was expanded since; else zero.
    pub(super) fn first_members(&self) -> u16 {
        match self.journal_members as usize == self.members {
            true => 0,
            false => self.journal_members as u16,
        }
    }

    /// Number of members.
    pub(super) fn members(&self) -> usize {
        self.members
    }

    /// Number of parity columns.
    pub(super) fn parity(&self) -> usize {
        self.parity
    }

    /// Number of data columns of the widest rows.
    pub(super) fn data(&self) -> usize {
        self.members - self.parity
    }

    /// Number of data columns of rows that no expansion has reached yet.
    pub(super) fn narrow_data(&self) -> usize {
        self.data() - usize::from(self.expansion.is_some())
    }

    /// Number of data columns at the creation of the vdev.
    pub(super) fn first_data(&self) -> usize {
        self.journal_members as usize - self.parity
    }

    /// Bytes of a unit.
    pub(super) fn unit(&self) -> usize {
        self.unit as usize
    }

    /// Bytes of data of the widest rows.
    pub(super) fn row_size(&self) -> u64 {
        self.data() as u64 * self.unit
    }

    /// Address of the first row.
    pub(super) fn start(&self) -> u64 {
        self.journal.size()
    }

    /// Number of rows, if each member has `data_size` bytes.
    fn count(&self, data_size: u64) -> u64 {
        data_size.saturating_sub(self.copies_size) / self.unit
    }

    /// The end of the addresses, if each member has `data_size` bytes. The rows that an expansion gains count when it has ended.
    pub(super) fn end(&self, data_size: u64) -> u64 {
        let row = self.narrow_data() as u64 * self.unit;
        self.start() + self.count(data_size) * row
    }

    /// Number of the widest rows that take all addresses, if each member has `data_size` bytes.
    pub(super) fn rows_to_move(&self, data_size: u64) -> u64 {
        (self.end(data_size) - self.start()).div_ceil(self.row_size())
    }

    /// The rows from the position of an expansion on, as wide as the vdev, that may be written in their places: they overlap only rows
    /// whose addresses are below the position. Empty if there is no expansion.
    pub(super) fn free_rows(&self) -> Range<u64> {
        let Some(expansion) = self.expansion else {
            return 0..0;
        };
        let units = u128::from(expansion.position) * self.data() as u128;
        let end = (units / self.narrow_data() as u128) as u64;
        expansion.position..end
    }

    /// The rows that an expansion has not reached, for the allocator.
    pub(super) fn narrow(&self) -> Option<NarrowRows> {
        let expansion = self.expansion?;
        let scratch = expansion.scratch_rows(self.unit as u32);
        Some(NarrowRows {
            row: self.narrow_data() as u32,
            in_place: VdevOffset(self.address_of(scratch.start)),
            from: VdevOffset(self.address_of(expansion.position)),
        })
    }

    /// The address behind the widest rows up to a number.
    pub(super) fn address_of(&self, row: u64) -> u64 {
        self.start() + row * self.row_size()
    }

    /// The number of the widest rows that end at or below an address behind the journal.
    pub(super) fn rows_below(&self, at: u64) -> u64 {
        at.saturating_sub(self.start()) / self.row_size()
    }

    /// The address from which on rows are narrow.
    fn narrow_from(&self) -> u64 {
        let position = self.expansion.map(|e| self.address_of(e.position));
        position.unwrap_or(u64::MAX)
    }

    /// Whether an address is in the journal.
    pub(super) fn is_journal(&self, at: u64) -> bool {
        at < self.start()
    }

    /// The members that have a range of the journal, which is in one segment, and the offset on each member's disk, bytes.
    pub(super) fn copies(&self, at: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (size, members) = (u64::from(self.journal.segment_size), self.journal_members);
        let (segment, within) = (at / size, at % size);
        let first = segment * (self.parity as u64 + 1);
        let copies = first..first + self.parity as u64 + 1;
        copies.map(move |copy| {
            let offset = DATA_START + copy / members * size + within;
            ((copy % members) as usize, offset)
        })
    }

    /// Whether a range may be written: it is in one segment of the journal, or begins with a row.
    pub(super) fn is_writable(&self, at: u64, len: u64) -> bool {
        if self.is_journal(at) {
            let size = u64::from(self.journal.segment_size);
            return at % size + len <= size;
        }
        let (row, _) = self.shape(at);
        (at - self.start()).is_multiple_of(row) && !self.crosses(at, len)
    }

    /// Whether a range has rows of both widths.
    fn crosses(&self, at: u64, len: u64) -> bool {
        let narrow = self.narrow_from();
        at < narrow && narrow < at + len
    }

    /// Bytes of data of the row that has an address, and the lowest address of rows of this width.
    fn shape(&self, at: u64) -> (u64, u64) {
        let narrow = self.narrow_from();
        match at < narrow {
            true => (self.row_size(), 0),
            false => (self.narrow_data() as u64 * self.unit, narrow),
        }
    }

    /// Bytes of data of the row that has an address behind the journal.
    pub(super) fn row_size_at(&self, at: u64) -> u64 {
        self.shape(at).0
    }

    /// The lowest address of the row that has an address behind the journal. It names the row.
    pub(super) fn start_of_row(&self, at: u64) -> u64 {
        let (row, least) = self.shape(at);
        let start = self.start() + (at - self.start()) / row * row;
        start.max(least)
    }

    /// The address behind the row that has an address behind the journal.
    pub(super) fn end_of_row(&self, at: u64) -> u64 {
        let (row, _) = self.shape(at);
        self.start() + ((at - self.start()) / row + 1) * row
    }

    /// The whole rows in a range behind the journal: the rows of one width that lie together, without rows in scratch areas.
    pub(super) fn whole_rows(&self, at: u64, len: u64) -> Vec<(u64, u64)> {
        let (start, end) = (self.start(), at + len);
        let narrow = self.narrow_from();
        let mut found = Vec::new();
        let scratch = self.expansion.map(|e| e.scratch_rows(self.unit as u32));
        let scratch = scratch.filter(|rows| !rows.is_empty());
        let wide_end = scratch.map_or(narrow, |rows| self.address_of(rows.start));
        let narrow_row = self.narrow_data() as u64 * self.unit;
        let parts = [
            (at.max(start), end.min(wide_end), self.row_size()),
            (at.max(start).max(narrow), end, narrow_row),
        ];
        for (from, to, row) in parts.into_iter().filter(|(from, to, _)| from < to) {
            let first = (from - start).next_multiple_of(row);
            let behind = (to - start) / row * row;
            if first < behind {
                found.push((start + first, behind - first));
            }
        }
        found
    }

    /// The rows of a range of whole units behind the journal, by band, and at most `most` rows in one.
    pub(super) fn bands(&self, at: u64, len: u64, most: u64) -> Vec<Band> {
        let first = (at - self.start()) / self.unit;
        let end = first + len / self.unit;
        let narrow = match self.expansion {
            Some(expansion) => expansion.position * self.data() as u64,
            None => u64::MAX,
        };
        let mut bands = Vec::new();
        self.add_bands(first..end.min(narrow), (self.members, 0), most, &mut bands);
        if self.expansion.is_some() {
            let units = first.max(narrow)..end;
            self.add_bands(units, (self.members - 1, narrow), most, &mut bands);
        }
        bands
    }

    /// Adds the bands of units in rows of `members` members, whose first unit is `least`.
    fn add_bands(
        &self,
        units: Range<u64>,
        (members, least): (usize, u64),
        most: u64,
        bands: &mut Vec<Band>,
    ) {
        let data = (members - self.parity) as u64;
        let is_wide = members == self.members;
        let scratch = self.expansion.filter(|_| is_wide);
        let scratch = scratch.map_or(0..0, |e| e.scratch_rows(self.unit as u32));
        let in_area = SCRATCH_AREA_SIZE / self.unit;
        let mut first = units.start;
        while first < units.end {
            let row = first / data;
            let band = row / BAND_ROWS;
            let mut last = ((band + 1) * BAND_ROWS).min(row + most.max(1));
            let mut offset = DATA_START + self.copies_size + row * self.unit;
            if scratch.contains(&row) {
                offset = SCRATCH_START + row % in_area * self.unit;
                last = last.min(scratch.end);
            } else if row < scratch.start {
                last = last.min(scratch.start);
            }
            let behind = (last * data).min(units.end);
            bands.push(Band {
                at: self.start() + row * data * self.unit,
                shift: (band % members as u64) as usize,
                members,
                data: data as usize,
                unit: self.unit,
                least: self.start() + least * self.unit,
                offset,
                rows: (behind.div_ceil(data) - row) as usize,
                first: (first % data) as usize,
                units: (behind - first) as usize,
            });
            first = behind;
        }
    }

    /// The places of the widest rows in the scratch areas, in any state of the expansion.
    pub(super) fn in_scratch(self, rows: &Range<u64>) -> Self {
        self.at(Some(Expansion {
            position: rows.end,
            has_scratch: true,
        }))
    }

    /// The places of the widest rows up to a number, outside of scratch areas.
    pub(super) fn in_place(self, end: u64) -> Self {
        self.at(Some(Expansion {
            position: end,
            has_scratch: false,
        }))
    }
}

#[cfg(test)]
mod tests;
