//! Hot spares: the label of a disk that waits for a member to fail, and the entry of a spare in the pool's own tree.
//!
//! **Owns** both encodings. **Called by** the scan, and by the opening and changes of a pool. **Invariants**: a spare's label has the
//! magic of a member's and a version of its own, so that releases which know no spares take the disk for one of a later version and do
//! not overwrite it; a decoded label passed [`SpareLabel::check`]. `docs/format.md`, "Spares".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::label::{
    CHECKED_SIZE, CHECKSUM_SIZE, MAGIC, VERSION_FIELD, VERSION_SPARE, sealed, whole,
};
use super::label_fields::{self as fields, HOST_NAME_SIZE, Host, MemberGuid, check_name, field};
use super::{
    COUNT_END, Defect, GUID_NONE, Key, Kind, LABEL_SIZE, ObjectId, PoolGuid, VdevOffset, layout,
};

/// Kind of the keys of spares. The object is the spare's GUID, the offset 0.
pub const KIND_SPARE: Kind = Kind(11);
/// Most pools that share a spare.
pub const SPARE_POOLS_MAX: usize = 16;

const ENTRY_SIZE: usize = 24;
const TAIL_SIZE: usize = CHECKED_SIZE - 4352;

/// Identifier of a spare, for as long as its disk is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpareGuid(pub u64);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawEntry {
    size: U64,
    member: U64,
    instead_of: U64,
}
layout!(RawEntry, ENTRY_SIZE, size @ 0, member @ 8, instead_of @ 16);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawPool {
    guid: U64,
    name: [u8; 256],
}
layout!(RawPool, 264, guid @ 0, name @ 8);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawSpare {
    magic: [u8; 4],
    version: U32,
    spare: U64,
    epoch: U64,
    pool_count: U16,
    reserved: [u8; 22],
    host: [u8; 16],
    host_name: [u8; HOST_NAME_SIZE],
    pools: [RawPool; SPARE_POOLS_MAX],
    tail: [u8; TAIL_SIZE],
    checksum: [u8; CHECKSUM_SIZE],
}
layout!(RawSpare, LABEL_SIZE, magic @ 0, version @ 4, spare @ 8, epoch @ 16, pool_count @ 24, reserved @ 26, host @ 48,
    host_name @ 64, pools @ 128, tail @ 4352, checksum @ 16368);

/// A spare that is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpareUse {
    /// The member that its disk is.
    pub member: MemberGuid,
    /// The member that it stands in for. A mirror keeps that member; in a raidz the spare has its place.
    pub instead_of: MemberGuid,
}

/// A spare in the pool's own tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpareEntry {
    /// Size of its disk when it was added, bytes.
    pub size: u64,
    /// Its use; `None` while it is available.
    pub used: Option<SpareUse>,
}

/// The key of a spare.
#[must_use]
pub fn spare_key(spare: SpareGuid) -> Key {
    Key::new(ObjectId(spare.0), KIND_SPARE, 0)
}

impl SpareEntry {
    /// Encodes the value in the pool's own tree.
    #[must_use]
    pub fn encode(&self) -> Box<[u8]> {
        let raw = RawEntry {
            size: self.size.into(),
            member: self.used.map_or(GUID_NONE, |used| used.member.0).into(),
            instead_of: self.used.map_or(GUID_NONE, |used| used.instead_of.0).into(),
        };
        raw.as_bytes().into()
    }

    /// Decodes an entry.
    ///
    /// # Errors
    /// An invalid length, or a use with one member.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let length = Defect::Length {
            what: "entry of a spare",
            got: bytes.len(),
            want: ENTRY_SIZE,
        };
        let raw = RawEntry::read_from_bytes(bytes).map_err(|_| length)?;
        let used = match (raw.member.get(), raw.instead_of.get()) {
            (GUID_NONE, GUID_NONE) => None,
            (GUID_NONE, other) | (other, GUID_NONE) => return field("use of a spare", other),
            (member, instead_of) => Some(SpareUse {
                member: MemberGuid(member),
                instead_of: MemberGuid(instead_of),
            }),
        };
        let size = raw.size.get();
        Ok(Self { size, used })
    }
}

/// A pool that a spare belongs to, in its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SparePool {
    /// The pool's identifier.
    pub guid: PoolGuid,
    /// The pool's name when the label was written; for information only.
    pub name: String,
}

/// The label of a spare's disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpareLabel {
    /// The spare.
    pub spare: SpareGuid,
    /// Grows with each change of the label, from 1: of a disk's copies, the one with the highest epoch counts.
    pub epoch: u64,
    /// The host that wrote it.
    pub host: Host,
    /// The pools that it belongs to, all of one server.
    pub pools: Vec<SparePool>,
}

impl RawPool {
    fn encode(pool: &SparePool) -> Self {
        Self {
            guid: pool.guid.0.into(),
            name: fields::text(&pool.name),
        }
    }

    fn decode(&self) -> Result<SparePool, Defect> {
        Ok(SparePool {
            guid: PoolGuid(self.guid.get()),
            name: fields::decode_text("name of a spare's pool", &self.name)?,
        })
    }
}

impl SpareLabel {
    /// Whether the spare belongs to this pool.
    #[must_use]
    pub fn is_of(&self, pool: PoolGuid) -> bool {
        self.pools.iter().any(|p| p.guid == pool)
    }

    /// The names of its pools, for people.
    #[must_use]
    pub fn names(&self) -> String {
        let names: Vec<&str> = self.pools.iter().map(|p| p.name.as_str()).collect();
        names.join(", ")
    }

    /// Checks that the fields are consistent.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), Defect> {
        self.host.check()?;
        if self.spare.0 == GUID_NONE {
            return field("spare's GUID", 0);
        }
        if self.epoch == 0 || self.epoch >= COUNT_END {
            return field("epoch of a spare's label", self.epoch);
        }
        if self.pools.is_empty() || self.pools.len() > SPARE_POOLS_MAX {
            return field("number of a spare's pools", self.pools.len() as u64);
        }
        for (index, pool) in self.pools.iter().enumerate() {
            check_name(&pool.name)?;
            let before = &self.pools[..index];
            if pool.guid.0 == GUID_NONE || before.iter().any(|p| p.guid == pool.guid) {
                return field("GUID of a spare's pool", pool.guid.0);
            }
        }
        Ok(())
    }

    /// Encodes the label for the disk offset `at`.
    ///
    /// # Panics
    /// If the fields are inconsistent.
    #[must_use]
    pub fn encode(&self, at: VdevOffset) -> Vec<u8> {
        assert_eq!(self.check(), Ok(()), "{self:?}");
        let raw = RawSpare {
            magic: MAGIC,
            version: U32::new(VERSION_SPARE),
            spare: self.spare.0.into(),
            epoch: self.epoch.into(),
            pool_count: U16::new(self.pools.len() as u16),
            reserved: [0; 22],
            host: self.host.id,
            host_name: fields::text(&self.host.name),
            pools: fields::list(&self.pools, RawPool::encode),
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
        let raw: &RawSpare = whole(bytes, at)?;
        if raw.version.get() != VERSION_SPARE {
            return field(VERSION_FIELD, raw.version.get().into());
        }
        if raw.reserved != [0; 22] || raw.tail.iter().any(|&byte| byte != 0) {
            return field("reserved bytes of a spare's label", 1);
        }
        let label = Self {
            spare: SpareGuid(raw.spare.get()),
            epoch: raw.epoch.get(),
            host: Host {
                id: raw.host,
                name: fields::decode_text("label's host", &raw.host_name)?,
            },
            pools: fields::decode_list("pools", raw.pool_count, &raw.pools, RawPool::decode)?,
        };
        label.check()?;
        Ok(label)
    }
}
