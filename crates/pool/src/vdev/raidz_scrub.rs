//! Scrub of whole rows of a raidz: parity, and sectors in which no block lies.
//!
//! **Owns** the test whether a row is valid, and the choice of the units of it that are wrong. **Called by** scrub.
//! **Invariants**: a row is changed only if all of its blocks are verified and are on their members as they were verified;
//! a unit of a block is not changed here. So a power cut meanwhile damages no block, and parity is never computed from a
//! sector of a block that was not verified. `docs/decisions/0159`.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use super::parity::{Columns, choices};
use super::raidz_read::{FoundRows, Row, WrongUnit};
use super::rows::Rows;
use super::top::TopVdev;
use super::{PlacedBlock, Vdevs};
use crate::format::{Address, BlockSpace, VdevOffset};

/// The result of a block's scrub.
#[derive(Debug, Default)]
pub(crate) struct BlockScrub {
    /// Wrong copies, or units of a raidz, that were rewritten.
    pub(crate) repaired: usize,
    /// Rows that are not valid, although the block itself is right.
    pub(crate) doubtful: Vec<Address>,
}

/// Units of the blocks of a row that were verified, by column.
type Verified = BTreeMap<usize, Vec<u8>>;

/// A row as it should be.
struct ValidRow {
    columns: Columns,
    /// Whether no other valid row differs from the row as read in as few columns. Only then it is known which members are
    /// wrong.
    is_only: bool,
}

/// The valid row that has the verified units and differs in the fewest columns from the row as read; of several, one that
/// differs in parity. If there is none with as few columns as parity can find, the row with parity of the data as read.
/// `None` if too few columns were read.
fn valid_row(row: &Row, verified: &Verified, data: usize) -> Option<ValidRow> {
    let members = row.columns.all().len();
    let surplus = (members - data).checked_sub(row.missing.len())?;
    let is_other = |c: &usize| !verified.contains_key(c) && !row.missing.contains(c);
    let others: Vec<usize> = (0..members).rev().filter(is_other).collect();
    let valid = |wrong: Vec<usize>| {
        let mut tried = row.columns.clone();
        let doubted = [&row.missing[..], &wrong].concat();
        let is_valid = tried.reconstruct(&doubted) && tried.wrong_parity().is_empty();
        let mut units = verified.iter();
        let has_units = units.all(|(column, bytes)| tried.all()[*column] == *bytes);
        (is_valid && has_units).then_some(tried)
    };
    for count in 0..=surplus {
        let mut found = choices(&others, count).into_iter().filter_map(valid);
        if let Some(columns) = found.next() {
            let is_only = found.next().is_none();
            return Some(ValidRow { columns, is_only });
        }
    }
    if row.missing.iter().any(|column| *column < data) {
        return None;
    }
    let mut columns = row.columns.clone();
    columns.compute();
    let is_only = false;
    Some(ValidRow { columns, is_only })
}

impl FoundRows {
    /// The addresses of rows that are not valid on the members that are in, if the block's own units are right. Rows that
    /// have only this block are left out: their parity follows from the block.
    pub(super) fn doubtful_rows(&self) -> Vec<u64> {
        if self.has_stale() {
            return Vec::new();
        }
        let all = self.read.iter().zip(&self.right);
        let is_doubtful = |(row, right): &(&Row, &Columns)| {
            let data = row.band.data();
            let is_own = |c: &usize| row.is_own(*c);
            let own: Vec<usize> = (0..data).filter(is_own).collect();
            if own.len() == data {
                return false;
            }
            let rest: Vec<usize> = row.missing.iter().copied().filter(|c| !is_own(c)).collect();
            if rest.iter().any(|c| !self.is_absent(row.band.member(*c))) {
                return true;
            }
            let mut seen = row.columns.clone();
            for column in own {
                seen.all_mut()[column].copy_from_slice(&right.all()[column]);
            }
            seen.reconstruct(&rest) && !seen.wrong_parity().is_empty()
        };
        all.filter(is_doubtful)
            .map(|(row, _)| row.address())
            .collect()
    }
}

impl TopVdev {
    /// The units of a row that are wrong on members that are in. `blocks` are all blocks in the row. Nothing if a block
    /// cannot be verified, or is not on its members as it should be: its own repair comes first.
    async fn wrong_in_row(
        &self,
        rows: &Rows,
        at: u64,
        blocks: &[PlacedBlock],
        space: BlockSpace,
    ) -> Vec<WrongUnit> {
        let mut verified = Verified::new();
        let mut last = None;
        for block in blocks {
            let len = space.of_block(&block.ptr) as usize;
            let Ok(found) = self.find_rows_in(rows, *block, len).await else {
                return Vec::new();
            };
            let number = found.read.iter().position(|row| row.address() == at);
            let Some(number) = number else {
                return Vec::new();
            };
            let row = &found.read[number];
            let own = (0..row.band.data()).filter(|c| row.is_own(*c));
            let unit = |column: usize| (column, found.right[number].all()[column].clone());
            verified.extend(own.map(unit));
            last = Some((found, number));
        }
        let Some((found, number)) = last else {
            return Vec::new();
        };
        let row = &found.read[number];
        let is_there = |(column, bytes): (&usize, &Vec<u8>)| {
            row.missing.contains(column) || row.columns.all()[*column] == *bytes
        };
        if !verified.iter().all(is_there) {
            return Vec::new();
        }
        let Some(valid) = valid_row(row, &verified, row.band.data()) else {
            return Vec::new();
        };
        let wrong = found.differing_units(rows, row, &valid.columns, |_| true);
        if valid.is_only {
            WrongUnit::count_all(&wrong);
        }
        wrong
    }
}

impl Vdevs {
    /// The first and the last row that a block reaches into; `None` on a vdev without rows.
    pub(crate) fn rows_of(&self, block: impl Into<PlacedBlock>) -> Option<RangeInclusive<Address>> {
        let PlacedBlock { ptr, at, .. } = block.into();
        let rows = self.top(at.vdev)?.rows()?;
        let row = |offset: u64| Address {
            vdev: at.vdev,
            offset: VdevOffset(rows.start_of_row(offset)),
        };
        let size = self.stored_size(&ptr).ok()? as u64;
        Some(row(at.offset.0)..=row(at.offset.0 + size - 1))
    }

    /// The addresses of the data units of a row.
    pub(crate) fn units_of_row(&self, row: Address) -> impl Iterator<Item = Address> + use<> {
        let top = self.top(row.vdev);
        let rows = top.and_then(|top| Some((top.rows()?, top.end())));
        let (count, unit) = rows.map_or((0, 0), |(rows, end)| {
            // the last wide row of an expansion reaches behind the end
            let bytes = rows.end_of_row(row.offset.0).min(end) - row.offset.0.min(end);
            (bytes as usize / rows.unit(), rows.unit())
        });
        (0..count).map(move |n| row.behind(n * unit))
    }

    /// Rewrites the units of a row that are wrong, parity or units without a block. `blocks` are all blocks in the row; the
    /// row is not given out meanwhile. Returns the number of these units.
    pub(crate) async fn mend_row(&self, row: Address, blocks: &[PlacedBlock]) -> usize {
        let top = self.top(row.vdev).and_then(|top| Some((top, top.rows()?)));
        let Some((top, rows)) = top.filter(|_| !self.read_only) else {
            return 0;
        };
        let space = self.block_space();
        let wrong = top.wrong_in_row(&rows, row.offset.0, blocks, space).await;
        let count = wrong.len();
        top.mend_units(wrong).await;
        count
    }
}
