//! Scan: finds pools by the labels of disks, and judges which members can be trusted.
//!
//! **Owns** the rule of trust. **Called by** import. **Invariants**: nothing is written; for each vdev, the label with the
//! highest epoch decides which members are in; only their uberblocks count. `docs/decisions/0101`.

use std::path::PathBuf;

use io::BufPool;
use io::disk::Disk;

use super::area;
use super::cache_label;
use super::error::SetupError;
use super::fork::first_apart;
use super::geometry;
use super::leaf::{Fault, Leaf};
use super::limits::SCRATCH_BYTES;
use super::spare_label;
use crate::format::{
    Address, Birth, CacheLabel, Defect, Host, Label, LabelEpoch, LabelHistory, MemberGuid,
    Membership, PoolGuid, PoolState, SpareLabel, Uberblock, VdevEntry, VdevId, VdevKind,
    VdevOffset, decode_segment,
};

/// A disk with an intact label.
pub(super) struct Candidate {
    pub(super) disk: Disk,
    pub(super) label: Label,
    /// Uberblocks of the label's pool.
    pub(super) uberblocks: Vec<Uberblock>,
    /// Whether the pool was used: the disk has more than the creation left on it.
    pub(super) was_used: bool,
}

/// State of a member that a label names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Present, and in.
    Present,
    /// Present; it missed writes.
    Stale,
    /// Present; the operator took it offline.
    Offline,
    /// Present, and too short for the data of its vdev. It counts as missing.
    Truncated,
    /// Missing; it was in.
    Missing,
    /// Missing; it missed writes.
    MissingStale,
}

/// A member of a pool that was found.
#[derive(Debug, Clone)]
pub struct FoundMember {
    /// Its identifier.
    pub guid: MemberGuid,
    /// Its path, if it is present.
    pub path: Option<PathBuf>,
    /// Its state.
    pub presence: Presence,
    /// Its membership by the newest label of its vdev.
    pub membership: Membership,
    /// If it missed writes: it has every block born up to this epoch.
    pub held: Birth,
}

/// A top-level vdev of a pool that was found.
#[derive(Debug, Clone)]
pub struct FoundVdev {
    /// Its index.
    pub id: VdevId,
    /// Its entry in labels.
    pub entry: VdevEntry,
    /// Its members; empty if none is present, or if it was removed.
    pub members: Vec<FoundMember>,
    /// Epoch of its newest label; zero if no member is present.
    pub epoch: LabelEpoch,
    /// History of that label.
    pub(super) history: LabelHistory,
}

/// A pool, as labels and uberblocks describe it.
pub struct FoundPool {
    /// Its identifier.
    pub guid: PoolGuid,
    /// Its name.
    pub name: String,
    /// Whether a host uses it.
    pub state: PoolState,
    /// The host that used it last.
    pub host: Host,
    /// Its vdevs, by index.
    pub vdevs: Vec<FoundVdev>,
    /// The uberblocks at which it may be opened, newest first. Empty if its creation was interrupted, or all are damaged.
    pub uberblocks: Vec<Uberblock>,
    /// If `uberblocks` is empty: those of members that missed writes, newest first.
    pub(super) older: Vec<Uberblock>,
    /// The reason why it cannot be trusted, not even with force.
    pub refused: Option<SetupError>,
    /// The newest label.
    pub(super) label: Label,
    /// Highest epoch of all labels.
    pub(super) epoch: LabelEpoch,
    pub(super) candidates: Vec<Candidate>,
}

impl FoundPool {
    /// Members that are too short: path, fault, and size of their vdev's data in bytes.
    #[must_use]
    pub fn short(&self) -> Vec<(PathBuf, Fault, u64)> {
        let of_vdev = |vdev: &FoundVdev| {
            let short = vdev.members.iter();
            let short = short.filter(|s| s.presence == Presence::Truncated);
            let disks =
                short.filter_map(|s| self.candidates.iter().find(|c| c.label.disk == s.guid));
            let infos = disks.map(|c| c.disk.info());
            let size = vdev.entry.data_size;
            let found = infos.map(|i| (i.path.clone(), Fault::Short(i.size), size));
            found.collect::<Vec<_>>()
        };
        self.vdevs.iter().flat_map(of_vdev).collect()
    }
}

/// A disk without a usable label.
#[derive(Debug, Clone)]
pub struct Unread {
    /// The disk.
    pub path: PathBuf,
    /// Defects of the label copies that could be read.
    pub defects: Vec<Defect>,
}

/// A disk that is a spare.
#[derive(Debug, Clone)]
pub struct FoundSpare {
    /// The disk.
    pub path: PathBuf,
    /// Its label.
    pub label: SpareLabel,
}

/// A disk that is a cache device.
#[derive(Debug, Clone)]
pub struct FoundCache {
    /// The disk.
    pub path: PathBuf,
    /// Its label.
    pub label: CacheLabel,
}

/// Result of a scan.
pub struct Scan {
    /// Pools, by name.
    pub pools: Vec<FoundPool>,
    /// Spares. Their disks are closed.
    pub spares: Vec<FoundSpare>,
    /// Cache devices. Their disks are closed.
    pub caches: Vec<FoundCache>,
    /// Disks without a pool, or with a pool of a later version.
    pub unread: Vec<Unread>,
}

/// Finds pools on disks. The disks of a pool stay open in it.
pub async fn scan(disks: Vec<Disk>) -> Scan {
    let scratch = BufPool::new(SCRATCH_BYTES);
    let mut pools: Vec<(PoolGuid, Vec<Candidate>)> = Vec::new();
    let (mut spares, mut caches, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    for disk in disks {
        let path = disk.info().path.clone();
        match read_candidate(&disk, &scratch).await {
            Ok(found) => match pools.iter_mut().find(|(guid, _)| *guid == found.label.pool) {
                Some((_, candidates)) => candidates.push(found),
                None => pools.push((found.label.pool, vec![found])),
            },
            Err(defects) => match spare_label::read(&disk, &scratch).await {
                Some(label) => spares.push(FoundSpare { path, label }),
                None => match cache_label::read(&disk, &scratch).await {
                    Some(label) => caches.push(FoundCache { path, label }),
                    None => unread.push(Unread { path, defects }),
                },
            },
        }
    }
    let mut pools: Vec<_> = pools.into_iter().map(|(_, found)| judge(found)).collect();
    pools.sort_by(|a, b| (&a.name, a.guid.0).cmp(&(&b.name, b.guid.0)));
    Scan {
        pools,
        spares,
        caches,
        unread,
    }
}

/// The newest intact label of a disk, or the defects of its copies.
pub(super) async fn newest_label(disk: &Disk, scratch: &BufPool) -> Result<Label, Vec<Defect>> {
    if !geometry::has_room(disk.info().size) {
        return Err(Vec::new());
    }
    let mut newest: Option<Label> = None;
    let mut defects = Vec::new();
    for copy in area::read_labels(disk, scratch).await {
        match copy {
            Ok(label) if newest.as_ref().is_none_or(|n| n.epoch < label.epoch) => {
                newest = Some(label);
            }
            Ok(_) => {}
            Err(defect) => defects.push(defect),
        }
    }
    newest.ok_or(defects)
}

async fn read_candidate(disk: &Disk, scratch: &BufPool) -> Result<Candidate, Vec<Defect>> {
    let label = newest_label(disk, scratch).await?;
    let slots = area::read_slots(&Leaf::new(label.disk, disk.clone()), scratch).await;
    let whole = slots.iter().filter_map(|slot| slot.uberblock);
    let ours = whole.filter(|u| u.pool == label.pool && u.node_size == label.node_size);
    let uberblocks: Vec<_> = ours.collect();
    let mut was_used = !uberblocks.is_empty() || label.epoch.0 > 1;
    if !was_used {
        // An interrupted creation may leave a torn first uberblock.
        let is_first = |slot: &area::Slot| slot.number == 1 % geometry::RING_SLOTS;
        was_used = slots.iter().any(|slot| !slot.is_blank && !is_first(slot))
            || has_journal(disk, &label, scratch).await;
    }
    Ok(Candidate {
        disk: disk.clone(),
        label,
        uberblocks,
        was_used,
    })
}

/// Whether the journal was begun: the disk's first segment has its header.
async fn has_journal(disk: &Disk, label: &Label, scratch: &BufPool) -> bool {
    let sector = label.vdevs.iter().map(VdevEntry::sector).max();
    let buf = scratch.alloc(sector.unwrap_or(0) as usize).await;
    let (read, buf) = disk.read(buf, geometry::DATA_START).await;
    let place = label.members.iter().position(|m| m.guid == label.disk);
    let segment = match label.vdevs.get(usize::from(label.vdev.0)).map(|v| v.kind) {
        // The copies of a segment are on as many members as there are parity units, and one more.
        Some(VdevKind::Raidz { parity }) => place.unwrap_or(0) / (usize::from(parity) + 1),
        _ => 0,
    };
    let at = Address {
        vdev: label.vdev,
        offset: VdevOffset(segment as u64 * u64::from(label.journal.segment_size)),
    };
    read.is_ok() && decode_segment(&buf, at, label.pool).is_ok()
}

/// Combines the labels of all disks of one pool, at least one.
fn judge(candidates: Vec<Candidate>) -> FoundPool {
    let labels = || candidates.iter().map(|c| &c.label);
    let newest = labels().max_by_key(|label| label.epoch);
    let label = newest.expect("a pool is found by a label").clone();
    let refused = duplicate(&candidates).or_else(|| apart(&candidates, &label));
    let mut vdevs = Vec::with_capacity(label.vdevs.len());
    let mut uberblocks: Vec<Uberblock> = Vec::new();
    for (index, entry) in label.vdevs.iter().enumerate() {
        let id = VdevId(index as u16);
        if entry.is_removed {
            // disks with older labels of it hold nothing any longer
            vdevs.push(FoundVdev {
                id,
                entry: *entry,
                members: Vec::new(),
                epoch: label.epoch,
                history: label.history.clone(),
            });
            continue;
        }
        let is_of_vdev = |l: &&Label| {
            let own = l.vdevs.get(index).is_some_and(|v| v.guid == entry.guid);
            l.vdev == id && own
        };
        let authority = labels().filter(is_of_vdev).max_by_key(|l| l.epoch);
        let Some(authority) = authority else {
            vdevs.push(FoundVdev {
                id,
                entry: *entry,
                members: Vec::new(),
                epoch: LabelEpoch(0),
                history: LabelHistory::default(),
            });
            continue;
        };
        let entry = authority.vdevs[index];
        let mut members = Vec::with_capacity(authority.members.len());
        for member in &authority.members {
            let candidate = candidates.iter().find(|c| c.label.disk == member.guid);
            let presence = presence(candidate, member.membership, &entry);
            if let Some(candidate) = candidate.filter(|_| presence == Presence::Present) {
                uberblocks.extend(&candidate.uberblocks);
            }
            members.push(FoundMember {
                guid: member.guid,
                path: candidate.map(|c| c.disk.info().path.clone()),
                presence,
                membership: member.membership,
                held: member.held,
            });
        }
        vdevs.push(FoundVdev {
            id,
            entry,
            members,
            epoch: authority.epoch,
            history: authority.history.clone(),
        });
    }
    let mut older: Vec<Uberblock> = Vec::new();
    if uberblocks.is_empty() {
        older.extend(candidates.iter().flat_map(|c| &c.uberblocks));
    }
    for list in [&mut uberblocks, &mut older] {
        list.sort_by_key(|u| std::cmp::Reverse((u.sequence, u.label_epoch)));
        list.dedup_by_key(|u| u.sequence);
    }
    FoundPool {
        guid: label.pool,
        name: label.name.clone(),
        state: label.state,
        host: label.host.clone(),
        vdevs,
        uberblocks,
        older,
        refused,
        epoch: label.epoch,
        label,
        candidates,
    }
}

fn presence(candidate: Option<&Candidate>, membership: Membership, entry: &VdevEntry) -> Presence {
    let Some(candidate) = candidate else {
        return match membership {
            Membership::In => Presence::Missing,
            Membership::Stale | Membership::Offline => Presence::MissingStale,
        };
    };
    if geometry::data_size(candidate.disk.info().size) < entry.data_size {
        return Presence::Truncated;
    }
    match membership {
        Membership::In => Presence::Present,
        Membership::Stale => Presence::Stale,
        Membership::Offline => Presence::Offline,
    }
}

/// The error if two disks have the label of the same member.
fn duplicate(candidates: &[Candidate]) -> Option<SetupError> {
    for (index, first) in candidates.iter().enumerate() {
        let same = |c: &&Candidate| c.label.disk == first.label.disk;
        if let Some(second) = candidates[index + 1..].iter().find(same) {
            return Some(SetupError::Duplicate {
                guid: first.label.disk,
                first: first.disk.info().path.clone(),
                second: second.disk.info().path.clone(),
            });
        }
    }
    None
}

/// The error if a member claims to be in by a label that the newest label does not replace: it was used on the other side of
/// a fork.
fn apart(candidates: &[Candidate], newest: &Label) -> Option<SetupError> {
    let labels = candidates.iter().map(|c| &c.label);
    let other = first_apart(&labels.collect::<Vec<_>>(), newest)?;
    Some(SetupError::Apart {
        vdev: other.vdev,
        members: vec![newest.disk, other.disk],
    })
}
