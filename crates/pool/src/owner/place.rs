//! Where records go.
//!
//! **Owns** the choice of extents for a group's records, their pointers, and what is written there. **Called by** commits.
//! **Invariants**: the records that have a place are the first of those that ask; one that fits nowhere whole is placed in
//! pieces, so that space which is there can be used, however small its parts are.

use std::ops::Range;

use io::{IoBuf, SharedBuf};

use crate::dirty::Group;
use crate::format::{Address, Birth, BlockPtr, ChecksumKind, Compression, Key, VdevOffset};
use crate::record::Contents;
use crate::volume::{piece_key, pieces_key, record_key};

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
