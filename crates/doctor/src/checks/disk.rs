//! Checks of disks: settings, links and formats.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`]; remote disks are judged by the checks of clients, except
//! for the settings of their request queue.

use crate::check::{Check, Judge, Side};
use crate::facts::{Disk, Facts, Pcie, Times};
use crate::report::Severity;
use crate::step::Step;
use crate::step::quoted;

/// Flush time above which a solid-state disk has no power-loss protection, µs.
const FLUSH_US_SLOW: u64 = 1000;
/// Flush time below which a disk with platters cannot have written, µs: a platter turns in 4 to 11 ms.
const FLUSH_US_IMPOSSIBLE: u64 = 500;
/// Fewest flushes for a judgement.
const FLUSHES_MIN: u64 = 16;
/// Commands in flight of a disk with native command queueing.
const DEPTH_MIN: u32 = 2;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "disk-scheduler",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a solid-state or remote disk with scheduler bfq, or a remote one with any scheduler",
        why: "The scheduler takes a lock and processor time for each request; a remote disk's server orders requests itself.",
        risk: "Requests in flight wait for milliseconds once.",
        judge: scheduler,
    },
    Check {
        id: "disk-cache-hidden",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a disk with a volatile write cache that the kernel believes to be write through",
        why: "The kernel then sends no flush: data that the server reported as durable is lost with the power.",
        risk: "Durable writes become slower: they were not durable before.",
        judge: cache_hidden,
    },
    Check {
        id: "disk-flush-slow",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a solid-state disk whose flushes take more than 1 ms (measured on a pool's disk, or with --probe)",
        why: "The disk has no power-loss protection: each durable write waits for the flash. A protected disk takes 10 to 100 µs.",
        risk: "A disk with protection as pool disk is the mending; sync=disabled trades durability for speed.",
        judge: flush_slow,
    },
    Check {
        id: "disk-flush-ignored",
        side: Side::Server,
        severity: Severity::Critical,
        finds: "a disk with platters and a write cache whose flushes take less than 0.5 ms",
        why: "No platter turns that fast: the disk or its controller confirms flushes that did not happen.",
        risk: "Durable writes become slower: they were not durable before.",
        judge: flush_ignored,
    },
    Check {
        id: "disk-volatile-cache",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a solid-state disk that says its write cache is volatile, and whose flushes were not measured",
        why: "Without power-loss protection each durable write waits for the flash. Only a measurement tells.",
        risk: "A probe writes a file of some KiB.",
        judge: volatile_cache,
    },
    Check {
        id: "disk-discard",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a solid-state disk that takes no discards",
        why: "The disk never learns of freed space; it copies dead data, which costs speed and wear. Often a controller or a \
              USB bridge is the reason.",
        risk: "None from looking.",
        judge: discard,
    },
    Check {
        id: "pcie-link",
        side: Side::Both,
        severity: Severity::Warning,
        finds: "a disk or network card whose PCIe link has fewer lanes or less speed than the device can have",
        why: "The link bounds its throughput: x1 of a PCIe 3 disk is 1 GB/s. A worn or half-seated connector looks like this.",
        risk: "Seating a card again needs a shutdown.",
        judge: pcie,
    },
    Check {
        id: "disk-sector-format",
        side: Side::Server,
        severity: Severity::Note,
        finds: "an NVMe namespace with blocks of 512 bytes whose disk says that 4096 are faster",
        why: "The pool writes 4 KiB and more; the disk handles 512-byte formats with more work for each write.",
        risk: "Formatting DESTROYS all data of the namespace.",
        judge: sector_format,
    },
    Check {
        id: "disk-queue-depth",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a SATA or SAS disk with one command in flight",
        why: "Native command queueing is off, mostly because the controller is in IDE mode; the disk cannot order requests.",
        risk: "Changing a controller's mode in the firmware can stop the system from booting.",
        judge: queue_depth,
    },
    Check {
        id: "disk-link-power",
        side: Side::Server,
        severity: Severity::Note,
        finds: "a SATA link with power management",
        why: "The link wakes up for up to 10 ms after each pause; that is part of the next request.",
        risk: "About half a watt for each disk.",
        judge: link_power,
    },
    Check {
        id: "disk-usb",
        side: Side::Server,
        severity: Severity::Warning,
        finds: "a pool's disk behind USB",
        why: "USB bridges reset under load and may ignore flushes; the pool then loses a member or acknowledged data.",
        risk: "None from looking.",
        judge: usb,
    },
    Check {
        id: "disk-request-size",
        side: Side::Both,
        severity: Severity::Note,
        finds: "a disk that gets requests of less than 512 KiB although it takes larger ones",
        why: "A large read or write is split into more requests, each with its own cost.",
        risk: "None.",
        judge: request_size,
    },
];

/// Largest request that is too small if the device takes more, KiB.
const REQUEST_KIB_MIN: u32 = 512;

fn disks<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<&'f Disk> {
    j.know("", &facts.disks).into_iter().flatten().collect()
}

fn local<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<&'f Disk> {
    let mut disks = disks(facts, j);
    disks.retain(|d| !d.is_remote());
    disks
}

/// A udev rule for an attribute of a disk's queue.
fn queue_rule(disk: &Disk, attribute: &str, value: &str) -> Step {
    let name = match disk.transport.as_str() {
        "nvme" | "nvme-tcp" | "nvme-rdma" => "nvme*n*",
        _ => "sd*",
    };
    Step::file(
        format!("/etc/udev/rules.d/90-wirepool-{attribute}.rules"),
        &[&format!(
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", KERNEL==\"{name}\", \
             ATTR{{queue/{attribute}}}=\"{value}\""
        )],
    )
}

fn scheduler(facts: &Facts, j: &mut Judge) {
    for disk in disks(facts, j) {
        let (Some(now), Some(rotational)) = (
            j.know(&disk.name, &disk.scheduler),
            j.know(&disk.name, &disk.is_rotational),
        ) else {
            continue;
        };
        let is_bad = match disk.is_remote() {
            true => now != "none",
            false => !rotational && now == "bfq",
        };
        if is_bad {
            let path = format!("/sys/block/{}/queue/scheduler", disk.name);
            let steps = vec![
                Step::set(path, "none"),
                queue_rule(disk, "scheduler", "none"),
            ];
            let evidence = format!(
                "scheduler {now} on a disk with transport {}",
                disk.transport
            );
            j.find(&disk.name, evidence, steps);
        }
    }
}

fn cache_hidden(facts: &Facts, j: &mut Judge) {
    for disk in local(facts, j) {
        let (Some(kernel), Some(claims)) = (
            j.know(&disk.name, &disk.write_cache),
            j.know(&disk.name, &disk.claims_volatile_cache),
        ) else {
            continue;
        };
        if *claims && kernel == "write through" {
            let path = format!("/sys/block/{}/queue/write_cache", disk.name);
            let steps = vec![
                Step::set(path, "write back"),
                Step::advice("find and remove the udev rule or script that set `write through`"),
            ];
            let evidence = "the device has a volatile cache; the kernel has `write through`";
            j.find(&disk.name, evidence, steps);
        }
    }
}

/// Flush times of a disk, from the pool or from a probe, and their origin.
fn flushes<'f>(facts: &'f Facts, disk: &Disk) -> Option<(&'static str, &'f Times)> {
    let is_it = |d: &crate::Known<String>| d.value() == Some(&disk.name);
    let members = facts.server.value().into_iter().flat_map(|s| &s.members);
    let member = members
        .filter(|m| is_it(&m.disk))
        .map(|m| ("the pool", &m.flushes));
    let probes = facts.probes.flushes.value().into_iter().flatten();
    let probe = probes.filter(|p| is_it(&p.disk));
    let probe = probe.filter_map(|p| Some(("the probe", p.times.value()?)));
    let enough = |(_, t): &(_, &Times)| t.count >= FLUSHES_MIN;
    member.chain(probe).find(enough)
}

/// Disks with their measured flush times; a disk without them is not checked, and neither is a probe that failed.
fn measured<'f>(facts: &'f Facts, j: &mut Judge) -> Vec<(&'f Disk, &'static str, &'f Times)> {
    let probes = facts.probes.flushes.value().into_iter().flatten();
    for probe in probes {
        if j.know(&probe.directory, &probe.disk).is_some() {
            j.know(&probe.directory, &probe.times);
        }
    }
    let mut out = Vec::new();
    for disk in local(facts, j) {
        if let Some((origin, times)) = flushes(facts, disk) {
            out.push((disk, origin, times));
        } else if j.know(&disk.name, &facts.probes.flushes).is_some() {
            let reason =
                "no flush was measured: use --probe DIRECTORY on its file system, or a pool's disk";
            j.know::<()>(&disk.name, &crate::Known::unknown(reason));
        }
    }
    out
}

fn claim(disk: &Disk) -> &'static str {
    match disk.claims_volatile_cache.value() {
        Some(true) => "the disk says that its cache is volatile",
        Some(false) => "the disk says that it has no volatile cache",
        None => "the disk's own word is not known",
    }
}

fn flush_slow(facts: &Facts, j: &mut Judge) {
    for (disk, origin, times) in measured(facts, j) {
        if j.know(&disk.name, &disk.is_rotational) == Some(&false) && times.p50_us > FLUSH_US_SLOW {
            let evidence = format!(
                "median flush {} µs of {} by {origin}; {}",
                times.p50_us,
                times.count,
                claim(disk)
            );
            let text = "use a disk with power-loss protection for pools with durable writes";
            j.find(&disk.name, evidence, vec![Step::advice(text)]);
        }
    }
}

fn flush_ignored(facts: &Facts, j: &mut Judge) {
    for (disk, origin, times) in measured(facts, j) {
        let (Some(true), Some(cache)) = (
            j.know(&disk.name, &disk.is_rotational),
            j.know(&disk.name, &disk.write_cache),
        ) else {
            continue;
        };
        // Virtual disks say that they have platters, and their host has a cache of its own.
        let is_real = matches!(disk.transport.as_str(), "sata" | "sas" | "scsi" | "usb");
        if is_real && cache == "write back" && times.p50_us < FLUSH_US_IMPOSSIBLE {
            let evidence = format!(
                "median flush {} µs of {} by {origin}; {}",
                times.p50_us,
                times.count,
                claim(disk)
            );
            let device = format!("/dev/{}", disk.name);
            let steps = vec![
                Step::run(&["hdparm", "-W", "0", &device]),
                Step::advice(
                    "a RAID controller: set its own cache to write through, or give it a battery",
                ),
            ];
            j.find(&disk.name, evidence, steps);
        }
    }
}

fn volatile_cache(facts: &Facts, j: &mut Judge) {
    for disk in local(facts, j) {
        let (Some(claims), Some(rotational)) = (
            j.know(&disk.name, &disk.claims_volatile_cache),
            j.know(&disk.name, &disk.is_rotational),
        ) else {
            continue;
        };
        if *claims && !rotational && flushes(facts, disk).is_none() {
            let text = "measure: wirepool doctor --probe DIRECTORY, with a directory on this disk";
            j.find(
                &disk.name,
                "volatile write cache; flushes not measured",
                vec![Step::advice(text)],
            );
        }
    }
}

fn discard(facts: &Facts, j: &mut Judge) {
    for disk in local(facts, j) {
        let (Some(max), Some(rotational)) = (
            j.know(&disk.name, &disk.discard_max),
            j.know(&disk.name, &disk.is_rotational),
        ) else {
            continue;
        };
        if *max == 0 && !rotational {
            let text = "connect it to a controller that passes discards (AHCI or HBA mode)";
            j.find(
                &disk.name,
                "discard_max_bytes is 0",
                vec![Step::advice(text)],
            );
        }
    }
}

fn pcie(facts: &Facts, j: &mut Judge) {
    let mut links: Vec<(&str, &crate::Known<Option<Pcie>>)> = Vec::new();
    for disk in local(facts, j) {
        links.push((&disk.name, &disk.pcie));
    }
    let nics = j.know("", &facts.nics).into_iter().flatten();
    for nic in nics.filter(|n| n.is_physical) {
        links.push((&nic.name, &nic.pcie));
    }
    for (name, link) in links {
        let Some(l) = j.know_if_any(name, link) else {
            continue;
        };
        if l.width < l.width_max || l.speed < l.speed_max {
            let evidence = format!(
                "{}: x{} at {} GT/s; the device can have x{} at {} GT/s",
                l.address, l.width, l.speed, l.width_max, l.speed_max
            );
            let text = "put it into a slot with enough lanes, seat it again, and check the slot's speed in the firmware";
            j.find(name, evidence, vec![Step::advice(text)]);
        }
    }
}

fn sector_format(facts: &Facts, j: &mut Judge) {
    for disk in local(facts, j)
        .into_iter()
        .filter(|d| d.transport == "nvme")
    {
        let Some(formats) = j.know_if_any(&disk.name, &disk.formats) else {
            continue;
        };
        let now = formats.iter().find(|f| f.is_current);
        let better = formats
            .iter()
            .filter(|f| f.block == 4096 && f.metadata == 0);
        let better = better.min_by_key(|f| f.performance);
        let (Some(now), Some(better)) = (now, better) else {
            continue;
        };
        if now.block == 512 && better.performance < now.performance {
            let evidence = format!(
                "512-byte blocks (performance class {}); format {} has 4096 (class {})",
                now.performance, better.index, better.performance
            );
            let command = format!(
                "when the disk is empty and in no pool: nvme format {} --lbaf={}",
                quoted(&format!("/dev/{}", disk.name)),
                better.index
            );
            j.find(&disk.name, evidence, vec![Step::advice(command)]);
        }
    }
}

fn queue_depth(facts: &Facts, j: &mut Judge) {
    for disk in local(facts, j) {
        if let Some(depth) = j.know_if_any(&disk.name, &disk.queue_depth)
            && *depth < DEPTH_MIN
        {
            let steps = vec![
                Step::set(format!("/sys/block/{}/device/queue_depth", disk.name), "32"),
                Step::advice("if the value is refused: set the controller to AHCI in the firmware"),
            ];
            j.find(&disk.name, format!("queue_depth {depth}"), steps);
        }
    }
}

fn link_power(facts: &Facts, j: &mut Judge) {
    for disk in local(facts, j) {
        let Some(policy) = j.know_if_any(&disk.name, &disk.link_power) else {
            continue;
        };
        if policy != "max_performance" {
            let rule = "ACTION==\"add\", SUBSYSTEM==\"scsi_host\", KERNEL==\"host*\", \
                        ATTR{link_power_management_policy}=\"max_performance\"";
            let path = "/etc/udev/rules.d/90-wirepool-link-power.rules";
            let steps = vec![
                Step::file(path, &[rule]),
                Step::run(&[
                    "udevadm",
                    "trigger",
                    "--subsystem-match=scsi_host",
                    "--action=add",
                ]),
            ];
            let evidence = format!("link_power_management_policy {policy}");
            j.find(&disk.name, evidence, steps);
        }
    }
}

fn usb(facts: &Facts, j: &mut Judge) {
    let Some(server) = j.know("", &facts.server) else {
        return;
    };
    for disk in local(facts, j).into_iter().filter(|d| d.transport == "usb") {
        let is_it = |m: &&crate::facts::Member| m.disk.value() == Some(&disk.name);
        if let Some(m) = server.members.iter().find(is_it) {
            let text = format!(
                "wirepool pool replace {} {} with a disk behind SATA, SAS or PCIe",
                m.pool, m.path
            );
            j.find(
                &disk.name,
                format!("{} of pool {}", m.path, m.pool),
                vec![Step::advice(text)],
            );
        }
    }
}

fn request_size(facts: &Facts, j: &mut Judge) {
    for disk in disks(facts, j) {
        let (Some(now), Some(max)) = (
            j.know(&disk.name, &disk.request_kib),
            j.know(&disk.name, &disk.request_kib_max),
        ) else {
            continue;
        };
        if now < max && *now < REQUEST_KIB_MIN {
            let new = max.min(&1024).to_string();
            let path = format!("/sys/block/{}/queue/max_sectors_kb", disk.name);
            let steps = vec![
                Step::set(path, &new),
                queue_rule(disk, "max_sectors_kb", &new),
            ];
            let evidence = format!("max_sectors_kb {now} of {max}");
            j.find(&disk.name, evidence, steps);
        }
    }
}
