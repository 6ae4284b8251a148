//! Places of the journal on the vdevs, and the moves of the journal to other vdevs.
//!
//! **Owns** the rings in labels. **Called by** the opening of a pool, and by its owner. **Invariants**: labels durably have the ring to
//! which the journal moves before an uberblock names a segment of it; they lose the old ring only when the newest uberblock is durable
//! and its journal starts in the new one. `docs/decisions/0181`.

use super::Vdevs;
use super::error::SetupError;
use super::geometry::least_size;
use super::limits::DISK_SIZE_MIN;
use crate::error::Result;
use crate::format::{
    Address, JOURNAL_SEGMENTS_MAX, JournalLayout, JournalRing, JournalRings, VdevClass, VdevEntry,
    VdevId, VdevOffset,
};
use crate::journal::Ring;

/// Part of a member's data that the journal's area of an added vdev takes at most.
const AREA_PART: u64 = 8;

/// The vdevs with an area that the journal should be on: those for the journal, or else all.
pub(super) fn preferred(vdevs: impl Iterator<Item = (VdevId, VdevEntry)>) -> Vec<VdevId> {
    let mut with: Vec<_> = vdevs.filter(|(_, entry)| entry.has_journal).collect();
    let is_log = |(_, entry): &(VdevId, VdevEntry)| entry.class == VdevClass::Log;
    if with.iter().any(is_log) {
        with.retain(is_log);
    }
    with.into_iter().map(|(id, _)| id).collect()
}

/// Whether a new vdev gets an area for the journal: it is a small part of the vdev.
pub(super) fn takes_area(journal: JournalLayout, vdev: &VdevEntry) -> bool {
    let with = VdevEntry {
        has_journal: true,
        ..*vdev
    };
    journal.size_on_member(&with) <= vdev.data_size / AREA_PART
}

impl Vdevs {
    /// The ring of the journal, as labels have it. During a move, the old one.
    #[must_use]
    pub fn ring(&self) -> Ring {
        self.ring_of(&self.shared().rings.now)
    }

    /// The ring that has a segment of the journal; `None` if the journal has moved away from it.
    #[must_use]
    pub fn ring_with(&self, segment: u64) -> Option<Ring> {
        let ring = self.shared().rings.with_segment(segment).cloned();
        Some(self.ring_of(&ring?))
    }

    /// Places of a ring's segments, which alternate between its vdevs.
    fn ring_of(&self, ring: &JournalRing) -> Ring {
        let size = u64::from(self.journal.segment_size);
        let slots = 0..u64::from(self.journal.segments);
        let segments = slots.flat_map(|slot| {
            let at = move |vdev: &VdevId| Address {
                vdev: *vdev,
                offset: VdevOffset(slot * size),
            };
            ring.vdevs.iter().map(at)
        });
        Ring {
            pool: self.pool,
            first: ring.first,
            segments: segments.collect(),
            segment_size: self.journal.segment_size,
            sector: self.sector(),
        }
    }

    /// The vdevs that have segments of the journal, or to which it moves.
    #[must_use]
    pub fn journal_rings(&self) -> JournalRings {
        self.shared().rings.clone()
    }

    /// The vdevs that can have the journal: those with an area for it.
    #[must_use]
    pub fn journal_areas(&self) -> Vec<VdevId> {
        let with = self.stripe.iter().filter(|top| top.entry().has_journal);
        with.map(super::TopVdev::id).collect()
    }

    /// The vdevs that the journal should be on, without the vdev `leaving`: those for the journal, or else all with an area for it, up to
    /// the most segments. `None` if they cannot have it.
    pub(crate) fn journal_vdevs(&self, leaving: Option<VdevId>) -> Option<Vec<VdevId>> {
        let tops = self.stripe.iter().map(|top| (top.id(), top.entry()));
        let mut vdevs = preferred(tops.filter(|(id, _)| Some(*id) != leaving));
        let most = JOURNAL_SEGMENTS_MAX / u64::from(self.journal.segments);
        vdevs.truncate(most as usize);
        (self.segments_on(&vdevs) >= 2).then_some(vdevs)
    }

    /// Bytes of the smallest disk that can be a log of this pool.
    #[must_use]
    pub fn log_size_min(&self) -> u64 {
        least_size(self.journal.size()).max(DISK_SIZE_MIN)
    }

    /// Whether a vdev is for the journal only.
    pub(crate) fn is_log(&self, vdev: VdevId) -> bool {
        self.top(vdev).is_some_and(super::TopVdev::is_log)
    }

    /// Whether a vdev is for nodes and small records.
    pub(crate) fn is_special(&self, vdev: VdevId) -> bool {
        self.top(vdev).is_some_and(super::TopVdev::is_special)
    }

    /// The vdevs for the journal that take no writes any longer, and are not removed yet.
    pub(crate) fn gone_logs(&self) -> Vec<VdevId> {
        let gone = self.stripe.all();
        let gone = gone.filter(|top| top.is_gone() && !top.is_removed());
        gone.map(super::TopVdev::id).collect()
    }

    /// The vdevs for the journal that failed since the pool was opened, with removed ones.
    pub(crate) fn failed_logs(&self) -> Vec<VdevId> {
        let failed = self.stripe.all().filter(|top| top.is_gone());
        failed.map(super::TopVdev::id).collect()
    }

    /// Segments that a ring on some vdevs has.
    pub(crate) fn segments_on(&self, vdevs: &[VdevId]) -> u64 {
        vdevs.len() as u64 * u64::from(self.journal.segments)
    }

    /// Begins a move of the journal, whose head is in segment `head`: labels durably have the new ring when the call returns. It
    /// is returned.
    ///
    /// # Errors
    /// [`SetupError::Device`], [`SetupError::FileSystemFull`]: labels may have the ring or not.
    pub(crate) async fn begin_journal_move(
        &self,
        to: &[VdevId],
        head: u64,
    ) -> std::result::Result<Ring, SetupError> {
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        let ring = {
            let rings = &mut self.shared().rings;
            rings.begin_move(to, head);
            rings.next.clone()
        };
        self.write_labels().await.map_err(SetupError::failed)?;
        Ok(self.ring_of(&ring.expect("it was set")))
    }

    /// Ends a move of the journal, or gives it up: only the ring with segment `tail` stays in labels. The newest uberblock is durable,
    /// and its journal starts in that segment.
    ///
    /// # Errors
    /// [`crate::Error::Device`], [`crate::Error::FileSystemFull`].
    pub(crate) async fn settle_journal(&self, tail: u64) -> Result<()> {
        let mut turn = self.labelling.enter(0..1);
        turn.come().await;
        let has_changed = self.shared().rings.settle(tail);
        match has_changed {
            true => self.write_labels().await,
            false => Ok(()),
        }
    }
}
