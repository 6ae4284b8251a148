//! Disks that are looked at, and which of them are believed.
//!
//! **Owns** labels, uberblocks and blocks as each disk has them, and its own rule of trust: of a vdev, the label with the
//! highest epoch says which sides are in; only their uberblocks count. **Called by** the offline reader, which begins
//! here. **Invariants**: disks that were not opened for reading only are refused; a place is checked before it is read.
//! `docs/format.md`, "Labels" to "Vdevs".

use std::path::PathBuf;
use std::rc::Rc;

use io::disk::Disk;
use io::{BufPool, IoBuf};
use thiserror::Error;

use super::limits::BUFFER_BYTES;
use crate::compress;
use crate::format::{
    Address, BlockPtr, Defect, LABEL_SIZE, Label, Membership, PoolGuid, REGION_SECTORS, SideGuid,
    UBERBLOCK_SIZE, Uberblock, VdevEntry, VdevId, VdevOffset,
};
use crate::journal::Ring;
use crate::vdev::limits::RUN_SIZE_MAX;
use crate::vdev::{AREA_SIZE, DATA_START, RING_SLOTS, areas, data_size, has_room, slot_offset};

/// Why nothing can be looked at.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum InspectError {
    /// Give other disks.
    #[error(
        "none of these disks has a label that can be read: they are no pool's, or all copies are damaged"
    )]
    NoPool,
    /// Look at one pool at a time.
    #[error("these disks are of different pools ({}): look at one at a time", names.join(", "))]
    ManyPools {
        /// The pools' names.
        names: Vec<String>,
    },
    /// No uberblock to begin at.
    #[error(
        "no disk that counts has a whole uberblock: the pool was never finished, or all are damaged"
    )]
    NoUberblock,
    /// Name one that is there: `wirepool inspect uberblocks`.
    #[error("there is no uberblock {sequence} on these disks")]
    NoSuchUberblock {
        /// What was asked for.
        sequence: u64,
    },
    /// The pool's own tree cannot be read: what there is is not known. Look at an older uberblock.
    #[error("the pool's own tree cannot be read whole: look at an older uberblock")]
    NoTree,
}

/// What is wrong with bytes that should be something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Flaw {
    /// They cannot be read.
    #[error("cannot be read")]
    Unreadable,
    /// Nothing but zeroes.
    #[error("blank")]
    Blank,
    /// They are not what they should be.
    #[error(transparent)]
    Wrong(Defect),
}

/// A copy of a label.
#[derive(Debug, Clone)]
pub struct LabelCopy {
    /// Where on the disk, bytes.
    pub offset: u64,
    /// What it is.
    pub label: Result<Label, Flaw>,
}

/// A place for an uberblock.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Label area, from 0.
    pub area: usize,
    /// Place in its ring.
    pub slot: u64,
    /// Where on the disk, bytes.
    pub offset: u64,
    /// What it is.
    pub uberblock: Result<Uberblock, Flaw>,
}

/// A disk as it was found.
#[derive(Debug, Clone)]
pub struct SeenDisk {
    /// Where.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Copies of its label, by area; none if it is too small for any.
    pub labels: Vec<LabelCopy>,
    /// The rings, by area and slot.
    pub slots: Vec<Slot>,
}

impl SeenDisk {
    /// The newest label.
    #[must_use]
    pub fn label(&self) -> Option<&Label> {
        let whole = self.labels.iter().filter_map(|c| c.label.as_ref().ok());
        whole.max_by_key(|label| label.epoch)
    }
}

/// A side of a vdev, as the label that counts has it.
#[derive(Debug, Clone)]
pub struct SeenSide {
    /// Which disk.
    pub guid: SideGuid,
    /// Whether it should have everything.
    pub membership: Membership,
    /// Which of the disks it is.
    pub disk: Option<usize>,
}

/// A vdev.
#[derive(Debug, Clone)]
pub struct SeenVdev {
    /// What it is.
    pub entry: VdevEntry,
    /// Its sides; none if no disk of it is there.
    pub sides: Vec<SeenSide>,
}

/// A pool's disks.
pub struct Image {
    disks: Vec<Disk>,
    /// What was found on them.
    pub seen: Vec<SeenDisk>,
    /// The newest label.
    pub label: Label,
    /// The vdevs, by index.
    pub vdevs: Vec<SeenVdev>,
    /// Uberblocks that count, the newest first.
    pub uberblocks: Vec<Uberblock>,
    buffers: BufPool,
}

/// Disks that should have something and do not.
pub(super) type Lacking = Vec<(PathBuf, Flaw)>;

/// A block as the disks have it.
pub struct Copied {
    /// Whole sectors, if a disk has it.
    pub good: Option<IoBuf>,
    /// Disks that should have it and do not.
    pub lacking: Vec<(PathBuf, Flaw)>,
    /// How many disks were asked.
    pub asked: usize,
}

impl Image {
    /// Looks at labels and uberblocks. All disks are of one pool, and open for reading only.
    ///
    /// # Errors
    /// Why there is nothing to look at.
    pub async fn open(disks: Vec<Disk>) -> Result<Rc<Self>, InspectError> {
        let buffers = BufPool::new(BUFFER_BYTES);
        let mut seen = Vec::with_capacity(disks.len());
        for disk in &disks {
            seen.push(look(disk, &buffers).await);
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
            disks,
            seen,
            label,
            vdevs,
            uberblocks,
            buffers,
        }))
    }

    /// The uberblock with this sequence, or the newest.
    ///
    /// # Errors
    /// There is none.
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

    /// Where the journal lies.
    pub(super) fn ring(&self) -> Ring {
        let layout = self.label.journal;
        let vdevs = self.label.journal_vdevs() as u64;
        let segments = 0..u64::from(layout.segments) * vdevs;
        let at = |n: u64| Address {
            vdev: VdevId((n % vdevs) as u16),
            offset: VdevOffset(n / vdevs * u64::from(layout.segment_size)),
        };
        let sectors = self.vdevs.iter().map(|v| v.entry.sector());
        Ring {
            pool: self.label.pool,
            segments: segments.map(at).collect(),
            segment_size: layout.segment_size,
            sector: sectors.max().unwrap_or(UBERBLOCK_SIZE as u32),
        }
    }

    /// Bytes that a block takes on its vdev, in whole sectors.
    ///
    /// # Errors
    /// There can be no block of a tree.
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
        let inside = start >= journal && start + space <= vdev.entry.data_size;
        let whole = start / region == (start + space - 1) / region;
        if !start.is_multiple_of(sector) || !inside || !whole {
            return field("block pointer's offset", start);
        }
        Ok(space)
    }

    /// Disks that should have what lies on a vdev.
    pub(super) fn sides_in(&self, vdev: VdevId) -> impl Iterator<Item = usize> + '_ {
        let vdev = self.vdevs.get(usize::from(vdev.0)).into_iter();
        vdev.flat_map(|v| v.trusted(&self.seen))
    }

    pub(super) fn path(&self, disk: usize) -> PathBuf {
        self.seen[disk].path.clone()
    }

    /// Whole sectors of a vdev's data, as one disk has them.
    pub(super) async fn read_side(
        &self,
        disk: usize,
        offset: VdevOffset,
        len: usize,
    ) -> Option<IoBuf> {
        let end = DATA_START.checked_add(offset.0)?.checked_add(len as u64)?;
        if len == 0 || len > RUN_SIZE_MAX || end > self.seen[disk].size {
            return None;
        }
        let buf = self.buffers.alloc(len).await;
        let (read, buf) = self.disks[disk].read(buf, DATA_START + offset.0).await;
        read.ok().map(|()| buf)
    }

    /// A block: from every disk that should have it, or only until one has it.
    ///
    /// # Errors
    /// There can be no block there.
    pub async fn read(&self, ptr: &BlockPtr, from_all: bool) -> Result<Copied, Defect> {
        let len = self.space_of(ptr)? as usize;
        let mut copied = Copied {
            good: None,
            lacking: Vec::new(),
            asked: 0,
        };
        for disk in self.sides_in(ptr.vdev) {
            if copied.good.is_some() && !from_all {
                break;
            }
            copied.asked += 1;
            let flaw = match self.read_side(disk, ptr.offset, len).await {
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
    /// Whether any disk has a block, and which of those that should have it do not.
    ///
    /// # Errors
    /// There can be no block there.
    pub(super) async fn check(&self, ptr: &BlockPtr) -> Result<(bool, Lacking), Defect> {
        let len = self.space_of(ptr)? as usize;
        let (mut has, mut lacking) = (false, Lacking::new());
        for disk in self.sides_in(ptr.vdev) {
            // one buffer at a time: many checks share the memory for them
            let flaw = match self.read_side(disk, ptr.offset, len).await {
                None => Flaw::Unreadable,
                Some(buf) => match compress::check(ptr, &buf[..ptr.physical_size as usize]) {
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
    let labels = seen.iter().filter_map(SeenDisk::label);
    let of_vdev = labels.filter(|label| {
        let own = label.vdevs.get(usize::from(index));
        label.vdev == VdevId(index) && own.is_some_and(|own| own.guid == entry.guid)
    });
    let Some(authority) = of_vdev.max_by_key(|label| label.epoch) else {
        return SeenVdev {
            entry: *entry,
            sides: Vec::new(),
        };
    };
    let side = |side: &crate::format::SideEntry| SeenSide {
        guid: side.guid,
        membership: side.membership,
        disk: seen
            .iter()
            .position(|d| d.label().is_some_and(|l| l.disk == side.guid)),
    };
    SeenVdev {
        entry: *authority.vdevs.get(usize::from(index)).unwrap_or(entry),
        sides: authority.sides.iter().map(side).collect(),
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
    /// Its disks that are in and have room for its data.
    fn trusted<'a>(&'a self, seen: &'a [SeenDisk]) -> impl Iterator<Item = usize> + 'a {
        let is_in = self.sides.iter().filter(|s| s.membership == Membership::In);
        let disks = is_in.filter_map(|s| s.disk);
        disks.filter(|disk| self.fits(&seen[*disk]))
    }

    /// Whether a disk has room for the vdev's data.
    pub(super) fn fits(&self, disk: &SeenDisk) -> bool {
        data_size(disk.size) >= self.entry.data_size
    }
}
