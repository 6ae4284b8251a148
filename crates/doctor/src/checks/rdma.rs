//! Checks of RDMA devices.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; a machine without RDMA devices is left alone.

use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, Nic, RdmaPort};
use crate::report::Severity;
use crate::step::Step;

/// Modules that RDMA programs need.
const MODULES: &[&str] = &["ib_uverbs", "rdma_cm", "rdma_ucm"];
/// MTU of Ethernet that carries RDMA packets of 4096 bytes.
const ROCE_MTU: u32 = 4200;
/// MTU of IPoIB in datagram mode.
const DATAGRAM_MTU: u32 = 2044;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "rdma-modules",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "an RDMA device without the modules that programs need (ib_uverbs, rdma_cm, rdma_ucm)",
        why: "RDMA connections fail, and clients fall back to TCP without a word.",
        risk: "None.",
        judge: modules,
    },
    Check {
        id: "rdma-modules-boot",
        side: Side::Both,
        severity: Severity::Note,
        finds: "loaded RDMA modules that nothing loads at boot",
        why: "After the next boot RDMA connections fail, and clients fall back to TCP.",
        risk: "None.",
        judge: modules_boot,
    },
    Check {
        id: "rdma-port-down",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "an RDMA port that is not active",
        why: "No RDMA connection can use it.",
        risk: "None from looking.",
        judge: port_down,
    },
    Check {
        id: "rdma-subnet-manager",
        side: Side::Both,
        severity: Severity::Critical,
        finds: "an InfiniBand port without a subnet manager",
        why: "Without one the port gets no address and stays in INIT. Two machines on one cable have none by themselves.",
        risk: "Only one active subnet manager of a fabric should have a high priority.",
        judge: subnet_manager,
    },
    Check {
        id: "rdma-port-mode",
        side: Side::Both,
        severity: Severity::Note,
        finds: "ports of one card in different modes (InfiniBand and Ethernet)",
        why: "It is often an accident of a replaced card; the port in the wrong mode never gets a link.",
        risk: "The card has to be reset: all its links are down meanwhile.",
        judge: port_mode,
    },
    Check {
        id: "rdma-ipoib-mode",
        side: Side::Both,
        severity: Severity::Note,
        finds: "an IPoIB interface in datagram mode with a small MTU",
        why: "TCP over it handles packets of 2 KiB; connected mode takes 64 KiB.",
        risk: "All machines of the fabric need the same mode. Some drivers (mlx5 with enhanced IPoIB) have only datagram mode.",
        judge: ipoib_mode,
    },
    Check {
        id: "rdma-gids",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "an active RoCE port without a RoCE v2 address for IPv4",
        why: "NVMe/RDMA and NFS/RDMA over routable RoCE need this entry; RoCE v1 does not pass a router.",
        risk: "None: the kernel makes the entry when the interface has an IPv4 address.",
        judge: gids,
    },
    Check {
        id: "rdma-roce-mtu",
        side: Side::Both,
        severity: Severity::Note,
        finds: "a RoCE port whose Ethernet MTU is below 4200",
        why: "RDMA then sends packets of 1024 bytes instead of 4096: four times as many.",
        risk: "A path with one device of a smaller MTU then drops large packets.",
        judge: roce_mtu,
    },
    Check {
        id: "rdma-flow-control",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a RoCE port with neither priority flow control nor pause frames",
        why: "RoCE sends everything after a lost packet again; without flow control bursts of several clients lose packets.",
        risk: "Flow control of one switch port stops others when it is set wrong: set it on the whole path, for one priority.",
        judge: flow_control,
    },
    Check {
        id: "rdma-ecn",
        side: Side::Both,
        severity: Severity::Note,
        finds: "a RoCE port with congestion notification off",
        why: "Senders then slow down only when pause frames stop them, which also stops others (DCQCN needs ECN).",
        risk: "Switches have to mark packets, too; without them it has no effect.",
        judge: ecn,
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

fn ports<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f RdmaPort)> {
    let ports = j.know("", &facts.rdma.ports).into_iter().flatten();
    ports
        .map(|p| (format!("{}/{}", p.device, p.port), p))
        .collect()
}

/// Ports on Ethernet that are active.
fn roce<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(String, &'f RdmaPort)> {
    let mut ports = ports(facts, j);
    ports.retain(|(name, p)| {
        let is_ethernet = j.know(name, &p.link_layer).is_some_and(|l| l == "Ethernet");
        is_ethernet && j.know(name, &p.state).is_some_and(|s| s == "ACTIVE")
    });
    ports
}

/// The network interface of a port.
fn nic<'f>(facts: &'f Facts, j: &mut Judge, name: &str, port: &RdmaPort) -> Option<&'f Nic> {
    let nics = j.know(name, &facts.nics)?;
    let found = nics.iter().find(|n| n.name == port.netdev);
    if found.is_none() {
        let reason = "its network interface is not known";
        j.know::<()>(name, &crate::Known::unknown(reason));
    }
    found
}

fn modules(facts: &Facts, j: &mut Judge) {
    if ports(facts, j).is_empty() {
        return;
    }
    let Some(loaded) = j.know("", &facts.kernel.modules) else {
        return;
    };
    let missing: Vec<&str> = MODULES
        .iter()
        .copied()
        .filter(|m| !loaded.iter().any(|l| l == m))
        .collect();
    if !missing.is_empty() {
        let mut argv = vec!["modprobe", "-a"];
        argv.extend(&missing);
        let steps = vec![
            Step::run(&argv),
            Step::file("/etc/modules-load.d/wirepool-rdma.conf", MODULES),
        ];
        j.find("RDMA", format!("not loaded: {}", missing.join(" ")), steps);
    }
}

fn modules_boot(facts: &Facts, j: &mut Judge) {
    if ports(facts, j).is_empty() {
        return;
    }
    let (Some(loaded), Some(boot)) = (
        j.know("", &facts.kernel.modules),
        j.know("", &facts.kernel.boot_modules),
    ) else {
        return;
    };
    let is_loaded = |m: &&str| loaded.iter().any(|l| l == m);
    let missing: Vec<&str> = MODULES
        .iter()
        .copied()
        .filter(|m| is_loaded(m) && !boot.iter().any(|b| b == m))
        .collect();
    if !missing.is_empty() {
        let steps = vec![Step::file(
            "/etc/modules-load.d/wirepool-rdma.conf",
            MODULES,
        )];
        let evidence = format!("in no modules-load.d: {}", missing.join(" "));
        j.find("RDMA", evidence, steps);
    }
}

fn port_down(facts: &Facts, j: &mut Judge) {
    for (name, p) in ports(facts, j) {
        if let Some(state) = j.know(&name, &p.state).filter(|s| *s != "ACTIVE") {
            let text = "check cable, switch port and the mode of the port";
            j.find(name, format!("state {state}"), vec![Step::advice(text)]);
        }
    }
}

fn subnet_manager(facts: &Facts, j: &mut Judge) {
    for (name, p) in ports(facts, j) {
        if j.know(&name, &p.link_layer)
            .is_none_or(|l| l != "InfiniBand")
        {
            continue;
        }
        if j.know(&name, &p.sm_lid) == Some(&0) {
            let steps = vec![
                Step::run(&["systemctl", "enable", "--now", "opensm"]),
                Step::advice("on one machine of the fabric only, or on the switch"),
            ];
            j.find(name, "sm_lid 0", steps);
        }
    }
}

/// The card of a PCI address: without the function's number.
fn card(pci: &str) -> &str {
    pci.split('.').next().unwrap_or(pci)
}

fn port_mode(facts: &Facts, j: &mut Judge) {
    let ports = ports(facts, j);
    for (i, (name, p)) in ports.iter().enumerate() {
        let Some(layer) = j.know(name, &p.link_layer) else {
            continue;
        };
        let is_other = |(_, q): &&(String, &RdmaPort)| {
            !q.pci.is_empty()
                && card(&q.pci) == card(&p.pci)
                && q.link_layer.value().is_some_and(|l| l != layer)
        };
        if let Some((other, _)) = ports[..i].iter().find(is_other) {
            let text = format!(
                "mlxconfig -d {} set LINK_TYPE_P1=2 LINK_TYPE_P2=2 (2 is Ethernet, 1 InfiniBand), then mlxfwreset",
                p.pci
            );
            let evidence = format!("{layer}; {other} of the same card has another mode");
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
        if mode == "datagram" && *mtu <= DATAGRAM_MTU {
            let steps = vec![
                Step::set(format!("/sys/class/net/{}/mode", i.name), "connected"),
                Step::run(&["ip", "link", "set", &i.name, "mtu", "65520"]),
                Step::advice(
                    "if connected mode is refused: MTU 4092 on the fabric's partition instead",
                ),
            ];
            j.find(&i.name, format!("datagram mode, MTU {mtu}"), steps);
        }
    }
}

fn gids(facts: &Facts, j: &mut Judge) {
    for (name, p) in roce(facts, j) {
        let Some(gids) = j.know(&name, &p.gids) else {
            continue;
        };
        // An IPv4 address is mapped into the last 4 of 16 bytes.
        let is_good =
            |g: &&crate::facts::Gid| g.kind == "RoCE v2" && g.gid.contains("0000:0000:0000:ffff:");
        if !gids.iter().any(|g| is_good(&g)) {
            let text = format!("give {} an IPv4 address", p.netdev);
            let evidence = format!("{} GIDs, none of RoCE v2 for IPv4", gids.len());
            j.find(name, evidence, vec![Step::advice(text)]);
        }
    }
}

fn roce_mtu(facts: &Facts, j: &mut Judge) {
    for (name, p) in roce(facts, j) {
        let Some(nic) = nic(facts, j, &name, p) else {
            continue;
        };
        if let Some(mtu) = j.know(&name, &nic.mtu).filter(|m| **m < ROCE_MTU) {
            let steps = vec![
                Step::advice("set MTU 9000 on all switches and clients first"),
                Step::run(&["ip", "link", "set", &nic.name, "mtu", "9000"]),
            ];
            j.find(name, format!("MTU {mtu} of {}", nic.name), steps);
        }
    }
}

fn flow_control(facts: &Facts, j: &mut Judge) {
    for (name, p) in roce(facts, j) {
        let Some(nic) = nic(facts, j, &name, p) else {
            continue;
        };
        let priorities = j.know_if_any(&name, &nic.pfc);
        if priorities.is_some_and(|p| !p.is_empty()) {
            continue;
        }
        let Some(pause) = j.know(&name, &nic.pause) else {
            continue;
        };
        let has_pause = pause.as_ref().is_some_and(|p| p.rx && p.tx);
        // Without knowledge of priorities the absence of pause frames proves nothing.
        if !has_pause && nic.pfc.value().is_some() {
            let steps = vec![
                Step::run(&["dcb", "pfc", "set", "dev", &nic.name, "prio-pfc", "3:on"]),
                Step::advice("put RDMA traffic into priority 3, and set the same on the switches"),
            ];
            let evidence = format!(
                "{}: no priority with flow control, no pause frames",
                nic.name
            );
            j.find(name, evidence, steps);
        }
    }
}

fn ecn(facts: &Facts, j: &mut Judge) {
    for (name, p) in roce(facts, j) {
        if j.know(&name, &p.is_ecn_on) == Some(&false) {
            let directory = format!("/sys/class/net/{}/ecn", p.netdev);
            let steps = vec![
                Step::set(format!("{directory}/roce_np/enable/3"), 1),
                Step::set(format!("{directory}/roce_rp/enable/3"), 1),
            ];
            j.find(name, "congestion notification off", steps);
        }
    }
}

fn sriov(facts: &Facts, j: &mut Judge) {
    for (name, p) in ports(facts, j) {
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
