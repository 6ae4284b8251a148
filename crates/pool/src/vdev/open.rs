//! Opening a pool: import of the members that the scan found.
//!
//! **Owns** the reasons to refuse an import. **Called by** the pool. **Invariants**: nothing is written before every reason
//! to refuse was checked; before any other write, the labels name this host and record the missing members.
//! `docs/decisions/0101`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::create::guid;
use super::error::SetupError;
use super::geometry::{self, data_size_max};
use super::journal_rings::preferred;
use super::leaf::Leaf;
use super::limits::UNRELIED_ROUNDS_MAX;
use super::member::{Changes, Member, MemberState};
use super::scan::{FoundMember, FoundPool, FoundVdev, Presence};
use super::space_below::SpaceBelow;
use super::top::TopVdev;
use super::witness::Witness;
use super::{Opened, Shared, Vdevs};

use crate::format::{
    Birth, FEATURES, Features, Host, JournalRings, LabelBranch, LabelEpoch, LabelHistory,
    MemberGuid, Membership, PoolState, Uberblock, VdevClass, check_name,
};

/// Options of an import.
#[derive(Debug, Clone)]
pub struct OpenOptions {
    /// The host that opens the pool.
    pub host: Host,
    /// New name of the pool; `None` keeps its name.
    pub name: Option<String>,
    /// Open for reading only.
    pub read_only: bool,
    /// Use the space that vdevs gained because all their disks grew.
    pub grow: bool,
    /// Open the pool at the uberblock with this sequence; later changes are lost. With the newest uberblock, the journal is
    /// applied as far as it is readable.
    pub rewind: Option<u64>,
    /// Open the pool although another host uses it.
    pub force_host: bool,
    /// Open the pool although members are missing or labels are lost: acknowledged writes may be lost. Without the vdevs that the journal is
    /// on, those since the newest checkpoint are.
    pub force_missing: bool,
    /// Record of the last labels. With it a missing member needs no force if the present members have those labels.
    pub witness: Option<Arc<dyn Witness>>,
}

impl OpenOptions {
    /// An import for writing, without force.
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

impl FoundPool {
    /// The features of the format that the pool uses, as its newest label says.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.label.features
    }

    /// Returns the uberblock at which the pool may be opened, or the reason to refuse.
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
        let is_unknown = |feature: &&String| !FEATURES.contains(&feature.as_str());
        if let Some(feature) = features.incompatible.iter().find(is_unknown) {
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
        let uberblock = self.check_uberblock(options);
        for vdev in self.vdevs.iter().filter(|vdev| !vdev.entry.is_removed) {
            match &uberblock {
                Ok(uberblock) if self.is_lost_log(vdev) => {
                    self.check_lost(vdev, uberblock, options)?
                }
                _ => self.check_vdev(vdev, options)?,
            }
        }
        uberblock
    }

    /// Whether a vdev is for the journal, and has too few members to be used.
    fn is_lost_log(&self, vdev: &FoundVdev) -> bool {
        let members = vdev.members.iter();
        let present = members.filter(|member| member.presence == Presence::Present);
        vdev.entry.class == VdevClass::Log && present.count() < vdev.entry.needed()
    }

    /// Whether a pool that is opened at a checkpoint needs a vdev for its journal.
    fn needs_log(&self, vdev: &FoundVdev, uberblock: &Uberblock) -> bool {
        let segment = uberblock.journal.position.segment;
        self.label.rings.is_on(segment, vdev.id)
    }

    /// Errors: [`SetupError::LogMissing`], if the journal is on the vdev and may not be given up.
    fn check_lost(
        &self,
        vdev: &FoundVdev,
        uberblock: &Uberblock,
        options: &OpenOptions,
    ) -> Result<(), SetupError> {
        if options.force_missing || options.rewind.is_some() || !self.needs_log(vdev, uberblock) {
            return Ok(());
        }
        let members = vdev.members.iter().map(|member| member.guid);
        Err(SetupError::LogMissing {
            vdev: vdev.id,
            members: members.collect(),
            age: Duration::from_millis(
                io::time::wall_clock_ms().saturating_sub(uberblock.time / 1_000_000),
            ),
            was_exported: self.state == PoolState::Exported,
        })
    }

    /// The rings of the journal without vdevs that are lost, and whether the checkpoint's journal is given up.
    fn rings_without_lost(&self, uberblock: &Uberblock) -> (JournalRings, bool) {
        let present = || self.vdevs.iter().filter(|vdev| !vdev.entry.is_removed);
        let (mut rings, segment) = (self.label.rings.clone(), uberblock.journal.position.segment);
        let mut lost = present().filter(|vdev| self.is_lost_log(vdev)).peekable();
        if lost.peek().is_none() {
            return (rings, false);
        }
        let gives_up = lost.any(|vdev| self.needs_log(vdev, uberblock));
        match gives_up {
            true => {
                let usable = present().filter(|vdev| !self.is_lost_log(vdev));
                let to = preferred(usable.map(|vdev| (vdev.id, vdev.entry)));
                rings.leave(&to, segment);
            }
            false => drop(rings.settle(segment)),
        }
        (rings, gives_up)
    }

    fn check_vdev(&self, vdev: &FoundVdev, options: &OpenOptions) -> Result<(), SetupError> {
        let members = |presence: Presence| {
            let members = vdev.members.iter().filter(move |s| s.presence == presence);
            members.map(|s| s.guid).collect::<Vec<_>>()
        };
        let mut missing = members(Presence::Missing);
        if self.is_behind(options) {
            // Such a member was recorded as stale by labels that may be older than its own.
            missing.extend(members(Presence::MissingStale));
        }
        let needed = vdev.entry.needed();
        if members(Presence::Present).len() < needed {
            if let Some(member) = members(Presence::Truncated).first() {
                return Err(self.truncated(vdev, *member));
            }
            return Err(SetupError::VdevMissing {
                vdev: vdev.id,
                class: vdev.entry.class,
                members: missing,
            });
        }
        if !missing.is_empty() && !options.force_missing && !self.is_whole(vdev, options) {
            let (vdev, members) = (vdev.id, missing);
            return Err(SetupError::MemberMissing { vdev, members });
        }
        Ok(())
    }

    /// The error for a member that is too short.
    fn truncated(&self, vdev: &FoundVdev, member: MemberGuid) -> SetupError {
        let found = self.candidates.iter().find(|c| c.label.disk == member);
        let info = found.map(|c| c.disk.info());
        SetupError::Truncated {
            path: info.map_or_else(PathBuf::new, |i| i.path.clone()),
            got: info.map_or(0, |i| geometry::data_size(i.size)),
            want: vdev.entry.data_size,
        }
    }

    /// Whether the vdev's newest label is the last one that any write relied on. Then the present members that are in have
    /// everything, and no host continued with the others.
    fn is_last(&self, vdev: &FoundVdev, options: &OpenOptions) -> bool {
        let last = options.witness.as_ref().and_then(|w| w.last());
        last == Some(vdev.epoch) && vdev.epoch == self.epoch && self.host.id == options.host.id
    }

    /// Whether the present members of a vdev that are in have everything that was acknowledged: by the record of the last
    /// labels, or because a label of each later round would be on one of the members that are present. At most as many
    /// members as the layout can spare lack the labels of a round that a write relied on. `docs/decisions/0153`.
    fn is_whole(&self, vdev: &FoundVdev, options: &OpenOptions) -> bool {
        let is_absent =
            |m: &&FoundMember| matches!(m.presence, Presence::Missing | Presence::MissingStale);
        let absent = vdev.members.iter().filter(is_absent).count();
        let has_label_of_each_round = absent < vdev.entry.needed();
        self.is_last(vdev, options) || (has_label_of_each_round && !self.is_behind(options))
    }

    /// The checkpoints at which the pool may be opened, newest first. If the members that are in have none, those of members
    /// that missed writes.
    #[must_use]
    pub fn checkpoints(&self) -> &[Uberblock] {
        match self.uberblocks.is_empty() {
            true => &self.older,
            false => &self.uberblocks,
        }
    }

    /// The reason why the pool cannot be opened without force, as far as labels and uberblocks show it.
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
        let members = self.vdevs.iter().flat_map(|vdev| &vdev.members);
        let is_missing = |member: &&FoundMember| {
            matches!(member.presence, Presence::Missing | Presence::MissingStale)
        };
        Err(SetupError::UberblocksLost {
            checkpoint: self.older.first().map(|u| u.sequence),
            missing: members
                .filter(is_missing)
                .map(|member| member.guid)
                .collect(),
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

    /// Whether a member may have labels that were not read: it is in, and missing or too short.
    fn has_unknown(vdev: &FoundVdev) -> bool {
        let is_unknown =
            |s: &FoundMember| matches!(s.presence, Presence::Missing | Presence::Truncated);
        vdev.members.iter().any(is_unknown)
    }

    /// Whether this server relied on labels newer than all that were found: a write may depend on them.
    fn is_behind(&self, options: &OpenOptions) -> bool {
        let last = options.witness.as_ref().and_then(|w| w.last());
        last.is_some_and(|last| last > self.epoch)
    }

    /// Number of epochs after the newest label that a new branch replaces as well. If every vdev with a missing member has
    /// the last labels that any write relied on, newer labels of this branch come from a round that a crash interrupted: no
    /// write relied on them.
    fn unrelied(&self, options: &OpenOptions) -> u64 {
        let mut lacking = self.vdevs.iter().filter(|vdev| Self::has_unknown(vdev));
        match lacking.all(|vdev| self.is_whole(vdev, options)) {
            true => UNRELIED_ROUNDS_MAX,
            false => 0,
        }
    }

    /// Returns the history for the next labels of each vdev, and the epoch after which theirs begins. They begin a new branch
    /// if a member may have labels that were not read, if labels are lost, or after labels of version 1.
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

    /// Creates the devices. Writes nothing.
    fn assemble(self, options: &OpenOptions, uberblock: &Uberblock, rings: JournalRings) -> Vdevs {
        let is_newest = self.uberblocks.first() == Some(uberblock);
        let last: Vec<_> = self
            .vdevs
            .iter()
            .map(|v| is_newest && self.is_last(v, options))
            .collect();
        let (histories, epoch) = self.histories(options);
        let lost: Vec<_> = self
            .vdevs
            .iter()
            .map(|vdev| self.is_lost_log(vdev))
            .collect();
        let node_size = self.label.node_size;
        let journal = self.label.journal;
        let (changes, below) = (Changes::default(), SpaceBelow::default());
        let written = self.uberblocks.first().map(|u| u.label_epoch);
        let shared = Shared {
            name: options.name.clone().unwrap_or(self.name),
            state: PoolState::Active,
            host: options.host.clone(),
            epoch: epoch.max(written.unwrap_or(epoch)),
            durable: self.epoch,
            features: self.label.features,
            rings,
            histories,
        };
        let mut candidates = self.candidates;
        let mut tops = Vec::with_capacity(self.vdevs.len());
        for ((vdev, is_last), is_lost) in self.vdevs.into_iter().zip(last).zip(lost) {
            let mut members = Vec::with_capacity(vdev.members.len());
            for member in vdev.members {
                let found = candidates.iter().position(|c| c.label.disk == member.guid);
                let disk = found.map(|index| candidates.swap_remove(index).disk);
                let state = match member.presence {
                    Presence::Present => MemberState::Online,
                    Presence::Stale => MemberState::Stale,
                    Presence::Offline => MemberState::Offline,
                    Presence::Truncated if member.membership == Membership::Offline => {
                        MemberState::Offline
                    }
                    Presence::Truncated => MemberState::Faulted,
                    Presence::Missing | Presence::MissingStale => MemberState::Missing,
                };
                let leaf = match disk {
                    Some(disk) => Leaf::new(member.guid, disk),
                    None => Leaf::missing(member.guid),
                };
                if member.presence == Presence::Truncated {
                    leaf.condemn_short(leaf.size());
                }
                // Blocks younger than the uberblock may be of a future that a rewind gave up.
                let held = match member.presence {
                    Presence::Present => uberblock.epoch,
                    // It was in when the newest uberblock became durable.
                    Presence::Missing if is_last => uberblock.epoch,
                    Presence::Missing | Presence::Truncated => Birth(0),
                    _ => member.held.min(uberblock.epoch),
                };
                members.push(Member::new(leaf, state, held));
            }
            let mut entry = vdev.entry;
            let room = members
                .iter()
                .map(|m: &Member| geometry::data_size(m.leaf.size()));
            // A missing member has no size.
            let may_grow = options.grow && !options.read_only && entry.expansion.is_none();
            if let Some(room) = room.min().filter(|_| may_grow) {
                entry.data_size = entry.data_size.max(room.min(data_size_max(entry.needed())));
            }
            entry.is_removed |= is_lost;
            tops.push(TopVdev::new(
                vdev.id,
                entry,
                journal,
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
            tops,
            changes,
            options.read_only,
        );
        if let Some(witness) = &options.witness {
            let _first_counts = vdevs.witness.set(witness.clone());
        }
        vdevs
    }
}

/// Opens a pool. If it is opened for writing, then its labels durably name this host, and every member that is in has the
/// uberblock. With an older uberblock the rings stay as they are: the first uberblock that is written makes the rewind final.
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
    // Only stale members have uberblocks: newer ones existed on the others.
    let newest = newest + u64::from(found.uberblocks.is_empty());
    let (rings, gives_journal_up) = found.rings_without_lost(&uberblock);
    let lacks_journal = gives_journal_up && found.state == PoolState::Active;
    let vdevs = found.assemble(&options, &uberblock, rings);
    if !options.read_only {
        vdevs.reserve_members().await;
        vdevs.relabel().await.map_err(SetupError::failed)?;
        if uberblock.sequence == newest {
            // The uberblock may be on one member only, or in a cache. Everything that follows relies on it.
            let ensured = vdevs.ensure_uberblock(&uberblock).await;
            let _stable = ensured.map_err(SetupError::failed)?;
        }
    }
    Ok(Opened {
        vdevs,
        uberblock,
        newest,
        checkpoints,
        is_chosen: options.rewind.is_some() || gives_journal_up,
        lacks_journal,
    })
}
