//! The queue of changes for group commit.
//!
//! **Owns** the order of the changes, and the choice of a group. **Called by** [`crate::grouped`]. **Invariants**: a group has changes in the order of
//! their arrival, and no two that name the same object; a change that is left out stays in front of later ones with its names.

use crate::Result;
use crate::config::Edit;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};

/// A change in the queue, and its client.
pub(crate) trait QueuedChange<S> {
    /// The names of the objects that the change looks at or changes.
    fn names(&self) -> Vec<String>;
    /// The edits. Errors: why the change is refused.
    fn plan(&mut self, server: &S) -> Result<Vec<Box<dyn Edit>>>;
    /// Answers the client: `written` is the end of the write.
    fn end(self: Box<Self>, server: &S, written: Result<()>);
}

/// A change with its number.
type Numbered<S> = (u64, Box<dyn QueuedChange<S>>);

/// The changes that wait for the next group, by number in the order of their arrival.
pub(crate) struct Groups<S> {
    waiting: RefCell<VecDeque<Numbered<S>>>,
    last: Cell<u64>,
}

impl<S> Default for Groups<S> {
    fn default() -> Groups<S> {
        Groups {
            waiting: RefCell::default(),
            last: Cell::new(0),
        }
    }
}

impl<S> Groups<S> {
    /// Adds a change; returns its number.
    pub(crate) fn add(&self, change: Box<dyn QueuedChange<S>>) -> u64 {
        self.last.set(self.last.get() + 1);
        let number = self.last.get();
        self.waiting.borrow_mut().push_back((number, change));
        number
    }

    /// Removes a change. True if it was still waiting.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let before = waiting.len();
        waiting.retain(|(n, _)| *n != number);
        waiting.len() < before
    }

    /// Whether a change is still waiting.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.waiting.borrow().iter().any(|(n, _)| *n == number)
    }

    /// Removes the next group: changes in the order of their arrival, without a change that names an object of an earlier one.
    pub(crate) fn next(&self) -> Vec<Box<dyn QueuedChange<S>>> {
        let mut named = BTreeSet::new();
        let mut group = Vec::new();
        let mut later = VecDeque::new();
        for (number, change) in self.waiting.take() {
            let names = change.names();
            let is_apart = names.iter().all(|name| !named.contains(name));
            named.extend(names);
            match is_apart {
                true => group.push(change),
                false => later.push_back((number, change)),
            }
        }
        *self.waiting.borrow_mut() = later;
        group
    }
}
