//! Members that are absent for one incarnation, and the record of the last labels with which a pool may open without them.
//!
//! **Owns** both. **Called by** scenarios `pool`, `aimed` and `files`. **Invariant**: a pool may refuse to open without a member; if it opens, it
//! has every promised write. The record survives power cuts, like the server's file (`docs/decisions/0101`, "A missing
//! member").

use io::disk::Disk;
use pool::format::LabelEpoch;
use pool::vdev::{OpenOptions, Opened, Scan, Witness, Witnessed, open, scan};
use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The epoch of the last labels.
#[derive(Debug, Clone, Default)]
pub(crate) struct LastLabels(Arc<Mutex<Option<LabelEpoch>>>);

impl LastLabels {
    fn epoch(&self) -> MutexGuard<'_, Option<LabelEpoch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets the epoch: a new pool is created.
    pub(crate) fn clear(&self) {
        *self.epoch() = None;
    }
}

impl Witness for LastLabels {
    fn last(&self) -> Option<LabelEpoch> {
        *self.epoch()
    }

    fn record(&self, epoch: LabelEpoch) -> Witnessed {
        *self.epoch() = Some(epoch);
        Box::pin(std::future::ready(true))
    }
}

/// The disks that are away.
#[derive(Debug, Clone, Default)]
pub(crate) struct Away {
    disks: Rc<RefCell<Vec<usize>>>,
    /// Whether a disk was away since all members were last complete. The other disks may be the only complete ones.
    lacks: Rc<Cell<bool>>,
}

impl Away {
    /// Takes the disks of these numbers away, and returns all others.
    pub(crate) fn set(&self, disks: impl IntoIterator<Item = usize>) {
        let disks: Vec<usize> = disks.into_iter().collect();
        self.lacks.set(self.lacks.get() || !disks.is_empty());
        *self.disks.borrow_mut() = disks;
    }

    /// Whether a disk is away.
    pub(crate) fn is_one(&self) -> bool {
        !self.disks.borrow().is_empty()
    }

    /// Whether a member may lack writes. No other member of its vdev may fail then.
    pub(crate) fn may_lack(&self) -> bool {
        self.lacks.get()
    }

    /// Records that all members are complete.
    pub(crate) fn mended(&self) {
        self.lacks.set(false);
    }

    /// Removes the disks that are away.
    fn leave_out(&self, disks: &mut Vec<Disk>) {
        for number in self.disks.borrow().iter() {
            let name = format!("disk{number}");
            disks.retain(|disk| disk.info().path != Path::new(&name));
        }
    }

    /// Opens the pool of the present disks. `None` if the pool refuses; the absent disk returns in that case.
    pub(crate) async fn open(&self, mut disks: Vec<Disk>, options: OpenOptions) -> Option<Opened> {
        self.leave_out(&mut disks);
        let Scan {
            mut pools, unread, ..
        } = scan(disks).await;
        drop(unread);
        let found = pools.pop().filter(|found| !found.uberblocks.is_empty());
        let opened = match found {
            Some(found) => open(found, options).await.ok(),
            None => None,
        };
        if opened.is_none() {
            self.set(std::iter::empty());
        }
        opened
    }
}
