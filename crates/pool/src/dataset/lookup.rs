//! Lookups in a dataset's tree.
//!
//! **Owns** the descent with loads of nodes. **Called by** reads, as registered readers. **Invariant**: the caller found
//! nothing in memory before, in the state that had this root.

use std::ops::Range;

use super::OpenDataset;
use crate::Result;
use crate::format::{Key, Value};
use crate::tree::{Direction, Lookup, LookupStep, Root, Scan, ScanStep};

/// Entries for which a scan takes memory before it finds them.
const FOUND_AT_FIRST: u128 = 1024;

impl OpenDataset {
    /// The value of one key.
    pub(super) async fn look_up_one(&self, root: Root, key: Key) -> Result<Option<Value>> {
        let mut lookup = Lookup::new(&[], root, key);
        loop {
            match lookup.step() {
                LookupStep::Need(need) => {
                    lookup.supply(&self.shared.node(self.id, &need).await?)?
                }
                LookupStep::Done(value) => return Ok(value),
            }
        }
    }

    /// The entries of a tree under these keys, in order.
    pub(super) async fn scan_tree(
        &self,
        root: Root,
        keys: Range<Key>,
    ) -> Result<Vec<(Key, Value)>> {
        let count = keys.start.up_to(keys.end).min(FOUND_AT_FIRST);
        let mut found = Vec::with_capacity(count as usize);
        let mut scan = Scan::new(root, keys, Direction::Forward);
        loop {
            match scan.step(&[]) {
                ScanStep::Need(need) => scan.supply(self.shared.node(self.id, &need).await?)?,
                ScanStep::Entry(key, value) => found.push((key, value)),
                ScanStep::Done => return Ok(found),
            }
        }
    }
}
