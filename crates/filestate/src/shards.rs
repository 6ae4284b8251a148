//! The table of states in shards by file, so that clients which use other files do not wait for each other.
//!
//! **Owns** [`States`]. **Called by** the service, on any shard of the server. **Invariants**: every state of a file is in the shard of the
//! file, so that a conflict is decided and taken in one step under one lock, and the number of a state names its shard; at most one shard is locked at a
//! time, so that shards have no order. A file system is withdrawn in all shards or in none.

use crate::Waiter;
use crate::limits::STATE_SHARDS;
use crate::names::StateNames;
use crate::table::Table;
use crate::totals::Totals;
use crate::{StateError, Stateid};
use backend::file::{Handle, Hold};
use io::sync::lock;
use io::time::Instant;
use siphasher::sip::SipHasher13;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hasher;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// All opens, lock states and delegations.
#[derive(Debug)]
pub struct States {
    shards: Box<[Mutex<Table>]>,
    names: StateNames,
    totals: Arc<Totals>,
}

impl States {
    /// No states. `instance` and `key` are random, as for [`Table::new`].
    #[must_use]
    pub fn new(instance: u32, key: [u8; 16]) -> Self {
        Self::with_shards(STATE_SHARDS, instance, key)
    }

    /// The same, of this many shards, at most [`STATE_SHARDS`].
    #[must_use]
    pub fn with_shards(shards: u64, instance: u32, key: [u8; 16]) -> Self {
        let totals = Arc::new(Totals::default());
        let table = |n| Mutex::new(Table::shard(n, instance, key, totals.clone()));
        Self {
            shards: (0..shards.clamp(1, STATE_SHARDS)).map(table).collect(),
            names: StateNames::new(key),
            totals,
        }
    }

    fn number(&self, n: u64) -> MutexGuard<'_, Table> {
        lock(&self.shards[n as usize % self.shards.len()])
    }

    /// The shard of a file.
    pub fn of_file(&self, file: Handle) -> MutexGuard<'_, Table> {
        // Clients do not choose these numbers, but they are consecutive.
        let mut hasher = SipHasher13::new();
        hasher.write_u64(file.filesystem);
        hasher.write_u64(file.object);
        self.number(hasher.finish())
    }

    /// The shard of the state with this number.
    pub fn of_state(&self, id: u64) -> MutexGuard<'_, Table> {
        self.number(id % STATE_SHARDS)
    }

    /// The shard of a stateid; any for a stateid that was never given out.
    pub fn of_stateid(&self, stateid: &Stateid) -> MutexGuard<'_, Table> {
        let (_, name) = stateid.other.split_at(4);
        let name = name.try_into().map_or(0, u64::from_be_bytes);
        self.of_state(self.names.number(name))
    }

    fn all(&self) -> impl Iterator<Item = MutexGuard<'_, Table>> {
        self.shards.iter().map(lock)
    }

    /// Number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.totals.states()
    }

    /// Whether there are no states, and nothing is kept about any file or client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all().all(|table| table.is_empty())
    }

    /// Limits the number of states.
    pub fn limit_states(&self, max: usize) {
        self.totals.limit_states(max);
    }

    /// Limits the number of delegations.
    pub fn limit_delegations(&self, max: usize) {
        self.totals.limit_delegations(max);
    }

    /// Number of delegations.
    #[must_use]
    pub fn delegations(&self) -> usize {
        self.totals.delegations()
    }

    /// Whether less than an eighth of the possible delegations is left.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.totals.is_crowded()
    }

    /// The clients with the most delegations, and their numbers.
    #[must_use]
    pub fn holders(&self, most: usize) -> Vec<(u64, usize)> {
        let mut counts: HashMap<u64, usize> = HashMap::new();
        for table in self.all() {
            for client in table.delegation_clients() {
                *counts.entry(client).or_default() += 1;
            }
        }
        let mut counts: Vec<(u64, usize)> = counts.into_iter().collect();
        counts.sort_by_key(|(client, count)| (std::cmp::Reverse(*count), *client));
        counts.truncate(most);
        counts
    }

    /// Whether a client has states.
    #[must_use]
    pub fn has_state(&self, client: u64) -> bool {
        self.totals.of_client(client) > 0
    }

    /// Numbers of opens, lock states and delegations of a client.
    #[must_use]
    pub fn count_of(&self, client: u64) -> (usize, usize, usize) {
        let counts = self.all().map(|table| table.count_of(client));
        counts.fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))
    }

    /// Removes all states of a client. Returns the holds of its files.
    pub fn forget(&self, client: u64) -> Vec<Hold> {
        self.all()
            .flat_map(|mut table| table.forget(client))
            .collect()
    }

    /// Whether a client has stateids that it did not free and that were revoked after a recall, and by the administrator.
    #[must_use]
    pub fn has_revoked(&self, client: u64) -> (bool, bool) {
        let all = self.all().map(|table| table.has_revoked(client));
        all.fold((false, false), |a, b| (a.0 || b.0, a.1 || b.1))
    }

    /// TEST_STATEID (§18.48): [`Table::test`]. Errors: the same.
    pub fn test(&self, client: u64, stateid: &Stateid) -> Result<(), StateError> {
        self.of_stateid(stateid).test(client, stateid)
    }

    /// A flag that is set while [`States::due_waiters`] may have something.
    #[must_use]
    pub fn freed(&self) -> Arc<AtomicBool> {
        self.totals.freed.clone()
    }

    /// The waiters whose locks are free now: [`Table::due_waiters`] of all shards.
    pub fn due_waiters(&self, now: Instant) -> Vec<Waiter> {
        // A lock that is freed from here on sets the flag again.
        self.totals.freed.store(false, Ordering::Release);
        self.all()
            .flat_map(|mut table| table.due_waiters(now))
            .collect()
    }

    /// A file system is not exported from now on. Returns the holds of its files.
    pub fn withdraw(&self, filesystem: u64, now: Instant) -> Vec<Hold> {
        let mut holds = Vec::new();
        let mut has_states = false;
        for mut table in self.all() {
            let (found, of_table) = table.withdraw(filesystem);
            has_states |= found;
            holds.extend(of_table);
        }
        if has_states {
            self.all()
                .for_each(|mut table| table.note_withdrawn(filesystem, now));
        }
        holds
    }

    /// A file system is exported again. Returns the states that need a hold of their file, with these.
    pub fn restore(&self, filesystem: u64) -> Vec<(u64, Handle)> {
        self.all()
            .flat_map(|mut table| table.restore(filesystem))
            .collect()
    }

    /// Takes the file systems that were withdrawn at `at` or earlier.
    pub fn take_overdue(&self, at: Instant) -> BTreeSet<u64> {
        self.all()
            .flat_map(|mut table| table.take_overdue(at))
            .collect()
    }

    /// No delegation of a file of this file system is granted until [`States::restore`]. Returns the files with delegations.
    pub fn freeze(&self, filesystem: u64) -> Vec<Handle> {
        self.all()
            .flat_map(|mut table| table.freeze(filesystem))
            .collect()
    }

    /// Revokes the states for which `is_theirs` holds, given number, client and file. Returns the holds of their files, and their
    /// clients.
    pub fn revoke_all(
        &self,
        is_theirs: impl Fn(u64, u64, Handle) -> bool,
    ) -> (Vec<Hold>, BTreeSet<u64>) {
        let mut all = (Vec::new(), BTreeSet::new());
        for mut table in self.all() {
            let (holds, clients) = table.revoke_all(&is_theirs);
            all.0.extend(holds);
            all.1.extend(clients);
        }
        all
    }
}

#[cfg(test)]
impl States {
    /// Which shards nobody has locked.
    pub(crate) fn free(&self) -> Vec<bool> {
        self.shards
            .iter()
            .map(|shard| shard.try_lock().is_ok())
            .collect()
    }
}
