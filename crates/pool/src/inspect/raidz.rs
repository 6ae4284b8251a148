//! Raidz for inspection: the places of rows and of the journal's copies, and the search for a block in its rows.
//!
//! **Owns** its own mapping of addresses to members, unit by unit from `docs/format.md`, "Raidz". **Called by** [`Image`]'s reads.
//! **Invariants**: a block is found only if it has its pointer's checksum; each wrong unit of the block is reported with its
//! disk, and so is parity that does not match its row. The arithmetic of parity is the pool's.

use super::disks::{Copied, Flaw, Image, Lacking, SeenVdev};
use crate::format::{
    Address, Block, BlockPtr, Defect, Expansion, Label, Membership, VdevKind, VdevOffset,
};
use crate::vdev::parity::{Columns, choices};

/// Rows in which a column is on the same member.
const BAND_ROWS: u64 = 256;
/// Offset and bytes of the scratch area of a disk.
const SCRATCH: (u64, u64) = (512 << 10, 512 << 10);
/// Offset of the data of a disk.
const DATA: u64 = 1 << 20;

/// The shape of a raidz.
#[derive(Debug, Clone, Copy)]
struct Shape {
    members: u64,
    parity: u64,
    /// Bytes of a unit.
    unit: u64,
    /// Bytes of addresses that the journal takes, and bytes of each member.
    journal: u64,
    copies: u64,
    segment: u64,
    /// Members with copies of the journal.
    journal_members: u64,
    /// During an expansion: number of rows with a unit on each member, and the number of them that are not in scratch areas.
    expansion: Option<(u64, u64)>,
}

/// A row: whether it has a unit on each member, and its number among such rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RowName {
    is_wide: bool,
    number: u64,
}

impl Shape {
    /// The shape of a vdev; `None` for a disk or mirror.
    fn of(vdev: &SeenVdev, label: &Label) -> Option<Self> {
        let VdevKind::Raidz { parity } = vdev.entry.kind else {
            return None;
        };
        let unit = u64::from(vdev.entry.sector());
        let in_place = |e: Expansion| match e.has_scratch {
            true => (e.position - 1) / (SCRATCH.1 / unit) * (SCRATCH.1 / unit),
            false => e.position,
        };
        (vdev.entry.members > parity.into()).then(|| Self {
            members: vdev.entry.members.into(),
            parity: parity.into(),
            unit,
            journal: label.journal.size_on(&vdev.entry),
            copies: label.journal.size_on_member(&vdev.entry),
            segment: label.journal.segment_size.into(),
            journal_members: vdev.entry.journal_members().into(),
            expansion: vdev.entry.expansion.map(|e| (e.position, in_place(e))),
        })
    }

    /// Number of members that have a unit of a row.
    fn width(&self, is_wide: bool) -> u64 {
        self.members - u64::from(!is_wide)
    }

    /// Data columns of a row.
    fn data(&self, is_wide: bool) -> u64 {
        self.width(is_wide) - self.parity
    }

    /// End of the addresses, if each member has `data_size` bytes. During an expansion, all rows are narrow for this.
    fn end(&self, data_size: u64) -> u64 {
        let rows = data_size.saturating_sub(self.copies) / self.unit;
        self.journal + rows * self.data(self.expansion.is_none()) * self.unit
    }

    /// The row and column of an address behind the journal.
    fn row_of(&self, at: u64) -> (RowName, usize) {
        let unit = (at - self.journal) / self.unit;
        let wide = self.data(true);
        let is_wide = self.expansion.is_none_or(|(rows, _)| unit < rows * wide);
        let data = self.data(is_wide);
        let row = RowName {
            is_wide,
            number: unit / data,
        };
        (row, (unit % data) as usize)
    }

    /// The row and column of each unit of a range behind the journal.
    fn units(&self, at: u64, len: u64) -> Vec<(RowName, usize)> {
        let units = (at..at + len).step_by(self.unit as usize);
        units.map(|at| self.row_of(at)).collect()
    }

    /// The member that has a column of a row, and the offset on its disk.
    fn place(&self, row: RowName, column: u64) -> (usize, u64) {
        let member = (column + row.number / BAND_ROWS) % self.width(row.is_wide);
        let is_in_place = self.expansion.is_none_or(|(_, rows)| row.number < rows);
        let offset = match is_in_place || !row.is_wide {
            true => DATA + self.copies + row.number * self.unit,
            false => SCRATCH.0 + row.number * self.unit % SCRATCH.1,
        };
        (member as usize, offset)
    }

    /// The members that have an address of the journal, and the offset in the data of each.
    fn copies(&self, at: u64) -> Vec<(usize, u64)> {
        let (segment, within) = (at / self.segment, at % self.segment);
        let numbers = (0..=self.parity).map(|copy| segment * (self.parity + 1) + copy);
        let place = |n: u64| {
            let slot = n / self.journal_members;
            let member = n % self.journal_members;
            (member as usize, slot * self.segment + within)
        };
        numbers.map(place).collect()
    }
}

/// A row as read.
struct SeenRow {
    name: RowName,
    columns: Columns,
    /// Columns that could not be read.
    missing: Vec<usize>,
}

/// A block in its rows.
struct FoundBlock {
    bytes: Vec<u8>,
    lacking: Lacking,
}

/// Parity columns of a row that do not match it. Dead sectors stay under valid parity, so it must match also where other
/// data units are not read by anybody. If fewer columns than there is surplus parity explain a mismatch, these are wrong, and data among them belongs
/// to other blocks; else nobody knows whether parity is wrong or a block that is not being read.
fn wrong_parity(row: &SeenRow, right: &Columns, shape: &Shape) -> Vec<usize> {
    let data = shape.data(row.name.is_wide) as usize;
    let is_read = |column: &usize| !row.missing.contains(column);
    let mut seen = right.clone();
    for column in (data..right.all().len()).filter(is_read) {
        seen.all_mut()[column].copy_from_slice(&row.columns.all()[column]);
    }
    let wrong: Vec<usize> = seen.wrong_parity().into_iter().filter(is_read).collect();
    let surplus = shape.parity as usize - row.missing.len().min(shape.parity as usize);
    if wrong.is_empty() || surplus < 2 {
        return wrong;
    }
    let is_valid = |columns: &Columns| columns.wrong_parity().is_empty();
    match seen.find(&row.missing, is_valid) {
        Some(liars) if liars.len() < surplus => {
            liars.into_iter().filter(|column| *column >= data).collect()
        }
        _ => wrong,
    }
}

impl Image {
    /// End of a vdev's addresses.
    pub(super) fn end_of(&self, vdev: &SeenVdev) -> u64 {
        let size = vdev.entry.data_size;
        Shape::of(vdev, &self.label).map_or(size, |shape| shape.end(size))
    }

    /// The disk of a member that is in.
    fn disk_in(&self, vdev: &SeenVdev, member: usize) -> Option<usize> {
        let member = vdev.members.get(member)?;
        let disk = member.disk.filter(|_| member.membership == Membership::In);
        disk.filter(|disk| vdev.fits(&self.seen[*disk]))
    }

    /// The disks that should have an address of the journal, and its offset in the data of each.
    pub(super) fn journal_copies(&self, at: Address) -> Vec<(usize, VdevOffset)> {
        let vdev = self.vdevs.get(usize::from(at.vdev.0));
        let shape = vdev.and_then(|vdev| Some((vdev, Shape::of(vdev, &self.label)?)));
        let Some((vdev, shape)) = shape else {
            let disks = self.members_in(at.vdev);
            return disks.map(|disk| (disk, at.offset)).collect();
        };
        let copies = shape.copies(at.offset.0).into_iter();
        let on_disk = |(member, offset)| Some((self.disk_in(vdev, member)?, VdevOffset(offset)));
        copies.filter_map(on_disk).collect()
    }

    /// The shape of a vdev, if it is a raidz.
    fn shape_of(&self, at: Address) -> Option<(&SeenVdev, Shape)> {
        let vdev = self.vdevs.get(usize::from(at.vdev.0))?;
        Some((vdev, Shape::of(vdev, &self.label)?))
    }

    /// Reads a column of rows that have it on one member; unit by unit if it cannot be read as a whole.
    async fn seen_column(
        &self,
        vdev: &SeenVdev,
        shape: &Shape,
        rows: &[RowName],
        column: u64,
    ) -> Vec<Option<Vec<u8>>> {
        let unit = shape.unit as usize;
        let (member, offset) = shape.place(rows[0], column);
        let Some(disk) = self.disk_in(vdev, member) else {
            return vec![None; rows.len()];
        };
        let whole = self.read_disk(disk, offset, rows.len() * unit);
        if let Some(bytes) = whole.await {
            return bytes.chunks(unit).map(|unit| Some(unit.to_vec())).collect();
        }
        let mut units = Vec::with_capacity(rows.len());
        for row in rows {
            let (_, offset) = shape.place(*row, column);
            let read = self.read_disk(disk, offset, unit).await;
            units.push(read.map(|bytes| bytes.to_vec()));
        }
        units
    }

    /// Reads all columns of rows.
    async fn seen_rows(&self, vdev: &SeenVdev, shape: &Shape, rows: &[RowName]) -> Vec<SeenRow> {
        let unit = shape.unit as usize;
        let mut seen = Vec::new();
        let lie_together = |a: &RowName, b: &RowName| {
            let is_next = shape.place(*b, 0).1 == shape.place(*a, 0).1 + shape.unit;
            a.is_wide == b.is_wide && is_next && a.number / BAND_ROWS == b.number / BAND_ROWS
        };
        for rows in rows.chunk_by(lie_together) {
            let width = shape.width(rows[0].is_wide);
            let mut read = Vec::with_capacity(width as usize);
            for column in 0..width {
                read.push(self.seen_column(vdev, shape, rows, column).await);
            }
            for (at, name) in rows.iter().enumerate() {
                let units = read.iter_mut().map(|column| column[at].take());
                let units: Vec<_> = units.collect();
                let is_missing = |column: &usize| units[*column].is_none();
                let missing = (0..units.len()).filter(is_missing).collect();
                let columns = units.into_iter();
                let columns = columns.map(|unit_| unit_.unwrap_or_else(|| vec![0; unit]));
                seen.push(SeenRow {
                    name: *name,
                    columns: Columns::new(columns.collect(), shape.data(name.is_wide) as usize),
                    missing,
                });
            }
        }
        seen
    }

    /// Finds a block in its rows with the fewest members that are doubted. Nothing if no choice makes it right.
    async fn find(
        &self,
        (vdev, shape): (&SeenVdev, Shape),
        (ptr, at): (&BlockPtr, Address),
        len: u64,
    ) -> Option<FoundBlock> {
        let parity = shape.parity as usize;
        let units = shape.units(at.offset.0, len);
        let mut rows: Vec<RowName> = units.iter().map(|(row, _)| *row).collect();
        rows.dedup();
        let seen = self.seen_rows(vdev, &shape, &rows).await;
        let members: Vec<usize> = (0..shape.members as usize).collect();
        let is_doubted = |row: &SeenRow, column: usize, liars: &[usize]| {
            let (member, _) = shape.place(row.name, column as u64);
            liars.contains(&member)
        };
        for liars in (0..=parity).flat_map(|count| choices(&members, count)) {
            let mut bytes = Vec::with_capacity(len as usize);
            let mut right = Vec::with_capacity(seen.len());
            for row in &seen {
                let lies = (0..row.columns.all().len())
                    .filter(|c| !row.missing.contains(c) && is_doubted(row, *c, &liars));
                let mut all: Vec<usize> = row.missing.iter().copied().chain(lies).collect();
                if all.len() > parity {
                    all.truncate(row.missing.len());
                }
                let mut columns = row.columns.clone();
                columns.reconstruct(&all);
                let own = units.iter().filter(|(of, _)| *of == row.name);
                own.for_each(|(_, column)| bytes.extend_from_slice(&columns.all()[*column]));
                right.push(columns);
            }
            if ptr.verify(&bytes[..ptr.physical_size as usize]).is_ok() {
                let lacking = self.lacking_of(vdev, &shape, &seen, &right, &units);
                return Some(FoundBlock { bytes, lacking });
            }
        }
        None
    }

    /// The disks with a wrong unit of a block, whose units are `own`, or with wrong parity in its rows.
    fn lacking_of(
        &self,
        vdev: &SeenVdev,
        shape: &Shape,
        seen: &[SeenRow],
        right: &[Columns],
        own: &[(RowName, usize)],
    ) -> Lacking {
        let mut lacking = Lacking::new();
        let mut add = |row: &SeenRow, column: usize, flaw: Flaw| {
            let (member, _) = shape.place(row.name, column as u64);
            let Some(disk) = self.disk_in(vdev, member) else {
                return;
            };
            let path = self.path(disk);
            if lacking.iter().all(|(known, _)| *known != path) {
                lacking.push((path, flaw));
            }
        };
        for (row, right) in seen.iter().zip(right) {
            let data = shape.data(row.name.is_wide) as usize;
            for column in (0..data).filter(|column| own.contains(&(row.name, *column))) {
                if row.missing.contains(&column) {
                    add(row, column, Flaw::Unreadable);
                } else if row.columns.all()[column] != right.all()[column] {
                    add(row, column, Flaw::Wrong(Defect::Checksum));
                }
            }
            for column in (data..right.all().len()).filter(|c| row.missing.contains(c)) {
                add(row, column, Flaw::Unreadable);
            }
            for column in wrong_parity(row, right, shape) {
                add(row, column, Flaw::Parity);
            }
        }
        lacking
    }

    /// As [`Image::read`], for a block of a raidz; `None` if it is on another vdev.
    pub(super) async fn read_rows(
        &self,
        (ptr, at): (&BlockPtr, Address),
        len: usize,
    ) -> Option<Copied> {
        let (vdev, shape) = self.shape_of(at)?;
        let mut copied = Copied {
            good: None,
            lacking: Lacking::new(),
            asked: self.members_in(at.vdev).count(),
        };
        match self.find((vdev, shape), (ptr, at), len as u64).await {
            Some(found) => {
                let mut buf = self.buffer(len).await;
                buf.copy_from_slice(&found.bytes);
                copied.good = Some(buf);
                copied.lacking = found.lacking;
            }
            None => copied.lacking = self.not_found(vdev),
        }
        Some(copied)
    }

    /// As [`Image::check`], for a block of a raidz; `None` if it is on another vdev.
    pub(super) async fn check_rows(
        &self,
        (block, at): (&Block, Address),
        len: u64,
    ) -> Option<(bool, Lacking)> {
        let ptr = block.ptr();
        let (vdev, shape) = self.shape_of(at)?;
        let Some(found) = self.find((vdev, shape), (ptr, at), len).await else {
            return Some((false, self.not_found(vdev)));
        };
        let bytes = &found.bytes[..ptr.physical_size as usize];
        Some(match crate::compress::check(block, bytes) {
            Ok(()) => (true, found.lacking),
            Err(defect) => {
                let disks = self.members_in(at.vdev);
                let flaw = |disk| (self.path(disk), Flaw::Wrong(defect));
                (false, disks.map(flaw).collect())
            }
        })
    }

    /// The disks on which a block was not found.
    fn not_found(&self, vdev: &SeenVdev) -> Lacking {
        let disks = (0..vdev.members.len()).filter_map(|member| self.disk_in(vdev, member));
        let flaw = |disk| (self.path(disk), Flaw::Wrong(Defect::Checksum));
        disks.map(flaw).collect()
    }
}
