//! Operations by kind: counts, errors and latencies.
//!
//! **Owns** the names of the kernel's operations and the counters of one mount. **Called by** every request when it ends, and
//! by the control plane. **Invariants**: an operation is counted once, before its reply is handed to the kernel; its latency
//! is the time since a session thread took it from the kernel.

use io::sync::lock;
use io::time::Instant;
use session::counters::{CountersBy, Enumerated};
use session::latency::{CommandLatency, Latencies, LatencySums};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// The kinds of requests of the kernel (fuse(4)). FORGET has no reply and no latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Lookup of a name.
    Lookup,
    /// Attributes.
    GetAttr,
    /// Change of attributes.
    SetAttr,
    /// Target of a symbolic link.
    ReadLink,
    /// New symbolic link.
    Symlink,
    /// New device, pipe, socket or file.
    MkNod,
    /// New directory.
    MkDir,
    /// Removal of a name.
    Unlink,
    /// Removal of a directory.
    RmDir,
    /// Rename or exchange.
    Rename,
    /// Further name.
    Link,
    /// Opening of a file.
    Open,
    /// New file, opened.
    Create,
    /// Closing of a file.
    Release,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Durability of a file.
    FSync,
    /// Opening of a directory.
    OpenDir,
    /// Entries of a directory.
    ReadDir,
    /// Entries of a directory with attributes.
    ReadDirPlus,
    /// Durability of a directory.
    FSyncDir,
    /// Space.
    StatFs,
    /// Change of an extended attribute.
    SetXattr,
    /// Value of an extended attribute.
    GetXattr,
    /// Names of extended attributes.
    ListXattr,
    /// Removal of an extended attribute.
    RemoveXattr,
    /// Check of permissions.
    Access,
    /// Allocation or deallocation.
    FAllocate,
    /// Search for data or a hole.
    LSeek,
    /// Copy between files.
    CopyFileRange,
    /// Lock or unlocking of bytes.
    SetLk,
    /// Question for a lock.
    GetLk,
    /// Closing of a descriptor, which ends its owner's locks.
    Flush,
}

impl Enumerated for Operation {
    const ALL: &'static [Operation] = &[
        Operation::Lookup,
        Operation::GetAttr,
        Operation::SetAttr,
        Operation::ReadLink,
        Operation::Symlink,
        Operation::MkNod,
        Operation::MkDir,
        Operation::Unlink,
        Operation::RmDir,
        Operation::Rename,
        Operation::Link,
        Operation::Open,
        Operation::Create,
        Operation::Release,
        Operation::Read,
        Operation::Write,
        Operation::FSync,
        Operation::OpenDir,
        Operation::ReadDir,
        Operation::ReadDirPlus,
        Operation::FSyncDir,
        Operation::StatFs,
        Operation::SetXattr,
        Operation::GetXattr,
        Operation::ListXattr,
        Operation::RemoveXattr,
        Operation::Access,
        Operation::FAllocate,
        Operation::LSeek,
        Operation::CopyFileRange,
        Operation::SetLk,
        Operation::GetLk,
        Operation::Flush,
    ];
}

impl Operation {
    /// Its name, as metrics show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Operation::Lookup => "lookup",
            Operation::GetAttr => "getattr",
            Operation::SetAttr => "setattr",
            Operation::ReadLink => "readlink",
            Operation::Symlink => "symlink",
            Operation::MkNod => "mknod",
            Operation::MkDir => "mkdir",
            Operation::Unlink => "unlink",
            Operation::RmDir => "rmdir",
            Operation::Rename => "rename",
            Operation::Link => "link",
            Operation::Open => "open",
            Operation::Create => "create",
            Operation::Release => "release",
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::FSync => "fsync",
            Operation::OpenDir => "opendir",
            Operation::ReadDir => "readdir",
            Operation::ReadDirPlus => "readdirplus",
            Operation::FSyncDir => "fsyncdir",
            Operation::StatFs => "statfs",
            Operation::SetXattr => "setxattr",
            Operation::GetXattr => "getxattr",
            Operation::ListXattr => "listxattr",
            Operation::RemoveXattr => "removexattr",
            Operation::Access => "access",
            Operation::FAllocate => "fallocate",
            Operation::LSeek => "lseek",
            Operation::CopyFileRange => "copy_file_range",
            Operation::SetLk => "setlk",
            Operation::GetLk => "getlk",
            Operation::Flush => "flush",
        }
    }
}

/// The counters of one mount.
pub(crate) struct Operations {
    ended: CountersBy<Operation>,
    failed: CountersBy<Operation>,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    /// By shard, so that shards do not wait for each other.
    latencies: Box<[Mutex<Latencies<Operation>>]>,
}

impl Operations {
    /// Zeroes, for this number of shards.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            ended: CountersBy::default(),
            failed: CountersBy::default(),
            bytes_read: AtomicU64::new(0),
            bytes_written: AtomicU64::new(0),
            latencies: (0..shards).map(|_| Mutex::default()).collect(),
        }
    }

    /// An operation that was taken at `since` has ended on this shard.
    pub(crate) fn ended(&self, shard: usize, of: Operation, since: Instant, has_failed: bool) {
        self.ended.add(of);
        if has_failed {
            self.failed.add(of);
        }
        let us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        lock(&self.latencies[shard]).record(of, us, 1);
    }

    /// Bytes were read.
    pub(crate) fn read(&self, bytes: usize) {
        self.bytes_read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes were written.
    pub(crate) fn written(&self, bytes: u64) {
        self.bytes_written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// All counters now.
    pub(crate) fn totals(&self) -> OperationTotals {
        let mut sums = LatencySums::default();
        for latencies in &self.latencies {
            lock(latencies).add_to(&mut sums);
        }
        OperationTotals {
            ended: self.ended.snapshot(),
            failed: self.failed.snapshot(),
            bytes_read: self.bytes_read.load(Ordering::Relaxed),
            bytes_written: self.bytes_written.load(Ordering::Relaxed),
            latency: sums.summary(),
        }
    }
}

/// Operations of a mount since its start.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationTotals {
    /// Operations that ended, by kind.
    pub ended: Vec<(Operation, u64)>,
    /// Operations that failed, by kind. A lookup of a name that does not exist does not fail.
    pub failed: Vec<(Operation, u64)>,
    /// Bytes read by the kernel.
    pub bytes_read: u64,
    /// Bytes written by the kernel.
    pub bytes_written: u64,
    /// Latencies by kind, µs.
    pub latency: Vec<CommandLatency<Operation>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_has_one_name() {
        let mut names: Vec<_> = Operation::ALL.iter().map(|o| o.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Operation::ALL.len());
    }

    #[test]
    fn totals_are_sums_over_all_shards() {
        let operations = Operations::new(2);
        let since = io::time::now();
        operations.ended(0, Operation::Read, since, false);
        operations.ended(1, Operation::Read, since, true);
        operations.read(5);
        let totals = operations.totals();
        assert!(totals.ended.contains(&(Operation::Read, 2)));
        assert!(totals.failed.contains(&(Operation::Read, 1)));
        assert_eq!((totals.bytes_read, totals.bytes_written), (5, 0));
        assert_eq!(totals.latency.len(), 1);
        assert_eq!(totals.latency[0].count, 2);
    }
}
