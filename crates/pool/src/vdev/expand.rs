//! Expansion of a raidz by one disk.
//!
//! **Owns** the checks of the new disk, the copy of old rows into rows that are one unit wider, and the position that labels record.
//! **Called by** the pool's owner, which chooses what is moved and when. **Invariants**: a row is written in its place only if all
//! addresses of the rows that were there are below the position that labels durably record, and only after operations on these rows
//! have ended; rows are read with all columns, and their parity is compared before it counts; a member that is not in when the position
//! advances has no block. `docs/decisions/0166`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use io::SharedBuf;
use io::disk::Disk;

use super::add::FIRST;
use super::area::{self, filled};
use super::create::guid;
use super::error::SetupError;
use super::geometry::data_size_max;
use super::leaf::Leaf;
use super::limits::{EXPANSION_BATCH, EXPANSION_CHUNK, EXPANSION_CHUNKS_MAX};
use super::member::{Member, MemberState};
use super::parity::Columns;
use super::raidz_read::Row;
use super::row_places::{Moving, PlacesHold, RowPlaces};
use super::rows::{Band, Rows};
use super::space_below::reserve;
use super::top::TopVdev;
use super::{PlacedBlock, Vdevs};
use crate::error::{Error, Result};
use crate::format::{
    Address, Birth, Expansion, MEMBERS_MAX, MemberEntry, MemberGuid, Membership, SCRATCH_AREA_SIZE,
    VdevId, VdevOffset,
};
use crate::shared::all;
use crate::written::WriteClass;

/// The progress of an expansion, for operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpansionStatus {
    /// Bytes of data and parity below the position, on each member.
    pub done: u64,
    /// Bytes of data and parity on each member that rows of the new width take in the end.
    pub of: u64,
}

/// What an expansion moves next.
#[derive(Debug, Default)]
pub(crate) struct RowsToMove {
    /// The position to which rows are moved.
    pub(crate) end: u64,
    /// The addresses whose contents count; others may be lost.
    pub(crate) kept: Vec<Range<u64>>,
    /// Rows, by address, that may be moved although they are not valid.
    pub(crate) known: BTreeSet<u64>,
    /// All blocks of these rows that are in use.
    pub(crate) blocks: Vec<PlacedBlock>,
}

/// The result of a step of an expansion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MoveStep {
    /// The position advanced.
    Moved,
    /// The position is at the end.
    Ended,
    /// These rows are not valid: the addresses that name them.
    Doubtful(Vec<Address>),
}

/// A copy that was read, or the rows that are not valid.
type Sound = std::result::Result<Vec<u8>, Vec<u64>>;

impl RowsToMove {
    /// The rows of a range that have kept addresses, in runs.
    fn rows(&self, rows: &Rows, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for kept in &self.kept {
            let first = rows.rows_below(kept.start).max(range.start);
            let behind = rows.rows_below(kept.end - 1) + 1;
            let behind = behind.min(range.end);
            if first >= behind {
                continue;
            }
            match runs.last_mut().filter(|run| first <= run.end) {
                Some(run) => run.end = run.end.max(behind),
                None => runs.push(first..behind),
            }
        }
        runs
    }
}

impl Vdevs {
    /// Whether a vdev is a raidz.
    #[must_use]
    pub fn is_raidz(&self, vdev: VdevId) -> bool {
        self.top(vdev).is_some_and(|top| top.places().is_some())
    }

    /// The progress of a vdev's expansion; `None` if there is none.
    #[must_use]
    pub fn expansion(&self, vdev: VdevId) -> Option<ExpansionStatus> {
        self.top(vdev).and_then(TopVdev::expansion)
    }

    /// The vdevs that are being expanded.
    pub(crate) fn expanding(&self) -> Vec<VdevId> {
        let expanding = self.stripe.iter().filter(|top| top.expansion().is_some());
        expanding.map(TopVdev::id).collect()
    }

    /// Keeps the places of a vdev's rows as they are, until the result is dropped. Waits while an expansion moves some.
    pub(crate) async fn hold_places(&self, vdev: VdevId) -> PlacesHold {
        match self.top(vdev).and_then(TopVdev::places) {
            Some(places) => places.hold().await,
            None => PlacesHold::of_nothing(),
        }
    }

    /// Adds a disk to a raidz: its rows are to be one unit wider. The disk is a member when this returns; the rows are moved later.
    ///
    /// # Errors
    /// [`SetupError::NoVdev`], [`SetupError::NoRaidz`], [`SetupError::Shape`], [`SetupError::Expanding`], [`SetupError::Degraded`],
    /// [`SetupError::Truncated`], [`SetupError::BlockSize`], [`SetupError::InUse`] unless forced, [`SetupError::ReadOnly`],
    /// [`SetupError::FileSystemFull`]: with nothing written. [`SetupError::Io`] and [`SetupError::Device`] if writing failed; after
    /// the second the disk may be a member.
    pub async fn expand(
        &self,
        vdev: VdevId,
        disk: Disk,
        force: bool,
    ) -> std::result::Result<MemberGuid, SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let top = self.top(vdev).ok_or(SetupError::NoVdev { vdev })?;
        top.check_expandable()?;
        self.check_disk(top, &disk)?;
        self.check_new(std::slice::from_ref(&disk), force).await?;
        reserve(&disk, disk.info().size, 0).await?;
        let wiped = area::wipe_labels(&disk, disk.info().size, &self.scratch).await;
        wiped.map_err(|error| SetupError::Io {
            path: disk.info().path.clone(),
            error,
        })?;
        let member = MemberGuid(guid());
        let new = Member::new(Leaf::new(member, disk), MemberState::Online, Birth(0));
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        let failed = SetupError::failed;
        if self.shared().durable <= FIRST {
            self.write_labels().await.map_err(failed)?;
        }
        self.announce_member(top, &new).await?;
        {
            // no member left while the new disk got its label
            let mut members = top.members();
            let places = top.check_expandable_locked(&members)?;
            let rows = places.now().with_member();
            members.push(new);
            places.set_labelled(rows.expansion());
            places.publish(rows);
        }
        self.changes.count();
        self.write_labels().await.map_err(failed)?;
        drop(turn);
        // every member that is in has all uberblocks
        let rings = self.scrub_rings().await;
        rings.map_err(failed)?;
        Ok(member)
    }

    /// Writes a label to a disk that joins a raidz, older than any valid label. The caller has the turn to write labels.
    async fn announce_member(
        &self,
        top: &TopVdev,
        new: &Member,
    ) -> std::result::Result<(), SetupError> {
        let mut shared = self.shared().clone();
        shared.epoch = FIRST;
        let tops: Vec<_> = self.stripe.all().collect();
        let mut label = self
            .labels(shared, &tops)
            .swap_remove(usize::from(top.id().0));
        let entry = &mut label.vdevs[usize::from(top.id().0)];
        entry.first_members = entry.journal_members();
        entry.members += 1;
        entry.expansion = Some(Expansion::default());
        label.disk = new.leaf.guid();
        label.members.push(MemberEntry {
            guid: label.disk,
            membership: Membership::In,
            held: Birth(0),
        });
        match area::write_label(&new.leaf, &label, &self.scratch).await {
            true => Ok(()),
            false => Err(SetupError::Device),
        }
    }

    /// Begins to move rows of a vdev. `None` if a member is not in, if a resilver or a repair of rows is in progress, or if there is no
    /// expansion.
    pub(crate) fn begin_moving(&self, vdev: VdevId) -> Option<Moving> {
        let top = self.top(vdev)?;
        top.expansion()?;
        let moving = top.places()?.begin_moving()?;
        top.are_all_in().then_some(moving)
    }

    /// Whether all members of a vdev are in.
    pub(crate) fn are_all_in(&self, vdev: VdevId) -> bool {
        self.top(vdev).is_some_and(TopVdev::are_all_in)
    }

    /// The first position of an expansion at or behind an address from which it can go on: rows that end at or below the
    /// address are below it. `None` if there is none yet.
    pub(crate) fn position_below(&self, vdev: VdevId, at: u64) -> Option<u64> {
        let top = self.top(vdev)?;
        let rows = top.rows()?;
        let last = rows.rows_to_move(top.data_size());
        let position = match at >= top.end() {
            true => last,
            false => rows.rows_below(at).min(last),
        };
        let goes_on = !rows.in_place(position).free_rows().is_empty();
        (goes_on || position == last).then_some(position)
    }

    /// Moves the next rows. `pace` is called after each copy.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::FileSystemFull`]: nothing is lost, and the step may be repeated.
    pub(crate) async fn move_rows(
        &self,
        vdev: VdevId,
        _moving: &Moving,
        task: &RowsToMove,
        pace: &impl AsyncFn(),
    ) -> Result<MoveStep> {
        let top = self.top(vdev).ok_or(Error::Device)?;
        let places = top.places().ok_or(Error::Device)?;
        places.former_end().await;
        let rows = places.now();
        let Some(expansion) = rows.expansion() else {
            return Ok(MoveStep::Ended);
        };
        let position = expansion.position;
        let copy = async |range: Range<u64>, to: Rows| {
            self.copy_rows(top, (&rows, to), range, task, pace).await
        };
        let Some(next) = next_move(&rows, task) else {
            return Ok(MoveStep::Ended);
        };
        let doubtful = match next {
            NextMove::Jump { .. } => Vec::new(),
            NextMove::FromScratch(ref range) => {
                copy(range.clone(), rows.in_place(position)).await?
            }
            NextMove::ToScratch { to } => {
                let range = position..to;
                copy(range.clone(), rows.in_scratch(&range)).await?
            }
            NextMove::InPlace { to } => copy(position..to, rows.in_place(to)).await?,
        };
        if !doubtful.is_empty() {
            let row = |at| Address {
                vdev,
                offset: VdevOffset(at),
            };
            return Ok(MoveStep::Doubtful(doubtful.into_iter().map(row).collect()));
        }
        let after = match next {
            NextMove::FromScratch(_) => position,
            NextMove::Jump { to } | NextMove::ToScratch { to } | NextMove::InPlace { to } => to,
        };
        let has_scratch = matches!(next, NextMove::ToScratch { .. });
        let expansion = Expansion {
            position: after,
            has_scratch,
        };
        drop(rows);
        self.advance(top, Some(expansion)).await?;
        Ok(MoveStep::Moved)
    }

    /// Ends the expansion of a vdev if all of its rows are moved: its addresses end later from then on. Returns whether they are.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub(crate) async fn end_expansion_if_moved(
        &self,
        vdev: VdevId,
        _moving: &Moving,
    ) -> Result<bool> {
        let top = self.top(vdev).ok_or(Error::Device)?;
        let rows = top.rows().ok_or(Error::Device)?;
        let is_moved = rows.expansion().is_some_and(|expansion| {
            !expansion.has_scratch && expansion.position >= rows.rows_to_move(top.data_size())
        });
        drop(rows);
        if is_moved {
            self.advance(top, None).await?;
        }
        Ok(is_moved)
    }

    /// Records a state of the expansion on all members, and uses it from then on. What was written is durable before.
    async fn advance(&self, top: &TopVdev, expansion: Option<Expansion>) -> Result<()> {
        let places = top.places().ok_or(Error::Device)?;
        let _stable = self.flush().await?;
        for member in top.members().iter_mut() {
            // it may lack moved blocks of any age
            if member.state != MemberState::Online {
                member.held = Birth(0);
            }
        }
        places.set_labelled(expansion);
        self.relabel().await?;
        let rows = places.now();
        places.publish(rows.at(expansion));
        Ok(())
    }

    /// Copies the kept rows of a range from their present places to others. Returns the rows that are not valid, and must not be
    /// copied before they are known.
    async fn copy_rows(
        &self,
        top: &TopVdev,
        (from, to): (&Rows, Rows),
        range: Range<u64>,
        task: &RowsToMove,
        pace: &impl AsyncFn(),
    ) -> Result<Vec<u64>> {
        let most = (EXPANSION_CHUNK / from.row_size()).max(1);
        let runs = task.rows(from, &range).into_iter();
        let chunks = runs.flat_map(|run| {
            let starts = run.clone().step_by(most as usize);
            starts.map(move |start| start..run.end.min(start + most))
        });
        let chunks: Vec<Range<u64>> = chunks.collect();
        for some in chunks.chunks(EXPANSION_CHUNKS_MAX) {
            let copies = some
                .iter()
                .map(|rows| self.copy_chunk(top, (from, &to), rows, task));
            let mut doubtful = Vec::new();
            for copied in all(copies).await {
                doubtful.extend(copied?);
            }
            if !doubtful.is_empty() {
                return Ok(doubtful);
            }
            pace().await;
        }
        Ok(Vec::new())
    }

    /// Copies rows that are read at once. Returns the ones that are not valid; then nothing is written.
    async fn copy_chunk(
        &self,
        top: &TopVdev,
        (from, to): (&Rows, &Rows),
        rows: &Range<u64>,
        task: &RowsToMove,
    ) -> Result<Vec<u64>> {
        let all_end = from.end(top.data_size());
        let (at, behind) = (from.address_of(rows.start), from.address_of(rows.end));
        let len = (behind.min(all_end) - at) as usize;
        let mut bytes = match self.read_sound(top, from, (at, len), task).await? {
            Ok(bytes) => bytes,
            Err(doubtful) => return Ok(doubtful),
        };
        bytes.resize((behind - at) as usize, 0);
        let data = SharedBuf::from(filled(&self.scratch, &bytes).await);
        let at = VdevOffset(at);
        top.write_parts(to, at, &data, WriteClass::Repair).await?;
        Ok(Vec::new())
    }

    /// Reads a range of whole rows of the new width, and compares parity. Rows that are known are read as they are, but for blocks
    /// that can be verified.
    async fn read_sound(
        &self,
        top: &TopVdev,
        rows: &Rows,
        (at, len): (u64, usize),
        task: &RowsToMove,
    ) -> Result<Sound> {
        let unit = rows.unit();
        let bands = rows.bands(at, len as u64, u64::from(u32::MAX));
        let sources = top.sources(false);
        if let Some(read) = top.read_bands(&bands, unit, &sources).await {
            let columns = bands.iter().zip(read);
            let columns = columns.map(|(band, columns)| whole_columns(band, columns));
            let columns: Option<Vec<Columns>> = columns.collect();
            if let Some(columns) = columns
                && columns.iter().all(|c| c.wrong_parity().is_empty())
            {
                return Ok(Ok(units_of(&bands, &columns, unit, len)));
            }
        }
        let read = top.read_rows(rows, at, len, &sources).await;
        let is_valid = |row: &Row| row.missing.is_empty() && row.columns.wrong_parity().is_empty();
        let wrong: Vec<u64> = read
            .iter()
            .filter(|row| !is_valid(row))
            .map(Row::address)
            .collect();
        if wrong.iter().any(|row| !task.known.contains(row)) {
            return Ok(Err(wrong));
        }
        let verified = self.verified_units(top, rows, task, &wrong).await;
        let mut bytes = Vec::with_capacity(len);
        for row in &read {
            let mut columns = row.columns.clone();
            let _as_read_if_too_few = columns.reconstruct(&row.missing);
            for column in (0..row.band.data()).filter(|column| row.is_own(*column)) {
                let at = at + bytes.len() as u64;
                let unit = verified.get(&at).unwrap_or(&columns.all()[column]);
                bytes.extend_from_slice(unit);
            }
        }
        tracing::warn!(
            vdev = top.id().0,
            rows = wrong.len(),
            "rows that are not valid were moved as they are"
        );
        Ok(Ok(bytes))
    }

    /// The units of the known blocks in these rows that can be verified, by address.
    async fn verified_units(
        &self,
        top: &TopVdev,
        rows: &Rows,
        task: &RowsToMove,
        wrong: &[u64],
    ) -> BTreeMap<u64, Vec<u8>> {
        let mut verified = BTreeMap::new();
        for block in &task.blocks {
            let size = self.allocated(&block.ptr) as usize;
            let first = block.at.offset.0;
            let last = first + size as u64 - 1;
            let reached = rows.start_of_row(first)..=rows.start_of_row(last);
            if !wrong.iter().any(|row| reached.contains(row)) {
                continue;
            }
            if let Ok(found) = top.find_rows_in(rows, *block, size).await {
                let units = (first..).step_by(rows.unit());
                let bytes = found.block.chunks(rows.unit()).map(<[u8]>::to_vec);
                verified.extend(units.zip(bytes));
            }
        }
        verified
    }
}

/// Columns of which none is missing.
fn whole_columns(band: &Band, columns: Vec<Option<Vec<u8>>>) -> Option<Columns> {
    let all: Option<Vec<Vec<u8>>> = columns.into_iter().collect();
    Some(Columns::new(all?, band.data()))
}

/// The bytes of a range in its bands.
fn units_of(bands: &[Band], columns: &[Columns], unit: usize, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len);
    for (band, columns) in bands.iter().zip(columns) {
        for row in 0..band.rows {
            for column in (0..band.data()).filter(|c| band.unit(row, *c).is_some()) {
                bytes.extend_from_slice(&columns.all()[column][row * unit..][..unit]);
            }
        }
    }
    assert_eq!(bytes.len(), len, "the units of a range");
    bytes
}

/// The next step of an expansion.
enum NextMove {
    /// Nothing before this position counts.
    Jump { to: u64 },
    /// Rows leave the scratch areas.
    FromScratch(Range<u64>),
    /// Rows from the position to this one go into the scratch areas.
    ToScratch { to: u64 },
    /// Rows from the position to this one go to their places.
    InPlace { to: u64 },
}

impl TopVdev {
    pub(super) fn expansion(&self) -> Option<ExpansionStatus> {
        let rows = self.rows()?;
        let expansion = rows.expansion()?;
        let unit = rows.unit() as u64;
        Some(ExpansionStatus {
            done: expansion.position * unit,
            of: rows.rows_to_move(self.data_size()) * unit,
        })
    }

    fn are_all_in(&self) -> bool {
        let members = self.members();
        members.iter().all(|m| m.state == MemberState::Online)
    }

    fn check_expandable(&self) -> std::result::Result<(), SetupError> {
        let members = self.members();
        self.check_expandable_locked(&members).map(drop)
    }

    fn check_expandable_locked(
        &self,
        members: &[Member],
    ) -> std::result::Result<&RowPlaces, SetupError> {
        let vdev = self.id();
        let places = self.places().ok_or(SetupError::NoRaidz { vdev })?;
        let rows = places.now();
        if rows.expansion().is_some() {
            return Err(SetupError::Expanding { vdev });
        }
        let got = members.len() + 1;
        if got > MEMBERS_MAX || self.data_size() > data_size_max(got - rows.parity()) {
            return Err(SetupError::Widest { vdev, got });
        }
        if members.iter().any(|m| m.state != MemberState::Online) {
            return Err(SetupError::Degraded { vdev });
        }
        Ok(places)
    }
}

/// The next step on the way to a task's end; `None` at the end.
fn next_move(rows: &Rows, task: &RowsToMove) -> Option<NextMove> {
    let expansion = rows.expansion()?;
    let position = expansion.position;
    if expansion.has_scratch {
        let scratch = expansion.scratch_rows(rows.unit() as u32);
        return Some(NextMove::FromScratch(scratch));
    }
    if position >= task.end {
        return None;
    }
    let in_area = SCRATCH_AREA_SIZE / rows.unit() as u64;
    let next = task.rows(rows, &(position..task.end));
    let mut to = next.first().map_or(task.end, |run| run.start);
    if to < task.end && rows.in_place(to).free_rows().is_empty() {
        to = to / in_area * in_area;
    }
    if to > position {
        return Some(NextMove::Jump { to });
    }
    let free = rows.free_rows();
    if position.is_multiple_of(in_area) && free.end - free.start < in_area {
        let to = task.end.min(position + in_area);
        return Some(NextMove::ToScratch { to });
    }
    let most = (EXPANSION_BATCH / rows.row_size()).max(1);
    let to = task.end.min(free.end).min(position + most);
    (to > position).then_some(NextMove::InPlace { to })
}

#[cfg(test)]
mod tests;
