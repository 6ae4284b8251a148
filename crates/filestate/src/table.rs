//! The opens, lock states and delegations of the files of one shard.
//!
//! **Owns** [`Table`]. **Called by** the service, under the lock of the shard. **Invariants**: each state is in the lists of its file and of
//! its client; a file is in the table while it has a state, or a lock owner waits for a lock of it; a lock state belongs to an open of the same file and goes with it.

use crate::entry::{File, Kind, Register, State, Withdrawn};
use crate::limits::STATE_SHARDS;
use crate::names::StateNames;
use crate::ranges::Range;
use crate::totals::Totals;
use crate::{StateError, Stateid};
use backend::file::{Handle, Hold};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A lock that excludes another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// Its bytes.
    pub range: Range,
    /// Whether it excludes every other lock.
    pub is_exclusive: bool,
    /// Its client.
    pub client: u64,
    /// Its lock owner.
    pub owner: Vec<u8>,
}

/// Why an operation was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The stateid cannot be used.
    State(StateError),
    /// An open of this client conflicts.
    Share(u64),
    /// A lock conflicts.
    Lock(Denied),
    /// Delegations of other clients conflict: they must be recalled.
    Delegation,
    /// A limit is reached: of locks of this file, or of the states of the client or of all.
    Full(Option<Handle>),
}

impl From<StateError> for Refused {
    fn from(error: StateError) -> Self {
        Self::State(error)
    }
}

/// The states of the files of one shard.
#[derive(Debug)]
pub struct Table {
    /// Distinguishes stateids of this server instance from earlier ones.
    instance: u32,
    names: StateNames,
    /// The number of this shard.
    shard: u64,
    next: u64,
    pub(crate) totals: Arc<Totals>,
    pub(crate) states: HashMap<u64, State>,
    pub(crate) files: HashMap<Handle, File>,
    pub(crate) clients: HashMap<u64, BTreeSet<u64>>,
    pub(crate) register: Register,
    /// Files whose locks were freed while lock owners wait.
    pub(crate) freed: Vec<Handle>,
    pub(crate) withdrawn: Withdrawn,
}

pub(crate) type Result<T> = std::result::Result<T, Refused>;

impl Table {
    /// No states, in one shard. `instance` and `key` are random: the key makes stateids that nobody can guess.
    #[must_use]
    pub fn new(instance: u32, key: [u8; 16]) -> Self {
        Self::shard(0, instance, key, Arc::default())
    }

    /// The shard with this number, below [`STATE_SHARDS`].
    pub(crate) fn shard(shard: u64, instance: u32, key: [u8; 16], totals: Arc<Totals>) -> Self {
        Self {
            instance,
            names: StateNames::new(key),
            shard,
            next: 1,
            totals,
            states: HashMap::new(),
            files: HashMap::new(),
            clients: HashMap::new(),
            register: Register::default(),
            freed: Vec::new(),
            withdrawn: Withdrawn::default(),
        }
    }

    /// Number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether there are no states, and nothing is kept about any file or client.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty() && self.files.is_empty() && self.clients.is_empty()
    }

    /// Whether a client has states.
    #[must_use]
    pub fn has_state(&self, client: u64) -> bool {
        self.clients.contains_key(&client)
    }

    pub(crate) fn stateid(&self, id: u64) -> Stateid {
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.instance.to_be_bytes());
        other[4..].copy_from_slice(&self.names.name(id).to_be_bytes());
        let seqid = self.states.get(&id).map_or(0, |state| state.seqid);
        Stateid { seqid, other }
    }

    /// A state of a client (§8.2.4). Errors: `Unknown`, `Stale`, `Old`; `Revoked`.
    pub(crate) fn find(
        &self,
        client: u64,
        stateid: &Stateid,
    ) -> std::result::Result<u64, StateError> {
        let id = self.find_any(client, stateid)?;
        match self.states.get(&id).map(|state| &state.kind) {
            Some(Kind::Revoked(why)) => Err(StateError::Revoked(*why)),
            _ => Ok(id),
        }
    }

    /// The same, also of a revoked one.
    fn find_any(&self, client: u64, stateid: &Stateid) -> std::result::Result<u64, StateError> {
        if stateid.is_special() {
            return Err(StateError::Unknown);
        }
        let (instance, id) = stateid.other.split_at(4);
        if instance != self.instance.to_be_bytes() {
            return Err(StateError::Stale);
        }
        let id = id
            .try_into()
            .map(|name| self.names.number(u64::from_be_bytes(name)))
            .map_err(|_| StateError::Unknown)?;
        let state = self.states.get(&id).filter(|s| s.client == client);
        let state = state.ok_or(StateError::Unknown)?;
        match stateid.seqid {
            0 => Ok(id),
            seqid if seqid == state.seqid => Ok(id),
            seqid if seqid < state.seqid => Err(StateError::Old),
            _ => Err(StateError::Unknown),
        }
    }

    pub(crate) fn insert(&mut self, state: State) -> u64 {
        let id = self.next * STATE_SHARDS + self.shard;
        self.next += 1;
        self.came(state.client, id);
        let file = self.files.entry(state.file).or_default();
        match state.kind {
            Kind::Open(_) => file.opens.enter(id, state.client, &state.owner),
            Kind::Lock(_) => {
                let owner = (state.client, state.owner.clone());
                file.lockers.insert(owner, id);
            }
            Kind::Delegation(_) => {
                file.delegations.push(id);
                self.register.count += 1;
                self.totals.granted();
            }
            Kind::Revoked(_) => {}
        }
        self.states.insert(id, state);
        id
    }

    /// A client has this state.
    pub(crate) fn came(&mut self, client: u64, id: u64) {
        if self.clients.entry(client).or_default().insert(id) {
            self.totals.came(client);
        }
    }

    /// Removes a state, and the lock states of an open. Returns its hold.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Hold> {
        let state = self.states.remove(&id)?;
        if let Some(of_client) = self.clients.get_mut(&state.client) {
            if of_client.remove(&id) {
                self.totals.went(state.client);
            }
            if of_client.is_empty() {
                self.clients.remove(&state.client);
            }
        }
        if matches!(state.kind, Kind::Lock(_)) {
            self.locks_freed(state.file);
        }
        if let Some(file) = self.files.get_mut(&state.file) {
            match state.kind {
                Kind::Open(_) => file.opens.leave(id, state.client, &state.owner),
                Kind::Lock(_) => {
                    file.lockers.remove(&(state.client, state.owner.clone()));
                    file.ranges.release(id);
                }
                Kind::Delegation(_) => file.delegations.retain(|delegation| *delegation != id),
                Kind::Revoked(_) => {}
            }
            if file.is_unused() {
                self.files.remove(&state.file);
            }
        }
        match state.kind {
            Kind::Open(open) => {
                for locker in open.lockers {
                    self.remove(locker);
                }
                open.hold
            }
            Kind::Delegation(delegation) => {
                self.register.count -= 1;
                self.totals.ended();
                delegation.into_hold()
            }
            Kind::Revoked(why) => {
                self.register.freed(state.client, why);
                None
            }
            Kind::Lock(open) => {
                if let Some(Kind::Open(open)) = self.states.get_mut(&open).map(|s| &mut s.kind) {
                    open.lockers.remove(&id);
                }
                None
            }
        }
    }

    /// Limits the number of states of all shards.
    pub fn limit_states(&self, max: usize) {
        self.totals.limit_states(max);
    }

    /// Whether a client may have one more state. Errors: `Full`.
    pub(crate) fn check_room(&self, client: u64) -> Result<()> {
        match self.totals.has_room(client) {
            true => Ok(()),
            false => Err(Refused::Full(None)),
        }
    }

    /// Clients with lock states of a file.
    #[must_use]
    pub fn lockers_of(&self, file: Handle) -> BTreeSet<u64> {
        let lockers = self.files.get(&file).map(|file| file.lockers.keys());
        let clients = lockers.into_iter().flatten().map(|(client, _)| *client);
        clients.collect()
    }

    /// TEST_STATEID (§18.48): whether a stateid can be used. It renews nothing. Errors: the reason why not.
    pub fn test(&self, client: u64, stateid: &Stateid) -> std::result::Result<(), StateError> {
        self.find(client, stateid).map(drop)
    }

    /// FREE_STATEID (§18.38). Errors: `InUse` for an open or a delegation, and for a lock owner that holds locks; those of a
    /// stateid.
    pub fn free(&mut self, client: u64, stateid: &Stateid) -> Result<()> {
        let id = self.find_any(client, stateid)?;
        let state = self.states.get(&id).ok_or(StateError::Unknown)?;
        let holds = self.files.get(&state.file).map(|f| f.ranges.holds(id));
        let is_held = matches!(state.kind, Kind::Open(_) | Kind::Delegation(_));
        if is_held || holds == Some(true) {
            return Err(StateError::InUse.into());
        }
        self.remove(id);
        Ok(())
    }

    /// Numbers of opens, lock states and delegations of a client.
    pub fn count_of(&self, client: u64) -> (usize, usize, usize) {
        let ids = self.clients.get(&client).into_iter().flatten();
        let all = ids.filter_map(|id| self.states.get(id));
        let mut counts = (0, 0, 0);
        for state in all {
            match state.kind {
                Kind::Open(_) => counts.0 += 1,
                Kind::Lock(_) => counts.1 += 1,
                Kind::Delegation(_) => counts.2 += 1,
                Kind::Revoked(_) => {}
            }
        }
        counts
    }

    /// Removes all states of a client. Returns the holds of its files.
    pub fn forget(&mut self, client: u64) -> Vec<Hold> {
        let ids = self.clients.get(&client).cloned().unwrap_or_default();
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }
}

/// The number behind `seqid`; 0 is left out (§8.2.2).
pub(crate) fn next(seqid: u32) -> u32 {
    seqid.wrapping_add(1).max(1)
}
