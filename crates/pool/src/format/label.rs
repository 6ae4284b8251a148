//! Labels: the pool, vdev and member that a disk is, and all other members.
//!
//! **Owns** their encoding and limits. **Called by** the creation, scan, opening and changes of a pool. **Invariants**: a
//! decoded label passed [`Label::check`], and its checksum depends on the place where it was read; only such labels are
//! encoded. `docs/format.md`, "Labels".

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::history::{FORKS_MAX, LabelBranch, LabelHistory, RawFork};
use super::label_fields::{
    self as fields, Expansion, Features, HOST_NAME_SIZE, Host, LabelEpoch, MemberEntry, MemberGuid,
    Membership, PoolState, RAIDZ_PARITY_MAX, RawFeatures, RawMember, RawVdev, VdevClass, VdevEntry,
    VdevKind, check_name, field,
};
use super::rings::{JournalRing, JournalRings};
use super::uberblock::disk_checksum;
use super::{COUNT_END, Defect, NodeSize, OFFSET_END, PoolGuid, VdevId, VdevOffset, layout};

/// Length of a label on disk, bytes. The last 16 are its checksum.
pub const LABEL_SIZE: usize = 16 << 10;
/// Most members of a vdev.
pub const MEMBERS_MAX: usize = 16;
/// Most top-level vdevs of a pool.
pub const VDEVS_MAX: usize = 128;
/// Most segments of a pool's journal.
pub const JOURNAL_SEGMENTS_MAX: u64 = 1 << 16;
pub(super) const VERSION_FIELD: &str = "label's version";
/// The identifier that no disk and no vdev has.
pub const GUID_NONE: u64 = 0;
/// Sector sizes, as binary logarithms: 512 bytes to 64 KiB.
const ASHIFTS: std::ops::RangeInclusive<u8> = 9..=16;

/// Magic of every label, those of spares among them.
pub(super) const MAGIC: [u8; 4] = *b"WPlb";
/// Version of labels without a branch, as earlier releases wrote them.
const VERSION_PLAIN: u32 = 1;
/// Version of labels with a branch and forks.
const VERSION_BRANCH: u32 = 2;
/// Version of labels whose vdevs say which of them have segments of the journal. Only pools that need it have such labels.
const VERSION_PLACES: u32 = 3;
/// Version of the labels of spares, which have a layout of their own ([`super::SpareLabel`]).
pub(super) const VERSION_SPARE: u32 = 4;
/// Version of labels of pools with a raidz that was expanded.
const VERSION_EXPANDED: u32 = 5;
/// Version of labels of pools from which a vdev was removed.
const VERSION_REMOVED: u32 = 6;
/// Version of labels of pools with a vdev whose area for the journal is not in use, and of pools whose journal moved or moves.
const VERSION_RINGS: u32 = 7;
/// Version of labels of pools with a vdev that is not of the normal class.
const VERSION_CLASSES: u32 = 8;
/// The version of the label of a cache device.
pub(super) const VERSION_CACHE: u32 = 9;
/// Bits of a vdev's byte for the journal, from version 7 on, beside 1 for its area.
const IN_RING: u8 = 2;
const IN_NEXT: u8 = 4;
const AREA_AND_RINGS: u8 = 1 | IN_RING | IN_NEXT;
pub(super) const CHECKSUM_SIZE: usize = 16;
pub(super) const CHECKED_SIZE: usize = LABEL_SIZE - CHECKSUM_SIZE;
const TAIL_SIZE: usize = CHECKED_SIZE - 15656;

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawLabel {
    magic: [u8; 4],
    version: U32,
    pool: U64,
    disk: U64,
    epoch: U64,
    vdev: U16,
    state: u8,
    reserved_a: u8,
    member_count: U16,
    vdev_count: U16,
    node_size: U32,
    segment_size: U32,
    segments: U32,
    added: U16,
    reserved_b: U16,
    host: [u8; 16],
    host_name: [u8; HOST_NAME_SIZE],
    name: [u8; 256],
    members: [RawMember; MEMBERS_MAX],
    vdevs: [RawVdev; VDEVS_MAX],
    features: [RawFeatures; 3],
    branch: U64,
    fork_count: U16,
    reserved_c: [u8; 6],
    forks: [RawFork; FORKS_MAX],
    ring_first: U64,
    next_first: U64,
    tail: [u8; TAIL_SIZE],
    checksum: [u8; CHECKSUM_SIZE],
}
layout!(RawLabel, LABEL_SIZE, magic @ 0, version @ 4, pool @ 8, disk @ 16, epoch @ 24, vdev @ 32, state @ 34,
    reserved_a @ 35, member_count @ 36, vdev_count @ 38, node_size @ 40, segment_size @ 44, segments @ 48,
    added @ 52, reserved_b @ 54, host @ 56, host_name @ 72, name @ 136, members @ 392, vdevs @ 776, features @ 4872,
    branch @ 9480, fork_count @ 9488, reserved_c @ 9490, forks @ 9496, ring_first @ 15640,
    next_first @ 15648, tail @ 15656, checksum @ 16368);

/// Layout of the journal's areas, which are at the start of the data of each vdev that has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalLayout {
    /// Length of a segment, bytes: whole sectors of every vdev.
    pub segment_size: u32,
    /// Number of segments in each area.
    pub segments: u32,
}

impl JournalLayout {
    /// Bytes of an area.
    #[must_use]
    pub fn size(&self) -> u64 {
        u64::from(self.segment_size) * u64::from(self.segments)
    }

    /// Addresses of a vdev's area, bytes.
    #[must_use]
    pub fn size_on(&self, vdev: &VdevEntry) -> u64 {
        if vdev.has_journal { self.size() } else { 0 }
    }

    /// Bytes of each member's data that a vdev's area takes.
    #[must_use]
    pub fn size_on_member(&self, vdev: &VdevEntry) -> u64 {
        match vdev.kind {
            _ if !vdev.has_journal => 0,
            VdevKind::Disk | VdevKind::Mirror => self.size(),
            VdevKind::Raidz { parity } => {
                let copies = u64::from(self.segments) * (u64::from(parity) + 1);
                let slots = copies.div_ceil(u64::from(vdev.journal_members()).max(1));
                slots * u64::from(self.segment_size)
            }
        }
    }
}

/// The description of pool and member on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The pool's identifier.
    pub pool: PoolGuid,
    /// The pool's name.
    pub name: String,
    /// Whether a host uses the pool.
    pub state: PoolState,
    /// The host that used it last.
    pub host: Host,
    /// Epoch of the label.
    pub epoch: LabelEpoch,
    /// The member that this disk is.
    pub disk: MemberGuid,
    /// The vdev that it belongs to.
    pub vdev: VdevId,
    /// All members of that vdev.
    pub members: Vec<MemberEntry>,
    /// All vdevs, by index.
    pub vdevs: Vec<VdevEntry>,
    /// Features of the pool.
    pub features: Features,
    /// The node size of the pool's own tree.
    pub node_size: NodeSize,
    /// Layout of the journal's areas.
    pub journal: JournalLayout,
    /// The vdevs on which the journal is.
    pub rings: JournalRings,
    /// The older labels that it replaces.
    pub history: LabelHistory,
}

/// Whether a label could not be decoded because a later version wrote it. The disk belongs to a pool nevertheless.
#[must_use]
pub fn is_of_later_version(defect: &Defect) -> bool {
    let later = u64::from(VERSION_CACHE) + 1..;
    matches!(defect, Defect::Field { field, value } if *field == VERSION_FIELD && later.contains(value))
}

/// The bytes of a label of a member, a spare or a cache device for the disk offset `at`. Each ends with its checksum, which is set here.
pub(super) fn sealed(raw: &(impl IntoBytes + Immutable), at: VdevOffset) -> Vec<u8> {
    let mut bytes = raw.as_bytes().to_vec();
    let checksum = disk_checksum(at, &bytes[..CHECKED_SIZE]);
    bytes[CHECKED_SIZE..].copy_from_slice(&checksum);
    bytes
}

/// The fields of such a label, if magic and checksum are right; its version is not checked.
pub(super) fn whole<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &[u8],
    at: VdevOffset,
) -> Result<&T, Defect> {
    const { assert!(size_of::<T>() == LABEL_SIZE) };
    let raw = T::ref_from_bytes(bytes).map_err(|_| Defect::Length {
        what: "label",
        got: bytes.len(),
        want: LABEL_SIZE,
    })?;
    if let Some(magic) = bytes.first_chunk().filter(|magic| **magic != MAGIC) {
        return field("label's magic", u32::from_le_bytes(*magic).into());
    }
    match bytes[CHECKED_SIZE..] == disk_checksum(at, &bytes[..CHECKED_SIZE]) {
        true => Ok(raw),
        false => Err(Defect::Checksum),
    }
}

impl Label {
    /// If the vdevs with an area are the first ones: number of the others. Labels before version 3 record this.
    fn added(&self) -> Option<u16> {
        let added = self.vdevs.iter().rev().take_while(|v| !v.has_journal);
        let added = added.count();
        let first = &self.vdevs[..self.vdevs.len() - added];
        first.iter().all(|v| v.has_journal).then_some(added as u16)
    }

    /// Whether only labels of version 3 can record its vdevs.
    fn needs_places(&self) -> bool {
        let is_raidz = |v: &VdevEntry| matches!(v.kind, VdevKind::Raidz { .. });
        self.added().is_none() || self.vdevs.iter().any(is_raidz)
    }

    /// Whether only labels of version 7 can record its rings.
    fn needs_rings(&self) -> bool {
        let in_use = |id: u16| self.rings.now.vdevs.contains(&VdevId(id));
        let mut areas = (0..).zip(&self.vdevs).filter(|(_, vdev)| vdev.has_journal);
        self.rings.now.first > 0
            || self.rings.next.is_some()
            || areas.any(|(index, _)| !in_use(index))
    }

    /// Whether only labels of version 8 can record its vdevs.
    fn has_classes(&self) -> bool {
        let mut vdevs = self.vdevs.iter();
        vdevs.any(|vdev| vdev.class != VdevClass::Normal)
    }

    /// The membership of this disk by its own label.
    #[must_use]
    pub fn membership(&self) -> Option<Membership> {
        let own = self.members.iter().find(|member| member.guid == self.disk);
        own.map(|member| member.membership)
    }

    fn version(&self) -> u32 {
        match self.history.branch {
            _ if self.has_classes() => VERSION_CLASSES,
            _ if self.needs_rings() => VERSION_RINGS,
            _ if self.vdevs.iter().any(|vdev| vdev.is_removed) => VERSION_REMOVED,
            _ if self.vdevs.iter().any(|vdev| vdev.first_members > 0) => VERSION_EXPANDED,
            _ if self.needs_places() => VERSION_PLACES,
            LabelBranch(0) => VERSION_PLAIN,
            _ => VERSION_BRANCH,
        }
    }

    /// Addresses of a vdev's area for the journal, bytes, by the vdev's index.
    #[must_use]
    pub fn journal_size(&self, vdev: usize) -> u64 {
        let vdev = self.vdevs.get(vdev);
        vdev.map_or(0, |vdev| self.journal.size_on(vdev))
    }

    /// Checks that the fields are consistent.
    ///
    /// # Errors
    /// The first field that is not.
    pub fn check(&self) -> Result<(), Defect> {
        check_name(&self.name)?;
        self.host.check()?;
        self.features.check()?;
        self.history.check()?;
        if self.pool.0 == GUID_NONE {
            return field("label's pool", 0);
        }
        if self.epoch.0 == 0 || self.epoch.0 >= COUNT_END {
            return field("label's epoch", self.epoch.0);
        }
        if self.vdevs.is_empty() || self.vdevs.len() > VDEVS_MAX {
            return field("label's number of vdevs", self.vdevs.len() as u64);
        }
        let has_blocks = |vdev: &VdevEntry| vdev.class == VdevClass::Normal && !vdev.is_removed;
        if !self.vdevs.iter().any(has_blocks) {
            return field("label's number of vdevs for blocks", 0);
        }
        let is_removed = |vdev: &VdevEntry| vdev.is_removed;
        let needs_branch = self.needs_places() || self.needs_rings() || self.has_classes();
        let needs_branch = needs_branch || self.vdevs.iter().any(is_removed);
        if needs_branch && self.history.branch == LabelBranch(0) {
            return field("branch of a label with places of the journal", 0);
        }
        for (index, vdev) in self.vdevs.iter().enumerate() {
            self.check_vdev(vdev)?;
            if self.vdevs[..index].iter().any(|v| v.guid == vdev.guid) {
                return field("GUID of two vdevs", vdev.guid.0);
            }
        }
        self.check_rings()?;
        self.check_members()
    }

    fn check_rings(&self) -> Result<(), Defect> {
        let may_have = |id: &VdevId| {
            let vdev = self.vdevs.get(usize::from(id.0));
            vdev.is_some_and(|vdev| vdev.has_journal && !vdev.is_removed)
        };
        for ring in self.rings.all() {
            if let Some(odd) = ring.vdevs.iter().find(|id| !may_have(id)) {
                return field("vdev of a ring of the journal", odd.0.into());
            }
            let total = u64::from(self.journal.segments) * ring.vdevs.len() as u64;
            if !(2..=JOURNAL_SEGMENTS_MAX).contains(&total) {
                return field("label's number of journal segments", total);
            }
            if ring.first >= COUNT_END {
                return field("first segment of a ring of the journal", ring.first);
            }
        }
        match &self.rings.next {
            Some(next) if next.first <= self.rings.now.first => {
                field("first segment of the journal's next ring", next.first)
            }
            _ => Ok(()),
        }
    }

    fn check_vdev(&self, vdev: &VdevEntry) -> Result<(), Defect> {
        if vdev.guid.0 == GUID_NONE {
            return field("vdev's GUID", 0);
        }
        if !ASHIFTS.contains(&vdev.ashift) {
            return field("vdev's ashift", vdev.ashift.into());
        }
        if let VdevKind::Raidz { parity } = vdev.kind
            && !(1..=RAIDZ_PARITY_MAX).contains(&parity)
        {
            return field("vdev's parity", parity.into());
        }
        if !vdev.kind.sizes().contains(&vdev.members.into()) {
            return field("vdev's number of members", vdev.members.into());
        }
        if vdev.is_removed && vdev.expansion.is_some() {
            return field("removal of a vdev that is being expanded", 1);
        }
        let is_raidz = matches!(vdev.kind, VdevKind::Raidz { .. });
        if vdev.class == VdevClass::Log && (is_raidz || !vdev.has_journal) {
            return field("vdev for the journal without a place for it", vdev.guid.0);
        }
        if vdev.class == VdevClass::Special && is_raidz {
            return field("parity of a special vdev", vdev.guid.0);
        }
        Self::check_expansion(vdev)?;
        let (size, sector) = (vdev.data_size, vdev.sector());
        let room = self.journal.size_on_member(vdev).max(1)..OFFSET_END / vdev.needed() as u64;
        if !room.contains(&size) || !size.is_multiple_of(sector.into()) {
            return field("vdev's size", size);
        }
        let segment = self.journal.segment_size;
        if segment <= sector || !segment.is_multiple_of(sector) {
            return field("size of a journal segment", segment.into());
        }
        Ok(())
    }

    fn check_expansion(vdev: &VdevEntry) -> Result<(), Defect> {
        let first = vdev.first_members;
        let was_expanded = match vdev.kind {
            VdevKind::Raidz { parity } => u16::from(parity) < first && first < vdev.members,
            VdevKind::Disk | VdevKind::Mirror => false,
        };
        let rows = vdev.data_size / u64::from(vdev.sector());
        match vdev.expansion {
            _ if first > 0 && !was_expanded => field(
                "number of members that a vdev was created with",
                first.into(),
            ),
            Some(Expansion {
                position,
                has_scratch,
            }) if first == 0 || position > rows || has_scratch && position == 0 => {
                field("position of a vdev's expansion", position)
            }
            _ => Ok(()),
        }
    }

    fn check_members(&self) -> Result<(), Defect> {
        let Some(vdev) = self.vdevs.get(usize::from(self.vdev.0)) else {
            return field("label's vdev", self.vdev.0.into());
        };
        if vdev.is_removed {
            return field("label's vdev, which was removed", self.vdev.0.into());
        }
        if self.members.len() != usize::from(vdev.members) {
            return field("label's number of members", self.members.len() as u64);
        }
        for (index, member) in self.members.iter().enumerate() {
            if member.guid.0 == GUID_NONE {
                return field("member's GUID", 0);
            }
            let known = member.membership != Membership::In && member.held.0 < COUNT_END;
            if member.held.0 != 0 && !known {
                return field("epoch of what a member holds", member.held.0);
            }
            if self.members[..index].iter().any(|s| s.guid == member.guid) {
                return field("GUID of two members", member.guid.0);
            }
        }
        if !self.members.iter().any(|s| s.guid == self.disk) {
            return field("label's disk, which is no member of its vdev", self.disk.0);
        }
        let members_in = self.members.iter();
        let members_in = members_in
            .filter(|s| s.membership == Membership::In)
            .count();
        if members_in < vdev.needed() {
            return field("number of members that have everything", members_in as u64);
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
        let (version, mut vdevs, mut added) = (self.version(), self.vdevs.clone(), 0);
        if version < VERSION_PLACES {
            vdevs.iter_mut().for_each(|vdev| vdev.has_journal = false);
            added = self.added().expect("other places need the next version");
        }
        let raw = RawLabel {
            magic: MAGIC,
            version: U32::new(version),
            pool: U64::new(self.pool.0),
            disk: U64::new(self.disk.0),
            epoch: U64::new(self.epoch.0),
            vdev: U16::new(self.vdev.0),
            state: self.state.code(),
            reserved_a: 0,
            member_count: U16::new(self.members.len() as u16),
            vdev_count: U16::new(self.vdevs.len() as u16),
            node_size: U32::new(self.node_size.get()),
            segment_size: U32::new(self.journal.segment_size),
            segments: U32::new(self.journal.segments),
            added: U16::new(added),
            reserved_b: U16::ZERO,
            host: self.host.id,
            host_name: fields::text(&self.host.name),
            name: fields::text(&self.name),
            members: fields::list(&self.members, RawMember::encode),
            vdevs: self.with_rings(version, fields::list(&vdevs, RawVdev::encode)),
            features: self.features.encode(),
            branch: U64::new(self.history.branch.0),
            fork_count: U16::new(self.history.forks.len() as u16),
            reserved_c: [0; 6],
            forks: fields::list(&self.history.forks, RawFork::encode),
            ring_first: U64::new(self.rings.now.first),
            next_first: U64::new(self.rings.next.as_ref().map_or(0, |next| next.first)),
            tail: [0; TAIL_SIZE],
            checksum: [0; CHECKSUM_SIZE],
        };
        sealed(&raw, at)
    }

    /// Encoded vdevs that say which rings they are in, if labels of this version do.
    fn with_rings(&self, version: u32, mut vdevs: [RawVdev; VDEVS_MAX]) -> [RawVdev; VDEVS_MAX] {
        if version >= VERSION_RINGS {
            let next = self.rings.next.iter().map(|ring| (IN_NEXT, ring));
            for (bit, ring) in next.chain([(IN_RING, &self.rings.now)]) {
                for id in &ring.vdevs {
                    vdevs[usize::from(id.0)].add_journal(bit);
                }
            }
        }
        vdevs
    }

    /// Decodes the label that was read from the disk offset `at`.
    ///
    /// # Errors
    /// A wrong length or checksum, or the first field that is malformed, or reserved and not zero.
    pub fn decode(bytes: &[u8], at: VdevOffset) -> Result<Self, Defect> {
        let raw: &RawLabel = whole(bytes, at)?;
        let version = raw.version.get();
        if !(VERSION_PLAIN..=VERSION_CLASSES).contains(&version) || version == VERSION_SPARE {
            return field(VERSION_FIELD, version.into());
        }
        let reserved = raw.reserved_a != 0 || raw.reserved_b != U16::ZERO;
        if reserved || raw.reserved_c != [0; 6] || raw.tail.iter().any(|&byte| byte != 0) {
            return field("label's reserved bytes", raw.reserved_b.get().into());
        }
        let Some(node_size) = NodeSize::new(raw.node_size.get()) else {
            return field("label's node size", raw.node_size.get().into());
        };
        let vdevs = fields::decode_list("vdevs", raw.vdev_count, &raw.vdevs, RawVdev::decode)?;
        let vdevs = with_places(version, vdevs, raw.added.get().into())?;
        let label = Self {
            pool: PoolGuid(raw.pool.get()),
            name: fields::decode_text("label's name", &raw.name)?,
            state: PoolState::from_code(raw.state)?,
            host: Host {
                id: raw.host,
                name: fields::decode_text("label's host", &raw.host_name)?,
            },
            epoch: LabelEpoch(raw.epoch.get()),
            disk: MemberGuid(raw.disk.get()),
            vdev: VdevId(raw.vdev.get()),
            members: fields::decode_list(
                "members",
                raw.member_count,
                &raw.members,
                RawMember::decode,
            )?,
            rings: rings(raw, &vdevs)?,
            vdevs,
            features: Features::decode(&raw.features)?,
            node_size,
            journal: JournalLayout {
                segment_size: raw.segment_size.get(),
                segments: raw.segments.get(),
            },
            history: LabelHistory {
                branch: LabelBranch(raw.branch.get()),
                forks: fields::decode_list("forks", raw.fork_count, &raw.forks, RawFork::decode)?,
            },
        };
        label.check()?;
        if version != label.version() {
            return field("branch of a label of its version", label.history.branch.0);
        }
        Ok(label)
    }
}

/// Vdevs as a label of some version has them, with the places of the journal. Before version 3 a label has the number of the
/// last vdevs without a part of the journal.
fn with_places(
    version: u32,
    mut vdevs: Vec<VdevEntry>,
    added: usize,
) -> Result<Vec<VdevEntry>, Defect> {
    let most = if version < VERSION_PLACES {
        vdevs.len()
    } else {
        0
    };
    if added > most {
        return field("label's number of added vdevs", added as u64);
    }
    if version < VERSION_PLACES {
        if vdevs.iter().any(|vdev| vdev.has_journal) {
            return field("vdev's reserved bytes", 1);
        }
        let first = vdevs.len() - added;
        vdevs[..first]
            .iter_mut()
            .for_each(|vdev| vdev.has_journal = true);
    }
    Ok(vdevs)
}

/// The rings of a label with these vdevs. Before version 7, the journal is on every vdev with an area.
fn rings(raw: &RawLabel, vdevs: &[VdevEntry]) -> Result<JournalRings, Defect> {
    let with = |bit: u8| {
        let vdevs = (0..).zip(&raw.vdevs);
        let with = vdevs.filter(|(_, vdev)| vdev.journal() & bit != 0);
        with.map(|(index, _)| VdevId(index)).collect::<Vec<_>>()
    };
    let (first, next) = (raw.ring_first.get(), raw.next_first.get());
    let next = JournalRing {
        first: next,
        vdevs: with(IN_NEXT),
    };
    if raw.version.get() >= VERSION_RINGS {
        let odd = raw.vdevs.iter().find(|v| v.journal() > AREA_AND_RINGS);
        return match odd {
            Some(odd) => field("vdev's part of the journal", odd.journal().into()),
            None => Ok(JournalRings {
                now: JournalRing {
                    first,
                    vdevs: with(IN_RING),
                },
                next: (next != JournalRing::default()).then_some(next),
            }),
        };
    }
    if let Some(odd) = raw.vdevs.iter().find(|v| v.journal() > 1) {
        return field("vdev's part of the journal", odd.journal().into());
    }
    if first != 0 || next.first != 0 {
        return field("label's reserved bytes", first.max(next.first));
    }
    let areas = (0..).zip(vdevs).filter(|(_, vdev)| vdev.has_journal);
    Ok(JournalRings::new(
        areas.map(|(index, _)| VdevId(index)).collect(),
    ))
}
