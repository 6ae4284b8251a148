//! Raidz for inspection: the places of rows and of the journal's copies, and the search for a block in its rows.
//!
//! **Owns** its own mapping of addresses to members, unit by unit from `docs/format.md`, "Raidz". **Called by** [`Image`]'s reads.
//! **Invariants**: a block is found only if it has its pointer's checksum; each wrong unit of the block is reported with its
//! disk, and so is parity that does not match its row. The arithmetic of parity is the pool's.

use super::disks::{Copied, Flaw, Image, Lacking, SeenVdev};
use crate::format::{BlockPtr, Defect, Label, Membership, VdevKind, VdevOffset};
use crate::vdev::parity::{Columns, choices};

/// Rows in which a column is on the same member.
const BAND_ROWS: u64 = 256;

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
}

impl Shape {
    /// The shape of a vdev; `None` for a disk or mirror.
    fn of(vdev: &SeenVdev, label: &Label) -> Option<Self> {
        let VdevKind::Raidz { parity } = vdev.entry.kind else {
            return None;
        };
        (vdev.entry.members > parity.into()).then(|| Self {
            members: vdev.entry.members.into(),
            parity: parity.into(),
            unit: vdev.entry.sector().into(),
            journal: label.journal.size_on(&vdev.entry),
            copies: label.journal.size_on_member(&vdev.entry),
            segment: label.journal.segment_size.into(),
        })
    }

    fn data(&self) -> u64 {
        self.members - self.parity
    }

    /// End of the addresses, if each member has `data_size` bytes.
    fn end(&self, data_size: u64) -> u64 {
        let rows = data_size.saturating_sub(self.copies) / self.unit;
        self.journal + rows * self.data() * self.unit
    }

    /// The rows of a range behind the journal, and for its first row the first column.
    fn rows(&self, at: u64, len: u64) -> (std::ops::Range<u64>, u64) {
        let first = (at - self.journal) / self.unit;
        let behind = first + len / self.unit;
        let rows = first / self.data()..behind.div_ceil(self.data());
        (rows, first % self.data())
    }

    /// The member that has a column of a row, and the offset in its data.
    fn place(&self, row: u64, column: u64) -> (usize, u64) {
        let member = (column + row / BAND_ROWS) % self.members;
        (member as usize, self.copies + row * self.unit)
    }

    /// The members that have an address of the journal, and the offset in the data of each.
    fn copies(&self, at: u64) -> Vec<(usize, u64)> {
        let (segment, within) = (at / self.segment, at % self.segment);
        let numbers = (0..=self.parity).map(|copy| segment * (self.parity + 1) + copy);
        let place = |n: u64| {
            let slot = n / self.members;
            ((n % self.members) as usize, slot * self.segment + within)
        };
        numbers.map(place).collect()
    }
}

/// A row as read.
struct SeenRow {
    number: u64,
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
    let data = shape.data() as usize;
    let is_read = |column: &usize| !row.missing.contains(column);
    let mut seen = right.clone();
    for column in (data..shape.members as usize).filter(is_read) {
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
    pub(super) fn journal_copies(&self, at: crate::format::Address) -> Vec<(usize, VdevOffset)> {
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
    fn shape_of(&self, ptr: &BlockPtr) -> Option<(&SeenVdev, Shape)> {
        let vdev = self.vdevs.get(usize::from(ptr.vdev.0))?;
        Some((vdev, Shape::of(vdev, &self.label)?))
    }

    /// Reads a column of rows that have it on one member; unit by unit if it cannot be read as a whole.
    async fn seen_column(
        &self,
        vdev: &SeenVdev,
        shape: &Shape,
        rows: &std::ops::Range<u64>,
        column: u64,
    ) -> Vec<Option<Vec<u8>>> {
        let count = (rows.end - rows.start) as usize;
        let unit = shape.unit as usize;
        let (member, offset) = shape.place(rows.start, column);
        let Some(disk) = self.disk_in(vdev, member) else {
            return vec![None; count];
        };
        let whole = self.read_member(disk, VdevOffset(offset), count * unit);
        if let Some(bytes) = whole.await {
            return bytes.chunks(unit).map(|unit| Some(unit.to_vec())).collect();
        }
        let mut units = Vec::with_capacity(count);
        for row in rows.clone() {
            let (_, offset) = shape.place(row, column);
            let read = self.read_member(disk, VdevOffset(offset), unit).await;
            units.push(read.map(|bytes| bytes.to_vec()));
        }
        units
    }

    /// Reads all columns of rows.
    async fn seen_rows(
        &self,
        vdev: &SeenVdev,
        shape: &Shape,
        rows: std::ops::Range<u64>,
    ) -> Vec<SeenRow> {
        let unit = shape.unit as usize;
        let mut seen = Vec::new();
        let mut start = rows.start;
        while start < rows.end {
            let end = rows.end.min((start / BAND_ROWS + 1) * BAND_ROWS);
            let mut read = Vec::with_capacity(shape.members as usize);
            for column in 0..shape.members {
                read.push(self.seen_column(vdev, shape, &(start..end), column).await);
            }
            for number in start..end {
                let at = (number - start) as usize;
                let units = read.iter_mut().map(|column| column[at].take());
                let units: Vec<_> = units.collect();
                let is_missing = |column: &usize| units[*column].is_none();
                let missing = (0..units.len()).filter(is_missing).collect();
                let columns = units.into_iter();
                let columns = columns.map(|unit_| unit_.unwrap_or_else(|| vec![0; unit]));
                seen.push(SeenRow {
                    number,
                    columns: Columns::new(columns.collect(), shape.data() as usize),
                    missing,
                });
            }
            start = end;
        }
        seen
    }

    /// Finds a block in its rows with the fewest members that are doubted. Nothing if no choice makes it right.
    async fn find(
        &self,
        (vdev, shape): (&SeenVdev, Shape),
        ptr: &BlockPtr,
        len: u64,
    ) -> Option<FoundBlock> {
        let (rows, first) = shape.rows(ptr.offset.0, len);
        let (data, parity) = (shape.data() as usize, shape.parity as usize);
        let seen = self.seen_rows(vdev, &shape, rows).await;
        let members: Vec<usize> = (0..shape.members as usize).collect();
        let is_doubted = |row: &SeenRow, column: usize, liars: &[usize]| {
            let (member, _) = shape.place(row.number, column as u64);
            liars.contains(&member)
        };
        for liars in (0..=parity).flat_map(|count| choices(&members, count)) {
            let mut bytes = Vec::with_capacity(len as usize);
            let mut right = Vec::with_capacity(seen.len());
            for row in &seen {
                let lies = (0..members.len())
                    .filter(|c| !row.missing.contains(c) && is_doubted(row, *c, &liars));
                let mut all: Vec<usize> = row.missing.iter().copied().chain(lies).collect();
                if all.len() > parity {
                    all.truncate(row.missing.len());
                }
                let mut columns = row.columns.clone();
                columns.reconstruct(&all);
                columns.all()[..data]
                    .iter()
                    .for_each(|column| bytes.extend_from_slice(column));
                right.push(columns);
            }
            let start = (first * shape.unit) as usize;
            let bytes = bytes[start..start + len as usize].to_vec();
            if ptr.verify(&bytes[..ptr.physical_size as usize]).is_ok() {
                let own = first as usize..first as usize + (len / shape.unit) as usize;
                let lacking = self.lacking_of(vdev, &shape, &seen, &right, own);
                return Some(FoundBlock { bytes, lacking });
            }
        }
        None
    }

    /// The disks with a wrong unit of a block, whose units are `own` of its rows, or with wrong parity in its rows.
    fn lacking_of(
        &self,
        vdev: &SeenVdev,
        shape: &Shape,
        seen: &[SeenRow],
        right: &[Columns],
        own: std::ops::Range<usize>,
    ) -> Lacking {
        let data = shape.data() as usize;
        let mut lacking = Lacking::new();
        let mut add = |row: &SeenRow, column: usize, flaw: Flaw| {
            let (member, _) = shape.place(row.number, column as u64);
            let Some(disk) = self.disk_in(vdev, member) else {
                return;
            };
            let path = self.path(disk);
            if lacking.iter().all(|(known, _)| *known != path) {
                lacking.push((path, flaw));
            }
        };
        for (index, (row, right)) in seen.iter().zip(right).enumerate() {
            for column in (0..data).filter(|column| own.contains(&(index * data + column))) {
                if row.missing.contains(&column) {
                    add(row, column, Flaw::Unreadable);
                } else if row.columns.all()[column] != right.all()[column] {
                    add(row, column, Flaw::Wrong(Defect::Checksum));
                }
            }
            for column in (data..shape.members as usize).filter(|c| row.missing.contains(c)) {
                add(row, column, Flaw::Unreadable);
            }
            for column in wrong_parity(row, right, shape) {
                add(row, column, Flaw::Parity);
            }
        }
        lacking
    }

    /// As [`Image::read`], for a block of a raidz; `None` if it is on another vdev.
    pub(super) async fn read_rows(&self, ptr: &BlockPtr, len: usize) -> Option<Copied> {
        let (vdev, shape) = self.shape_of(ptr)?;
        let mut copied = Copied {
            good: None,
            lacking: Lacking::new(),
            asked: self.members_in(ptr.vdev).count(),
        };
        match self.find((vdev, shape), ptr, len as u64).await {
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
    pub(super) async fn check_rows(&self, ptr: &BlockPtr, len: u64) -> Option<(bool, Lacking)> {
        let (vdev, shape) = self.shape_of(ptr)?;
        let Some(found) = self.find((vdev, shape), ptr, len).await else {
            return Some((false, self.not_found(vdev)));
        };
        let bytes = &found.bytes[..ptr.physical_size as usize];
        Some(match crate::compress::check(ptr, bytes) {
            Ok(()) => (true, found.lacking),
            Err(defect) => {
                let disks = self.members_in(ptr.vdev);
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
