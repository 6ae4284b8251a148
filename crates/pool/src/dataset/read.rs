//! Reading records of a dataset.
//!
//! **Owns** the search for records: in memory, in the cache, or on the devices; and the assembly of a request's bytes.
//! **Called by** volumes. **Invariants**: every block from a device is verified before it is decompressed; the caller
//! is a registered reader from before it looks an address up until it has the block, so that the block's sectors are
//! not reused meanwhile.

use std::ops::Range;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use io::{IoBuf, Payload};

use super::OpenDataset;
use super::keys::{fragment_key, fragments_of};
use super::part_reads::PartRead;
use super::runs::{RUN_MAX, Run, Runs};
use super::state::Source;
use crate::block_reads::Caching;
use crate::dirty::Known;
use crate::format::filesystem::KIND_DATA;
use crate::format::{
    Autodefrag, Block, BlockPtr, Compression, DatasetProperty, Defect, Key, Value,
};
use crate::lost::LostBlock;
use crate::scattered::{Window, is_apart};
use crate::{Error, Result};
use io::sync::lock;

/// The most reads in flight for one request.
const RUNS_AT_ONCE: usize = 32;

/// Longer requests, in bytes, of more than one record bypass the caches: they are likely to be a scan, and
/// reading adjacent blocks is faster.
const CACHED_MAX: usize = 64 << 10;

/// Most bytes of the record cache that a reply keeps until it was sent, for each of its own bytes.
const LENT_MAX: usize = 4;

/// The result of a read; or an error for each block of which no member has a right copy, at least one.
type Read<T> = std::result::Result<T, Vec<Error>>;

/// The contents of a record, or the location of its blocks.
#[derive(Clone)]
pub(crate) enum Location {
    Known(Known),
    Cached(Arc<IoBuf>),
    Block(Block),
    /// These bytes of a block: whole parts, which are read alone.
    Parts(Block, Range<usize>),
    /// The fragments of the record, in order.
    Fragments(Vec<BlockPtr>),
}

impl Location {
    /// Whether it reads as zero and takes no space.
    pub(crate) fn is_zero(&self) -> bool {
        matches!(self, Location::Known(Known::Zero))
    }

    /// Bytes of the contents. The rest of the record is zero.
    pub(crate) fn len(&self) -> usize {
        match self {
            Location::Known(known) => known.len(),
            Location::Cached(held) => held.len(),
            Location::Block(block) | Location::Parts(block, _) => block.ptr().logical_size as usize,
            Location::Fragments(fragments) => {
                fragments.iter().map(|f| f.logical_size as usize).sum()
            }
        }
    }

    /// The blocks that a read takes from the devices.
    fn blocks(&self) -> &[BlockPtr] {
        match self {
            Location::Block(block) | Location::Parts(block, _) => std::slice::from_ref(block.ptr()),
            Location::Fragments(fragments) => fragments,
            Location::Known(_) | Location::Cached(_) => &[],
        }
    }
}

/// Where records or blocks of one object and kind can be found, by key.
#[derive(Clone)]
pub(crate) struct Sources(pub(super) Vec<(Key, Source)>);

/// A part of a request: `len` bytes of a record's contents, from byte `skip` of them on.
pub(crate) struct Piece {
    pub(crate) key: Key,
    pub(crate) location: Location,
    pub(crate) skip: usize,
    pub(crate) len: usize,
}

impl Piece {
    /// The block that it reads from the first to the last byte.
    fn whole_block(&self) -> Option<&BlockPtr> {
        match &self.location {
            Location::Block(block) => {
                let ptr = block.ptr();
                (self.skip == 0 && self.len == ptr.logical_size as usize).then_some(ptr)
            }
            _ => None,
        }
    }
}

impl OpenDataset {
    /// The caches that a request of `len` bytes of `records` records uses.
    pub(crate) fn caching(&self, len: usize, records: u64) -> Caching {
        use DatasetProperty::{Primarycache, Secondarycache};
        let is_short = len <= CACHED_MAX || records == 1;
        let takes = |of| is_short && self.settings.caches_records(of);
        Caching {
            in_memory: self.shared.records.is_on() && takes(Primarycache),
            on_devices: self.shared.caches.is_on() && takes(Secondarycache),
        }
    }

    /// The sources of the records or blocks under these keys, all at one moment.
    pub(crate) fn sources<const N: usize>(&self, keys: [Range<Key>; N]) -> [Sources; N] {
        let state = lock(&self.state);
        keys.map(|keys| {
            let keys = (0..keys.start.up_to(keys.end)).map(|n| keys.start.after(n));
            Sources(keys.map(|key| (key, state.source(key))).collect())
        })
    }

    /// The locations of the records under `keys`, which are of one object and one kind.
    pub(crate) async fn locate(&self, keys: Range<Key>, caching: Caching) -> Result<Vec<Location>> {
        let [sources] = self.sources([keys]);
        self.resolve(sources, caching).await
    }

    /// The locations of records or blocks, in the order of their keys. The caller was a registered reader when it got the sources.
    pub(crate) async fn resolve(
        &self,
        Sources(sources): Sources,
        caching: Caching,
    ) -> Result<Vec<Location>> {
        let mut locations = Vec::with_capacity(sources.len());
        let mut found = self.look_up(&sources).await?.into_iter().peekable();
        for (key, source) in sources {
            let (value, root) = match source {
                Source::Known(known) => {
                    locations.push(Location::Known(known));
                    continue;
                }
                Source::Fragments(fragments) => {
                    locations.push(self.in_fragments(key, fragments)?);
                    continue;
                }
                Source::Block(block) => (Some(Value::Block(block)), None),
                Source::Tree(root) => {
                    let found = found.next_if(|(k, _)| *k == key);
                    (found.map(|(_, value)| value), root)
                }
            };
            locations.push(match value {
                None | Some(Value::Inline(_)) => Location::Known(Known::of_value(value.as_ref())),
                Some(Value::Block(block)) if self.settings.is_whole(block.ptr()) => {
                    let ptr = block.ptr();
                    let held = caching.in_memory.then(|| self.shared.records.get(ptr));
                    let held = held.flatten();
                    if held.is_some() {
                        let reuse = &self.shared.reuse;
                        reuse.note(ptr.name_hash(), ptr.physical_size);
                    }
                    held.map_or(Location::Block(block), Location::Cached)
                }
                Some(Value::Block(first)) => {
                    let mut fragments = vec![*first.ptr()];
                    let others = self.scan_tree(root, fragments_of(&(key..key.next())));
                    let others = Box::pin(others).await?;
                    fragments.extend(others.iter().filter_map(|(_, value)| value.block()));
                    self.in_fragments(key, fragments)?
                }
            });
        }
        Ok(locations)
    }

    /// The values of records that only the tree has, in order, found by one descent.
    async fn look_up(&self, sources: &[(Key, Source)]) -> Result<Vec<(Key, Value)>> {
        let of_tree = |(key, source): &(Key, Source)| match source {
            Source::Tree(root) => Some((*key, *root)),
            Source::Known(_) | Source::Block(_) | Source::Fragments(_) => None,
        };
        let mut wanted = sources.iter().filter_map(of_tree);
        let Some((first, root)) = wanted.next() else {
            return Ok(Vec::new());
        };
        let Some((last, _)) = wanted.next_back() else {
            let value = self.look_up_one(root, first).await?;
            return Ok(value.map(|value| (first, value)).into_iter().collect());
        };
        let mut found = Box::pin(self.scan_tree(root, first..last.next())).await?;
        // skip records that the layers have
        found.retain(|(key, _)| {
            let asked = sources.binary_search_by_key(key, |(k, _)| *k);
            asked.is_ok_and(|i| of_tree(&sources[i]).is_some())
        });
        Ok(found)
    }

    /// The fragments of the record under `key`, if their sizes add up to one that it may have.
    fn in_fragments(&self, key: Key, fragments: Vec<BlockPtr>) -> Result<Location> {
        let found: u64 = fragments.iter().map(|p| u64::from(p.logical_size)).sum();
        let record_size = u64::from(self.settings.record_size_of(key.object()));
        if found == record_size || (self.settings.has_files() && found < record_size) {
            Ok(Location::Fragments(fragments))
        } else {
            Err(other_size(&fragments[0]))
        }
    }

    /// Reads the `len` bytes of these pieces.
    pub(crate) async fn read_pieces(
        &self,
        pieces: &[Piece],
        len: usize,
        caching: Caching,
    ) -> Result<Payload> {
        if let [piece] = pieces
            && let Location::Cached(held) = &piece.location
        {
            return Ok(lend(held.clone(), piece.skip, piece.len).await);
        }
        if let [piece] = pieces
            && let Location::Parts(block, bytes) = &piece.location
            // else the reply takes a second buffer while this one is held
            && piece.len * LENT_MAX >= bytes.len().next_power_of_two()
        {
            let buffers = io::pool();
            let read = self.read_parts(block, bytes, caching, &buffers).await;
            let held = self.told(pieces, read.map_err(|error| vec![error]))?;
            return Ok(lend(held, piece.skip - bytes.start, piece.len).await);
        }
        if caching.in_memory
            && let Some(read) = self.read_to_cache(pieces, caching).await
        {
            return read;
        }
        if let Some(run) = self.whole_run(pieces) {
            let bytes = self.shared.read_run(&run, &io::pool(), caching).await;
            let bytes = self.told(pieces, bytes)?;
            if caching.in_memory {
                let mut rest = &bytes[..];
                for ptr in &run {
                    let (contents, behind) = rest.split_at(ptr.logical_size as usize);
                    self.shared.records.insert(ptr, contents);
                    rest = behind;
                }
            }
            return Ok(Payload::from(bytes));
        }
        if pieces.iter().all(|piece| piece.location.is_zero()) {
            return Ok(Payload::zeroes(len));
        }
        let mut out = io::pool().alloc(len).await;
        self.fill(pieces, &mut out, caching).await?;
        Ok(Payload::from(out))
    }

    /// Reads the only piece of a request, of an uncompressed block, into a buffer of the record cache, and keeps the block there.
    /// `None` if the request is another one, or the cache has no buffer.
    async fn read_to_cache(&self, pieces: &[Piece], caching: Caching) -> Option<Result<Payload>> {
        let [piece] = pieces else { return None };
        let Location::Block(block) = &piece.location else {
            return None;
        };
        let ptr = block.ptr();
        let size = ptr.logical_size as usize;
        if ptr.compression != Compression::Off || self.space(ptr) != Some(size) {
            return None;
        }
        let buf = self.shared.records.reserve(size)?;
        let bytes = self.shared.read_block_into(ptr, buf, caching).await;
        Some(match self.told(pieces, bytes) {
            Ok(bytes) => {
                let held = self.shared.records.insert_read(ptr, bytes);
                Ok(lend(held, piece.skip, piece.len).await)
            }
            Err(error) => Err(error),
        })
    }

    /// The blocks of pieces that are whole, adjacent and uncompressed: one read has them as they are.
    fn whole_run(&self, pieces: &[Piece]) -> Option<Vec<BlockPtr>> {
        let sector = self.shared.vdevs.sector();
        let mut run = Vec::new();
        let (mut bytes, mut end) = (0, None);
        for piece in pieces {
            let ptr = piece.whole_block()?;
            let is_plain =
                ptr.compression == Compression::Off && ptr.logical_size.is_multiple_of(sector);
            let at = ptr.address();
            let space = self.space(ptr)?;
            bytes += space;
            if !is_plain || end.is_some_and(|end| end != at) || bytes > RUN_MAX {
                return None;
            }
            end = Some(at.behind(space));
            run.push(*ptr);
        }
        Some(run)
    }

    /// Fills `out` with the bytes of these pieces.
    pub(crate) async fn fill(
        &self,
        pieces: &[Piece],
        out: &mut [u8],
        caching: Caching,
    ) -> Result<()> {
        let filled = self.read_into(pieces, out, caching).await;
        self.told(pieces, filled)
    }

    /// Reports a read to the list of lost blocks: blocks without a right copy are noted, repaired ones removed.
    fn told<T>(&self, pieces: &[Piece], read: Read<T>) -> Result<T> {
        let lost = &self.shared.lost;
        let mut failed = match read {
            Ok(read) if !lost.is_any() => return Ok(read),
            Ok(read) => {
                for piece in pieces {
                    // a read may have needed only parts of a block, or only some of several fragments
                    if let Location::Block(_) | Location::Fragments(_) = &piece.location
                        && let [ptr] = piece.location.blocks()
                    {
                        lost.is_right(ptr);
                    }
                }
                return Ok(read);
            }
            Err(failed) => failed,
        };
        failed.sort_by_key(Error::at);
        for piece in pieces {
            for (number, ptr) in (0..).zip(piece.location.blocks()) {
                let at = Some(ptr.address());
                if let Ok(index) = failed.binary_search_by_key(&at, Error::at) {
                    let key = fragment_key(piece.key, number);
                    lost.note(&failed[index], LostBlock::record(self.id, key, *ptr));
                }
            }
        }
        Err(failed.swap_remove(0))
    }

    /// Fills `out` with the bytes of these pieces. The records that are read go to the caches that `caching` names. All
    /// records are tried even if one fails, so that the error names all lost blocks.
    async fn read_into(&self, pieces: &[Piece], out: &mut [u8], caching: Caching) -> Read<()> {
        let (mut runs, mut parts) = (Runs::default(), Vec::new());
        let mut rest = out;
        for piece in pieces {
            let mut part;
            (part, rest) = rest.split_at_mut(piece.len);
            let (mut skip, end) = (piece.skip, piece.skip + piece.len);
            match &piece.location {
                Location::Known(Known::Data(data)) => part.copy_from_slice(&data[skip..end]),
                Location::Known(Known::Zero) => part.fill(0),
                Location::Cached(held) => part.copy_from_slice(&held[skip..end]),
                Location::Block(block) => {
                    runs.add(block.ptr(), self.space(block.ptr()), skip, part);
                }
                Location::Parts(block, bytes) => {
                    PartRead::add(&mut parts, (block, bytes), skip, part);
                }
                Location::Fragments(fragments) => {
                    for fragment in fragments {
                        let size = fragment.logical_size as usize;
                        let here;
                        let read = size.saturating_sub(skip).min(part.len());
                        (here, part) = part.split_at_mut(read);
                        if read > 0 {
                            runs.add(fragment, self.space(fragment), skip, here);
                        }
                        skip = skip.saturating_sub(size);
                    }
                }
            }
        }
        let runs = runs.into_inner();
        self.note_order(pieces, (runs.len() + parts.len()) as u64);
        let parts = parts.into_iter().map(|read| self.fill_parts(read, caching));
        let mut failed = stream::iter(parts)
            .buffer_unordered(RUNS_AT_ONCE)
            .concat()
            .await;
        let reads = runs.into_iter();
        let reads = stream::iter(reads.map(|run| self.read_run(run, caching)));
        failed.extend(reads.buffer_unordered(RUNS_AT_ONCE).concat().await);
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    /// Notes the windows of a request for the order mover, if its blocks lie in this many places and apart.
    fn note_order(&self, pieces: &[Piece], places: u64) {
        let scattered = &self.shared.scattered;
        if places > 0 {
            scattered.count_read();
        }
        let from_devices = pieces
            .iter()
            .filter(|piece| !piece.location.blocks().is_empty());
        let bytes = from_devices.map(|piece| piece.len as u64).sum();
        if !is_apart(bytes, places)
            || self.is_snapshot()
            || self.settings.autodefrag() == Autodefrag::Off
        {
            return;
        }
        let mut records = pieces
            .iter()
            .map(|piece| piece.key)
            .filter(|key| key.kind() == KIND_DATA);
        let Some(first) = records.next() else { return };
        let last = records.next_back().unwrap_or(first);
        let size = self.settings.record_size_of(first.object());
        let ends = [first, last].map(|key| Window::of(self.id, key, size));
        if scattered.note(ends) {
            self.shared.bell.ring();
        }
    }

    /// Reads and unpacks a run. Its blocks go to the caches that `caching` names. Returns the errors.
    async fn read_run(&self, run: Run<'_>, caching: Caching) -> Vec<Error> {
        let buffers = &self.shared.read_buffers;
        let read = self.shared.read_run(run.blocks(), buffers, caching);
        let bytes = match read.await {
            Ok(bytes) => bytes,
            Err(failed) => return failed,
        };
        let keep = |ptr: &BlockPtr, contents: &[u8]| {
            if caching.in_memory {
                self.shared.records.insert(ptr, contents);
            }
        };
        run.unpack(&bytes, |ptr| self.space(ptr), keep)
    }

    /// Bytes that a block takes, in whole sectors. None if its vdev does not exist.
    fn space(&self, ptr: &BlockPtr) -> Option<usize> {
        let vdevs = &self.shared.vdevs;
        let _it_exists = vdevs.sector_of(ptr.vdev)?;
        Some(vdevs.allocated(ptr) as usize)
    }
}

/// A part of a cached record for a reply: of its own buffer, or copied if that is more than [`LENT_MAX`] times as large.
async fn lend(held: Arc<IoBuf>, skip: usize, len: usize) -> Payload {
    if len * LENT_MAX >= held.capacity() {
        return Payload::shared(held).sub(skip, len);
    }
    let mut part = io::pool().alloc(len).await;
    part.copy_from_slice(&held[skip..skip + len]);
    Payload::from(part)
}

fn other_size(ptr: &BlockPtr) -> Error {
    Error::Corrupt {
        at: ptr.address(),
        defect: Defect::Field {
            field: "size of a record in fragments",
            value: ptr.logical_size.into(),
        },
    }
}
