//! Byte-range locks of programs on this machine (fcntl(2), advisory locks).
//!
//! **Owns** the types of [`FileBackend::lock`](super::FileBackend::lock). **Called by** mounts, which ask for locks, and by the file system that
//! keeps them together with those of its network clients. **Invariants**: a lock ends at its last byte, which is included.

/// Kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// None: the bytes are unlocked, or not locked by others.
    Unlocked,
    /// Excludes exclusive locks.
    Shared,
    /// Excludes all locks of other owners.
    Exclusive,
}

/// A lock of bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLock {
    /// The owner, by a number that the mount gives it. In an answer, 0 stands for every owner outside of the mount that asked.
    pub owner: u64,
    /// First byte.
    pub start: u64,
    /// Last byte; the largest number stands for all that follow.
    pub end: u64,
    /// Its kind.
    pub kind: LockKind,
}
