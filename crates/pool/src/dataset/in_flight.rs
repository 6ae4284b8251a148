//! The groups of a dataset that are being written.
//!
//! **Owns** their order. **Called by** the owner, and by reads, under the dataset's lock. **Invariant**: a written group stays
//! until the groups before it are written, so that records of those which it replaces do not become visible again.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::dirty::Group;

struct Writing {
    group: Arc<Group>,
    written: bool,
}

/// See the module header. The pointers of their records are in the newest layer, or come there when they are made.
#[derive(Default)]
pub(crate) struct InFlight(VecDeque<Writing>);

impl InFlight {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The groups, oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Group> {
        self.0.iter().map(|writing| writing.group.as_ref())
    }

    /// A group is in flight.
    pub(crate) fn begin(&mut self, group: Arc<Group>) {
        let written = false;
        self.0.push_back(Writing { group, written });
    }

    /// A group is written, or has no data to write.
    pub(crate) fn end(&mut self, group: &Arc<Group>) {
        for writing in &mut self.0 {
            writing.written |= Arc::ptr_eq(&writing.group, group);
        }
        while self.0.front().is_some_and(|w| w.written) {
            self.0.pop_front();
        }
    }
}
