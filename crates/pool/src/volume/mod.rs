//! A volume: the pool as a disk.
//!
//! **Owns** the way requests become records. **Called
//! by** protocol targets through [`backend::BlockBackend`], on any shard; the owner of the pool takes what is dirty and puts the
//! addresses back. **Invariants**: a change is seen by every later read once its reply came; changes that overlap take
//! turns by whole records, in the order in which they were asked for; a promise of stable storage carries the
//! [`Durable`] that the owner made of a device's confirmation, or says that it is none ([`mod@sync`]).

mod block;
mod read;
mod settings;
mod state;
mod sync;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use backend::{Durable, Extent, Geometry, Lba, RangeLock, StorageError, Turn, check_extent};
use io::sync::oneshot;
use io::{IoBuf, JoinHandle, SharedBuf};

use crate::compress::Packer;
use crate::dirty::Large;
use crate::format::{
    Dataset, KIND_PIECE, KIND_RECORD, Key, PIECES_MAX, Sync, TreeId, VOLUME_OBJECT,
};
use crate::record::Contents;
use crate::shared::{Shared, lock};
use crate::{Error, Result};

use block::{reading, writing};
use settings::Settings;
use state::Source;
pub(crate) use state::{Demand, Frozen, State};

/// Bytes that are dirty before the owner is woken to write them back; and of large writes, that may be acknowledged while
/// they are on their way.
pub(crate) const LAZY_BYTES: usize = 4 << 20;

/// Writes of whole records and so many bytes are not copied: they leave at once, from where they came to lie.
const LARGE_BYTES: usize = 64 << 10;

/// Zeroed ranges that are dirty before they must leave.
const RANGES_MAX: usize = 4096;

pub(crate) fn record_key(record: u64) -> Key {
    Key::new(VOLUME_OBJECT, KIND_RECORD, record)
}

/// Where the pieces of a record begin that are not under its own key.
pub(crate) fn pieces_key(record: u64) -> Key {
    Key::new(VOLUME_OBJECT, KIND_PIECE, record * u64::from(PIECES_MAX))
}

/// The key of a record's piece.
pub(crate) fn piece_key(record: u64, number: u32) -> Key {
    assert!(number < PIECES_MAX);
    match number {
        0 => record_key(record),
        _ => Key::new(
            VOLUME_OBJECT,
            KIND_PIECE,
            pieces_key(record).offset() + u64::from(number),
        ),
    }
}

pub(crate) struct Inner {
    pub(crate) id: TreeId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Mutex<State>,
    pub(crate) settings: Settings,
    changes: RangeLock,
    generation: AtomicU64,
    /// Bytes of large writes that were acknowledged, and that no device has yet.
    ahead: AtomicUsize,
}

/// Bytes of a large write that is acknowledged before a device has them. Dropped when it has.
struct Ahead {
    of: Arc<Inner>,
    bytes: usize,
}

impl Ahead {
    /// None if too many are on their way.
    fn of(of: &Arc<Inner>, bytes: usize) -> Option<Self> {
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

/// A volume, or a snapshot of one. Clones are the same.
#[derive(Clone)]
pub struct Volume(pub(crate) Arc<Inner>);

impl Volume {
    pub(crate) fn new(id: TreeId, shared: Arc<Shared>, state: State) -> Self {
        Self(Arc::new(Inner {
            id,
            shared,
            settings: Settings::new(&state.dataset),
            state: Mutex::new(state),
            changes: RangeLock::default(),
            generation: AtomicU64::new(0),
            ahead: AtomicUsize::new(0),
        }))
    }

    /// What it is and how it is set.
    #[must_use]
    pub fn dataset(&self) -> Dataset {
        lock(&self.0.state).dataset.clone()
    }

    /// Bytes of its records as stored, as of the last checkpoint.
    #[must_use]
    pub fn referenced(&self) -> u64 {
        lock(&self.0.state).referenced
    }

    /// Gives it other properties. [`Volume::changed`] tells clients.
    pub(crate) fn set_dataset(&self, dataset: Dataset) {
        self.0.shared.room.resized(self.0.id, dataset.size);
        let mut state = lock(&self.0.state);
        self.0.settings.publish(&dataset);
        state.dataset = dataset;
    }

    /// Makes all that was acknowledged durable, whatever clients are told.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Closed`].
    pub async fn flush_all(&self) -> Result<Durable> {
        self.0.durable(true).await
    }

    pub(crate) fn is_snapshot(&self) -> bool {
        self.0.settings.is_snapshot()
    }

    /// Clients are to look at it again.
    pub(crate) fn changed(&self) {
        self.0.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Answers whoever waits with an error, now and from now on.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.0.state);
        state.gone = true;
        self.0.settings.end();
        state.refuse(|| Error::Closed);
        state.give_up();
    }
}

/// A change that has its place in line: bytes of the volume.
struct Change {
    bytes: Range<u64>,
    turn: Turn,
}

impl Inner {
    fn geometry(&self) -> Geometry {
        self.settings.geometry(self.shared.vdevs.is_read_only())
    }

    fn range(&self, at: Extent) -> backend::Result<Range<u64>> {
        let geometry = self.geometry();
        check_extent(&geometry, at)?;
        let start = at.start.0 * u64::from(geometry.block_size);
        Ok(start..start + at.blocks * u64::from(geometry.block_size))
    }

    fn change(&self, at: Extent) -> backend::Result<Change> {
        let bytes = self.range(at)?;
        if self.settings.is_gone() {
            return Err(StorageError::Offline);
        }
        let record_size = u64::from(self.settings.record_size);
        if self.settings.is_snapshot() || self.shared.vdevs.is_read_only() {
            return Err(StorageError::ReadOnly);
        }
        if let Some(full) = self.shared.vdevs.full() {
            // changes before it may have their turn for long
            return Err(writing(full));
        }
        let records =
            bytes.start / record_size * record_size..bytes.end.next_multiple_of(record_size);
        Ok(Change {
            turn: self
                .changes
                .enter(records.start..records.end.max(records.start + 1)),
            bytes,
        })
    }

    /// Waits for the turn of a change.
    ///
    /// # Errors
    /// [`StorageError::OutOfRange`] if the volume shrank meanwhile and the change lies behind its end.
    async fn come(&self, change: &mut Change) -> backend::Result<()> {
        change.turn.come().await;
        match change.bytes.end <= self.settings.size() {
            true => Ok(()),
            false => Err(StorageError::OutOfRange),
        }
    }

    /// A place in line before all later changes of records that end behind byte `from`.
    pub(crate) fn claim_tail(&self, from: u64) -> Turn {
        let record_size = self.record_size() as u64;
        self.changes
            .enter(from / record_size * record_size..u64::MAX)
    }

    /// Makes bytes zero on stable storage. The caller's turn has come.
    pub(crate) async fn clear(&self, bytes: Range<u64>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.zero(bytes).await?;
        let _proof = self.durable(true).await?;
        Ok(())
    }

    /// The same of bytes that a client is to see from now on. An earlier version may have left data there. A record that
    /// cannot be read stays as it is.
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
        let block_size = u64::from(self.settings.block_size);
        Extent {
            start,
            blocks: data.len() as u64 / block_size,
        }
    }

    /// Has the owner look at it: something is dirty, or demanded.
    pub(crate) fn ask(&self, state: &mut State) {
        if !std::mem::replace(&mut state.is_asking, true) {
            lock(&self.shared.asking).push(self.id);
        }
    }

    fn record_size(&self) -> usize {
        self.settings.record_size as usize
    }

    /// How its new records are stored.
    pub(crate) fn packer(&self) -> Packer {
        Packer {
            packing: self.settings.compression(),
            sector: self.shared.vdevs.sector(),
        }
    }

    /// Makes `data` the contents from byte `at` on. The caller's turn has come.
    async fn put(&self, at: u64, data: &[u8], urgent: bool) -> Result<()> {
        let record_size = self.record_size();
        let size = record_size as u64;
        let records = at / size..(at + data.len() as u64).div_ceil(size);
        let bytes = (records.end - records.start) * size;
        let entered = self.shared.room.enter(&self.shared, self.id, bytes).await?;
        let packer = self.packer();
        let mut contents = Vec::with_capacity((records.end - records.start) as usize);
        for record in records.clone() {
            contents.push(self.contents(record, at, data, record_size, packer).await?);
        }
        let (replaced, wake) = {
            let mut state = lock(&self.state);
            if state.gone {
                return Err(Error::Closed);
            }
            entered.keep();
            let urgent = urgent || state.dataset.sync == Sync::Always;
            let mut replaced = 0;
            for (record, new) in records.zip(contents) {
                replaced += match new {
                    Some(data) => state.dirty.put(record, data, urgent),
                    None => record_size + state.dirty.zero(record..record + 1),
                };
            }
            self.ask(&mut state);
            (replaced as u64, state.dirty.bytes() >= LAZY_BYTES)
        };
        if replaced > 0 {
            self.shared.room.replaced(self.id, replaced);
        }
        if wake {
            self.shared.bell.ring();
        }
        Ok(())
    }

    /// What a record holds once `data` lies from byte `at` on; none if only zeroes.
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
        let data_end = at + data.len() as u64;
        if at <= start && data_end >= end {
            let new = &data[(start - at) as usize..][..record_size];
            if is_zero(new) {
                return Ok(None);
            }
            let new = Contents::copied(new.to_vec(), packer);
            // here, where others can go on meanwhile; a part is likely to be followed by more, and left to the owner
            new.pack();
            return Ok(Some(new));
        }
        let mut new = vec![0; record_size];
        self.read_into(start, &mut new).await?;
        let (from, to) = (at.max(start), data_end.min(end));
        let part = &data[(from - at) as usize..(to - at) as usize];
        new[(from - start) as usize..(to - start) as usize].copy_from_slice(part);
        Ok((!is_zero(&new)).then(|| Contents::copied(new, packer)))
    }

    /// Makes bytes read as zero. The caller's turn has come.
    async fn zero(&self, bytes: Range<u64>) -> Result<()> {
        let size = self.record_size() as u64;
        let whole = bytes.start.next_multiple_of(size)..bytes.end / size * size;
        if whole.start >= whole.end {
            return self.zero_part(bytes).await;
        }
        self.zero_part(bytes.start..whole.start).await?;
        self.zero_part(whole.end..bytes.end).await?;
        if let Some(trouble) = self.shared.trouble() {
            return Err(trouble);
        }
        if lock(&self.state).dirty.ranges() >= RANGES_MAX {
            let _proof = self.durable(true).await?;
        }
        let replaced = {
            let mut state = lock(&self.state);
            if state.gone {
                return Err(Error::Closed);
            }
            self.ask(&mut state);
            state.dirty.zero(whole.start / size..whole.end / size)
        };
        self.shared.room.replaced(self.id, replaced as u64);
        Ok(())
    }

    /// The same of parts of one or two records.
    async fn zero_part(&self, bytes: Range<u64>) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut now = vec![0; (bytes.end - bytes.start) as usize];
        self.read_into(bytes.start, &mut now).await?;
        if is_zero(&now) {
            // a pool that is full has no place for the record again
            return Ok(());
        }
        now.fill(0);
        self.put(bytes.start, &now, false).await
    }

    /// The turn of `change` has come.
    async fn write_durable(self: &Arc<Self>, change: Change, data: IoBuf) -> Result<Durable> {
        if self.sync() == Sync::Disabled {
            self.write(change, data).await?;
            return self.promise(false).await;
        }
        let Change { bytes, turn } = change;
        if self.is_large(bytes.start, &data) {
            drop(self.put_large(bytes.start, data.into(), turn).await?);
            return self.durable(false).await;
        }
        self.put(bytes.start, &data, true).await?;
        drop(turn);
        self.durable(false).await
    }

    /// Waits until what is urgent, or with `all` whatever was acknowledged, is durable.
    async fn durable(&self, all: bool) -> Result<Durable> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut state = lock(&self.state);
            if state.gone {
                return Err(Error::Closed);
            }
            if all {
                state.dirty.hurry();
            }
            state.demands.push(sender);
            self.ask(&mut state);
        }
        self.shared.bell.ring();
        receiver.await.unwrap_or(Err(Error::Closed))
    }

    /// Whether a write of whole records may leave as it is.
    fn is_large(&self, at: u64, data: &[u8]) -> bool {
        let size = self.record_size();
        data.len() >= LARGE_BYTES
            && at.is_multiple_of(size as u64)
            && data.len().is_multiple_of(size)
            && !data.chunks(size).any(is_zero)
    }

    /// Makes `data`, which [is large](Self::is_large), the contents from byte `at` on. It is on its way when this returns,
    /// and keeps its turn, which has come, until the devices have it, whoever waits for that. None if it need not be
    /// waited for.
    async fn put_large(
        self: &Arc<Self>,
        at: u64,
        data: SharedBuf,
        turn: Turn,
    ) -> Result<Option<JoinHandle<Option<()>>>> {
        let (size, bytes) = (self.record_size(), data.len());
        let room = &self.shared.room;
        let entered = room.enter(&self.shared, self.id, bytes as u64).await?;
        let (done, written) = oneshot::channel();
        let large = Large::new(at / size as u64, size, data, self.packer(), done);
        for contents in large.contents() {
            if contents.pack() {
                // others on this shard go on between two of them
                io::yield_now().await;
            }
        }
        let replaced = {
            let mut state = lock(&self.state);
            if state.gone {
                return Err(Error::Closed);
            }
            entered.keep();
            self.ask(&mut state);
            state.dirty.put_large(large)
        };
        room.replaced(self.id, replaced as u64);
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

    /// The turn of `change` has come.
    async fn write(self: &Arc<Self>, change: Change, data: IoBuf) -> Result<()> {
        let Change { bytes, turn } = change;
        if self.is_large(bytes.start, &data) {
            if let Some(written) = self.put_large(bytes.start, data.into(), turn).await? {
                self.written(written).await?;
            }
        } else {
            self.put(bytes.start, &data, false).await?;
            drop(turn);
        }
        self.settle().await
    }

    async fn compare(&self, at: u64, expected: &[u8]) -> backend::Result<()> {
        let mut have = vec![0; expected.len()];
        self.read_into(at, &mut have).await.map_err(reading)?;
        match have.iter().zip(expected).position(|(a, b)| a != b) {
            Some(byte) => Err(StorageError::Miscompare(byte as u64)),
            None => Ok(()),
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .chunks(16)
        .all(|chunk| chunk.iter().fold(0, |or, byte| or | byte) == 0)
}
