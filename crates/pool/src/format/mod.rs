//! On-disk format of the pool: every structure on its disks.
//!
//! **Owns** encodings, their limits, and the errors of invalid bytes ([`Defect`]). **Called by** the trees, the journal, the
//! devices and the offline reader. **Invariants**: encodings are explicit and fixed-width; integers are little endian except
//! in keys; reserved bytes are written as zero and refused otherwise; one value has exactly one encoding, so that decoding
//! and encoding again gives the same bytes. Layouts: `docs/format.md`.

mod block;
mod block_ptr;
mod block_sizes;
mod block_space;
mod builder;
mod cache_device;
mod checksum;
mod dataset;
mod dead;
mod file_record_size;
pub mod filesystem;
mod freeing;
mod history;
mod hold;
mod journal;
mod key;
mod label;
mod label_fields;
mod node;
mod packing;
mod property;
mod relocation;
mod removal;
mod resilver;
mod rings;
mod settings;
mod space;
mod spare;
mod uberblock;

use std::fmt;

use thiserror::Error;
use xxhash_rust::xxh3::xxh3_64;

pub use block::{Block, Hashes, PART_SIZE_MIN, PARTED_SIZE_MIN, PARTS_MAX, part_sums_size};
pub use block_ptr::{
    BLOCK_PTR_SIZE, BlockPtr, Compression, LOGICAL_SIZE_MAX, OFFSET_END, SECTOR_SIZE_MIN,
};
pub use block_sizes::{BlockSizes, SIZE_CLASSES, SizeClass};
pub use block_space::BlockSpace;
pub use builder::NodeBuilder;
pub use cache_device::{CacheGuid, CacheLabel, CacheTable, CachedBlock};
pub use checksum::{Checksum, ChecksumKind, Digest, NoChecksum};
pub use dataset::{
    Dataset, DatasetKind, DatasetRoot, KIND_DATASET, KIND_LIST, KIND_NEXT_DATASET, KIND_ROOT,
    ListId, PrevSnapshot, RECORD_SIZE_MAX, RECORD_SIZE_MIN, Sync, dataset_key, list_key,
    next_dataset_key, root_key,
};
pub use dead::{
    DEAD_CHUNK_BITS, DEAD_CHUNK_MAX, DEAD_TREE, KIND_DEAD, dead_key, dead_keys, decode_dead,
    encode_dead,
};
pub use filesystem::Inode;
pub use freeing::{Freeing, KIND_FREEING, freeing_key};
pub use history::{FORKS_MAX, Fork, LabelBranch, LabelHistory};
pub use hold::{HOLDS_MAX, Hold, KIND_HOLD, hold_key};
pub use journal::{
    BATCH_HEADER_SIZE, BATCH_SIZE_MAX, Batch, BatchHeader, CONTENTS_SIZE_MAX, Incarnation, Record,
    SEGMENT_HEADER_SIZE, STATE_SIZE_MAX, Sequence, decode_segment, encode_segment,
};
pub use key::{KEY_SIZE, Key, Kind, ObjectId};
pub use label::{
    GUID_NONE, JOURNAL_SEGMENTS_MAX, JournalLayout, LABEL_SIZE, Label, MEMBERS_MAX, VDEVS_MAX,
    is_of_later_version,
};
pub(crate) use label_fields::FEATURES;
pub use label_fields::{
    Expansion, FEATURE_ACL_RULES, FEATURE_AUTODEFRAG, FEATURE_BLOCK_SIZES, FEATURE_CACHE_SETTINGS,
    FEATURE_EXACT_SPACE, FEATURE_FILESYSTEMS, FEATURE_FOLDED_CHECKSUMS, FEATURE_JOURNAL_CONTENTS,
    FEATURE_LOGBIAS, FEATURE_MOVED_BLOCKS, FEATURE_OWNER_SPACE, FEATURE_RECORD_PARTS,
    FEATURE_RECORD_SIZES, FEATURE_RELOCATED_BLOCKS, FEATURE_REMOVED_VDEVS, FEATURE_SETTINGS,
    FEATURE_SIZE_MAX, FEATURE_SPACE_SUMMARIES, FEATURE_SPARES, FEATURE_SPECIAL_SMALL_BLOCKS,
    FEATURES_MAX, Features, HOST_NAME_SIZE, Host, LabelEpoch, MemberEntry, MemberGuid, Membership,
    NAME_SIZE_MAX, PoolState, RAIDZ_PARITY_MAX, SCRATCH_AREA_SIZE, VdevClass, VdevEntry, VdevGuid,
    VdevKind, check_name,
};
pub use node::{
    BRANCH_ENTRY_SIZE, INLINE_SIZE_MAX, LEAF_ENTRY_OVERHEAD, LEVEL_MAX, NODE_HEADER_SIZE,
    NODE_SIZE_DEFAULT, NODE_SIZE_MAX, NODE_SIZE_MIN, Node, NodeSize, TreeId, Value, ValueRef,
};
pub use packing::{NoPacking, Packing, ZSTD_LEVEL_MAX};
pub use property::{KIND_PROPERTY, PoolProperty, decode_on, encode_on, property_key};
pub use relocation::{BlockName, KIND_RELOCATION, Relocation, is_relocatable, relocation_key};
pub use removal::{
    CopiedRun, KIND_COPY, KIND_REMOVAL, RemovalEntry, RemovalStep, copy_key, removal_key,
};
pub use resilver::{KIND_RESILVER, ResilverPosition, resilver_key};
pub use rings::{JournalRing, JournalRings};
pub use settings::{
    Autodefrag, DatasetProperty, FILE_RECORD_SIZE, KIND_SETTINGS, NoSync, Setting, Settings,
    Switches, TEXT_SIZE_MAX, TextProperty, TextSetting, settings_key,
};
pub use space::{
    KIND_SPACE, KIND_SUMMARIZED, KIND_SUMMARY, KIND_SUMMARY_ROWS, PAGE_REGIONS, REGION_BITMAP_SIZE,
    REGION_SECTORS, RegionBits, RegionSummary, RowGrid, SUMMARY_PAGE_SIZE, SummaryPage,
    SummaryRows, space_key, summarized_key, summary_key, summary_rows_key,
};
pub use spare::{
    KIND_SPARE, SPARE_POOLS_MAX, SpareEntry, SpareGuid, SpareLabel, SparePool, SpareUse, spare_key,
};
pub use uberblock::{JournalPosition, JournalStart, UBERBLOCK_SIZE, Uberblock};

/// Checks a structure's size and field offsets at compile time.
macro_rules! layout {
    ($ty:ty, $size:expr $(, $field:ident @ $offset:expr)* $(,)?) => {
        const _: () = {
            assert!(core::mem::size_of::<$ty>() == $size);
            assert!(core::mem::align_of::<$ty>() == 1);
            $(assert!(core::mem::offset_of!($ty, $field) == $offset);)*
        };
    };
}
pub(crate) use layout;

/// Exclusive upper bound of stored counters (epochs, sequences, segments), so that incrementing one never overflows.
pub const COUNT_END: u64 = 1 << 62;

/// The pool's own tree.
pub const POOL_TREE: TreeId = TreeId(1);
/// Identifier of the first dataset.
pub const FIRST_DATASET: u64 = 16;
/// Kind of the keys of a volume's records. The offset is the record's number.
pub const KIND_RECORD: Kind = Kind(1);
/// Kind of the keys of the fragments of records that found no contiguous space. The first fragment has the
/// record's own key. The offset is the record's number times [`FRAGMENTS_MAX`], plus the fragment's number.
pub const KIND_FRAGMENT: Kind = Kind(2);
/// Fragments of a record at most.
pub const FRAGMENTS_MAX: u32 = 256;
/// The one object of a volume's tree.
pub const VOLUME_OBJECT: ObjectId = ObjectId(1);

/// The record that a key of a volume's tree belongs to; `None` if it belongs to none.
#[must_use]
pub fn record_of(key: Key) -> Option<u64> {
    match key.kind() {
        _ if key.object() != VOLUME_OBJECT => None,
        KIND_RECORD => Some(key.offset()),
        KIND_FRAGMENT => Some(key.offset() / u64::from(FRAGMENTS_MAX)),
        _ => None,
    }
}

/// Identifier of a pool, which never changes. It distinguishes the structures of different pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolGuid(pub u64);

/// Index of a top-level vdev of the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VdevId(pub u16);

/// Byte offset on a vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VdevOffset(pub u64);

/// The epoch in which a block was written. Epochs count checkpoints and snapshots, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Birth(pub u64);

/// No block is born after this.
pub(crate) const NEVER: Birth = Birth(COUNT_END - 1);

/// Address of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The vdev.
    pub vdev: VdevId,
    /// Byte offset on it.
    pub offset: VdevOffset,
}

impl Address {
    /// The seed of checksums of bytes at this address.
    fn seed(self) -> u64 {
        (u64::from(self.vdev.0) << 48) | (self.offset.0 / SECTOR_SIZE_MIN)
    }

    /// A hash of the name of the contents that were placed here in an epoch.
    pub(crate) fn name_hash(self, placed: Birth) -> u64 {
        let mut bytes = [0; 18];
        bytes[..8].copy_from_slice(&self.offset.0.to_le_bytes());
        bytes[8..16].copy_from_slice(&placed.0.to_le_bytes());
        bytes[16..].copy_from_slice(&self.vdev.0.to_le_bytes());
        xxh3_64(&bytes)
    }

    /// The address behind a block of this many bytes.
    pub(crate) fn behind(self, bytes: usize) -> Address {
        Address {
            offset: VdevOffset(self.offset.0 + bytes as u64),
            ..self
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vdev {} offset {:#x}", self.vdev.0, self.offset.0)
    }
}

/// Defect of stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Defect {
    /// Wrong length.
    #[error("{what}: {got} bytes instead of {want}")]
    Length {
        /// The structure.
        what: &'static str,
        /// Actual length, bytes.
        got: usize,
        /// Required length, bytes.
        want: usize,
    },
    /// The bytes do not have the checksum in the pointer.
    #[error("wrong checksum")]
    Checksum,
    /// The bytes of a part of a block do not have the checksum beside the pointer.
    #[error("part {number} has a wrong checksum")]
    PartChecksum {
        /// Number of the part in its block.
        number: usize,
    },
    /// A compressed block does not decompress to the length in its pointer.
    #[error("does not decompress")]
    Packed,
    /// A field has an invalid value.
    #[error("{field} is {value:#x}")]
    Field {
        /// Structure and field.
        field: &'static str,
        /// The value.
        value: u64,
    },
    /// A key is not above the previous one.
    #[error("entry {index}: its key is not above the one before")]
    KeyOrder {
        /// Index of the entry.
        index: usize,
    },
    /// A key that no tree may have.
    #[error("entry {index}: a key that is reserved")]
    KeyReserved {
        /// Index of the entry.
        index: usize,
    },
    /// A value is malformed.
    #[error("entry {index}: {what}")]
    Value {
        /// Index of the entry.
        index: usize,
        /// The defect of the value.
        what: &'static str,
    },
    /// A node has an entry that was born after the node.
    #[error("entry {index}: born after the node that holds it")]
    Younger {
        /// Index of the entry.
        index: usize,
    },
    /// An intact node, but not the requested one.
    #[error("another node: {what}")]
    OtherNode {
        /// The property that differs from the parent's entry.
        what: &'static str,
    },
    /// The keys were lost with a node of which no copy was right when keys beside them changed.
    #[error("lost with a damaged node before")]
    Lost,
}
