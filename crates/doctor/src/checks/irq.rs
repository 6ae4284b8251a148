//! Checks of interrupts and of distances between device, interrupt and shard.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; a machine with one NUMA node has no distances.

use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, Nic, NumaNode};
use crate::report::Severity;
use crate::step::Step;
use std::collections::BTreeSet;

/// Interrupts below which a queue counts as idle.
const BUSY_MIN: u64 = 10_000;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "irq-one-cpu",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "all busy queues of an interface on one processor",
        why: "That processor does all receiving; it is the limit of the network while the others are idle.",
        risk: "None; a running irqbalance may move the interrupts again.",
        judge: one_cpu,
    },
    Check {
        id: "irq-numa",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "interrupts of an interface on another NUMA node than its device",
        why: "Each packet crosses the link between the processors twice.",
        risk: "None; a running irqbalance may move the interrupts again.",
        judge: irq_numa,
    },
    Check {
        id: "shard-numa",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a server that may run on no processor of the NUMA node of its interface",
        why: "Shards then touch every packet's memory across the link between the processors.",
        risk: "Processors of one node only: measure with and without it.",
        judge: shard_numa,
    },
    Check {
        id: "disk-numa",
        side: Side::Server,
        severity: Severity::Note,
        finds: "all NVMe disks on another NUMA node than all fast interfaces",
        why: "Each byte crosses the link between the processors on its way from disk to network.",
        risk: "Moving a card needs a shutdown.",
        judge: disk_numa,
    },
];

fn physical<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<&'f Nic> {
    let nics = j.know("", &facts.nics).into_iter().flatten();
    let is_up = |n: &&Nic| n.is_physical && n.is_up.value() == Some(&true);
    nics.filter(is_up).collect()
}

fn one_cpu(facts: &Facts, j: &mut Judge) {
    let Some(online) = j.know("", &facts.cpu.online) else {
        return;
    };
    for nic in physical(facts, j) {
        let Some(irqs) = j.know(&nic.name, &nic.irqs) else {
            continue;
        };
        let busy: Vec<_> = irqs.iter().filter(|i| i.count >= BUSY_MIN).collect();
        let cpus: BTreeSet<u32> = busy.iter().flat_map(|i| i.cpus.iter().copied()).collect();
        if busy.len() > 2 && cpus.len() == 1 && online.len() > 2 {
            let cpu = cpus.iter().next().copied().unwrap_or_default();
            let evidence = format!("{} busy interrupts, all on processor {cpu}", busy.len());
            let place = busy.iter().zip(online.iter().cycle());
            let steps = place.map(|(i, cpu)| affinity(i.irq, &cpu.to_string()));
            let steps = steps.chain([Step::advice(
                "or install irqbalance, which does this at each boot",
            )]);
            let steps = steps.collect();
            j.find(&nic.name, evidence, steps);
        }
    }
}

fn affinity(irq: u32, cpus: &str) -> Step {
    Step::set(format!("/proc/irq/{irq}/smp_affinity_list"), cpus)
}

/// Nodes, if there are several.
fn several<'f>(facts: &'f Facts, j: &mut Judge) -> Option<&'f Vec<NumaNode>> {
    j.know("", &facts.cpu.nodes).filter(|n| n.len() > 1)
}

fn list(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    cpus.join(",")
}

fn irq_numa(facts: &Facts, j: &mut Judge) {
    let nics = physical(facts, j);
    let Some(nodes) = several(facts, j) else {
        return;
    };
    for nic in nics {
        let (Some(node), Some(irqs)) = (
            j.know_if_any(&nic.name, &nic.node),
            j.know(&nic.name, &nic.irqs),
        ) else {
            continue;
        };
        let Some(near) = nodes.iter().find(|n| n.node == *node) else {
            continue;
        };
        let is_far = |cpus: &[u32]| !cpus.is_empty() && cpus.iter().all(|c| !near.cpus.contains(c));
        let far: Vec<_> = irqs
            .iter()
            .filter(|i| i.count >= BUSY_MIN && is_far(&i.cpus))
            .collect();
        if !far.is_empty() {
            let evidence = format!(
                "{} of {} interrupts on processors outside of node {node}",
                far.len(),
                irqs.len()
            );
            let cpus = list(&near.cpus);
            let steps = far.iter().map(|i| affinity(i.irq, &cpus)).collect();
            j.find(&nic.name, evidence, steps);
        }
    }
}

fn shard_numa(facts: &Facts, j: &mut Judge) {
    let nics = physical(facts, j);
    let Some(process) = j.know("", &facts.process) else {
        return;
    };
    let (Some(nodes), Some(allowed)) = (several(facts, j), j.know("", &process.cpus)) else {
        return;
    };
    for nic in nics {
        let Some(node) = j.know_if_any(&nic.name, &nic.node) else {
            continue;
        };
        let near = nodes.iter().find(|n| n.node == *node);
        if near.is_some_and(|n| n.cpus.iter().all(|c| !allowed.contains(c))) {
            let evidence = format!(
                "{} is on node {node}; the server runs on processors {}",
                nic.name,
                list(allowed)
            );
            let text =
                "give the server processors of that node, too: CPUAffinity= in its systemd unit";
            j.find(&nic.name, evidence, vec![Step::advice(text)]);
        }
    }
}

fn disk_numa(facts: &Facts, j: &mut Judge) {
    let nics = physical(facts, j);
    if several(facts, j).is_none() {
        return;
    }
    let Some(disks) = j.know("", &facts.disks) else {
        return;
    };
    let nvme = disks.iter().filter(|d| d.transport == "nvme");
    let disks: BTreeSet<u32> = nvme
        .filter_map(|d| j.know_if_any(&d.name, &d.node).copied())
        .collect();
    let nics: BTreeSet<u32> = nics
        .iter()
        .filter_map(|n| j.know_if_any(&n.name, &n.node).copied())
        .collect();
    if !disks.is_empty() && !nics.is_empty() && disks.is_disjoint(&nics) {
        let evidence = format!("NVMe disks on nodes {disks:?}, interfaces on nodes {nics:?}");
        let text = "move the network card into a slot of the disks' node, if there is one";
        j.find("machine", evidence, vec![Step::advice(text)]);
    }
}
