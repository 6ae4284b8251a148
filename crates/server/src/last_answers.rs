//! Last good answers of name services: the file that keeps them over restarts, and the names that have no answer now.
//!
//! **Owns** [`Failures`]. **Called by** the names of client rules (NFS) and of advertised hosts. **Invariants** (decision 0341): a file
//! that cannot be read is logged and costs its answers only; a failure is logged once for each reason.

use crate::durable;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

/// The stored answers about the addresses of `whom`; none if the file is absent or damaged. Blocks.
pub(crate) fn load<T: DeserializeOwned + Default>(path: &Path, whom: &str) -> T {
    let file = path.display();
    match std::fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|e| {
            tracing::warn!(%file, error = %e, "the stored addresses of {whom} are damaged: they are asked for again");
            T::default()
        }),
        Err(e) if e.kind() == ErrorKind::NotFound => T::default(),
        Err(e) => {
            tracing::warn!(%file, error = %e, "the stored addresses of {whom} cannot be read");
            T::default()
        }
    }
}

/// Stores the answers about the addresses of `whom`; a failure is logged. Blocks.
pub(crate) fn store<T: Serialize>(path: &Path, answers: &T, whom: &str) {
    let text = serde_json::to_vec(answers).unwrap_or_default();
    if let Err(e) = durable::replace(path, &text) {
        let file = path.display();
        tracing::warn!(%file, error = %e, "addresses of {whom} are not stored for the next start");
    }
}

/// A name without an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Milliseconds since 1970.
    pub(crate) since_ms: u64,
}

/// The names without an answer now.
#[derive(Debug, Default)]
pub(crate) struct Failures(BTreeMap<String, Failure>);

impl Failures {
    /// A name has no answer now. Returns whether the reason is new.
    pub(crate) fn note(&mut self, name: String, reason: &str, now_ms: u64) -> bool {
        let known = self.0.get(&name);
        let is_new = known.is_none_or(|f| f.reason != reason);
        let since_ms = known.map_or(now_ms, |f| f.since_ms);
        let reason = reason.to_owned();
        self.0.insert(name, Failure { reason, since_ms });
        is_new
    }

    /// A name has an answer.
    pub(crate) fn end(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Forgets other names.
    pub(crate) fn keep(&mut self, is_used: impl Fn(&String) -> bool) {
        self.0.retain(|name, _| is_used(name));
    }

    /// The failure of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&Failure> {
        self.0.get(name)
    }

    /// All failures, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, &Failure)> {
        self.0.iter()
    }

    /// The number of names without an answer.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
