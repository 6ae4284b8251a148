//! Gate: the bound of requests in flight.
//!
//! **Owns** the number of requests that were taken from the kernel and not answered. **Called by** session threads (which
//! wait here), and by the end of a mount, which waits for the last answer. **Invariants**: the number never exceeds the
//! limit; a place is given back once, also if its task is dropped.

use io::sync::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

struct Load {
    in_flight: usize,
    limit: usize,
}

struct Inner {
    state: Mutex<Load>,
    changed: Condvar,
}

/// A bound of requests in flight. Clones share it.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Inner>);

/// A request's place. Dropping it lets another request in.
pub(crate) struct Place(Gate);

impl Gate {
    /// A gate for `limit` requests.
    pub(crate) fn new(limit: usize) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::new(Load {
                in_flight: 0,
                limit,
            }),
            changed: Condvar::new(),
        }))
    }

    /// Waits for a place. Blocks the thread.
    pub(crate) fn enter(&self) -> Place {
        let mut state = lock(&self.0.state);
        while state.in_flight >= state.limit {
            let woken = self.0.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
        state.in_flight += 1;
        Place(self.clone())
    }

    /// Waits until no request is in flight. Blocks the thread.
    pub(crate) fn drained(&self) {
        let mut state = lock(&self.0.state);
        while state.in_flight > 0 {
            let woken = self.0.changed.wait(state);
            state = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        lock(&self.0.state).in_flight
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let inner = &self.0.0;
        lock(&inner.state).in_flight -= 1;
        inner.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_gate_opens_with_the_first_place_that_is_given_back() {
        let gate = Gate::new(2);
        let (first, second) = (gate.enter(), gate.enter());
        let other = gate.clone();
        let waits = std::thread::spawn(move || drop(other.enter()));
        assert_eq!(gate.in_flight(), 2);
        drop(first);
        waits.join().unwrap();
        drop(second);
        gate.drained();
        assert_eq!(gate.in_flight(), 0);
    }
}
