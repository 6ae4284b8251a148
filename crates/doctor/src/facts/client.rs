//! Facts about a machine as a client of storage.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::Known;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A mounted NFS file system.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NfsMount {
    /// Server and path, such as `server:/tank/home`.
    pub source: String,
    /// Where it is mounted.
    pub target: String,
    /// Options in effect, by name; options without a value have an empty one.
    pub options: BTreeMap<String, String>,
    /// Read-ahead, KiB.
    pub read_ahead_kib: Known<u64>,
    /// Requests that were sent.
    pub requests: Known<u64>,
    /// Requests that were sent again.
    pub retransmissions: Known<u64>,
}

/// A controller of NVMe over Fabrics.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvmeController {
    /// Its name, such as `nvme1`.
    pub name: String,
    /// `tcp` or `rdma`.
    pub transport: String,
    /// NQN of the subsystem.
    pub subsystem: Known<String>,
    /// `live`, `connecting`, `deleting` and others.
    pub state: Known<String>,
    /// Seconds after which the kernel gives up to reconnect and fails I/O; none for never.
    pub loss_timeout_s: Known<Option<u64>>,
    /// Keep alive timeout, s; 0 if it is off.
    pub keep_alive_s: Known<u64>,
    /// I/O queues.
    pub io_queues: Known<u32>,
    /// Policy among several paths; none if the subsystem has no multipath.
    pub io_policy: Known<Option<String>>,
}

/// An iSCSI session of this machine's initiator.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IscsiSession {
    /// Its name, such as `session1`.
    pub name: String,
    /// The target.
    pub target: Known<String>,
    /// `LOGGED_IN`, `FAILED` and others.
    pub state: Known<String>,
    /// Seconds that I/O waits for a lost session before it fails (replacement_timeout).
    pub recovery_s: Known<i64>,
    /// Seconds between NOP-Outs of an idle connection; 0 if they are off.
    pub noop_interval_s: Known<u64>,
    /// Its disks.
    pub disks: Known<Vec<ScsiDisk>>,
}

/// A disk of an iSCSI session.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ScsiDisk {
    /// Its name, such as `sdb`.
    pub name: String,
    /// Identifier of the logical unit; equal on all paths to it.
    pub wwid: Known<String>,
    /// Seconds after which the kernel cancels a command.
    pub timeout_s: Known<u64>,
    /// Commands in flight.
    pub queue_depth: Known<u32>,
    /// Whether a device-mapper device (multipath) uses it.
    pub is_multipath: bool,
}
