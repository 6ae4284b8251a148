//! A volume: a dataset of the pool, served as a disk.
//!
//! **Owns** the conversion of requests into changes of records. **Called by** the protocols through
//! [`backend::BlockBackend`], on any shard; the pool's owner writes dirty records back. **Invariants**: every read
//! after a change's reply sees the change; changes that overlap take turns by whole records, in the order in which
//! they were asked for. Durability is the dataset's ([`crate::dataset`]).

mod block;
mod errors;
mod geometry;
mod runs;

use std::ops::Range;
use std::sync::Arc;

use backend::{Durable, Extent, Geometry, Lba, StorageError, Turn, check_extent};
use io::{IoBuf, JoinHandle};

use crate::compress::Packer;
use crate::dataset::{LAZY_BYTES, ObjectBytes, OpenDataset, is_zero, record_key};
use crate::format::{Dataset, DatasetProperty, Sync, VOLUME_OBJECT};
use crate::record::Contents;
use crate::{Error, Result};
use io::sync::lock;

use errors::{reading, writing};
use geometry::geometry;

/// Writes of whole records of at least this many bytes are large: they are written from the client's buffer, at once.
const LARGE_BYTES: usize = 64 << 10;

/// The most zeroed ranges that may be dirty. Then they are made durable.
const RANGES_MAX: usize = 4096;

/// A volume, or a snapshot of one. Clones of this handle are the same dataset.
#[derive(Clone)]
pub struct Volume(pub(crate) Arc<OpenDataset>);

impl Volume {
    /// Its class, size and properties.
    #[must_use]
    pub fn dataset(&self) -> Dataset {
        self.0.dataset()
    }

    /// Stored bytes of its records, as of the last checkpoint.
    #[must_use]
    pub fn referenced(&self) -> u64 {
        lock(&self.0.state).layers.held().referenced
    }

    /// Whether the caches of a property keep its data: `primarycache` or `secondarycache` is `all`.
    #[must_use]
    pub fn caches_data(&self, of: DatasetProperty) -> bool {
        self.0.settings.caches_records(of)
    }

    /// Makes all acknowledged writes durable, independent of the `sync` property.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Closed`].
    pub async fn flush_all(&self) -> Result<Durable> {
        self.0.durable(true).await
    }
}

/// A change of bytes, with its place in the overlap order.
struct Change {
    bytes: Range<u64>,
    turn: Turn,
}

impl Volume {
    fn geometry(&self) -> Geometry {
        geometry(&self.0.settings, self.0.shared.vdevs.is_read_only())
    }

    fn range(&self, at: Extent) -> backend::Result<Range<u64>> {
        let geometry = self.geometry();
        check_extent(&geometry, at)?;
        let start = at.start.0 * u64::from(geometry.block_size);
        Ok(start..start + at.blocks * u64::from(geometry.block_size))
    }

    fn change(&self, at: Extent) -> backend::Result<Change> {
        let bytes = self.range(at)?;
        if self.0.settings.is_ended() {
            return Err(StorageError::Offline);
        }
        let record_size = u64::from(self.0.settings.record_size);
        if self.0.settings.is_snapshot() || self.0.shared.vdevs.is_read_only() {
            return Err(StorageError::ReadOnly);
        }
        if let Some(full) = self.0.shared.vdevs.full() {
            // the changes before it may take long
            return Err(writing(full));
        }
        let records =
            bytes.start / record_size * record_size..bytes.end.next_multiple_of(record_size);
        Ok(Change {
            turn: self
                .0
                .turns
                .enter(records.start..records.end.max(records.start + 1)),
            bytes,
        })
    }

    /// Waits until the changes before it in the overlap order have ended.
    ///
    /// # Errors
    /// [`StorageError::OutOfRange`] if the volume shrank meanwhile and the change lies behind its end.
    async fn come(&self, change: &mut Change) -> backend::Result<()> {
        change.turn.come().await;
        match change.bytes.end <= self.0.settings.size() {
            true => Ok(()),
            false => Err(StorageError::OutOfRange),
        }
    }

    /// A place in the overlap order before all later changes of records that end behind byte `from`.
    pub(crate) fn claim_tail(&self, from: u64) -> Turn {
        let record_size = self.record_size() as u64;
        self.0
            .turns
            .enter(from / record_size * record_size..u64::MAX)
    }

    /// Makes bytes zero on stable storage. It is the caller's turn in the overlap order.
    pub(crate) async fn clear(&self, bytes: Range<u64>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.zero(bytes).await?;
        let _proof = self.0.durable(true).await?;
        Ok(())
    }

    /// As [`Volume::clear`] for bytes that clients will see from now on: an earlier version may have left data there. A
    /// record that cannot be read stays as it is.
    pub(crate) async fn clear_added(&self, bytes: Range<u64>) -> Result<()> {
        let size = self.record_size() as u64;
        let middle = bytes.start.next_multiple_of(size).min(bytes.end);
        match self.clear(bytes.start..middle).await {
            Ok(()) | Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => {}
            Err(other) => return Err(other),
        }
        self.clear(middle..bytes.end).await
    }

    fn extent(&self, start: Lba, data: &IoBuf) -> Extent {
        let block_size = u64::from(self.0.settings.block_size);
        Extent {
            start,
            blocks: data.len() as u64 / block_size,
        }
    }

    fn bytes(&self) -> ObjectBytes<'_> {
        self.0.bytes(VOLUME_OBJECT)
    }

    /// Notes an acknowledged write of a client.
    fn note_write(&self, at: u64, len: usize) {
        self.0.note_write(VOLUME_OBJECT, at, len, u64::MAX);
    }

    fn record_size(&self) -> usize {
        self.0.settings.record_size as usize
    }

    /// Writes `data`, which [is large](Self::is_large), from byte `at` on.
    async fn put_large(
        &self,
        at: u64,
        data: IoBuf,
        turn: Turn,
    ) -> Result<Option<JoinHandle<Option<()>>>> {
        let first = record_key(at / self.record_size() as u64);
        self.0.put_large(first, data.into(), turn).await
    }

    /// Writes `data` from byte `at` on. It is the caller's turn in the overlap order.
    async fn put(&self, at: u64, data: &[u8], urgent: bool) -> Result<()> {
        let record_size = self.record_size();
        let size = record_size as u64;
        let records = at / size..(at + data.len() as u64).div_ceil(size);
        let bytes = (records.end - records.start) * size;
        let admitted = self.0.shared.admit(self.0.id, bytes).await?;
        let packer = self.0.packer();
        let mut contents = Vec::with_capacity((records.end - records.start) as usize);
        for record in records.clone() {
            contents.push(self.contents(record, at, data, record_size, packer).await?);
        }
        let (replaced, wake) = {
            let mut state = lock(&self.0.state);
            state.demands.check()?;
            admitted.keep();
            let urgent = urgent || state.dataset.sync == Sync::Always;
            let mut replaced = 0;
            for (record, new) in records.zip(contents) {
                let key = record_key(record);
                replaced += match new {
                    Some(data) => state.dirty.put(key, data, urgent),
                    None => record_size + state.dirty.zero(key..key.next()),
                };
            }
            self.0.ask(&mut state);
            (replaced as u64, state.dirty.bytes() >= LAZY_BYTES)
        };
        if replaced > 0 {
            self.0.shared.budget.replaced(self.0.id, replaced);
        }
        if wake {
            self.0.shared.bell.ring();
        }
        Ok(())
    }

    /// The contents of a record with `data` from byte `at` on. None if they are all zero.
    async fn contents(
        &self,
        record: u64,
        at: u64,
        data: &[u8],
        record_size: usize,
        packer: Packer,
    ) -> Result<Option<Contents>> {
        let start = record * record_size as u64;
        let end = start + record_size as u64;
        let new = self.bytes().laid_over(start..end, end, (at, data)).await?;
        if is_zero(&new) {
            return Ok(None);
        }
        let new = Contents::copied(new, packer);
        if at <= start && at + data.len() as u64 >= end {
            // compress and hash here, while other shards go on; the owner does so with parts of records, which are likely
            // to be followed by more
            new.prepare();
        }
        Ok(Some(new))
    }

    /// Makes bytes read as zero. It is the caller's turn in the overlap order.
    async fn zero(&self, bytes: Range<u64>) -> Result<()> {
        let (whole, edges) = self.bytes().whole_records(&bytes);
        for edge in edges {
            self.zero_part(edge).await?;
        }
        if whole.is_empty() {
            return Ok(());
        }
        if let Some(trouble) = self.0.shared.trouble() {
            return Err(trouble);
        }
        if lock(&self.0.state).dirty.ranges() >= RANGES_MAX {
            let _proof = self.0.durable(true).await?;
        }
        let replaced = {
            let mut state = lock(&self.0.state);
            state.demands.check()?;
            self.0.ask(&mut state);
            let keys = record_key(whole.start)..record_key(whole.end);
            state.dirty.zero(keys)
        };
        self.0.shared.budget.replaced(self.0.id, replaced as u64);
        Ok(())
    }

    /// As [`Volume::zero`] for a part of a record.
    async fn zero_part(&self, bytes: Range<u64>) -> Result<()> {
        let mut now = vec![0; (bytes.end - bytes.start) as usize];
        self.bytes().read_into(bytes.start, &mut now).await?;
        if is_zero(&now) {
            // a full pool has no space to write the record again
            return Ok(());
        }
        now.fill(0);
        self.put(bytes.start, &now, false).await
    }

    /// It is the turn of `change` in the overlap order.
    async fn write_through(&self, change: Change, data: IoBuf) -> Result<Durable> {
        if self.0.settings.sync() == Sync::Disabled {
            self.write(change, data).await?;
            return self.0.promise(false).await;
        }
        let Change { bytes, turn } = change;
        if self.is_large(bytes.start, &data) {
            drop(self.put_large(bytes.start, data, turn).await?);
            return self.0.durable(false).await;
        }
        self.put(bytes.start, &data, true).await?;
        drop(turn);
        self.0.durable(false).await
    }

    /// Whether a write is large: whole records, none of them all zero.
    fn is_large(&self, at: u64, data: &[u8]) -> bool {
        let size = self.record_size();
        data.len() >= LARGE_BYTES
            && at.is_multiple_of(size as u64)
            && data.len().is_multiple_of(size)
            && !data.chunks(size).any(is_zero)
    }

    /// It is the turn of `change` in the overlap order.
    async fn write(&self, change: Change, data: IoBuf) -> Result<()> {
        let Change { bytes, turn } = change;
        if self.is_large(bytes.start, &data) {
            if let Some(written) = self.put_large(bytes.start, data, turn).await? {
                self.0.written(written).await?;
            }
        } else {
            self.put(bytes.start, &data, false).await?;
            drop(turn);
        }
        self.0.wait_if_always().await
    }

    async fn compare(&self, at: u64, expected: &[u8]) -> backend::Result<()> {
        let mut have = vec![0; expected.len()];
        self.bytes()
            .read_into(at, &mut have)
            .await
            .map_err(reading)?;
        match have.iter().zip(expected).position(|(a, b)| a != b) {
            Some(byte) => Err(StorageError::Miscompare(byte as u64)),
            None => Ok(()),
        }
    }
}
