//! Formats of the journal: segment headers, batches and their records.
//!
//! **Owns** their encoding. **Called by** the journal's writer and its replay. **Invariants**: a batch that decodes was
//! written completely, by this pool, at this address; its records are all known and well formed, and fill it exactly;
//! encoding them again gives the same bytes. `docs/format.md`, "Journal".

use std::ops::Range;

use xxhash_rust::xxh3::Xxh3;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    Address, BLOCK_PTR_SIZE, Birth, Block, BlockPtr, Checksum, Defect, INLINE_SIZE_MAX, KEY_SIZE,
    Key, PoolGuid, TreeId, Value, layout,
};

/// Length of a batch header, bytes.
pub const BATCH_HEADER_SIZE: usize = 96;
/// Most bytes of a batch, padding included.
pub const BATCH_SIZE_MAX: usize = 1 << 20;
/// Most bytes of a state record.
pub const STATE_SIZE_MAX: usize = 4096;
/// Largest contents in a record that puts contents, bytes.
pub const CONTENTS_SIZE_MAX: usize = 64 << 10;
/// Length of a segment header, bytes; the rest of its sector is zero.
pub const SEGMENT_HEADER_SIZE: usize = 64;
/// Length of a record header, bytes.
const RECORD_HEADER_SIZE: usize = 8;

const BATCH_MAGIC: [u8; 4] = *b"WPjb";
const SEGMENT_MAGIC: [u8; 4] = *b"WPjs";
const VERSION: u8 = 1;
/// Offset of the checksum in the headers of batches and segments.
const BATCH_CHECKSUM_AT: usize = 80;
const SEGMENT_CHECKSUM_AT: usize = 48;

const PUT_BLOCK: u8 = 1;
const PUT_INLINE: u8 = 2;
const DELETE: u8 = 3;
const DELETE_RANGE: u8 = 4;
const FREEZE: u8 = 5;
const STATE: u8 = 6;
const PUT_PARTS: u8 = 7;
const PUT_CONTENTS: u8 = 8;
/// Flag of a put block whose data is written together with the batch.
const FLAG_FRESH: u8 = 1;

/// Number of a batch: it grows by one for ever, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sequence(pub u64);

impl Sequence {
    /// The next number.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// Number of an incarnation, which no two openings of a pool share. A batch continues one of another incarnation only where
/// replay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Incarnation(pub u64);

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBatch {
    magic: [u8; 4],
    version: u8,
    reserved: [u8; 3],
    pool: U64,
    sequence: U64,
    epoch: U64,
    incarnation: U64,
    durable_up_to: U64,
    previous: [u8; 16],
    length: U32,
    count: U32,
    reserved_2: U64,
    checksum: [u8; 16],
}
layout!(RawBatch, BATCH_HEADER_SIZE, magic @ 0, version @ 4, reserved @ 5, pool @ 8, sequence @ 16, epoch @ 24,
    incarnation @ 32, durable_up_to @ 40, previous @ 48, length @ 64, count @ 68, reserved_2 @ 72,
    checksum @ BATCH_CHECKSUM_AT);

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSegment {
    magic: [u8; 4],
    version: u8,
    reserved: [u8; 3],
    pool: U64,
    number: U64,
    reserved_2: [u8; 24],
    checksum: [u8; 16],
}
layout!(RawSegment, SEGMENT_HEADER_SIZE, magic @ 0, version @ 4, reserved @ 5, pool @ 8, number @ 16,
    reserved_2 @ 24, checksum @ SEGMENT_CHECKSUM_AT);

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The key gets this value. A block that it points to was durable before the batch was written.
    Put(TreeId, Key, Value),
    /// The key gets this block, whose data is written together with the batch.
    PutFresh(TreeId, Key, Block),
    /// The record under the key gets these contents, at most [`CONTENTS_SIZE_MAX`] bytes, which no block has yet.
    PutContents(TreeId, Key, Box<[u8]>),
    /// The key is deleted.
    Delete(TreeId, Key),
    /// All keys of the range are deleted.
    DeleteRange(TreeId, Range<Key>),
    /// The tree's layer is frozen here, in this epoch, for example for a snapshot.
    Freeze(TreeId, Birth),
    /// A change of the pool's state, at most [`STATE_SIZE_MAX`] bytes, whose meaning the layer above defines.
    State(Box<[u8]>),
}

impl Record {
    /// Length in a batch of a record that puts a block, besides the checksums of its parts, bytes.
    pub const PUT_BLOCK_SIZE: usize = RECORD_HEADER_SIZE + 8 + KEY_SIZE + BLOCK_PTR_SIZE;
    /// Length in a batch of a record that puts an inline value, besides the value, bytes.
    pub const PUT_INLINE_SIZE: usize = RECORD_HEADER_SIZE + 8 + KEY_SIZE;
    /// Length in a batch of a record that puts contents, besides the contents, bytes.
    pub const PUT_CONTENTS_SIZE: usize = Self::PUT_INLINE_SIZE;
    /// Length in a batch of a record that deletes a range, bytes.
    pub const DELETE_RANGE_SIZE: usize = RECORD_HEADER_SIZE + 8 + 2 * KEY_SIZE;

    /// Length in a batch, bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        RECORD_HEADER_SIZE
            + match self {
                Record::Put(_, _, Value::Block(block)) | Record::PutFresh(_, _, block) => {
                    8 + KEY_SIZE + block.encoded_size()
                }
                Record::Put(_, _, Value::Inline(bytes)) | Record::PutContents(_, _, bytes) => {
                    8 + KEY_SIZE + bytes.len()
                }
                Record::Delete(..) => 8 + KEY_SIZE,
                Record::DeleteRange(..) => 8 + 2 * KEY_SIZE,
                Record::Freeze(..) => 16,
                Record::State(bytes) => bytes.len(),
            }
    }

    /// The block that replay must verify if the batch is not known to be durable.
    #[must_use]
    pub fn fresh(&self) -> Option<&BlockPtr> {
        match self {
            Record::PutFresh(_, _, block) => Some(block.ptr()),
            _ => None,
        }
    }

    /// Appends the encoded record.
    ///
    /// # Panics
    /// If a key is reserved, a range is empty or a value is too long, because such a record would not decode.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let put = |block: &Block| match block.has_parts() {
            true => PUT_PARTS,
            false => PUT_BLOCK,
        };
        let (kind, flags) = match self {
            Record::Put(_, _, Value::Block(block)) => (put(block), 0),
            Record::PutFresh(_, _, block) => (put(block), FLAG_FRESH),
            Record::Put(_, _, Value::Inline(_)) => (PUT_INLINE, 0),
            Record::PutContents(..) => (PUT_CONTENTS, 0),
            Record::Delete(..) => (DELETE, 0),
            Record::DeleteRange(..) => (DELETE_RANGE, 0),
            Record::Freeze(..) => (FREEZE, 0),
            Record::State(_) => (STATE, 0),
        };
        let payload = u32::try_from(self.size() - RECORD_HEADER_SIZE).expect("bounded");
        out.extend([kind, flags, 0, 0]);
        out.extend(payload.to_le_bytes());
        let mut tree_key = |tree: &TreeId, key: Key| {
            assert!(key < Key::END, "the key is reserved");
            out.extend(tree.0.to_le_bytes());
            out.extend(key.encode());
        };
        match self {
            Record::Put(tree, key, value) => {
                tree_key(tree, *key);
                match value {
                    Value::Block(block) => block.encode(out),
                    Value::Inline(bytes) => {
                        assert!(bytes.len() <= INLINE_SIZE_MAX, "{} bytes", bytes.len());
                        out.extend(&bytes[..]);
                    }
                }
            }
            Record::PutFresh(tree, key, block) => {
                tree_key(tree, *key);
                block.encode(out);
            }
            Record::PutContents(tree, key, bytes) => {
                assert!(bytes.len() <= CONTENTS_SIZE_MAX, "{} bytes", bytes.len());
                tree_key(tree, *key);
                out.extend(&bytes[..]);
            }
            Record::Delete(tree, key) => tree_key(tree, *key),
            Record::DeleteRange(tree, keys) => {
                assert!(!keys.is_empty(), "an empty range");
                tree_key(tree, keys.start);
                out.extend(keys.end.encode());
            }
            Record::Freeze(tree, epoch) => {
                out.extend(tree.0.to_le_bytes());
                out.extend(epoch.0.to_le_bytes());
            }
            Record::State(bytes) => {
                assert!(bytes.len() <= STATE_SIZE_MAX, "{} bytes", bytes.len());
                out.extend(&bytes[..]);
            }
        }
    }

    /// Decodes the first record of `bytes` and advances `bytes`.
    fn decode(bytes: &mut &[u8], index: usize) -> Result<Self, Defect> {
        let wrong = |what| Defect::Value { index, what };
        let (header, rest) = bytes
            .split_first_chunk::<RECORD_HEADER_SIZE>()
            .ok_or(wrong("a record cut off"))?;
        let [kind, flags, 0, 0, size @ ..] = *header else {
            return Err(wrong("a record's reserved bytes"));
        };
        let size = u32::from_le_bytes(size) as usize;
        let (payload, rest) = rest
            .split_at_checked(size)
            .ok_or(wrong("a record cut off"))?;
        *bytes = rest;
        if flags != 0 && (flags != FLAG_FRESH || !matches!(kind, PUT_BLOCK | PUT_PARTS)) {
            return Err(wrong("a record's flags"));
        }
        let mut fields = Fields { payload, index };
        let record = match kind {
            PUT_BLOCK | PUT_PARTS => {
                let (tree, key) = (fields.tree()?, fields.key()?);
                let block = match kind {
                    PUT_BLOCK => BlockPtr::decode(fields.take()?)?.into(),
                    _ => {
                        let (ptr, sums) = Block::decode_in_parts(fields.all())?;
                        Block::of(ptr, sums)
                    }
                };
                if flags == FLAG_FRESH {
                    Record::PutFresh(tree, key, block)
                } else {
                    Record::Put(tree, key, Value::Block(block))
                }
            }
            PUT_INLINE => {
                let (tree, key) = (fields.tree()?, fields.key()?);
                Record::Put(tree, key, Value::Inline(fields.rest(INLINE_SIZE_MAX)?))
            }
            PUT_CONTENTS => {
                let (tree, key) = (fields.tree()?, fields.key()?);
                Record::PutContents(tree, key, fields.rest(CONTENTS_SIZE_MAX)?)
            }
            DELETE => Record::Delete(fields.tree()?, fields.key()?),
            DELETE_RANGE => {
                let (tree, start) = (fields.tree()?, fields.key()?);
                let end = Key::decode(*fields.take()?);
                if end <= start {
                    return Err(wrong("an empty range"));
                }
                Record::DeleteRange(tree, start..end)
            }
            FREEZE => Record::Freeze(fields.tree()?, Birth(u64::from_le_bytes(*fields.take()?))),
            STATE => Record::State(fields.rest(STATE_SIZE_MAX)?),
            _ => return Err(wrong("a record of a kind that is not known")),
        };
        if !fields.payload.is_empty() {
            return Err(wrong("a record that is too long"));
        }
        Ok(record)
    }
}

/// The rest of a record's payload.
struct Fields<'a> {
    payload: &'a [u8],
    index: usize,
}

impl<'a> Fields<'a> {
    fn wrong(&self, what: &'static str) -> Defect {
        Defect::Value {
            index: self.index,
            what,
        }
    }

    fn take<const N: usize>(&mut self) -> Result<&'a [u8; N], Defect> {
        let (field, rest) = self
            .payload
            .split_first_chunk()
            .ok_or(self.wrong("a record that is too short"))?;
        self.payload = rest;
        Ok(field)
    }

    fn tree(&mut self) -> Result<TreeId, Defect> {
        Ok(TreeId(u64::from_le_bytes(*self.take()?)))
    }

    fn key(&mut self) -> Result<Key, Defect> {
        let key = Key::decode(*self.take()?);
        if key == Key::END {
            return Err(Defect::KeyReserved { index: self.index });
        }
        Ok(key)
    }

    fn all(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.payload)
    }

    fn rest(&mut self, max: usize) -> Result<Box<[u8]>, Defect> {
        if self.payload.len() > max {
            return Err(self.wrong("a record with too many bytes"));
        }
        Ok(std::mem::take(&mut self.payload).into())
    }
}

/// Header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    /// The pool's identifier.
    pub pool: PoolGuid,
    /// Its number.
    pub sequence: Sequence,
    /// The pool's epoch when it was sealed.
    pub epoch: Birth,
    /// The incarnation of the pool that wrote it.
    pub incarnation: Incarnation,
    /// Every batch up to this one, with its fresh data, had been flushed when this one was sealed: below `sequence`.
    pub durable_up_to: Sequence,
    /// Checksum of the previous batch; zero for the first one.
    pub previous: Checksum,
}

/// A decoded batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Its header.
    pub header: BatchHeader,
    /// Its records, oldest first.
    pub records: Vec<Record>,
    /// Its checksum.
    pub checksum: Checksum,
    /// Length on disk, bytes: whole sectors.
    pub size: usize,
}

fn field(field: &'static str, value: u64) -> Defect {
    Defect::Field { field, value }
}

/// Checksum of all bytes but the checksum itself, seeded with the address like the checksums of blocks.
fn checksum_around(at: Address, bytes: &[u8], field: usize) -> Checksum {
    let mut hash = Xxh3::with_seed(at.seed());
    hash.update(&bytes[..field]);
    hash.update(&bytes[field + 16..]);
    Checksum(hash.digest128().to_le_bytes())
}

impl Batch {
    /// Encodes a batch at `at`, padded to whole sectors. Returns the bytes and the checksum. `records` are encoded records.
    ///
    /// # Panics
    /// If the batch is too large or a number is invalid.
    #[must_use]
    pub fn encode(
        header: &BatchHeader,
        count: u32,
        records: &[u8],
        at: Address,
        sector: usize,
    ) -> (Vec<u8>, Checksum) {
        assert!(header.durable_up_to < header.sequence, "{header:?}");
        let length = BATCH_HEADER_SIZE + records.len();
        let size = length.next_multiple_of(sector);
        assert!(size <= BATCH_SIZE_MAX && count > 0, "{size} bytes");
        let raw = RawBatch {
            magic: BATCH_MAGIC,
            version: VERSION,
            reserved: [0; 3],
            pool: U64::new(header.pool.0),
            sequence: U64::new(header.sequence.0),
            epoch: U64::new(header.epoch.0),
            incarnation: U64::new(header.incarnation.0),
            durable_up_to: U64::new(header.durable_up_to.0),
            previous: header.previous.0,
            length: U32::new(u32::try_from(length).expect("bounded")),
            count: U32::new(count),
            reserved_2: U64::ZERO,
            checksum: [0; 16],
        };
        let mut bytes = Vec::with_capacity(size);
        bytes.extend(raw.as_bytes());
        bytes.extend(records);
        bytes.resize(size, 0);
        let checksum = checksum_around(at, &bytes, BATCH_CHECKSUM_AT);
        bytes[BATCH_CHECKSUM_AT..BATCH_HEADER_SIZE].copy_from_slice(&checksum.0);
        (bytes, checksum)
    }

    /// Length of the batch that begins with `start`, by its header, which is not verified.
    #[must_use]
    pub fn size_hint(start: &[u8], sector: usize) -> Option<usize> {
        let (raw, _) = RawBatch::read_from_prefix(start).ok()?;
        let size = (raw.length.get() as usize).next_multiple_of(sector);
        (raw.magic == BATCH_MAGIC && size >= sector && size <= BATCH_SIZE_MAX).then_some(size)
    }

    /// Decodes the batch that was read from `at`.
    ///
    /// # Errors
    /// Damage, another pool, another address, or an unknown record.
    pub fn decode(
        bytes: &[u8],
        at: Address,
        pool: PoolGuid,
        sector: usize,
    ) -> Result<Self, Defect> {
        let short = Defect::Length {
            what: "batch",
            got: bytes.len(),
            want: BATCH_HEADER_SIZE,
        };
        let (raw, body) = RawBatch::read_from_prefix(bytes).map_err(|_| short)?;
        if raw.magic != BATCH_MAGIC {
            return Err(field("batch's magic", u32::from_le_bytes(raw.magic).into()));
        }
        let checksum = checksum_around(at, bytes, BATCH_CHECKSUM_AT);
        if checksum.0 != raw.checksum {
            return Err(Defect::Checksum);
        }
        let length = raw.length.get() as usize;
        if length < BATCH_HEADER_SIZE
            || bytes.len() > BATCH_SIZE_MAX
            || length.next_multiple_of(sector) != bytes.len()
        {
            return Err(field("batch's length", length as u64));
        }
        if raw.version != VERSION {
            return Err(field("batch's version", raw.version.into()));
        }
        if raw.reserved != [0; 3] || raw.reserved_2 != U64::ZERO {
            return Err(field("batch's reserved bytes", raw.reserved_2.get()));
        }
        if raw.pool.get() != pool.0 {
            return Err(field("batch's pool", raw.pool.get()));
        }
        if raw.durable_up_to.get() >= raw.sequence.get() {
            return Err(field("batch's durable number", raw.durable_up_to.get()));
        }
        let (mut encoded, padding) = body.split_at(length - BATCH_HEADER_SIZE);
        if padding.iter().any(|b| *b != 0) {
            return Err(field("batch's padding", padding.len() as u64));
        }
        let mut records = Vec::new();
        while !encoded.is_empty() {
            records.push(Record::decode(&mut encoded, records.len())?);
        }
        if records.len() as u64 != u64::from(raw.count.get()) || records.is_empty() {
            return Err(field("batch's count", raw.count.get().into()));
        }
        Ok(Self {
            header: BatchHeader {
                pool,
                sequence: Sequence(raw.sequence.get()),
                epoch: Birth(raw.epoch.get()),
                incarnation: Incarnation(raw.incarnation.get()),
                durable_up_to: Sequence(raw.durable_up_to.get()),
                previous: Checksum(raw.previous),
            },
            records,
            checksum,
            size: bytes.len(),
        })
    }
}

/// Encodes the first sector of segment `number`, at `at`.
///
/// # Panics
/// If the sector is shorter than the header.
#[must_use]
pub fn encode_segment(pool: PoolGuid, number: u64, at: Address, sector: usize) -> Vec<u8> {
    let raw = RawSegment {
        magic: SEGMENT_MAGIC,
        version: VERSION,
        reserved: [0; 3],
        pool: U64::new(pool.0),
        number: U64::new(number),
        reserved_2: [0; 24],
        checksum: [0; 16],
    };
    let mut bytes = raw.as_bytes().to_vec();
    bytes.resize(sector, 0);
    let checksum = checksum_around(at, &bytes, SEGMENT_CHECKSUM_AT);
    bytes[SEGMENT_CHECKSUM_AT..SEGMENT_HEADER_SIZE].copy_from_slice(&checksum.0);
    bytes
}

/// Decodes the first sector of a segment, read from `at`. Returns the segment's number.
///
/// # Errors
/// If the bytes are not those of [`encode_segment`].
pub fn decode_segment(bytes: &[u8], at: Address, pool: PoolGuid) -> Result<u64, Defect> {
    let short = Defect::Length {
        what: "segment header",
        got: bytes.len(),
        want: SEGMENT_HEADER_SIZE,
    };
    let (raw, _) = RawSegment::read_from_prefix(bytes).map_err(|_| short)?;
    let number = raw.number.get();
    if encode_segment(pool, number, at, bytes.len()) != bytes {
        return Err(field("segment header's number", number));
    }
    Ok(number)
}
