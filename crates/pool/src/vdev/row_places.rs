//! The places of a raidz as they are now, and what keeps them from changing.
//!
//! **Owns** the current [`Rows`], the state of an expansion that labels record, and the holds on it. **Called by** every operation on
//! a raidz, and by its expansion. **Invariants**: an operation uses one version of the places from its begin to its end, and no place
//! of that version is written over meanwhile; the expansion moves nothing while a resilver, or the repair of rows whose blocks were
//! searched, holds the places. `docs/decisions/0166`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::rows::Rows;
use crate::format::Expansion;

/// How often a task looks whether others have ended their operations.
const POLL: Duration = Duration::from_millis(1);

/// The places, and who relies on them.
struct Places {
    rows: Arc<Rows>,
    /// What labels record.
    labelled: Option<Expansion>,
    /// Versions before the present one that operations may still use.
    former: Vec<Arc<Rows>>,
    /// Number of tasks that need the places to stay as they are.
    holds: usize,
    /// Whether the expansion moves rows.
    is_moving: bool,
}

/// See the module header.
pub(super) struct RowPlaces(Arc<Mutex<Places>>);

/// The places of a vdev do not change until this is dropped.
#[must_use = "the places may change once it is dropped"]
pub(crate) struct PlacesHold(Option<Arc<Mutex<Places>>>);

/// The expansion moves rows until this is dropped.
#[must_use = "nothing may be moved once it is dropped"]
pub(crate) struct Moving(Arc<Mutex<Places>>);

fn lock(state: &Mutex<Places>) -> MutexGuard<'_, Places> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RowPlaces {
    pub(super) fn new(rows: Rows) -> Self {
        Self(Arc::new(Mutex::new(Places {
            labelled: rows.expansion(),
            rows: Arc::new(rows),
            former: Vec::new(),
            holds: 0,
            is_moving: false,
        })))
    }

    /// The present places.
    pub(super) fn now(&self) -> Arc<Rows> {
        lock(&self.0).rows.clone()
    }

    /// The state of the expansion that labels record from now on.
    pub(super) fn labelled(&self) -> Option<Expansion> {
        lock(&self.0).labelled
    }

    /// Sets what labels record.
    pub(super) fn set_labelled(&self, expansion: Option<Expansion>) {
        lock(&self.0).labelled = expansion;
    }

    /// Operations that begin from now on use these places.
    pub(super) fn publish(&self, rows: Rows) {
        let mut state = lock(&self.0);
        let former = std::mem::replace(&mut state.rows, Arc::new(rows));
        state.former.push(former);
    }

    /// Waits until no operation uses former places.
    pub(super) async fn former_end(&self) {
        loop {
            {
                let mut state = lock(&self.0);
                state.former.retain(|rows| Arc::strong_count(rows) > 1);
                if state.former.is_empty() {
                    return;
                }
            }
            io::time::sleep(POLL).await;
        }
    }

    /// Keeps the places as they are. Waits until a move in progress has ended.
    pub(super) async fn hold(&self) -> PlacesHold {
        loop {
            {
                let mut state = lock(&self.0);
                if !state.is_moving {
                    state.holds += 1;
                    return PlacesHold(Some(self.0.clone()));
                }
            }
            io::time::sleep(POLL).await;
        }
    }

    /// Begins to move rows. `None` if the places are held, or if another move is in progress.
    pub(super) fn begin_moving(&self) -> Option<Moving> {
        let mut state = lock(&self.0);
        if state.holds > 0 || state.is_moving {
            return None;
        }
        state.is_moving = true;
        Some(Moving(self.0.clone()))
    }
}

impl PlacesHold {
    /// A hold of a vdev whose places never change.
    pub(super) fn of_nothing() -> Self {
        Self(None)
    }
}

impl Drop for PlacesHold {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            lock(state).holds -= 1;
        }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        lock(&self.0).is_moving = false;
    }
}
