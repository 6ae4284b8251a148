//! Capacity of added or grown vdevs.
//!
//! **Owns** the hand-over of new space to the allocator. **Called by** [`Pool`]'s users. **Invariant**: space is
//! allocated only after the labels say that it is the pool's.

use crate::format::{VdevClass, VdevId, VdevOffset};
use crate::owner::{ClassReason, Pool, State};
use crate::space::VdevSpace;
use crate::vdev::{SetupError, VdevSpec};

impl State {
    /// Passes the free space to the write budget, after it grew.
    pub(in crate::owner) fn supply_budget(&self) {
        let freeing = !self.destroyer.is_empty();
        let budget = &self.shared.budget;
        budget.supplied(self.allocator.space().allocatable(), freeing);
    }
}

impl Pool {
    /// Adds a top-level vdev; a list of disks is a mirror. Later writes are spread onto it. The journal moves to a vdev of its class.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::add`].
    pub async fn add_vdev(
        &self,
        spec: impl Into<VdevSpec>,
        force: bool,
    ) -> Result<VdevId, SetupError> {
        let info = self.vdevs().add(spec, force).await?;
        {
            let mut state = self.owner.state.borrow_mut();
            let extents = self.vdevs().extent_space();
            state.shared.budget.set_extents(extents);
            state.allocator.add_vdev(&VdevSpace::from(&info));
            state.supply_budget();
        }
        if info.class == VdevClass::Special {
            self.owner.ask_for_class(ClassReason::Added);
        }
        self.owner.move_journal_to_log().await;
        Ok(info.id)
    }

    /// Uses the capacity that a vdev gained because all its disks became larger. Returns whether there was any.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::grow`].
    pub async fn grow(&self, vdev: VdevId) -> Result<bool, SetupError> {
        if self.vdevs().is_removed(vdev) {
            return Ok(false);
        }
        // an uberblock in flight to the old end of a disk could overwrite new data there
        let _pause = self.owner.pause().await;
        let Some(info) = self.vdevs().grow(vdev).await? else {
            return Ok(false);
        };
        let mut state = self.owner.state.borrow_mut();
        state.allocator.grow_vdev(vdev, VdevOffset(info.size));
        state.supply_budget();
        Ok(true)
    }
}
