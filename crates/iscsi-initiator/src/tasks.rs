//! Outstanding SCSI tasks of a session, by initiator task tag.
//!
//! **Owns** the iSCSI part of the table of outstanding commands ([`initiator::slots`]). **Called by** the engine.
//! **Invariants**: a tag is a slot's index with the slot's generation above it.

use super::error::{Error, ProtocolError, Result};
use super::limits::QUEUE_DEPTH_MAX;
use super::sense::Sense;
use initiator::slots::{self, Request, SLOTS_MAX};
pub(super) use initiator::slots::{Data, Replay};
use iscsi::wire::response::Residual;
use iscsi::wire::{Itt, Lun, Sn};

/// Bits of a tag that are the slot's generation. The upper two bits of a task's tag are zero; tags of other requests have one
/// of them set.
const GENERATION_BITS: u32 = 20;
const _: () = assert!(QUEUE_DEPTH_MAX <= SLOTS_MAX);
const _: () = assert!((SLOTS_MAX as u32) << GENERATION_BITS == 1 << 30);

/// A task to submit.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) lun: Lun,
    pub(super) cdb: [u8; 16],
    pub(super) data: Data,
    pub(super) replay: Replay,
    /// Whether success with less data than asked for is an error.
    pub(super) whole: bool,
}

/// The iSCSI part of a slot.
#[derive(Default)]
pub(super) struct ScsiTask {
    pub(super) lun: Lun,
    pub(super) cdb: [u8; 16],
    pub(super) cmd_sn: Sn,
    /// The expected DataSN of a read, or R2TSN of a write.
    pub(super) next_sn: u32,
}

impl From<Task> for Request<ScsiTask> {
    fn from(t: Task) -> Request<ScsiTask> {
        Request {
            command: ScsiTask {
                lun: t.lun,
                cdb: t.cdb,
                ..ScsiTask::default()
            },
            data: t.data,
            replay: t.replay,
            whole: t.whole,
        }
    }
}

/// Status and sense data with which a target ended a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) status: u8,
    pub(super) sense: Sense,
    pub(super) residual: Residual,
}

/// A task that has ended: with any status, or with the reason why there is none.
pub(super) type Finished = slots::Finished<Result<Ended>>;

/// One task.
pub(super) type Slot = slots::Slot<ScsiTask, Result<Ended>>;

/// All tasks of a session.
pub(super) type Tasks = slots::Slots<ScsiTask, Result<Ended>>;

/// Creates `depth` free slots.
pub(super) fn new_tasks(depth: u16) -> Tasks {
    Tasks::new(depth, GENERATION_BITS)
}

/// Returns the slot of an outstanding task. Fails for any other tag.
pub(super) fn find(tasks: &Tasks, itt: Itt) -> std::result::Result<u16, ProtocolError> {
    tasks.find(itt.0).ok_or(ProtocolError::NoTask)
}

/// Ends a task, and wakes its waiter.
pub(super) fn finish(tasks: &mut Tasks, index: u16, result: Result<Ended>) {
    if let Some(waker) = tasks.finish(index, result) {
        waker.wake();
    }
}

/// Handles a broken connection: see [`slots::Slots::disconnect`]. A task that had timed out fails with `Timeout`.
pub(super) fn disconnect(tasks: &mut Tasks, error: &Error, keep: bool) {
    let failed = |late| Err(if late { Error::Timeout } else { error.clone() });
    for waker in tasks.disconnect(keep, failed) {
        waker.wake();
    }
}
