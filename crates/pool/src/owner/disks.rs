//! Space that comes with disks.
//!
//! **Owns** how the allocator learns of it. **Called by** [`Pool`]'s users. **Invariant**: nothing is allocated there before
//! labels say that it is the pool's.

use io::disk::Disk;

use super::{Pool, State};
use crate::format::{VdevId, VdevOffset};
use crate::space::VdevSpace;
use crate::vdev::SetupError;

impl State {
    /// There is more space to give out than there was.
    pub(super) fn tell_room(&self) {
        let freeing = !self.destroyer.is_empty();
        let room = &self.shared.room;
        room.supplied(self.allocator.space().allocatable(), freeing);
    }
}

impl Pool {
    /// Adds a top-level vdev: a disk, or the sides of a mirror. What is written from now on is spread onto it.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::add`].
    pub async fn add_vdev(&self, disks: Vec<Disk>, force: bool) -> Result<VdevId, SetupError> {
        let info = self.vdevs().add(disks, force).await?;
        let mut state = self.owner.state.borrow_mut();
        state.allocator.add_vdev(&VdevSpace::from(&info));
        state.tell_room();
        Ok(info.id)
    }

    /// Uses the room that a vdev gained because all its disks became larger. Whether there was any.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::grow`].
    pub async fn grow(&self, vdev: VdevId) -> Result<bool, SetupError> {
        // an uberblock on its way to the old end of a disk could come after what is to lie there
        let _pause = self.owner.pause().await;
        let Some(info) = self.vdevs().grow(vdev).await? else {
            return Ok(false);
        };
        let mut state = self.owner.state.borrow_mut();
        state.allocator.grow_vdev(vdev, VdevOffset(info.size));
        state.tell_room();
        Ok(true)
    }
}
