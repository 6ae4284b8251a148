//! Facts about the running server, and measurements.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::Known;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, SocketAddr};

/// The running server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Its process.
    pub pid: u32,
    /// Its threads.
    pub shards: usize,
    /// Limit of the buffers of all threads, bytes.
    pub buffer_limit: u64,
    /// Limit of the caches of all pools, bytes.
    pub cache_limit: u64,
    /// Most connections.
    pub connections_max: u64,
    /// Addresses that it serves.
    pub listen: Vec<SocketAddr>,
    /// Its sessions.
    pub sessions: Vec<Session>,
    /// Its pools.
    pub pools: Vec<Pool>,
    /// Its exports over all protocols.
    pub exports: Vec<ServedExport>,
    /// Disks of its pools.
    pub members: Vec<Member>,
    /// Hot spares of its pools. A spare that pools share is there once for each of them.
    pub spares: Vec<Spare>,
    /// Cache devices of its pools.
    pub caches: Vec<CacheDevice>,
    /// Expansions of raidz vdevs that have begun and not ended.
    pub expansions: Vec<Expansion>,
}

/// A session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// Its number.
    pub id: u32,
    /// `nvme`, `iscsi` or `nfs`.
    pub protocol: String,
    /// Name of the host.
    pub host: String,
    /// Entries of its deepest queue; 0 if the protocol has none.
    pub depth: u32,
    /// Keep alive timeout, ms; 0 if there is none.
    pub keep_alive_ms: u64,
    /// Reconnects since the server started.
    pub reconnects: u64,
    /// Seconds since it connected.
    pub age_s: u64,
    /// Commands that failed.
    pub errors: u64,
    /// Commands taken.
    pub commands: u64,
    /// Its connections.
    pub queues: Known<Vec<Queue>>,
}

/// A connection of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// Its number; 0 is the admin queue of NVMe.
    pub qid: u16,
    /// The server's address.
    pub local: SocketAddr,
    /// The client's address.
    pub peer: SocketAddr,
    /// Largest segment that is sent, bytes.
    pub mss: u32,
    /// Smoothed round-trip time, µs.
    pub rtt_us: u32,
    /// Segments sent again.
    pub retransmits: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// The congestion control in use.
    pub congestion: String,
}

/// A pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Why it cannot be opened, or takes no writes.
    pub unusable: Option<String>,
    /// Bytes that it can hold; 0 while it is not open.
    pub size: u64,
    /// Bytes taken.
    pub used: u64,
    /// Its datasets with `sync=disabled`.
    pub sync_disabled: Vec<String>,
    /// Seconds since its last scrub ended; since its oldest dataset was made, if there was no scrub. None without either, and while a scrub
    /// runs.
    pub unscrubbed_s: Option<u64>,
    /// Its special class, if it has one.
    pub special: Option<SpecialUse>,
    /// Why its memory for records should grow before it has cache devices.
    pub memory_first: Option<String>,
    /// Nodes of trees that its normal vdevs had to read since it was opened.
    pub node_reads: u64,
    /// The mean time until such a node was read, µs; 0 without one.
    pub node_read_us: u64,
}

/// The special class of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SpecialUse {
    /// Bytes that it can hold.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Whether small records go to it: more than a quarter of it is free.
    pub takes_small_records: bool,
    /// Bytes that went to the other vdevs for lack of room since the pool was opened, by dataset; the name of the pool for metadata of no dataset.
    pub spilled: Vec<(String, u64)>,
}

/// An export: a subsystem, a target, or a filesystem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedExport {
    /// Its name.
    pub name: String,
    /// `nvme`, `iscsi` or `nfs`.
    pub protocol: String,
    /// Disks that it lacks, each with the reason.
    pub held: Vec<String>,
    /// Whether every host that reaches the server may write to it.
    pub is_open: bool,
}

/// A server that took a connection on its control socket and did not answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Silence {
    /// The control socket.
    pub socket: String,
    /// Time that was waited for an answer, ms.
    pub waited_ms: u64,
}

/// A disk of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// The pool.
    pub pool: String,
    /// Its vdev, such as `mirror-0`.
    pub vdev: String,
    /// The class of its vdev: `normal`, `log` or `special`; empty as `normal`.
    pub class: String,
    /// Disks of its vdev that may fail without loss of data, if all of them are there.
    pub may_fail: u64,
    /// Its path; empty if it is missing.
    pub path: String,
    /// `online`, `stale`, `offline`, `faulted` or `missing`.
    pub state: String,
    /// Whether it has the pool's journal beside blocks: the pool has no log.
    pub has_journal: bool,
    /// The block device that has its data, such as `nvme0n1`; not known for a file on a file system without one.
    pub disk: Known<String>,
    /// Reads that failed.
    pub read_errors: u64,
    /// Writes and flushes that failed.
    pub write_errors: u64,
    /// Blocks with a wrong checksum.
    pub checksum_errors: u64,
    /// Whether the pool frees unused space of its disks by itself.
    pub is_autotrim_on: Known<bool>,
    /// Durations of reads.
    pub reads: Times,
    /// Durations of writes.
    pub writes: Times,
    /// Durations of flushes.
    pub flushes: Times,
}

/// A hot spare of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spare {
    /// The pool.
    pub pool: String,
    /// Its path, or its last known one; empty if there is none.
    pub path: String,
    /// The disk of the pool that it stands in for.
    pub instead_of: Option<String>,
    /// Why it cannot be used.
    pub unusable: Option<String>,
}

/// A cache device of a pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CacheDevice {
    /// The pool.
    pub pool: String,
    /// Its path.
    pub path: String,
    /// The block device that has its data; not known for a file on a file system without one.
    pub disk: Known<String>,
    /// Why it is not used.
    pub unusable: Option<String>,
    /// Bytes for blocks.
    pub size: u64,
    /// Bytes that blocks take.
    pub used: u64,
    /// Blocks found since it was opened.
    pub hits: u64,
    /// Blocks that neither memory nor the device had.
    pub misses: u64,
    /// Misses that a device of twice the size would probably have found.
    pub hits_of_twice: u64,
}

/// An expansion of a raidz by a disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expansion {
    /// The pool.
    pub pool: String,
    /// The vdev, such as `raidz2-0`.
    pub vdev: String,
    /// Bytes of each disk that are moved.
    pub done: u64,
    /// Bytes of each disk that are moved when it ends.
    pub of: u64,
    /// Seconds until it ends, at its speed so far; none while that is not known.
    pub left_s: Option<u64>,
    /// Why it does not go on.
    pub waits_for: Option<String>,
    /// Disks of the vdev that may fail now without loss of data.
    pub may_fail: u64,
}

/// Durations of operations.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Times {
    /// Number of operations.
    pub count: u64,
    /// Median, µs.
    pub p50_us: u64,
    /// 99th percentile, µs.
    pub p99_us: u64,
}

/// Measurements that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Probes {
    /// Path MTU to addresses.
    pub paths: Known<Vec<PathProbe>>,
    /// Durations of durable writes in directories.
    pub flushes: Known<Vec<FlushProbe>>,
}

/// The largest packet that reaches an address undivided.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathProbe {
    /// The address.
    pub address: IpAddr,
    /// MTU of the interface that leads there, bytes.
    pub link_mtu: Known<u32>,
    /// The largest IP packet that was answered, bytes.
    pub path_mtu: Known<u32>,
}

/// Durations of durable writes of 4 KiB to a new file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FlushProbe {
    /// The directory.
    pub directory: String,
    /// The block device below it.
    pub disk: Known<String>,
    /// The durations.
    pub times: Known<Times>,
}
