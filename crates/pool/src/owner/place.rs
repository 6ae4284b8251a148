//! Where records go.
//!
//! **Owns** the choice of extents for a group's records, their pointers, and what is written there. **Called by** commits.
//! **Invariants**: the records that have a place are the first of those that ask; one that fits nowhere whole is placed in
//! pieces, so that space which is there can be used, however small its parts are.

use std::ops::Range;

use io::{IoBuf, SharedBuf};

use super::State;
use crate::dirty::Group;
use crate::format::{
    Address, Birth, BlockPtr, ChecksumKind, Compression, Key, PIECES_MAX, VdevOffset,
};
use crate::record::Contents;
use crate::space::Class;
use crate::volume::{piece_key, pieces_key, record_key};

/// Extents of one group at most.
const EXTENTS_MAX: usize = 64;

/// Extents for the first of the records that ask.
pub(super) enum Place {
    /// Each for so many records, which lie one behind the other in it.
    Whole(Vec<(Address, usize)>),
    /// Several for one record.
    Pieces(Vec<(Address, u32)>),
}

/// Where a group goes, before its data is laid out there.
pub(super) enum Destination {
    /// It has no records.
    Nowhere,
    /// Records in these extents, each in the given number of bytes. `buf` takes them if they do not lie together yet.
    Whole {
        extents: Vec<(Address, usize)>,
        sizes: Vec<u32>,
        buf: Option<IoBuf>,
    },
    /// Its only record, in pieces. `buf` takes it.
    Pieces {
        pieces: Vec<(Address, u32)>,
        buf: IoBuf,
    },
}

/// What a commit writes.
#[derive(Default)]
pub(super) struct Placed {
    /// Keys and pointers, in order.
    pub(super) entries: Vec<(Key, BlockPtr)>,
    /// The data, by address.
    pub(super) writes: Vec<(Address, SharedBuf)>,
    /// Bytes of it.
    pub(super) stored: u64,
    /// Whether it is a record in pieces.
    pub(super) in_pieces: bool,
}

/// Keys that are no more with what a group puts.
pub(super) struct Gone {
    /// Of what is zero now.
    pub(super) ranges: Vec<Range<Key>>,
    /// Pieces of records that are put: a layer and a tree have no others.
    pub(super) pieces: Vec<Range<Key>>,
}

impl Gone {
    pub(super) fn with(group: &Group, has_pieces: bool) -> Self {
        let mut ranges = Vec::with_capacity(group.ranges.len());
        for range in &group.ranges {
            ranges.push(record_key(range.start)..record_key(range.end));
            ranges.extend(has_pieces.then(|| pieces_of(range)));
        }
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (record, _) in group.records.iter().filter(|_| has_pieces) {
            match runs.last_mut().filter(|run| run.end == *record) {
                Some(run) => run.end += 1,
                None => runs.push(*record..record + 1),
            }
        }
        let pieces = runs.iter().map(pieces_of).collect();
        Self { ranges, pieces }
    }
}

fn pieces_of(records: &Range<u64>) -> Range<Key> {
    pieces_key(records.start)..pieces_key(records.end)
}

/// Where a place comes from.
#[derive(Clone, Copy)]
enum Source {
    /// What records may take.
    Allocatable,
    /// What is kept for trees. Records that were let in must have a place: without one, checkpoint would follow
    /// checkpoint, and none would help.
    Reserve,
}

/// How often free space in small parts was met, since the pool was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placements {
    /// Groups of records that were placed in several extents.
    pub split: u64,
    /// Records that were placed in pieces.
    pub in_pieces: u64,
}

impl State {
    /// A place for the first of blocks that lie one behind the other and have so many bytes each, whole sectors; or in
    /// pieces for the first of them, which has `len` bytes as it is.
    pub(super) fn place(&mut self, sizes: &[u32], len: u32, sector: u32) -> Option<Place> {
        let usual = self.place_from(Source::Allocatable, sizes, len, sector);
        usual.or_else(|| self.place_from(Source::Reserve, sizes.get(..1)?, len, sector))
    }

    fn place_from(
        &mut self,
        source: Source,
        sizes: &[u32],
        len: u32,
        sector: u32,
    ) -> Option<Place> {
        let whole = self.place_whole(source, sizes);
        if !whole.is_empty() {
            self.placements.split += u64::from(whole.len() > 1);
            return Some(Place::Whole(whole));
        }
        let pieces = self.place_in_pieces(source, len, sector)?;
        self.placements.in_pieces += 1;
        Some(Place::Pieces(pieces))
    }

    fn allocate(&mut self, source: Source, want: u32, least: u32) -> Option<(Address, u32)> {
        match source {
            Source::Allocatable => self.space.allocate(want, least, Class::Data),
            Source::Reserve => self.space.allocate_promised(want, least),
        }
    }

    fn place_whole(&mut self, source: Source, mut sizes: &[u32]) -> Vec<(Address, usize)> {
        let mut extents = Vec::new();
        while extents.len() < EXTENTS_MAX
            && let Some((at, count)) = self.place_next(source, sizes)
        {
            extents.push((at, count));
            sizes = &sizes[count..];
        }
        extents
    }

    fn place_next(&mut self, source: Source, sizes: &[u32]) -> Option<(Address, usize)> {
        let first = *sizes.first()?;
        // in pieces of the first one's size, so that it fits; what is too much goes back
        let want = sizes.iter().sum::<u32>().next_multiple_of(first);
        let (at, got) = self.allocate(source, want, first)?;
        let (mut used, mut count) = (0, 0);
        for size in sizes {
            if used + size > got {
                break;
            }
            used += size;
            count += 1;
        }
        let end = VdevOffset(at.offset.0 + u64::from(used));
        self.space
            .give_back(Address { offset: end, ..at }, got - used);
        Some((at, count))
    }

    pub(super) fn give_back(&mut self, pieces: &[(Address, u32)]) {
        for (at, bytes) in pieces {
            self.space.give_back(*at, *bytes);
        }
    }

    fn place_in_pieces(
        &mut self,
        source: Source,
        len: u32,
        sector: u32,
    ) -> Option<Vec<(Address, u32)>> {
        let least = (len / PIECES_MAX).next_multiple_of(sector).max(sector);
        let mut left = len.next_multiple_of(sector);
        let mut pieces = Vec::new();
        while left > 0 {
            let found = self.allocate(source, left, least.min(left));
            let Some((at, got)) = found else {
                self.give_back(&pieces);
                return None;
            };
            pieces.push((at, got));
            left -= got;
        }
        Some(pieces)
    }
}

impl Placed {
    /// Lays a group out where it goes, and makes its pointers. It copies and checksums all bytes: hold no lock.
    pub(super) fn at(
        destination: Destination,
        group: &Group,
        birth: Birth,
        kind: ChecksumKind,
    ) -> Self {
        match destination {
            Destination::Nowhere => Self::default(),
            Destination::Whole {
                extents,
                sizes,
                buf,
            } => Self::whole(group, &extents, &sizes, buf, birth, kind),
            Destination::Pieces { pieces, buf } => {
                Self::in_pieces(group, &pieces, buf, birth, kind)
            }
        }
    }

    /// Records that lie in these extents, each in the given number of bytes. `buf` takes them if they do not lie together yet.
    fn whole(
        group: &Group,
        extents: &[(Address, usize)],
        sizes: &[u32],
        buf: Option<IoBuf>,
        birth: Birth,
        kind: ChecksumKind,
    ) -> Self {
        let data = match buf {
            Some(buf) => lay_out(group, buf, sizes),
            None => group.whole.clone().expect("they lie together"),
        };
        let mut placed = Self::default();
        let (mut records, mut sizes, mut from) = (&group.records[..], sizes, 0);
        for (at, count) in extents {
            let (here, behind) = records.split_at(*count);
            let (sizes_here, sizes_behind) = sizes.split_at(*count);
            placed
                .entries
                .extend(point(here, *at, sizes_here, birth, kind));
            let bytes = sizes_here.iter().sum::<u32>() as usize;
            placed.writes.push((*at, data.part(from, bytes)));
            from += bytes;
            (records, sizes) = (behind, sizes_behind);
        }
        placed.stored = from as u64;
        placed
    }

    /// A group's only record in pieces, as it is. `buf` takes it.
    fn in_pieces(
        group: &Group,
        pieces: &[(Address, u32)],
        mut buf: IoBuf,
        birth: Birth,
        kind: ChecksumKind,
    ) -> Self {
        let [(record, contents)] = &group.records[..] else {
            panic!("pieces are of one record");
        };
        let stored: u32 = pieces.iter().map(|(_, bytes)| bytes).sum();
        buf.set_len(stored as usize);
        buf[..contents.len()].copy_from_slice(contents);
        buf[contents.len()..].fill(0);
        let data = SharedBuf::from(buf);
        let mut placed = Self {
            stored: stored.into(),
            in_pieces: true,
            ..Self::default()
        };
        let mut from = 0;
        for (number, (at, bytes)) in (0..).zip(pieces) {
            let end = (from + *bytes as usize).min(contents.len());
            let piece = &contents[from..end];
            let plain = (Compression::Off, piece.len());
            let ptr = BlockPtr::to(*at, piece, plain, kind, birth);
            placed.entries.push((piece_key(*record, number), ptr));
            let part = data.part(from, *bytes as usize);
            placed.writes.push((*at, part));
            from = end;
        }
        placed
    }
}

/// Copies a group's records, as they are stored, into a buffer, one behind the other, each in the given number of bytes.
fn lay_out(group: &Group, mut buf: IoBuf, sizes: &[u32]) -> SharedBuf {
    buf.set_len(sizes.iter().sum::<u32>() as usize);
    let mut rest = &mut buf[..];
    for ((_, data), size) in group.records.iter().zip(sizes) {
        let (place, behind) = rest.split_at_mut(*size as usize);
        let (_, stored) = data.stored();
        place[..stored.len()].copy_from_slice(stored);
        place[stored.len()..].fill(0);
        rest = behind;
    }
    buf.into()
}

/// The pointers of records that lie from `at` on, each in the given number of bytes.
fn point(
    records: &[(u64, Contents)],
    at: Address,
    sizes: &[u32],
    birth: Birth,
    kind: ChecksumKind,
) -> impl Iterator<Item = (Key, BlockPtr)> {
    let mut offset = at.offset.0;
    records
        .iter()
        .zip(sizes)
        .map(move |((record, data), size)| {
            let address = Address {
                offset: VdevOffset(offset),
                ..at
            };
            let (compression, stored) = data.stored();
            let ptr = BlockPtr::to(address, stored, (compression, data.len()), kind, birth);
            offset += u64::from(*size);
            (record_key(*record), ptr)
        })
}
