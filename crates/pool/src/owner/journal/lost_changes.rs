//! Changes that a pool lost with its journal: the log is missing, and the pool was opened without it by consent.
//!
//! The batches since the newest checkpoint are gone, and with them the names of the datasets that they changed. What the checkpoints on the disks still tell is which
//! datasets changed shortly before, and in which of them each changed last.
//!
//! **Owns** this report. **Called by** the opening, and by [`Pool`]'s users. **Invariant**: it claims nothing about single writes. `docs/decisions/0184`.

use super::state::{LastChange, LostChanges};
use crate::format::{Birth, Uberblock};
use crate::owner::{Pool, State};
use io::sync::lock;

impl State {
    /// The report of a pool that is opened at the checkpoint `newest`. `checkpoints` are on the disks, newest first.
    pub(in crate::owner) fn lost_changes(
        &self,
        newest: &Uberblock,
        checkpoints: &[Uberblock],
    ) -> LostChanges {
        let ms = |time: u64| time / 1_000_000;
        let older: Vec<_> = checkpoints
            .iter()
            .filter(|u| u.sequence <= newest.sequence)
            .collect();
        let oldest = older.last().copied().unwrap_or(newest);
        // the first checkpoint whose epoch is not below that of the root
        let time_of = |birth: Birth| {
            let of = older.iter().rev().find(|u| u.epoch >= birth);
            of.map_or(newest.time, |u| u.time)
        };
        let volumes = self.datasets.volumes();
        let changed = volumes.filter_map(|dataset| {
            let state = lock(&dataset.state);
            let root = state.layers.root()?;
            (root.birth > oldest.epoch).then(|| LastChange {
                dataset: state.dataset.name.clone(),
                time_ms: ms(time_of(root.birth)),
            })
        });
        let mut changed: Vec<_> = changed.collect();
        changed.sort_by(|a, b| (b.time_ms, &a.dataset).cmp(&(a.time_ms, &b.dataset)));
        LostChanges {
            since_ms: ms(newest.time),
            known_ms: ms(oldest.time),
            changed,
        }
    }
}

impl Pool {
    /// The changes that were lost with the journal, if the pool was opened without it by consent.
    #[must_use]
    pub fn lost_changes(&self) -> Option<LostChanges> {
        self.owner.journal_moves.lost_changes.borrow().clone()
    }
}
