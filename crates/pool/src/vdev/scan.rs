//! Finding pools by the labels of disks, and judging which of their sides are to be trusted.
//!
//! **Owns** the rule of trust. **Called by** import. **Invariants**: nothing is written; of each vdev, the label with
//! the highest epoch says which sides are in; only their uberblocks count. `docs/decisions/0101`.

use std::path::PathBuf;

use io::BufPool;
use io::disk::Disk;

use super::area;
use super::error::SetupError;
use super::fork::first_apart;
use super::leaf::{Fault, Leaf};
use super::limits::SCRATCH_BYTES;
use crate::format::{
    Address, Birth, Defect, Host, Label, LabelEpoch, LabelHistory, Membership, PoolGuid, PoolState,
    SideGuid, Uberblock, VdevEntry, VdevId, VdevOffset, decode_segment,
};

/// A disk with a sound label.
pub(super) struct Candidate {
    pub(super) disk: Disk,
    pub(super) label: Label,
    /// Those of the label's pool.
    pub(super) uberblocks: Vec<Uberblock>,
    /// The pool was in use: more than its making left something on the disk.
    pub(super) was_used: bool,
}

/// What became of a side that a label tells of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// It is there, and in.
    Present,
    /// It is there, and missed writes.
    Stale,
    /// It is there, and was taken out by the operator.
    Offline,
    /// It is there, and too short for the data of its vdev: it counts as one that is not there.
    Truncated,
    /// It is not there; it was in.
    Missing,
    /// It is not there, and missed writes.
    MissingStale,
}

/// A side of a pool that was found.
#[derive(Debug, Clone)]
pub struct FoundSide {
    /// Which disk.
    pub guid: SideGuid,
    /// Where it is, if it is there.
    pub path: Option<PathBuf>,
    /// What became of it.
    pub presence: Presence,
    /// What the newest label of its vdev says of it.
    pub membership: Membership,
    /// If it missed writes: it has every block born up to this epoch.
    pub held: Birth,
}

/// A top-level vdev of a pool that was found.
#[derive(Debug, Clone)]
pub struct FoundVdev {
    /// Its index.
    pub id: VdevId,
    /// What it is.
    pub entry: VdevEntry,
    /// Its sides; empty if none is there.
    pub sides: Vec<FoundSide>,
    /// Of its newest label; zero if no side is there.
    pub epoch: LabelEpoch,
    /// Of that label.
    pub(super) history: LabelHistory,
}

/// A pool, as the disks tell of it.
pub struct FoundPool {
    /// Which.
    pub guid: PoolGuid,
    /// Its name.
    pub name: String,
    /// Whether somebody uses it.
    pub state: PoolState,
    /// Who did last.
    pub host: Host,
    /// Its vdevs, by index.
    pub vdevs: Vec<FoundVdev>,
    /// The uberblocks that it may be opened at, the newest first. None if it was never finished, or all are damaged.
    pub uberblocks: Vec<Uberblock>,
    /// If there are none: those of members that missed writes, the newest first.
    pub(super) older: Vec<Uberblock>,
    /// Why it cannot be trusted as it is, whatever is forced.
    pub refused: Option<SetupError>,
    /// The newest label.
    pub(super) label: Label,
    /// The highest epoch of any label.
    pub(super) epoch: LabelEpoch,
    pub(super) candidates: Vec<Candidate>,
}

impl FoundPool {
    /// Members that are too short: where they are, what is wrong, and bytes of their vdevs' data.
    #[must_use]
    pub fn short(&self) -> Vec<(PathBuf, Fault, u64)> {
        let of_vdev = |vdev: &FoundVdev| {
            let short = vdev.sides.iter();
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

/// A disk whose label cannot be used.
#[derive(Debug, Clone)]
pub struct Unread {
    /// The disk.
    pub path: PathBuf,
    /// What is wrong with each copy that could be read.
    pub defects: Vec<Defect>,
}

/// What was found.
pub struct Scan {
    /// Pools, by name.
    pub pools: Vec<FoundPool>,
    /// Disks that belong to no pool, or to one of a later version.
    pub unread: Vec<Unread>,
}

/// Looks for pools on disks. They stay open with the pools that they belong to.
pub async fn scan(disks: Vec<Disk>) -> Scan {
    let scratch = BufPool::new(SCRATCH_BYTES);
    let mut pools: Vec<(PoolGuid, Vec<Candidate>)> = Vec::new();
    let mut unread = Vec::new();
    for disk in disks {
        let path = disk.info().path.clone();
        match read_candidate(disk, &scratch).await {
            Ok(found) => match pools.iter_mut().find(|(guid, _)| *guid == found.label.pool) {
                Some((_, candidates)) => candidates.push(found),
                None => pools.push((found.label.pool, vec![found])),
            },
            Err(defects) => unread.push(Unread { path, defects }),
        }
    }
    let mut pools: Vec<_> = pools.into_iter().map(|(_, found)| judge(found)).collect();
    pools.sort_by(|a, b| (&a.name, a.guid.0).cmp(&(&b.name, b.guid.0)));
    Scan { pools, unread }
}

/// The newest sound label of a disk.
pub(super) async fn newest_label(disk: &Disk, scratch: &BufPool) -> Result<Label, Vec<Defect>> {
    if !area::has_room(disk.info().size) {
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

async fn read_candidate(disk: Disk, scratch: &BufPool) -> Result<Candidate, Vec<Defect>> {
    let label = newest_label(&disk, scratch).await?;
    let slots = area::read_slots(&Leaf::new(label.disk, disk.clone()), scratch).await;
    let whole = slots.iter().filter_map(|slot| slot.uberblock);
    let ours = whole.filter(|u| u.pool == label.pool && u.node_size == label.node_size);
    let uberblocks: Vec<_> = ours.collect();
    let mut was_used = !uberblocks.is_empty() || label.epoch.0 > 1;
    if !was_used {
        // a making that was cut short may leave a torn first one
        let is_first = |slot: &area::Slot| slot.number == 1 % area::RING_SLOTS;
        was_used = slots.iter().any(|slot| !slot.is_blank && !is_first(slot))
            || has_journal(&disk, &label, scratch).await;
    }
    Ok(Candidate {
        disk,
        label,
        uberblocks,
        was_used,
    })
}

/// Whether the journal was begun: a disk's first segment has its header.
async fn has_journal(disk: &Disk, label: &Label, scratch: &BufPool) -> bool {
    let sector = label.vdevs.iter().map(VdevEntry::sector).max();
    let buf = scratch.alloc(sector.unwrap_or(0) as usize).await;
    let (read, buf) = disk.read(buf, area::DATA_START).await;
    let at = Address {
        vdev: label.vdev,
        offset: VdevOffset(0),
    };
    read.is_ok() && decode_segment(&buf, at, label.pool).is_ok()
}

/// What disks of one pool, at least one, tell together.
fn judge(candidates: Vec<Candidate>) -> FoundPool {
    let labels = || candidates.iter().map(|c| &c.label);
    let newest = labels().max_by_key(|label| label.epoch);
    let label = newest.expect("a pool is found by a label").clone();
    let refused = duplicate(&candidates).or_else(|| apart(&candidates, &label));
    let mut vdevs = Vec::with_capacity(label.vdevs.len());
    let mut uberblocks: Vec<Uberblock> = Vec::new();
    for (index, entry) in label.vdevs.iter().enumerate() {
        let id = VdevId(index as u16);
        let is_of_vdev = |l: &&Label| {
            let own = l.vdevs.get(index).is_some_and(|v| v.guid == entry.guid);
            l.vdev == id && own
        };
        let authority = labels().filter(is_of_vdev).max_by_key(|l| l.epoch);
        let Some(authority) = authority else {
            vdevs.push(FoundVdev {
                id,
                entry: *entry,
                sides: Vec::new(),
                epoch: LabelEpoch(0),
                history: LabelHistory::default(),
            });
            continue;
        };
        let entry = authority.vdevs[index];
        let mut sides = Vec::with_capacity(authority.sides.len());
        for side in &authority.sides {
            let candidate = candidates.iter().find(|c| c.label.disk == side.guid);
            let presence = presence(candidate, side.membership, &entry);
            if let Some(candidate) = candidate.filter(|_| presence == Presence::Present) {
                uberblocks.extend(&candidate.uberblocks);
            }
            sides.push(FoundSide {
                guid: side.guid,
                path: candidate.map(|c| c.disk.info().path.clone()),
                presence,
                membership: side.membership,
                held: side.held,
            });
        }
        vdevs.push(FoundVdev {
            id,
            entry,
            sides,
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
    if area::data_size(candidate.disk.info().size) < entry.data_size {
        return Presence::Truncated;
    }
    match membership {
        Membership::In => Presence::Present,
        Membership::Stale => Presence::Stale,
        Membership::Offline => Presence::Offline,
    }
}

/// Two disks that claim to be the same.
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

/// The newest label, and a member that claims to be in by a label that the newest one does not replace: it was used on
/// the other side of a fork.
fn apart(candidates: &[Candidate], newest: &Label) -> Option<SetupError> {
    let labels = candidates.iter().map(|c| &c.label);
    let other = first_apart(&labels.collect::<Vec<_>>(), newest)?;
    Some(SetupError::Apart {
        vdev: other.vdev,
        sides: vec![newest.disk, other.disk],
    })
}
