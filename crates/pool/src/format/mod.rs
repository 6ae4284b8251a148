//! Every structure that lies on the pool's disks, and nothing else.
//!
//! **Owns** encodings, their limits and what is wrong with bytes that break them ([`Defect`]). **Called by** the
//! trees and whatever reads a pool offline. **Invariants**: encodings are explicit and fixed-width, integers are
//! little endian except in keys, reserved bytes are written zero and refused if not, and one value has exactly one
//! encoding, so that decoding and encoding again gives the same bytes. Layouts: `docs/format.md`.

mod block_ptr;
mod builder;
mod checksum;
mod dataset;
mod dead;
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
mod space;
mod uberblock;

use std::fmt;

use thiserror::Error;

pub use block_ptr::{
    BLOCK_PTR_SIZE, BlockPtr, Compression, LOGICAL_SIZE_MAX, OFFSET_END, SECTOR_SIZE_MIN,
};
pub use builder::NodeBuilder;
pub use checksum::{Checksum, ChecksumKind, NoChecksum};
pub use dataset::{
    Dataset, DatasetClass, DatasetRoot, KIND_DATASET, KIND_LIST, KIND_NEXT_DATASET, KIND_ROOT,
    ListId, PrevSnapshot, RECORD_SIZE_MAX, RECORD_SIZE_MIN, Sync, dataset_key, list_key,
    next_dataset_key, root_key,
};
pub use dead::{
    DEAD_CHUNK_BITS, DEAD_CHUNK_MAX, DEAD_TREE, KIND_DEAD, dead_key, dead_keys, decode_dead,
    encode_dead,
};
pub use freeing::{Freeing, KIND_FREEING, freeing_key};
pub use history::{FORKS_MAX, Fork, LabelBranch, LabelHistory};
pub use hold::{HOLDS_MAX, Hold, KIND_HOLD, hold_key};
pub use journal::{
    BATCH_HEADER_SIZE, BATCH_SIZE_MAX, Batch, BatchHeader, Incarnation, Record,
    SEGMENT_HEADER_SIZE, STATE_SIZE_MAX, Sequence, decode_segment, encode_segment,
};
pub use key::{KEY_SIZE, Key, Kind, ObjectId};
pub use label::{
    FEATURE_SIZE_MAX, FEATURES_MAX, Features, GUID_NONE, HOST_NAME_SIZE, Host,
    JOURNAL_SEGMENTS_MAX, JournalLayout, LABEL_SIZE, Label, LabelEpoch, Membership, NAME_SIZE_MAX,
    PoolState, SIDES_MAX, SideEntry, SideGuid, VDEVS_MAX, VdevEntry, VdevGuid, VdevKind,
    check_name, is_of_later_version,
};
pub use node::{
    BRANCH_ENTRY_SIZE, INLINE_SIZE_MAX, LEAF_ENTRY_OVERHEAD, LEVEL_MAX, NODE_HEADER_SIZE,
    NODE_SIZE_DEFAULT, NODE_SIZE_MAX, NODE_SIZE_MIN, Node, NodeSize, TreeId, Value, ValueRef,
};
pub use packing::{NoPacking, Packing, ZSTD_LEVEL_MAX};
pub use property::{KIND_PROPERTY, PoolProperty, decode_on, encode_on, property_key};
pub use space::{KIND_SPACE, REGION_BITMAP_SIZE, REGION_SECTORS, RegionBits, space_key};
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

/// What counts for ever (epochs, sequences, segments) is read only below it, so that counting on never overflows.
pub const COUNT_END: u64 = 1 << 62;

/// The pool's own tree.
pub const POOL_TREE: TreeId = TreeId(1);
/// Number of the first dataset.
pub const FIRST_DATASET: u64 = 16;
/// Kind of the keys of a volume's records; the offset is the record's number.
pub const KIND_RECORD: Kind = Kind(1);
/// Kind of the keys of the fragments of records that found no contiguous space. The first fragment has the
/// record's own key. The offset is the record's number times [`FRAGMENTS_MAX`], plus the fragment's number.
pub const KIND_FRAGMENT: Kind = Kind(2);
/// Fragments of a record at most.
pub const FRAGMENTS_MAX: u32 = 256;
/// The one object of a volume's tree.
pub const VOLUME_OBJECT: ObjectId = ObjectId(1);

/// The record that a key of a volume's tree is of; none if it is of none.
#[must_use]
pub fn record_of(key: Key) -> Option<u64> {
    match key.kind() {
        _ if key.object() != VOLUME_OBJECT => None,
        KIND_RECORD => Some(key.offset()),
        KIND_FRAGMENT => Some(key.offset() / u64::from(FRAGMENTS_MAX)),
        _ => None,
    }
}

/// A pool, for ever: what tells its structures from another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolGuid(pub u64);

/// A top-level vdev of the pool, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VdevId(pub u16);

/// A byte offset on a vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VdevOffset(pub u64);

/// The epoch in which a block was written; epochs count checkpoints and snapshots, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Birth(pub u64);

/// Where a block lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The vdev.
    pub vdev: VdevId,
    /// The byte on it.
    pub offset: VdevOffset,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vdev {} offset {:#x}", self.vdev.0, self.offset.0)
    }
}

/// What is wrong with stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Defect {
    /// Fewer or more bytes than there must be.
    #[error("{what}: {got} bytes instead of {want}")]
    Length {
        /// The structure.
        what: &'static str,
        /// Bytes there.
        got: usize,
        /// Bytes there must be.
        want: usize,
    },
    /// The checksum in the pointer is not that of the bytes.
    #[error("wrong checksum")]
    Checksum,
    /// A compressed block is not what compresses to as many bytes as its pointer says.
    #[error("does not decompress")]
    Packed,
    /// A field holds a value that it must not.
    #[error("{field} is {value:#x}")]
    Field {
        /// The structure and field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
    /// A key is not above the one before it.
    #[error("entry {index}: its key is not above the one before")]
    KeyOrder {
        /// The entry, from 0.
        index: usize,
    },
    /// A key is one that no tree may hold.
    #[error("entry {index}: a key that is reserved")]
    KeyReserved {
        /// The entry, from 0.
        index: usize,
    },
    /// A value is malformed.
    #[error("entry {index}: {what}")]
    Value {
        /// The entry, from 0.
        index: usize,
        /// What is wrong with it.
        what: &'static str,
    },
    /// A node points to something born after it.
    #[error("entry {index}: born after the node that holds it")]
    Younger {
        /// The entry, from 0.
        index: usize,
    },
    /// A sound node, but not the one that was asked for.
    #[error("another node: {what}")]
    OtherNode {
        /// In what it differs from what its parent says.
        what: &'static str,
    },
}
