//! The end of a removal that was given up.
//!
//! **Owns** the release of its copies. **Called by** the remover. **Invariants**: copies are freed in the checkpoint that deletes their
//! entries; the vdev gives out space only when no entry of a copy is left. `docs/decisions/0180`.

use std::rc::Rc;

use crate::Result;
use crate::format::{REGION_SECTORS, VdevId, copy_key, removal_key};
use crate::owner::{Owner, State};
use crate::space::Service;

impl State {
    /// Frees the copies of the blocks of a loaded region, and deletes their entries.
    fn drop_copies(&mut self, vdev: VdevId, region: u32, size: u64) {
        let copies = self.shared.vdevs.copies().clone();
        let live = self.allocator.space().live_runs(vdev, region);
        for (at, bytes) in live.unwrap_or_default() {
            let range = at.offset.0..at.offset.0 + bytes;
            for run in copies.within(vdev, range) {
                self.allocator.free_run(run.to, run.bytes, size);
            }
        }
        let range = u64::from(region) * size..(u64::from(region) + 1) * size;
        for run in copies.within(vdev, range.clone()) {
            self.pool_tree.put(copy_key(run.from), None);
        }
        copies.remove(vdev, range);
    }
}

impl Owner {
    /// Frees all copies of a vdev's blocks, and has the vdev give out space again.
    ///
    /// # Errors
    /// Those of checkpoints, and of reads of space bitmaps.
    pub(super) async fn undo_removal(self: &Rc<Self>, vdev: VdevId) -> Result<()> {
        let size = u64::from(REGION_SECTORS) * u64::from(self.shared.vdevs.sector());
        let regions = self.state.borrow().allocator.space().regions(vdev);
        for region in 0..regions.unwrap_or(0) {
            let range = u64::from(region) * size..(u64::from(region) + 1) * size;
            if self.shared.vdevs.copies().within(vdev, range).is_empty() {
                continue;
            }
            let _loaded = self.load_regions(&[(vdev, region)]).await?;
            // the frees and the entries are in one checkpoint
            let _pause = self.pause().await;
            self.state.borrow_mut().drop_copies(vdev, region, size);
        }
        self.write_checkpoint().await?;
        let end = |state: &mut State| {
            let changes = vec![(removal_key(vdev), None)];
            let ticket = state.change(Vec::new(), changes)?;
            // at once: it may be removed again before the change is durable
            state.allocator.space_mut().serve(vdev, Service::Open);
            state.supply_budget();
            Ok(((), ticket))
        };
        self.change_durably(end).await
    }
}
