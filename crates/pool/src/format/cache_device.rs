//! Cache devices: the label of a disk that holds copies of a pool's blocks, and the tables of its segments.
//!
//! **Owns** both encodings. **Called by** the scan, and by [`crate::cache_device`]. **Invariants**: the label has the magic of a member's and
//! a version of its own, so that releases which know no cache devices take the disk for one of a later version and do not overwrite it; a
//! table says nothing about the contents of its blocks, which are verified by the checksum in their pointer. `docs/format.md`, "Cache
//! devices".

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::label::{
    CHECKED_SIZE, CHECKSUM_SIZE, MAGIC, VERSION_CACHE, VERSION_FIELD, sealed, whole,
};
use super::label_fields::{self as fields, HOST_NAME_SIZE, Host, check_name, field};
use super::uberblock::disk_checksum;
use super::{Defect, GUID_NONE, LABEL_SIZE, PoolGuid, VdevOffset, layout};

const TAIL_SIZE: usize = CHECKED_SIZE - 384;

/// Magic of a segment's table.
const TABLE_MAGIC: [u8; 4] = *b"WPct";
const TABLE_HEADER_SIZE: usize = 48;
const ENTRY_SIZE: usize = 16;
/// A segment's table takes this part of it.
const TABLE_PART: usize = 128;
/// Sizes that segments may have, bytes.
const SEGMENT_SIZES: std::ops::RangeInclusive<u32> = 512 << 10..=2 << 20;

/// Identifier of a cache device, from its addition to a pool to its removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CacheGuid(pub u64);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawCache {
    magic: [u8; 4],
    version: U32,
    cache: U64,
    pool: U64,
    segment_size: U32,
    reserved: [u8; 20],
    host: [u8; 16],
    host_name: [u8; HOST_NAME_SIZE],
    name: [u8; 256],
    tail: [u8; TAIL_SIZE],
    checksum: [u8; CHECKSUM_SIZE],
}
layout!(RawCache, LABEL_SIZE, magic @ 0, version @ 4, cache @ 8, pool @ 16, segment_size @ 24, reserved @ 28, host @ 48,
    host_name @ 64, name @ 128, tail @ 384, checksum @ 16368);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawTable {
    magic: [u8; 4],
    count: U32,
    cache: U64,
    sequence: U64,
    time_ms: U64,
    reserved: [u8; 16],
}
layout!(RawTable, TABLE_HEADER_SIZE, magic @ 0, count @ 4, cache @ 8, sequence @ 16, time_ms @ 24, reserved @ 32);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBlock {
    name: U64,
    offset: U32,
    len: U32,
}
layout!(RawBlock, ENTRY_SIZE, name @ 0, offset @ 8, len @ 12);

/// The label of a cache device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLabel {
    /// The device.
    pub cache: CacheGuid,
    /// The pool whose blocks it holds.
    pub pool: PoolGuid,
    /// The pool's name when the label was written; for information only.
    pub name: String,
    /// The host that wrote it; for information only.
    pub host: Host,
    /// Bytes of a segment.
    pub segment_size: u32,
}

impl CacheLabel {
    /// Checks the fields.
    ///
    /// # Errors
    /// The first field that is inconsistent.
    pub fn check(&self) -> Result<(), Defect> {
        if self.cache.0 == GUID_NONE {
            return field("cache device's GUID", 0);
        }
        if self.pool.0 == GUID_NONE {
            return field("GUID of a cache device's pool", 0);
        }
        let size = self.segment_size;
        if !SEGMENT_SIZES.contains(&size) || !size.is_power_of_two() {
            return field("size of a cache device's segments", size.into());
        }
        check_name(&self.name)
    }

    /// Encodes the label for the disk offset `at`.
    ///
    /// # Panics
    /// If the fields are inconsistent.
    #[must_use]
    pub fn encode(&self, at: VdevOffset) -> Vec<u8> {
        assert_eq!(self.check(), Ok(()), "{self:?}");
        let raw = RawCache {
            magic: MAGIC,
            version: U32::new(VERSION_CACHE),
            cache: self.cache.0.into(),
            pool: self.pool.0.into(),
            segment_size: self.segment_size.into(),
            reserved: [0; 20],
            host: self.host.id,
            host_name: fields::text(&self.host.name),
            name: fields::text(&self.name),
            tail: [0; TAIL_SIZE],
            checksum: [0; CHECKSUM_SIZE],
        };
        sealed(&raw, at)
    }

    /// Decodes the label that was read from the disk offset `at`.
    ///
    /// # Errors
    /// A wrong length or checksum, another kind of label, or the first field that is malformed.
    pub fn decode(bytes: &[u8], at: VdevOffset) -> Result<Self, Defect> {
        let raw: &RawCache = whole(bytes, at)?;
        if raw.version.get() != VERSION_CACHE {
            return field(VERSION_FIELD, raw.version.get().into());
        }
        if raw.reserved != [0; 20] || raw.tail.iter().any(|&byte| byte != 0) {
            return field("reserved bytes of a cache device's label", 1);
        }
        let label = Self {
            cache: CacheGuid(raw.cache.get()),
            pool: PoolGuid(raw.pool.get()),
            name: fields::decode_text("name of a cache device's pool", &raw.name)?,
            host: Host {
                id: raw.host,
                name: fields::decode_text("label's host", &raw.host_name)?,
            },
            segment_size: raw.segment_size.get(),
        };
        label.check()?;
        Ok(label)
    }
}

/// A block in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedBlock {
    /// The hash of its address and placement.
    pub name: u64,
    /// Its offset in the segment, bytes.
    pub offset: u32,
    /// Bytes that it takes.
    pub len: u32,
}

/// The table of a segment, with which the segment begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheTable {
    /// The device: tables from before its last addition to a pool have another one.
    pub cache: CacheGuid,
    /// Number of the segment among all that were written, from 1.
    pub sequence: u64,
    /// Time at which it was written, milliseconds since 1970.
    pub time_ms: u64,
    /// Its blocks.
    pub blocks: Vec<CachedBlock>,
}

impl CacheTable {
    /// Bytes of the table of a segment of this size.
    #[must_use]
    pub fn size_in(segment_size: u32) -> usize {
        segment_size as usize / TABLE_PART
    }

    /// Most blocks of a segment of this size.
    #[must_use]
    pub fn blocks_max(segment_size: u32) -> usize {
        (Self::size_in(segment_size) - TABLE_HEADER_SIZE - CHECKSUM_SIZE) / ENTRY_SIZE
    }

    /// Encodes the table into the first bytes of the segment `segment`, which is written at the disk offset `at`.
    ///
    /// # Panics
    /// If there are too many blocks for the segment's size.
    pub fn encode(&self, segment_size: u32, segment: &mut [u8], at: VdevOffset) {
        assert!(self.blocks.len() <= Self::blocks_max(segment_size));
        let raw = RawTable {
            magic: TABLE_MAGIC,
            count: U32::new(self.blocks.len() as u32),
            cache: self.cache.0.into(),
            sequence: self.sequence.into(),
            time_ms: self.time_ms.into(),
            reserved: [0; 16],
        };
        let table = &mut segment[..Self::size_in(segment_size)];
        table.fill(0);
        let (checked, checksum) = table.split_at_mut(table.len() - CHECKSUM_SIZE);
        let (header, entries) = checked.split_at_mut(TABLE_HEADER_SIZE);
        header.copy_from_slice(raw.as_bytes());
        for (block, entry) in self.blocks.iter().zip(entries.chunks_mut(ENTRY_SIZE)) {
            let raw = RawBlock {
                name: block.name.into(),
                offset: block.offset.into(),
                len: block.len.into(),
            };
            entry.copy_from_slice(raw.as_bytes());
        }
        checksum.copy_from_slice(&disk_checksum(at, checked));
    }

    /// Decodes the table of a segment of this size, which was read from the disk offset `at`.
    ///
    /// # Errors
    /// A wrong length or checksum, or the first field that is malformed.
    pub fn decode(segment_size: u32, bytes: &[u8], at: VdevOffset) -> Result<Self, Defect> {
        let want = Self::size_in(segment_size);
        let length = Defect::Length {
            what: "table of a cache device",
            got: bytes.len(),
            want,
        };
        if bytes.len() != want {
            return Err(length);
        }
        let (checked, checksum) = bytes.split_at(want - CHECKSUM_SIZE);
        let (raw, rest) = RawTable::ref_from_prefix(checked).map_err(|_| length)?;
        if checksum != disk_checksum(at, checked) {
            return Err(Defect::Checksum);
        }
        if raw.magic != TABLE_MAGIC {
            return field(
                "magic of a cache device's table",
                u32::from_le_bytes(raw.magic).into(),
            );
        }
        let count = raw.count.get() as usize;
        if count > Self::blocks_max(segment_size) || raw.reserved != [0; 16] {
            return field("number of blocks of a cache device's table", count as u64);
        }
        let mut blocks = Vec::with_capacity(count);
        for entry in rest.chunks_exact(ENTRY_SIZE).take(count) {
            let entry = RawBlock::ref_from_bytes(entry).map_err(|_| length)?;
            let (offset, len) = (entry.offset.get(), entry.len.get());
            let is_inside = offset
                .checked_add(len)
                .is_some_and(|end| end <= segment_size);
            if !is_inside || (offset as usize) < want || len == 0 {
                return field("block of a cache device's table", offset.into());
            }
            blocks.push(CachedBlock {
                name: entry.name.get(),
                offset,
                len,
            });
        }
        Ok(Self {
            cache: CacheGuid(raw.cache.get()),
            sequence: raw.sequence.get(),
            time_ms: raw.time_ms.get(),
            blocks,
        })
    }
}
