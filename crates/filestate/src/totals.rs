//! Numbers that all shards of the table of states have together, and their limits.
//!
//! **Owns** [`Totals`]. **Called by** every shard, when a state or a waiter comes or goes. **Invariants**: each number is that of the shards
//! together; a limit is exceeded by at most one for each shard that adds something at the same time.

use crate::limits::{DELEGATIONS_MAX, STATES_MAX, STATES_OF_CLIENT_MIN};
use io::sync::lock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Parts of the numbers by client.
const PARTS: u64 = 16;

/// See the module header.
#[derive(Debug)]
pub(crate) struct Totals {
    states: AtomicUsize,
    states_max: AtomicUsize,
    /// Numbers of states by client, in parts by client.
    by_client: [Mutex<HashMap<u64, usize>>; PARTS as usize],
    delegations: AtomicUsize,
    delegations_max: AtomicUsize,
    /// Lock owners that wait.
    pub(crate) waiting: AtomicUsize,
    /// Whether locks were freed that lock owners wait for.
    pub(crate) freed: Arc<AtomicBool>,
}

impl Default for Totals {
    fn default() -> Self {
        Self {
            states: AtomicUsize::new(0),
            states_max: AtomicUsize::new(STATES_MAX),
            by_client: Default::default(),
            delegations: AtomicUsize::new(0),
            delegations_max: AtomicUsize::new(DELEGATIONS_MAX),
            waiting: AtomicUsize::new(0),
            freed: Arc::default(),
        }
    }
}

impl Totals {
    fn part(&self, client: u64) -> &Mutex<HashMap<u64, usize>> {
        &self.by_client[(client % PARTS) as usize]
    }

    /// A client has one more state.
    pub(crate) fn came(&self, client: u64) {
        self.states.fetch_add(1, Ordering::Relaxed);
        *lock(self.part(client)).entry(client).or_default() += 1;
    }

    /// A client has one state less.
    pub(crate) fn went(&self, client: u64) {
        self.states.fetch_sub(1, Ordering::Relaxed);
        let mut part = lock(self.part(client));
        if let Some(count) = part.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                part.remove(&client);
            }
        }
    }

    /// Number of states of a client.
    pub(crate) fn of_client(&self, client: u64) -> usize {
        lock(self.part(client)).get(&client).copied().unwrap_or(0)
    }

    /// Number of states.
    pub(crate) fn states(&self) -> usize {
        self.states.load(Ordering::Relaxed)
    }

    pub(crate) fn limit_states(&self, max: usize) {
        self.states_max.store(max, Ordering::Relaxed);
    }

    /// Whether a client may have one more state: it has fewer than are free, which leaves room for other clients.
    pub(crate) fn has_room(&self, client: u64) -> bool {
        let max = self.states_max.load(Ordering::Relaxed);
        let left = max.saturating_sub(self.states());
        left > 0 && self.of_client(client) < left.max(STATES_OF_CLIENT_MIN)
    }

    pub(crate) fn granted(&self) {
        self.delegations.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn ended(&self) {
        self.delegations.fetch_sub(1, Ordering::AcqRel);
    }

    /// Number of delegations.
    pub(crate) fn delegations(&self) -> usize {
        self.delegations.load(Ordering::Acquire)
    }

    pub(crate) fn limit_delegations(&self, max: usize) {
        self.delegations_max.store(max, Ordering::Relaxed);
    }

    /// Delegations that may be granted.
    pub(crate) fn delegations_left(&self) -> usize {
        let max = self.delegations_max.load(Ordering::Relaxed);
        max.saturating_sub(self.delegations())
    }

    /// Whether less than an eighth of the possible delegations is left.
    pub(crate) fn is_crowded(&self) -> bool {
        let max = self.delegations_max.load(Ordering::Relaxed);
        self.delegations_left() < max.div_ceil(8)
    }
}
