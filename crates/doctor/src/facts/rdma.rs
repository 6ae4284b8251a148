//! Facts about RDMA.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::{Known, Pcie};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// State of a port that carries traffic.
pub const PORT_ACTIVE: &str = "ACTIVE";
/// Link layer of RoCE and iWARP.
pub const ETHERNET: &str = "Ethernet";
/// Link layer whose GIDs are no IP addresses, and the type of its GIDs.
pub const INFINIBAND: &str = "InfiniBand";
/// Type of the GIDs that pass routers; the kernel takes it if nothing was set.
pub const ROCE_V2: &str = "RoCE v2";
/// Type of the GIDs of iWARP.
const IWARP: &str = "iWARP";

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

impl RdmaPort {
    /// Device and number, such as `mlx5_0/1`.
    #[must_use]
    pub fn name(&self) -> String {
        port_name(&self.device, self.port)
    }

    /// Whether it carries traffic; `None` if its state is not known.
    #[must_use]
    pub fn is_active(&self) -> Option<bool> {
        self.state.value().map(|state| state == PORT_ACTIVE)
    }

    /// Whether its link layer is InfiniBand; `None` if it is not known.
    #[must_use]
    pub fn is_infiniband(&self) -> Option<bool> {
        self.link_layer.value().map(|layer| layer == INFINIBAND)
    }

    /// Whether an entry of its table of GIDs is this address.
    #[must_use]
    pub fn has_gid(&self, address: IpAddr) -> bool {
        let mut gids = self.gids.value().into_iter().flatten();
        gids.any(|g| g.address() == Some(address))
    }

    /// Types of the GIDs of its table, each once, in alphabetical order.
    #[must_use]
    pub fn gid_types(&self) -> Vec<String> {
        let gids = self.gids.value().into_iter().flatten();
        let mut types: Vec<String> = gids.map(|g| self.gid_type(g).to_owned()).collect();
        types.sort_unstable();
        types.dedup();
        types
    }

    /// Type of an entry of its table. The kernel calls the entries of InfiniBand and iWARP `IB/RoCE v1`.
    #[must_use]
    pub fn gid_type<'a>(&self, gid: &'a Gid) -> &'a str {
        self.type_without_address().unwrap_or(&gid.kind)
    }

    /// Type of the GID that connections from an address take. Tables of RoCE list an address once for each version; the setting of the
    /// connection manager decides, and RoCE v2 where nothing was set. `None` without an entry of the address.
    #[must_use]
    pub fn gid_type_of(&self, address: IpAddr) -> Option<&str> {
        if let Some(only) = self.type_without_address() {
            return Some(only);
        }
        let gids = self.gids.value().into_iter().flatten();
        let of_address = gids.filter(|g| g.address() == Some(address));
        let mut types = of_address.map(|g| g.kind.as_str());
        let set = self.cm_mode.value().and_then(Option::as_deref);
        let chosen = set.unwrap_or(ROCE_V2);
        types
            .clone()
            .find(|t| *t == chosen)
            .or_else(|| types.next())
    }

    /// The only type that its GIDs can have; `None` with RoCE.
    fn type_without_address(&self) -> Option<&'static str> {
        if self.is_iwarp.value() == Some(&true) {
            return Some(IWARP);
        }
        (self.is_infiniband() == Some(true)).then_some(INFINIBAND)
    }

    /// The values that outputs show.
    #[must_use]
    pub fn summary(&self) -> PortSummary {
        PortSummary {
            device: self.device.clone(),
            port: self.port,
            interface: self.netdev.clone(),
            state: self.state.value().cloned(),
            phys_state: self.phys_state.value().cloned(),
            rate_gbps: self.rate.value().map(|rate| rate.gbps),
            link_layer: self.link_layer.value().cloned(),
            gid_types: self.gid_types(),
        }
    }
}

/// A port of an RDMA device as `rdma status`, `session show` and reports show it. `None` stands for a value that is not known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PortSummary {
    /// Its device, such as `mlx5_0`.
    pub device: String,
    /// Its number.
    pub port: u32,
    /// Its network interface; empty without one.
    pub interface: String,
    /// Such as `ACTIVE`.
    pub state: Option<String>,
    /// State of the cable's end, such as `LinkUp`.
    pub phys_state: Option<String>,
    /// Gb/s of all lanes.
    pub rate_gbps: Option<f64>,
    /// `Ethernet` or `InfiniBand`.
    pub link_layer: Option<String>,
    /// Types of its GIDs: `RoCE v2`, `IB/RoCE v1`, `iWARP`, `InfiniBand`; of a session, the type of the GID of its address.
    pub gid_types: Vec<String>,
}

impl PortSummary {
    /// Device and number, such as `mlx5_0/1`.
    #[must_use]
    pub fn name(&self) -> String {
        port_name(&self.device, self.port)
    }
}

fn port_name(device: &str, port: u32) -> String {
    format!("{device}/{port}")
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
