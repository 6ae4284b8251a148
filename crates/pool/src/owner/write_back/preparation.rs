//! Preparation of groups: records that were assembled from parts are compressed and hashed by a worker.
//!
//! **Owns** the start of each preparation; [`Preparations`](super::preparations::Preparations) has their state. **Called by** write-back,
//! before it takes a group. **Invariants**: a dataset has at most one preparation in progress, and its next group waits for it; the
//! owner takes a group after each one, so that records that change all the time do not keep a group from leaving.

use std::rc::Rc;
use std::sync::Arc;

use io::sync::lock;

use super::commit::GROUP_BYTES;
use super::preparations::Preparation;
use crate::dataset::OpenDataset;
use crate::owner::Owner;

impl Owner {
    /// Whether the next group of a dataset waits until a worker has prepared its records. The end of the preparation wakes the owner.
    pub(super) fn is_preparing(self: &Rc<Self>, volume: &Arc<OpenDataset>, lazy: bool) -> bool {
        let state = &mut *self.state.borrow_mut();
        let preparations = &mut state.committer.preparations;
        match preparations.of(volume.id) {
            Some(Preparation::Running) => return true,
            Some(Preparation::Ended) => {
                preparations.forget(volume.id);
                return false;
            }
            None if !self.shared.workers.takes(GROUP_BYTES as u64) => return false,
            None => {}
        }
        let next = lock(&volume.state).next_unprepared(GROUP_BYTES, lazy);
        let bytes = next.iter().map(|contents| contents.len() as u64).sum();
        if !self.shared.workers.takes(bytes) {
            return false;
        }
        preparations.begin(volume.id);
        let (this, id) = (self.clone(), volume.id);
        drop(io::spawn(async move {
            let prepare = move |_| async move {
                for contents in next {
                    contents.prepare();
                }
            };
            // records that a worker left are prepared by the owner
            let _done = this.shared.workers.run(bytes, prepare).await;
            this.state.borrow_mut().committer.preparations.end(id);
            this.shared.bell.ring();
        }));
        true
    }
}
