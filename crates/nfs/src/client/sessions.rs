//! Sessions by ID, which SEQUENCE looks up without the lock of all clients.
//!
//! **Owns** [`Sessions`]. **Called by** SEQUENCE on any shard, and by [`super::Clients`], which alone adds and removes sessions. **Invariants**: a session
//! is here while its client's record names it; a lookup waits only for a session of the same part that comes or goes.

use super::Session;
use crate::wire::SessionId;
use io::sync::{read, write};
use std::collections::HashMap;
use std::sync::{Arc, RwLock};

/// Parts, by the last byte of the ID, which is random.
const PARTS: usize = 64;

type Part = HashMap<SessionId, Arc<Session>>;

/// See the module header.
#[derive(Debug)]
pub struct Sessions([RwLock<Part>; PARTS]);

impl Default for Sessions {
    fn default() -> Self {
        Self(std::array::from_fn(|_| RwLock::default()))
    }
}

impl Sessions {
    fn part(&self, id: &SessionId) -> &RwLock<Part> {
        &self.0[usize::from(id[id.len() - 1]) % PARTS]
    }

    /// A session.
    #[must_use]
    pub fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        read(self.part(id)).get(id).cloned()
    }

    pub(super) fn insert(&self, session: Session) {
        let id = session.id();
        write(self.part(&id)).insert(id, Arc::new(session));
    }

    pub(super) fn remove(&self, id: &SessionId) -> Option<Arc<Session>> {
        write(self.part(id)).remove(id)
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|part| read(part).len()).sum()
    }

    /// Sessions with more slots than these, at most `max`.
    pub(super) fn larger(&self, slots: u32, max: usize) -> Vec<Arc<Session>> {
        let mut found = Vec::new();
        for part in &self.0 {
            let part = read(part);
            let large = part.values().filter(|session| session.size() > slots);
            found.extend(large.take(max - found.len()).cloned());
        }
        found
    }
}
