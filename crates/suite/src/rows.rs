//! The table of all rows: table, name, work, goal.

use clap::ValueEnum;

/// Bytes of a logical block of every volume here.
pub(crate) const BLOCK: u64 = 4096;
/// Bytes of the requests that fill, and of the sequential rows.
pub(crate) const LARGE: u64 = 128 << 10;

/// A table of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Table {
    /// NVMe/TCP compared with qemu-storage-daemon
    Nvme,
    /// iSCSI compared with tgt
    Iscsi,
    /// NFS compared with nfs-ganesha
    Nfs,
    /// A pool compared with a raw file
    Pool,
}

impl Table {
    /// The columns of its contenders.
    pub(crate) fn columns(self) -> &'static [&'static str] {
        match self {
            Table::Nvme => &["wirepool mem", "wirepool file", "peer NBD", "local"],
            Table::Iscsi => &[
                "wirepool file",
                "tgt, same file",
                "wirepool mem",
                "NVMe/TCP mem",
            ],
            Table::Nfs => &["wirepool", "wirepool, 4K records", "ganesha"],
            Table::Pool => &["compared with", "volume"],
        }
    }
}

/// Backing of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Memory: our server compared with the other one.
    Ram,
    /// A file on a disk. NVMe/TCP: our server compared with the same file without network.
    Disk,
}

/// An operation that is repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// PUTFH, GETATTR.
    Attributes,
    /// PUTFH, LOOKUP, GETFH, GETATTR.
    Lookup,
    /// OPEN that creates, WRITE of 4 KiB, COMMIT, CLOSE.
    Create,
}

/// An operation on a raw file or a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Read,
    Write,
    /// Each write is durable before it counts: the raw file is flushed after it.
    SyncWrite,
    /// As `SyncWrite`, but the raw file is written through (RWF_DSYNC).
    WriteThrough,
    /// As `SyncWrite`, but one flush of the raw file covers all writes that ended before it begins.
    GroupedWrite,
}

/// Work of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Work {
    /// I/O of our client: medium, fio's mode, block size in bytes, depth.
    Io(Backing, &'static str, u32, u32),
    /// Idle connections.
    Idle,
    /// Memory of a server with every slot of many connections in use.
    Memory,
    /// Two connections on two shards, compared with one on one.
    TwoShards,
    /// Work with attributes and names over NFS.
    Names(Task),
    /// Listing a directory with attributes over NFS.
    List,
    /// I/O in this process, on a raw file and on a volume: act, bytes, depth.
    Local(Act, u64, u64),
    /// Random 4 KiB writes at depth 32 to a volume, compared with a file of this kind.
    Beside(Other),
    /// A volume of a pool, compared with itself before or with nothing.
    Alone(Alone),
    /// A raidz in memory.
    Raidz(Raidz),
    /// A pool in memory, on a shard of its own.
    Shards(Shards),
    /// A pool on a hard disk, with a device of this class.
    Class(Class),
}

/// A file that a volume is compared with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Other {
    /// The page cache, with an fsync at the end.
    PageCache,
    /// btrfs in a loop file.
    Btrfs,
}

/// Rows of a pool alone.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Alone {
    /// Bytes that devices write for each byte: act, depth.
    Written(Act, u64),
    CachedReads,
    SnapshotsUnderLoad,
    ManySnapshots,
    Full,
    /// Random overwrites of a volume that takes this percentage of the pool, compared with one that takes a fifth; both were overwritten
    /// three times before.
    Aged(u64),
    /// Reads in order after random overwrites, when the order mover is done.
    PutInOrder,
    /// Import after a crash during these writes.
    Import(Act),
    /// A write to a volume of 16 TiB, compared with one of 1 GiB.
    Growth,
}

/// Rows of a raidz2 of ten members.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Raidz {
    /// Raw bytes that records of 4 KiB take.
    Stored,
    /// Bytes that members get for random overwrites; percent of the space that is live.
    Overwritten(u64),
    /// Requests of 1 MiB in order, compared with all members raw.
    Sequential(Act),
    /// Processor time of parity.
    Parity,
}

/// Rows about the shards of a pool: bytes of a write.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shards {
    /// Processor time of the owner for writes from another shard, compared with a pool without workers.
    OwnerTime(u64),
    /// Writes on two shards, compared with one.
    Two(u64),
}

/// Rows about device classes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Class {
    /// Durable writes, compared with the log device itself.
    Log,
    /// A cold walk over a tree of files, compared with a pool without the class.
    Special,
    /// Random writes of small records that a full special device does not take, compared with a pool without the class.
    FullSpecial,
    /// Random reads of four times the memory, compared with the cache device itself.
    Cache,
}

/// A row.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) table: Table,
    pub(crate) name: &'static str,
    pub(crate) work: Work,
    /// In the language of [`crate::goal`]; empty without a goal.
    pub(crate) goal: &'static str,
}

impl Row {
    /// The columns of the goal: ours, and the one that it is compared with.
    pub(crate) fn compared(&self) -> (usize, usize) {
        match (self.table, self.work) {
            (Table::Nvme, Work::Io(Backing::Disk, ..)) => (1, 3),
            (Table::Nvme | Table::Nfs, _) => (0, 2),
            (Table::Iscsi, _) => (0, 1),
            (Table::Pool, _) => (1, 0),
        }
    }

    /// Whether it has one round, or does its rounds itself.
    pub(crate) fn is_once(&self) -> bool {
        matches!(
            self.work,
            Work::Idle
                | Work::Memory
                | Work::Beside(_)
                | Work::Alone(_)
                | Work::Raidz(_)
                | Work::Shards(_)
                | Work::Class(_)
        )
    }

    /// Bytes of its requests.
    pub(crate) fn block_size(&self) -> u32 {
        match self.work {
            Work::Io(_, _, block_size, _) => block_size,
            Work::Raidz(Raidz::Sequential(_)) => M1,
            Work::Alone(Alone::PutInOrder)
            | Work::Shards(Shards::OwnerTime(LARGE) | Shards::Two(LARGE)) => K128,
            _ => BLOCK as u32,
        }
    }
}

const K4: u32 = 4096;
const K128: u32 = 128 << 10;
/// A MiB.
pub(crate) const M1: u32 = 1 << 20;

macro_rules! rows {
    ($($table:ident $name:literal, $work:expr, $goal:literal;)*) => {{
        use Alone::{Aged, CachedReads, Full, Growth, Import, ManySnapshots, PutInOrder, SnapshotsUnderLoad, Written};
        use Raidz::{Overwritten, Parity, Sequential, Stored};
        use Backing::{Disk, Ram};
        use Shards::{OwnerTime, Two};
        use Work::{Alone as Pool, Beside, Idle, Io, List, Local, Memory, Names, TwoShards};
        &[$(Row { table: Table::$table, name: $name, work: $work, goal: $goal }),*]
    }};
}

/// All rows. Goals of NFS are those of the project's plan for it.
pub(crate) const ROWS: &[Row] = rows! {
    Nvme "RAM 4K randread Q1", Io(Ram, "randread", K4, 1), "p50 ≤ 0.5 x";
    Nvme "RAM 4K randread Q32", Io(Ram, "randread", K4, 32), "CPU ≤ 3.5 µs, CPU ≤ 0.2 x";
    Nvme "RAM 4K randread Q128", Io(Ram, "randread", K4, 128), "CPU ≤ 2.5 µs";
    Nvme "RAM 4K randwrite Q32", Io(Ram, "randwrite", K4, 32), "CPU ≤ 5 µs";
    Nvme "RAM 128K read Q8", Io(Ram, "read", K128, 8), "rate ≥ 2.5 x, CPU ≤ 0.25 x";
    Nvme "RAM 128K write Q8", Io(Ram, "write", K128, 8), "rate ≥ 2.5 x, CPU ≤ 0.25 x";
    Nvme "disk 4K randread Q1", Io(Disk, "randread", K4, 1), "p50 ≤ +30 µs";
    Nvme "disk 4K randread Q32", Io(Disk, "randread", K4, 32), "rate ≥ 0.9 x";
    Nvme "disk 4K randwrite Q32", Io(Disk, "randwrite", K4, 32), "rate ≥ 0.9 x";
    Nvme "disk 128K read Q8", Io(Disk, "read", K128, 8), "rate ≥ 0.9 x";
    Nvme "disk 128K write Q8", Io(Disk, "write", K128, 8), "rate ≥ 0.9 x";
    Nvme "100 idle connections", Idle, "idle < 1 %";
    // 64 MiB, the data of every capsule, and the buffer pool of a shard (64 MiB)
    Nvme "memory under load, 100 busy queues of 32", Memory, "memory ≤ 153 MiB";
    Nvme "two connections on two shards (needs 4 processors)", TwoShards, "rate ≥ 1.7 x";

    Iscsi "RAM 4K randread Q1", Io(Ram, "randread", K4, 1), "CPU < 1 x";
    Iscsi "RAM 4K randread Q32", Io(Ram, "randread", K4, 32), "rate ≥ 1.5 x, CPU < 1 x";
    Iscsi "RAM 4K randread Q128", Io(Ram, "randread", K4, 128), "CPU < 1 x";
    Iscsi "RAM 4K randwrite Q1", Io(Ram, "randwrite", K4, 1), "CPU < 1 x";
    Iscsi "RAM 4K randwrite Q32", Io(Ram, "randwrite", K4, 32), "rate ≥ 1.5 x, CPU < 1 x";
    Iscsi "RAM 4K randwrite Q128", Io(Ram, "randwrite", K4, 128), "CPU < 1 x";
    Iscsi "RAM 128K read Q8", Io(Ram, "read", K128, 8), "CPU < 1 x";
    Iscsi "RAM 128K write Q8", Io(Ram, "write", K128, 8), "CPU < 1 x";
    Iscsi "disk 4K randread Q32", Io(Disk, "randread", K4, 32), "CPU < 1 x";
    Iscsi "disk 4K randwrite Q32", Io(Disk, "randwrite", K4, 32), "CPU < 1 x";

    Nfs "NFS 4K randread Q1", Io(Ram, "randread", K4, 1), "p50 ≤ 30 µs";
    Nfs "NFS 4K randread Q32", Io(Ram, "randread", K4, 32), "rate ≥ 100 k/s, CPU ≤ 7 µs";
    Nfs "NFS 4K randwrite Q32", Io(Ram, "randwrite", K4, 32), "rate ≥ 90 k/s, CPU ≤ 8 µs";
    Nfs "NFS 1M read Q4", Io(Ram, "read", M1, 4), "bytes ≥ 3 GB/s, CPU ≤ 320 µs";
    Nfs "NFS 1M write Q4", Io(Ram, "write", M1, 4), "bytes ≥ 2.5 GB/s, CPU ≤ 320 µs";
    Nfs "NFS GETATTR Q32", Names(Task::Attributes), "CPU ≤ 4 µs, rate ≥ 5 x";
    Nfs "NFS LOOKUP Q32", Names(Task::Lookup), "CPU ≤ 5 µs, rate ≥ 5 x";
    Nfs "NFS create, write 4K, commit, close Q32", Names(Task::Create), "rate ≥ 5 x";
    Nfs "NFS list 50,000 with attributes", List, "time ≤ 500 ms";
    Nfs "NFS 100 idle clients", Idle, "idle ≤ 1 %";
    Nfs "NFS memory of 1000 clients", Memory, "memory ≤ 256 MiB";

    Pool "4K randwrite sync Q1", Local(Act::SyncWrite, BLOCK, 1), "rate ≥ 0.95 x";
    Pool "4K randwrite sync Q32", Local(Act::SyncWrite, BLOCK, 32), "rate ≥ 0.9 x";
    Pool "4K randwrite async Q32", Local(Act::Write, BLOCK, 32), "rate ≥ 1.5 x, CPU ≤ +6 µs";
    Pool "4K randread Q1", Local(Act::Read, BLOCK, 1), "rate ≥ 0.9 x";
    Pool "4K randread Q32", Local(Act::Read, BLOCK, 32), "rate ≥ 0.9 x";
    Pool "128K write Q8", Local(Act::Write, LARGE, 8), "rate ≥ 0.9 x";
    Pool "128K read Q8", Local(Act::Read, LARGE, 8), "rate ≥ 0.9 x";
    Pool "4K randwrite async Q32, page cache and fsync", Beside(Other::PageCache), "";
    Pool "4K randwrite async Q32, btrfs in a loop file", Beside(Other::Btrfs), "rate ≥ 10 x";
    Pool "remote 4K randwrite sync Q1", Io(Disk, "randwrite", K4, 1), "";
    Pool "remote 4K randwrite sync Q32", Io(Disk, "randwrite", K4, 32), "";
    Pool "remote 4K randread Q1", Io(Disk, "randread", K4, 1), "";
    Pool "remote 4K randread Q32", Io(Disk, "randread", K4, 32), "";
    Pool "bytes written for each, 4K randwrite async Q32", Pool(Written(Act::Write, 32)), "written ≤ 1.3 each";
    Pool "bytes written for each, 4K randwrite sync Q1", Pool(Written(Act::SyncWrite, 1)), "written ≤ 2.2 each";
    Pool "4K reads from the record cache Q1", Pool(CachedReads), "CPU ≤ 2 µs";
    Pool "snapshots under load, in memory", Pool(SnapshotsUnderLoad), "slowest ≤ +10 ms";
    Pool "4K randwrite async Q32, many snapshots", Pool(ManySnapshots), "rate ≥ 0.7 x";
    Pool "4K randwrite async Q32, a full pool", Pool(Full), "rate ≥ 0.7 x";
    Pool "4K randwrite async Q32, aged, 70 % full against 20 %", Pool(Aged(70)), "rate ≥ 0.8 x, written ≤ 1.6 each";
    Pool "4K randwrite async Q32, aged, 80 % full against 20 %", Pool(Aged(80)), "rate ≥ 0.65 x, written ≤ 2.2 each";
    Pool "4K randwrite async Q32, aged, 90 % full against 20 %", Pool(Aged(90)), "rate ≥ 0.45 x, written ≤ 3.5 each";
    Pool "128K read Q8, overwritten at random twice, put in order", Pool(PutInOrder), "rate ≥ 0.7 x";
    Pool "import after a crash at full load", Pool(Import(Act::SyncWrite)), "replay ≤ 10 s/GiB";
    Pool "import after a crash, unflushed writes", Pool(Import(Act::Write)), "time ≤ 10 s";
    // at most 1.5 times the cost
    Pool "4K randwrite, 16 TiB against 1 GiB (sparse)", Pool(Growth), "rate ≥ 0.667 x";
    Pool "owner's time, 4K randwrite async Q32 from another shard", Work::Shards(OwnerTime(BLOCK)), "CPU ≤ 0.7 µs";
    Pool "owner's time, 128K write Q8 from another shard", Work::Shards(OwnerTime(LARGE)), "CPU ≤ 8 µs";
    Pool "4K randwrite async Q32, two shards", Work::Shards(Two(BLOCK)), "rate ≥ 1.6 x";
    Pool "128K write Q8, two shards", Work::Shards(Two(LARGE)), "rate ≥ 1.6 x";
    Pool "raidz2 8+2, raw bytes stored for each, 4K records", Work::Raidz(Stored), "written ≤ 1.3 each";
    Pool "raidz2 8+2, bytes written for each, 50 % full", Work::Raidz(Overwritten(50)), "written ≤ 1.7 each";
    Pool "raidz2 8+2, bytes written for each, 70 % full", Work::Raidz(Overwritten(70)), "written ≤ 2.2 each";
    Pool "raidz2 8+2, bytes written for each, 80 % full", Work::Raidz(Overwritten(80)), "written ≤ 2.7 each";
    Pool "raidz2 8+2, bytes written for each, 90 % full", Work::Raidz(Overwritten(90)), "written ≤ 4 each";
    // at most 1.2 times the log's time
    Pool "hard disk with a log, 4K randwrite sync Q1", Work::Class(Class::Log), "rate ≥ 0.833 x";
    Pool "hard disk with a special device, cold find and stat", Work::Class(Class::Special), "rate ≥ 20 x";
    Pool "hard disk with a full special device, 4K randwrite Q32", Work::Class(Class::FullSpecial), "rate ≥ 0.9 x";
    Pool "hard disk with a cache, 4K randread Q32", Work::Class(Class::Cache), "rate ≥ 0.8 x";
    // 0.8 of the part of the raw bytes that is data
    Pool "raidz2 8+2, 1M write", Work::Raidz(Sequential(Act::Write)), "bytes ≥ 0.64 x";
    Pool "raidz2 8+2, 1M read", Work::Raidz(Sequential(Act::Read)), "bytes ≥ 0.8 x";
    Pool "raidz2 8+2, parity of 1 KiB", Work::Raidz(Parity), "CPU ≤ 0.15 µs";
};
