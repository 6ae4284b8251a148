//! Rebuild of a stale member by runs of blocks.
//!
//! **Owns** the copy of a run: large reads of the sources, verification of each block, large writes to the member. **Called by**
//! the resilver, in the order of addresses. **Invariants**: bytes are written only if every block of the run has its pointer's
//! checksum; a run that is not right as read is taken apart, block by block; two runs that share a row of a raidz are not
//! rebuilt at once. `docs/decisions/0160`.

use std::ops::Range;
use std::sync::Arc;

use io::{IoBuf, SharedBuf};

use super::Vdevs;
use super::area::filled;
use super::copies::PlacedBlock;
use super::error::SetupError;
use super::geometry::DATA_START;
use super::leaf::Leaf;
use super::limits::{RUN_CHAIN_MAX, RUN_SIZE};
use super::members::Resilvered;
use super::parity::Columns;
use super::raidz_read::{ReadFrom, Span};
use super::rows::{Band, Rows};
use super::top::TopVdev;
use crate::error::{Error, Result};
use crate::format::{Birth, Defect, MemberGuid};
use crate::written::WriteClass;

/// Bytes at an offset of a member's disk.
type Part = (u64, Vec<u8>);

/// Whether each block of a run is right in these bytes, which begin with the first block.
fn right_blocks(run: &[PlacedBlock], bytes: &[u8]) -> Vec<bool> {
    let start = run[0].at.offset.0;
    let is_right = |PlacedBlock { ptr, at, .. }: &PlacedBlock| {
        let from = (at.offset.0 - start) as usize;
        ptr.verify(&bytes[from..from + ptr.physical_size as usize])
            .is_ok()
    };
    run.iter().map(is_right).collect()
}

impl Vdevs {
    fn end_of(&self, block: &PlacedBlock) -> u64 {
        block.at.offset.0 + self.allocated(&block.ptr)
    }

    /// Whether a block begins in the row of a raidz in which another one before it ends.
    pub(crate) fn shares_row(&self, before: &PlacedBlock, next: &PlacedBlock) -> bool {
        let last = self.rows_of(*before).map(|rows| *rows.end());
        let first = self.rows_of(*next).map(|rows| *rows.start());
        last.is_some() && last == first
    }

    /// Whether one operation on each member reaches the end of a block and the next block.
    fn is_adjacent(&self, before: &PlacedBlock, next: &PlacedBlock) -> bool {
        match self.top(next.at.vdev).and_then(TopVdev::rows) {
            Some(rows) => {
                rows.start_of_row(next.at.offset.0) <= rows.end_of_row(self.end_of(before) - 1)
            }
            None => next.at.offset.0 == self.end_of(before),
        }
    }

    /// The first of these blocks that are rebuilt together. The blocks are of one vdev, in the order of addresses.
    pub(crate) fn first_run<'a>(
        &self,
        blocks: impl IntoIterator<Item = &'a PlacedBlock>,
    ) -> Vec<PlacedBlock> {
        let mut run: Vec<PlacedBlock> = Vec::new();
        for next in blocks {
            if self.stored_size(&next.ptr).is_err() {
                // it is lost, and says nothing about its neighbours
                run.extend(run.is_empty().then_some(next));
                break;
            }
            if let (Some(first), Some(last)) = (run.first(), run.last()) {
                let len = self.end_of(next) - first.at.offset.0;
                let joins = self.shares_row(last, next) && len <= RUN_CHAIN_MAX
                    || self.is_adjacent(last, next) && len <= RUN_SIZE;
                if !joins {
                    break;
                }
            }
            run.push(*next);
        }
        run
    }

    /// Writes a run of blocks to a stale member. A member that has blocks of some age may have these too: it is read first, and
    /// gets only what it lacks.
    ///
    /// # Errors
    /// As [`Vdevs::resilver`].
    pub(crate) async fn rebuild(
        &self,
        member: MemberGuid,
        run: &[PlacedBlock],
    ) -> std::result::Result<Resilvered, SetupError> {
        let (top, leaf, held) = self.stale_member(member)?;
        let is_placed = run.iter().all(|b| self.stored_size(&b.ptr).is_ok());
        let done = match top.rows() {
            _ if !is_placed => Ok(None),
            Some(rows) => Box::pin(self.rebuild_rows(top, &rows, (&leaf, held), run)).await,
            None => self.rebuild_copies(top, (&leaf, held), run).await,
        };
        match done {
            Ok(Some(done)) => Ok(done),
            Ok(None) => self.resilver_at(member, run.iter().copied()).await,
            Err(e @ Error::FileSystemFull { .. }) => Err(SetupError::failed(e)),
            Err(_) => Err(SetupError::Missed { member }),
        }
    }

    /// Writes a part of a run to the member.
    ///
    /// # Errors
    /// If the member missed it.
    async fn put(
        &self,
        top: &TopVdev,
        leaf: &Arc<Leaf>,
        bytes: &SharedBuf,
        offset: u64,
    ) -> Result<()> {
        let written = leaf.write(bytes, offset, WriteClass::Repair).await;
        if written.is_err() {
            top.miss(leaf);
            return Err(leaf.write_error());
        }
        top.count_write();
        Ok(())
    }

    /// Copies a run of a mirror from a member that is in. Nothing if a block is not right there.
    async fn rebuild_copies(
        &self,
        top: &TopVdev,
        (leaf, held): (&Arc<Leaf>, Birth),
        run: &[PlacedBlock],
    ) -> Result<Option<Resilvered>> {
        let start = run[0].at.offset;
        let size = (self.end_of(&run[run.len() - 1]) - start.0) as usize;
        let read = async |from: &Arc<Leaf>| {
            let buf = self.scratch.alloc(size).await;
            let (result, buf) = from.read(buf, DATA_START + start.0).await;
            buf.filter(|_| result.is_ok())
        };
        let had: Vec<bool> = match held {
            Birth(0) => vec![false; run.len()],
            _ => match read(leaf).await {
                Some(bytes) => right_blocks(run, &bytes),
                None => vec![false; run.len()],
            },
        };
        let mut done = Resilvered {
            had: had.iter().filter(|had| **had).count() as u64,
            ..Resilvered::default()
        };
        if done.had == run.len() as u64 {
            return Ok(Some(done));
        }
        let sources = top.readable(start).into_iter();
        let Some((source, _)) = sources.into_iter().find(|(_, is_in)| *is_in) else {
            return Ok(None);
        };
        let Some(bytes) = read(&source).await else {
            return Ok(None);
        };
        let mut right = right_blocks(run, &bytes).into_iter().zip(&had);
        if right.any(|(is_right, had)| !is_right && !had) {
            return Ok(None);
        }
        let bytes = SharedBuf::from(bytes);
        for range in self.lacking(run, &had) {
            let (at, len) = (range.start, (range.end - range.start) as usize);
            let part = bytes.part((at - start.0) as usize, len);
            self.put(top, leaf, &part, DATA_START + at).await?;
        }
        done.copied = run.len() as u64 - done.had;
        Ok(Some(done))
    }

    /// The ranges of adjacent blocks that a member does not have.
    fn lacking(&self, run: &[PlacedBlock], had: &[bool]) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for (ptr, _) in run.iter().zip(had).filter(|(_, had)| !**had) {
            let (start, end) = (ptr.at.offset.0, self.end_of(ptr));
            match ranges.last_mut() {
                Some(range) if range.end == start => range.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Rebuilds the member's column of the rows of a run. Nothing if the blocks are not right by any choice of members that lie.
    async fn rebuild_rows(
        &self,
        top: &TopVdev,
        rows: &Rows,
        (leaf, held): (&Arc<Leaf>, Birth),
        run: &[PlacedBlock],
    ) -> Result<Option<Resilvered>> {
        let (start, end) = (run[0].at.offset.0, self.end_of(&run[run.len() - 1]));
        let read = top.member_column(rows, leaf, start..end).await;
        let read = read.filter(|(bytes, _)| !right_blocks(run, bytes).contains(&false));
        let parts = match read {
            Some((_, parts)) => parts,
            None => {
                let len = (end - start) as usize;
                let all_right = |bytes: &[u8]| match right_blocks(run, bytes).contains(&false) {
                    true => Err(Defect::Checksum),
                    false => Ok(()),
                };
                let sources = top.sources(false);
                let found = top.search_rows(rows, run[0].at, len, sources, all_right);
                let Ok(found) = found.await else {
                    return Ok(None);
                };
                top.lacking_units(rows, leaf, &found).await
            }
        };
        let mut done = Resilvered::default();
        for (offset, bytes) in parts {
            if held > Birth(0) && top.has_bytes(leaf, offset, &bytes).await {
                continue;
            }
            let bytes: IoBuf = filled(&self.scratch, &bytes).await;
            self.put(top, leaf, &bytes.into(), offset).await?;
            done.copied = run.len() as u64;
        }
        done.had = run.len() as u64 - done.copied;
        Ok(Some(done))
    }
}

/// The columns of bands as read, by band and column. A column of a member that is not to be read is missing.
pub(super) type BandColumns = Vec<Vec<Option<Vec<u8>>>>;

impl TopVdev {
    /// Reads all columns of bands. Nothing if one of them cannot be read from a member that is to be read.
    pub(super) async fn read_bands(
        &self,
        bands: &[Band],
        unit: usize,
        sources: &[ReadFrom],
    ) -> Option<BandColumns> {
        let nothing = |band: &Band| vec![None; band.members()];
        let mut columns: BandColumns = bands.iter().map(nothing).collect();
        let mut spans = Vec::new();
        for (index, band) in bands.iter().enumerate() {
            for column in 0..band.members() {
                if let Some((leaf, _)) = &sources[band.member(column)] {
                    spans.push(Span {
                        leaf: leaf.clone(),
                        offset: band.offset,
                        len: band.rows * unit,
                        place: (index, column, 0),
                    });
                }
            }
        }
        let wanted = spans.len();
        let mut got = 0;
        self.read_spans(spans, |span, bytes| {
            let (index, column, _) = span.place;
            got += usize::from(bytes.is_some());
            columns[index][column] = bytes.map(<[u8]>::to_vec);
        })
        .await;
        (got == wanted).then_some(columns)
    }

    /// Whether a member has these bytes.
    async fn has_bytes(&self, leaf: &Arc<Leaf>, offset: u64, bytes: &[u8]) -> bool {
        let buf = self.row_buffers().alloc(bytes.len()).await;
        let (result, buf) = leaf.read(buf, offset).await;
        result.is_ok() && buf.is_some_and(|buf| buf[..] == *bytes)
    }

    /// Reads a range behind the journal from the members that are in, without verification. Returns its bytes, and the column of
    /// a member that is not in, by band. Nothing if a member cannot be read, or too few are in.
    async fn member_column(
        &self,
        rows: &Rows,
        leaf: &Arc<Leaf>,
        range: Range<u64>,
    ) -> Option<(Vec<u8>, Vec<Part>)> {
        let unit = rows.unit();
        let member = self.index_of(leaf)?;
        let sources = self.sources(false);
        let len = range.end - range.start;
        let bands = rows.bands(range.start, len, u64::from(u32::MAX));
        let columns = self.read_bands(&bands, unit, &sources).await?;
        let mut bytes = Vec::with_capacity(len as usize);
        let mut parts = Vec::with_capacity(bands.len());
        for (band, columns) in bands.iter().zip(columns) {
            let all = columns.iter().enumerate();
            let missing: Vec<usize> = all.filter(|(_, c)| c.is_none()).map(|(n, _)| n).collect();
            let zeroes = || vec![0; band.rows * unit];
            let columns = columns.into_iter().map(|c| c.unwrap_or_else(zeroes));
            let mut columns = Columns::new(columns.collect(), band.data());
            if !columns.reconstruct(&missing) {
                return None;
            }
            let data = band.data();
            for (row, column) in (0..band.rows).flat_map(|r| (0..data).map(move |c| (r, c))) {
                if band.unit(row, column).is_some() {
                    bytes.extend_from_slice(&columns.all()[column][row * unit..][..unit]);
                }
            }
            if let Some(column) = band.column(member) {
                let own = &mut columns.all_mut()[column];
                parts.push((band.offset, std::mem::take(own)));
            }
        }
        Some((bytes, parts))
    }
}
