//! State that the handles of a session share with its supervising task.
//!
//! **Called by** [`super::session`] and `recovery`.

use super::config::Config;
use super::queue::Queue;
use super::sense::Sense;
use super::state::{Event, Stats};
use initiator::LinkState;
use io::sync::Notify;
use iscsi::wire::Lun;
use std::cell::Cell;
use std::rc::Rc;

/// See the module header.
pub(super) struct Inner {
    pub(super) config: Config,
    pub(super) state: Cell<LinkState>,
    pub(super) queue: Queue,
    pub(super) stats: Cell<Stats>,
    /// Notified when the connection breaks, and when this side closes.
    pub(super) wake: Rc<Notify>,
    pub(super) closing: Cell<bool>,
}

impl Inner {
    /// Changes the state, and wakes tasks that wait for events.
    pub(super) fn enter(&self, state: LinkState) {
        self.state.set(state);
        self.queue.events().notify();
    }

    /// Changes the counts.
    pub(super) fn count(&self, f: impl FnOnce(&mut Stats)) {
        let mut stats = self.stats.get();
        f(&mut stats);
        self.stats.set(stats);
    }

    /// Counts and stores a unit attention.
    pub(super) fn attention(&self, lun: Lun, sense: Sense) {
        if sense.is_reset() {
            self.count(|s| s.resets += 1);
        }
        self.queue
            .with_engine(|e| e.tell(Event::Attention(lun, sense)));
        self.queue.events().notify();
    }
}
