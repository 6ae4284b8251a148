//! Notices to the kernel: write dirty data back, forget attributes.
//!
//! **Owns** the thread that sends them. **Called by** operations. **Invariants**: notices are
//! sent by no session thread and no shard, since the kernel answers a notice only after requests that these must serve; at
//! most [`NOTICES_MAX`] wait. Linux: `fuse_reverse_inval_inode` and `fuse_reverse_inval_entry` in fs/fuse.

use crate::limits::NOTICES_MAX;
use fuser::{INodeNo, Notifier};
use io::sync::oneshot;
use std::io::Result as OsResult;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread;

/// A notice.
pub(crate) enum Notice {
    /// Writes a file's dirty data back, and drops its cached data and attributes. The sender is dropped when it is done.
    WriteBack(u64, oneshot::Sender<()>),
    /// Drops a file's cached attributes. The sender is dropped when it is done.
    Attributes(u64, oneshot::Sender<()>),
}

/// Sends notices in their order. Clones share the thread, which ends with the last one.
#[derive(Clone)]
pub(crate) struct Notices(SyncSender<Notice>);

impl Notices {
    /// Starts the thread.
    pub(crate) fn start(kernel: Notifier) -> OsResult<Self> {
        let (tx, rx) = sync_channel(NOTICES_MAX);
        thread::Builder::new()
            .name("fuse-notices".to_owned())
            .spawn(move || {
                while let Ok(notice) = rx.recv() {
                    send(&kernel, notice);
                }
            })?;
        Ok(Self(tx))
    }

    /// Queues a notice; gives it back if too many wait. Does not block.
    pub(crate) fn send(&self, notice: Notice) -> Result<(), Notice> {
        self.0.try_send(notice).map_err(|e| match e {
            TrySendError::Full(notice) | TrySendError::Disconnected(notice) => notice,
        })
    }
}

fn send(kernel: &Notifier, notice: Notice) {
    let sent = match notice {
        Notice::WriteBack(number, done) => {
            let sent = kernel.inval_inode(INodeNo(number), 0, 0);
            drop(done);
            sent
        }
        Notice::Attributes(number, done) => {
            // a negative offset: no data
            let sent = kernel.inval_inode(INodeNo(number), -1, 0);
            drop(done);
            sent
        }
    };
    if let Err(e) = sent {
        tracing::debug!("the kernel refused a notice: {e}");
    }
}
