//! Datasets in the pool's own tree: properties and roots.
//!
//! **Owns** the two values of a dataset: its properties, whose every change is in the journal, and its root, which only a
//! checkpoint writes. They are separate so that replay of a change of properties never restores an old root. **Called by**
//! the opening, changes and checkpoints of a pool. **Invariants**: as for all formats, one value has one encoding.
//! `docs/format.md`, "Datasets".

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::block_sizes::{BlockSizes, CLASS_MAX};
use super::settings::{FILE_RECORD_SIZE, SETTING_SIZE, checksum_code, checksum_from_code};
use super::{
    Autodefrag, BLOCK_PTR_SIZE, Birth, BlockPtr, ChecksumKind, Defect, Key, Kind, NAME_SIZE_MAX,
    ObjectId, Packing, Settings, Switches, TreeId, layout,
};

/// Kind of the keys of properties. The object is the dataset's identifier, the offset 0.
pub const KIND_DATASET: Kind = Kind(2);
/// Kind of the keys of roots. Object and offset as for properties.
pub const KIND_ROOT: Kind = Kind(3);
/// Kind of the keys of deadlists' sizes. The object is the list, the offset 0.
pub const KIND_LIST: Kind = Kind(6);
/// Kind of the key of the next dataset's identifier.
pub const KIND_NEXT_DATASET: Kind = Kind(4);
/// Smallest record of a volume, bytes. Records are a power of two.
pub const RECORD_SIZE_MIN: u32 = 4096;
/// Largest record, bytes.
pub const RECORD_SIZE_MAX: u32 = 1 << 20;

const _: () = assert!(CLASS_MAX == RECORD_SIZE_MAX as u64);

const PROPERTIES_SIZE: usize = 96;
/// Bits of the marks: 0 for records in fragments, 1 for blocks that win over records, 2 for an inherited record size.
const MARKS: u8 = 7;
const ROOT_SIZE: usize = 64;
/// Length of a root that also has the decompressed bytes.
const PACKED_ROOT_SIZE: usize = ROOT_SIZE + 8;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawProperties {
    version: u8,
    class: u8,
    sync: u8,
    compression: u8,
    block_size: U32,
    record_size: U32,
    checksum: u8,
    marks: u8,
    settings: u8,
    reserved: u8,
    size: U64,
    created: U64,
    birth: U64,
    of: U64,
    previous: U64,
    origin: U64,
    quota: U64,
    reservation: U64,
    guid: U64,
    list: U64,
}
layout!(RawProperties, PROPERTIES_SIZE, version @ 0, class @ 1, sync @ 2, compression @ 3, block_size @ 4,
    record_size @ 8, checksum @ 12, marks @ 13, settings @ 14, reserved @ 15, size @ 16, created @ 24, birth @ 32, of @ 40, previous @ 48, origin @ 56, quota @ 64,
    reservation @ 72, guid @ 80, list @ 88);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawRoot {
    root: [u8; BLOCK_PTR_SIZE],
    referenced: U64,
    allocated: U64,
}
layout!(RawRoot, ROOT_SIZE, root @ 0, referenced @ 48, allocated @ 56);

/// Identifier of a deadlist. A list stays between the same two datasets when these change owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListId(pub u64);

/// The snapshot before a dataset (or the origin of its volume), which may hold some of the dataset's blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrevSnapshot {
    /// It holds those blocks of the dataset that were born up to this epoch.
    pub floor: Birth,
    /// The deadlist for blocks that it holds and the dataset no longer does; `None` if they need no list.
    pub list: Option<ListId>,
}

/// Kind of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatasetKind {
    /// A block device.
    Volume,
    /// The frozen state of a volume.
    Snapshot,
    /// Files and directories.
    Filesystem,
    /// The frozen state of a filesystem.
    FilesystemSnapshot,
}

impl DatasetKind {
    /// Whether it is the frozen state of another dataset.
    #[must_use]
    pub fn is_snapshot(self) -> bool {
        matches!(self, Self::Snapshot | Self::FilesystemSnapshot)
    }

    /// Whether it holds files, not the blocks of a device.
    #[must_use]
    pub fn has_files(self) -> bool {
        matches!(self, Self::Filesystem | Self::FilesystemSnapshot)
    }

    /// Whether a block is a whole record of `record_size` bytes, not a fragment of one.
    #[must_use]
    pub fn is_whole(self, ptr: &BlockPtr, record_size: u32) -> bool {
        match self.has_files() {
            // the end of a record is not stored if it is zero
            true => !ptr.is_fragment,
            false => ptr.logical_size == record_size,
        }
    }

    /// The class of its snapshots.
    #[must_use]
    pub fn of_snapshots(self) -> Self {
        match self.has_files() {
            true => Self::FilesystemSnapshot,
            false => Self::Snapshot,
        }
    }

    /// The class of a clone of it.
    #[must_use]
    pub fn of_clones(self) -> Self {
        match self.has_files() {
            true => Self::Filesystem,
            false => Self::Volume,
        }
    }
}

/// When a volume's writes become durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// When the client requests it.
    Standard,
    /// Before they are acknowledged.
    Always,
    /// With a later write-back. Requests for durability are acknowledged although nothing is durable.
    Disabled,
}

/// Properties of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dataset {
    /// Name below the pool's name; for a snapshot, the part behind the `@`.
    pub name: String,
    /// Volume or snapshot.
    pub kind: DatasetKind,
    /// When writes become durable.
    pub sync: Sync,
    /// Compression of new records.
    pub compression: Packing,
    /// Checksum of new records.
    pub checksum: ChecksumKind,
    /// The values that it has of its own. It inherits the others.
    pub settings: Settings,
    /// Properties of a filesystem with two values, in effect. Its record has only those of its own.
    pub switches: Switches,
    /// Most bytes that it may take without its snapshots; 0 for no limit.
    pub refquota: u64,
    /// Whether records that are read in order and lie apart are moved, in effect. Its record has only a value of its own.
    pub autodefrag: Autodefrag,
    /// Bytes that a record takes at most to be stored on special vdevs, in effect; 0 for no record. Its record has only a value of its own.
    pub special_small_blocks: u32,
    /// Whether there may be records in fragments.
    pub has_fragments: bool,
    /// Whether there may be blocks that win over records of files.
    pub has_blocks: bool,
    /// Logical block size, bytes: 512 or 4096.
    pub block_size: u32,
    /// Record size, bytes: a power of two. Of a filesystem: of files without a size of their own.
    pub record_size: u32,
    /// Bytes of a record of files that are created, in effect. Its record has only a value of its own.
    pub file_record_size: u32,
    /// Size that clients see, bytes: whole logical blocks. Of a filesystem: 0.
    pub size: u64,
    /// Time of creation, nanoseconds since 1970, for display.
    pub created: u64,
    /// The epoch of its creation. A snapshot holds blocks born up to it.
    pub birth: Birth,
    /// Of a snapshot: its volume.
    pub of: Option<TreeId>,
    /// The newest snapshot when this dataset was created.
    pub previous: Option<TreeId>,
    /// Of a clone: its origin.
    pub origin: Option<TreeId>,
    /// Most bytes that it may take; 0 for no limit.
    pub quota: u64,
    /// Bytes reserved for it.
    pub reservation: u64,
    /// Identifier that never changes.
    pub guid: u64,
    /// Its deadlist. Of a snapshot: blocks that it holds and the next snapshot, or the volume, does not. Of a clone: blocks
    /// that its origin holds and the clone's oldest snapshot, or the clone, does not.
    pub list: ListId,
}

/// The root of a dataset as of a checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DatasetRoot {
    /// Root of its tree; `None` if the tree is empty.
    pub root: Option<BlockPtr>,
    /// Bytes of its records, as stored.
    pub referenced: u64,
    /// Bytes of its records, decompressed; at least `referenced`.
    pub logical: u64,
    /// Bytes of its records and nodes, in whole sectors.
    pub allocated: u64,
    /// Its nodes, and its records by size. `None` if it has records from before they were counted.
    pub sizes: Option<BlockSizes>,
}

/// The key of a dataset's properties.
#[must_use]
pub fn dataset_key(id: TreeId) -> Key {
    Key::new(ObjectId(id.0), KIND_DATASET, 0)
}

/// The key of a dataset's root.
#[must_use]
pub fn root_key(id: TreeId) -> Key {
    Key::new(ObjectId(id.0), KIND_ROOT, 0)
}

/// The key of a deadlist's size: 8 bytes, in whole sectors; absent if it is zero.
#[must_use]
pub fn list_key(list: ListId) -> Key {
    Key::new(ObjectId(list.0), KIND_LIST, 0)
}

/// The key of the next dataset's identifier: 8 bytes.
#[must_use]
pub fn next_dataset_key() -> Key {
    Key::new(ObjectId(0), KIND_NEXT_DATASET, 0)
}

fn option(id: Option<TreeId>) -> U64 {
    U64::new(id.map_or(0, |id| id.0))
}

fn id(raw: U64) -> Option<TreeId> {
    (raw.get() != 0).then(|| TreeId(raw.get()))
}

impl Dataset {
    /// Checks that the fields are consistent.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        if self.name.is_empty() || self.name.len() > NAME_SIZE_MAX {
            return field("length of a dataset's name", self.name.len() as u64);
        }
        if !matches!(self.block_size, 512 | 4096) {
            return field("volume's block size", self.block_size.into());
        }
        let range = RECORD_SIZE_MIN..=RECORD_SIZE_MAX;
        if !self.record_size.is_power_of_two() || !range.contains(&self.record_size) {
            return field("volume's record size", self.record_size.into());
        }
        let records = self.size.div_ceil(u64::from(self.record_size));
        if !self.size.is_multiple_of(u64::from(self.block_size)) || records >= Key::OFFSET_END {
            return field("volume's size", self.size);
        }
        if self.birth.0 == 0 {
            return field("dataset's birth", 0);
        }
        if self.kind.has_files() && self.size != 0 {
            return field("filesystem's size", self.size);
        }
        if self.kind.is_snapshot() != self.of.is_some() {
            return field("volume of a snapshot", option(self.of).get());
        }
        if self.list.0 == 0 {
            return field("dataset's list of dead blocks", 0);
        }
        match self.contradiction() {
            Some(own) => field("dataset's own value that is not in effect", own),
            None => Ok(()),
        }
    }

    /// Whether a block of it is a whole record, not a fragment of one.
    #[must_use]
    pub fn is_whole(&self, ptr: &BlockPtr) -> bool {
        self.kind.is_whole(ptr, self.record_size)
    }

    /// Encodes the value in the pool's own tree.
    ///
    /// # Panics
    /// If the fields are inconsistent.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        assert_eq!(self.check(), Ok(()), "{self:?}");
        let (version, settings) = match self.needs_feature() {
            false => (1, Settings::default()),
            true => (2, self.stored_settings()),
        };
        let raw = RawProperties {
            version,
            class: match self.kind {
                DatasetKind::Volume => 1,
                DatasetKind::Snapshot => 2,
                DatasetKind::Filesystem => 3,
                DatasetKind::FilesystemSnapshot => 4,
            },
            sync: self.sync.code(),
            compression: self.compression.code(),
            block_size: U32::new(self.block_size),
            record_size: U32::new(self.record_size),
            checksum: checksum_code(self.checksum),
            marks: u8::from(self.has_fragments)
                | u8::from(self.has_blocks) << 1
                | u8::from(self.has_record_size_mark()) << 2,
            settings: settings.count(),
            reserved: 0,
            size: U64::new(self.size),
            created: U64::new(self.created),
            birth: U64::new(self.birth.0),
            of: option(self.of),
            previous: option(self.previous),
            origin: option(self.origin),
            quota: U64::new(self.quota),
            reservation: U64::new(self.reservation),
            guid: U64::new(self.guid),
            list: U64::new(self.list.0),
        };
        let settings = settings.encode();
        [raw.as_bytes(), &settings, self.name.as_bytes()]
            .concat()
            .into()
    }

    /// Decodes a dataset.
    ///
    /// # Errors
    /// The first field that is malformed, or reserved and not zero.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let field = |field, value: u64| Err(Defect::Field { field, value });
        let Ok((raw, rest)) = RawProperties::read_from_prefix(bytes) else {
            return Err(Defect::Length {
                what: "dataset",
                got: bytes.len(),
                want: PROPERTIES_SIZE,
            });
        };
        if !matches!((raw.version, raw.settings), (1, 0) | (2, _)) {
            return field("dataset's version", raw.version.into());
        }
        if raw.reserved != 0 {
            return field("dataset's reserved byte", raw.reserved.into());
        }
        let Some((settings, name)) =
            rest.split_at_checked(usize::from(raw.settings) * SETTING_SIZE)
        else {
            return field("number of a dataset's settings", raw.settings.into());
        };
        if raw.marks & !MARKS != 0 {
            return field("dataset's marks", raw.marks.into());
        }
        let Some(compression) = Packing::from_code(raw.compression) else {
            return field("dataset's compression", raw.compression.into());
        };
        let Some(checksum) = checksum_from_code(raw.checksum) else {
            return field("dataset's checksum", raw.checksum.into());
        };
        let kind = match raw.class {
            1 => DatasetKind::Volume,
            2 => DatasetKind::Snapshot,
            3 => DatasetKind::Filesystem,
            4 => DatasetKind::FilesystemSnapshot,
            other => return field("dataset's kind", other.into()),
        };
        let Some(sync) = Sync::from_code(raw.sync) else {
            return field("dataset's sync", raw.sync.into());
        };
        let Ok(name) = std::str::from_utf8(name) else {
            return field("first byte of a dataset's name", name[0].into());
        };
        let mut dataset = Self {
            name: name.to_owned(),
            kind,
            sync,
            compression,
            checksum,
            settings: Settings::default(),
            switches: Switches::default(),
            refquota: 0,
            autodefrag: Autodefrag::On,
            special_small_blocks: 0,
            has_fragments: raw.marks & 1 != 0,
            has_blocks: raw.marks & 2 != 0,
            block_size: raw.block_size.get(),
            record_size: raw.record_size.get(),
            file_record_size: FILE_RECORD_SIZE,
            size: raw.size.get(),
            created: raw.created.get(),
            birth: Birth(raw.birth.get()),
            of: id(raw.of),
            previous: id(raw.previous),
            origin: id(raw.origin),
            quota: raw.quota.get(),
            reservation: raw.reservation.get(),
            guid: raw.guid.get(),
            list: ListId(raw.list.get()),
        };
        let plain = dataset.plain_settings();
        let has_mark = raw.marks & 4 != 0;
        dataset.settings = dataset.own_settings(Settings::decode(settings)?, has_mark)?;
        match raw.version {
            1 if has_mark => return field("dataset's version", 1),
            1 => dataset.settings = plain,
            _ if dataset.settings == plain => return field("dataset's version", 2),
            _ => {}
        }
        dataset.put_own();
        dataset.check()?;
        Ok(dataset)
    }
}

impl DatasetRoot {
    /// The root of a dataset without entries.
    #[must_use]
    pub fn empty() -> Self {
        Self {
            sizes: Some(BlockSizes::default()),
            ..Self::default()
        }
    }

    /// Encodes the value in the pool's own tree.
    ///
    /// # Panics
    /// If `logical` is less than `referenced`.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let raw = RawRoot {
            root: BlockPtr::encode_option(self.root.as_ref()),
            referenced: U64::new(self.referenced),
            allocated: U64::new(self.allocated),
        };
        assert!(self.logical >= self.referenced, "{self:?}");
        let sizes = self.sizes.map(|sizes| sizes.encode());
        if sizes.is_none() && self.logical == self.referenced {
            return raw.as_bytes().into();
        }
        let logical = self.logical.to_le_bytes();
        [raw.as_bytes(), &logical, &sizes.unwrap_or_default()]
            .concat()
            .into()
    }

    /// Decodes a root.
    ///
    /// # Errors
    /// A wrong length, a malformed pointer, or fewer decompressed than stored bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let length = |want| Defect::Length {
            what: "dataset's root",
            got: bytes.len(),
            want,
        };
        let (raw, packed) = RawRoot::read_from_prefix(bytes).map_err(|_| length(ROOT_SIZE))?;
        let referenced = raw.referenced.get();
        let (mut logical, mut sizes) = (referenced, None);
        if let Some((packed, more)) = packed.split_first_chunk() {
            logical = u64::from_le_bytes(*packed);
            sizes = match more {
                [] => None,
                _ => Some(BlockSizes::decode(more)?),
            };
            if logical < referenced || logical == referenced && sizes.is_none() {
                return Err(Defect::Field {
                    field: "bytes of a dataset's records once decompressed",
                    value: logical,
                });
            }
        } else if !packed.is_empty() {
            return Err(length(PACKED_ROOT_SIZE));
        }
        Ok(Self {
            root: BlockPtr::decode_option(&raw.root)?,
            referenced,
            logical,
            allocated: raw.allocated.get(),
            sizes,
        })
    }
}

#[cfg(test)]
mod tests;
