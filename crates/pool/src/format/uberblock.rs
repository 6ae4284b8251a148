//! Uberblocks: the roots of the pool's own tree and of its journal, as of one checkpoint.
//!
//! **Owns** their encoding and the rule by which one is the newest. **Called by** the opening and checkpoints of a pool.
//! **Invariants**: the checksum of an uberblock depends on the place where it was read, so that a torn or damaged one, or a
//! copy of another slot, is refused. `docs/format.md`, "Uberblocks".

use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{
    Address, BLOCK_PTR_SIZE, Birth, BlockPtr, COUNT_END, Checksum, ChecksumKind, Defect,
    LabelEpoch, NodeSize, PoolGuid, SECTOR_SIZE_MIN, Sequence, VdevId, VdevOffset, layout,
};

/// Length of an uberblock on disk, bytes. The last 16 are its checksum.
pub const UBERBLOCK_SIZE: usize = 4096;
const MAGIC: [u8; 4] = *b"WPub";
const VERSION: u32 = 1;
const CHECKSUM_SIZE: usize = 16;
const CHECKED_SIZE: usize = UBERBLOCK_SIZE - CHECKSUM_SIZE;
/// Bytes between the fields and the checksum.
const TAIL_SIZE: usize = CHECKED_SIZE - 144;
/// The vdev index in checksums of structures outside of vdevs' data. No top-level vdev has it.
const DISK_ITSELF: VdevId = VdevId(u16::MAX);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawStart {
    sequence: U64,
    segment: U64,
    offset: U32,
    reserved: U32,
    previous: [u8; 16],
}
layout!(RawStart, 40, sequence @ 0, segment @ 8, offset @ 16, reserved @ 20, previous @ 24);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawUberblock {
    magic: [u8; 4],
    version: U32,
    pool: U64,
    epoch: U64,
    sequence: U64,
    time: U64,
    label_epoch: U64,
    node_size: U32,
    reserved: U32,
    root: [u8; BLOCK_PTR_SIZE],
    journal: RawStart,
    tail: [u8; TAIL_SIZE],
    checksum: [u8; CHECKSUM_SIZE],
}
layout!(RawUberblock, UBERBLOCK_SIZE, magic @ 0, version @ 4, pool @ 8, epoch @ 16, sequence @ 24, time @ 32,
    label_epoch @ 40, node_size @ 48, reserved @ 52, root @ 56, journal @ 104, tail @ 144,
    checksum @ 4080);

/// A position in the journal's ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalPosition {
    /// Number of the segment. It grows by one for ever; its place in the ring is the number modulo the ring's length.
    pub segment: u64,
    /// Bytes from the start of the segment.
    pub offset: u32,
}

/// The position at which the journal continues: behind a batch, or at the start of an empty journal. A checkpoint records
/// where replay starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalStart {
    /// Number of the next batch.
    pub sequence: Sequence,
    /// End of the previous batch.
    pub position: JournalPosition,
    /// Checksum of the previous batch.
    pub previous: Checksum,
}

impl JournalStart {
    fn check(&self) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        if self.sequence.0 == 0 || self.sequence.0 >= COUNT_END {
            return field("sequence of the journal's start", self.sequence.0);
        }
        let JournalPosition { segment, offset } = self.position;
        if segment >= COUNT_END {
            return field("segment of the journal's start", segment);
        }
        if offset == 0 || !u64::from(offset).is_multiple_of(SECTOR_SIZE_MIN) {
            return field("offset of the journal's start", offset.into());
        }
        Ok(())
    }

    fn encode(&self) -> RawStart {
        RawStart {
            sequence: U64::new(self.sequence.0),
            segment: U64::new(self.position.segment),
            offset: U32::new(self.position.offset),
            reserved: U32::ZERO,
            previous: self.previous.0,
        }
    }

    fn decode(raw: &RawStart) -> Self {
        Self {
            sequence: Sequence(raw.sequence.get()),
            position: JournalPosition {
                segment: raw.segment.get(),
                offset: raw.offset.get(),
            },
            previous: Checksum(raw.previous),
        }
    }
}

/// The pool as of one checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uberblock {
    /// The pool's identifier.
    pub pool: PoolGuid,
    /// The epoch that the checkpoint ends, from 1.
    pub epoch: Birth,
    /// Number of the uberblock, from 1; the newest one has the highest.
    pub sequence: u64,
    /// Time of writing, nanoseconds since 1970. For display only; the order of uberblocks does not depend on it.
    pub time: u64,
    /// Epoch of the labels when it was written.
    pub label_epoch: LabelEpoch,
    /// The node size of the pool's own tree.
    pub node_size: NodeSize,
    /// Root of the pool's own tree; `None` if the tree is empty.
    pub root: Option<BlockPtr>,
    /// Where replay starts.
    pub journal: JournalStart,
}

impl Uberblock {
    /// Checks that the fields are consistent.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        for (name, count) in [
            ("uberblock's epoch", self.epoch.0),
            ("uberblock's sequence", self.sequence),
            ("uberblock's label epoch", self.label_epoch.0),
        ] {
            if count == 0 || count >= COUNT_END {
                return field(name, count);
            }
        }
        self.journal.check()?;
        if let Some(ptr) = self.root {
            ptr.check()?;
            if ptr.placed > self.epoch {
                return field("birth of what an uberblock points to", ptr.placed.0);
            }
        }
        Ok(())
    }

    /// Whether it replaces `other`, because its sequence is higher. Only members that were used apart can have different
    /// uberblocks of one sequence; then the higher label epoch wins.
    #[must_use]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        (self.sequence, self.label_epoch) > (other.sequence, other.label_epoch)
    }

    /// Encodes the uberblock for the disk offset `at`.
    ///
    /// # Panics
    /// If the fields are inconsistent.
    #[must_use]
    pub fn encode(&self, at: VdevOffset) -> [u8; UBERBLOCK_SIZE] {
        assert_eq!(self.check(), Ok(()), "{self:?}");
        let mut raw = RawUberblock {
            magic: MAGIC,
            version: U32::new(VERSION),
            pool: U64::new(self.pool.0),
            epoch: U64::new(self.epoch.0),
            sequence: U64::new(self.sequence),
            time: U64::new(self.time),
            label_epoch: U64::new(self.label_epoch.0),
            node_size: U32::new(self.node_size.get()),
            reserved: U32::ZERO,
            root: BlockPtr::encode_option(self.root.as_ref()),
            journal: self.journal.encode(),
            tail: [0; TAIL_SIZE],
            checksum: [0; CHECKSUM_SIZE],
        };
        raw.checksum = disk_checksum(at, &raw.as_bytes()[..CHECKED_SIZE]);
        zerocopy::transmute!(raw)
    }

    /// Decodes the uberblock that was read from the disk offset `at`.
    ///
    /// # Errors
    /// A wrong checksum, or the first field that is malformed, or reserved and not zero.
    pub fn decode(bytes: &[u8; UBERBLOCK_SIZE], at: VdevOffset) -> Result<Self, Defect> {
        let raw: RawUberblock = zerocopy::transmute!(*bytes);
        let field = |field, value| Err(Defect::Field { field, value });
        if raw.magic != MAGIC {
            return field("uberblock's magic", u32::from_le_bytes(raw.magic).into());
        }
        if raw.checksum != disk_checksum(at, &bytes[..CHECKED_SIZE]) {
            return Err(Defect::Checksum);
        }
        if raw.version.get() != VERSION {
            return field("uberblock's version", raw.version.get().into());
        }
        let reserved = raw.reserved != U32::ZERO || raw.journal.reserved != U32::ZERO;
        if reserved || raw.tail.iter().any(|&byte| byte != 0) {
            return field("uberblock's reserved bytes", raw.reserved.get().into());
        }
        let Some(node_size) = NodeSize::new(raw.node_size.get()) else {
            return field("uberblock's node size", raw.node_size.get().into());
        };
        let uberblock = Self {
            pool: PoolGuid(raw.pool.get()),
            epoch: Birth(raw.epoch.get()),
            sequence: raw.sequence.get(),
            time: raw.time.get(),
            label_epoch: LabelEpoch(raw.label_epoch.get()),
            node_size,
            root: BlockPtr::decode_option(&raw.root)?,
            journal: JournalStart::decode(&raw.journal),
        };
        uberblock.check()?;
        Ok(uberblock)
    }
}

pub(super) fn disk_checksum(at: VdevOffset, bytes: &[u8]) -> [u8; CHECKSUM_SIZE] {
    let at = Address {
        vdev: DISK_ITSELF,
        offset: at,
    };
    Checksum::of(ChecksumKind::Xxh3, at, bytes).0
}
