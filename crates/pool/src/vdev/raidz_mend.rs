//! Rows that replay found torn.
//!
//! **Owns** the contents with which such rows are written again. **Called by** the journal's replay. **Invariants**: a row is
//! written with the verified bytes of all its blocks; where columns other than those of doubted members agree with them, only
//! doubted columns change, so that a power cut meanwhile loses nothing. `docs/decisions/0155`.

use std::collections::BTreeMap;

use super::parity::Columns;
use super::raidz_read::{FoundRows, Row};
use super::rows::Rows;
use super::top::TopVdev;
use crate::error::Result;
use crate::format::{BlockPtr, BlockSpace};

/// The bytes of one row as different blocks need it.
#[derive(Default)]
struct Versions<'a> {
    all: Vec<(&'a FoundRows, &'a Row, &'a Columns)>,
    /// Verified units, by column.
    verified: BTreeMap<usize, &'a [u8]>,
}

impl Versions<'_> {
    fn fits(&self, columns: &Columns) -> bool {
        let mut verified = self.verified.iter();
        verified.all(|(column, bytes)| columns.all()[*column] == *bytes)
            && columns.wrong_parity().is_empty()
    }

    /// The row as it should be.
    fn wanted(&self) -> Columns {
        let fitting = self.all.iter().find(|(_, _, right)| self.fits(right));
        if let Some((_, _, right)) = fitting {
            return (*right).clone();
        }
        let (_, row, _) = self.all[0];
        let mut columns = row.columns.clone();
        let _as_read_if_too_few = columns.reconstruct(&row.missing);
        for (column, bytes) in &self.verified {
            columns.all_mut()[*column].copy_from_slice(bytes);
        }
        columns.compute();
        columns
    }

    /// Whether every member that is in has this.
    fn is_on_members(&self, wanted: &Columns) -> bool {
        let (found, row, _) = self.all[0];
        (0..wanted.all().len()).all(|column| match row.missing.contains(&column) {
            true => found.is_absent(row.band.member(column)),
            false => row.columns.all()[column] == wanted.all()[column],
        })
    }
}

impl TopVdev {
    /// The rows of these blocks that are not on all members that are in as they should be: address and data of each. They are
    /// all blocks of the rows.
    ///
    /// # Errors
    /// As [`TopVdev::find_rows_in`].
    pub(super) async fn torn_rows(
        &self,
        rows: &Rows,
        blocks: &[BlockPtr],
        space: BlockSpace,
    ) -> Result<Vec<(u64, Vec<u8>)>> {
        let mut found = Vec::with_capacity(blocks.len());
        for ptr in blocks {
            let len = space.of_block(ptr) as usize;
            found.push(self.find_rows_in(rows, ptr, len).await?);
        }
        let mut versions: BTreeMap<u64, Versions> = BTreeMap::new();
        for found in &found {
            for (row, right) in found.read.iter().zip(&found.right) {
                let at = row.address();
                let of_row = versions.entry(at).or_default();
                of_row.all.push((found, row, right));
                let own = (0..row.band.data()).filter(|c| row.is_own(*c));
                let units = own.map(|column| (column, &right.all()[column][..]));
                of_row.verified.extend(units);
            }
        }
        let mut torn = Vec::new();
        for (at, versions) in &versions {
            let wanted = versions.wanted();
            if !versions.is_on_members(&wanted) {
                let data = versions.all[0].1.band.data();
                torn.push((*at, wanted.all()[..data].concat()));
            }
        }
        Ok(torn)
    }
}
