//! Block pointers: address, sizes, births and checksum of a block.
//!
//! **Owns** their encoding. **Called by** nodes, and by all structures with a root. **Invariants**: a decoded pointer passed
//! [`BlockPtr::check`]; only such pointers are encoded. `docs/format.md`, "Block pointer".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Address, Birth, Checksum, ChecksumKind, Defect, Digest, VdevId, VdevOffset, layout};

/// Length of a block pointer on disk, bytes.
pub const BLOCK_PTR_SIZE: usize = 48;
/// Most bytes of one block.
pub const LOGICAL_SIZE_MAX: u32 = 16 << 20;
/// Smallest sector, bytes; every offset is a multiple of it.
pub const SECTOR_SIZE_MIN: u64 = 512;
/// Exclusive upper bound of offsets, 128 PiB: a vdev and a sector on it fit into 64 bits.
pub const OFFSET_END: u64 = SECTOR_SIZE_MIN << 48;

/// Bits of the second byte: the kind of checksum in the lower half, properties in the upper half.
const CHECKSUM_KIND_MASK: u8 = 0x0f;
/// Property: the block is a fragment of a file's record.
const FLAG_FRAGMENT: u8 = 0x20;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawBlockPtr {
    vdev: U16,
    compression: u8,
    flags: u8,
    logical_size: U32,
    physical_size: U32,
    moved: U32,
    offset: U64,
    birth: U64,
    checksum: [u8; 16],
}
layout!(RawBlockPtr, BLOCK_PTR_SIZE, vdev @ 0, compression @ 2, flags @ 3, logical_size @ 4, physical_size @ 8,
    moved @ 12, offset @ 16, birth @ 24, checksum @ 32);

/// Compression of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compression {
    /// None.
    Off,
    /// LZ4 block format.
    Lz4,
    /// One Zstandard frame.
    Zstd,
}

/// A pointer to a block, which describes its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockPtr {
    /// Its vdev.
    pub vdev: VdevId,
    /// Offset on the vdev: a multiple of [`SECTOR_SIZE_MIN`], below [`OFFSET_END`].
    pub offset: VdevOffset,
    /// Decompressed length, bytes: 1 to [`LOGICAL_SIZE_MAX`].
    pub logical_size: u32,
    /// Stored length without padding, bytes: 1 to the logical size, and equal to it if the block is not compressed.
    pub physical_size: u32,
    /// Its compression.
    pub compression: Compression,
    /// Kind of its checksum.
    pub checksum_kind: ChecksumKind,
    /// Whether it is a fragment of a file's record. Fragments of a volume's record are known by their size.
    pub is_fragment: bool,
    /// The epoch in which its contents were written. Snapshots and deadlists go by it.
    pub birth: Birth,
    /// The epoch in which it was written to its address: its birth, or a later one if it was moved. Address and placement name
    /// these bytes for ever; caches and resilvers go by it.
    pub placed: Birth,
    /// Checksum of the stored bytes.
    pub checksum: Checksum,
}

impl BlockPtr {
    /// Returns the pointer to a block with the bytes `stored`, which were compressed from `logical_size` bytes.
    #[must_use]
    pub fn to(
        at: Address,
        stored: &[u8],
        (compression, logical_size): (Compression, usize),
        checksum_kind: ChecksumKind,
        birth: Birth,
    ) -> Self {
        let checksum = Checksum::of(checksum_kind, at, stored);
        let sizes = (stored.len() as u32, logical_size as u32);
        Self::with_checksum(at, sizes, compression, (checksum_kind, checksum), birth)
    }

    /// As [`BlockPtr::to`], for stored bytes with this digest.
    #[must_use]
    pub fn to_digest(
        at: Address,
        stored: Digest,
        (compression, logical_size): (Compression, usize),
        birth: Birth,
    ) -> Self {
        let checksum = (stored.kind(), stored.at(at));
        let sizes = (stored.bytes(), logical_size as u32);
        Self::with_checksum(at, sizes, compression, checksum, birth)
    }

    fn with_checksum(
        at: Address,
        (physical_size, logical_size): (u32, u32),
        compression: Compression,
        (checksum_kind, checksum): (ChecksumKind, Checksum),
        birth: Birth,
    ) -> Self {
        Self {
            vdev: at.vdev,
            offset: at.offset,
            logical_size,
            physical_size,
            compression,
            checksum_kind,
            is_fragment: false,
            birth,
            placed: birth,
            checksum,
        }
    }

    /// The pointer to a block that was just written, and whose contents are those of a block of this birth.
    ///
    /// # Panics
    /// If the block is older than its contents, or by more epochs younger than a pointer can say ([`BlockPtr::keeps`]).
    #[must_use]
    pub fn with_contents_of(self, birth: Birth) -> Self {
        assert!(Self::keeps(birth, self.placed), "{birth:?} in {self:?}");
        Self { birth, ..self }
    }

    /// Whether a pointer to a block that is placed in the epoch `placed` can keep the birth of its contents.
    #[must_use]
    pub fn keeps(birth: Birth, placed: Birth) -> bool {
        placed
            .0
            .checked_sub(birth.0)
            .is_some_and(|moved| u32::try_from(moved).is_ok())
    }

    /// Its address.
    #[must_use]
    pub fn address(&self) -> Address {
        Address {
            vdev: self.vdev,
            offset: self.offset,
        }
    }

    /// The hash of the name of the block's contents. The name has these contents for ever.
    pub(crate) fn name_hash(&self) -> u64 {
        self.address().name_hash(self.placed)
    }

    /// The same of the part of the block from byte `from` of it on. No block begins at an odd address.
    pub(crate) fn part_name_hash(&self, from: usize) -> u64 {
        self.address().behind(from + 1).name_hash(self.placed)
    }

    /// Checks that the fields are consistent.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let (logical, physical) = (self.logical_size, self.physical_size);
        if logical == 0 || logical > LOGICAL_SIZE_MAX {
            return field("block pointer's logical size", logical.into());
        }
        let exact = self.compression == Compression::Off;
        if physical == 0 || physical > logical || exact && physical != logical {
            return field("block pointer's physical size", physical.into());
        }
        let offset = self.offset.0;
        if offset >= OFFSET_END || !offset.is_multiple_of(SECTOR_SIZE_MIN) {
            return field("block pointer's offset", offset);
        }
        if self.birth.0 == 0 {
            return field("block pointer's birth", 0);
        }
        if !Self::keeps(self.birth, self.placed) {
            return field("epoch of a block pointer's placement", self.placed.0);
        }
        Ok(())
    }

    /// Encodes the pointer.
    ///
    /// # Panics
    /// If the fields are inconsistent.
    #[must_use]
    pub fn encode(&self) -> [u8; BLOCK_PTR_SIZE] {
        assert_eq!(self.check(), Ok(()), "{self:?}");
        let raw = RawBlockPtr {
            vdev: U16::new(self.vdev.0),
            compression: match self.compression {
                Compression::Off => 0,
                Compression::Lz4 => 1,
                Compression::Zstd => 2,
            },
            flags: self.checksum_kind.code()
                | match self.is_fragment {
                    true => FLAG_FRAGMENT,
                    false => 0,
                },
            logical_size: U32::new(self.logical_size),
            physical_size: U32::new(self.physical_size),
            moved: U32::new((self.placed.0 - self.birth.0) as u32),
            offset: U64::new(self.offset.0),
            birth: U64::new(self.birth.0),
            checksum: self.checksum.0,
        };
        zerocopy::transmute!(raw)
    }

    /// Decodes a pointer.
    ///
    /// # Errors
    /// The first field that is malformed, or of an unknown kind.
    pub fn decode(bytes: &[u8; BLOCK_PTR_SIZE]) -> Result<Self, Defect> {
        let raw: RawBlockPtr = zerocopy::transmute!(*bytes);
        let field = |field, value| Err(Defect::Field { field, value });
        let compression = match raw.compression {
            0 => Compression::Off,
            1 => Compression::Lz4,
            2 => Compression::Zstd,
            other => return field("block pointer's compression", other.into()),
        };
        if raw.flags & !(CHECKSUM_KIND_MASK | FLAG_FRAGMENT) != 0 {
            return field("block pointer's flags", raw.flags.into());
        }
        let Some(placed) = raw.birth.get().checked_add(raw.moved.get().into()) else {
            return field(
                "epochs of a block pointer since its birth",
                raw.moved.get().into(),
            );
        };
        let ptr = Self {
            vdev: VdevId(raw.vdev.get()),
            offset: VdevOffset(raw.offset.get()),
            logical_size: raw.logical_size.get(),
            physical_size: raw.physical_size.get(),
            compression,
            checksum_kind: ChecksumKind::from_code(raw.flags & CHECKSUM_KIND_MASK)?,
            is_fragment: raw.flags & FLAG_FRAGMENT != 0,
            birth: Birth(raw.birth.get()),
            placed: Birth(placed),
            checksum: Checksum(raw.checksum),
        };
        ptr.check()?;
        Ok(ptr)
    }

    /// Encodes an optional pointer, such as the root of a tree that may be empty: all zero for `None`.
    ///
    /// # Panics
    /// As [`BlockPtr::encode`].
    #[must_use]
    pub fn encode_option(ptr: Option<&Self>) -> [u8; BLOCK_PTR_SIZE] {
        ptr.map_or([0; BLOCK_PTR_SIZE], Self::encode)
    }

    /// Decodes an optional pointer.
    ///
    /// # Errors
    /// As [`BlockPtr::decode`].
    pub fn decode_option(bytes: &[u8; BLOCK_PTR_SIZE]) -> Result<Option<Self>, Defect> {
        if bytes == &[0; BLOCK_PTR_SIZE] {
            return Ok(None);
        }
        Self::decode(bytes).map(Some)
    }

    /// Checks `bytes` against length and checksum.
    ///
    /// # Errors
    /// A wrong length or checksum.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), Defect> {
        if bytes.len() != self.physical_size as usize {
            return Err(Defect::Length {
                what: "block",
                got: bytes.len(),
                want: self.physical_size as usize,
            });
        }
        if Checksum::of(self.checksum_kind, self.address(), bytes) != self.checksum {
            return Err(Defect::Checksum);
        }
        Ok(())
    }
}
