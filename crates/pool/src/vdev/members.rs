//! Changes of members: offline, online, detach, resilver.
//!
//! **Owns** the operator's changes to a vdev's members. **Called by** the pool's owner, one at a time. **Invariants**: a
//! member becomes in only after every block that it lacked was written to it and it missed no write meanwhile; labels record
//! a change before anything relies on it; a vdev keeps as many members that are in as its layout needs. `docs/decisions/0101`, "Resilvering".

use std::sync::Arc;

use io::disk::Disk;

use super::error::SetupError;
use super::layout::Layout;
use super::leaf::{Fault, Leaf};
use super::limits::{COPIES_MAX, HANG_MAX};
use super::member::{Member, MemberState};
use super::scan::newest_label;
use super::top::TopVdev;
use super::{PlacedBlock, Vdevs, geometry};
use crate::error::Error;
use crate::format::{Birth, BlockPtr, MemberGuid, VdevId};
use crate::shared::all;

/// Counts of a resilver.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resilvered {
    /// Blocks that the member lacked and now has.
    pub copied: u64,
    /// Blocks that it had.
    pub had: u64,
    /// Blocks that no member has.
    pub lost: Vec<BlockPtr>,
}

impl Vdevs {
    pub(super) fn vdev_of(&self, member: MemberGuid) -> Result<&TopVdev, SetupError> {
        let has = |top: &&TopVdev| top.members().iter().any(|m| m.leaf.guid() == member);
        let found = self.stripe.iter().find(has);
        found.ok_or(SetupError::NoMember { member })
    }

    /// Changes a member's entry under the lock of its vdev, and counts a change of membership.
    pub(super) fn change<T>(
        &self,
        member: MemberGuid,
        change: impl FnOnce(Layout, &mut Vec<Member>, usize) -> Result<T, SetupError>,
    ) -> Result<T, SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let top = self.vdev_of(member)?;
        let mut members = top.members();
        let found = members.iter().position(|m| m.leaf.guid() == member);
        let index = found.ok_or(SetupError::NoMember { member })?;
        let is_in = members[index].state == MemberState::Online;
        let result = change(top.layout(), &mut members, index)?;
        if is_in {
            let kept = members.iter().filter(|m| m.state == MemberState::Online);
            let has_enough = kept.count() >= top.layout().needed(members.len());
            assert!(has_enough, "vdev {} has too few members in", top.id().0);
        }
        self.changes.count();
        Ok(result)
    }

    pub(super) async fn tell(&self) -> Result<(), SetupError> {
        self.tell_labels().await.map_err(SetupError::failed)
    }

    /// The stale members, each with the epoch up to which it has every block.
    #[must_use]
    pub fn stale_members(&self) -> Vec<(VdevId, MemberGuid, Birth)> {
        let of_vdev = |top: &TopVdev| {
            let members = top.members();
            let stale = members.iter().filter(|m| m.state == MemberState::Stale);
            let found = stale.map(|m| (top.id(), m.leaf.guid(), m.held));
            found.collect::<Vec<_>>()
        };
        self.stripe.iter().flat_map(of_vdev).collect()
    }

    /// The member of this pool that a disk's label names; `None` if it names none.
    pub async fn identify(&self, disk: &Disk) -> Option<MemberGuid> {
        let label = newest_label(disk, &self.scratch).await.ok()?;
        (label.pool == self.pool).then_some(label.disk)
    }

    /// Whether a member whose disk hung or disappeared answers again, and has no operation outstanding.
    pub async fn answers(&self, member: MemberGuid) -> bool {
        let Ok(top) = self.vdev_of(member) else {
            return false;
        };
        let disk = {
            let members = top.members();
            let member = members.iter().find(|m| m.leaf.guid() == member);
            let disk = member.and_then(|m| m.leaf.disk());
            disk.filter(|d| d.is_idle()).cloned()
        };
        let Some(disk) = disk else { return false };
        let told = io::timeout(HANG_MAX, self.identify(&disk)).await;
        matches!(told, Ok(found) if found == Some(member))
    }

    /// Takes a member offline until [`Vdevs::online`]: nothing is sent to it. Labels record this when the call returns.
    ///
    /// # Errors
    /// [`SetupError::NoMember`]; [`SetupError::LastMember`]; [`SetupError::Device`] if labels could not be written.
    pub async fn offline(&self, member: MemberGuid) -> Result<(), SetupError> {
        self.change(member, |layout, members, index| {
            check_others(layout, members, index)?;
            members[index].state = MemberState::Offline;
            members[index].joining = false;
            Ok(())
        })?;
        self.tell().await
    }

    /// Brings back a member that is offline, faulted or missing. It is stale then. `disk` is needed if the member's disk is
    /// not open or must be opened again. Does nothing to a member in another state.
    ///
    /// # Errors
    /// [`SetupError::NoMember`]; [`SetupError::OtherDisk`] if the disk's label names another member; [`SetupError::Absent`] if
    /// there is no disk; [`SetupError::Owed`]; [`SetupError::Truncated`]; [`SetupError::Device`].
    pub async fn online(&self, member: MemberGuid, disk: Option<Disk>) -> Result<(), SetupError> {
        let top = self.vdev_of(member)?;
        let size = top.entry().data_size;
        let mut now = None;
        if disk.is_none() {
            let open = top
                .members()
                .iter()
                .find(|m| m.leaf.guid() == member)
                .cloned();
            if let Some(kept) = open.as_ref().and_then(|m| m.leaf.disk()) {
                now = io::timeout(HANG_MAX, kept.size())
                    .await
                    .ok()
                    .and_then(Result::ok);
                check_data(kept, now.unwrap_or(kept.info().size), size)?;
            }
        }
        if let Some(disk) = &disk {
            if self.identify(disk).await != Some(member) {
                let path = disk.info().path.clone();
                return Err(SetupError::OtherDisk { path, member });
            }
            check_room(disk, size)?;
        }
        self.change(member, |_, members, index| {
            let old = &members[index];
            if matches!(old.state, MemberState::Online | MemberState::Stale) {
                return Ok(());
            }
            let is_owed = disk.is_none() && old.leaf.fault() == Some(Fault::Hung);
            if is_owed && !old.leaf.disk().is_some_and(Disk::is_idle) {
                return Err(SetupError::Owed { member });
            }
            let kept = old.leaf.disk().filter(|_| disk.is_none()).cloned();
            // Keep the size in use, unless the disk was too short then.
            let used = kept.as_ref().map(|_| old.leaf.size());
            let used = used.map(|used| match geometry::data_size(used) < size {
                true => now.unwrap_or(used),
                false => used,
            });
            let disk = disk.or(kept).ok_or(SetupError::Absent { member })?;
            let held = old.held;
            // A new leaf, so that writes in flight reach it as well.
            let leaf = Leaf::new(member, disk);
            if let Some(used) = used {
                leaf.set_size(used);
            }
            members[index] = Member::new(leaf, MemberState::Stale, held);
            Ok(())
        })?;
        let member = top
            .members()
            .iter()
            .find(|m| m.leaf.guid() == member)
            .cloned();
        if let Some(member) = member {
            self.reserve_member(top, &member.leaf).await;
        }
        self.tell().await
    }

    /// Detaches a member for good and wipes its labels. With one member left, the vdev is a disk.
    ///
    /// # Errors
    /// [`SetupError::NoMember`]; [`SetupError::LastMember`]; [`SetupError::FixedMembers`]; [`SetupError::Device`] if the labels
    /// of the other members could not be written.
    pub async fn detach(&self, member: MemberGuid) -> Result<(), SetupError> {
        let top = self.vdev_of(member)?;
        if top.rows().is_some() {
            return Err(SetupError::FixedMembers { vdev: top.id() });
        }
        let member = self.change(member, |layout, members, index| {
            check_others(layout, members, index)?;
            Ok(members.remove(index))
        })?;
        self.tell().await?;
        self.wipe_former(&member).await;
        Ok(())
    }

    /// Begins to resilver a stale member, which must take every write from now on. The caller then makes a checkpoint, so
    /// that everything that replay needs is written after this call. It passes every block of the checkpoint and of the
    /// snapshots to [`Vdevs::resilver`], none of which may be freed meanwhile, and ends with [`Vdevs::resilvered`].
    ///
    /// # Errors
    /// [`SetupError::NoMember`] if there is no such stale member.
    pub fn begin_resilver(&self, member: MemberGuid) -> Result<(), SetupError> {
        let top = self.vdev_of(member)?;
        let begun = self.uberblocks().begun;
        let mut members = top.members();
        let stale = |m: &&mut Member| m.leaf.guid() == member && m.state == MemberState::Stale;
        let found = members.iter_mut().find(stale);
        found.ok_or(SetupError::NoMember { member })?.resilvering = Some(begun);
        Ok(())
    }

    pub(super) fn stale_member(
        &self,
        member: MemberGuid,
    ) -> Result<(&TopVdev, Arc<Leaf>, Birth), SetupError> {
        let top = self.vdev_of(member)?;
        let members = top.members();
        let found = members.iter().find(|m| m.leaf.guid() == member);
        let whole = found.filter(|m| m.state == MemberState::Stale && m.resilvering.is_some());
        let member = whole.ok_or_else(|| match found.filter(|m| m.leaf.is_full()) {
            Some(full) => SetupError::failed(full.leaf.write_error()),
            None => SetupError::Missed { member },
        })?;
        Ok((top, member.leaf.clone(), member.held))
    }

    /// Writes the given blocks to a stale member if it lacks them. Blocks of other vdevs, and blocks old enough to be on it,
    /// are skipped without a read.
    ///
    /// # Errors
    /// [`SetupError::NoMember`]; [`SetupError::FileSystemFull`] or [`SetupError::Missed`] if the member missed a write: begin
    /// again.
    pub async fn resilver(
        &self,
        member: MemberGuid,
        blocks: impl IntoIterator<Item = BlockPtr>,
    ) -> Result<Resilvered, SetupError> {
        let blocks = blocks.into_iter().map(PlacedBlock::from);
        self.resilver_at(member, blocks).await
    }

    /// As [`Vdevs::resilver`], for blocks at these addresses. Copies may be younger than their blocks, and are not skipped.
    ///
    /// # Errors
    /// As [`Vdevs::resilver`].
    pub(crate) async fn resilver_at(
        &self,
        member: MemberGuid,
        blocks: impl IntoIterator<Item = PlacedBlock>,
    ) -> Result<Resilvered, SetupError> {
        let (top, leaf, held) = self.stale_member(member)?;
        let mut outcome = Resilvered::default();
        let is_due = |block: &PlacedBlock| {
            block.at.vdev == top.id() && block.since.is_none_or(|since| since > held)
        };
        let due: Vec<_> = blocks.into_iter().filter(is_due).collect();
        for some in due.chunks(COPIES_MAX) {
            let copies = some.iter().map(|block| self.bring(top, &leaf, block));
            for (block, copied) in some.iter().zip(all(copies).await) {
                match copied {
                    Ok(true) => outcome.copied += 1,
                    Ok(false) => outcome.had += 1,
                    Err(Error::Corrupt { .. } | Error::Unreadable { .. }) => {
                        outcome.lost.push(block.ptr)
                    }
                    Err(e @ Error::FileSystemFull { .. }) => return Err(SetupError::failed(e)),
                    Err(_) => return Err(SetupError::Missed { member }),
                }
            }
        }
        Ok(outcome)
    }

    /// Makes the blocks durable that a resilver wrote to a stale member.
    ///
    /// # Errors
    /// [`SetupError::NoMember`]; [`SetupError::Missed`] if it missed a write or the flush: begin again.
    pub(crate) async fn flush_stale(&self, member: MemberGuid) -> Result<(), SetupError> {
        let (top, leaf, _) = self.stale_member(member)?;
        if leaf.flush().await.is_err() {
            top.miss(&leaf);
            return Err(SetupError::Missed { member });
        }
        Ok(())
    }

    /// Ends a resilver: the member is in, and labels record it when this returns.
    ///
    /// # Errors
    /// [`SetupError::NoMember`]; [`SetupError::Missed`] if it missed a write since the beginning: begin again;
    /// [`SetupError::NoCheckpoint`] if no checkpoint was made since; [`SetupError::Device`] if labels could not be written.
    pub async fn resilvered(&self, member: MemberGuid) -> Result<(), SetupError> {
        let (top, leaf, _) = self.stale_member(member)?;
        // A rewind may choose an older checkpoint, so the member gets the uberblocks that it missed.
        let rings = self.scrub_rings().await;
        rings.map_err(SetupError::failed)?;
        self.flush_stale(member).await?;
        let (durable, epoch) = {
            let uberblocks = self.uberblocks();
            (uberblocks.durable, uberblocks.epoch)
        };
        self.change(member, |_, members, index| {
            let joining = &mut members[index];
            let same = Arc::ptr_eq(&joining.leaf, &leaf) && joining.state == MemberState::Stale;
            let Some(begun) = joining.resilvering.filter(|_| same) else {
                return Err(SetupError::Missed { member });
            };
            if durable <= begun {
                return Err(SetupError::NoCheckpoint { member });
            }
            joining.joining = true;
            Ok(())
        })?;
        // The member counts as in only after the labels of all other members that are in record it. Otherwise a member that
        // left now would keep a label by which it needs no other member.
        self.tell().await?;
        let mut members = top.members();
        let joining = |m: &&mut Member| Arc::ptr_eq(&m.leaf, &leaf) && m.joining;
        let found = members.iter_mut().find(joining);
        let joined = found.ok_or(SetupError::Missed { member })?;
        joined.state = MemberState::Online;
        joined.joining = false;
        joined.resilvering = None;
        // it took every write since the resilver began, so it has all blocks of that checkpoint
        joined.held = epoch.map_or(joined.held, |epoch| joined.held.max(epoch));
        Ok(())
    }
}

/// Fails if fewer other members are in than the layout needs.
pub(super) fn check_others(
    layout: Layout,
    members: &[Member],
    index: usize,
) -> Result<(), SetupError> {
    let others = members
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index);
    let others_in = others.filter(|(_, m)| m.state == MemberState::Online);
    if others_in.count() < layout.needed(members.len()) {
        let member = members[index].leaf.guid();
        return Err(SetupError::LastMember { member });
    }
    Ok(())
}

pub(super) fn check_room(disk: &Disk, want: u64) -> Result<(), SetupError> {
    check_data(disk, disk.info().size, want)
}

/// Refuses a disk of `size` bytes that has no space for `want` bytes of data.
fn check_data(disk: &Disk, size: u64, want: u64) -> Result<(), SetupError> {
    let got = geometry::data_size(size);
    if got < want {
        let path = disk.info().path.clone();
        return Err(SetupError::Truncated { path, got, want });
    }
    Ok(())
}
