//! Facts about network interfaces and TCP.
//!
//! **Called by** [`super`], which re-exports them. **Invariants**: those of [`super`].

use super::{Conntrack, Known, Pcie};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// TCP settings and counters of the kernel.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tcp {
    /// Default congestion control.
    pub congestion: Known<String>,
    /// Congestion controls that programs may choose.
    pub available: Known<Vec<String>>,
    /// Largest receive buffer, bytes (third value of `tcp_rmem`).
    pub receive_max: Known<u64>,
    /// Largest send buffer, bytes (third value of `tcp_wmem`).
    pub send_max: Known<u64>,
    /// `tcp_window_scaling`.
    pub window_scaling: Known<u32>,
    /// `tcp_sack`.
    pub sack: Known<u32>,
    /// `tcp_slow_start_after_idle`.
    pub slow_start_after_idle: Known<u32>,
    /// Connections that were dropped because a listening socket was full.
    pub listen_overflows: Known<u64>,
    /// Most connections that wait at a listening socket (`net.core.somaxconn`).
    pub somaxconn: Known<u64>,
    /// Packets that were dropped because a processor's queue was full.
    pub softnet_dropped: Known<u64>,
    /// Times that a processor stopped receiving because its budget was used up.
    pub softnet_squeezed: Known<u64>,
    /// Packets that all processors received.
    pub softnet_packets: Known<u64>,
    /// Connection tracking of the firewall; none if it is not loaded.
    pub conntrack: Known<Option<Conntrack>>,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Whether it has a device of its own; if not, it is stacked on others (bond, bridge, VLAN).
    pub is_physical: bool,
    /// Its driver; empty if it has none.
    pub driver: String,
    /// Whether it is up and has a link.
    pub is_up: Known<bool>,
    /// Its addresses.
    pub addresses: Known<Vec<IpAddr>>,
    /// Its MTU, bytes.
    pub mtu: Known<u32>,
    /// Its present speed, Mb/s; none without a link, and on virtual devices.
    pub speed_mbps: Known<Option<u32>>,
    /// The highest speed that it can have, Mb/s; none if it has no list of speeds.
    pub speed_max_mbps: Known<Option<u32>>,
    /// `full`, `half` or `unknown`.
    pub duplex: Known<String>,
    /// NUMA node of its device; none if the machine has one node.
    pub node: Known<Option<u32>>,
    /// Interfaces that it is stacked on.
    pub lowers: Vec<String>,
    /// The PCIe link of its device; none without one.
    pub pcie: Known<Option<Pcie>>,
    /// Descriptor rings; none if the driver has no such setting.
    pub ring: Known<Option<Ring>>,
    /// Interrupt coalescing; none if the driver has no such setting.
    pub coalesce: Known<Option<Coalesce>>,
    /// Queues; none if the driver has no such setting.
    pub channels: Known<Option<Channels>>,
    /// Offloads that can be changed, by ethtool's name.
    pub offloads: Known<BTreeMap<String, bool>>,
    /// Pause frames; none if the driver has no such setting.
    pub pause: Known<Option<Pause>>,
    /// Priorities with priority flow control; none if the driver has no such setting.
    pub pfc: Known<Option<Vec<u32>>>,
    /// Interrupts of its queues.
    pub irqs: Known<Vec<Irq>>,
    /// Counters since boot.
    pub counters: Known<NicCounters>,
}

/// Descriptor rings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ring {
    /// Entries for receiving.
    pub rx: u32,
    /// The most that the device can have.
    pub rx_max: u32,
    /// Entries for sending.
    pub tx: u32,
    /// The most that the device can have.
    pub tx_max: u32,
}

/// Interrupt coalescing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coalesce {
    /// Whether the driver adapts it for receiving.
    pub is_adaptive_rx: bool,
    /// Longest delay of an interrupt for a received packet, µs.
    pub rx_usecs: u32,
    /// Longest delay of an interrupt for a sent packet, µs.
    pub tx_usecs: u32,
}

/// Queues.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Channels {
    /// Queues for receiving: combined and receive-only ones.
    pub rx: u32,
    /// The most that the device can have.
    pub rx_max: u32,
}

/// Pause frames (IEEE 802.3x).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// Obeyed.
    pub rx: bool,
    /// Sent.
    pub tx: bool,
}

/// An interrupt.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Irq {
    /// Its number.
    pub irq: u32,
    /// Interrupts since boot.
    pub count: u64,
    /// Processors that it is delivered to now.
    pub cpus: Vec<u32>,
}

/// Counters of an interface since boot.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NicCounters {
    /// Received packets.
    pub rx_packets: u64,
    /// Packets that were lost because the device had no free descriptor.
    pub rx_missed: u64,
    /// Packets that the kernel dropped.
    pub rx_dropped: u64,
    /// Packets with a wrong checksum of the link.
    pub rx_crc_errors: u64,
    /// Times that the link went down.
    pub carrier_down: u64,
}
