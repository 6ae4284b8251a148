//! States of file systems that are not exported for a while, and revocation by the administrator (§8.5).
//!
//! **Owns** the changes of the list of withdrawn file systems. **Called by** the service, under its lock, when exports come and go and when hosts are denied. **Invariants**: a state
//! of a withdrawn file system keeps excluding others, but not its file; it goes on when the file system is exported again, and is revoked
//! when that does not happen in time; the stateid of a revoked state stays until its client frees it.

use crate::NO_CLIENT;
use crate::Revocation;
use crate::entry::{Kind, State};
use crate::table::Table;
use backend::file::{Handle, Hold};
use io::time::Instant;
use std::collections::BTreeSet;

impl State {
    /// Whether it is of a client, not of a mount, which goes on without an export.
    fn is_of_client_in(&self, filesystem: u64) -> bool {
        self.client != NO_CLIENT && self.file.filesystem == filesystem
    }

    fn hold_mut(&mut self) -> Option<&mut Option<Hold>> {
        match &mut self.kind {
            Kind::Open(open) => Some(&mut open.hold),
            Kind::Delegation(delegation) => Some(&mut delegation.hold),
            Kind::Lock(_) | Kind::Revoked(_) => None,
        }
    }
}

impl Table {
    /// A file system is not exported from now on. Returns whether it has states, and the holds of its files.
    pub(crate) fn withdraw(&mut self, filesystem: u64) -> (bool, Vec<Hold>) {
        let states = self.states.values_mut();
        let mut holds = Vec::new();
        let mut has_states = false;
        for state in states.filter(|state| state.is_of_client_in(filesystem)) {
            has_states = true;
            holds.extend(state.hold_mut().and_then(Option::take));
        }
        (has_states, holds)
    }

    /// A file system with states, of this or another shard, is not exported since this time.
    pub(crate) fn note_withdrawn(&mut self, filesystem: u64, now: Instant) {
        self.withdrawn.since.entry(filesystem).or_insert(now);
    }

    /// A file system is exported again. Returns the states that need a hold of their file, with these.
    pub fn restore(&mut self, filesystem: u64) -> Vec<(u64, Handle)> {
        self.withdrawn.frozen.remove(&filesystem);
        if self.withdrawn.since.remove(&filesystem).is_none() {
            return Vec::new();
        }
        let of_it = |(_, state): &(&u64, &mut State)| state.is_of_client_in(filesystem);
        let states = self.states.iter_mut().filter(of_it);
        let lacking = states.filter_map(|(id, state)| {
            let lacks = matches!(state.hold_mut(), Some(None));
            lacks.then_some((*id, state.file))
        });
        lacking.collect()
    }

    /// Gives a state the hold of its file. Returns it if the state is gone or has one.
    pub fn give_hold(&mut self, id: u64, hold: Hold) -> Option<Hold> {
        match self.states.get_mut(&id).and_then(State::hold_mut) {
            Some(place @ None) => {
                *place = Some(hold);
                None
            }
            _ => Some(hold),
        }
    }

    /// Whether the file system of a file is not exported now, so that its clients cannot return delegations.
    #[must_use]
    pub fn is_withdrawn(&self, file: Handle) -> bool {
        self.withdrawn.since.contains_key(&file.filesystem)
    }

    /// Takes the file systems that were withdrawn at `at` or earlier.
    pub fn take_overdue(&mut self, at: Instant) -> Vec<u64> {
        let since = &mut self.withdrawn.since;
        let overdue: Vec<u64> = since
            .iter()
            .filter(|(_, since)| **since <= at)
            .map(|(filesystem, _)| *filesystem)
            .collect();
        overdue.iter().for_each(|filesystem| {
            since.remove(filesystem);
        });
        overdue
    }

    /// No delegation of a file of this file system is granted until [`Table::restore`]. Returns the files with delegations.
    pub fn freeze(&mut self, filesystem: u64) -> Vec<Handle> {
        self.withdrawn.frozen.insert(filesystem);
        let files = self.files.iter();
        files
            .filter(|(file, of)| file.filesystem == filesystem && !of.delegations.is_empty())
            .map(|(file, _)| *file)
            .collect()
    }

    /// Revokes the states for which `is_theirs` holds, given number, client and file. Returns the holds of their files, and their
    /// clients.
    pub fn revoke_all(
        &mut self,
        is_theirs: impl Fn(u64, u64, Handle) -> bool,
    ) -> (Vec<Hold>, BTreeSet<u64>) {
        let all = self.states.iter();
        let all = all.filter(|(id, state)| {
            let is_live = !matches!(state.kind, Kind::Revoked(_)) && state.client != NO_CLIENT;
            is_live && is_theirs(**id, state.client, state.file)
        });
        let all: Vec<_> = all
            .map(|(id, state)| (*id, (state.client, state.file, state.seqid)))
            .collect();
        // An open takes its lock states along, which are in the list, too.
        let holds = all.iter().filter_map(|(id, _)| self.remove(*id)).collect();
        for (id, of) in &all {
            self.put_revoked(*id, *of, Revocation::Admin);
        }
        (
            holds,
            all.into_iter().map(|(_, (client, ..))| client).collect(),
        )
    }

    /// Puts a revoked state in the place of one that was removed: the stateid keeps its number.
    pub(crate) fn put_revoked(
        &mut self,
        id: u64,
        (client, file, seqid): (u64, Handle, u32),
        why: Revocation,
    ) {
        self.came(client, id);
        self.register.revoke(client, why);
        let owner = Vec::new();
        self.states.insert(
            id,
            State {
                client,
                owner,
                file,
                seqid,
                kind: Kind::Revoked(why),
            },
        );
    }
}
