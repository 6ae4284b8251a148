//! Clients that wait for byte-range locks (§20.11).
//!
//! **Owns** the queues of [`Table`]. **Called by** LOCK that was refused, and by the service when locks were freed.
//! **Invariants**: a queue has an owner at most once, in the order of the first requests, and at most
//! [`LOCK_WAITERS_OF_FILE_MAX`] owners; all queues have at most [`LOCK_WAITERS_MAX`]. A waiter leaves its queue when it is told that
//! its lock is free, when it gets a lock, or when it has not asked for [`WAIT_AGE`]. Nothing depends on a queue: a client that is not told asks again.

use crate::entry::{File, Waiter};
use crate::limits::{LOCK_WAITERS_MAX, LOCK_WAITERS_OF_FILE_MAX};
use crate::table::Table;
use backend::file::Handle;
use io::time::Instant;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Time for which a client waits without asking again. Clients of Linux ask every 30 s.
const WAIT_AGE: Duration = Duration::from_secs(90);

impl Table {
    /// Locks of a file were freed.
    pub(crate) fn locks_freed(&mut self, file: Handle) {
        let waits = self
            .files
            .get(&file)
            .is_some_and(|file| !file.waiters.is_empty());
        if waits {
            if !self.freed.contains(&file) {
                self.freed.push(file);
            }
            self.totals.freed.store(true, Ordering::Release);
        }
    }

    /// A client waits for a lock that was refused. Returns whether there was room for it.
    pub fn wait_for_lock(&mut self, waiter: Waiter, now: Instant) -> bool {
        let all = self.totals.waiting.load(Ordering::Relaxed);
        let Some(file) = self.files.get_mut(&waiter.file) else {
            return false;
        };
        let mut waiters = file.waiters.iter_mut();
        if let Some(known) = waiters.find(|(w, _)| w.is_of(waiter.client, &waiter.owner)) {
            *known = (waiter, now);
            return true;
        }
        if file.waiters.len() >= LOCK_WAITERS_OF_FILE_MAX || all >= LOCK_WAITERS_MAX {
            return false;
        }
        file.waiters.push_back((waiter, now));
        self.totals.waiting.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// A lock owner got a lock: it leaves the queue.
    pub(crate) fn stop_waiting(&mut self, file: Handle, client: u64, owner: &[u8]) {
        if let Some(file) = self.files.get_mut(&file) {
            let before = file.waiters.len();
            file.waiters.retain(|(w, _)| !w.is_of(client, owner));
            let gone = before - file.waiters.len();
            self.totals.waiting.fetch_sub(gone, Ordering::Relaxed);
        }
    }

    /// Looks at the queue of a file again: a waiter that was told may not have taken its lock.
    pub fn look_again(&mut self, file: Handle) {
        self.locks_freed(file);
    }

    /// The waiters whose locks are free now, of all files where locks were freed. In a queue, a waiter comes after the ones before it
    /// that it conflicts with. Returned waiters are not in their queues any more.
    pub fn due_waiters(&mut self, now: Instant) -> Vec<Waiter> {
        let mut due = Vec::new();
        for handle in std::mem::take(&mut self.freed) {
            let Some(mut file) = self.files.remove(&handle) else {
                continue;
            };
            let before = file.waiters.len();
            file.waiters.retain(|(_, at)| now.since(*at) < WAIT_AGE);
            let first = due.len();
            let queue = std::mem::take(&mut file.waiters);
            for (waiter, at) in queue {
                let is_free = self.is_free(&file, &waiter);
                let kept = file.waiters.iter().map(|(other, _)| other);
                let mut before = due[first..].iter().chain(kept);
                let waits_behind = before.any(|other| waiter.excludes(other));
                match is_free && !waits_behind {
                    true => due.push(waiter),
                    false => file.waiters.push_back((waiter, at)),
                }
            }
            let gone = before - file.waiters.len();
            self.totals.waiting.fetch_sub(gone, Ordering::Relaxed);
            if !file.is_unused() {
                self.files.insert(handle, file);
            }
        }
        due
    }

    fn is_free(&self, file: &File, waiter: &Waiter) -> bool {
        let own = file.lockers.get(&(waiter.client, waiter.owner.clone()));
        // No state has the number 0.
        let own = own.copied().unwrap_or(0);
        let conflict = file.ranges.conflict(own, waiter.range, waiter.is_exclusive);
        conflict.is_none()
    }
}
