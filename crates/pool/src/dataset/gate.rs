//! The gate of a filesystem: new changes wait there while a snapshot is made.
//!
//! **Owns** the waiting changes. **Called by** the store of a filesystem, before each change; and by the making of a snapshot.
//! **Invariant**: the gate only lets the dirty records come to an end; a change that passed it before may still follow.

use std::sync::Arc;

use io::sync::oneshot;

use super::OpenDataset;
use io::sync::lock;

/// The changes that wait, and the number of reasons to wait.
#[derive(Default)]
pub(crate) struct Gate {
    closers: usize,
    /// Dropped when the gate opens, which wakes the changes.
    waiting: Vec<oneshot::Sender<()>>,
}

impl Gate {
    /// A receiver that wakes when the gate opens; `None` if it is open.
    pub(crate) fn wait(&mut self) -> Option<oneshot::Receiver<()>> {
        (self.closers > 0).then(|| {
            let (sender, receiver) = oneshot::channel();
            self.waiting.push(sender);
            receiver
        })
    }
}

/// A closed gate. It opens when the last of these is dropped.
pub(crate) struct ClosedGate(Arc<OpenDataset>);

impl ClosedGate {
    pub(crate) fn of(dataset: &Arc<OpenDataset>) -> Self {
        lock(&dataset.state).gate.closers += 1;
        Self(dataset.clone())
    }
}

impl Drop for ClosedGate {
    fn drop(&mut self) {
        let mut state = lock(&self.0.state);
        state.gate.closers -= 1;
        if state.gate.closers == 0 {
            state.gate.waiting.clear();
        }
    }
}
