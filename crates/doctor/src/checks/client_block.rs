//! Checks of NVMe over Fabrics and iSCSI on a client.
//!
//! **Called by** [`super`]. **Invariants**: those of [`super`].

use crate::check::{Check, Judge, Side};
use crate::client_config::timeouts;
use crate::facts::{Facts, IscsiSession, NvmeController, ScsiDisk};
use crate::report::Severity;
use crate::step::Step;
use std::collections::BTreeMap;

/// Shortest time that I/O should wait for a server that is away, s.
const WAIT_MIN: u64 = 60;
/// Longest time that a path should be tried while there is another, s.
const PATH_WAIT_MAX: i64 = 30;
/// Queues that are enough for any machine.
const QUEUES_ENOUGH: u32 = 8;
/// Depth of an iSCSI disk below which a fast network idles.
const DEPTH_MIN: u32 = 64;
/// Time of a SCSI command that is shorter than a failover of a server, s.
const SCSI_TIMEOUT_MIN: u64 = 30;

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "nvme-state",
        side: Side::Client,
        severity: Severity::Critical,
        finds: "an NVMe over Fabrics controller that is not live",
        why: "Its I/O waits, or uses another path.",
        risk: "None from looking.",
        judge: nvme_state,
    },
    Check {
        id: "nvme-loss-timeout",
        side: Side::Client,
        severity: Severity::Critical,
        finds: "a controller that gives up after less than 60 s (ctrl_loss_tmo)",
        why: "I/O then fails, and file systems become read-only: a restart of the server or a cable pull is enough.",
        risk: "I/O waits longer while a server is away.",
        judge: nvme_loss,
    },
    Check {
        id: "nvme-keep-alive",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "a controller without keep alive",
        why: "A silent cut is noticed only when an I/O times out after 30 s; the server keeps a zombie.",
        risk: "The controller has to be connected again.",
        judge: nvme_keep_alive,
    },
    Check {
        id: "nvme-queues",
        side: Side::Client,
        severity: Severity::Note,
        finds: "fewer I/O queues than processors (up to 8)",
        why: "Each queue is one connection, one processor here and one shard of the server.",
        risk: "The controller has to be connected again.",
        judge: nvme_queues,
    },
    Check {
        id: "nvme-io-policy",
        side: Side::Client,
        severity: Severity::Note,
        finds: "several live paths to a subsystem of which only one is used (policy numa)",
        why: "The second network idles until the first one fails.",
        risk: "Paths of different speed: measure before and after.",
        judge: nvme_policy,
    },
    Check {
        id: "nvme-boot",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "connected controllers without a configuration that connects them at boot",
        why: "After the next boot the disks are missing.",
        risk: "None.",
        judge: nvme_boot,
    },
    Check {
        id: "iscsi-state",
        side: Side::Client,
        severity: Severity::Critical,
        finds: "an iSCSI session that is not logged in",
        why: "Its I/O waits, or uses another path.",
        risk: "None from looking.",
        judge: iscsi_state,
    },
    Check {
        id: "iscsi-recovery",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "a replacement time-out below 60 s without multipath, or above 30 s with it",
        why: "Without another path, I/O must wait for the server; with one, it must move to it soon.",
        risk: "Without multipath, I/O waits longer while a server is away.",
        judge: iscsi_recovery,
    },
    Check {
        id: "iscsi-noop",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "an iSCSI session without NOP-Outs",
        why: "A silent cut is noticed only when an I/O times out.",
        risk: "The session has to be logged in again.",
        judge: iscsi_noop,
    },
    Check {
        id: "iscsi-queue-depth",
        side: Side::Client,
        severity: Severity::Note,
        finds: "an iSCSI disk with fewer than 64 commands in flight",
        why: "The default of 32 does not fill a fast network with small requests.",
        risk: "None.",
        judge: iscsi_depth,
    },
    Check {
        id: "iscsi-disk-timeout",
        side: Side::Client,
        severity: Severity::Warning,
        finds: "an iSCSI disk with a command time-out below 30 s",
        why: "The kernel cancels commands of a busy server and resets the session, which makes everything slower.",
        risk: "None.",
        judge: iscsi_timeout,
    },
    Check {
        id: "iscsi-no-multipath",
        side: Side::Client,
        severity: Severity::Critical,
        finds: "the same logical unit over two sessions, without multipath",
        why: "Both disks have the same data: mounting both, or one after the other's failure, damages the file system.",
        risk: "multipath takes both disks over: they must not be in use.",
        judge: iscsi_no_multipath,
    },
];

fn controllers<'f>(facts: &'f Facts, j: &mut Judge) -> &'f [NvmeController] {
    j.know("", &facts.nvme_controllers)
        .map_or(&[], Vec::as_slice)
}

fn sessions<'f>(facts: &'f Facts, j: &mut Judge) -> &'f [IscsiSession] {
    j.know("", &facts.iscsi_sessions).map_or(&[], Vec::as_slice)
}

fn nvme_state(facts: &Facts, j: &mut Judge) {
    for c in controllers(facts, j) {
        if let Some(state) = j.know(&c.name, &c.state).filter(|s| *s != "live") {
            let text = "check the network to the server, and `dmesg | grep nvme`";
            j.find(&c.name, format!("state {state}"), vec![Step::advice(text)]);
        }
    }
}

fn nvme_loss(facts: &Facts, j: &mut Judge) {
    for c in controllers(facts, j) {
        let Some(seconds) = j.know_if_any(&c.name, &c.loss_timeout_s) else {
            continue;
        };
        if *seconds < WAIT_MIN {
            let good = timeouts::NVME_LOSS_S;
            let path = format!("/sys/class/nvme/{}/ctrl_loss_tmo", c.name);
            let steps = vec![
                Step::set(path, good),
                Step::advice(format!(
                    "in /etc/nvme/discovery.conf: --ctrl-loss-tmo={good} (see wirepool client-config)"
                )),
            ];
            j.find(&c.name, format!("ctrl_loss_tmo {seconds} s"), steps);
        }
    }
}

fn nvme_keep_alive(facts: &Facts, j: &mut Judge) {
    for c in controllers(facts, j) {
        if j.know(&c.name, &c.keep_alive_s) == Some(&0) {
            let text = format!(
                "nvme disconnect -d {}, then nvme connect with --keep-alive-tmo={}",
                c.name,
                timeouts::NVME_KEEP_ALIVE_S
            );
            j.find(&c.name, "keep alive timeout 0", vec![Step::advice(text)]);
        }
    }
}

fn nvme_queues(facts: &Facts, j: &mut Judge) {
    let Some(online) = j.know("", &facts.cpu.online) else {
        return;
    };
    let cpus = u32::try_from(online.len()).unwrap_or(u32::MAX);
    for c in controllers(facts, j) {
        let good = cpus.min(QUEUES_ENOUGH);
        if let Some(n) = j.know(&c.name, &c.io_queues).filter(|n| **n < good) {
            let text =
                format!("connect again without --nr-io-queues, or with --nr-io-queues={good}");
            j.find(
                &c.name,
                format!("{n} I/O queues, {cpus} processors"),
                vec![Step::advice(text)],
            );
        }
    }
}

fn nvme_policy(facts: &Facts, j: &mut Judge) {
    let mut by_subsystem: BTreeMap<&str, Vec<&NvmeController>> = BTreeMap::new();
    for c in controllers(facts, j) {
        if let Some(nqn) = j.know(&c.name, &c.subsystem) {
            by_subsystem.entry(nqn).or_default().push(c);
        }
    }
    for (nqn, paths) in by_subsystem {
        let is_live = |c: &&&NvmeController| c.state.value().is_some_and(|s| s == "live");
        if paths.iter().filter(is_live).count() < 2 {
            continue;
        }
        let policy = j.know_if_any(&paths[0].name, &paths[0].io_policy);
        if policy.is_some_and(|p| p == "numa") {
            let rule = "ACTION==\"add|change\", SUBSYSTEM==\"nvme-subsystem\", ATTR{iopolicy}=\"round-robin\"";
            let steps = vec![
                Step::file("/etc/udev/rules.d/90-wirepool-iopolicy.rules", &[rule]),
                Step::run(&["udevadm", "control", "--reload"]),
                Step::run(&[
                    "udevadm",
                    "trigger",
                    "--subsystem-match=nvme-subsystem",
                    "--action=change",
                ]),
            ];
            let evidence = format!("{} paths, policy numa", paths.len());
            j.find(nqn, evidence, steps);
        }
    }
}

fn nvme_boot(facts: &Facts, j: &mut Judge) {
    let controllers = controllers(facts, j);
    if controllers.is_empty() {
        return;
    }
    if j.know("", &facts.nvme_boot) == Some(&false) {
        let steps = vec![
            Step::advice(
                "on the server: wirepool client-config EXPORT --os debian; install its discovery.conf here",
            ),
            Step::run(&["systemctl", "enable", "nvmf-autoconnect.service"]),
        ];
        let evidence = format!(
            "{} controllers; no discovery.conf or config.json below /etc/nvme",
            controllers.len()
        );
        j.find("nvme", evidence, steps);
    }
}

fn iscsi_state(facts: &Facts, j: &mut Judge) {
    for s in sessions(facts, j) {
        if let Some(state) = j.know(&s.name, &s.state).filter(|s| *s != "LOGGED_IN") {
            let text = "check the network to the server, and `journalctl -u iscsid`";
            j.find(&s.name, format!("state {state}"), vec![Step::advice(text)]);
        }
    }
}

/// A setting of all known targets, and of future ones.
fn node_setting(name: &str, value: u64) -> Vec<Step> {
    let value = value.to_string();
    vec![
        Step::run(&[
            "iscsiadm", "-m", "node", "-o", "update", "-n", name, "-v", &value,
        ]),
        Step::advice(format!(
            "for new targets: {name} = {value} in /etc/iscsi/iscsid.conf"
        )),
        Step::advice("then log out and in again"),
    ]
}

fn iscsi_recovery(facts: &Facts, j: &mut Judge) {
    for s in sessions(facts, j) {
        let (Some(seconds), Some(disks)) =
            (j.know(&s.name, &s.recovery_s), j.know(&s.name, &s.disks))
        else {
            continue;
        };
        if disks.is_empty() {
            continue;
        }
        let name = "node.session.timeo.replacement_timeout";
        let has_paths = disks.iter().all(|d| d.is_multipath);
        let is_short = *seconds >= 0 && *seconds < WAIT_MIN.cast_signed();
        if has_paths && (*seconds > PATH_WAIT_MAX || *seconds < 0) {
            let evidence = format!("{seconds} s, with multipath");
            let steps = node_setting(name, timeouts::ISCSI_REPLACEMENT_MULTIPATH_S);
            j.find(&s.name, evidence, steps);
        } else if !has_paths && is_short {
            let evidence = format!("{seconds} s, without multipath");
            let steps = node_setting(name, timeouts::ISCSI_REPLACEMENT_S);
            j.find(&s.name, evidence, steps);
        }
    }
}

fn iscsi_noop(facts: &Facts, j: &mut Judge) {
    for s in sessions(facts, j) {
        if j.know(&s.name, &s.noop_interval_s) == Some(&0) {
            let name = "node.conn[0].timeo.noop_out_interval";
            let steps = node_setting(name, timeouts::ISCSI_NOOP_S);
            j.find(&s.name, "ping interval 0", steps);
        }
    }
}

fn each_disk(facts: &Facts, j: &mut Judge, mut f: impl FnMut(&mut Judge, &ScsiDisk)) {
    for s in sessions(facts, j) {
        let disks = j.know(&s.name, &s.disks).into_iter().flatten();
        for disk in disks {
            f(j, disk);
        }
    }
}

fn device_rule(attribute: &str, value: u64) -> Step {
    let path = format!("/etc/udev/rules.d/90-wirepool-iscsi-{attribute}.rules");
    let rule = format!(
        "ACTION==\"add\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", ENV{{ID_PATH}}==\"*-iscsi-*\", \
         ATTR{{device/{attribute}}}=\"{value}\""
    );
    Step::file(path, &[&rule])
}

fn iscsi_depth(facts: &Facts, j: &mut Judge) {
    each_disk(facts, j, |j, disk| {
        if let Some(n) = j
            .know(&disk.name, &disk.queue_depth)
            .filter(|n| **n < DEPTH_MIN)
        {
            let steps = node_setting("node.session.queue_depth", timeouts::ISCSI_QUEUE_DEPTH);
            j.find(&disk.name, format!("queue_depth {n}"), steps);
        }
    });
}

fn iscsi_timeout(facts: &Facts, j: &mut Judge) {
    each_disk(facts, j, |j, disk| {
        let short = j.know(&disk.name, &disk.timeout_s);
        if let Some(n) = short.filter(|n| **n < SCSI_TIMEOUT_MIN) {
            let good = timeouts::SCSI_COMMAND_S;
            let path = format!("/sys/block/{}/device/timeout", disk.name);
            let steps = vec![Step::set(path, good), device_rule("timeout", good)];
            j.find(&disk.name, format!("timeout {n} s"), steps);
        }
    });
}

fn iscsi_no_multipath(facts: &Facts, j: &mut Judge) {
    let mut by_unit: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
    each_disk(facts, j, |j, disk| {
        if let Some(wwid) = j.know(&disk.name, &disk.wwid) {
            let paths = by_unit.entry(wwid.clone()).or_default();
            paths.push((disk.name.clone(), disk.is_multipath));
        }
    });
    for (wwid, paths) in by_unit {
        if paths.len() > 1 && !paths.iter().any(|(_, m)| *m) {
            let names: Vec<&str> = paths.iter().map(|(n, _)| n.as_str()).collect();
            let steps = vec![
                Step::run(&["apt-get", "install", "multipath-tools"]),
                Step::advice(
                    "on the server: wirepool client-config EXPORT --os debian; install its multipath.conf here",
                ),
            ];
            let evidence = format!("{} are the same unit {wwid}", names.join(", "));
            j.find(names[0], evidence, steps);
        }
    }
}
