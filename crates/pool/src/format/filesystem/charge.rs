//! Space by owner: the sums of a filesystem's files, and the quotas of users and groups.
//!
//! **Owns** the keys and encodings of both, and [`Charge`], the part of an inode that the sums depend on. **Called by** the
//! datasets, which keep the sums, and by offline readers. **Invariants**: as for all formats, one value has one encoding; a
//! number that is 0 has no entry. `docs/format.md`, "Space by owner".

use std::fmt;

use super::{HEADER_OBJECT, Inode, KIND_HEADER, OBJECT_END};
use crate::format::{Defect, Key, Kind, ObjectId};

/// Kind of the keys of the space of a user's files. The object is [`HEADER_OBJECT`], the offset is the user's number.
pub const KIND_USER_SPACE: Kind = Kind(13);
/// Kind of the keys of the space of a group's files. The offset is the group's number.
pub const KIND_GROUP_SPACE: Kind = Kind(14);
/// Kind of the keys of users' quotas. The offset is the user's number.
pub const KIND_USER_QUOTA: Kind = Kind(15);
/// Kind of the keys of groups' quotas. The offset is the group's number.
pub const KIND_GROUP_QUOTA: Kind = Kind(16);

/// A user or a group, to which files belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileOwner {
    /// The user with this number.
    User(u32),
    /// The group with this number.
    Group(u32),
}

impl fmt::Display for FileOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FileOwner::User(number) => write!(f, "user {number}"),
            FileOwner::Group(number) => write!(f, "group {number}"),
        }
    }
}

impl FileOwner {
    /// The key of the space of the owner's files.
    #[must_use]
    pub fn space_key(self) -> Key {
        let (kind, number) = match self {
            FileOwner::User(number) => (KIND_USER_SPACE, number),
            FileOwner::Group(number) => (KIND_GROUP_SPACE, number),
        };
        Key::new(HEADER_OBJECT, kind, number.into())
    }

    /// The owner whose quota has this key.
    #[must_use]
    pub fn of_quota(key: Key) -> Option<Self> {
        let number = u32::try_from(key.offset()).ok()?;
        match (key.object(), key.kind()) {
            (HEADER_OBJECT, KIND_USER_QUOTA) => Some(FileOwner::User(number)),
            (HEADER_OBJECT, KIND_GROUP_QUOTA) => Some(FileOwner::Group(number)),
            _ => None,
        }
    }

    /// The key of the owner's quota.
    #[must_use]
    pub fn quota_key(self) -> Key {
        let (kind, number) = match self {
            FileOwner::User(number) => (KIND_USER_QUOTA, number),
            FileOwner::Group(number) => (KIND_GROUP_QUOTA, number),
        };
        Key::new(HEADER_OBJECT, kind, number.into())
    }
}

/// An entry of the space by owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChargeEntry {
    /// Bytes of the owner's files.
    Space(FileOwner, u64),
    /// Most bytes that the owner's files may take.
    Quota(FileOwner, u64),
}

/// All keys of space and quotas.
#[must_use]
pub fn charge_keys() -> std::ops::Range<Key> {
    Key::new(HEADER_OBJECT, KIND_USER_SPACE, 0)
        ..Key::new(HEADER_OBJECT, Kind(KIND_GROUP_QUOTA.0 + 1), 0)
}

/// The key of the first object whose space is not in the sums yet. Without an entry, that is the first of all.
#[must_use]
pub fn counted_key() -> Key {
    Key::new(HEADER_OBJECT, KIND_HEADER, 2)
}

/// Encodes a number of bytes.
///
/// # Panics
/// If it is 0.
#[must_use]
pub fn encode_charge(bytes: u64) -> Box<[u8]> {
    assert_ne!(bytes, 0, "an owner without space has no entry");
    Box::new(bytes.to_le_bytes())
}

/// Decodes an entry of the space by owner; `None` for another kind of key.
///
/// # Errors
/// A wrong length, the number 0, or an owner above 2^32.
pub fn decode_charge(key: Key, bytes: &[u8]) -> Result<Option<ChargeEntry>, Defect> {
    if !charge_keys().contains(&key) {
        return Ok(None);
    }
    let field = |value| Defect::Field {
        field: "owner of files",
        value,
    };
    let number = u32::try_from(key.offset()).map_err(|_| field(key.offset()))?;
    let value = decode(bytes, "space of an owner")?;
    if value == 0 {
        return Err(Defect::Field {
            field: "space of an owner",
            value,
        });
    }
    Ok(Some(match key.kind() {
        KIND_USER_SPACE => ChargeEntry::Space(FileOwner::User(number), value),
        KIND_GROUP_SPACE => ChargeEntry::Space(FileOwner::Group(number), value),
        KIND_USER_QUOTA => ChargeEntry::Quota(FileOwner::User(number), value),
        _ => ChargeEntry::Quota(FileOwner::Group(number), value),
    }))
}

/// Encodes the first object whose space is not in the sums yet; [`OBJECT_END`] if all are.
#[must_use]
pub fn encode_counted(next: ObjectId) -> Box<[u8]> {
    Box::new(next.0.to_le_bytes())
}

/// Decodes the first object whose space is not in the sums yet.
///
/// # Errors
/// A wrong length, or a number above [`OBJECT_END`].
pub fn decode_counted(bytes: &[u8]) -> Result<ObjectId, Defect> {
    match decode(bytes, "progress of counting")? {
        next if next <= OBJECT_END => Ok(ObjectId(next)),
        value => Err(Defect::Field {
            field: "progress of counting",
            value,
        }),
    }
}

fn decode(bytes: &[u8], what: &'static str) -> Result<u64, Defect> {
    let array = bytes.try_into().map_err(|_| Defect::Length {
        what,
        got: bytes.len(),
        want: 8,
    })?;
    Ok(u64::from_le_bytes(array))
}

/// The owners of a file, and its space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Charge {
    /// User that owns it.
    pub uid: u32,
    /// Group that owns it.
    pub gid: u32,
    /// Bytes that its data takes, before compression.
    pub used: u64,
}

impl Charge {
    /// The charge of an object with this inode.
    #[must_use]
    pub fn of(inode: &Inode) -> Self {
        Self {
            uid: inode.uid,
            gid: inode.gid,
            used: inode.used,
        }
    }

    /// The owners.
    #[must_use]
    pub fn owners(self) -> [FileOwner; 2] {
        [FileOwner::User(self.uid), FileOwner::Group(self.gid)]
    }

    /// The bytes that this charge adds to the sum of an owner.
    #[must_use]
    pub fn bytes_of(self, owner: FileOwner) -> u64 {
        match self.owners().contains(&owner) {
            true => self.used,
            false => 0,
        }
    }
}
