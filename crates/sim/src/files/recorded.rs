//! A dataset whose changes are recorded: [`Store`] between the filesystem and the pool.
//!
//! **Owns** [`Recorded`]. **Called by** the filesystem under test. **Invariant**: a change is in the history in the same step in
//! which it becomes visible, because the pool's calls change the dataset in their last step.

use super::history::{History, Mark};
use backend::Durable;
use backend::file::{FileResult, Seek};
use io::{Payload, SharedBuf};
use pool::FileStore;
use pool::filesystem::{Purpose, ScannedAround, Settings, Store, StoreSpace, Transaction};
use pool::format::filesystem::{Charge, Inode};
use pool::format::{Key, ObjectId, Sync};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

/// A history that the tasks of one incarnation share.
#[derive(Clone)]
pub(super) struct SharedHistory(Arc<Mutex<History>>);

impl SharedHistory {
    pub(super) fn new(history: History) -> Self {
        Self(Arc::new(Mutex::new(history)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, History> {
        let locked = self.0.lock();
        locked.unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    pub(super) fn mark(&self) -> Mark {
        self.lock().mark()
    }
}

/// See the module header.
#[derive(Clone)]
pub(super) struct Recorded {
    pub(super) store: FileStore,
    pub(super) history: SharedHistory,
}

impl Store for Recorded {
    type Admitted = <FileStore as Store>::Admitted;

    fn settings(&self) -> Settings {
        self.store.settings()
    }

    fn space(&self) -> StoreSpace {
        self.store.space()
    }

    async fn inode(&self, object: ObjectId) -> FileResult<Option<Inode>> {
        self.store.inode(object).await
    }

    async fn get(&self, key: Key) -> FileResult<Option<Vec<u8>>> {
        self.store.get(key).await
    }

    async fn scan(&self, keys: Range<Key>, max: usize) -> FileResult<Vec<(Key, Vec<u8>)>> {
        self.store.scan(keys, max).await
    }

    async fn scan_around(&self, keys: Range<Key>, max: usize) -> FileResult<ScannedAround> {
        self.store.scan_around(keys, max).await
    }

    fn is_used_up(&self, owners: Charge) -> bool {
        self.store.is_used_up(owners)
    }

    async fn admit(&self, bytes: usize, purpose: Purpose) -> FileResult<Self::Admitted> {
        self.store.admit(bytes, purpose).await
    }

    fn apply(&self, transaction: Transaction, admitted: Self::Admitted) -> FileResult<()> {
        let edits = transaction.edits().to_vec();
        self.store.apply(transaction, admitted)?;
        self.history.lock().applied(edits);
        Ok(())
    }

    async fn read(&self, object: ObjectId, bytes: Range<u64>) -> FileResult<Payload> {
        self.store.read(object, bytes).await
    }

    async fn write(
        &self,
        object: ObjectId,
        inode: Inode,
        offset: u64,
        data: SharedBuf,
        is_urgent: bool,
    ) -> FileResult<()> {
        let bytes = data.to_vec();
        let written = self.store.write(object, inode, offset, data, is_urgent);
        written.await?;
        self.history.lock().wrote(object, inode, offset, &bytes);
        Ok(())
    }

    async fn clear(
        &self,
        object: ObjectId,
        bytes: Range<u64>,
        transaction: Transaction,
    ) -> FileResult<()> {
        let edits = transaction.edits().to_vec();
        let cleared = self.store.clear(object, bytes.clone(), transaction);
        cleared.await?;
        self.history.lock().cleared(object, bytes, edits);
        Ok(())
    }

    async fn count(&self, object: ObjectId, size: u64) -> FileResult<(Inode, u64)> {
        self.store.count(object, size).await
    }

    async fn seek(&self, object: ObjectId, bytes: Range<u64>, to: Seek) -> FileResult<Option<u64>> {
        self.store.seek(object, bytes, to).await
    }

    async fn durable(&self, of: Option<ObjectId>) -> FileResult<Durable> {
        let mark = self.history.mark();
        let proof = self.store.durable(of).await?;
        if self.settings().sync != Sync::Disabled {
            self.history.lock().durable(of, mark);
        }
        Ok(proof)
    }
}
