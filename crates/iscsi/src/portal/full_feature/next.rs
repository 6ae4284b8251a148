//! Work that a full feature phase leaves to its connection: calls of the device, and waiting for other connections.
//!
//! **Called by** the phase, which returns it, and by the connection, which does it at once.

use crate::wire::Itt;
use io::sync::oneshot;

/// Work that the connection must do at once.
#[must_use]
pub(crate) enum Next {
    /// Nothing.
    Idle,
    /// Hand the command in this slot to the device.
    Execute(usize),
    /// Start deferred commands.
    RunDeferred,
    /// Answer a task management function when the tasks have ended that it aborts.
    AwaitTasks(Box<Aborting>),
}

/// A task management function whose tasks are ending.
pub(crate) struct Aborting {
    /// Tag of the request.
    pub(crate) itt: Itt,
    /// Reports the end of the last task.
    pub(crate) ended: oneshot::Receiver<()>,
    /// The device's part of the function.
    pub(crate) then: DevicePart,
}

/// What the device does for a task management function after the tasks have ended.
pub(crate) enum DevicePart {
    /// Nothing.
    None,
    /// This function, for this logical unit.
    Function(scsi::TaskManagement, [u8; 8]),
    /// A reset of all units; and every session ends.
    ColdReset([u8; 8]),
}
