//! Times of the last access.
//!
//! **Owns** when they are updated. **Called by** reads of files, directories and symlinks, after they are done. **Invariants**:
//! an update never fails a read; it takes a turn of its own, so no caller may have one.

use backend::file::Timestamp;

use super::inner::Inner;
use super::numbers::Files;
use super::object::{Object, now};
use super::store::{AccessTimes, Purpose, Store, Transaction};
use crate::format::ObjectId;
use crate::format::filesystem::Inode;

/// An access is noted again after this many nanoseconds: a day.
const RELATIVE_AGE: i64 = 24 * 3600 * 1_000_000_000;

fn is_due(when: AccessTimes, inode: &Inode, time: Timestamp) -> bool {
    let last_change = inode.modified.max(inode.changed);
    let day_ago = Timestamp(time.0.saturating_sub(RELATIVE_AGE));
    match when {
        AccessTimes::Off => false,
        AccessTimes::Relative => inode.accessed <= last_change || inode.accessed <= day_ago,
        AccessTimes::Always => inode.accessed < time,
    }
}

impl<S: Store> Inner<S> {
    pub(super) async fn note_access(&self, of: &Object) {
        self.note_access_of(of.number, &of.inode).await;
    }

    /// Updates the time of the last access of an object with this inode, if that is due.
    pub(super) async fn note_access_of(&self, number: ObjectId, inode: &Inode) {
        let settings = self.store.settings();
        let time = now();
        if settings.is_read_only || !is_due(settings.access_times, inode, time) {
            return;
        }
        let _turn = self.turns.take(number).await;
        let current = self.store.inode(number).await.ok().flatten();
        let current = current.filter(|of| of.generation == inode.generation && of.links > 0);
        let Some(mut current) = current.filter(|of| is_due(settings.access_times, of, time)) else {
            return;
        };
        current.accessed = current.accessed.max(time);
        let mut transaction = Transaction::new();
        transaction.put_inode(number, current);
        // Without space, the time stays as it is.
        let _ = self.commit(transaction, Purpose::Use, Files::Same).await;
    }
}
