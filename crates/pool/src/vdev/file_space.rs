//! Space in the file systems below an open pool's members.
//!
//! **Owns** the operations on all members: reservations, and the end of waiting. **Called by** changes of the pool, and by its
//! owner. **Invariant**: no write waits for space before [`Vdevs::wait_for_space`] allows it. `docs/decisions/0123`.

use super::Vdevs;
use super::leaf::Leaf;
use super::space_below::reserve;
use super::top::TopVdev;
use crate::error::Error;

impl Vdevs {
    /// Bytes of journal on each disk of a vdev.
    pub(super) fn journal_of(&self, top: &TopVdev) -> u64 {
        top.journal_on_member()
    }

    /// Reserves the space that an opening needs on the present members, whose files may be sparse. Failures are ignored: the
    /// space may be there already.
    pub(super) async fn reserve_members(&self) {
        for top in self.stripe.iter() {
            for leaf in top.targets() {
                self.reserve_member(top, &leaf).await;
            }
        }
    }

    /// As [`Vdevs::reserve_members`], for one member.
    pub(super) async fn reserve_member(&self, top: &TopVdev, leaf: &Leaf) {
        let Some(disk) = leaf.disk() else { return };
        let reserved = reserve(disk, leaf.size(), self.journal_of(top)).await;
        if let Err(error) = reserved {
            tracing::warn!(%error, "space that the next opening needs is not reserved");
        }
    }

    /// Sets whether writes that find no space in a file system wait for it or fail. They fail until the first call.
    pub(crate) fn wait_for_space(&self, may_wait: bool) {
        self.below.allow(may_wait);
    }

    /// While writes wait for space: [`Error::FileSystemFull`] with the file that needs it.
    pub(crate) fn full(&self) -> Option<Error> {
        if !self.below.is_waited_for() {
            return None;
        }
        let leaves = self.stripe.iter().flat_map(TopVdev::targets);
        let path = leaves
            .filter(|leaf| leaf.is_full())
            .map(|l| l.path().clone())
            .next();
        Some(Error::FileSystemFull {
            path: path.unwrap_or_default(),
        })
    }

    /// Checks whether file systems that were full have space again, for members for which no write waits.
    pub async fn look_for_space(&self) {
        if self.below.is_waited_for() {
            return;
        }
        for leaf in self.stripe.iter().flat_map(TopVdev::targets) {
            leaf.look_for_space().await;
        }
    }
}
