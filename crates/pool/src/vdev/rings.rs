//! Rings of uberblocks: writes the next uberblock to every member, and restores missing copies.
//!
//! **Owns** the choice of the copies to write, and their order. **Called by** checkpoints, the opening of a pool, and scrub.
//! **Invariants**: one task writes to the rings at a time; an intact copy of an uberblock is never overwritten by the same
//! one, so that a torn write damages only a slot that recovery does not need; a member with fewer than
//! [`UBERBLOCK_COPIES_MIN`] copies of the newest uberblock is out. `docs/format.md`, "Uberblocks", `docs/decisions/0118`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::leaf::Leaf;
use super::limits::UBERBLOCK_COPIES_MIN;
use super::member::Reach;
use super::top::TopVdev;
use super::{Stable, Vdevs, area, geometry, on_members};
use crate::error::{Error, Result};
use crate::format::Uberblock;

impl Vdevs {
    /// Writes an uberblock, with the epoch of the durable labels, to every member that takes writes. Its slot has the
    /// uberblock [`geometry::RING_SLOTS`] older, or none. The caller must flush before, so that everything that the uberblock
    /// refers to is durable, and after. Later writes belong to a later epoch.
    ///
    /// # Errors
    /// [`Error::Device`] if no member of a vdev has it. [`Error::ReadOnly`].
    pub async fn write_uberblock(&self, uberblock: &Uberblock) -> Result<()> {
        let uberblock = Uberblock {
            label_epoch: self.shared().durable,
            ..*uberblock
        };
        let write = |leaf: Arc<Leaf>, scratch| async move {
            area::write_uberblock(&leaf, &uberblock, &scratch).await
        };
        self.place_uberblock(&uberblock, write).await
    }

    /// Makes the newest uberblock durable on every member that takes writes. The opening of a pool does this before it relies
    /// on the uberblock. Writes only missing copies.
    ///
    /// # Errors
    /// As [`Vdevs::write_uberblock`] and [`Vdevs::flush`].
    pub(super) async fn ensure_uberblock(&self, uberblock: &Uberblock) -> Result<Stable> {
        // An intact copy may be in a disk's cache only: flush in any case.
        self.stripe.iter().for_each(TopVdev::count_write);
        let _stable = self.flush().await?;
        let uberblock = *uberblock;
        let mend = |leaf: Arc<Leaf>, scratch| async move {
            let mended = area::mend_rings(&leaf, &[uberblock], &scratch).await;
            mended.whole >= UBERBLOCK_COPIES_MIN
        };
        self.place_uberblock(&uberblock, mend).await?;
        self.flush().await
    }

    /// Rewrites damaged or missing copies of labels and uberblocks. Returns their number.
    ///
    /// # Errors
    /// [`Error::Device`] if no member of a vdev has the labels or confirmed a flush. [`Error::ReadOnly`].
    pub async fn scrub_areas(&self) -> Result<u64> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let labels = self.scrub_labels().await?;
        Ok(labels + self.scrub_rings().await?)
    }

    /// Rewrites the labels, half by half, if a copy is bad. Returns the number of bad copies.
    async fn scrub_labels(&self) -> Result<u64> {
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        let epoch = self.shared().durable;
        let mut bad = 0;
        for leaf in self.stripe.iter().flat_map(TopVdev::targets) {
            let of_member = area::bad_labels(&leaf, epoch, &self.scratch).await;
            if of_member > 0 {
                // The half with the bad copies must be written first.
                leaf.know_halves(None);
                bad += of_member;
            }
        }
        if bad > 0 {
            self.write_labels().await?;
        }
        Ok(bad)
    }

    /// Copies every uberblock of a member that is in to all members that lack an intact copy of it. Returns the number of
    /// copies written.
    ///
    /// # Errors
    /// As [`Vdevs::scrub_areas`].
    pub(super) async fn scrub_rings(&self) -> Result<u64> {
        // An intact copy may be in a disk's cache only: flush in any case.
        self.stripe.iter().for_each(TopVdev::count_write);
        let _stable = self.flush().await?;
        let mut turn = self.ring_writes.enter(0..1);
        turn.come().await;
        let mut newest: BTreeMap<u64, Uberblock> = BTreeMap::new();
        for leaf in self.stripe.iter().flat_map(TopVdev::members_in) {
            let slots = area::read_slots(&leaf, &self.scratch).await;
            let whole = slots.into_iter().filter_map(|slot| slot.uberblock);
            for uberblock in whole.filter(|u| u.pool == self.pool) {
                let slot = newest.entry(uberblock.sequence % geometry::RING_SLOTS);
                let known = slot.or_insert(uberblock);
                if uberblock.is_newer_than(known) {
                    *known = uberblock;
                }
            }
        }
        let wanted: Arc<[Uberblock]> = newest.into_values().collect();
        let written = Arc::new(AtomicU64::new(0));
        let mend = |_: &TopVdev, leaf: Arc<Leaf>| {
            let (wanted, written) = (wanted.clone(), written.clone());
            let scratch = self.scratch.clone();
            async move {
                let mended = area::mend_rings(&leaf, &wanted, &scratch).await;
                written.fetch_add(mended.written, Ordering::Relaxed);
                // A failed copy does not exclude the member: it has other copies.
                true
            }
        };
        let results = on_members(self.stripe.iter(), Reach::All, mend).await;
        drop(turn);
        results.into_iter().fold(Ok(()), Result::and)?;
        self.stripe.iter().for_each(TopVdev::count_write);
        let _stable = self.flush().await?;
        Ok(written.load(Ordering::Relaxed))
    }

    /// Calls `place` for each member that takes writes. `place` returns whether the member has the uberblock.
    async fn place_uberblock<F: Future<Output = bool> + 'static>(
        &self,
        uberblock: &Uberblock,
        place: impl Fn(Arc<Leaf>, io::BufPool) -> F,
    ) -> Result<()> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let number = {
            let mut uberblocks = self.uberblocks();
            uberblocks.begun += 1;
            uberblocks.begun
        };
        let mut turn = self.ring_writes.enter(0..1);
        turn.come().await;
        let tops: Vec<_> = self.stripe.iter().collect();
        let place = |_: &TopVdev, leaf: Arc<Leaf>| place(leaf, self.scratch.clone());
        let results = on_members(tops.iter().copied(), Reach::All, place).await;
        drop(turn);
        tops.into_iter().for_each(TopVdev::count_write);
        results.into_iter().fold(Ok(()), Result::and)?;
        self.uberblocks().written = Some((number, uberblock.epoch));
        Ok(())
    }
}
