//! Reading a volume.
//!
//! **Owns** the search for the records of a range of bytes: in memory, in the cache, or on the devices. **Called by**
//! [`super::Volume`]. **Invariants**: every block from a device is verified before it is decompressed; a read is a
//! registered reader from before it looks an address up until it has the block, so that the block's sectors are not
//! reused meanwhile.

use std::ops::Range;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use io::{IoBuf, Payload};

use super::{Inner, Source, fragment_key, fragments_of, record_key};
use crate::compress::unpack;
use crate::dirty::Known;
use crate::format::{Address, BlockPtr, Compression, Defect, Key, Value, VdevOffset};
use crate::lost::LostBlock;
use crate::mutex::lock;
use crate::tree::{Direction, Lookup, LookupStep, Root, Scan, ScanStep};
use crate::{Error, Result};

/// The most bytes of one read from a device.
const RUN_MAX: usize = 1 << 20;

/// The most records that one request for runs visits.
const RECORDS_AT_ONCE: u64 = 4096;

/// The most reads in flight for one request.
const RUNS_AT_ONCE: usize = 32;

/// Longer requests, in bytes, of more than one record bypass the record cache: they are likely to be a scan, and
/// reading adjacent blocks is faster.
const CACHED_MAX: usize = 64 << 10;

/// The result of a read; or an error for each block of which no member has a right copy, at least one.
type Read<T> = std::result::Result<T, Vec<Error>>;

/// The contents of a record, or the location of its blocks.
enum Location {
    Known(Known),
    Cached(Arc<IoBuf>),
    Block(BlockPtr),
    /// The fragments of the record, in order.
    Fragments(Vec<BlockPtr>),
}

impl Location {
    /// The blocks that a read takes from the devices.
    fn blocks(&self) -> &[BlockPtr] {
        match self {
            Location::Block(ptr) => std::slice::from_ref(ptr),
            Location::Fragments(fragments) => fragments,
            Location::Known(_) | Location::Cached(_) => &[],
        }
    }
}

impl Inner {
    /// Whether a request uses the record cache.
    fn is_cached(&self, len: usize, records: &Range<u64>) -> bool {
        let is_short = len <= CACHED_MAX || records.end - records.start == 1;
        is_short && self.shared.records.is_on()
    }

    /// The locations of records.
    async fn places(&self, records: Range<u64>, cached: bool) -> Result<Vec<Location>> {
        let sources: Vec<(u64, Source)> = {
            let state = lock(&self.state);
            records.map(|r| (r, state.source(record_key(r)))).collect()
        };
        let mut places = Vec::with_capacity(sources.len());
        let size = self.record_size();
        let mut found = self.look_up(&sources).await?.into_iter().peekable();
        for (record, source) in sources {
            let (ptr, root) = match source {
                Source::Known(known) => {
                    places.push(Location::Known(known));
                    continue;
                }
                Source::Fragments(fragments) => {
                    places.push(in_fragments(fragments, size)?);
                    continue;
                }
                Source::Block(ptr) => (Some(ptr), None),
                Source::Tree(root) => {
                    let found = found.next_if(|(r, _)| *r == record);
                    (found.map(|(_, ptr)| ptr), root)
                }
            };
            places.push(match ptr {
                None => Location::Known(Known::Zero),
                Some(ptr) if ptr.logical_size as usize == size => {
                    let held = cached.then(|| self.shared.records.get(&ptr)).flatten();
                    held.map_or(Location::Block(ptr), Location::Cached)
                }
                Some(first) => {
                    let mut fragments = vec![first];
                    let key = record_key(record);
                    let others = self.scan(root, fragments_of(&(key..key.next())));
                    fragments.extend(others.await?.into_iter().map(|(_, ptr)| ptr));
                    in_fragments(fragments, size)?
                }
            });
        }
        Ok(places)
    }

    /// The blocks of records that only the tree has, in order, found by one descent.
    async fn look_up(&self, sources: &[(u64, Source)]) -> Result<Vec<(u64, BlockPtr)>> {
        let of_tree = |(record, source): &(u64, Source)| match source {
            Source::Tree(root) => Some((*record, *root)),
            Source::Known(_) | Source::Block(_) | Source::Fragments(_) => None,
        };
        let mut wanted = sources.iter().filter_map(of_tree);
        let Some((first, root)) = wanted.next() else {
            return Ok(Vec::new());
        };
        let Some((last, _)) = wanted.next_back() else {
            let ptr = self.look_up_one(root, record_key(first)).await?;
            return Ok(ptr.map(|ptr| (first, ptr)).into_iter().collect());
        };
        let mut found = self
            .scan(root, record_key(first)..record_key(last + 1))
            .await?;
        // skip records that the layers have
        found.retain(|(record, _)| {
            let asked = sources.binary_search_by_key(record, |(r, _)| *r);
            asked.is_ok_and(|i| of_tree(&sources[i]).is_some())
        });
        Ok(found)
    }

    async fn look_up_one(&self, root: Root, key: Key) -> Result<Option<BlockPtr>> {
        let mut lookup = Lookup::new(&[], root, key);
        loop {
            match lookup.step() {
                LookupStep::Need(need) => {
                    lookup.supply(&self.shared.node(self.id, &need).await?)?
                }
                LookupStep::Done(value) => {
                    return Ok(value.as_ref().and_then(Value::block).copied());
                }
            }
        }
    }

    /// The blocks of a tree under these keys, by offset of the key.
    async fn scan(&self, root: Root, keys: Range<Key>) -> Result<Vec<(u64, BlockPtr)>> {
        let mut found = Vec::with_capacity((keys.end.offset() - keys.start.offset()) as usize);
        let mut scan = Scan::new(root, keys, Direction::Forward);
        loop {
            match scan.step(&[]) {
                ScanStep::Need(need) => scan.supply(self.shared.node(self.id, &need).await?)?,
                ScanStep::Entry(key, value) => {
                    found.extend(value.block().map(|ptr| (key.offset(), *ptr)));
                }
                ScanStep::Done => return Ok(found),
            }
        }
    }

    /// Alternating runs of bytes with and without space, for at most [`RECORDS_AT_ONCE`] records: their lengths, and
    /// whether they have space.
    pub(super) async fn runs(&self, bytes: Range<u64>) -> Result<Vec<(u64, bool)>> {
        let _reader = self.shared.readers.enter();
        let size = self.record_size() as u64;
        let records = bytes.start / size..bytes.end.div_ceil(size);
        let records = records.start..records.end.min(records.start + RECORDS_AT_ONCE);
        let mut runs: Vec<(u64, bool)> = Vec::new();
        for (record, place) in records.clone().zip(self.places(records, false).await?) {
            let mapped = !matches!(place, Location::Known(Known::Zero));
            let part = bytes.start.max(record * size)..bytes.end.min((record + 1) * size);
            let len = part.end - part.start;
            match runs.last_mut() {
                Some((so_far, same)) if *same == mapped => *so_far += len,
                _ => runs.push((len, mapped)),
            }
        }
        Ok(runs)
    }

    /// Reads a range of bytes.
    pub(super) async fn read(&self, bytes: Range<u64>) -> Result<Payload> {
        let len = (bytes.end - bytes.start) as usize;
        if len == 0 {
            return Ok(Payload::zeroes(0));
        }
        let _reader = self.shared.readers.enter();
        let size = self.record_size();
        let records = bytes.start / size as u64..bytes.end.div_ceil(size as u64);
        let cached = self.is_cached(len, &records);
        let places = self.places(records.clone(), cached).await?;
        let skip = (bytes.start - records.start * size as u64) as usize;
        if let [Location::Cached(held)] = &places[..] {
            return Ok(Payload::shared(held.clone()).sub(skip, len));
        }
        let whole = len == places.len() * size;
        if whole
            && let Some(run) = self.run(&places)
            && run.len() == places.len()
            && run.iter().all(|ptr| ptr.compression == Compression::Off)
            && size.is_multiple_of(self.shared.vdevs.sector() as usize)
        {
            let bytes = self.shared.vdevs.read_run(&run, &io::pool()).await;
            let bytes = self.told(records.start, &places, bytes)?;
            if cached {
                let records = run.iter().zip(bytes.chunks(size));
                records.for_each(|(ptr, contents)| self.shared.records.insert(ptr, contents));
            }
            return Ok(Payload::from(bytes));
        }
        if places
            .iter()
            .all(|p| matches!(p, Location::Known(Known::Zero)))
        {
            return Ok(Payload::zeroes(len));
        }
        let mut out = io::pool().alloc(len).await;
        let filled = self.fill(&places, size, skip, &mut out, cached).await;
        self.told(records.start, &places, filled)?;
        Ok(Payload::from(out))
    }

    /// Reads the bytes from `at` on.
    pub(super) async fn read_into(&self, at: u64, out: &mut [u8]) -> Result<()> {
        let _reader = self.shared.readers.enter();
        let size = self.record_size();
        let first = at / size as u64;
        let end = (at + out.len() as u64).div_ceil(size as u64);
        let cached = self.is_cached(out.len(), &(first..end));
        let places = self.places(first..end, cached).await?;
        let skip = (at - first * size as u64) as usize;
        let filled = self.fill(&places, size, skip, out, cached).await;
        self.told(first, &places, filled)
    }

    /// Reports a read of records from `first` on to the list of lost blocks: blocks without a right copy are noted,
    /// repaired ones removed.
    fn told<T>(&self, first: u64, places: &[Location], read: Read<T>) -> Result<T> {
        let lost = &self.shared.lost;
        let mut failed = match read {
            Ok(read) if !lost.is_any() => return Ok(read),
            Ok(read) => {
                self.right_again(places);
                return Ok(read);
            }
            Err(failed) => failed,
        };
        failed.sort_by_key(Error::at);
        for (record, place) in (first..).zip(places) {
            for (number, ptr) in (0..).zip(place.blocks()) {
                let at = Some(ptr.address());
                if let Ok(index) = failed.binary_search_by_key(&at, Error::at) {
                    let key = fragment_key(record_key(record), number);
                    lost.note(&failed[index], LostBlock::record(self.id, key, *ptr));
                }
            }
        }
        Err(failed.swap_remove(0))
    }

    /// All these blocks could be read.
    fn right_again(&self, places: &[Location]) {
        for place in places {
            // a read may have needed only some of several fragments
            if let [ptr] = place.blocks() {
                self.shared.lost.is_right(ptr);
            }
        }
    }

    /// Fills `out` with the contents of records of `size` bytes, from byte `skip` of the first on. If `cached`, the
    /// records that are read go to the cache. All records are tried even if one fails, so that the error names all
    /// lost blocks.
    async fn fill(
        &self,
        places: &[Location],
        size: usize,
        skip: usize,
        out: &mut [u8],
        cached: bool,
    ) -> Read<()> {
        let mut runs = Vec::new();
        let (mut index, mut skip, mut rest) = (0, skip, out);
        while !rest.is_empty() {
            let run = self.run(&places[index..]);
            let count = run.as_ref().map_or(1, Vec::len);
            let len = (count * size - skip).min(rest.len());
            let (mut part, behind) = rest.split_at_mut(len);
            match (run, &places[index]) {
                (None, Location::Fragments(fragments)) => {
                    for fragment in fragments {
                        let size = fragment.logical_size as usize;
                        let here;
                        let read = size.saturating_sub(skip).min(part.len());
                        (here, part) = part.split_at_mut(read);
                        if read > 0 {
                            runs.push((vec![*fragment], skip, here));
                        }
                        skip = skip.saturating_sub(size);
                    }
                }
                (Some(run), _) => runs.push((run, skip, part)),
                (None, Location::Known(Known::Data(data))) => {
                    part.copy_from_slice(&data[skip..skip + len]);
                }
                (None, Location::Cached(held)) => part.copy_from_slice(&held[skip..skip + len]),
                (None, Location::Known(Known::Zero)) => part.fill(0),
                (None, Location::Block(_)) => unreachable!("a block begins a run"),
            }
            (index, skip, rest) = (index + count, 0, behind);
        }
        let (vdevs, buffers) = (&self.shared.vdevs, &self.shared.read_buffers);
        let read = async |(run, skip, part): (Vec<BlockPtr>, usize, &mut [u8])| {
            let read = vdevs.read_run(&run, buffers).await;
            read.map_or_else(
                |failed| failed,
                |bytes| self.unpack_run(&run, &bytes, skip, part, cached),
            )
        };
        let reads = stream::iter(runs).map(read).buffer_unordered(RUNS_AT_ONCE);
        let failed = reads.concat().await;
        if failed.is_empty() {
            Ok(())
        } else {
            Err(failed)
        }
    }

    /// Unpacks adjacent blocks that were read together, from byte `skip` of the first on. Returns an error for each
    /// block that cannot be decompressed.
    fn unpack_run(
        &self,
        run: &[BlockPtr],
        bytes: &[u8],
        skip: usize,
        out: &mut [u8],
        cached: bool,
    ) -> Vec<Error> {
        let mut failed = Vec::new();
        let (mut from, mut skip, mut rest) = (0, skip, out);
        for ptr in run {
            let stored = &bytes[from..from + ptr.physical_size as usize];
            let size = ptr.logical_size as usize;
            let (part, behind) = rest.split_at_mut((size - skip).min(rest.len()));
            let mut whole = Vec::new();
            let (unpacked, contents) = if ptr.compression == Compression::Off {
                part.copy_from_slice(&stored[skip..skip + part.len()]);
                (Ok(()), stored)
            } else if part.len() == size {
                (unpack(ptr.compression, stored, part), &*part)
            } else {
                whole.resize(size, 0);
                let unpacked = unpack(ptr.compression, stored, &mut whole);
                part.copy_from_slice(&whole[skip..skip + part.len()]);
                (unpacked, &whole[..])
            };
            let at = ptr.address();
            match unpacked {
                Ok(()) if cached => self.shared.records.insert(ptr, contents),
                Ok(()) => {}
                Err(defect) => failed.push(Error::Corrupt { at, defect }),
            }
            from += self.space(ptr).unwrap_or(stored.len());
            (skip, rest) = (0, behind);
        }
        failed
    }

    /// Bytes that a block takes, in whole sectors. None if its vdev does not exist.
    fn space(&self, ptr: &BlockPtr) -> Option<usize> {
        let sector = self.shared.vdevs.sector_of(ptr.vdev)?;
        Some(ptr.physical_size.next_multiple_of(sector) as usize)
    }

    /// The adjacent blocks at the begin of `places`.
    fn run(&self, places: &[Location]) -> Option<Vec<BlockPtr>> {
        let mut run: Vec<BlockPtr> = Vec::new();
        let (mut bytes, mut end) = (0, None);
        for place in places {
            let Location::Block(ptr) = place else { break };
            let space = self.space(ptr);
            let at = ptr.address();
            if !run.is_empty() && (end != Some(at) || bytes + space.unwrap_or(0) > RUN_MAX) {
                break;
            }
            bytes += space.unwrap_or(0);
            end = space.map(|space| Address {
                offset: VdevOffset(at.offset.0 + space as u64),
                ..at
            });
            run.push(*ptr);
        }
        (!run.is_empty()).then_some(run)
    }
}

/// The fragments of a record, if their sizes add up to the record's.
fn in_fragments(fragments: Vec<BlockPtr>, size: usize) -> Result<Location> {
    let found: u64 = fragments.iter().map(|p| u64::from(p.logical_size)).sum();
    if found == size as u64 {
        Ok(Location::Fragments(fragments))
    } else {
        Err(other_size(&fragments[0]))
    }
}

fn other_size(ptr: &BlockPtr) -> Error {
    Error::Corrupt {
        at: ptr.address(),
        defect: Defect::Field {
            field: "size of a volume's record",
            value: ptr.logical_size.into(),
        },
    }
}
