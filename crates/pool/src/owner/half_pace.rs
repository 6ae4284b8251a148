//! The pace of work that rests as long as it works while clients write: the moves of an expansion, and the copies of a removal.
//!
//! **Owns** the rests between two parts of the work. **Called by** the expander and the remover. **Invariant**: without writes of clients there is no rest.

use std::cell::Cell;
use std::time::Duration;

use io::time::{Instant, now, sleep};

use crate::owner::Owner;

/// The begin of a part of the work, and the bytes that clients had written until then.
pub(super) struct HalfPace<'a> {
    owner: &'a Owner,
    written: Cell<u64>,
    began: Cell<Instant>,
}

impl<'a> HalfPace<'a> {
    /// A part of the work begins.
    pub(super) fn new(owner: &'a Owner) -> Self {
        Self {
            owner,
            written: Cell::new(0),
            began: Cell::new(now()),
        }
    }

    /// The next part begins.
    pub(super) fn begin(&self) {
        self.began.set(now());
    }

    /// The time since the part began.
    pub(super) fn took(&self) -> Duration {
        self.began.get().elapsed()
    }

    /// Rests after a part, unless the work ends (`may_rest`). Then the next part begins.
    pub(super) async fn rest(&self, may_rest: bool) {
        let written = self.owner.shared.vdevs.written();
        let by_clients = written.data + written.journal;
        if self.written.replace(by_clients) < by_clients && may_rest {
            sleep(self.took()).await;
        }
        self.begin();
    }
}
