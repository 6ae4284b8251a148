//! Turns: the order of changes of one object.
//!
//! **Owns** the lock of each object. **Called by** all mutations. **Invariants**: a task that holds turns waits for another one
//! only in this order, which rules out a deadlock:
//!
//! 1. the turn of renames between directories, of which there is one;
//! 2. directories that get or lose a name: an ancestor before its descendants, unrelated ones by number;
//! 3. objects whose names change: directories before other objects, then by number.
//!
//! An object of step 3 is a child of a directory of step 2 or a new child of one, and is never above a directory of step 2. As
//! only renames between directories change who is above whom, and those take turns, a circle of waiting tasks would have to
//! go down the tree all the way around.
//!
//! A mutation enters the line of its object or directory when it is requested, so that mutations of one object take effect
//! in the order of their requests. A rename between directories enters the lines of its directories later.

use backend::{RangeLock, Turn};

use crate::format::ObjectId;
use crate::format::filesystem::HEADER_OBJECT;

/// The turns of a filesystem's objects.
#[derive(Default)]
pub(super) struct Turns(RangeLock);

impl Turns {
    /// A place in the line of an object, whose number is valid.
    pub(super) fn enter(&self, object: ObjectId) -> Turn {
        self.0.enter(object.0..object.0 + 1)
    }

    /// A place in the line of renames between directories.
    pub(super) fn enter_renames(&self) -> Turn {
        self.enter(HEADER_OBJECT)
    }

    /// Waits for the turn of an object.
    pub(super) async fn take(&self, object: ObjectId) -> Turn {
        let mut turn = self.enter(object);
        turn.come().await;
        turn
    }
}
