//! Mutexes whose lock is taken even if a task that held it panicked.
//!
//! **Owns** this one rule. **Called by** everything of the pool that shards share. **Invariant**: each critical section leaves
//! its data consistent, so that a panic elsewhere in it does not make the data unusable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
