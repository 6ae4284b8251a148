//! Checks of ports: link, mode, subnet manager, IPoIB, PCIe, virtual functions.
//!
//! **Called by** [`super::super`]. **Invariants**: those of [`super`].

use super::{Package, active, infiniband, install, ports, share_card};
use crate::check::{Check, Judge, Side};
use crate::facts::{ETHERNET, Facts, INFINIBAND, PORT_ACTIVE, Pcie, RdmaPort};
use crate::report::Severity;
use crate::step::Step;

/// MTU of IPoIB in datagram mode with packets of 2 KiB, bytes.
const DATAGRAM_MTU: u32 = 2044;
/// The largest MTU of IPoIB in datagram mode, bytes.
const DATAGRAM_MTU_MAX: u32 = 4092;
/// Cards with driver mlx5 whose ports can be InfiniBand or Ethernet: ConnectX-4 to ConnectX-8 without the Ethernet-only types.
const VPI: &[&str] = &["MT4115", "MT4119", "MT4121", "MT4123", "MT4129", "MT4131"];

pub(in crate::checks) const CHECKS: &[Check] = &[
    Check {
        id: "rdma-port-down",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "an RDMA port that is not active (a note if another port of the card is)",
        why: "No RDMA connection can use it.",
        risk: "None from looking.",
        judge: port_down,
    },
    Check {
        id: "rdma-subnet-manager",
        side: Side::Both,
        severity: Severity::Critical,
        finds: "an InfiniBand port with a link, but without a subnet manager",
        why: "Without one the port gets no address and stays in INIT. Two machines on one cable have none by themselves.",
        risk: "Only one active subnet manager of a fabric should have a high priority.",
        judge: subnet_manager,
    },
    Check {
        id: "rdma-port-mode",
        side: Side::Both,
        severity: Severity::Note,
        finds: "a port that may be in the wrong mode: ports of one card in different modes, or InfiniBand without a partner on a card \
                that can also be Ethernet",
        why: "Cards come from the factory with one mode; a port in the other mode than its switch never gets a link.",
        risk: "The card has to be reset: all its links are down meanwhile.",
        judge: port_mode,
    },
    Check {
        id: "rdma-link-width",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "an active InfiniBand port with one lane",
        why: "Cables have four lanes (two for some rates). A damaged cable or transceiver leaves one, with a quarter of the rate.",
        risk: "Changing the cable interrupts the link.",
        judge: link_width,
    },
    Check {
        id: "rdma-pcie",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "an active port whose PCIe link carries less than the port's rate",
        why: "The card then pauses or drops what the port receives, and no setting of the network changes it.",
        risk: "Seating a card again needs a shutdown.",
        judge: pcie,
    },
    Check {
        id: "rdma-ipoib-mode",
        side: Side::Both,
        severity: Severity::Note,
        finds: "an IPoIB interface in datagram mode with MTU 2044, or in connected mode with an MTU of datagram mode",
        why: "TCP over it handles packets of 2 KiB; connected mode takes 64 KiB.",
        risk: "All machines of the fabric need the same mode. Some drivers (mlx5 with enhanced IPoIB) have only datagram mode.",
        judge: ipoib_mode,
    },
    Check {
        id: "rdma-sriov-guid",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a virtual function (SR-IOV) without a GUID",
        why: "Its port never becomes active, and RDMA in the guest fails.",
        risk: "The function has to be bound again: its guest loses the device meanwhile.",
        judge: sriov,
    },
    Check {
        id: "rdma-errors",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "an RDMA port that counted link errors, lost or repeated packets",
        why: "A bad cable, or a RoCE network without flow control; each loss stalls a connection.",
        risk: "None from looking.",
        judge: errors,
    },
];

fn port_down(facts: &Facts, j: &mut Judge) {
    let ports = ports(facts, j);
    for (name, p) in &ports {
        let physical = j.know(name, &p.phys_state);
        let Some(state) = j.know(name, &p.state).filter(|s| *s != PORT_ACTIVE) else {
            continue;
        };
        let physical = physical.map_or("", String::as_str);
        let text = match physical {
            "Disabled" => format!("ip link set {} up; on InfiniBand: ibportstate -D 0 PORT enable", p.netdev),
            "LinkUp" => "the link is there: the subnet manager, or the interface (ip link set up), makes the port active".into(),
            _ => "check cable, transceiver, switch port and the mode of the port".into(),
        };
        let is_spare = ports
            .iter()
            .any(|(_, q)| share_card(p, q) && q.is_active() == Some(true));
        let severity = match is_spare && physical != "LinkUp" {
            true => Severity::Note,
            false => Severity::Warning,
        };
        let evidence = format!("state {state}, link {physical}");
        j.find_as(severity, name, evidence, vec![Step::advice(text)]);
    }
}

fn subnet_manager(facts: &Facts, j: &mut Judge) {
    for (name, p) in infiniband(facts, j) {
        if j.know(&name, &p.sm_lid) != Some(&0) {
            continue;
        }
        // Without a partner on the cable there is no subnet to be managed.
        if j.know(&name, &p.phys_state).is_none_or(|s| s == "LinkUp") {
            let steps = vec![
                install(facts, Package::SubnetManager),
                Step::run(&["systemctl", "enable", "--now", "opensm"]),
                Step::advice(
                    "on one machine of the fabric only, or on the switch; a machine with cables to several fabrics needs an opensm for \
                     each, with `opensm -B -g GUID` (`ibstat -p` prints the GUIDs of ports)",
                ),
            ];
            j.find(name, "sm_lid 0", steps);
        }
    }
}

/// Work that gives a port another mode.
fn other_mode(p: &RdmaPort, mode: &str) -> Step {
    let RdmaPort { pci, port, .. } = p;
    let pci = match pci.as_str() {
        "" => "PCI-ADDRESS",
        pci => pci,
    };
    let (word, number) = match mode {
        "Ethernet" => ("eth", 2),
        _ => ("ib", 1),
    };
    Step::advice(match p.driver.as_str() {
        "mlx4_core" => format!(
            "if {mode} is right: echo {word} > /sys/bus/pci/devices/{pci}/mlx4_port{port}; for each boot: \
             `options mlx4_core port_type_array={number},{number}` (one value for each port) in /etc/modprobe.d/mlx4.conf"
        ),
        _ => format!(
            "if {mode} is right: mstconfig -d {pci} set LINK_TYPE_P{port}={number} (2 is Ethernet, 1 InfiniBand), then \
             mstfwreset -d {pci} reset, or a reboot (package mstflint)"
        ),
    })
}

fn port_mode(facts: &Facts, j: &mut Judge) {
    let ports = ports(facts, j);
    for (i, (name, p)) in ports.iter().enumerate() {
        let mode = j.know_if_any(name, &p.mode);
        let Some(layer) = j.know(name, &p.link_layer) else {
            continue;
        };
        let is_other = |(_, q): &&(String, &RdmaPort)| {
            share_card(p, q) && q.link_layer.value().is_some_and(|l| l != layer)
        };
        if let Some((other, q)) = ports[..i].iter().find(is_other) {
            let wanted = q.link_layer.value().map_or(ETHERNET, String::as_str);
            let evidence = format!("{layer}; {other} of the same card has another mode");
            j.find(name, evidence, vec![other_mode(p, wanted)]);
            continue;
        }
        let is_vpi = mode.is_some() || VPI.contains(&p.hca_type.as_str());
        let is_alone = p.phys_state.value().is_some_and(|s| s == "Polling");
        if is_vpi && is_alone && layer == INFINIBAND && !p.is_virtual_function {
            let told = mode.map_or(String::new(), |m| format!(", mlx4_port{} is {m}", p.port));
            let evidence = format!("InfiniBand, and no partner answers (Polling){told}");
            j.find(name, evidence, vec![other_mode(p, ETHERNET)]);
        }
    }
}

fn link_width(facts: &Facts, j: &mut Judge) {
    let up = active(facts, j);
    for (name, p) in infiniband(facts, j) {
        if !up.iter().any(|(n, _)| *n == name) {
            continue;
        }
        if let Some(rate) = j.know(&name, &p.rate).filter(|r| r.lanes == 1) {
            let text = "seat the cable again, then try another cable and another switch port";
            let evidence = format!("1 lane, {} Gb/s", rate.gbps);
            j.find(name, evidence, vec![Step::advice(text)]);
        }
    }
}

/// Gb/s that a PCIe link carries, after the code of its lanes: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, and FLITs of 242 of 256 bytes
/// from 64 GT/s on (PCI Express Base Specification 6.0, 4.2).
fn carries(link: &Pcie) -> f64 {
    let code = match link.speed {
        s if s <= 5.0 => 0.8,
        s if s <= 32.0 => 128.0 / 130.0,
        _ => 242.0 / 256.0,
    };
    link.speed * f64::from(link.width) * code
}

fn pcie(facts: &Facts, j: &mut Judge) {
    for (name, p) in active(facts, j) {
        let (Some(link), Some(rate)) = (j.know_if_any(&name, &p.pcie), j.know(&name, &p.rate))
        else {
            continue;
        };
        let most = carries(link);
        // The link of a software device is that of the card below, whose rate it does not know.
        if most < rate.gbps && !matches!(p.driver.as_str(), "rxe" | "siw") {
            let evidence = format!(
                "port {} Gb/s; PCIe {} GT/s x{} carries {most:.0} Gb/s, the card can have {} GT/s x{}",
                rate.gbps, link.speed, link.width, link.speed_max, link.width_max
            );
            let text = match link.speed < link.speed_max || link.width < link.width_max {
                true => {
                    "seat the card again, or use a slot with more lanes or a newer PCIe; look at the slot's settings in the firmware"
                }
                false => {
                    "the card itself has no more: put the second port's traffic on another card"
                }
            };
            j.find(name, evidence, vec![Step::advice(text)]);
        }
    }
}

fn ipoib_mode(facts: &Facts, j: &mut Judge) {
    let interfaces = j.know("", &facts.rdma.ipoib).into_iter().flatten();
    for i in interfaces {
        let (Some(mode), Some(mtu)) = (j.know(&i.name, &i.mode), j.know(&i.name, &i.mtu)) else {
            continue;
        };
        let large = Step::run(&["ip", "link", "set", &i.name, "mtu", "65520"]);
        let steps = match mode.as_str() {
            "datagram" if *mtu <= DATAGRAM_MTU => vec![
                Step::set(format!("/sys/class/net/{}/mode", i.name), "connected"),
                large,
                Step::advice(
                    "if connected mode is refused: MTU 4092 on the fabric's partition instead (opensm: `Default=0x7fff, ipoib, mtu=5` \
                     in partitions.conf)",
                ),
            ],
            "connected" if *mtu <= DATAGRAM_MTU_MAX => vec![
                large,
                Step::advice("the MTU for each boot is set where the interface has its address"),
            ],
            _ => continue,
        };
        j.find(&i.name, format!("{mode} mode, MTU {mtu}"), steps);
    }
}

fn sriov(facts: &Facts, j: &mut Judge) {
    for (name, p) in ports(facts, j) {
        if let Some(functions) = j.know_if_any(&name, &p.functions)
            && !functions.without_guid.is_empty()
        {
            let numbers = functions.without_guid.iter();
            let numbers: Vec<String> = numbers.map(u32::to_string).collect();
            let evidence = format!(
                "{} of at most {} virtual functions; without a GUID: {}",
                functions.count,
                functions.most,
                numbers.join(", ")
            );
            let directory = format!("/sys/class/infiniband/{}/device/sriov", p.device);
            let text = format!(
                "for each function N, with GUIDs that are unique in the fabric: echo GUID > {directory}/N/node; echo GUID > \
                 {directory}/N/port; echo Follow > {directory}/N/policy; then bind the function again"
            );
            j.find(&name, evidence, vec![Step::advice(text)]);
        }
        if !p.is_virtual_function {
            continue;
        }
        let Some(guid) = j.know(&name, &p.node_guid) else {
            continue;
        };
        if guid.chars().all(|c| matches!(c, '0' | ':')) {
            let text = format!(
                "ip link set dev PF vf N node_guid GUID port_guid GUID, then bind {} again",
                p.pci
            );
            j.find(name, format!("node GUID {guid}"), vec![Step::advice(text)]);
        }
    }
}

fn errors(facts: &Facts, j: &mut Judge) {
    for (name, p) in ports(facts, j) {
        let Some(counters) = j.know(&name, &p.errors) else {
            continue;
        };
        let bad: Vec<String> = counters
            .iter()
            .filter(|(_, n)| **n > 0)
            .map(|(counter, n)| format!("{counter} {n}"))
            .collect();
        if !bad.is_empty() {
            let text = "check the cable and flow control, then watch the counters";
            j.find(name, bad.join(", "), vec![Step::advice(text)]);
        }
    }
}
