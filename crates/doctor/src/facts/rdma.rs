//! Facts about RDMA.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::{Known, Pcie};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// RDMA of the machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rdma {
    /// Ports of RDMA devices.
    pub ports: Known<Vec<RdmaPort>>,
    /// IP interfaces on InfiniBand.
    pub ipoib: Known<Vec<Ipoib>>,
    /// Libraries of rdma-core that the loader finds, such as `libibverbs.so.1`.
    pub libraries: Known<Vec<String>>,
    /// Version of rdma-core, from the name of its library: `44.0` of `libibverbs.so.1.14.44.0`; none if the name has no version.
    pub version: Known<Option<String>>,
    /// Names of providers: the parts of rdma-core for one driver each, such as `mlx5`.
    pub providers: Known<Vec<String>>,
    /// Device files through which programs reach the devices.
    pub nodes: Known<Vec<DeviceNode>>,
    /// Whether the kernel has the module `nvme_rdma`, loaded or not.
    pub has_nvme_rdma: Known<bool>,
}

/// A device file in `/dev/infiniband`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceNode {
    /// Its path.
    pub path: String,
    /// Its permissions, the lowest nine bits of its mode.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
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
    /// Driver of its device, such as `mlx5_core`, or `rxe` and `siw` for those without a card; empty if it is not known.
    pub driver: String,
    /// Type of its device, such as `MT4115`; empty if the driver does not say.
    pub hca_type: String,
    /// Version of its firmware; empty without one.
    pub firmware: String,
    /// Its network interface; empty without one.
    pub netdev: String,
    /// Such as `ACTIVE` or `INIT`.
    pub state: Known<String>,
    /// State of the cable's end, such as `LinkUp`, `Polling` (no partner) or `Disabled`.
    pub phys_state: Known<String>,
    /// Its present rate.
    pub rate: Known<Rate>,
    /// The PCIe link of its device; none without one.
    pub pcie: Known<Option<Pcie>>,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: Known<String>,
    /// Whether its device speaks iWARP, and not RoCE or InfiniBand.
    pub is_iwarp: Known<bool>,
    /// Mode of the port that the mlx4 driver was told: `ib`, `eth` or `auto (...)`; none with other drivers.
    pub mode: Known<Option<String>>,
    /// LID of the subnet manager; 0 without one.
    pub sm_lid: Known<u32>,
    /// The GUID of the device.
    pub node_guid: Known<String>,
    /// Whether it is a virtual function (SR-IOV).
    pub is_virtual_function: bool,
    /// Virtual functions that its device is divided into; none if it cannot be divided, or is one itself.
    pub functions: Known<Option<Functions>>,
    /// Kind of GIDs that connections take by default, such as `RoCE v2`; none if nothing was set, so that the kernel takes RoCE v2.
    pub cm_mode: Known<Option<String>>,
    /// Type of service (TOS) of RoCE packets of connections that do not choose one: the DSCP times 4.
    pub traffic_class: Known<u32>,
    /// GIDs that are set.
    pub gids: Known<Vec<Gid>>,
    /// Error counters since boot or reset.
    pub errors: Known<BTreeMap<String, u64>>,
    /// Whether it marks and obeys congestion notifications (ECN for RoCE).
    pub is_ecn_on: Known<bool>,
}

/// Rate of a port.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rate {
    /// Gb/s of all lanes.
    pub gbps: f64,
    /// Lanes in use.
    pub lanes: u32,
}

/// Virtual functions (SR-IOV) of a device.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Functions {
    /// Functions that exist now.
    pub count: u32,
    /// The most that the device can have.
    pub most: u32,
    /// Numbers of functions without a GUID of the port; empty if the driver does not show GUIDs.
    pub without_guid: Vec<u32>,
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
    /// The network interface of the address; empty without one.
    pub netdev: String,
}

impl Gid {
    /// The IP address that it is: an IPv4 address in its mapped form counts as one. `None` if the value is no GID.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        let gid: Ipv6Addr = self.gid.parse().ok()?;
        Some(IpAddr::V6(gid).to_canonical())
    }
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
