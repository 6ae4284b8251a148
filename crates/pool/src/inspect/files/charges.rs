//! The space of a filesystem's files by owner: whether the stored sums are those of the inodes.
//!
//! **Owns** this comparison. **Called by** each pass over a filesystem's tree. **Invariant**: memory is bounded by
//! [`OWNERS_MAX`]; owners beyond it are not compared.

use std::collections::BTreeMap;

use crate::format::ObjectId;
use crate::format::filesystem::{Charge, ChargeEntry, FileOwner};
use crate::inspect::limits::OWNERS_MAX;

/// Sums of one owner, bytes.
#[derive(Default)]
struct Sum {
    stored: u64,
    found: u128,
}

/// See the module header.
#[derive(Default)]
pub(super) struct Charges {
    /// The first object that the stored sums do not have.
    counted: ObjectId,
    sums: BTreeMap<FileOwner, Sum>,
    /// Whether there are more owners than are compared.
    pub(super) is_partial: bool,
}

impl Charges {
    fn sum(&mut self, owner: FileOwner) -> Option<&mut Sum> {
        if self.sums.len() >= OWNERS_MAX && !self.sums.contains_key(&owner) {
            self.is_partial = true;
            return None;
        }
        Some(self.sums.entry(owner).or_default())
    }

    /// Takes the progress of counting. It comes before the objects.
    pub(super) fn set_counted(&mut self, counted: ObjectId) {
        self.counted = counted;
    }

    /// Takes a stored entry.
    pub(super) fn add_entry(&mut self, entry: ChargeEntry) {
        if let ChargeEntry::Space(owner, bytes) = entry
            && let Some(sum) = self.sum(owner)
        {
            sum.stored = bytes;
        }
    }

    /// Takes the charge of an object.
    pub(super) fn add(&mut self, object: ObjectId, charge: Charge) {
        if object >= self.counted || charge.used == 0 {
            return;
        }
        for owner in charge.owners() {
            if let Some(sum) = self.sum(owner) {
                sum.found += u128::from(charge.used);
            }
        }
    }

    /// Descriptions of the sums that are wrong.
    pub(super) fn wrong(&self) -> impl Iterator<Item = String> + '_ {
        let wrong = self.sums.iter();
        let wrong = wrong.filter(|(_, sum)| u128::from(sum.stored) != sum.found);
        wrong.map(|(owner, sum)| {
            let Sum { stored, found } = sum;
            format!("the files of {owner} take {found} bytes; {stored} are recorded")
        })
    }
}
