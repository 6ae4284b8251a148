//! Staged transactions of filesystems, on their way to the journal.
//!
//! **Owns** their batches. **Called by** write-back, before each group of a filesystem. **Invariants**: transactions go to the
//! journal in order, each as a whole; a group leaves only when the journal has all transactions before it; none is appended while
//! a snapshot of the filesystem is pending.

use std::sync::Arc;

use crate::dataset::OpenDataset;
use crate::format::Record;
use crate::owner::Owner;
use io::sync::lock;

impl Owner {
    /// Appends all staged transactions of a dataset. False if some stay: the journal is full, or a snapshot is pending.
    pub(super) fn append_staged(&self, dataset: &Arc<OpenDataset>) -> bool {
        let mut state = lock(&dataset.state);
        if state.staged.is_empty() {
            return true;
        }
        if state.pending_snapshot.is_some() {
            return false;
        }
        let owner = &mut *self.state.borrow_mut();
        let (mut admitted, mut count, mut superseded) = (0, 0, 0);
        while let Some(next) = state.staged.oldest() {
            let Ok(ticket) = owner.journal.append(&next.records, 0) else {
                // a running checkpoint may free some of the journal
                owner.checkpointer.request_journal();
                break;
            };
            owner.committer.journaled(dataset.id, ticket);
            owner.datasets.mark_changed(dataset.id);
            let taken = state.staged.take_oldest();
            let taken = taken.expect("the oldest is there");
            admitted += taken.admitted;
            let bytes: usize = taken.records.iter().map(Record::size).sum();
            dataset.counters.journaled(bytes as u64);
            count += taken.records.len() as u64;
            for record in &taken.records {
                superseded += state.journaled.supersede(record) as u64;
                let allocator = &mut owner.allocator;
                state.layers.apply(record, |old| {
                    allocator.note_replaced(old.block());
                });
            }
            if !state.in_flight.is_empty()
                && let Some(group) = taken.group()
            {
                let group = Arc::new(group);
                state.in_flight.begin(group.clone());
                state.in_flight.end(&group);
            }
        }
        let is_empty = state.staged.is_empty();
        drop(state);
        owner.allocator.free_replaced();
        let left = owner.allocator.space().allocatable();
        let budget = &self.shared.budget;
        budget.placed(dataset.id, (admitted, count), (admitted, admitted), left);
        budget.written(admitted);
        if superseded > 0 {
            budget.replaced(dataset.id, superseded);
        }
        is_empty
    }
}
