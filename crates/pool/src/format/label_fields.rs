//! Parts of labels: names, epochs, features, members, vdevs.
//!
//! **Owns** their encoding. **Called by** `label` and `history`. **Invariants**: text and lists are padded with zeroes to their fixed
//! length, so that each value has one encoding.

use std::ops::{Range, RangeInclusive};

use zerocopy::little_endian::{U16, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Birth, Defect, MEMBERS_MAX, layout};

/// Most bytes of a pool's name.
pub const NAME_SIZE_MAX: usize = 255;
/// Most bytes of a host's name; a longer one is truncated.
pub const HOST_NAME_SIZE: usize = 64;
/// Most features of one kind.
pub const FEATURES_MAX: usize = 32;
/// Most bytes of a feature's name.
pub const FEATURE_SIZE_MAX: usize = 48;

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawMember {
    guid: U64,
    membership: u8,
    reserved: [u8; 7],
    held: U64,
}
layout!(RawMember, 24, guid @ 0, membership @ 8, reserved @ 9, held @ 16);

#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(super) struct RawVdev {
    guid: U64,
    kind: u8,
    ashift: u8,
    members: U16,
    journal: u8,
    first_members: u8,
    expansion: u8,
    /// 1 if the vdev was removed, and its class in the next bits.
    service: u8,
    data_size: U64,
    position: U64,
}
layout!(RawVdev, 32, guid @ 0, kind @ 8, ashift @ 9, members @ 10, journal @ 12, first_members @ 13, expansion @ 14,
    service @ 15, data_size @ 16, position @ 24);

/// Bits of a vdev's service.
const IS_REMOVED: u8 = 1;
const CLASS_LOG: u8 = 1 << 1;
/// The same for the special class.
const CLASS_SPECIAL: u8 = 1 << 2;

pub(super) type RawFeatures = [[u8; FEATURE_SIZE_MAX]; FEATURES_MAX];

/// Identifier of a member, for as long as it belongs to the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberGuid(pub u64);

/// Identifier of a top-level vdev, which never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VdevGuid(pub u64);

/// Number of a round of labels, from 1: the label with the higher one is the newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelEpoch(pub u64);

/// Membership: whether a member has all data of its vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Membership {
    /// It has.
    In,
    /// It missed writes, and does not count until it is resilvered.
    Stale,
    /// Stale, and taken offline by the operator.
    Offline,
}

/// A member of a vdev, in a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberEntry {
    /// Its identifier.
    pub guid: MemberGuid,
    /// Its membership.
    pub membership: Membership,
    /// If it is not in: it has every block born up to this epoch. Zero if it is in, or if this is unknown.
    pub held: Birth,
}

/// Kind of a top-level vdev.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum VdevKind {
    /// One disk.
    Disk,
    /// Two or more disks with the same data.
    Mirror,
    /// Disks with rows of data and parity.
    Raidz {
        /// Parity units of each row, 1 to [`RAIDZ_PARITY_MAX`].
        parity: u8,
    },
}

impl VdevKind {
    /// Numbers of members that a vdev of this kind may have.
    #[must_use]
    pub fn sizes(self) -> RangeInclusive<usize> {
        match self {
            VdevKind::Disk => 1..=1,
            VdevKind::Mirror => 2..=MEMBERS_MAX,
            VdevKind::Raidz { parity } => usize::from(parity) + 1..=MEMBERS_MAX,
        }
    }

    /// Number of the `members` members whose data suffices to read everything.
    #[must_use]
    pub fn needed(self, members: usize) -> usize {
        match self {
            VdevKind::Disk | VdevKind::Mirror => 1,
            VdevKind::Raidz { parity } => members.saturating_sub(parity.into()).max(1),
        }
    }
}

/// Class of a top-level vdev: the blocks that it takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum VdevClass {
    /// All blocks, and the journal if no vdev is of its class.
    #[default]
    Normal,
    /// The journal only.
    Log,
    /// Nodes of trees and small records, as long as it has room; and the journal, if no vdev is of its class.
    Special,
}

/// Most parity units of a row.
pub const RAIDZ_PARITY_MAX: u8 = 3;

/// A top-level vdev, in a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VdevEntry {
    /// Its identifier.
    pub guid: VdevGuid,
    /// Its kind.
    pub kind: VdevKind,
    /// Binary logarithm of its sector size.
    pub ashift: u8,
    /// Number of its members, at most [`super::MEMBERS_MAX`].
    pub members: u16,
    /// Of a raidz that was expanded: number of members that it was created with. They have the copies of the journal. Zero of every
    /// other vdev.
    pub first_members: u16,
    /// The expansion in progress, by the last member.
    pub expansion: Option<Expansion>,
    /// Whether it has an area for segments of the journal.
    pub has_journal: bool,
    /// Bytes of data of each member, from the end of the labels at the front: whole sectors.
    pub data_size: u64,
    /// Whether it was removed: it has no members any longer, and its blocks are on other vdevs.
    pub is_removed: bool,
    /// Its class, which never changes.
    pub class: VdevClass,
}

/// The expansion of a raidz by one member, which is its last one. Rows below the position are as wide as the vdev; addresses behind
/// these rows are in rows without the new member. `docs/decisions/0166`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Expansion {
    /// Number of rows that are as wide as the vdev.
    pub position: u64,
    /// Whether the last ones of these rows are in the scratch areas of the members.
    pub has_scratch: bool,
}

/// Bytes of a member's scratch area, which is between its labels and its data.
pub const SCRATCH_AREA_SIZE: u64 = 512 << 10;

impl Expansion {
    /// The rows that are in the scratch areas: since the last multiple of their number, if each has a unit of `sector` bytes there.
    #[must_use]
    pub fn scratch_rows(&self, sector: u32) -> Range<u64> {
        let most = SCRATCH_AREA_SIZE / u64::from(sector.max(1));
        match self.position.checked_sub(1).filter(|_| self.has_scratch) {
            Some(last) => last / most * most..self.position,
            None => self.position..self.position,
        }
    }
}

impl VdevEntry {
    /// Number of members that may have copies of the journal.
    #[must_use]
    pub fn journal_members(&self) -> u16 {
        match self.first_members {
            0 => self.members,
            first => first,
        }
    }

    /// Sector size, bytes.
    #[must_use]
    pub fn sector(&self) -> u32 {
        1 << self.ashift
    }

    /// Number of members whose data suffices to read everything.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.kind.needed(self.members.into())
    }
}

pub(super) fn field<T>(field: &'static str, value: u64) -> Result<T, Defect> {
    Err(Defect::Field { field, value })
}

/// Checks the name of a pool: 1 to 255 ASCII letters, digits, `_`, `-`, `.` and `:`; the first must be a letter or digit.
///
/// # Errors
/// The first invalid byte, or an invalid length.
pub fn check_name(name: &str) -> Result<(), Defect> {
    if name.is_empty() || name.len() > NAME_SIZE_MAX {
        return field("length of the pool's name", name.len() as u64);
    }
    let wrong = |(index, byte): (usize, u8)| {
        let inner = index > 0 && b"_-.:".contains(&byte);
        !(byte.is_ascii_alphanumeric() || inner)
    };
    match name.bytes().enumerate().find(|&at| wrong(at)) {
        Some((_, byte)) => field("character in the pool's name", byte.into()),
        None => Ok(()),
    }
}

/// The host that used a pool last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Identifier of the machine.
    pub id: [u8; 16],
    /// Name for display: printable ASCII without spaces, at most [`HOST_NAME_SIZE`] bytes.
    pub name: String,
}

impl Host {
    /// Creates a host, with the part of its name that can be stored.
    #[must_use]
    pub fn new(id: [u8; 16], name: &str) -> Self {
        let name = name.chars().filter(char::is_ascii_graphic);
        Self {
            id,
            name: name.take(HOST_NAME_SIZE).collect(),
        }
    }

    pub(super) fn check(&self) -> Result<(), Defect> {
        let odd = self.name.bytes().find(|b| !b.is_ascii_graphic());
        if self.name.len() > HOST_NAME_SIZE || odd.is_some() {
            return field("label's host name", odd.unwrap_or(0).into());
        }
        Ok(())
    }
}

/// Whether a host uses the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PoolState {
    /// Opened for writing and not exported since: its host uses it, or has crashed.
    Active,
    /// No host uses it.
    Exported,
}

impl PoolState {
    pub(super) fn code(self) -> u8 {
        match self {
            PoolState::Active => 1,
            PoolState::Exported => 2,
        }
    }

    pub(super) fn from_code(code: u8) -> Result<Self, Defect> {
        match code {
            1 => Ok(PoolState::Active),
            2 => Ok(PoolState::Exported),
            other => field("label's pool state", other.into()),
        }
    }
}

/// Features of the format that the pool uses. Each list is sorted and has at most [`FEATURES_MAX`] names of at most
/// [`FEATURE_SIZE_MAX`] bytes: `a` to `z`, digits, `_`, `.` and `:`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Features {
    /// A version without these features may read and write the pool.
    pub compatible: Vec<String>,
    /// A version without these features may only read the pool.
    pub read_compatible: Vec<String>,
    /// A version without these features must not open the pool.
    pub incompatible: Vec<String>,
}

/// The feature of pools with filesystems.
pub const FEATURE_FILESYSTEMS: &str = "filesystems";
/// The feature of pools with datasets that inherit.
pub const FEATURE_SETTINGS: &str = "settings";
/// The feature of pools with filesystems that have the space of their files by owner.
pub const FEATURE_OWNER_SPACE: &str = "owner_space";
/// The feature of pools in which files of one filesystem may have records of different sizes.
pub const FEATURE_RECORD_SIZES: &str = "record_sizes";
/// The feature of pools whose settings have rules for access control lists.
pub const FEATURE_ACL_RULES: &str = "acl_rules";
/// The feature of pools with inodes that say whether their space is exact.
pub const FEATURE_EXACT_SPACE: &str = "exact_space";
/// The feature of pools with summaries of their space bitmaps.
pub const FEATURE_SPACE_SUMMARIES: &str = "space_summaries";
/// The feature of pools whose settings have `autodefrag`.
pub const FEATURE_AUTODEFRAG: &str = "autodefrag";
/// The feature of pools whose settings have `primarycache` or `secondarycache`.
pub const FEATURE_CACHE_SETTINGS: &str = "cache_settings";
/// The feature of pools whose settings have `logbias`.
pub const FEATURE_LOGBIAS: &str = "logbias";
/// The feature of pools whose journal may have the contents of records.
pub const FEATURE_JOURNAL_CONTENTS: &str = "journal_contents";
/// The feature of pools with blocks that are younger than their contents.
pub const FEATURE_MOVED_BLOCKS: &str = "moved_blocks";
/// The feature of pools with checksums of parts of records.
pub const FEATURE_RECORD_PARTS: &str = "record_parts";
/// The feature of pools that have, or had, hot spares.
pub const FEATURE_SPARES: &str = "spares";
/// The feature of pools whose records have checksums of folded kinds.
pub const FEATURE_FOLDED_CHECKSUMS: &str = "folded_checksums";
/// The feature of pools from which a vdev is being removed, or was removed.
pub const FEATURE_REMOVED_VDEVS: &str = "removed_vdevs";
/// The feature of pools with blocks that were moved while their pointers stay as they are.
pub const FEATURE_RELOCATED_BLOCKS: &str = "relocated_blocks";
/// The feature of pools whose datasets' roots may have the sizes of records.
pub const FEATURE_BLOCK_SIZES: &str = "block_sizes";
/// The feature of pools whose settings have `special_small_blocks`.
pub const FEATURE_SPECIAL_SMALL_BLOCKS: &str = "special_small_blocks";
/// All features that this version knows.
pub(crate) const FEATURES: [&str; 19] = [
    FEATURE_ACL_RULES,
    FEATURE_AUTODEFRAG,
    FEATURE_BLOCK_SIZES,
    FEATURE_CACHE_SETTINGS,
    FEATURE_EXACT_SPACE,
    FEATURE_FILESYSTEMS,
    FEATURE_FOLDED_CHECKSUMS,
    FEATURE_JOURNAL_CONTENTS,
    FEATURE_LOGBIAS,
    FEATURE_MOVED_BLOCKS,
    FEATURE_OWNER_SPACE,
    FEATURE_RECORD_PARTS,
    FEATURE_RECORD_SIZES,
    FEATURE_RELOCATED_BLOCKS,
    FEATURE_REMOVED_VDEVS,
    FEATURE_SETTINGS,
    FEATURE_SPACE_SUMMARIES,
    FEATURE_SPARES,
    FEATURE_SPECIAL_SMALL_BLOCKS,
];

impl Features {
    /// Adds a feature without which the pool cannot be opened. False if it is there already.
    pub(crate) fn require(&mut self, feature: &str) -> bool {
        let names = &mut self.incompatible;
        match names.binary_search_by(|name| name.as_str().cmp(feature)) {
            Ok(_) => false,
            Err(at) => {
                names.insert(at, feature.to_owned());
                true
            }
        }
    }

    pub(super) fn check(&self) -> Result<(), Defect> {
        for list in [&self.compatible, &self.read_compatible, &self.incompatible] {
            if list.len() > FEATURES_MAX || !list.is_sorted_by(|a, b| a < b) {
                return field("label's list of features", list.len() as u64);
            }
            let odd =
                |b: u8| !(b.is_ascii_lowercase() || b.is_ascii_digit() || b"_.:".contains(&b));
            for name in list {
                let fits = (1..=FEATURE_SIZE_MAX).contains(&name.len());
                if !fits || name.bytes().any(odd) {
                    return field("length or character of a feature's name", name.len() as u64);
                }
            }
        }
        Ok(())
    }

    pub(super) fn encode(&self) -> [RawFeatures; 3] {
        [&self.compatible, &self.read_compatible, &self.incompatible].map(|names| {
            let mut raw = [[0; FEATURE_SIZE_MAX]; FEATURES_MAX];
            for (room, name) in raw.iter_mut().zip(names) {
                *room = text(name);
            }
            raw
        })
    }

    pub(super) fn decode(raw: &[RawFeatures; 3]) -> Result<Self, Defect> {
        let names = |raw: &RawFeatures| {
            let count = raw.iter().take_while(|room| room[0] != 0).count();
            if raw[count..].iter().flatten().any(|&byte| byte != 0) {
                return field("label's features after the last", count as u64);
            }
            let names = raw[..count].iter();
            names
                .map(|room| decode_text("name of a feature", room))
                .collect()
        };
        Ok(Self {
            compatible: names(&raw[0])?,
            read_compatible: names(&raw[1])?,
            incompatible: names(&raw[2])?,
        })
    }
}

/// `text`, padded with zeroes. The caller has checked that it fits.
pub(super) fn text<const N: usize>(text: &str) -> [u8; N] {
    let mut raw = [0; N];
    raw[..text.len()].copy_from_slice(text.as_bytes());
    raw
}

pub(super) fn decode_text(what: &'static str, raw: &[u8]) -> Result<String, Defect> {
    let len = raw.iter().position(|&byte| byte == 0).unwrap_or(raw.len());
    if let Some(&byte) = raw[len..].iter().find(|&&byte| byte != 0) {
        return field(what, byte.into());
    }
    match std::str::from_utf8(&raw[..len]) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => field(what, error.valid_up_to() as u64),
    }
}

/// Encoded values, padded with zeroes. The caller has checked that they fit.
pub(super) fn list<T, R: FromZeros, const N: usize>(values: &[T], encode: fn(&T) -> R) -> [R; N] {
    let mut raw = <[R; N]>::new_zeroed();
    for (room, value) in raw.iter_mut().zip(values) {
        *room = encode(value);
    }
    raw
}

pub(super) fn decode_list<T, R: IntoBytes + Immutable, const N: usize>(
    what: &'static str,
    count: U16,
    raw: &[R; N],
    decode: fn(&R) -> Result<T, Defect>,
) -> Result<Vec<T>, Defect> {
    let count = usize::from(count.get());
    if count > N {
        return field(what, count as u64);
    }
    let (there, rest) = raw.split_at(count);
    if rest.as_bytes().iter().any(|&byte| byte != 0) {
        return field(what, count as u64);
    }
    there.iter().map(decode).collect()
}

impl RawMember {
    pub(super) fn encode(member: &MemberEntry) -> Self {
        Self {
            guid: U64::new(member.guid.0),
            membership: match member.membership {
                Membership::In => 1,
                Membership::Stale => 2,
                Membership::Offline => 3,
            },
            reserved: [0; 7],
            held: U64::new(member.held.0),
        }
    }

    pub(super) fn decode(&self) -> Result<MemberEntry, Defect> {
        if self.reserved != [0; 7] {
            return field("member's reserved bytes", self.reserved[0].into());
        }
        Ok(MemberEntry {
            guid: MemberGuid(self.guid.get()),
            membership: match self.membership {
                1 => Membership::In,
                2 => Membership::Stale,
                3 => Membership::Offline,
                other => return field("member's membership", other.into()),
            },
            held: Birth(self.held.get()),
        })
    }
}

impl RawVdev {
    /// Its byte for the journal.
    pub(super) fn journal(&self) -> u8 {
        self.journal
    }

    /// Sets a bit of that byte.
    pub(super) fn add_journal(&mut self, bit: u8) {
        self.journal |= bit;
    }

    pub(super) fn encode(vdev: &VdevEntry) -> Self {
        Self {
            guid: U64::new(vdev.guid.0),
            kind: match vdev.kind {
                VdevKind::Disk => 1,
                VdevKind::Mirror => 2,
                VdevKind::Raidz { parity } => 2 + parity,
            },
            ashift: vdev.ashift,
            members: U16::new(vdev.members),
            journal: vdev.has_journal.into(),
            first_members: vdev.first_members as u8,
            expansion: match vdev.expansion {
                None => 0,
                Some(Expansion {
                    has_scratch: false, ..
                }) => 1,
                Some(_) => 2,
            },
            service: match vdev.class {
                VdevClass::Normal => u8::from(vdev.is_removed),
                VdevClass::Log => u8::from(vdev.is_removed) | CLASS_LOG,
                VdevClass::Special => u8::from(vdev.is_removed) | CLASS_SPECIAL,
            },
            data_size: U64::new(vdev.data_size),
            position: U64::new(vdev.expansion.map_or(0, |e| e.position)),
        }
    }

    pub(super) fn decode(&self) -> Result<VdevEntry, Defect> {
        let class = match self.service & !IS_REMOVED {
            0 => VdevClass::Normal,
            CLASS_LOG => VdevClass::Log,
            CLASS_SPECIAL => VdevClass::Special,
            _ => return field("vdev's class", self.service.into()),
        };
        let position = self.position.get();
        if self.expansion == 0 && position != 0 {
            return field("position of a vdev that is not being expanded", position);
        }
        Ok(VdevEntry {
            guid: VdevGuid(self.guid.get()),
            kind: match self.kind {
                1 => VdevKind::Disk,
                2 => VdevKind::Mirror,
                kind @ 3..=5 => VdevKind::Raidz { parity: kind - 2 },
                other => return field("vdev's kind", other.into()),
            },
            ashift: self.ashift,
            members: self.members.get(),
            first_members: self.first_members.into(),
            expansion: match self.expansion {
                0 => None,
                state @ 1..=2 => Some(Expansion {
                    position,
                    has_scratch: state == 2,
                }),
                other => return field("vdev's expansion", other.into()),
            },
            has_journal: self.journal & 1 == 1,
            data_size: self.data_size.get(),
            is_removed: self.service & IS_REMOVED != 0,
            class,
        })
    }
}
