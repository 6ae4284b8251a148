//! Mutex of small, short critical sections.
//!
//! **Called by** all modules whose state several threads share. **Invariants**: a critical section leaves the value whole at
//! every point where it can panic, so that a poisoned mutex is still usable.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks `mutex`, also when a thread panicked while it held the lock.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
