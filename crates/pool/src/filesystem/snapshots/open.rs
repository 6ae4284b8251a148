//! Snapshots that are open.
//!
//! **Owns** the list of opened snapshots. **Called by** the snapshot directory. **Invariants**: at most [`OPEN_MAX`] are on the
//! list, the least recently used one leaves it first; a snapshot that was destroyed is not returned.

use std::collections::VecDeque;
use std::sync::Mutex;

use backend::file::{FileError, FileResult};

use super::source::Snapshots;
use io::sync::lock;

/// Most snapshots of a filesystem that are kept open.
pub(super) const OPEN_MAX: usize = 64;

/// Open snapshots, the most recently used one last.
pub(super) struct OpenSnapshots<F>(Mutex<VecDeque<(u64, F)>>);

impl<F: Clone> OpenSnapshots<F> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// An open snapshot that exists.
    pub(super) fn get<S: Snapshots<Files = F>>(&self, source: &S, id: u64) -> Option<F> {
        let mut open = lock(&self.0);
        let at = open.iter().position(|(other, _)| *other == id)?;
        let found = open.remove(at)?;
        if !source.exists(id) {
            return None;
        }
        let files = found.1.clone();
        open.push_back(found);
        Some(files)
    }

    /// Opens a snapshot, unless it is open. Errors: `Stale` if there is none.
    pub(super) async fn open<S: Snapshots<Files = F>>(&self, source: &S, id: u64) -> FileResult<F> {
        if !source.exists(id) {
            return Err(FileError::Stale);
        }
        if let Some(files) = self.get(source, id) {
            return Ok(files);
        }
        let files = source.open(id).await?;
        let mut open = lock(&self.0);
        // Another task may have opened it meanwhile.
        open.retain(|(other, _)| *other != id);
        if open.len() >= OPEN_MAX {
            open.pop_front();
        }
        open.push_back((id, files.clone()));
        Ok(files)
    }
}
