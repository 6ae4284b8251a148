//! The tree that has the bitmaps of regions that are not loaded.
//!
//! **Owns** its root, and what a pool without summaries lacks. **Called by** [`super::space_maps`]. **Invariant**: the root is that
//! of the newest bitmaps.

use std::collections::BTreeMap;

use crate::format::{SummaryPage, VdevId};
use crate::tree::Root;

/// The pages of summaries of a pool that has none on disk.
pub(in crate::owner) type Pages = BTreeMap<(VdevId, u32), SummaryPage>;

/// The tree that has the bitmaps of regions that are not loaded.
pub(in crate::owner) struct Maps {
    /// Its root: of the last checkpoint, or of a part of the one that is being written.
    pub(in crate::owner) root: Root,
    /// Pages of summaries that the next checkpoint puts; `None` if the tree has all pages.
    pub(super) missing: Option<Pages>,
    /// Whether a task loads regions ahead of the writers.
    pub(super) is_stocking: bool,
    /// Whether no such task may begin.
    pub(super) is_closed: bool,
}

impl Maps {
    /// The maps in the tree at `root`. `missing` has all pages of summaries if the tree has none.
    pub(in crate::owner) fn new(root: Root, missing: Option<Pages>) -> Self {
        Self {
            root,
            missing,
            is_stocking: false,
            is_closed: false,
        }
    }

    /// Whether the tree has no summaries.
    pub(in crate::owner) fn lacks_summaries(&self) -> bool {
        self.missing.is_some()
    }
}
