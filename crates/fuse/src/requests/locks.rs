//! Locks (fcntl(2), and flock(2) as locks of the whole file) of mounts whose file system keeps them, together with those of network clients.
//!
//! **Owns** the wait for a lock. **Called by** the front. **Invariants**: a wait ends when the process gets a signal, since `fuser` does not pass
//! FUSE_INTERRUPT on; locks of one process do not wait for places that other requests need.

use crate::limits::LOCK_PAUSE;
use crate::mounted::Mounted;
use crate::status::{Answer, of_file};
use backend::file::{FileLock, LockKind};
use fuser::Errno;
use std::fs;

impl Mounted {
    /// Locks or unlocks bytes. Errors: EAGAIN if a lock is in the way.
    pub(crate) async fn lock(&self, number: u64, lock: FileLock) -> Answer<()> {
        match self.try_lock(number, lock).await? {
            None => Ok(()),
            Some(_) => Err(Errno::EAGAIN),
        }
    }

    /// Locks or unlocks bytes. Returns the lock that is in the way.
    async fn try_lock(&self, number: u64, lock: FileLock) -> Answer<Option<FileLock>> {
        let of = self.handle(number)?;
        self.files.lock(of, lock).await.map_err(of_file)
    }

    /// Locks bytes, and waits while a lock is in the way. Errors: EINTR once the process has a signal, EDEADLK if the owner of that lock waits
    /// for this one, ENOLCK if too many wait.
    pub(crate) async fn wait_for_lock(
        &self,
        number: u64,
        lock: FileLock,
        process: u32,
    ) -> Answer<()> {
        let waiting = self.lock_waits.enter(lock.owner).ok_or(Errno::ENOLCK)?;
        while let Some(denying) = self.try_lock(number, lock).await? {
            if waiting.is_deadlock(denying.owner) {
                return Err(Errno::EDEADLK);
            }
            let status = io::blocking(move || fs::read_to_string(status_path(process))).await;
            if status.is_ok_and(|status| status.is_ok_and(|text| has_signal(&text))) {
                return Err(Errno::EINTR);
            }
            io::time::sleep(LOCK_PAUSE).await;
        }
        Ok(())
    }

    /// The lock that would be in the way.
    pub(crate) async fn test_lock(&self, number: u64, lock: FileLock) -> Answer<Option<FileLock>> {
        let of = self.handle(number)?;
        self.files.test_lock(of, lock).await.map_err(of_file)
    }

    /// A process closed a descriptor of a file, or an open file ended: the locks of this owner end.
    pub(crate) async fn unlock_all(&self, number: u64, owner: u64) -> Answer<()> {
        let all = FileLock {
            owner,
            start: 0,
            end: u64::MAX,
            kind: LockKind::Unlocked,
        };
        self.lock(number, all).await
    }
}

/// Path of the state of a thread.
fn status_path(thread: u32) -> String {
    format!("/proc/{thread}/status")
}

/// Whether a thread with this state (proc(5)) has a signal that it does not block: one of its own, or of its process if it has no other
/// thread that could take it.
fn has_signal(status: &str) -> bool {
    let field = |name: &str| {
        let mut lines = status.lines();
        lines
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let mask = |name| field(name).and_then(|text| u64::from_str_radix(text, 16).ok());
    let (own, of_process) = (mask("SigPnd:").unwrap_or(0), mask("ShdPnd:").unwrap_or(0));
    let taken = match field("Threads:") {
        Some("1") => own | of_process,
        _ => own,
    };
    taken & !mask("SigBlk:").unwrap_or(0) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_end_a_wait() {
        let status = |threads: u32, own: u64, of_process: u64, blocked: u64| {
            format!(
                "Name:\tx\nThreads:\t{threads}\nSigPnd:\t{own:016x}\nShdPnd:\t{of_process:016x}\nSigBlk:\t{blocked:016x}\n"
            )
        };
        for (text, expected) in [
            (status(1, 0, 0, 0), false),
            (status(1, 0, 2, 0), true),
            (status(1, 0, 2, 2), false),
            (status(4, 0, 2, 0), false),
            (status(4, 0x100, 0, 0), true),
            (String::new(), false),
        ] {
            assert_eq!(has_signal(&text), expected, "{text}");
        }
        let own = fs::read_to_string(status_path(std::process::id())).expect("it is there");
        assert!(own.contains("SigPnd:") && own.contains("Threads:"));
    }
}
