//! Walks over the trees of all datasets, one part of about 1 MiB at a time.
//!
//! **Owns** the position of a walk, the pause of a dataset (`autodefrag`) and the rests between parts. **Called by** the balance mover, the class
//! mover and the region mover. **Invariant**: a part is done as a whole, so that more urgent moves come between two parts.

use std::rc::Rc;

use io::time::Instant;

use super::state::Moves;
use super::walk::{Chosen, FoundRecords, Walked};
use super::walks::Position;
use crate::Result;
use crate::format::Autodefrag;
use crate::owner::Owner;

/// How a part of a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartEnd {
    /// The walk goes on.
    More,
    /// All trees were walked.
    Done,
    /// No space is left for moves.
    NoSpace,
    /// The pool closes, or takes no changes.
    Stopped,
}

/// Whether a mover rests that begins no walk before this time.
pub(super) fn rests(until: Option<Instant>) -> bool {
    until.is_some_and(|until| io::time::now() < until)
}

impl Owner {
    /// The begin of a walk over all volumes and filesystems.
    pub(super) fn begin_walk(&self) -> Position {
        let state = self.state.borrow();
        Position::of(state.datasets.volumes().map(|volume| volume.id).collect())
    }

    /// Moves the chosen records of the next part, and rests.
    ///
    /// # Errors
    /// Those of a checkpoint, and of reads other than damage.
    pub(super) async fn step(
        self: &Rc<Self>,
        position: &mut Position,
        chosen: Chosen<'_>,
        purpose: Moves,
    ) -> Result<PartEnd> {
        let Some((tree, from)) = position.next() else {
            return Ok(PartEnd::Done);
        };
        let volume = self.state.borrow().datasets.get(tree).cloned();
        let volume = volume.filter(|volume| {
            !volume.is_snapshot() && volume.settings.autodefrag() != Autodefrag::Off
        });
        let Some(volume) = volume else {
            position.go_on(None);
            return Ok(PartEnd::More);
        };
        let pace = self.begin_pace();
        let before = self.mover.moved_for(purpose);
        let FoundRecords { records, next } = self.find_records(&volume, chosen, from).await?;
        position.go_on(next);
        if !records.is_empty() {
            let moves = self.read_records(&volume, records).await?;
            match self.rewrite(&volume, moves, purpose).await? {
                Walked::Whole => {}
                Walked::Exhausted => return Ok(PartEnd::NoSpace),
                Walked::Stopped => return Ok(PartEnd::Stopped),
            }
        }
        let moved = self.mover.moved_for(purpose) - before;
        self.keep_pace(pace, volume.settings.autodefrag(), moved)
            .await;
        io::yield_now().await;
        Ok(PartEnd::More)
    }
}
