//! Facts about disks.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::Known;
use serde::{Deserialize, Serialize};

/// A disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Its name, such as `nvme0n1`.
    pub name: String,
    /// `nvme`, `sata`, `sas`, `scsi`, `usb`, `virtio`, `nvme-tcp`, `nvme-rdma`, `iscsi` or `other`.
    pub transport: String,
    /// Its model.
    pub model: Known<String>,
    /// Its firmware.
    pub firmware: Known<String>,
    /// Whether it has spinning platters.
    pub is_rotational: Known<bool>,
    /// The scheduler in use.
    pub scheduler: Known<String>,
    /// What the kernel believes about its cache: `write back` (volatile) or `write through`.
    pub write_cache: Known<String>,
    /// Whether the device itself says that it has a volatile write cache that is on.
    pub claims_volatile_cache: Known<bool>,
    /// The most bytes that one discard frees; 0 without support.
    pub discard_max: Known<u64>,
    /// Formats that an NVMe namespace can have; none on other disks.
    pub formats: Known<Option<Vec<LbaFormat>>>,
    /// Largest request that the kernel sends, KiB.
    pub request_kib: Known<u32>,
    /// Largest request that the device takes, KiB.
    pub request_kib_max: Known<u32>,
    /// Commands in flight of a SCSI or SATA disk; none on other disks.
    pub queue_depth: Known<Option<u32>>,
    /// NUMA node of its controller; none if the machine has one node.
    pub node: Known<Option<u32>>,
    /// The PCIe link of its controller; none without one.
    pub pcie: Known<Option<Pcie>>,
    /// `link_power_management_policy` of a SATA disk; none on other disks.
    pub link_power: Known<Option<String>>,
    /// Health report of the device; none on virtual and remote disks.
    pub smart: Known<Option<Smart>>,
}

impl Disk {
    /// Whether it is reached over a network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        matches!(self.transport.as_str(), "nvme-tcp" | "nvme-rdma" | "iscsi")
    }
}

/// A format of an NVMe namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LbaFormat {
    /// Its number.
    pub index: u32,
    /// Bytes of a block.
    pub block: u64,
    /// Bytes of metadata for a block.
    pub metadata: u32,
    /// Relative performance: 0 best, 3 degraded.
    pub performance: u32,
    /// Whether the namespace has it now.
    pub is_current: bool,
}

/// A PCIe link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pcie {
    /// Address of the device, such as `0000:41:00.0`.
    pub address: String,
    /// Present speed of a lane, GT/s.
    pub speed: f64,
    /// The highest speed that the device can have, GT/s.
    pub speed_max: f64,
    /// Lanes in use.
    pub width: u32,
    /// Lanes of the device.
    pub width_max: u32,
}

/// Health report of a disk.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Smart {
    /// Whether the device says that it is healthy.
    pub is_passed: Known<bool>,
    /// Its temperature, °C.
    pub temperature: Known<i64>,
    /// Temperature above which it warns, °C; none if it has no such limit.
    pub temperature_limit: Known<Option<i64>>,
    /// Used share of its endurance, percent; none on disks without wear.
    pub wear_percent: Known<Option<u64>>,
    /// Spare blocks that are left, percent; none on disks without this value.
    pub spare_percent: Known<Option<u64>>,
    /// Spare blocks below which it warns, percent; none on disks without this value.
    pub spare_limit: Known<Option<u64>>,
    /// Errors of the medium: NVMe media errors, or pending and uncorrectable sectors.
    pub media_errors: Known<u64>,
}
