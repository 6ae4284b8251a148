//! Open files, and the list of orphans that can be freed.
//!
//! **Owns** the count of holds of each open object. **Called by** opening, removals and the freeing of orphans.
//! **Invariants**: an object with a hold is never freed; an orphan without one is on the list, or will be found by a pass over
//! all orphans; the list has at most [`READY_MAX`] objects.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard};

use io::sync::Bell;

use crate::format::ObjectId;
use io::sync::lock;

/// Most orphans on the list. A pass over all orphans finds more.
const READY_MAX: usize = 4096;

#[derive(Default)]
struct Open {
    holds: u64,
    /// It has lost its last name.
    is_orphan: bool,
}

/// Locked holds: no object is opened or closed meanwhile.
#[derive(Default)]
pub(super) struct State {
    open: BTreeMap<ObjectId, Open>,
    ready: VecDeque<ObjectId>,
    /// A pass over all orphans is due: from this one on.
    pass: Option<ObjectId>,
}

/// The holds of a filesystem.
pub(super) struct Holds {
    state: Mutex<State>,
    bell: Bell,
}

impl State {
    pub(super) fn is_open(&self, object: ObjectId) -> bool {
        self.open.contains_key(&object)
    }

    /// Notes that an object has become an orphan. It is freed once it is not open.
    pub(super) fn orphaned(&mut self, object: ObjectId) {
        match self.open.get_mut(&object) {
            Some(open) => open.is_orphan = true,
            None => self.free_later(object),
        }
    }

    fn free_later(&mut self, object: ObjectId) {
        match self.ready.len() < READY_MAX {
            true => self.ready.push_back(object),
            false => self.pass = Some(ObjectId(0)),
        }
    }

    /// An orphan to be freed next.
    pub(super) fn take_ready(&mut self) -> Option<ObjectId> {
        self.ready.pop_front()
    }

    /// Where the pass over all orphans continues; `None` if none is due.
    pub(super) fn pass(&self) -> Option<ObjectId> {
        self.pass
    }

    /// Sets where the pass over all orphans continues.
    pub(super) fn set_pass(&mut self, from: Option<ObjectId>) {
        self.pass = from;
    }
}

impl Holds {
    /// Nothing is open, and a pass over all orphans is due.
    pub(super) fn new() -> Self {
        let state = State {
            pass: Some(ObjectId(0)),
            ..State::default()
        };
        Self {
            state: Mutex::new(state),
            bell: Bell::new(),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Holds an object. Returns whether it was open before.
    pub(super) fn hold(&self, object: ObjectId) -> bool {
        let mut state = self.lock();
        let open = state.open.entry(object).or_default();
        open.holds += 1;
        open.holds > 1
    }

    pub(super) fn release(&self, object: ObjectId) {
        let mut state = self.lock();
        let Some(open) = state.open.get_mut(&object) else {
            return;
        };
        open.holds -= 1;
        if open.holds > 0 {
            return;
        }
        let is_orphan = open.is_orphan;
        state.open.remove(&object);
        if is_orphan {
            state.free_later(object);
            drop(state);
            self.ring();
        }
    }

    /// Wakes the task that frees orphans.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }

    /// Waits until there may be orphans to free.
    pub(super) async fn rung(&self) {
        self.bell.rung().await;
    }
}
