//! Facts about kernel, processors, memory, clock and the server's process.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::Known;
use serde::{Deserialize, Serialize};

/// The kernel and its settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Kernel {
    /// Its release, such as `6.1.0-18-amd64`.
    pub release: Known<String>,
    /// Its full version text, which on Debian has the number of the stable release.
    pub version: Known<String>,
    /// Loaded modules, and built-in ones that have parameters.
    pub modules: Known<Vec<String>>,
    /// Modules that are loaded at boot by `modules-load.d` or `/etc/modules`.
    pub boot_modules: Known<Vec<String>>,
    /// The distribution and its relatives, such as `ubuntu debian` (`ID` and `ID_LIKE` of `/etc/os-release`).
    pub distribution: Known<String>,
    /// Version of the loaded ZFS module; none if it is not loaded.
    pub zfs: Known<Option<String>>,
    /// `kernel.io_uring_disabled`; 0 on kernels without it.
    pub io_uring_disabled: Known<u32>,
    /// `kernel.numa_balancing`.
    pub numa_balancing: Known<u32>,
}

/// Processors.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Numbers of the processors that are online.
    pub online: Known<Vec<u32>>,
    /// NUMA nodes.
    pub nodes: Known<Vec<NumaNode>>,
    /// Frequency settings by processor; empty where the kernel does not set frequencies, as in most virtual machines.
    pub frequency: Known<Vec<CpuFrequency>>,
    /// Idle states of the first processor; empty without a driver for them.
    pub idle: Known<Vec<IdleState>>,
    /// Share of time since boot that the hypervisor took, percent.
    pub steal_percent: Known<f64>,
}

/// A NUMA node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NumaNode {
    /// Its number.
    pub node: u32,
    /// Its processors.
    pub cpus: Vec<u32>,
}

/// Frequency settings of one processor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CpuFrequency {
    /// Its number.
    pub cpu: u32,
    /// The governor.
    pub governor: Known<String>,
    /// Highest frequency of the processor, kHz.
    pub max_khz: Known<u64>,
    /// Highest frequency that the settings allow, kHz.
    pub limit_khz: Known<u64>,
}

/// An idle state of a processor.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// Time to leave it, µs.
    pub latency_us: u64,
    /// Whether it is disabled.
    pub is_disabled: bool,
}

/// Memory of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// All of it, bytes.
    pub total: Known<u64>,
    /// Bytes that programs can still get.
    pub available: Known<u64>,
    /// `vm.dirty_bytes`, or `vm.dirty_ratio` of all memory: bytes of the page cache that may wait for writing.
    pub dirty_max: Known<u64>,
}

/// The clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// The clock source in use.
    pub source: Known<String>,
    /// Whether the clock follows a time server.
    pub is_synchronised: Known<bool>,
}

/// Firewall connection tracking.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Conntrack {
    /// Connections in its table.
    pub count: u64,
    /// Size of its table.
    pub max: u64,
}

/// The server's process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Limit of locked memory, bytes; none for unlimited.
    pub memlock: Known<Option<u64>>,
    /// Limit of open descriptors.
    pub open_files: Known<u64>,
    /// Bytes of it in swap.
    pub swapped: Known<u64>,
    /// Processors that it may run on.
    pub cpus: Known<Vec<u32>>,
    /// Whether it may use io_uring although `kernel.io_uring_disabled` is 1: it has CAP_SYS_ADMIN.
    pub is_privileged: Known<bool>,
    /// Limits of its control group.
    pub cgroup: Cgroup,
}

/// Limits of a control group, the strictest of it and those above it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cgroup {
    /// Limit of memory, bytes; none for unlimited.
    pub memory_max: Known<Option<u64>>,
    /// Processors' worth of time that it may take; none for unlimited.
    pub cpu_max: Known<Option<f64>>,
    /// Periods in which it was stopped for having taken its time.
    pub throttled: Known<u64>,
}
