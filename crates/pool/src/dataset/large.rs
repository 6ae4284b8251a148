//! Large writes: whole records that are written from the client's buffer, at once.
//!
//! **Owns** the count of acknowledged bytes that no device has. **Called by** volumes. **Invariant**: a large write keeps
//! its turn until the devices have it; at most [`LAZY_BYTES`] of such writes are acknowledged earlier.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use backend::Turn;
use io::sync::oneshot;
use io::{JoinHandle, SharedBuf};

use super::{LAZY_BYTES, OpenDataset};
use crate::Result;
use crate::dirty::Large;
use crate::format::Key;
use io::sync::lock;

/// Bytes of a large write that is acknowledged before a device has them. Dropped when the devices have them.
struct Ahead {
    of: Arc<OpenDataset>,
    bytes: usize,
}

impl Ahead {
    /// None if more than [`LAZY_BYTES`] would be in flight.
    fn of(of: &Arc<OpenDataset>, bytes: usize) -> Option<Self> {
        let others = of.ahead.fetch_add(bytes, Ordering::Relaxed);
        let of = of.clone();
        Some(Self { of, bytes }).filter(|_| others + bytes <= LAZY_BYTES)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.of.ahead.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl OpenDataset {
    /// Writes `data`, which is whole records under the keys from `first` on. Keeps its turn until the devices have the
    /// data. Returns the handle to wait for, or none if the write may be acknowledged now.
    ///
    /// # Errors
    /// As the write budget; [`Error::Closed`](crate::Error::Closed).
    pub(crate) async fn put_large(
        self: &Arc<Self>,
        first: Key,
        data: SharedBuf,
        turn: Turn,
    ) -> Result<Option<JoinHandle<Option<()>>>> {
        let bytes = data.len();
        let admitted = self.shared.admit(self.id, bytes as u64).await?;
        let (done, written) = oneshot::channel();
        let record_size = self.settings.record_size as usize;
        let large = Large::new(first, record_size, data, self.packer(), done);
        for contents in large.contents() {
            if contents.prepare() {
                // yield to other tasks of this shard between two records
                io::yield_now().await;
            }
        }
        let replaced = {
            let mut state = lock(&self.state);
            state.demands.check()?;
            admitted.keep();
            self.ask(&mut state);
            state.dirty.put_large(large)
        };
        self.shared.budget.replaced(self.id, replaced as u64);
        self.shared.bell.ring();
        let ahead = Ahead::of(self, bytes);
        let may_run_ahead = ahead.is_some();
        let written = io::spawn(async move {
            let written = written.await;
            drop((turn, ahead));
            written
        });
        Ok(Some(written).filter(|_| !may_run_ahead))
    }
}
