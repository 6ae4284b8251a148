//! Checks of RoCE: addresses, MTU, flow control and congestion.
//!
//! **Called by** [`super::super`]. **Invariants**: those of [`super`]; iWARP, which is TCP, is left alone.

use super::{nic, roce};
use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, Gid, ROCE_V2};
use crate::report::Severity;
use crate::step::Step;

/// MTU of Ethernet that carries RDMA packets of 4096 bytes.
const ROCE_MTU: u32 = 4200;

pub(in crate::checks) const CHECKS: &[Check] = &[
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
        id: "rdma-cm-mode",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a RoCE port whose connections take RoCE v1 by default",
        why: "It was set once for old switches or cards. Hosts with RoCE v2 cannot connect, and routers drop the packets.",
        risk: "Only new connections change; hosts that use RoCE v1 need the same setting.",
        judge: cm_mode,
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
        id: "rdma-traffic-class",
        side: Side::Both,
        severity: Severity::Note,
        finds: "a RoCE port with priority flow control, but not for priority 0, whose connections have no traffic class",
        why: "RoCE packets then travel in priority 0, which has no flow control: the setting of the network has no effect.",
        risk: "Only new connections change.",
        judge: traffic_class,
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
];

fn is_ipv4(gid: &Gid) -> bool {
    gid.address().is_some_and(|address| address.is_ipv4())
}

fn gids(facts: &Facts, j: &mut Judge) {
    for (name, p) in roce(facts, j) {
        let Some(gids) = j.know(&name, &p.gids) else {
            continue;
        };
        if gids.iter().any(|g| g.kind == ROCE_V2 && is_ipv4(g)) {
            continue;
        }
        let has_v2 = gids.iter().any(|g| g.kind == ROCE_V2);
        let (evidence, text) = match gids.iter().any(is_ipv4) && !has_v2 {
            true => (
                format!("{} GIDs, all of RoCE v1", gids.len()),
                "the card or its driver knows RoCE v1 only (ConnectX-3 without Pro, or old firmware): update the firmware; else only \
                 machines of one Ethernet segment that use RoCE v1, too, reach this port"
                    .to_owned(),
            ),
            false => (
                format!("{} GIDs, none of RoCE v2 for IPv4", gids.len()),
                format!("give {} an IPv4 address: ip address add ADDRESS/24 dev {}", p.netdev, p.netdev),
            ),
        };
        j.find(name, evidence, vec![Step::advice(text)]);
    }
}

/// A file with a default of a port's connections.
fn of_connections(device: &str, port: u32, file: &str) -> String {
    format!("/sys/kernel/config/rdma_cm/{device}/ports/{port}/{file}")
}

fn cm_mode(facts: &Facts, j: &mut Judge) {
    for (name, p) in roce(facts, j) {
        if let Some(mode) = j.know_if_any(&name, &p.cm_mode).filter(|m| *m != ROCE_V2) {
            let path = of_connections(&p.device, p.port, "default_roce_mode");
            let steps = vec![
                Step::set(path, ROCE_V2),
                Step::advice("and in the script or unit that sets it at boot (cma_roce_mode)"),
            ];
            j.find(name, format!("default_roce_mode {mode}"), steps);
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

fn traffic_class(facts: &Facts, j: &mut Judge) {
    for (name, p) in roce(facts, j) {
        let (Some(nic), Some(class)) = (nic(facts, j, &name, p), j.know(&name, &p.traffic_class))
        else {
            continue;
        };
        let Some(priorities) = j.know_if_any(&name, &nic.pfc) else {
            continue;
        };
        let Some(first) = priorities.first().filter(|_| !priorities.contains(&0)) else {
            continue;
        };
        if *class == 0 {
            // A DSCP has the priority in its upper three bits, and a type of service has the DSCP in its upper six.
            let tos = first << 5;
            let directory = format!("/sys/kernel/config/rdma_cm/{}", p.device);
            let steps = vec![
                Step::run(&["mkdir", "-p", &directory]),
                Step::set(of_connections(&p.device, p.port, "default_roce_tos"), tos),
                Step::advice(format!(
                    "the interface and the switches have to trust DSCP, and map DSCP {} to priority {first}",
                    tos >> 2
                )),
            ];
            let evidence = format!(
                "flow control for priorities {priorities:?} of {}, default_roce_tos 0",
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
