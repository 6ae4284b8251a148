//! Rings of uberblocks on the sides: writing the next uberblock, restoring copies that are missing.
//!
//! **Owns** which copies of an uberblock are written, and when. **Called by** checkpoints, the opening of a pool, and
//! scrub. **Invariants**: one task writes to the rings at a time; no whole copy of an uberblock is written again, so that a
//! torn write damages only a slot that recovery does not need; a side that lacks [`UBERBLOCK_COPIES_MIN`] copies of the
//! newest uberblock is out. `docs/format.md`, "Uberblocks", `docs/decisions/0118`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::leaf::Leaf;
use super::limits::UBERBLOCK_COPIES_MIN;
use super::mirror::Mirror;
use super::{Stable, Vdevs, area, on_sides};
use crate::error::{Error, Result};
use crate::format::Uberblock;

impl Vdevs {
    /// Writes an uberblock, with the epoch of the labels that are durable, to every side that takes writes. Its slot holds the
    /// uberblock [`area::RING_SLOTS`] older, or nothing. Flush before, so that what it points to is durable, and after.
    /// Blocks written later are of a later epoch.
    ///
    /// # Errors
    /// [`Error::Device`] if a vdev has no side with it. [`Error::ReadOnly`].
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

    /// Makes the newest uberblock durable on every side that takes writes, as a pool's opening must before it relies on it.
    /// Only copies that are missing are written.
    ///
    /// # Errors
    /// As [`Vdevs::write_uberblock`] and [`Vdevs::flush`].
    pub(super) async fn settle_uberblock(&self, uberblock: &Uberblock) -> Result<Stable> {
        // a whole copy may be in a disk's cache only
        self.mirrors.iter().for_each(Mirror::count_write);
        let _stable = self.flush().await?;
        let uberblock = *uberblock;
        let mend = |leaf: Arc<Leaf>, scratch| async move {
            let mended = area::mend_rings(&leaf, &[uberblock], &scratch).await;
            mended.whole >= UBERBLOCK_COPIES_MIN
        };
        self.place_uberblock(&uberblock, mend).await?;
        self.flush().await
    }

    /// Writes the copies of labels and uberblocks that are damaged or missing. Returns how many were.
    ///
    /// # Errors
    /// [`Error::Device`] if a vdev has no side with the labels or confirmed no flush. [`Error::ReadOnly`].
    pub async fn scrub_areas(&self) -> Result<u64> {
        if self.read_only {
            return Err(Error::ReadOnly);
        }
        let labels = self.scrub_labels().await?;
        Ok(labels + self.scrub_rings().await?)
    }

    /// Labels are written anew, half by half, if a copy of one is bad.
    async fn scrub_labels(&self) -> Result<u64> {
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        let epoch = self.shared().durable;
        let mut bad = 0;
        for leaf in self.mirrors.iter().flat_map(Mirror::targets) {
            let of_side = area::bad_labels(&leaf, epoch, &self.scratch).await;
            if of_side > 0 {
                // the half with the bad copies is to be written first
                leaf.know_halves(None);
                bad += of_side;
            }
        }
        if bad > 0 {
            self.write_labels().await?;
        }
        Ok(bad)
    }

    /// Every side gets the uberblocks that a side which is in has, where it has nothing whole. Returns how many copies were
    /// written.
    ///
    /// # Errors
    /// As [`Vdevs::scrub_areas`].
    pub(super) async fn scrub_rings(&self) -> Result<u64> {
        // a whole copy may be in a disk's cache only
        self.mirrors.iter().for_each(Mirror::count_write);
        let _stable = self.flush().await?;
        let mut turn = self.ring_writes.enter(0..1);
        turn.come().await;
        let mut newest: BTreeMap<u64, Uberblock> = BTreeMap::new();
        for leaf in self.mirrors.iter().flat_map(Mirror::sides_in) {
            let slots = area::read_slots(&leaf, &self.scratch).await;
            let whole = slots.into_iter().filter_map(|slot| slot.uberblock);
            for uberblock in whole.filter(|u| u.pool == self.pool) {
                let slot = newest.entry(uberblock.sequence % area::RING_SLOTS);
                let known = slot.or_insert(uberblock);
                if uberblock.is_newer_than(known) {
                    *known = uberblock;
                }
            }
        }
        let wanted: Arc<[Uberblock]> = newest.into_values().collect();
        let written = Arc::new(AtomicU64::new(0));
        let mend = |_: &Mirror, leaf: Arc<Leaf>| {
            let (wanted, written) = (wanted.clone(), written.clone());
            let scratch = self.scratch.clone();
            async move {
                let mended = area::mend_rings(&leaf, &wanted, &scratch).await;
                written.fetch_add(mended.written, Ordering::Relaxed);
                // a copy that cannot be written takes no side out: the side has others
                true
            }
        };
        let results = on_sides(self.mirrors.iter(), mend).await;
        drop(turn);
        results.into_iter().fold(Ok(()), Result::and)?;
        self.mirrors.iter().for_each(Mirror::count_write);
        let _stable = self.flush().await?;
        Ok(written.load(Ordering::Relaxed))
    }

    /// Has each side take an uberblock by `place`, which returns whether the side has it.
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
        let mirrors: Vec<_> = self.mirrors.iter().collect();
        let place = |_: &Mirror, leaf: Arc<Leaf>| place(leaf, self.scratch.clone());
        let results = on_sides(mirrors.iter().copied(), place).await;
        drop(turn);
        mirrors.into_iter().for_each(Mirror::count_write);
        results.into_iter().fold(Ok(()), Result::and)?;
        self.uberblocks().written = Some((number, uberblock.epoch));
        Ok(())
    }
}
