//! Hot spares: disks that wait for a member to fail, and stand in for it.
//!
//! **Owns** the order of the steps that add, take, give back and remove a spare. **Called by** [`Pool`]'s users, one call at a time; when a
//! spare is taken, and which one, is their decision. **Invariants**: a spare that is available in the pool's tree is no member; the tree
//! names the member that a spare's disk becomes before any label does, so that a use whose member is in no label was interrupted and is
//! undone by [`Pool::settle_spare`]. `docs/decisions/0161`.

use std::collections::BTreeMap;

use io::disk::Disk;

use super::pool_tree::Changes;
use super::{Pool, State};
use crate::format::{
    FEATURE_SPARES, MemberGuid, SpareEntry, SpareGuid, SparePool, SpareUse, spare_key,
};
use crate::vdev::{Layout, MemberState, SetupError, new_guid, spare_label};

type Result<T> = std::result::Result<T, SetupError>;

/// A change of one spare's entry.
type EntryChange = (SpareGuid, Option<SpareEntry>);

impl Pool {
    /// The pool's spares.
    #[must_use]
    pub fn spares(&self) -> BTreeMap<SpareGuid, SpareEntry> {
        self.owner.state.borrow().pool_tree.spares().clone()
    }

    fn spare(&self, spare: SpareGuid) -> Result<SpareEntry> {
        let state = self.owner.state.borrow();
        let found = state.pool_tree.spares().get(&spare).copied();
        found.ok_or(SetupError::NoSpare { spare })
    }

    async fn set_spares(&self, entries: &[EntryChange]) -> Result<()> {
        let set = |state: &mut State| {
            let change = |(spare, entry): &EntryChange| {
                let value = entry.as_ref().map(SpareEntry::encode);
                (spare_key(*spare), value)
            };
            let changes: Changes = entries.iter().map(change).collect();
            Ok(((), state.change(Vec::new(), changes)?))
        };
        let done = self.owner.change_durably(set).await;
        done.map_err(SetupError::failed)
    }

    async fn set_use(&self, spare: SpareGuid, size: u64, used: Option<SpareUse>) -> Result<()> {
        let entry = Some(SpareEntry { size, used });
        self.set_spares(&[(spare, entry)]).await
    }

    /// Makes a disk a spare of the pool. A disk that is a spare of other pools of this host is shared with them. Repeats an addition that was
    /// interrupted.
    ///
    /// # Errors
    /// Those of [`crate::vdev::Vdevs::check_spare`], [`SetupError::SpareTwice`] and [`SetupError::SharedTooOften`], with nothing changed.
    /// [`SetupError::Io`] and [`SetupError::Device`]: the disk may have a spare's label, which a repetition accepts.
    pub async fn add_spare(&self, disk: &Disk, force: bool) -> Result<SpareGuid> {
        let vdevs = self.vdevs();
        let label = vdevs.check_spare(disk, force).await?;
        if let Some(label) = &label
            && self.spare(label.spare).is_ok()
        {
            let path = disk.info().path.clone();
            return Err(SetupError::SpareTwice { path });
        }
        let required = vdevs.require(FEATURE_SPARES).await;
        required.map_err(SetupError::failed)?;
        let spare = label.as_ref().map(|label| label.spare);
        let spare = spare.unwrap_or_else(|| SpareGuid(new_guid()));
        let others = label.map_or(Vec::new(), |label| label.pools);
        vdevs.label_spare(disk, spare, &others).await?;
        self.set_use(spare, disk.info().size, None).await?;
        Ok(spare)
    }

    /// Removes a spare that is no member. Its disk, if it is given, loses the label, unless the spare belongs to other pools.
    ///
    /// # Errors
    /// [`SetupError::NoSpare`] if there is no such spare, or if it is in use. [`SetupError::Io`]: it is no spare of the pool any more, and
    /// its disk may have the label.
    pub async fn remove_spare(&self, spare: SpareGuid, disk: Option<&Disk>) -> Result<()> {
        let used = self.spare(spare)?.used;
        if used.is_some_and(|used| self.vdevs().state_of(used.member).is_some()) {
            return Err(SetupError::NoSpare { spare });
        }
        self.set_spares(&[(spare, None)]).await?;
        match disk {
            Some(disk) => self.vdevs().unlabel_spare(disk, spare).await,
            None => Ok(()),
        }
    }

    /// Lets a spare stand in for a member: beside it in a mirror, in its place in a raidz. If the member is itself a spare that failed, it
    /// is replaced, and is no spare any more. The disk is a stale member then, to be resilvered.
    ///
    /// # Errors
    /// [`SetupError::NoSpare`] if it is in use; [`SetupError::NotSpare`], [`SetupError::Truncated`], [`SetupError::BlockSize`],
    /// [`SetupError::LastMember`], [`SetupError::NoMember`] and [`SetupError::Shape`], with nothing changed. Others: the use may have begun;
    /// [`Pool::settle_spare`] undoes it if it has not.
    pub async fn take_spare(
        &self,
        spare: SpareGuid,
        member: MemberGuid,
        disk: Disk,
    ) -> Result<MemberGuid> {
        let entry = self.spare(spare)?;
        let failed = self.spare_of(member);
        // A use that was interrupted after the labels of the other members and before the disk's own begins again.
        let again = failed.filter(|(other, _)| *other == spare);
        if entry.used.is_some() && again.is_none() {
            return Err(SetupError::NoSpare { spare });
        }
        let vdevs = self.vdevs();
        vdevs.check_stand_in(spare, member, &disk).await?;
        let new = MemberGuid(new_guid());
        let used = SpareUse {
            member: new,
            instead_of: failed.map_or(member, |(_, used)| used.instead_of),
        };
        let in_place = failed.is_some();
        self.set_use(spare, entry.size, Some(used)).await?;
        let old = match vdevs.stand_in(member, disk, new, in_place).await {
            Ok(old) => old,
            Err(error) => {
                if vdevs.state_of(new).is_none() {
                    self.set_use(spare, entry.size, entry.used).await?;
                }
                return Err(error);
            }
        };
        if let Some((other, _)) = failed.filter(|(other, _)| *other != spare) {
            self.set_spares(&[(other, None)]).await?;
        }
        // the disk of a spare has a label of it until the tree has no such spare
        if let Some(old) = old {
            vdevs.forget_former(&old).await;
        }
        Ok(new)
    }

    /// The spare whose disk is this member, and its use.
    #[must_use]
    pub fn spare_of(&self, member: MemberGuid) -> Option<(SpareGuid, SpareUse)> {
        let state = self.owner.state.borrow();
        let mut spares = state.pool_tree.spares().iter();
        spares.find_map(|(spare, entry)| {
            let used = entry.used.filter(|used| used.member == member);
            used.map(|used| (*spare, used))
        })
    }

    /// Whether a spare's disk has nothing more to do: its mirror does not need it, because the member that it stands in for has every block
    /// again, or is no member any more and was replaced.
    #[must_use]
    pub fn may_give_back(&self, used: SpareUse) -> bool {
        let vdevs = self.vdevs();
        let is_mirror = vdevs.layout_of(used.member) == Some(Layout::Mirror);
        let original = vdevs.state_of(used.instead_of);
        is_mirror && matches!(original, None | Some(MemberState::Online))
    }

    /// Takes a spare out of its mirror: it is available again. `others` are the other pools that share it.
    ///
    /// # Errors
    /// [`SetupError::NoSpare`] if it is not in use; [`SetupError::LastMember`] and [`SetupError::FixedMembers`], with nothing changed. Others:
    /// [`Pool::settle_spare`] ends it.
    pub async fn give_back_spare(&self, spare: SpareGuid, others: &[SparePool]) -> Result<()> {
        let entry = self.spare(spare)?;
        let used = entry.used.ok_or(SetupError::NoSpare { spare })?;
        let disk = self.vdevs().release(used.member).await?;
        self.label_again(spare, entry, disk, others).await
    }

    /// Replaces a member that was a spare by a new disk, in its place: the spare is available again, and the new member is stale. Returns
    /// the new member.
    ///
    /// # Errors
    /// As [`crate::vdev::Vdevs::replace`]; [`SetupError::NoSpare`] if it is not in use. If the spare's disk cannot be labelled, the
    /// replacement has succeeded, and [`Pool::settle_spare`] ends the rest.
    pub async fn relieve_spare(
        &self,
        spare: SpareGuid,
        disk: Disk,
        force: bool,
        others: &[SparePool],
    ) -> Result<MemberGuid> {
        let entry = self.spare(spare)?;
        let used = entry.used.ok_or(SetupError::NoSpare { spare })?;
        let relieved = self.vdevs().relieve(used.member, disk, force).await;
        let (new, disk) = relieved?;
        let _settled_later = self.label_again(spare, entry, disk, others).await;
        Ok(new)
    }

    async fn label_again(
        &self,
        spare: SpareGuid,
        entry: SpareEntry,
        disk: Option<Disk>,
        others: &[SparePool],
    ) -> Result<()> {
        let Some(disk) = disk else { return Ok(()) };
        self.vdevs().label_spare(&disk, spare, others).await?;
        self.set_use(spare, entry.size, None).await
    }

    /// Writes this host and this pool into the label of a spare of the pool, which another host or another pool wrote. `others` are the other
    /// pools that share it.
    ///
    /// # Errors
    /// [`SetupError::NoSpare`]; [`SetupError::NotSpare`] if the disk is not this spare; [`SetupError::Io`].
    pub async fn adopt_spare(
        &self,
        spare: SpareGuid,
        disk: &Disk,
        others: &[SparePool],
    ) -> Result<()> {
        self.spare(spare)?;
        if spare_label(disk).await.is_none_or(|l| l.spare != spare) {
            let path = disk.info().path.clone();
            return Err(SetupError::NotSpare { path });
        }
        self.vdevs().label_spare(disk, spare, others).await
    }

    /// Makes the use of a spare permanent: its disk is a member like any other, and no spare any more.
    ///
    /// # Errors
    /// [`SetupError::NoSpare`] if it is not in use. [`SetupError::Device`].
    pub async fn keep_spare(&self, spare: SpareGuid) -> Result<()> {
        let entry = self.spare(spare)?;
        entry.used.ok_or(SetupError::NoSpare { spare })?;
        self.set_spares(&[(spare, None)]).await
    }

    /// Ends a use that was interrupted: the tree says that the spare is in use, and its member is no member. `disk` is the spare's, by its
    /// label. Returns whether the spare is available now; not if there was nothing to end, or the disk is another one.
    ///
    /// # Errors
    /// [`SetupError::NoSpare`], [`SetupError::Io`], [`SetupError::Device`].
    pub async fn settle_spare(
        &self,
        spare: SpareGuid,
        disk: &Disk,
        others: &[SparePool],
    ) -> Result<bool> {
        let entry = self.spare(spare)?;
        let vdevs = self.vdevs();
        let Some(used) = entry.used.filter(|u| vdevs.state_of(u.member).is_none()) else {
            return Ok(false);
        };
        if !vdevs.is_spare_or_former(disk, spare, used.member).await {
            return Ok(false);
        }
        vdevs.label_spare(disk, spare, others).await?;
        self.set_use(spare, entry.size, None).await?;
        Ok(true)
    }
}
