//! Disks of hot spares: their labels, and their way into a vdev and out of it.
//!
//! **Owns** the order in which the label of a spare and that of a member take each other's place. **Called by** the pool's owner, one at a
//! time, and by the scan. **Invariants**: from the moment at which a disk is a spare until it is removed, one half of its label areas has a
//! whole label, of the spare or of the member that it is or was; a spare's rings are wiped before a member's label is written to it.
//! `docs/decisions/0161`.

use io::BufPool;
use io::disk::Disk;

use super::area;
use super::cache_label::check_unlabelled;
use super::create::{guid, label_of};
use super::error::SetupError;
use super::geometry;
use super::layout::{Layout, VdevSpec};
use super::limits::SCRATCH_BYTES;
use super::member::{Member, MemberState};
use super::members::check_others;
use super::replace::Origin;
use super::spare_label::{read, write};
use super::{VdevStatus, Vdevs};
use crate::format::{Host, MemberGuid, SpareGuid, SpareLabel, SparePool, UBERBLOCK_SIZE};

/// The label of a spare's disk; `None` if it is no spare, or a member's label is on it as well.
pub async fn spare_label(disk: &Disk) -> Option<SpareLabel> {
    let scratch = BufPool::new(SCRATCH_BYTES);
    match label_of(disk, &scratch).await {
        Ok(None) => read(disk, &scratch).await,
        _ => None,
    }
}

fn failed(disk: &Disk, error: io::Error) -> SetupError {
    SetupError::Io {
        path: disk.info().path.clone(),
        error,
    }
}

/// Checks a disk that becomes a spare of a pool of these vdevs, which does not exist yet.
///
/// # Errors
/// As [`Vdevs::check_spare`].
pub async fn check_new_spare(
    vdevs: &[VdevSpec],
    disk: &Disk,
    host: &Host,
    force: bool,
) -> Result<(), SetupError> {
    let of_vdev = |vdev: &VdevSpec| {
        let sizes = vdev.members.iter().map(|m| m.info().size);
        sizes.map(geometry::data_size).min().unwrap_or(0)
    };
    let least = vdevs.iter().map(of_vdev).min().unwrap_or(0);
    check_as_spare(disk, UBERBLOCK_SIZE as u32, least)?;
    let scratch = BufPool::new(SCRATCH_BYTES);
    check_label(disk, host, force, &scratch).await.map(drop)
}

/// Refuses a disk that can stand in for no member. `least` is the size of the smallest members' data.
fn check_as_spare(disk: &Disk, most: u32, least: u64) -> Result<(), SetupError> {
    let path = || disk.info().path.clone();
    if disk.info().read_only {
        return Err(SetupError::ReadOnlyDisk { path: path() });
    }
    let block = disk.info().logical_block;
    if block > most {
        let path = path();
        return Err(SetupError::BlockSize { path, block, most });
    }
    let size = disk.info().size;
    if geometry::data_size(size) < least {
        let (path, least) = (path(), geometry::least_size(least));
        return Err(SetupError::SpareTooSmall { path, size, least });
    }
    Ok(())
}

/// Refuses a disk of another pool, a spare of another host, and a cache device, unless forced. Returns its label if it is a spare of this host.
async fn check_label(
    disk: &Disk,
    host: &Host,
    force: bool,
    scratch: &BufPool,
) -> Result<Option<SpareLabel>, SetupError> {
    let path = || disk.info().path.clone();
    if !force && let Some(label) = label_of(disk, scratch).await? {
        return Err(SetupError::InUse {
            path: path(),
            name: label.name,
        });
    }
    match spare_label(disk).await {
        Some(label) if label.host.id == host.id => Ok(Some(label)),
        Some(label) if !force => Err(SetupError::IsSpare {
            path: path(),
            names: label.names(),
        }),
        _ if force => Ok(None),
        _ => check_unlabelled(disk, scratch).await.map(|()| None),
    }
}

/// A member that left its vdev.
pub(crate) struct FormerMember(Member);

/// Whether a disk of `size` bytes has space for the data of each member of a vdev.
fn has_room(vdev: &VdevStatus, size: u64) -> bool {
    geometry::data_size(size) >= vdev.member_size
}

impl Vdevs {
    /// Whether a disk of `size` bytes can stand in for this member.
    #[must_use]
    pub fn fits(&self, member: MemberGuid, size: u64) -> bool {
        let is_in = |v: &&VdevStatus| v.members.iter().any(|m| m.guid == member);
        let vdevs = self.status();
        vdevs.iter().find(is_in).is_some_and(|v| has_room(v, size))
    }

    /// Checks a disk that becomes a spare. Returns the label that it has as a spare already.
    ///
    /// # Errors
    /// [`SetupError::ReadOnly`], [`SetupError::ReadOnlyDisk`], [`SetupError::BlockSize`]; [`SetupError::SpareTooSmall`] if it is smaller than the
    /// members of every vdev; [`SetupError::InUse`] and [`SetupError::IsSpare`] (of another host) unless forced.
    pub async fn check_spare(
        &self,
        disk: &Disk,
        force: bool,
    ) -> Result<Option<SpareLabel>, SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let sizes = self.status().into_iter().map(|v| v.member_size);
        let least = sizes.min().unwrap_or(0);
        check_as_spare(disk, self.sector().min(UBERBLOCK_SIZE as u32), least)?;
        let host = self.shared().host.clone();
        check_label(disk, &host, force, &self.scratch).await
    }

    /// Writes the label of a spare of these pools, and of this one, to a disk.
    ///
    /// # Errors
    /// [`SetupError::ReadOnly`]. [`SetupError::Io`]: the disk may have the old or the new label.
    pub(crate) async fn label_spare(
        &self,
        disk: &Disk,
        spare: SpareGuid,
        others: &[SparePool],
    ) -> Result<(), SetupError> {
        let before = read(disk, &self.scratch).await;
        let own = SparePool {
            guid: self.pool,
            name: self.name(),
        };
        let mut pools = vec![own];
        pools.extend(others.iter().filter(|p| p.guid != self.pool).cloned());
        self.relabel_spare(disk, spare, pools, before).await
    }

    async fn relabel_spare(
        &self,
        disk: &Disk,
        spare: SpareGuid,
        pools: Vec<SparePool>,
        before: Option<SpareLabel>,
    ) -> Result<(), SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let was_spare = before.is_some();
        let label = SpareLabel {
            spare,
            epoch: before.map_or(1, |label| label.epoch + 1),
            host: self.shared().host.clone(),
            pools,
        };
        if label.check().is_err() {
            let path = disk.info().path.clone();
            return Err(SetupError::SharedTooOften { path });
        }
        if !was_spare && matches!(label_of(disk, &self.scratch).await, Ok(None)) {
            // Nothing on it identifies the disk.
            let wiped = area::wipe_labels(disk, disk.info().size, &self.scratch).await;
            wiped.map_err(|error| failed(disk, error))?;
        }
        let written = write(disk, &label, &self.scratch).await;
        written.map_err(|error| failed(disk, error))?;
        let wiped = area::wipe_rings(disk, &self.scratch).await;
        wiped.map_err(|error| failed(disk, error))
    }

    /// Removes this pool from the label of a spare; the last pool wipes the label. Does nothing to a disk that is not this spare.
    ///
    /// # Errors
    /// [`SetupError::ReadOnly`], [`SetupError::Io`].
    pub async fn unlabel_spare(&self, disk: &Disk, spare: SpareGuid) -> Result<(), SetupError> {
        let Some(label) = spare_label(disk).await.filter(|l| l.spare == spare) else {
            return Ok(());
        };
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let mut pools = label.pools.clone();
        pools.retain(|p| p.guid != self.pool);
        if !pools.is_empty() {
            return self.relabel_spare(disk, spare, pools, Some(label)).await;
        }
        let wiped = area::wipe_labels(disk, disk.info().size, &self.scratch).await;
        wiped.map_err(|error| failed(disk, error))
    }

    /// Checks that a spare's disk can stand in for a member now.
    ///
    /// # Errors
    /// [`SetupError::NotSpare`], [`SetupError::Truncated`], [`SetupError::BlockSize`], [`SetupError::LastMember`], [`SetupError::NoMember`].
    pub(crate) async fn check_stand_in(
        &self,
        spare: SpareGuid,
        member: MemberGuid,
        disk: &Disk,
    ) -> Result<(), SetupError> {
        if self.read_only {
            return Err(SetupError::ReadOnly);
        }
        let host = self.shared().host.id;
        let label = spare_label(disk).await;
        if label.is_none_or(|l| l.spare != spare || l.host.id != host) {
            let path = disk.info().path.clone();
            return Err(SetupError::NotSpare { path });
        }
        let top = self.vdev_of(member)?;
        {
            let members = top.members();
            let found = members.iter().position(|m| m.leaf.guid() == member);
            let index = found.ok_or(SetupError::NoMember { member })?;
            check_others(top.layout(), &members, index)?;
        }
        self.check_disk(top, disk)
    }

    /// Makes a spare's disk the member `new`: beside `member` in a mirror, in its place in a raidz, and in the place of a spare that failed.
    /// Returns the member that left, whose disk keeps its labels.
    ///
    /// # Errors
    /// Those of [`Vdevs::attach`] and [`Vdevs::replace`]; after [`SetupError::Device`] the disk may be a member.
    pub(crate) async fn stand_in(
        &self,
        member: MemberGuid,
        disk: Disk,
        new: MemberGuid,
        in_place: bool,
    ) -> Result<Option<FormerMember>, SetupError> {
        let top = self.vdev_of(member)?;
        let origin = Origin::Spare;
        match top.layout() {
            Layout::Mirror if !in_place => {
                self.attach_as(top.id(), disk, origin, new).await?;
                Ok(None)
            }
            _ => {
                let old = self.replace_as(member, disk, origin, new).await?;
                Ok(Some(FormerMember(old)))
            }
        }
    }

    /// Wipes the labels of a member that left, unless operations on its disk may be outstanding.
    pub(crate) async fn forget_former(&self, FormerMember(old): &FormerMember) {
        if usable(old).is_some() {
            self.wipe_former(old).await;
        }
    }

    /// Takes a member that was a spare out of a mirror. Its disk keeps the member's label.
    ///
    /// # Errors
    /// [`SetupError::FixedMembers`]; those of [`Vdevs::detach`].
    pub(crate) async fn release(&self, member: MemberGuid) -> Result<Option<Disk>, SetupError> {
        let top = self.vdev_of(member)?;
        if top.rows().is_some() {
            return Err(SetupError::FixedMembers { vdev: top.id() });
        }
        let old = self.change(member, |layout, members, index| {
            check_others(layout, members, index)?;
            Ok(members.remove(index))
        })?;
        self.tell().await?;
        Ok(usable(&old))
    }

    /// Puts a disk in the place of a member that was a spare. Returns the new member, and the spare's disk, which keeps the old member's label.
    ///
    /// # Errors
    /// Those of [`Vdevs::replace`].
    pub(crate) async fn relieve(
        &self,
        member: MemberGuid,
        disk: Disk,
        force: bool,
    ) -> Result<(MemberGuid, Option<Disk>), SetupError> {
        let new = MemberGuid(guid());
        let origin = Origin::New { force };
        let old = self.replace_as(member, disk, origin, new).await?;
        Ok((new, usable(&old)))
    }

    /// Whether a disk is this spare, or has the label of the former member `member` of this pool.
    pub(crate) async fn is_spare_or_former(
        &self,
        disk: &Disk,
        spare: SpareGuid,
        member: MemberGuid,
    ) -> bool {
        let is_spare = |label: SpareLabel| label.spare == spare;
        match label_of(disk, &self.scratch).await {
            Ok(Some(label)) => label.pool == self.pool && label.disk == member,
            Ok(None) => read(disk, &self.scratch).await.is_some_and(is_spare),
            Err(_) => false,
        }
    }

    /// The layout of a member's vdev, if the pool has the member.
    #[must_use]
    pub fn layout_of(&self, member: MemberGuid) -> Option<Layout> {
        self.vdev_of(member).ok().map(|top| top.layout())
    }

    /// A member's state, if the pool has it.
    #[must_use]
    pub fn state_of(&self, member: MemberGuid) -> Option<MemberState> {
        let top = self.vdev_of(member).ok()?;
        let members = top.members();
        let found = members.iter().find(|m| m.leaf.guid() == member);
        found.map(|m| m.state)
    }
}

/// The disk of a former member, unless operations on it may be outstanding.
fn usable(member: &Member) -> Option<Disk> {
    let is_sound = !matches!(member.state, MemberState::Faulted | MemberState::Missing);
    member.leaf.disk().filter(|_| is_sound).cloned()
}

/// A new random identifier.
pub(crate) fn new_guid() -> u64 {
    guid()
}
