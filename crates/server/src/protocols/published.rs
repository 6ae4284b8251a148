//! Results of publishing exports.
//!
//! **Owns** for each export of a protocol whether the protocol accepted it. **Called by** the protocols.

use crate::api::NamespaceState;
use crate::config::ExportedAs;
use crate::disks::DiskState;
use io::sync::lock;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};

/// The result for each export that was published: accepted, or refused with this reason. `K` names an export.
pub(crate) struct Published<K>(Mutex<BTreeMap<K, Result<(), String>>>);

impl<K> Default for Published<K> {
    fn default() -> Published<K> {
        Published(Mutex::default())
    }
}

/// An export as clients see it.
pub(crate) struct ExportState {
    pub(crate) state: NamespaceState,
    /// Why it is held back.
    pub(crate) reason: Option<String>,
    /// Its size, bytes; 0 while it is held back.
    pub(crate) size: u64,
    /// Its logical block size, bytes; 0 while it is held back.
    pub(crate) block_size: u32,
    /// Its disk refuses writes.
    pub(crate) read_only: bool,
}

impl<K: Ord> Published<K> {
    fn results(&self) -> MutexGuard<'_, BTreeMap<K, Result<(), String>>> {
        lock(&self.0)
    }

    /// Stores the result for an export of `disk`.
    pub(crate) fn insert<E: Display>(
        &self,
        key: K,
        export: &ExportedAs,
        disk: &str,
        result: Result<(), E>,
    ) {
        let result = result.map_err(|e| e.to_string());
        match &result {
            Ok(()) => tracing::info!(%export, disk, "exported"),
            Err(reason) => tracing::error!(%export, disk, reason, "not exported"),
        }
        self.results().insert(key, result);
    }

    /// The result for an export; `None` if it was not published.
    pub(crate) fn result(&self, key: &K) -> Option<Result<(), String>> {
        self.results().get(key).cloned()
    }

    /// Forgets an export. Returns whether the protocol had accepted it.
    pub(crate) fn remove(&self, key: &K) -> bool {
        matches!(self.results().remove(key), Some(Ok(())))
    }

    /// The warning about an export that the protocol refused.
    pub(crate) fn warning(&self, key: &K, export: &ExportedAs) -> Option<String> {
        match self.results().get(key) {
            Some(Err(reason)) => Some(format!("{export} is not exported: {reason}")),
            _ => None,
        }
    }

    /// The state of an export of `disk`.
    pub(crate) fn state(&self, key: &K, disk: Option<&DiskState>) -> ExportState {
        let reason = match (self.results().get(key), disk) {
            (Some(Ok(())), Some(DiskState::Online(o))) => {
                let geometry = o.backend.geometry();
                return ExportState {
                    state: NamespaceState::Served,
                    reason: None,
                    size: o.size(),
                    block_size: geometry.block_size,
                    read_only: geometry.read_only,
                };
            }
            (Some(Err(reason)), _) => reason.clone(),
            (_, Some(DiskState::Held(reason))) => reason.clone(),
            _ => "its disk is being opened".to_owned(),
        };
        ExportState {
            state: NamespaceState::Held,
            reason: Some(reason),
            size: 0,
            block_size: 0,
            read_only: false,
        }
    }
}
