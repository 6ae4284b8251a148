//! A volume: the pool as a disk.
//!
//! **Owns** what is known of a volume's records in memory ([`State`]) and the way requests become records. **Called
//! by** protocol targets through [`backend::BlockBackend`], on any shard; the owner of the pool takes what is dirty and puts the
//! addresses back. **Invariants**: a change is seen by every later read once its reply came; changes that overlap take
//! turns by whole records, in the order in which they were asked for; a promise of stable storage carries the
//! [`Durable`] that the owner made of a device's confirmation.

mod block;
mod read;
mod sync;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use backend::{Durable, Extent, Geometry, Lba, RangeLock, StorageError, Turn, check_extent};
use io::sync::oneshot;
use io::{IoBuf, SharedBuf};

use crate::compress::Packer;
use crate::dirty::{Dirty, Group, Known, Large};
use crate::format::{
    Birth, BlockPtr, Dataset, DatasetClass, DatasetRoot, KIND_PIECE, KIND_RECORD, Key, PIECES_MAX,
    Sync, TreeId, VOLUME_OBJECT, Value,
};
use crate::record::Contents;
use crate::shared::{Shared, lock};
use crate::tree::{Layer, Root};
use crate::{Error, Result};

use block::reading;

/// Bytes that are dirty before the owner is woken to write them back.
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

/// Who waits for everything that is dirty, or urgent, to be durable.
pub(crate) type Demand = oneshot::Sender<Result<Durable>>;

/// A layer that changes no more.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) layer: Arc<Layer>,
    /// The epoch in which it was frozen: nothing in it is younger.
    pub(crate) epoch: Birth,
}

/// A group on its way to the devices.
pub(crate) struct Writing {
    pub(crate) group: Arc<Group>,
    pub(crate) written: bool,
}

/// What is known of a volume's records beside its tree on the devices.
pub(crate) struct State {
    pub(crate) dataset: Dataset,
    pub(crate) dirty: Dirty,
    /// What was dirty when a snapshot was asked for, and is to be in it.
    pub(crate) aging: Option<Dirty>,
    /// Groups on their way to the devices, oldest first. What they point to is in `top` already. One that is written
    /// stays until those before it are: what it replaces in them is not to be seen again.
    pub(crate) writing: VecDeque<Writing>,
    pub(crate) top: Layer,
    /// Frozen for snapshots or a checkpoint, newest first.
    pub(crate) frozen: VecDeque<Frozen>,
    pub(crate) root: Root,
    /// Bytes of the records that it holds, as stored, up to the last checkpoint.
    pub(crate) referenced: u64,
    /// The same once decompressed.
    pub(crate) logical: u64,
    /// Bytes of its records and nodes in whole sectors, up to the last checkpoint.
    pub(crate) allocated: u64,
    pub(crate) demands: Vec<Demand>,
    /// Destroyed, or its pool is closed.
    pub(crate) gone: bool,
}

/// What a record's contents come from.
enum Source {
    Known(Known),
    /// A block on the devices.
    Block(BlockPtr),
    /// Several, since it is in pieces.
    Pieces(Vec<BlockPtr>),
    /// The tree knows.
    Tree(Root),
}

impl State {
    pub(crate) fn new(dataset: Dataset, held: DatasetRoot) -> Self {
        Self {
            dataset,
            dirty: Dirty::default(),
            aging: None,
            writing: VecDeque::new(),
            top: Layer::new(),
            frozen: VecDeque::new(),
            root: held.root,
            referenced: held.referenced,
            logical: held.logical,
            allocated: held.allocated,
            demands: Vec::new(),
            gone: false,
        }
    }

    /// What it holds, without its layers.
    pub(crate) fn held(&self) -> DatasetRoot {
        DatasetRoot {
            root: self.root,
            referenced: self.referenced,
            logical: self.logical,
            allocated: self.allocated,
        }
    }

    /// It holds this, without its layers.
    pub(crate) fn hold(&mut self, held: DatasetRoot) {
        self.root = held.root;
        self.referenced = held.referenced;
        self.logical = held.logical;
        self.allocated = held.allocated;
    }

    /// Whether something is to leave before the rest.
    pub(crate) fn has_urgent(&self) -> bool {
        self.aging.as_ref().is_some_and(Dirty::is_urgent) || self.dirty.is_urgent()
    }

    /// What is to leave next; all of it before anything else if it is aging.
    pub(crate) fn leaving(&mut self) -> &mut Dirty {
        self.aging.as_mut().unwrap_or(&mut self.dirty)
    }

    /// As [`Dirty::next`].
    pub(crate) fn next(&mut self, bytes_max: usize, lazy: bool) -> Vec<Contents> {
        let lazy = lazy && self.aging.is_none();
        self.leaving().next(bytes_max, lazy)
    }

    /// As [`Dirty::next_is_large`].
    pub(crate) fn next_is_large(&mut self, lazy: bool) -> bool {
        let lazy = lazy && self.aging.is_none();
        self.leaving().next_is_large(lazy)
    }

    /// As [`Dirty::take`].
    pub(crate) fn take(&mut self, count: usize, lazy: bool) -> Group {
        let lazy = lazy && self.aging.is_none();
        self.leaving().take(count, lazy)
    }

    /// Nothing changes the newest layer any more.
    pub(crate) fn freeze(&mut self, epoch: Birth) {
        if !self.top.is_empty() {
            let layer = std::mem::take(&mut self.top).freeze();
            self.frozen.push_front(Frozen { layer, epoch });
        }
    }

    /// Answers whoever waits with an error.
    pub(crate) fn refuse(&mut self, error: impl Fn() -> Error) {
        for demand in self.demands.drain(..) {
            demand.send(Err(error()));
        }
        self.dirty.give_up();
        if let Some(aging) = &mut self.aging {
            aging.give_up();
        }
    }

    /// A group is on its way, or has nothing to write.
    pub(crate) fn begin_writing(&mut self, group: Arc<Group>, written: bool) {
        self.writing.push_back(Writing { group, written });
        self.forget_written();
    }

    /// A group is written.
    pub(crate) fn end_writing(&mut self, group: &Arc<Group>) {
        for writing in &mut self.writing {
            writing.written |= Arc::ptr_eq(&writing.group, group);
        }
        self.forget_written();
    }

    fn forget_written(&mut self) {
        while self.writing.front().is_some_and(|w| w.written) {
            self.writing.pop_front();
        }
    }

    fn source(&self, record: u64) -> Source {
        let writing = self.writing.iter().rev();
        let groups = || writing.clone().find_map(|w| w.group.get(record));
        let aging = || self.aging.as_ref()?.get(record);
        if let Some(known) = self.dirty.get(record).or_else(aging).or_else(groups) {
            return Source::Known(known);
        }
        let key = record_key(record);
        let frozen = self.frozen.iter().map(|f| f.layer.as_ref());
        let mut layers = std::iter::once(&self.top).chain(frozen);
        let said = layers.find_map(|l| Some((l, l.get(key)?)));
        match said {
            Some((_, Some(Value::Block(ptr)))) if ptr.logical_size == self.dataset.record_size => {
                Source::Block(*ptr)
            }
            Some((layer, Some(Value::Block(first)))) => {
                // the others came together with it
                let others = (1..PIECES_MAX).map_while(|number| {
                    let piece = layer.get(piece_key(record, number))??;
                    piece.block().copied()
                });
                Source::Pieces(std::iter::once(*first).chain(others).collect())
            }
            Some((_, Some(Value::Inline(_)) | None)) => Source::Known(Known::Zero),
            None => Source::Tree(self.root),
        }
    }
}

pub(crate) struct Inner {
    pub(crate) id: TreeId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Mutex<State>,
    changes: RangeLock,
    generation: AtomicU64,
}

/// A volume, or a snapshot of one. Clones are the same.
#[derive(Clone)]
pub struct Volume(pub(crate) Arc<Inner>);

impl Volume {
    pub(crate) fn new(id: TreeId, shared: Arc<Shared>, state: State) -> Self {
        Self(Arc::new(Inner {
            id,
            shared,
            state: Mutex::new(state),
            changes: RangeLock::default(),
            generation: AtomicU64::new(0),
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

    pub(crate) fn set_dataset(&self, dataset: Dataset) {
        lock(&self.0.state).dataset = dataset;
        self.changed();
    }

    /// Makes all that was acknowledged durable, whatever clients are told.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Closed`].
    pub async fn flush_all(&self) -> Result<Durable> {
        self.0.durable(true).await
    }

    /// Clients are to look at it again.
    pub(crate) fn changed(&self) {
        self.0.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// Answers whoever waits with an error, now and from now on.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.0.state);
        state.gone = true;
        state.refuse(|| Error::Closed);
    }
}

/// A change that has its place in line: bytes of the volume.
struct Change {
    bytes: Range<u64>,
    turn: Turn,
}

impl Inner {
    fn geometry(&self) -> Geometry {
        let state = lock(&self.state);
        let dataset = &state.dataset;
        let per_record = dataset.record_size / dataset.block_size;
        Geometry {
            block_size: dataset.block_size,
            blocks: dataset.size / u64::from(dataset.block_size),
            physical_block: dataset.record_size.min(65_536),
            atomic_write_blocks: per_record,
            deallocate_blocks: per_record,
            optimal_blocks: per_record,
            // disabled, what is lost with the power is no less
            volatile_cache: dataset.sync != Sync::Always,
            read_only: dataset.class == DatasetClass::Snapshot || self.shared.vdevs.is_read_only(),
            thin: true,
        }
    }

    fn range(&self, at: Extent) -> backend::Result<Range<u64>> {
        let geometry = self.geometry();
        check_extent(&geometry, at)?;
        let start = at.start.0 * u64::from(geometry.block_size);
        Ok(start..start + at.blocks * u64::from(geometry.block_size))
    }

    fn change(&self, at: Extent) -> backend::Result<Change> {
        let bytes = self.range(at)?;
        let (record_size, class) = {
            let state = lock(&self.state);
            if state.gone {
                return Err(StorageError::Offline);
            }
            (u64::from(state.dataset.record_size), state.dataset.class)
        };
        if class == DatasetClass::Snapshot || self.shared.vdevs.is_read_only() {
            return Err(StorageError::ReadOnly);
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

    fn extent(&self, start: Lba, data: &IoBuf) -> Extent {
        let block_size = u64::from(lock(&self.state).dataset.block_size);
        Extent {
            start,
            blocks: data.len() as u64 / block_size,
        }
    }

    fn record_size(&self) -> usize {
        lock(&self.state).dataset.record_size as usize
    }

    /// How its new records are stored.
    pub(crate) fn packer(&self) -> Packer {
        Packer {
            packing: lock(&self.state).dataset.compression,
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
        if self.shared.has_failed() {
            return Err(Error::Device);
        }
        if lock(&self.state).dirty.ranges() >= RANGES_MAX {
            let _proof = self.durable(true).await?;
        }
        let replaced = {
            let mut state = lock(&self.state);
            if state.gone {
                return Err(Error::Closed);
            }
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
        let zeroes = vec![0; (bytes.end - bytes.start) as usize];
        self.put(bytes.start, &zeroes, false).await
    }

    async fn write_durable(&self, change: Change, data: IoBuf) -> Result<Durable> {
        if self.sync() == Sync::Disabled {
            self.write(change, data).await?;
            return self.promise(false).await;
        }
        let Change { bytes, mut turn } = change;
        turn.come().await;
        if self.is_large(bytes.start, &data) {
            let _written = self.put_large(bytes.start, data.into()).await?;
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
            if state.dataset.class == DatasetClass::Snapshot {
                lock(&self.shared.asking).push(self.id);
            }
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

    /// Makes `data`, which [is large](Self::is_large), the contents from byte `at` on. It is on its way when this
    /// returns; the receiver hears when the devices have it. The caller's turn has come, and lasts until then.
    async fn put_large(&self, at: u64, data: SharedBuf) -> Result<oneshot::Receiver<()>> {
        let size = self.record_size();
        let bytes = data.len() as u64;
        let entered = self.shared.room.enter(&self.shared, self.id, bytes).await?;
        let (done, receiver) = oneshot::channel();
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
            state.dirty.put_large(large)
        };
        self.shared.room.replaced(self.id, replaced as u64);
        self.shared.bell.ring();
        Ok(receiver)
    }

    async fn write(&self, change: Change, data: IoBuf) -> Result<()> {
        let Change { bytes, mut turn } = change;
        turn.come().await;
        if self.is_large(bytes.start, &data) {
            let written = self.put_large(bytes.start, data.into()).await?;
            let gone = || lock(&self.state).gone;
            let lost = || if gone() { Error::Closed } else { Error::Device };
            written.await.ok_or_else(lost)?;
        } else {
            self.put(bytes.start, &data, false).await?;
        }
        drop(turn);
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
