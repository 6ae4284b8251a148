//! Staged transactions of filesystems, on their way to the journal.
//!
//! **Owns** their batches. **Called by** write-back, before each group of a filesystem. **Invariants**: transactions go to the
//! journal in order, each as a whole; a group leaves only when the journal has all transactions before it; none is appended while
//! a snapshot of the filesystem is pending.

use std::sync::Arc;

use super::Owner;
use crate::dataset::OpenDataset;
use crate::format::{Record, Value};
use crate::mutex::lock;

/// Most bytes of transactions that are appended together.
const APPEND_BYTES: usize = 128 << 10;

impl Owner {
    /// Appends all staged transactions of a dataset. False if some stay: the journal is full, or a snapshot is pending.
    pub(super) fn append_staged(&self, dataset: &Arc<OpenDataset>) -> bool {
        loop {
            let mut state = lock(&dataset.state);
            if state.staged.is_empty() {
                return true;
            }
            if state.pending_snapshot.is_some() {
                return false;
            }
            let owner = &mut *self.state.borrow_mut();
            let bytes_max = APPEND_BYTES.min(owner.journal.append_max());
            let mut count = 0;
            let mut records: Vec<Record> = Vec::new();
            for transaction in state.staged.next(bytes_max) {
                count += 1;
                records.extend(transaction.steps.iter().map(|step| step.record(dataset.id)));
            }
            let Ok(ticket) = owner.journal.append(&records, 0) else {
                // a running checkpoint may free some of the journal
                owner.checkpointer.request_space_if_idle();
                return false;
            };
            owner.committer.journaled(dataset.id, ticket);
            owner.datasets.mark_changed(dataset.id);
            let mut admitted = 0;
            for transaction in state.staged.take(count) {
                admitted += transaction.admitted;
                for step in &transaction.steps {
                    let allocator = &mut owner.allocator;
                    step.apply(&mut state.top, |old| {
                        allocator.note_replaced(old.as_ref().and_then(Value::block));
                    });
                }
                if let Some(group) = transaction.group().filter(|_| !state.writing.is_empty()) {
                    let group = Arc::new(group);
                    state.begin_writing(group.clone());
                    state.end_writing(&group);
                }
            }
            owner.allocator.free_replaced();
            let left = owner.allocator.space().allocatable();
            drop(state);
            let budget = &self.shared.budget;
            let count = records.len() as u64;
            budget.placed(dataset.id, (admitted, count), admitted, left);
            budget.written(admitted);
        }
    }
}
