//! `wirepool bench rdma-report`: a machine's RDMA in one table, to be sent to others: devices, verbs beside TCP, NVMe/RDMA beside NVMe/TCP.
//!
//! **Called by** the command line. **Invariants**: targets are only read; a part that cannot be measured is named with the reason, and the
//! others are measured nevertheless; names of hosts and addresses of interfaces are not in the part about the machine.

mod text;

pub use text::render;

use crate::plan::{Machine, Report};
use crate::probe::network::result::Probed;
use crate::report::fio;
use doctor::capture::capture_rdma;
use doctor::facts::{Facts, Known, PortSummary};
use doctor::source::Host;
use serde::Serialize;
use serde_json::{Value, json};

/// A port of an RDMA device, with its card and its interface. Empty texts and `None` stand for unknown values.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Port {
    /// The port.
    #[serde(flatten)]
    pub summary: PortSummary,
    /// Driver, such as `mlx5_core`, `rxe`.
    pub driver: String,
    /// Type of the device, such as `MT4115`.
    pub kind: String,
    /// Version of its firmware.
    pub firmware: String,
    /// MTU of its network interface, bytes.
    pub mtu: Option<u32>,
    /// Generation and lanes of its PCIe link, such as `8 GT/s x8`.
    pub pcie: String,
}

/// RDMA of a machine.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RdmaFacts {
    /// Version of rdma-core; `None` if it is not known or not installed.
    pub rdma_core: Option<String>,
    /// Providers of rdma-core, such as `mlx5`.
    pub providers: Vec<String>,
    /// Why programs cannot use RDMA; `None` if they can.
    pub reason: Option<String>,
    /// Ports of devices.
    pub ports: Vec<Port>,
}

impl RdmaFacts {
    /// Reads this machine.
    #[must_use]
    pub fn here() -> RdmaFacts {
        let facts = capture_rdma(&Host::this(), Known::unknown("not asked for"));
        RdmaFacts::of(&facts, io::rdma::support().err().map(|why| why.to_string()))
    }

    /// The facts of a machine on which programs cannot use RDMA for this reason.
    #[must_use]
    fn of(facts: &Facts, reason: Option<String>) -> RdmaFacts {
        let rdma = &facts.rdma;
        let ports = rdma.ports.value().into_iter().flatten();
        let nics: Vec<_> = facts.nics.value().into_iter().flatten().collect();
        let port = |p: &doctor::facts::RdmaPort| {
            let nic = nics.iter().find(|n| n.name == p.netdev);
            let pcie = p.pcie.value().and_then(Option::as_ref);
            Port {
                summary: p.summary(),
                driver: p.driver.clone(),
                kind: p.hca_type.clone(),
                firmware: p.firmware.clone(),
                mtu: nic.and_then(|n| n.mtu.value().copied()),
                pcie: pcie.map_or(String::new(), |l| format!("{} GT/s x{}", l.speed, l.width)),
            }
        };
        RdmaFacts {
            rdma_core: rdma.version.value().cloned().flatten(),
            providers: rdma.providers.value().cloned().unwrap_or_default(),
            reason,
            ports: ports.map(port).collect(),
        }
    }
}

/// The report.
pub struct RdmaReport {
    /// The machine.
    pub machine: Machine,
    /// Time, milliseconds since 1970.
    pub at_ms: u64,
    /// Its RDMA.
    pub rdma: RdmaFacts,
    /// Verbs beside TCP, if they were asked for and measured.
    pub probe: Option<Probed>,
    /// NVMe/TCP beside NVMe/RDMA, if they were asked for and one of them was measured.
    pub bench: Option<Report>,
    /// Parts that are missing, with the reason.
    pub missing: Vec<String>,
}

impl RdmaReport {
    /// The report as one JSON document. The results have the form of `probe run --json` and `bench compare --json`.
    #[must_use]
    pub fn json(&self) -> Value {
        let m = &self.machine;
        json!({
            "rdma_report": 1,
            "wirepool": env!("CARGO_PKG_VERSION"),
            "time": crate::size::utc(self.at_ms),
            "processor": m.processor,
            "processors": m.processors,
            "memory_bytes": m.memory,
            "kernel": m.kernel,
            "load_before": m.load,
            "rdma": self.rdma,
            "probe": self.probe,
            "bench": self.bench.as_ref().map(fio::render),
            "missing": self.missing,
        })
    }

    /// Whether a device is one of the kernel's emulations, whose speed says nothing about hardware.
    fn is_emulated(&self) -> bool {
        let mut ports = self.rdma.ports.iter();
        ports.any(|p| matches!(p.driver.as_str(), "rxe" | "siw"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doctor::facts::{Gid, Nic, Pcie, Rate, Rdma, RdmaPort};

    /// A machine with one card.
    pub(super) fn facts() -> RdmaFacts {
        let known = |text: &str| Known::Value(text.to_owned());
        let gid = |kind: &str| Gid {
            kind: kind.into(),
            ..Gid::default()
        };
        let port = RdmaPort {
            device: "mlx5_0".into(),
            port: 1,
            driver: "mlx5_core".into(),
            hca_type: "MT4117".into(),
            firmware: "14.32.1010".into(),
            netdev: "ens1".into(),
            state: known("ACTIVE"),
            rate: Known::Value(Rate {
                gbps: 25.0,
                lanes: 1,
            }),
            pcie: Known::Value(Some(Pcie {
                speed: 8.0,
                width: 8,
                ..Pcie::default()
            })),
            link_layer: known("Ethernet"),
            gids: Known::Value(vec![gid("RoCE v2"), gid("IB/RoCE v1"), gid("RoCE v2")]),
            ..RdmaPort::default()
        };
        let nic = Nic {
            name: "ens1".into(),
            mtu: Known::Value(9000),
            ..Nic::default()
        };
        let facts = Facts {
            rdma: Rdma {
                ports: Known::Value(vec![port]),
                version: Known::Value(Some("44.0".into())),
                providers: Known::Value(vec!["mlx5".into()]),
                ..Rdma::default()
            },
            nics: Known::Value(vec![nic]),
            ..Facts::default()
        };
        RdmaFacts::of(&facts, None)
    }

    #[test]
    fn facts_of_a_card_are_taken_over() {
        let facts = facts();
        let expected = Port {
            summary: PortSummary {
                device: "mlx5_0".into(),
                port: 1,
                interface: "ens1".into(),
                state: Some("ACTIVE".into()),
                phys_state: None,
                rate_gbps: Some(25.0),
                link_layer: Some("Ethernet".into()),
                gid_types: vec!["IB/RoCE v1".into(), "RoCE v2".into()],
            },
            driver: "mlx5_core".into(),
            kind: "MT4117".into(),
            firmware: "14.32.1010".into(),
            mtu: Some(9000),
            pcie: "8 GT/s x8".into(),
        };
        assert_eq!(facts.ports, [expected]);
        assert_eq!(facts.rdma_core.as_deref(), Some("44.0"));
        let unknown = RdmaFacts::of(&Facts::default(), Some("no rdma-core".into()));
        assert!(unknown.ports.is_empty() && unknown.rdma_core.is_none());
        assert_eq!(unknown.reason.as_deref(), Some("no rdma-core"));
    }
}
