//! The pools of a server.
//!
//! **Owns** their entries; the tasks of a pool end with its entry. **Called by** the server, and by the operations beside this
//! file. **Invariant**: each pool of the configuration has an entry, open or not.

use super::entry::{PoolEntry, PoolState};
use pool::Pool;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The pools of the configuration, by name.
#[derive(Default)]
pub(crate) struct Pools(BTreeMap<String, PoolEntry>);

impl Pools {
    pub(super) fn insert(&mut self, name: &str, entry: PoolEntry) {
        self.0.insert(name.to_owned(), entry);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    pub(super) fn get(&self, name: &str) -> Option<&PoolEntry> {
        self.0.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &str) -> Option<&mut PoolEntry> {
        self.0.get_mut(name)
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// The state of a pool.
    pub(crate) fn state(&self, name: &str) -> Option<&PoolState> {
        self.0.get(name).map(|entry| &entry.state)
    }

    /// A pool, if it is open.
    pub(super) fn open(&self, name: &str) -> Option<&Rc<Pool>> {
        match self.state(name)? {
            PoolState::Online(pool) => Some(pool),
            PoolState::Opening | PoolState::Held(_) => None,
        }
    }

    /// All open pools, with their names.
    pub(super) fn all_open(&self) -> impl Iterator<Item = (&str, &Rc<Pool>)> {
        self.0
            .iter()
            .filter_map(|(name, entry)| match &entry.state {
                PoolState::Online(pool) => Some((name.as_str(), pool)),
                PoolState::Opening | PoolState::Held(_) => None,
            })
    }

    /// The entries of all open pools.
    pub(super) fn all_open_mut(&mut self) -> impl Iterator<Item = &mut PoolEntry> {
        let is_open = |entry: &&mut PoolEntry| matches!(entry.state, PoolState::Online(_));
        self.0.values_mut().filter(is_open)
    }

    /// Whether one of them is being opened for the first time.
    pub(crate) fn is_one_opening(&self) -> bool {
        let mut states = self.0.values().map(|entry| &entry.state);
        states.any(|state| matches!(state, PoolState::Opening))
    }
}
