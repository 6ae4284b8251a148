//! The rows of a raidz that a scrub in progress found not to be valid.
//!
//! **Owns** their list. **Called by** scrub. **Invariant**: the list has at most [`ROWS_MAX`] rows; a later scrub finds the others.

use std::collections::BTreeSet;

use crate::format::Address;

/// Most rows on the list.
const ROWS_MAX: usize = 1 << 16;

/// Rows that are not valid.
#[derive(Default)]
pub(in crate::owner) struct DoubtfulRows(BTreeSet<Address>);

impl DoubtfulRows {
    /// Adds rows, up to the most.
    pub(in crate::owner) fn add(&mut self, rows: impl IntoIterator<Item = Address>) {
        for row in rows {
            if self.0.len() < ROWS_MAX {
                self.0.insert(row);
            }
        }
    }

    /// Takes all rows off the list.
    pub(in crate::owner) fn take(&mut self) -> BTreeSet<Address> {
        std::mem::take(&mut self.0)
    }

    /// Forgets all rows: a scrub begins.
    pub(in crate::owner) fn clear(&mut self) {
        self.0.clear();
    }
}
