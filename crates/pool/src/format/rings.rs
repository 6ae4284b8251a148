//! Rings of the journal in labels: the vdevs that have the journal's segments, or will have them.
//!
//! **Owns** the choice of the ring that has a segment. **Called by** labels, and by the devices. **Invariants**:
//! segments are numbered for ever; each segment is in one ring, or in none if its ring is gone; the next ring
//! begins behind all segments that were written. `docs/format.md`, "Labels"; `docs/decisions/0181`.

use super::VdevId;

/// Segments between the head of the journal and the first one of the ring to which it moves: more than are written before the move
/// ends, or before it is given up.
const GAP: u64 = 1 << 32;

/// A ring of segments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalRing {
    /// Number of its first segment.
    pub first: u64,
    /// The vdevs that have its segments, by index.
    pub vdevs: Vec<VdevId>,
}

/// The rings of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct JournalRings {
    /// The ring of the journal.
    pub now: JournalRing,
    /// While the journal moves: the ring to which it moves. A checkpoint whose journal starts in it ends the move.
    pub next: Option<JournalRing>,
}

impl JournalRings {
    /// The ring of a pool whose journal has never moved.
    #[must_use]
    pub fn new(vdevs: Vec<VdevId>) -> Self {
        let now = JournalRing { first: 0, vdevs };
        Self { now, next: None }
    }

    /// The ring that has a segment; `None` if the journal has moved away from it.
    #[must_use]
    pub fn with_segment(&self, segment: u64) -> Option<&JournalRing> {
        self.all().find(|ring| ring.first <= segment)
    }

    /// Whether a journal that starts in a segment is on a vdev.
    #[must_use]
    pub fn is_on(&self, segment: u64, vdev: VdevId) -> bool {
        let ring = self.with_segment(segment);
        ring.is_some_and(|ring| ring.vdevs.contains(&vdev))
    }

    /// Whether a vdev has segments, or will have some.
    #[must_use]
    pub fn has(&self, vdev: VdevId) -> bool {
        self.all().any(|ring| ring.vdevs.contains(&vdev))
    }

    /// Begins a move to some vdevs, while the journal's head is in segment `head`.
    pub(crate) fn begin_move(&mut self, vdevs: &[VdevId], head: u64) {
        let known = self.next.as_ref().map_or(0, |next| next.first);
        let first = known.max(self.now.first).max(head) + GAP;
        let vdevs = vdevs.to_vec();
        self.next = Some(JournalRing { first, vdevs });
    }

    /// Leaves all rings, which are lost with the journal: the next one is on some vdevs. The journal's last known segment is `head`.
    pub(crate) fn leave(&mut self, vdevs: &[VdevId], head: u64) {
        self.begin_move(vdevs, head);
        let first = self.next.as_ref().map_or(0, |next| next.first);
        self.settle(first);
    }

    /// Forgets the ring that does not have segment `tail`, in which the newest checkpoint's journal starts. False if there is none.
    pub(crate) fn settle(&mut self, tail: u64) -> bool {
        let Some(next) = self.next.take() else {
            return false;
        };
        if next.first <= tail {
            self.now = next;
        }
        true
    }

    /// The rings: the next one, and the present one.
    pub(super) fn all(&self) -> impl Iterator<Item = &JournalRing> {
        self.next.iter().chain([&self.now])
    }
}

#[cfg(test)]
mod tests;
