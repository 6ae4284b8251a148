//! Checks of network interfaces.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; only interfaces with a link are judged.

use crate::check::{Check, Judge, Side};
use crate::facts::{Facts, Nic};
use crate::report::Severity;
use crate::step::Step;

/// Speed from which the settings of a fast network matter, Mb/s.
const FAST_MBPS: u32 = 10_000;
/// The MTU of Ethernet without jumbo frames, bytes.
const STANDARD_MTU: u32 = 1500;
/// Receive descriptors below which bursts are lost on a fast link.
const RING_MIN: u32 = 1024;
/// Delay of a receive interrupt above which it costs more than the network itself, µs.
const COALESCE_US_MAX: u32 = 50;
/// Receive queues that are enough for any machine.
const QUEUES_ENOUGH: u32 = 16;
/// Lost packets of a million received ones that are too many.
const LOST_OF_MILLION: u64 = 10;
/// Offloads that a storage network needs, by ethtool's names.
const OFFLOADS: &[&str] = &[
    "generic-receive-offload",
    "rx-checksumming",
    "scatter-gather",
    "tcp-segmentation-offload",
    "tx-checksumming",
];

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "nic-duplex",
        side: Side::Both,
        severity: Severity::Critical,
        finds: "a link in half duplex",
        why: "A half-duplex link loses packets whenever both sides send; storage over it is slower by factors.",
        risk: "The link is down for seconds while it negotiates.",
        judge: duplex,
    },
    Check {
        id: "nic-speed",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a link slower than its interface can be",
        why: "A bad cable, transceiver or switch port often shows as a lower speed first; it bounds all throughput.",
        risk: "None from looking; changing cable or port interrupts the link.",
        judge: speed,
    },
    Check {
        id: "nic-mtu-stack",
        side: Side::Both,
        severity: Severity::Critical,
        finds: "a bond, bridge or VLAN with a larger MTU than an interface below it",
        why: "Packets of the larger size are dropped on the way down: small requests work, large ones hang.",
        risk: "The link may be down for a second while the MTU changes.",
        judge: mtu_stack,
    },
    Check {
        id: "nic-mtu-standard",
        side: Side::Both,
        severity: Severity::Note,
        finds: "MTU 1500 on a link of 10 Gb/s or more",
        why: "Jumbo frames save processor time for large requests. They need the same MTU on switches and clients.",
        risk: "A path with one device of a smaller MTU then drops large packets. Run `wirepool doctor ADDRESS` afterwards.",
        judge: mtu_standard,
    },
    Check {
        id: "nic-rings",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a receive ring below 1024 entries that the device could have larger",
        why: "Several clients that write at once overrun a small ring; TCP then waits for retransmissions.",
        risk: "Most drivers reset the link for a second.",
        judge: rings,
    },
    Check {
        id: "nic-coalescing",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "receive interrupts delayed by more than 50 µs, without adaptation",
        why: "The delay is part of every small read and write; at queue depth 1 it can be more than the disk's time.",
        risk: "More interrupts per second; a little more processor time under load.",
        judge: coalescing,
    },
    Check {
        id: "nic-offloads",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "segmentation, receive or checksum offloads that are off",
        why: "Without them the processor handles each packet of 1500 bytes; large transfers cost several times as much.",
        risk: "Old drivers turn offloads off for a reason: watch for errors of the link afterwards.",
        judge: offloads,
    },
    Check {
        id: "nic-lro",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "large receive offload on an interface of a bridge",
        why: "LRO changes packets in a way that forwarding breaks: guests behind the bridge see stalls.",
        risk: "None; generic receive offload does the same work without this defect.",
        judge: lro,
    },
    Check {
        id: "nic-queues",
        side: Side::Both,
        severity: Severity::Note,
        finds: "fewer receive queues than processors, although the device has more",
        why: "Each queue is served by one processor; too few queues make one processor the limit of the network.",
        risk: "Most drivers reset the link for a second.",
        judge: queues,
    },
    Check {
        id: "nic-lost-packets",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "more than 10 lost packets of a million received",
        why: "TCP waits at least one round trip, at worst 200 ms, for each loss; latencies of single requests show it.",
        risk: "Larger rings use a few MiB of memory.",
        judge: lost_packets,
    },
    Check {
        id: "nic-crc-errors",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "received packets with a wrong checksum of the link",
        why: "The cable, transceiver or connector damages packets. It gets worse, and ends as a link that goes down.",
        risk: "Changing the cable interrupts the link.",
        judge: crc_errors,
    },
    Check {
        id: "nic-link-flaps",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a link that went down more than 10 times since boot",
        why: "Clients wait and reconnect each time.",
        risk: "Changing the cable interrupts the link.",
        judge: link_flaps,
    },
];

/// Times that a link may go down in normal maintenance.
const FLAPS_MAX: u64 = 10;

/// Interfaces with a link.
fn each_up(facts: &Facts, j: &mut Judge, mut f: impl FnMut(&mut Judge, &Nic)) {
    let Some(nics) = j.know("", &facts.nics) else {
        return;
    };
    for nic in nics {
        if j.know(&nic.name, &nic.is_up) == Some(&true) {
            f(j, nic);
        }
    }
}

/// Interfaces with a device and a link.
fn each(facts: &Facts, j: &mut Judge, mut f: impl FnMut(&mut Judge, &Nic)) {
    each_up(facts, j, |j, nic| {
        if nic.is_physical {
            f(j, nic);
        }
    });
}

fn is_fast(nic: &Nic) -> bool {
    let speed = nic.speed_mbps.value().copied().flatten();
    speed.is_some_and(|s| s >= FAST_MBPS)
}

fn duplex(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        if j.know(&nic.name, &nic.duplex).is_some_and(|d| d == "half") {
            let steps = vec![
                Step::run(&["ethtool", "-s", &nic.name, "autoneg", "on"]),
                Step::advice("set the switch port to automatic negotiation, too"),
            ];
            j.find(&nic.name, "duplex half", steps);
        }
    });
}

fn speed(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        let (Some(Some(speed)), Some(Some(max))) = (
            j.know(&nic.name, &nic.speed_mbps),
            j.know(&nic.name, &nic.speed_max_mbps),
        ) else {
            return;
        };
        if speed < max {
            let evidence = format!("{speed} Mb/s; the interface can have {max} Mb/s");
            let text = "check cable, transceiver and switch port";
            j.find(&nic.name, evidence, vec![Step::advice(text)]);
        }
    });
}

fn mtu_stack(facts: &Facts, j: &mut Judge) {
    each_up(facts, j, |j, nic| {
        let Some(upper) = j.know(&nic.name, &nic.mtu) else {
            return;
        };
        for name in &nic.lowers {
            let nics = facts.nics.value().into_iter().flatten();
            let Some(lower) = nics.into_iter().find(|n| n.name == *name) else {
                continue;
            };
            let Some(mtu) = j.know(name, &lower.mtu).filter(|m| *m < upper) else {
                continue;
            };
            let evidence = format!("MTU {upper} on {}, MTU {mtu} on {name} below it", nic.name);
            let step = Step::run(&["ip", "link", "set", name, "mtu", &upper.to_string()]);
            j.find(name, evidence, vec![step, keep_mtu()]);
        }
    });
}

fn keep_mtu() -> Step {
    Step::advice("set the same MTU in the network's configuration, so that it stays after a boot")
}

fn mtu_standard(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        let speed = j.know(&nic.name, &nic.speed_mbps).copied().flatten();
        let Some(mtu) = j.know(&nic.name, &nic.mtu) else {
            return;
        };
        if let Some(speed) = speed.filter(|s| *s >= FAST_MBPS && *mtu <= STANDARD_MTU) {
            let steps = vec![
                Step::advice("set MTU 9000 on all switches and clients first"),
                Step::run(&["ip", "link", "set", &nic.name, "mtu", "9000"]),
                keep_mtu(),
            ];
            j.find(&nic.name, format!("MTU {mtu} at {speed} Mb/s"), steps);
        }
    });
}

fn rings(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        let Some(ring) = j.know_if_any(&nic.name, &nic.ring) else {
            return;
        };
        if ring.rx < RING_MIN && ring.rx < ring.rx_max {
            let evidence = format!("{} receive entries of at most {}", ring.rx, ring.rx_max);
            let new = ring.rx_max.min(4 * RING_MIN);
            j.find(&nic.name, evidence, grow_ring(&nic.name, new));
        }
    });
}

fn grow_ring(nic: &str, entries: u32) -> Vec<Step> {
    let entries = entries.to_string();
    let command = format!("ethtool -G {} rx {entries}", crate::step::quoted(nic));
    vec![
        Step::run(&["ethtool", "-G", nic, "rx", &entries]),
        at_boot(nic, "rings", &command),
    ]
}

/// A udev rule that runs a command when the interface appears.
fn at_boot(nic: &str, what: &str, command: &str) -> Step {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !nic.chars().all(is_plain) {
        return Step::advice("repeat the command at each boot");
    }
    Step::file(
        format!("/etc/udev/rules.d/90-wirepool-{nic}-{what}.rules"),
        &[&format!(
            "ACTION==\"add\", SUBSYSTEM==\"net\", NAME==\"{nic}\", RUN+=\"/usr/sbin/{command}\""
        )],
    )
}

fn coalescing(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        let Some(c) = j.know_if_any(&nic.name, &nic.coalesce) else {
            return;
        };
        if !c.is_adaptive_rx && c.rx_usecs > COALESCE_US_MAX {
            let name = crate::step::quoted(&nic.name);
            let command = format!("ethtool -C {name} adaptive-rx on");
            let steps = vec![
                Step::run(&["ethtool", "-C", &nic.name, "adaptive-rx", "on"]),
                Step::advice("a driver without adaptation takes `rx-usecs 8` instead"),
                at_boot(&nic.name, "coalescing", &command),
            ];
            let evidence = format!("rx-usecs {}, adaptive-rx off", c.rx_usecs);
            j.find(&nic.name, evidence, steps);
        }
    });
}

fn offloads(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        let Some(all) = j.know(&nic.name, &nic.offloads) else {
            return;
        };
        let off: Vec<&str> = OFFLOADS
            .iter()
            .copied()
            .filter(|name| all.get(*name) == Some(&false))
            .collect();
        if !off.is_empty() {
            let mut argv = vec!["ethtool", "-K", &nic.name];
            argv.extend(off.iter().flat_map(|name| [*name, "on"]));
            j.find(
                &nic.name,
                format!("off: {}", off.join(", ")),
                vec![Step::run(&argv)],
            );
        }
    });
}

fn lro(facts: &Facts, j: &mut Judge) {
    let Some(nics) = j.know("", &facts.nics) else {
        return;
    };
    for nic in nics {
        let is_below = |n: &Nic| n.driver == "bridge" && n.lowers.contains(&nic.name);
        if !nics.iter().any(is_below) {
            continue;
        }
        let Some(all) = j.know(&nic.name, &nic.offloads) else {
            continue;
        };
        if all.get("large-receive-offload") == Some(&true) {
            let step = Step::run(&["ethtool", "-K", &nic.name, "lro", "off"]);
            j.find(
                &nic.name,
                "large-receive-offload on, in a bridge",
                vec![step],
            );
        }
    }
}

fn queues(facts: &Facts, j: &mut Judge) {
    let Some(online) = j.know("", &facts.cpu.online) else {
        return;
    };
    let cpus = u32::try_from(online.len()).unwrap_or(u32::MAX);
    each(facts, j, |j, nic| {
        let Some(c) = j.know_if_any(&nic.name, &nic.channels) else {
            return;
        };
        let good = cpus.min(c.rx_max).min(QUEUES_ENOUGH);
        if c.rx < good && is_fast(nic) {
            let evidence = format!(
                "{} receive queues, {cpus} processors; the device can have {}",
                c.rx, c.rx_max
            );
            let good = good.to_string();
            let step = Step::run(&["ethtool", "-L", &nic.name, "combined", &good]);
            j.find(&nic.name, evidence, vec![step]);
        }
    });
}

fn lost_packets(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        let Some(c) = j.know(&nic.name, &nic.counters) else {
            return;
        };
        let lost = c.rx_missed;
        if lost.saturating_mul(1_000_000) > c.rx_packets.saturating_mul(LOST_OF_MILLION) {
            let evidence = format!(
                "{lost} of {} packets lost for lack of a descriptor",
                c.rx_packets
            );
            let max = nic.ring.value().and_then(Option::as_ref).map(|r| r.rx_max);
            let steps = match max {
                Some(max) => grow_ring(&nic.name, max),
                None => vec![Step::advice("spread the interrupts over more processors")],
            };
            j.find(&nic.name, evidence, steps);
        }
    });
}

fn crc_errors(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        let Some(c) = j.know(&nic.name, &nic.counters) else {
            return;
        };
        if c.rx_crc_errors > 0 {
            let evidence = format!("{} packets with a wrong checksum", c.rx_crc_errors);
            let text = "clean or change cable and transceiver, then watch the counter";
            j.find(&nic.name, evidence, vec![Step::advice(text)]);
        }
    });
}

fn link_flaps(facts: &Facts, j: &mut Judge) {
    each(facts, j, |j, nic| {
        let Some(c) = j.know(&nic.name, &nic.counters) else {
            return;
        };
        if c.carrier_down > FLAPS_MAX {
            let evidence = format!("the link went down {} times since boot", c.carrier_down);
            let text = "check cable, transceiver and the log of the switch";
            j.find(&nic.name, evidence, vec![Step::advice(text)]);
        }
    });
}
