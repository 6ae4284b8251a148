//! Walks over the trees of all datasets, one part of about 1 MiB at a time.
//!
//! **Owns** the position of a walk, the pause of a dataset (`autodefrag`) and the rests between parts. **Called by** the balance mover and
//! the region mover. **Invariant**: a part is done as a whole, so that more urgent moves come between two parts.

use std::rc::Rc;

use super::state::Moves;
use super::walk::{Chosen, Part, Walked};
use crate::Result;
use crate::format::{Autodefrag, Key, TreeId};
use crate::owner::Owner;

/// The position of a walk.
pub(super) struct Position {
    /// The datasets that are left, the next one last.
    left: Vec<TreeId>,
    /// Where the next part begins.
    at: Key,
}

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// The walk goes on.
    More,
    /// All trees were walked, or no space is left for moves.
    Done,
    /// The pool closes, or takes no changes.
    Stopped,
}

impl Position {
    /// The next part begins here; without a key, with the next dataset.
    fn go_on(&mut self, next: Option<Key>) {
        self.at = next.unwrap_or(Key::START);
        if next.is_none() {
            self.left.pop();
        }
    }
}

impl Owner {
    /// The begin of a walk over all volumes and filesystems.
    pub(super) fn begin_walk(&self) -> Position {
        let state = self.state.borrow();
        Position {
            left: state.datasets.volumes().map(|volume| volume.id).collect(),
            at: Key::START,
        }
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
    ) -> Result<Step> {
        let Some(tree) = position.left.last().copied() else {
            return Ok(Step::Done);
        };
        let volume = self.state.borrow().datasets.get(tree).cloned();
        let volume = volume.filter(|volume| {
            !volume.is_snapshot() && volume.settings.autodefrag() != Autodefrag::Off
        });
        let Some(volume) = volume else {
            position.go_on(None);
            return Ok(Step::More);
        };
        let pace = self.begin_pace();
        let before = self.mover.moved_for(purpose);
        let Part { records, next } = self.find_records(&volume, chosen, position.at).await?;
        position.go_on(next);
        if !records.is_empty() {
            let moves = self.read_records(&volume, records).await?;
            match self.rewrite(&volume, moves, purpose).await? {
                Walked::Whole => {}
                Walked::Exhausted => return Ok(Step::Done),
                Walked::Stopped => return Ok(Step::Stopped),
            }
        }
        let moved = self.mover.moved_for(purpose) - before;
        self.keep_pace(pace, volume.settings.autodefrag(), moved)
            .await;
        io::yield_now().await;
        Ok(Step::More)
    }
}
