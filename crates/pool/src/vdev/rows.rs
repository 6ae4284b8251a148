//! Places of a raidz: where its addresses lie on members.
//!
//! **Owns** the mapping of addresses to rows, columns and members, and to the copies of the journal's segments. **Called by**
//! vdevs with that layout. **Invariants**: an address of a row has one place; the copies of a segment are on different
//! members; the places of rows, parity and copies do not overlap. Pure. `docs/decisions/0152`.

use std::ops::Range;

use crate::format::{JournalLayout, VdevEntry, VdevKind};

/// Rows whose columns are on the same members.
const BAND_ROWS: u64 = 256;

/// The places of a raidz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    members: usize,
    parity: usize,
    /// Bytes of a unit: one sector.
    unit: u64,
    /// The journal at the start of the addresses. It has no segments on a vdev without a part of it.
    journal: JournalLayout,
    /// Bytes of the journal's copies on each member.
    copies_size: u64,
}

/// Rows of a range that are in one band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Band {
    /// Address of the first row.
    pub(super) at: u64,
    /// Columns are shifted by this number of members.
    shift: usize,
    members: usize,
    /// Offset of the first row's unit on each member, in the member's data, bytes.
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

    /// The column that a member has.
    pub(super) fn column(&self, member: usize) -> usize {
        (member + self.members - self.shift) % self.members
    }

    /// The rows of a column in which the range has a unit, of `data` data columns. Empty if it has none.
    pub(super) fn rows_of(&self, column: usize, data: usize) -> Range<usize> {
        let start = usize::from(column < self.first);
        let behind = (self.first + self.units).saturating_sub(column);
        start..behind.div_ceil(data).max(start)
    }

    /// The number of a unit in the range, by its row and column; `None` if it is not in the range.
    pub(super) fn unit(&self, row: usize, column: usize, data: usize) -> Option<usize> {
        let number = (row * data + column).checked_sub(self.first)?;
        (column < data && number < self.units).then_some(number)
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
            copies_size: journal.size_on_member(entry),
        })
    }

    /// Number of members.
    pub(super) fn members(&self) -> usize {
        self.members
    }

    /// Number of parity columns.
    pub(super) fn parity(&self) -> usize {
        self.parity
    }

    /// Number of data columns.
    pub(super) fn data(&self) -> usize {
        self.members - self.parity
    }

    /// Bytes of a unit.
    pub(super) fn unit(&self) -> usize {
        self.unit as usize
    }

    /// Bytes of data of a row.
    pub(super) fn row_size(&self) -> u64 {
        self.data() as u64 * self.unit
    }

    /// The end of the addresses, if each member has `data_size` bytes.
    pub(super) fn end(&self, data_size: u64) -> u64 {
        let rows = data_size.saturating_sub(self.copies_size) / self.unit;
        self.journal.size() + rows * self.row_size()
    }

    /// Whether an address is in the journal.
    pub(super) fn is_journal(&self, at: u64) -> bool {
        at < self.journal.size()
    }

    /// The members that have a range of the journal, which is in one segment, and the offset on each in its data, bytes.
    pub(super) fn copies(&self, at: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (size, members) = (u64::from(self.journal.segment_size), self.members as u64);
        let (segment, within) = (at / size, at % size);
        let first = segment * (self.parity as u64 + 1);
        let copies = first..first + self.parity as u64 + 1;
        copies.map(move |copy| ((copy % members) as usize, copy / members * size + within))
    }

    /// Whether a range may be written: it is in one segment of the journal, or begins with a row.
    pub(super) fn is_writable(&self, at: u64, len: u64) -> bool {
        if self.is_journal(at) {
            let size = u64::from(self.journal.segment_size);
            return at % size + len <= size;
        }
        (at - self.journal.size()).is_multiple_of(self.row_size())
    }

    /// The number of the row that has an address behind the journal.
    pub(super) fn row_of(&self, at: u64) -> u64 {
        (at - self.journal.size()) / self.row_size()
    }

    /// The address of the row that has an address behind the journal.
    pub(super) fn start_of_row(&self, at: u64) -> u64 {
        self.journal.size() + self.row_of(at) * self.row_size()
    }

    /// The whole rows in a range behind the journal: address and bytes.
    pub(super) fn whole_rows(&self, at: u64, len: u64) -> (u64, u64) {
        let (start, size) = (self.journal.size(), self.row_size());
        let first = (at.max(start) - start).next_multiple_of(size);
        let end = (at + len).saturating_sub(start) / size * size;
        (start + first, end.saturating_sub(first))
    }

    /// The rows of a range of whole units behind the journal, by band, and at most `most` rows in one.
    pub(super) fn bands(&self, at: u64, len: u64, most: u64) -> Vec<Band> {
        let data = self.data() as u64;
        let mut first = (at - self.journal.size()) / self.unit;
        let end = first + len / self.unit;
        let mut bands = Vec::new();
        while first < end {
            let row = first / data;
            let band = row / BAND_ROWS;
            let last = ((band + 1) * BAND_ROWS).min(row + most.max(1));
            let behind = (last * data).min(end);
            bands.push(Band {
                at: self.journal.size() + row * self.row_size(),
                shift: (band % self.members as u64) as usize,
                members: self.members,
                offset: self.copies_size + row * self.unit,
                rows: (behind.div_ceil(data) - row) as usize,
                first: (first % data) as usize,
                units: (behind - first) as usize,
            });
            first = behind;
        }
        bands
    }
}

#[cfg(test)]
mod tests;
