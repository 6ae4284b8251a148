//! Disks for inspection, and the choice of those to trust.
//!
//! **Owns** labels, uberblocks and blocks as each disk has them, and its own rule of trust: for each vdev, the label with the
//! highest epoch decides which members are in; only their uberblocks count. **Called by** the offline reader, which begins
//! here. **Invariants**: disks that were not opened for reading only are refused; an address is checked before it is read.
//! `docs/format.md`, "Labels" to "Vdevs".

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use io::disk::Disk;
use io::{BufPool, IoBuf};
use thiserror::Error;

use super::limits::BUFFER_BYTES;
use super::moved::SeenCopies;
use super::relocated::SeenRelocations;
use crate::compress;
use crate::format::{
    Address, Block, BlockPtr, Defect, JournalRing, LABEL_SIZE, Label, MemberGuid, Membership,
    PoolGuid, REGION_SECTORS, SpareLabel, UBERBLOCK_SIZE, Uberblock, VDEVS_MAX, VdevEntry, VdevId,
    VdevOffset,
};
use crate::journal::Ring;
use crate::vdev::limits::RUN_SIZE_MAX;
use crate::vdev::{
    AREA_SIZE, DATA_START, RING_SLOTS, areas, cache_label, data_size, has_room, slot_offset,
    spare_label,
};

/// Why an inspection is not possible.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InspectError {
    /// Name other disks.
    #[error(
        "none of these disks has a readable label: they belong to no pool, or all copies are damaged"
    )]
    NoPool,
    /// Inspect one pool at a time.
    #[error("these disks belong to different pools ({}): inspect one pool at a time", names.join(", "))]
    ManyPools {
        /// The pools' names.
        names: Vec<String>,
    },
    /// No uberblock can be inspected.
    #[error(
        "no member that is in has an intact uberblock: the creation of the pool was interrupted, or all are damaged"
    )]
    NoUberblock,
    /// Name an existing one: see `wirepool inspect uberblocks`.
    #[error("these disks have no uberblock {sequence}: `wirepool inspect uberblocks` lists them")]
    NoSuchUberblock {
        /// The requested sequence.
        sequence: u64,
    },
    /// The pool's own tree cannot be read, so its contents are unknown. Inspect an older uberblock.
    #[error("the pool's own tree cannot be read: inspect an older uberblock")]
    NoTree,
}

/// Why bytes cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Flaw {
    /// They cannot be read.
    #[error("cannot be read")]
    Unreadable,
    /// Only zeroes.
    #[error("blank")]
    Blank,
    /// Damaged.
    #[error(transparent)]
    Wrong(Defect),
    /// Parity of a raidz does not match its row.
    #[error("its parity does not match the row")]
    Parity,
}

/// A copy of a label.
#[derive(Debug, Clone)]
pub struct LabelCopy {
    /// Offset on the disk, bytes.
    pub offset: u64,
    /// The label, or what is wrong with it.
    pub label: Result<Label, Flaw>,
}

/// A slot for an uberblock.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Number of the label area, from 0.
    pub area: usize,
    /// Number of the slot in the ring.
    pub slot: u64,
    /// Offset on the disk, bytes.
    pub offset: u64,
    /// The uberblock, or what is wrong with it.
    pub uberblock: Result<Uberblock, Flaw>,
}

/// The contents of a disk's label areas.
#[derive(Debug, Clone)]
pub struct SeenDisk {
    /// Its path.
    pub path: PathBuf,
    /// Its size, bytes.
    pub size: u64,
    /// Copies of its label, by area; empty if the disk is too small for areas.
    pub labels: Vec<LabelCopy>,
    /// Slots of the rings, by area and slot.
    pub slots: Vec<Slot>,
}

impl SeenDisk {
    /// The newest label; `None` if no copy is intact.
    #[must_use]
    pub fn label(&self) -> Option<&Label> {
        let whole = self.labels.iter().filter_map(|c| c.label.as_ref().ok());
        whole.max_by_key(|label| label.epoch)
    }
}

/// A member of a vdev, by the label that counts.
#[derive(Debug, Clone)]
pub struct SeenMember {
    /// Its identifier.
    pub guid: MemberGuid,
    /// Its membership.
    pub membership: Membership,
    /// Index of its disk; `None` if it is missing.
    pub disk: Option<usize>,
}

/// A vdev.
#[derive(Debug, Clone)]
pub struct SeenVdev {
    /// Its entry in labels.
    pub entry: VdevEntry,
    /// Its members; empty if no disk of it is present, or if it was removed.
    pub members: Vec<SeenMember>,
}

/// The disks of a pool.
pub struct Image {
    disks: Vec<Disk>,
    /// The inspected disks.
    pub seen: Vec<SeenDisk>,
    /// The newest label.
    pub label: Label,
    /// The vdevs, by index.
    pub vdevs: Vec<SeenVdev>,
    /// Uberblocks that count, newest first.
    pub uberblocks: Vec<Uberblock>,
    /// The inspected disks that are spares, which hold nothing, with their labels.
    pub spares: Vec<(PathBuf, SpareLabel)>,
    /// Copies of blocks of removed vdevs, as of the checkpoint whose contents were read last.
    pub(super) copies: RefCell<SeenCopies>,
    /// Places of blocks whose pointers stayed as they are, of the checkpoint that was read last.
    pub(super) relocations: RefCell<SeenRelocations>,
    buffers: BufPool,
}

/// Disks that should have something and do not, each with the reason.
pub(super) type Lacking = Vec<(PathBuf, Flaw)>;

/// A block as read from the disks.
pub struct Copied {
    /// Its whole sectors, if a disk has it.
    pub good: Option<IoBuf>,
    /// Disks that should have it and do not.
    pub lacking: Vec<(PathBuf, Flaw)>,
    /// Number of disks that were read.
    pub asked: usize,
}

impl Image {
    /// Reads labels and uberblocks. All disks must belong to one pool and be open for reading only. Spares are named in
    /// [`Image::spares`] and read no further; cache devices are left out.
    ///
    /// # Errors
    /// The reason why there is nothing to inspect.
    pub async fn open(disks: Vec<Disk>) -> Result<Rc<Self>, InspectError> {
        let buffers = BufPool::new(BUFFER_BYTES);
        let (mut kept, mut seen) = (Vec::new(), Vec::with_capacity(disks.len()));
        let mut spares = Vec::new();
        for disk in disks {
            let found = look(&disk, &buffers).await;
            if found.label().is_none()
                && let Some(label) = spare_label(&disk).await
            {
                spares.push((disk.info().path.clone(), label));
                continue;
            }
            if found.label().is_none() && cache_label(&disk).await.is_some() {
                continue;
            }
            kept.push(disk);
            seen.push(found);
        }
        let mut pools: Vec<(PoolGuid, String)> = Vec::new();
        for label in seen.iter().filter_map(SeenDisk::label) {
            if pools.iter().all(|(guid, _)| *guid != label.pool) {
                pools.push((label.pool, label.name.clone()));
            }
        }
        if pools.len() > 1 {
            let names = pools.into_iter().map(|(_, name)| name).collect();
            return Err(InspectError::ManyPools { names });
        }
        let labels = seen.iter().filter_map(SeenDisk::label);
        let newest = labels.max_by_key(|label| label.epoch);
        let label = newest.ok_or(InspectError::NoPool)?.clone();
        let vdevs = label.vdevs.iter().enumerate();
        let vdevs: Vec<_> = vdevs.map(|(n, e)| vdev(&seen, n as u16, e)).collect();
        let trusted = vdevs.iter().flat_map(|v| v.trusted(&seen));
        let trusted = trusted.flat_map(|d| &seen[d].slots);
        let found = trusted.filter_map(|slot| slot.uberblock.as_ref().ok());
        let ours = |u: &&Uberblock| u.pool == label.pool && u.node_size == label.node_size;
        let mut uberblocks: Vec<Uberblock> = found.filter(ours).copied().collect();
        uberblocks.sort_by_key(|u| std::cmp::Reverse((u.sequence, u.label_epoch)));
        uberblocks.dedup_by_key(|u| u.sequence);
        Ok(Rc::new(Self {
            disks: kept,
            seen,
            label,
            vdevs,
            uberblocks,
            spares,
            copies: RefCell::default(),
            relocations: RefCell::default(),
            buffers,
        }))
    }

    /// The uberblock with this sequence; without one, the newest.
    ///
    /// # Errors
    /// [`InspectError::NoSuchUberblock`], [`InspectError::NoUberblock`].
    pub fn uberblock(&self, sequence: Option<u64>) -> Result<Uberblock, InspectError> {
        let newest = self.uberblocks.first().ok_or(InspectError::NoUberblock)?;
        let Some(sequence) = sequence else {
            return Ok(*newest);
        };
        let found = self.uberblocks.iter().find(|u| u.sequence == sequence);
        found
            .copied()
            .ok_or(InspectError::NoSuchUberblock { sequence })
    }

    /// The ring that has a segment of the journal; `None` if the journal has moved away from it.
    pub(super) fn ring_with(&self, segment: u64) -> Option<Ring> {
        let layout = self.label.journal;
        let JournalRing { first, vdevs } = self.label.rings.with_segment(segment)?;
        let count = vdevs.len() as u64;
        let segments = 0..u64::from(layout.segments) * count;
        let at = |n: u64| Address {
            vdev: vdevs[(n % count) as usize],
            offset: VdevOffset(n / count * u64::from(layout.segment_size)),
        };
        let sectors = self.vdevs.iter().map(|v| v.entry.sector());
        Some(Ring {
            pool: self.label.pool,
            first: *first,
            segments: segments.map(at).collect(),
            segment_size: layout.segment_size,
            sector: sectors.max().unwrap_or(UBERBLOCK_SIZE as u32),
        })
    }

    /// Bytes that a block takes on its vdev, in whole sectors.
    ///
    /// # Errors
    /// The defect of a pointer that cannot be to a block of a tree.
    pub(super) fn space_of(&self, ptr: &BlockPtr) -> Result<u64, Defect> {
        let field = |field, value| Err(Defect::Field { field, value });
        let Some(vdev) = self.vdevs.get(usize::from(ptr.vdev.0)) else {
            return field("block pointer's vdev", ptr.vdev.0.into());
        };
        let sector = u64::from(vdev.entry.sector());
        let space = u64::from(ptr.physical_size).next_multiple_of(sector);
        if space > RUN_SIZE_MAX as u64 {
            return field("block pointer's physical size", ptr.physical_size.into());
        }
        let start = ptr.offset.0;
        let region = sector * u64::from(REGION_SECTORS);
        let journal = self.label.journal_size(ptr.vdev.0.into());
        let inside = start >= journal && start + space <= self.end_of(vdev);
        let whole = start / region == (start + space - 1) / region;
        if !start.is_multiple_of(sector) || !inside || !whole {
            return field("block pointer's offset", start);
        }
        Ok(space)
    }

    pub(super) async fn buffer(&self, len: usize) -> IoBuf {
        self.buffers.alloc(len).await
    }

    /// Disks that should have the data of a vdev; of a raidz, a part of it.
    pub(super) fn members_in(&self, vdev: VdevId) -> impl Iterator<Item = usize> + '_ {
        let vdev = self.vdevs.get(usize::from(vdev.0)).into_iter();
        vdev.flat_map(|v| v.trusted(&self.seen))
    }

    pub(super) fn path(&self, disk: usize) -> PathBuf {
        self.seen[disk].path.clone()
    }

    /// Whole sectors of a vdev's data from one disk.
    pub(super) async fn read_member(
        &self,
        disk: usize,
        offset: VdevOffset,
        len: usize,
    ) -> Option<IoBuf> {
        let offset = DATA_START.checked_add(offset.0)?;
        self.read_disk(disk, offset, len).await
    }

    /// Reads a range of a disk.
    pub(super) async fn read_disk(&self, disk: usize, offset: u64, len: usize) -> Option<IoBuf> {
        let end = offset.checked_add(len as u64)?;
        if len == 0 || len > RUN_SIZE_MAX || end > self.seen[disk].size {
            return None;
        }
        let buf = self.buffers.alloc(len).await;
        let (read, buf) = self.disks[disk].read(buf, offset).await;
        read.ok().map(|()| buf)
    }

    /// Reads a block: from every disk that should have it, or with `from_all` false until one has it.
    ///
    /// # Errors
    /// The defect of a pointer that cannot be to a block.
    pub async fn read(&self, ptr: &BlockPtr, from_all: bool) -> Result<Copied, Defect> {
        let len = self.space_of(ptr)? as usize;
        let place = self.place_of(self.address_of(ptr), len as u64)?;
        if let Some(found) = self.read_rows((ptr, place), len).await {
            return Ok(found);
        }
        let mut copied = Copied {
            good: None,
            lacking: Vec::new(),
            asked: 0,
        };
        for disk in self.members_in(place.vdev) {
            if copied.good.is_some() && !from_all {
                break;
            }
            copied.asked += 1;
            let flaw = match self.read_member(disk, place.offset, len).await {
                None => Flaw::Unreadable,
                Some(buf) => match ptr.verify(&buf[..ptr.physical_size as usize]) {
                    Ok(()) => {
                        copied.good = Some(buf);
                        continue;
                    }
                    Err(defect) => Flaw::Wrong(defect),
                },
            };
            copied.lacking.push((self.path(disk), flaw));
        }
        Ok(copied)
    }
}

impl Image {
    /// Whether a vdev was removed.
    pub(super) fn is_removed(&self, vdev: VdevId) -> bool {
        let vdev = self.vdevs.get(usize::from(vdev.0));
        vdev.is_some_and(|vdev| vdev.entry.is_removed)
    }

    /// The address of a block before copies of removals.
    pub(super) fn address_of(&self, ptr: &BlockPtr) -> Address {
        let known = self.relocations.borrow().of(ptr);
        known.map_or(ptr.address(), |one| one.to)
    }

    /// The address at which a block of whole sectors is read.
    ///
    /// # Errors
    /// The defect of a block on a removed vdev that has no copy.
    pub(super) fn place_of(&self, mut at: Address, bytes: u64) -> Result<Address, Defect> {
        let copies = self.copies.borrow();
        for _ in 0..VDEVS_MAX {
            if !self.is_removed(at.vdev) {
                return Ok(at);
            }
            let Some(copy) = copies.place_of(at, bytes) else {
                break;
            };
            at = copy;
        }
        Err(Defect::Field {
            field: "offset of a block on a removed vdev, which has no copy",
            value: at.offset.0,
        })
    }
}

impl Image {
    /// Returns whether any disk has a block, and the disks that should have it and do not.
    ///
    /// # Errors
    /// The defect of a pointer that cannot be to a block.
    pub(super) async fn check(&self, block: &Block) -> Result<(bool, Lacking), Defect> {
        let ptr = block.ptr();
        let len = self.space_of(ptr)? as usize;
        let place = self.place_of(self.address_of(ptr), len as u64)?;
        if let Some(found) = self.check_rows((block, place), len as u64).await {
            return Ok(found);
        }
        let (mut has, mut lacking) = (false, Lacking::new());
        for disk in self.members_in(place.vdev) {
            // One buffer at a time: many checks share the memory for them.
            let flaw = match self.read_member(disk, place.offset, len).await {
                None => Flaw::Unreadable,
                Some(buf) => match compress::check(block, &buf[..ptr.physical_size as usize]) {
                    Ok(()) => {
                        has = true;
                        continue;
                    }
                    Err(defect) => Flaw::Wrong(defect),
                },
            };
            lacking.push((self.path(disk), flaw));
        }
        Ok((has, lacking))
    }
}

fn vdev(seen: &[SeenDisk], index: u16, entry: &VdevEntry) -> SeenVdev {
    if entry.is_removed {
        // a disk with an older label of it holds nothing any longer
        return SeenVdev {
            entry: *entry,
            members: Vec::new(),
        };
    }
    let labels = seen.iter().filter_map(SeenDisk::label);
    let of_vdev = labels.filter(|label| {
        let own = label.vdevs.get(usize::from(index));
        label.vdev == VdevId(index) && own.is_some_and(|own| own.guid == entry.guid)
    });
    let Some(authority) = of_vdev.max_by_key(|label| label.epoch) else {
        return SeenVdev {
            entry: *entry,
            members: Vec::new(),
        };
    };
    let member = |member: &crate::format::MemberEntry| SeenMember {
        guid: member.guid,
        membership: member.membership,
        disk: seen
            .iter()
            .position(|d| d.label().is_some_and(|l| l.disk == member.guid)),
    };
    SeenVdev {
        entry: *authority.vdevs.get(usize::from(index)).unwrap_or(entry),
        members: authority.members.iter().map(member).collect(),
    }
}

async fn read_at(disk: &Disk, offset: u64, len: usize, buffers: &BufPool) -> Option<IoBuf> {
    let buf = buffers.alloc(len).await;
    let (read, buf) = disk.read(buf, offset).await;
    read.ok().map(|()| buf)
}

fn flaw(bytes: &[u8], defect: Defect) -> Flaw {
    if bytes.iter().all(|byte| *byte == 0) {
        Flaw::Blank
    } else {
        Flaw::Wrong(defect)
    }
}

async fn look(disk: &Disk, buffers: &BufPool) -> SeenDisk {
    let info = disk.info();
    let mut seen = SeenDisk {
        path: info.path.clone(),
        size: info.size,
        labels: Vec::new(),
        slots: Vec::new(),
    };
    if !has_room(info.size) {
        return seen;
    }
    for (area, offset) in areas(info.size).into_iter().enumerate() {
        let label = match read_at(disk, offset, LABEL_SIZE, buffers).await {
            None => Err(Flaw::Unreadable),
            Some(buf) => {
                Label::decode(&buf, VdevOffset(offset)).map_err(|defect| flaw(&buf, defect))
            }
        };
        seen.labels.push(LabelCopy { offset, label });
        let first = slot_offset(offset, 0);
        let ring = read_at(disk, first, AREA_SIZE as usize - LABEL_SIZE, buffers).await;
        for slot in 0..RING_SLOTS {
            let at = slot_offset(offset, slot);
            let one = match &ring {
                Some(_) => None,
                None => read_at(disk, at, UBERBLOCK_SIZE, buffers).await,
            };
            let bytes = match &ring {
                Some(ring) => ring[(at - first) as usize..].first_chunk(),
                None => one.as_ref().and_then(|one| one.first_chunk()),
            };
            let uberblock = match bytes {
                None => Err(Flaw::Unreadable),
                Some(bytes) => Uberblock::decode(bytes, VdevOffset(at))
                    .map_err(|defect| flaw(&bytes[..], defect)),
            };
            seen.slots.push(Slot {
                area,
                slot,
                offset: at,
                uberblock,
            });
        }
    }
    seen
}

impl SeenVdev {
    /// The disks of its members that are in and have room for its data.
    pub(super) fn trusted<'a>(&'a self, seen: &'a [SeenDisk]) -> impl Iterator<Item = usize> + 'a {
        let is_in = self
            .members
            .iter()
            .filter(|s| s.membership == Membership::In);
        let disks = is_in.filter_map(|s| s.disk);
        disks.filter(|disk| self.fits(&seen[*disk]))
    }

    /// Whether a disk has room for the vdev's data.
    pub(super) fn fits(&self, disk: &SeenDisk) -> bool {
        data_size(disk.size) >= self.entry.data_size
    }
}
