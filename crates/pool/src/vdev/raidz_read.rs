//! Reads from a raidz: data units, and whole rows where a unit is missing or wrong.
//!
//! **Owns** the search for the members that lie. **Called by** reads, scrub and resilver of `Vdevs`. **Invariants**: a block is
//! returned or used for repair only if it has its pointer's checksum; no buffer is waited for while another one of the same
//! pool is held; a unit of another block is never repaired. `docs/decisions/0151`, `docs/decisions/0152`.

use std::sync::Arc;

use futures_util::future::join_all;
use io::{BufPool, IoBuf};

use super::area::filled;
use super::copies::PlacedBlock;
use super::leaf::Leaf;
use super::member::{Member, MemberState};
use super::parity::{Columns, choices};
use super::rows::{Band, Rows};
use super::top::TopVdev;
use crate::error::{Error, Result};
use crate::format::{Address, Defect};

/// A member that is read, and whether it is in.
pub(super) type ReadFrom = Option<(Arc<Leaf>, bool)>;

/// A range of one member.
pub(super) struct Span {
    pub(super) leaf: Arc<Leaf>,
    /// Offset on the member's disk, bytes.
    pub(super) offset: u64,
    pub(super) len: usize,
    /// Index of the band, the column, and the first row in the band.
    pub(super) place: (usize, usize, usize),
}

/// A unit that was found wrong or unreadable on a member that is in, with the right bytes.
pub(super) struct WrongUnit {
    leaf: Arc<Leaf>,
    offset: u64,
    bytes: Vec<u8>,
    /// Whether it could be read.
    was_read: bool,
}

impl WrongUnit {
    /// Counts errors of checksums of their members.
    pub(super) fn count_all(wrong: &[WrongUnit]) {
        let read = wrong.iter().filter(|unit| unit.was_read);
        read.for_each(|unit| unit.leaf.count_checksum_error());
    }
}

/// A row as read.
pub(super) struct Row {
    pub(super) band: Band,
    pub(super) number: usize,
    pub(super) columns: Columns,
    /// Columns that could not be read.
    pub(super) missing: Vec<usize>,
}

impl Row {
    /// The lowest address in it, which names it.
    pub(super) fn address(&self) -> u64 {
        self.band.address(self.number)
    }

    fn offset(&self, unit: usize) -> u64 {
        self.band.offset + (self.number * unit) as u64
    }

    /// The columns to be reconstructed if these members lie. Where this is more than parity allows, only the missing ones.
    fn doubted(&self, liars: &[usize], parity: usize) -> Vec<usize> {
        let lying = liars.iter().filter_map(|member| self.band.column(*member));
        let mut all = self.missing.clone();
        all.extend(lying.filter(|column| !self.missing.contains(column)));
        if all.len() > parity {
            all.truncate(self.missing.len());
        }
        all
    }

    /// Whether a column of this row is a unit of the range.
    pub(super) fn is_own(&self, column: usize) -> bool {
        self.band.unit(self.number, column).is_some()
    }

    /// Whether the row can be reconstructed.
    pub(super) fn is_enough(&self, parity: usize) -> bool {
        self.missing.len() <= parity
    }

    /// Whether a unit of the range in this row is missing.
    fn lacks_own(&self) -> bool {
        let is_own = |column: &usize| self.is_own(*column);
        self.missing.iter().any(is_own)
    }
}

/// The rows of a block: as read, and as they are right.
pub(super) struct FoundRows {
    pub(super) read: Vec<Row>,
    pub(super) right: Vec<Columns>,
    sources: Vec<ReadFrom>,
    /// The block's bytes: whole sectors.
    pub(super) block: Vec<u8>,
}

/// The bytes of a range in its rows.
fn assemble(rows: &Rows, read: &[Row], columns: &[Columns], len: usize) -> Vec<u8> {
    let unit = rows.unit();
    let mut bytes = Vec::with_capacity(len);
    for (row, columns) in read.iter().zip(columns) {
        let of_range = (0..row.band.data()).filter(|c| row.is_own(*c));
        of_range.for_each(|column| bytes.extend_from_slice(&columns.all()[column]));
    }
    assert_eq!(bytes.len(), len, "units of {unit} bytes");
    bytes
}

impl TopVdev {
    /// The member of each index, if it is in; with `stale`, also if it is stale.
    pub(super) fn sources(&self, stale: bool) -> Vec<ReadFrom> {
        let source = |m: &Member| match m.state {
            MemberState::Online => Some((m.leaf.clone(), true)),
            MemberState::Stale if stale => Some((m.leaf.clone(), false)),
            _ => None,
        };
        self.members().iter().map(source).collect()
    }

    /// Reads ranges of members, as many at once as there are buffers, and passes each to `take`: with nothing if it cannot be
    /// read.
    pub(super) async fn read_spans(
        &self,
        spans: Vec<Span>,
        mut take: impl FnMut(Span, Option<&[u8]>),
    ) {
        let mut spans = spans.into_iter().peekable();
        while let Some(first) = spans.next() {
            let buf = self.row_buffers().alloc(first.len).await;
            let mut batch = vec![(first, buf)];
            while let Some(next) = spans.peek()
                && let Some(buf) = self.row_buffers().try_alloc(next.len)
                && let Some(span) = spans.next()
            {
                batch.push((span, buf));
            }
            let reads = batch.into_iter().map(|(span, buf)| async move {
                let (result, back) = span.leaf.read(buf, span.offset).await;
                (span, back.filter(|_| result.is_ok()))
            });
            for (span, read) in join_all(reads).await {
                take(span, read.as_deref());
            }
        }
    }

    /// Reads the data units of a range behind the journal, without verification. Nothing if one of them cannot be read.
    pub(super) async fn read_units(&self, rows: &Rows, at: u64, mut buf: IoBuf) -> Option<IoBuf> {
        let unit = rows.unit();
        let sources = self.sources(false);
        let bands = rows.bands(at, buf.len() as u64, u64::from(u32::MAX));
        let mut spans = Vec::new();
        for (index, band) in bands.iter().enumerate() {
            for column in 0..band.data() {
                let of_range = band.rows_of(column);
                if of_range.is_empty() {
                    continue;
                }
                let (leaf, _) = sources[band.member(column)].as_ref()?;
                spans.push(Span {
                    leaf: leaf.clone(),
                    offset: band.offset + (of_range.start * unit) as u64,
                    len: of_range.len() * unit,
                    place: (index, column, of_range.start),
                });
            }
        }
        if let [only] = &spans[..]
            && only.len == buf.len()
        {
            let (result, back) = only.leaf.read(buf, only.offset).await;
            return back.filter(|_| result.is_ok());
        }
        let starts: Vec<usize> = bands
            .iter()
            .map(|band| (band.at.max(at) - at) as usize)
            .collect();
        let mut is_read = true;
        self.read_spans(spans, |span, bytes| {
            let Some(bytes) = bytes else {
                is_read = false;
                return;
            };
            let (index, column, first) = span.place;
            for (row, bytes) in (first..).zip(bytes.chunks(unit)) {
                let number = bands[index].unit(row, column).expect("it is in the range");
                let place = starts[index] + number * unit;
                buf[place..place + unit].copy_from_slice(bytes);
            }
        })
        .await;
        is_read.then_some(buf)
    }

    /// Reads all columns of the rows of a range.
    pub(super) async fn read_rows(
        &self,
        rows: &Rows,
        at: u64,
        len: usize,
        sources: &[ReadFrom],
    ) -> Vec<Row> {
        let unit = rows.unit();
        let bands = rows.bands(at, len as u64, u64::from(u32::MAX));
        let mut columns: Vec<Vec<Vec<Option<Vec<u8>>>>> = Vec::new();
        let mut spans = Vec::new();
        for (index, band) in bands.iter().enumerate() {
            columns.push(vec![vec![None; band.members()]; band.rows]);
            for column in 0..band.members() {
                let Some((leaf, _)) = &sources[band.member(column)] else {
                    continue;
                };
                spans.push(Span {
                    leaf: leaf.clone(),
                    offset: band.offset,
                    len: band.rows * unit,
                    place: (index, column, 0),
                });
            }
        }
        let mut again = Vec::new();
        let mut put = |span: &Span, bytes: &[u8]| {
            let (index, column, first) = span.place;
            for (row, bytes) in (first..).zip(bytes.chunks(unit)) {
                columns[index][row][column] = Some(bytes.to_vec());
            }
        };
        self.read_spans(spans, |span, bytes| match bytes {
            Some(bytes) => put(&span, bytes),
            None => again.push(span),
        })
        .await;
        // If a whole column cannot be read, single units of it may be readable.
        let single = again
            .iter()
            .filter(|span| span.len > unit)
            .flat_map(|span| {
                let (index, column, _) = span.place;
                (0..span.len / unit).map(move |row| Span {
                    leaf: span.leaf.clone(),
                    offset: span.offset + (row * unit) as u64,
                    len: unit,
                    place: (index, column, row),
                })
            });
        let single: Vec<Span> = single.collect();
        self.read_spans(single, |span, bytes| {
            if let Some(bytes) = bytes {
                put(&span, bytes);
            }
        })
        .await;
        let mut read = Vec::new();
        for (band, rows_of_band) in bands.into_iter().zip(columns) {
            for (number, columns) in rows_of_band.into_iter().enumerate() {
                let all = columns.iter().enumerate();
                let missing = all
                    .filter(|(_, bytes)| bytes.is_none())
                    .map(|(c, _)| c)
                    .collect();
                let bytes = columns
                    .into_iter()
                    .map(|c| c.unwrap_or_else(|| vec![0; unit]));
                read.push(Row {
                    band,
                    number,
                    columns: Columns::new(bytes.collect(), band.data()),
                    missing,
                });
            }
        }
        read
    }

    /// Reads a block. Returns it, and its units that are wrong on members that are in.
    ///
    /// # Errors
    /// As [`TopVdev::find_rows`].
    pub(super) async fn read_in_rows(
        &self,
        rows: &Rows,
        placed: &PlacedBlock,
        size: usize,
        buffers: &BufPool,
    ) -> Result<(IoBuf, Vec<WrongUnit>)> {
        let PlacedBlock { ptr, at, .. } = placed;
        let buf = buffers.alloc(size).await;
        let read = self.read_units(rows, at.offset.0, buf).await;
        if let Some(buf) = read
            && ptr.verify(&buf[..ptr.physical_size as usize]).is_ok()
        {
            return Ok((buf, Vec::new()));
        }
        let found = self
            .find_rows(rows, placed, size)
            .await
            .inspect_err(|_| self.fault())?;
        let wrong = found.wrong_units(rows, false);
        Ok((filled(buffers, &found.block).await, wrong))
    }

    /// The members that are in and have a copy of a range of the journal, and the offset on the disk of each.
    pub(super) fn copies_in(&self, rows: &Rows, at: u64) -> Vec<(Arc<Leaf>, u64)> {
        let sources = self.sources(false);
        let copies = rows.copies(at);
        let of_copy =
            |(member, offset): (usize, u64)| Some((sources[member].as_ref()?.0.clone(), offset));
        copies.filter_map(of_copy).collect()
    }

    /// Reads a range behind the journal, without verification. Reconstructs units that cannot be read.
    pub(super) async fn read_any(&self, rows: &Rows, at: u64, len: usize) -> Option<Vec<u8>> {
        let read = self.read_rows(rows, at, len, &self.sources(false)).await;
        let mut columns = Vec::with_capacity(read.len());
        for row in &read {
            let mut whole = row.columns.clone();
            if !whole.reconstruct(&row.missing) && row.lacks_own() {
                return None;
            }
            columns.push(whole);
        }
        Some(assemble(rows, &read, &columns, len))
    }

    /// Reads all columns of a block's rows, and finds the block in them: with the fewest members that lie.
    ///
    /// # Errors
    /// [`Error::Unreadable`] if too few columns can be read; [`Error::Corrupt`] if no choice of members makes the block right.
    pub(super) async fn find_rows(
        &self,
        rows: &Rows,
        placed: &PlacedBlock,
        len: usize,
    ) -> Result<FoundRows> {
        let found = self.find_rows_in(rows, *placed, len).await;
        match found {
            // A stale member may have what others lost.
            Err(error) if self.members().iter().any(|m| m.state == MemberState::Stale) => {
                let sources = self.sources(true);
                let with_stale = self.find_rows_of(rows, placed, len, sources).await;
                with_stale.map_err(|_| error)
            }
            found => found,
        }
    }

    /// As [`TopVdev::find_rows`], from members that are in.
    ///
    /// # Errors
    /// As [`TopVdev::find_rows`].
    pub(super) async fn find_rows_in(
        &self,
        rows: &Rows,
        block: impl Into<PlacedBlock>,
        len: usize,
    ) -> Result<FoundRows> {
        let sources = self.sources(false);
        self.find_rows_of(rows, &block.into(), len, sources).await
    }

    async fn find_rows_of(
        &self,
        rows: &Rows,
        PlacedBlock { ptr, at, .. }: &PlacedBlock,
        len: usize,
        sources: Vec<ReadFrom>,
    ) -> Result<FoundRows> {
        let is_right = |bytes: &[u8]| ptr.verify(&bytes[..ptr.physical_size as usize]);
        self.search_rows(rows, *at, len, sources, is_right).await
    }

    /// Reads all columns of the rows of a range, and finds the fewest members that lie so that `is_right` accepts its bytes.
    ///
    /// # Errors
    /// As [`TopVdev::find_rows`].
    pub(super) async fn search_rows(
        &self,
        rows: &Rows,
        at: Address,
        len: usize,
        sources: Vec<ReadFrom>,
        is_right: impl Fn(&[u8]) -> std::result::Result<(), Defect>,
    ) -> Result<FoundRows> {
        let read = self.read_rows(rows, at.offset.0, len, &sources).await;
        let parity = rows.parity();
        let is_lost = |row: &Row| !row.is_enough(parity) && row.lacks_own();
        if read.iter().any(is_lost) {
            return Err(Error::Unreadable { at });
        }
        let members: Vec<usize> = (0..rows.members()).collect();
        let mut defect = Defect::Checksum;
        for liars in (0..=parity).flat_map(|count| choices(&members, count)) {
            let right: Vec<Columns> = read
                .iter()
                .map(|row| {
                    let mut columns = row.columns.clone();
                    let _as_read_if_too_few = columns.reconstruct(&row.doubted(&liars, parity));
                    columns
                })
                .collect();
            let block = assemble(rows, &read, &right, len);
            match is_right(&block) {
                Ok(()) => {
                    return Ok(FoundRows {
                        read,
                        right,
                        sources,
                        block,
                    });
                }
                Err(other) => defect = other,
            }
        }
        Err(Error::Corrupt { at, defect })
    }

    /// Rewrites units that were found wrong.
    pub(super) async fn mend_units(&self, wrong: Vec<WrongUnit>) {
        for unit in wrong.into_iter().filter(|unit| !unit.leaf.is_short()) {
            let bytes = filled(self.row_buffers(), &unit.bytes).await.into();
            unit.leaf.repair(&bytes, unit.offset).await;
        }
        self.fault();
    }

    /// The bytes that a stale member should have of a block's rows, and lacks: offset on its disk and bytes of each unit.
    pub(super) async fn lacking_units(
        &self,
        rows: &Rows,
        leaf: &Arc<Leaf>,
        found: &FoundRows,
    ) -> Vec<(u64, Vec<u8>)> {
        let unit = rows.unit();
        let Some(member) = self.index_of(leaf) else {
            return Vec::new();
        };
        let mut lacking = Vec::new();
        let all = found.read.iter().zip(&found.right);
        for (row, right) in all.filter(|(row, _)| row.is_enough(rows.parity())) {
            let Some(column) = row.band.column(member) else {
                continue;
            };
            let offset = row.offset(unit);
            let right = &right.all()[column];
            let buf = self.row_buffers().alloc(unit).await;
            let (result, buf) = leaf.read(buf, offset).await;
            let has_it = result.is_ok() && buf.is_some_and(|buf| buf[..] == right[..]);
            if !has_it {
                lacking.push((offset, right.clone()));
            }
        }
        lacking
    }
}

impl FoundRows {
    /// Whether a member was not to be read, by index.
    pub(super) fn is_absent(&self, member: usize) -> bool {
        self.sources[member].is_none()
    }

    /// Whether it was read from stale members too.
    pub(super) fn has_stale(&self) -> bool {
        self.sources.iter().flatten().any(|(_, is_in)| !is_in)
    }

    /// Units that are wrong on members that are in: those of the block itself, and parity of rows that have nothing else. What
    /// other blocks have in these rows was not verified. Counts errors of checksums.
    pub(super) fn wrong_units(&self, rows: &Rows, with_parity: bool) -> Vec<WrongUnit> {
        let mut wrong = Vec::new();
        for (row, right) in self.read.iter().zip(&self.right) {
            let is_own = |column: usize| row.is_own(column);
            let mut right = right.clone();
            let is_whole = with_parity && (0..row.band.data()).all(is_own);
            if is_whole {
                right.compute();
            }
            wrong.extend(self.differing_units(rows, row, &right, |c| is_own(c) || is_whole));
        }
        WrongUnit::count_all(&wrong);
        wrong
    }

    /// Units of these columns of a row that are wrong on members that are in.
    pub(super) fn differing_units(
        &self,
        rows: &Rows,
        row: &Row,
        right: &Columns,
        is_asked: impl Fn(usize) -> bool,
    ) -> Vec<WrongUnit> {
        let mut wrong = Vec::new();
        for column in (0..row.band.members()).filter(|column| is_asked(*column)) {
            let was_read = !row.missing.contains(&column);
            let is_right = was_read && row.columns.all()[column] == right.all()[column];
            let Some((leaf, true)) = &self.sources[row.band.member(column)] else {
                continue;
            };
            if !is_right {
                wrong.push(WrongUnit {
                    leaf: leaf.clone(),
                    offset: row.offset(rows.unit()),
                    bytes: right.all()[column].clone(),
                    was_read,
                });
            }
        }
        wrong
    }
}
