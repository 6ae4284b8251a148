//! The layout of a group: the place of each record, and its pointer.
//!
//! **Owns** the pointers of a group. **Called by** write-back, with extents from the allocator. **Invariants**: records lie in their
//! extents in order, one behind the other; a record in fragments is stored uncompressed.

use std::ops::Range;
use std::sync::Arc;

use io::{IoBuf, SharedBuf};

use super::group_data::{Bytes, GroupData};

use crate::compress::Packer;
use crate::dataset::{blocks_of, fragment_key, fragments_of};
use crate::dirty::Group;
use crate::format::filesystem::KIND_DATA;
use crate::format::{
    Address, Birth, Block, BlockPtr, ChecksumKind, Compression, Dataset, Key, VOLUME_OBJECT,
    VdevOffset,
};
use crate::record::Contents;

/// The extents of a group whose data is not laid out yet.
pub(super) enum Destination {
    /// The group has no records.
    Nowhere,
    /// The contents of the records go to the journal.
    Journal,
    /// Records in these extents, each of the given number of bytes. `buf` takes them, unless they lie in one buffer
    /// already.
    Whole {
        extents: Vec<(Address, usize)>,
        sizes: Vec<u32>,
        buf: Option<IoBuf>,
    },
    /// The only record of the group, in fragments. `buf` takes it.
    Fragments {
        fragments: Vec<(Address, u32)>,
        buf: IoBuf,
    },
}

/// The pointers and the data of a group.
#[derive(Default)]
pub(super) struct Placed {
    /// Keys and blocks, in order.
    pub(in crate::owner) entries: Vec<(Key, Block)>,
    /// The data; `None` if none of its records gets an extent.
    pub(in crate::owner) data: Option<GroupData>,
    /// Whether it is one record in fragments.
    pub(in crate::owner) in_fragments: bool,
    /// Whether the contents of its records go to the journal.
    pub(in crate::owner) in_journal: bool,
}

/// The keys that a group deletes.
pub(super) struct Deletes {
    /// The keys of zeroed ranges.
    pub(in crate::owner) ranges: Vec<Range<Key>>,
    /// The keys of fragments of the records that are put, and of their blocks: layers and trees have no stale ones.
    pub(in crate::owner) stale: Vec<Range<Key>>,
}

impl Deletes {
    pub(in crate::owner) fn with(group: &Group, dataset: &Dataset) -> Self {
        let has_fragments = dataset.has_fragments;
        let with_fragments = |keys: Range<Key>| {
            let fragments = has_fragments.then(|| fragments_of(&keys));
            std::iter::once(keys).chain(fragments)
        };
        let ranges = group.ranges.iter().cloned().flat_map(with_fragments);
        let mut deletes = Self {
            ranges: ranges.collect(),
            stale: Vec::new(),
        };
        if !has_fragments && !dataset.has_blocks {
            return deletes;
        }
        let mut runs: Vec<Range<Key>> = Vec::new();
        for (key, _) in &group.records {
            match runs.last_mut().filter(|run| run.end == *key) {
                Some(run) => run.end = key.next(),
                None => runs.push(*key..key.next()),
            }
        }
        for run in &runs {
            deletes
                .stale
                .extend(has_fragments.then(|| fragments_of(run)));
            if dataset.has_blocks && run.start.kind() == KIND_DATA {
                let blocks = blocks_of(run, dataset.record_size);
                deletes.stale.extend(with_fragments(blocks));
            }
        }
        deletes
    }
}

impl Placed {
    /// Bytes of the checksums of parts beside its pointers.
    pub(super) fn part_sums(&self) -> u64 {
        let blocks = self.entries.iter();
        blocks.map(|(_, block)| block.sums().len() as u64).sum()
    }

    /// Makes the pointers of a group. It reads all bytes of records that were not hashed before: the caller holds no lock.
    pub(in crate::owner) fn at(
        destination: Destination,
        group: &Arc<Group>,
        birth: Birth,
        packer: Packer,
    ) -> Self {
        match destination {
            Destination::Nowhere => Self::default(),
            Destination::Journal => Self {
                in_journal: true,
                ..Self::default()
            },
            Destination::Whole {
                extents,
                sizes,
                buf,
            } => Self::whole(group, (&extents, sizes), buf, birth, packer),
            Destination::Fragments { fragments, buf } => {
                Self::in_fragments(group, &fragments, buf, birth, packer.checksum)
            }
        }
    }

    /// Puts records into these extents, each in the given number of bytes. `buf` takes them, unless they lie in one buffer already.
    fn whole(
        group: &Arc<Group>,
        (extents, sizes): (&[(Address, usize)], Vec<u32>),
        buf: Option<IoBuf>,
        birth: Birth,
        packer: Packer,
    ) -> Self {
        let mut placed = Self::default();
        let (mut records, mut rest) = (&group.records[..], &sizes[..]);
        let mut places = Vec::with_capacity(extents.len());
        for (at, count) in extents {
            let (here, behind) = records.split_at(*count);
            let (sizes_here, sizes_behind) = rest.split_at(*count);
            let births = group.births.as_deref();
            let births = births.map(|births| &births[placed.entries.len()..]);
            let entries = point(here, (*at, sizes_here), (birth, births), packer);
            placed.entries.extend(entries);
            places.push((*at, sizes_here.iter().sum()));
            (records, rest) = (behind, sizes_behind);
        }
        let bytes = match buf {
            Some(buf) => Bytes::of_records(group.clone(), sizes, buf),
            None => Bytes::Ready(group.whole.clone().expect("they lie together")),
        };
        placed.data = Some(GroupData::new(bytes, places));
        placed
    }

    /// Lays a group's only record out in fragments, uncompressed. `buf` takes it.
    fn in_fragments(
        group: &Group,
        fragments: &[(Address, u32)],
        mut buf: IoBuf,
        birth: Birth,
        kind: ChecksumKind,
    ) -> Self {
        let [(key, contents)] = &group.records[..] else {
            panic!("fragments are of one record");
        };
        let stored: u32 = fragments.iter().map(|(_, bytes)| bytes).sum();
        buf.set_len(stored as usize);
        buf[..contents.len()].copy_from_slice(contents);
        buf[contents.len()..].fill(0);
        let data = SharedBuf::from(buf);
        let mut placed = Self {
            in_fragments: true,
            ..Self::default()
        };
        let mut from = 0;
        for (number, (at, bytes)) in (0..).zip(fragments) {
            let end = (from + *bytes as usize).min(contents.len());
            let fragment = &contents[from..end];
            let plain = (Compression::Off, fragment.len());
            let ptr = BlockPtr {
                is_fragment: key.object() != VOLUME_OBJECT,
                ..BlockPtr::to(*at, fragment, plain, kind, birth)
            };
            placed
                .entries
                .push((fragment_key(*key, number), ptr.into()));
            from = end;
        }
        placed.data = Some(GroupData::new(Bytes::Ready(data), fragments.to_vec()));
        placed
    }
}

/// The blocks of records that lie behind each other from `at` on, each in the given number of bytes. They are born in the epoch
/// `birth`; `births` are those of their contents, if these are older.
fn point(
    records: &[(Key, Contents)],
    (at, sizes): (Address, &[u32]),
    (birth, births): (Birth, Option<&[Birth]>),
    packer: Packer,
) -> impl Iterator<Item = (Key, Block)> {
    let mut offset = at.offset.0;
    let records = records.iter().zip(sizes).enumerate();
    records.map(move |(index, ((key, data), size))| {
        let address = Address {
            offset: VdevOffset(offset),
            ..at
        };
        let (compression, _stored) = data.stored();
        let form = (compression, data.len());
        let block = Block::placed(address, &data.hashes(packer), form, birth);
        let block = match births {
            Some(births) => block.with_contents_of(births[index]),
            None => block,
        };
        offset += u64::from(*size);
        (*key, block)
    })
}
