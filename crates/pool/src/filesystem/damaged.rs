//! Directories with lost names.
//!
//! **Owns** their list. **Called by** listings. **Invariant**: a directory of the list has lost names; at most [`DAMAGED_MAX`] are
//! in it.

use std::collections::BTreeSet;
use std::sync::Mutex;

use crate::format::ObjectId;
use io::sync::lock;

/// Most directories with damage that are remembered.
const DAMAGED_MAX: usize = 4096;

/// Directories of which a listing has found a part to be lost. Each of their listings ends with an error, so that nobody takes
/// the lost names for removed ones.
#[derive(Default)]
pub(super) struct DamagedDirectories(Mutex<BTreeSet<ObjectId>>);

impl DamagedDirectories {
    /// Adds a directory. Returns whether it is new.
    pub(super) fn add(&self, directory: ObjectId) -> bool {
        let mut all = lock(&self.0);
        all.len() < DAMAGED_MAX && all.insert(directory)
    }

    /// Whether a part of a directory is lost.
    pub(super) fn has(&self, directory: ObjectId) -> bool {
        lock(&self.0).contains(&directory)
    }
}
