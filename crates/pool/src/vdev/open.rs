//! Opening a pool that was found.
//!
//! **Owns** what makes an import be refused. **Called by** the pool. **Invariants**: nothing is written before every
//! reason to refuse was looked at; before anything else is written, the labels name this host and leave out the sides
//! that are not there. `docs/decisions/0101`.

use std::path::PathBuf;
use std::sync::Arc;

use super::area::{self, DATA_UNIT};
use super::create::guid;
use super::error::SetupError;
use super::leaf::Leaf;
use super::limits::UNRELIED_ROUNDS_MAX;
use super::mirror::{Changes, Member, Mirror, SideState};
use super::scan::{FoundPool, FoundSide, FoundVdev, Presence};
use super::space_below::SpaceBelow;
use super::witness::Witness;
use super::{Shared, Vdevs};

use crate::format::{
    Birth, Host, LabelBranch, LabelEpoch, LabelHistory, Membership, OFFSET_END, PoolState,
    SideGuid, Uberblock, check_name,
};

/// How to open a pool.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// Who opens it.
    pub host: Host,
    /// The name that it gets; its own if none.
    pub name: Option<String>,
    /// Write nothing.
    pub read_only: bool,
    /// Use what room vdevs gained because all their disks became larger.
    pub grow: bool,
    /// Open it as of the uberblock with this sequence; what came later is lost. Of the newest one, the journal is applied as
    /// far as it can be read.
    pub rewind: Option<u64>,
    /// Although another host has it.
    pub force_host: bool,
    /// Although what the missing sides or the lost labels would tell is not known: what was acknowledged may be lost.
    pub force_missing: bool,
    /// Remembers which labels are the last. A side that is missing needs no force if those that are there have them.
    pub witness: Option<Arc<dyn Witness>>,
}

impl OpenOptions {
    /// As it is, for writing, refusing whatever there is to refuse.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self {
            host,
            name: None,
            read_only: false,
            grow: false,
            rewind: None,
            force_host: false,
            force_missing: false,
            witness: None,
        }
    }
}

/// An open pool's devices.
pub struct Opened {
    /// The devices.
    pub vdevs: Vdevs,
    /// The uberblock to start from.
    pub uberblock: Uberblock,
    /// The sequence of the newest one there is: the next that is written has a higher one, also after a rewind.
    pub newest: u64,
    /// The checkpoints that there are, the newest first.
    pub checkpoints: Vec<Uberblock>,
    /// The operator chose the uberblock, and accepts to lose what came later.
    pub is_chosen: bool,
}

impl FoundPool {
    /// Whether it may be opened so, and at which uberblock.
    fn check(&self, options: &OpenOptions) -> Result<Uberblock, SetupError> {
        if let Some(name) = options
            .name
            .as_ref()
            .filter(|name| check_name(name).is_err())
        {
            let name = name.clone();
            return Err(SetupError::Name { name });
        }
        if let Some(refused) = &self.refused {
            return Err(refused.clone());
        }
        let features = &self.label.features;
        let unknown = |feature: &String, readable| SetupError::Feature {
            feature: feature.clone(),
            readable,
        };
        if let Some(feature) = features.incompatible.first() {
            return Err(unknown(feature, false));
        }
        if let Some(feature) = features
            .read_compatible
            .first()
            .filter(|_| !options.read_only)
        {
            return Err(unknown(feature, true));
        }
        let foreign = self.state == PoolState::Active && self.host.id != options.host.id;
        if foreign && !options.force_host {
            return Err(SetupError::ForeignHost {
                name: self.name.clone(),
                host: self.host.name.clone(),
            });
        }
        for vdev in &self.vdevs {
            self.check_vdev(vdev, options)?;
        }
        self.check_uberblock(options)
    }

    fn check_vdev(&self, vdev: &FoundVdev, options: &OpenOptions) -> Result<(), SetupError> {
        let sides = |presence: Presence| {
            let sides = vdev.sides.iter().filter(move |s| s.presence == presence);
            sides.map(|s| s.guid).collect::<Vec<_>>()
        };
        let mut missing = sides(Presence::Missing);
        if self.is_behind(options) {
            // The labels that exclude such a member are older than others, which it may have.
            missing.extend(sides(Presence::MissingStale));
        }
        if sides(Presence::Present).is_empty() {
            if let Some(member) = sides(Presence::Truncated).first() {
                return Err(self.truncated(vdev, *member));
            }
            let (vdev, sides) = (vdev.id, missing);
            return Err(SetupError::VdevMissing { vdev, sides });
        }
        if !missing.is_empty() && !options.force_missing && !self.is_last(vdev, options) {
            let (vdev, sides) = (vdev.id, missing);
            return Err(SetupError::SideMissing { vdev, sides });
        }
        Ok(())
    }

    /// Why a member that is too short does not do.
    fn truncated(&self, vdev: &FoundVdev, member: SideGuid) -> SetupError {
        let found = self.candidates.iter().find(|c| c.label.disk == member);
        let info = found.map(|c| c.disk.info());
        SetupError::Truncated {
            path: info.map_or_else(PathBuf::new, |i| i.path.clone()),
            got: info.map_or(0, |i| area::data_size(i.size)),
            want: vdev.entry.data_size,
        }
    }

    /// Whether the vdev's newest label is the last that anybody relied on: then the sides that are in by it, and are
    /// there, have everything, and nobody went on with the others.
    fn is_last(&self, vdev: &FoundVdev, options: &OpenOptions) -> bool {
        let last = options.witness.as_ref().and_then(|w| w.last());
        last == Some(vdev.epoch) && vdev.epoch == self.epoch && self.host.id == options.host.id
    }

    /// The checkpoints that it may be opened at, the newest first; if the members that are in have none, those of members
    /// that missed writes.
    #[must_use]
    pub fn checkpoints(&self) -> &[Uberblock] {
        match self.uberblocks.is_empty() {
            true => &self.older,
            false => &self.uberblocks,
        }
    }

    /// Why it cannot be opened by itself, as far as its disks tell without more being read.
    #[must_use]
    pub fn problem(&self) -> Option<SetupError> {
        self.refused.clone().or_else(|| self.newest().err())
    }

    fn newest(&self) -> Result<Uberblock, SetupError> {
        if let Some(newest) = self.uberblocks.first() {
            return Ok(*newest);
        }
        if !self.candidates.iter().any(|c| c.was_used) {
            return Err(SetupError::Unfinished { pool: self.guid });
        }
        let sides = self.vdevs.iter().flat_map(|vdev| &vdev.sides);
        let is_missing =
            |side: &&FoundSide| matches!(side.presence, Presence::Missing | Presence::MissingStale);
        Err(SetupError::UberblocksLost {
            checkpoint: self.older.first().map(|u| u.sequence),
            missing: sides.filter(is_missing).map(|side| side.guid).collect(),
        })
    }

    fn check_uberblock(&self, options: &OpenOptions) -> Result<Uberblock, SetupError> {
        let known = self.checkpoints();
        let (Some(newest), Some(oldest)) = (known.first(), known.last()) else {
            return self.newest();
        };
        if newest.label_epoch > self.epoch && !options.force_missing {
            return Err(SetupError::LabelsLost {
                written: newest.label_epoch.0,
                found: self.epoch.0,
            });
        }
        let Some(sequence) = options.rewind else {
            return self.newest();
        };
        let found = known.iter().find(|u| u.sequence == sequence);
        found.copied().ok_or(SetupError::NoUberblock {
            sequence,
            oldest: oldest.sequence,
            newest: newest.sequence,
        })
    }

    /// Whether a member may have labels that are not known here: one that is in and not there, or too short.
    fn has_unknown(vdev: &FoundVdev) -> bool {
        let is_unknown =
            |s: &FoundSide| matches!(s.presence, Presence::Missing | Presence::Truncated);
        vdev.sides.iter().any(is_unknown)
    }

    /// Whether this server relied on labels that are newer than all that were found: a write may depend on them.
    fn is_behind(&self, options: &OpenOptions) -> bool {
        let last = options.witness.as_ref().and_then(|w| w.last());
        last.is_some_and(|last| last > self.epoch)
    }

    /// Epochs after the newest label that a new branch replaces as well. Where every vdev that lacks a member has the last
    /// label that anybody relied on, a newer label of this branch is of a round that a crash cut short: nobody relied on it.
    fn unrelied(&self, options: &OpenOptions) -> u64 {
        let mut lacking = self.vdevs.iter().filter(|vdev| Self::has_unknown(vdev));
        match lacking.all(|vdev| self.is_last(vdev, options)) {
            true => UNRELIED_ROUNDS_MAX,
            false => 0,
        }
    }

    /// The history of the labels to write, for each vdev, and the epoch that theirs follow. They begin a new branch if a member
    /// may have labels that are not known here, or if labels are lost. So do the first labels after those of version 1.
    fn histories(&self, options: &OpenOptions) -> (Vec<LabelHistory>, LabelEpoch) {
        let newest = self.uberblocks.first();
        let are_lost = newest.is_some_and(|u| u.label_epoch > self.epoch);
        let now = &self.label.history;
        let forks =
            now.branch == LabelBranch(0) || are_lost || self.vdevs.iter().any(Self::has_unknown);
        let unrelied = match forks && !are_lost {
            true => self.unrelied(options),
            false => 0,
        };
        let end = |epoch: LabelEpoch| LabelEpoch(epoch.0 + unrelied);
        let branch = LabelBranch(guid());
        let of_vdev = |vdev: &FoundVdev| {
            let own = now.on_vdev(&vdev.history, vdev.epoch);
            if options.read_only || !forks {
                return own;
            }
            let is_of_now = vdev.history.branch == now.branch;
            let last = if is_of_now {
                end(vdev.epoch)
            } else {
                LabelEpoch(0)
            };
            own.fork(branch, end(self.epoch), last)
        };
        let histories = self.vdevs.iter().map(of_vdev).collect();
        (histories, end(self.epoch))
    }

    /// The devices, with nothing written yet.
    fn assemble(self, options: &OpenOptions, uberblock: &Uberblock) -> Vdevs {
        let is_newest = self.uberblocks.first() == Some(uberblock);
        let last: Vec<_> = self
            .vdevs
            .iter()
            .map(|v| is_newest && self.is_last(v, options))
            .collect();
        let (histories, epoch) = self.histories(options);
        let node_size = self.label.node_size;
        let journal = (self.label.journal, self.label.journal_vdevs());
        let (changes, below) = (Changes::default(), SpaceBelow::default());
        let written = self.uberblocks.first().map(|u| u.label_epoch);
        let shared = Shared {
            name: options.name.clone().unwrap_or(self.name),
            state: PoolState::Active,
            host: options.host.clone(),
            epoch: epoch.max(written.unwrap_or(epoch)),
            durable: self.epoch,
            features: self.label.features,
            histories,
        };
        let mut candidates = self.candidates;
        let mut mirrors = Vec::with_capacity(self.vdevs.len());
        for (vdev, is_last) in self.vdevs.into_iter().zip(last) {
            let mut members = Vec::with_capacity(vdev.sides.len());
            for side in vdev.sides {
                let found = candidates.iter().position(|c| c.label.disk == side.guid);
                let disk = found.map(|index| candidates.swap_remove(index).disk);
                let state = match side.presence {
                    Presence::Present => SideState::Online,
                    Presence::Stale => SideState::Stale,
                    Presence::Offline => SideState::Offline,
                    Presence::Truncated if side.membership == Membership::Offline => {
                        SideState::Offline
                    }
                    Presence::Truncated => SideState::Faulted,
                    Presence::Missing | Presence::MissingStale => SideState::Missing,
                };
                let leaf = match disk {
                    Some(disk) => Leaf::new(side.guid, disk),
                    None => Leaf::missing(side.guid),
                };
                if side.presence == Presence::Truncated {
                    leaf.condemn_short(leaf.size());
                }
                // What is younger than the uberblock may be of a future that was given up.
                let held = match side.presence {
                    Presence::Present => uberblock.epoch,
                    // It was in when the newest uberblock became durable.
                    Presence::Missing if is_last => uberblock.epoch,
                    Presence::Missing | Presence::Truncated => Birth(0),
                    _ => side.held.min(uberblock.epoch),
                };
                members.push(Member::new(leaf, state, held));
            }
            let mut entry = vdev.entry;
            let room = members
                .iter()
                .map(|m: &Member| area::data_size(m.leaf.size()));
            // A side that is missing has none.
            if let Some(room) = room.min().filter(|_| options.grow && !options.read_only) {
                entry.data_size = entry.data_size.max(room.min(OFFSET_END - DATA_UNIT));
            }
            mirrors.push(Mirror::new(
                vdev.id,
                entry,
                members,
                changes.clone(),
                below.clone(),
            ));
        }
        let vdevs = Vdevs::new(
            self.guid,
            shared,
            node_size,
            journal,
            mirrors,
            changes,
            options.read_only,
        );
        if let Some(witness) = &options.witness {
            let _first_counts = vdevs.witness.set(witness.clone());
        }
        vdevs
    }
}

/// Opens a pool. For writing, its labels then name this host and are durable, and every side that is in has the
/// uberblock, unless it is an older one: then the first that is written makes the rewind final.
///
/// # Errors
/// Every reason to refuse, with nothing written. [`SetupError::Device`] and [`SetupError::FileSystemFull`] if labels could
/// not be written.
pub async fn open(found: FoundPool, options: OpenOptions) -> Result<Opened, SetupError> {
    let uberblock = found.check(&options)?;
    if !options.read_only
        && let Some(candidate) = found.candidates.iter().find(|c| c.disk.info().read_only)
    {
        let path = candidate.disk.info().path.clone();
        return Err(SetupError::ReadOnlyDisk { path });
    }
    let checkpoints = found.checkpoints().to_vec();
    let newest = checkpoints.first().map_or(0, |u| u.sequence);
    // of a member that missed writes: newer ones were there
    let newest = newest + u64::from(found.uberblocks.is_empty());
    let vdevs = found.assemble(&options, &uberblock);
    if !options.read_only {
        vdevs.reserve_members().await;
        vdevs.relabel().await.map_err(SetupError::failed)?;
        if uberblock.sequence == newest {
            // It may be on one side only, or in a cache; what follows relies on it.
            let settled = vdevs.settle_uberblock(&uberblock).await;
            let _stable = settled.map_err(SetupError::failed)?;
        }
    }
    Ok(Opened {
        vdevs,
        uberblock,
        newest,
        checkpoints,
        is_chosen: options.rewind.is_some(),
    })
}
