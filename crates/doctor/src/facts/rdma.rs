//! Facts about RDMA.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::Known;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// RDMA of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rdma {
    /// Ports of RDMA devices.
    pub ports: Known<Vec<RdmaPort>>,
    /// IP interfaces on InfiniBand.
    pub ipoib: Known<Vec<Ipoib>>,
}

/// A port of an RDMA device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RdmaPort {
    /// Its device, such as `mlx5_0`.
    pub device: String,
    /// Its number.
    pub port: u32,
    /// Address of the PCI device; empty without one. Ports of one card differ in the last digit.
    pub pci: String,
    /// Its network interface; empty without one.
    pub netdev: String,
    /// Such as `ACTIVE` or `INIT`.
    pub state: Known<String>,
    /// Speed of the link, such as `100 Gb/sec (4X EDR)`.
    pub rate: Known<String>,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: Known<String>,
    /// LID of the subnet manager; 0 without one.
    pub sm_lid: Known<u32>,
    /// The GUID of the device.
    pub node_guid: Known<String>,
    /// Whether it is a virtual function (SR-IOV).
    pub is_virtual_function: bool,
    /// GIDs that are set.
    pub gids: Known<Vec<Gid>>,
    /// Error counters since boot or reset.
    pub errors: Known<BTreeMap<String, u64>>,
    /// Whether it marks and obeys congestion notifications (ECN for RoCE).
    pub is_ecn_on: Known<bool>,
}

/// A GID.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gid {
    /// Its place in the table.
    pub index: u32,
    /// Its value.
    pub gid: String,
    /// `IB/RoCE v1` or `RoCE v2`.
    pub kind: String,
}

/// An IP interface on InfiniBand.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ipoib {
    /// Its name.
    pub name: String,
    /// `datagram` or `connected`.
    pub mode: Known<String>,
    /// Its MTU, bytes.
    pub mtu: Known<u32>,
}
