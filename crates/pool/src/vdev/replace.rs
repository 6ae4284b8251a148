//! Attaching and replacing members: new disks in a vdev.
//!
//! **Owns** the checks of a new member's disk. **Called by** the pool's owner, one at a time. **Invariants**: a new member is
//! stale until it is resilvered; a member is replaced only if enough others are in; labels name the new member and not the
//! old one before anything relies on it. `docs/decisions/0101`, `docs/decisions/0153`.

use io::disk::Disk;

use super::create::{check_unused, guid};
use super::error::SetupError;
use super::leaf::Leaf;
use super::limits::HANG_MAX;
use super::member::{Member, MemberState};
use super::members::{check_others, check_room};
use super::space_below::reserve;
use super::top::TopVdev;
use super::{Vdevs, area};
use crate::format::{Birth, MEMBERS_MAX, MemberGuid, VdevId};

impl Vdevs {
    /// Adds a disk to a mirror as a stale member without data. A single disk becomes a mirror.
    ///
    /// # Errors
    /// [`SetupError::InUse`] unless forced; [`SetupError::Shape`]; [`SetupError::Truncated`] if it is smaller than the vdev;
    /// [`SetupError::BlockSize`]; [`SetupError::NoVdev`]; [`SetupError::FixedMembers`]; [`SetupError::FileSystemFull`] with nothing written;
    /// [`SetupError::Device`].
    pub async fn attach(
        &self,
        vdev: VdevId,
        disk: Disk,
        force: bool,
    ) -> Result<MemberGuid, SetupError> {
        let member = MemberGuid(guid());
        let origin = Origin::New { force };
        self.attach_as(vdev, disk, origin, member).await?;
        Ok(member)
    }

    pub(super) async fn attach_as(
        &self,
        vdev: VdevId,
        disk: Disk,
        origin: Origin,
        member: MemberGuid,
    ) -> Result<(), SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let top = self.top(vdev).ok_or(SetupError::NoVdev { vdev })?;
        if top.rows().is_some() {
            return Err(SetupError::FixedMembers { vdev });
        }
        let new = self.prepare(top, disk, origin, member).await?;
        {
            let mut members = top.members();
            if members.len() == MEMBERS_MAX {
                return Err(SetupError::Shape {
                    got: MEMBERS_MAX + 1,
                });
            }
            members.push(new);
        }
        self.changes.count();
        self.tell().await
    }

    /// Puts a disk in the place of a member, as a stale member without data. The old member leaves for good, and its labels
    /// are wiped. A mirror keeps its redundancy if the new member is attached and resilvered before the old one is detached.
    ///
    /// # Errors
    /// [`SetupError::NoMember`]; [`SetupError::LastMember`] if fewer others are in than the vdev needs; those of
    /// [`Vdevs::attach`] for the disk.
    pub async fn replace(
        &self,
        member: MemberGuid,
        disk: Disk,
        force: bool,
    ) -> Result<MemberGuid, SetupError> {
        let new = MemberGuid(guid());
        let origin = Origin::New { force };
        let old = self.replace_as(member, disk, origin, new).await?;
        self.wipe_former(&old).await;
        Ok(new)
    }

    /// As [`Vdevs::replace`], by the member `new`. The disk of the old member, which is returned, keeps its labels.
    pub(super) async fn replace_as(
        &self,
        member: MemberGuid,
        disk: Disk,
        origin: Origin,
        new: MemberGuid,
    ) -> Result<Member, SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let top = self.vdev_of(member)?;
        {
            let members = top.members();
            let found = members.iter().position(|m| m.leaf.guid() == member);
            let index = found.ok_or(SetupError::NoMember { member })?;
            check_others(top.layout(), &members, index)?;
        }
        let new = self.prepare(top, disk, origin, new).await?;
        let old = self.change(member, |layout, members, index| {
            check_others(layout, members, index)?;
            Ok(std::mem::replace(&mut members[index], new))
        })?;
        self.tell().await?;
        Ok(old)
    }

    /// Wipes the labels of a member that left. If that fails, or lasts for more than [`HANG_MAX`], the labels of the other members show
    /// that it left.
    pub(super) async fn wipe_former(&self, old: &Member) {
        if let Some(disk) = old.leaf.disk() {
            let wiped = area::wipe_labels(disk, old.leaf.size(), &self.scratch);
            let _best_effort = io::timeout(HANG_MAX, wiped).await;
        }
    }

    /// Refuses a disk that cannot be a member of this vdev.
    pub(super) fn check_disk(&self, top: &TopVdev, disk: &Disk) -> Result<(), SetupError> {
        let entry = top.entry();
        let path = || disk.info().path.clone();
        if disk.info().read_only {
            return Err(SetupError::ReadOnlyDisk { path: path() });
        }
        let (block, most) = (disk.info().logical_block, entry.sector().min(4096));
        if block > most {
            let path = path();
            return Err(SetupError::BlockSize { path, block, most });
        }
        check_room(disk, entry.data_size)
    }

    /// Checks and wipes a disk that becomes a stale member of a vdev. A spare keeps its label until the member's takes its place.
    async fn prepare(
        &self,
        top: &TopVdev,
        disk: Disk,
        origin: Origin,
        member: MemberGuid,
    ) -> Result<Member, SetupError> {
        self.check_disk(top, &disk)?;
        if let Origin::New { force: false } = origin {
            check_unused(&disk, &self.scratch).await?;
        }
        let journal = self.journal_of(top);
        reserve(&disk, disk.info().size, journal).await?;
        let wiped = match origin {
            Origin::New { .. } => area::wipe_labels(&disk, disk.info().size, &self.scratch).await,
            Origin::Spare => area::wipe_rings(&disk, &self.scratch).await,
        };
        wiped.map_err(|error| SetupError::Io {
            path: disk.info().path.clone(),
            error,
        })?;
        let leaf = Leaf::new(member, disk);
        Ok(Member::new(leaf, MemberState::Stale, Birth(0)))
    }
}

/// Where the disk of a new member comes from.
#[derive(Clone, Copy)]
pub(super) enum Origin {
    /// It is new in the pool. With force, it may belong to another pool.
    New { force: bool },
    /// It is a spare of the pool, whose label was checked.
    Spare,
}
