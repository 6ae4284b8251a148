//! Capture of a machine as a client: NFS mounts, NVMe over Fabrics, iSCSI.
//!
//! **Called by** [`super`].

use super::place::{self, Mount};
use crate::facts::{IscsiSession, Known, NfsMount, NvmeController, ScsiDisk};
use crate::source::{Source, SourceExt, Unread};

/// NQN of discovery controllers, which have no disks.
const DISCOVERY: &str = "nqn.2014-08.org.nvmexpress.discovery";

pub(super) fn nfs_mounts(source: &dyn Source) -> Known<Vec<NfsMount>> {
    let stats = source.text("/proc/self/mountstats");
    place::mounts(source).map(|mounts| {
        let is_nfs = |m: &&Mount| m.kind == "nfs" || m.kind == "nfs4";
        let mounts = mounts.iter().filter(is_nfs);
        mounts.map(|m| nfs_mount(source, m, &stats)).collect()
    })
}

fn nfs_mount(source: &dyn Source, mount: &Mount, stats: &Known<String>) -> NfsMount {
    let options = mount
        .options
        .split(',')
        .chain(mount.super_options.split(','));
    let options = options.filter(|o| !o.is_empty()).map(|o| {
        let (name, value) = o.split_once('=').unwrap_or((o, ""));
        (name.to_owned(), value.to_owned())
    });
    let counts = match stats {
        Known::Value(text) => match requests(text, &mount.target) {
            Some(counts) => Known::Value(counts),
            None => Known::unknown("/proc/self/mountstats has no statistics of this mount"),
        },
        Known::Unknown { unknown } => Known::unknown(unknown),
    };
    NfsMount {
        source: mount.source.clone(),
        target: mount.target.clone(),
        options: options.collect(),
        read_ahead_kib: source.parse(&format!("/sys/class/bdi/{}/read_ahead_kb", mount.device)),
        requests: counts.clone().map(|(all, _)| all),
        retransmissions: counts.map(|(_, again)| again),
    }
}

/// Requests of a mount, and requests that were sent again: of each operation the first value counts requests, and the second
/// transmissions.
fn requests(stats: &str, target: &str) -> Option<(u64, u64)> {
    let mark = format!(" mounted on {target} with fstype nfs");
    let mut lines = stats.lines().skip_while(|l| !l.contains(&mark)).skip(1);
    let own = lines.by_ref().take_while(|l| !l.starts_with("device "));
    let operations = own.skip_while(|l| l.trim() != "per-op statistics").skip(1);
    let (mut all, mut again, mut is_there) = (0u64, 0u64, false);
    for line in operations {
        let Some((_, values)) = line.split_once(": ") else {
            continue;
        };
        let mut values = values
            .split_whitespace()
            .map_while(|v| v.parse::<u64>().ok());
        if let (Some(requests), Some(sent)) = (values.next(), values.next()) {
            all = all.saturating_add(requests);
            again = again.saturating_add(sent.saturating_sub(requests));
            is_there = true;
        }
    }
    is_there.then_some((all, again))
}

pub(super) fn nvme_boot(source: &dyn Source) -> Known<bool> {
    if source.exists("/etc/nvme/config.json") {
        return Known::Value(true);
    }
    match source.read("/etc/nvme/discovery.conf") {
        Ok(text) => {
            let is_entry = |l: &str| !l.trim().is_empty() && !l.trim().starts_with('#');
            Known::Value(text.lines().any(is_entry))
        }
        Err(Unread::Missing(_)) => Known::Value(false),
        Err(e) => Known::unknown(e.reason()),
    }
}

pub(super) fn nvme_controllers(source: &dyn Source) -> Known<Vec<NvmeController>> {
    source.list_or_empty("/sys/class/nvme").map(|names| {
        let fabrics = names.iter().filter_map(|name| {
            let transport = source.read(&format!("/sys/class/nvme/{name}/transport"));
            let transport = transport.ok().filter(|t| t == "tcp" || t == "rdma")?;
            Some(controller(source, name, transport))
        });
        let is_discovery = |c: &NvmeController| c.subsystem.value().is_some_and(|s| s == DISCOVERY);
        fabrics.filter(|c| !is_discovery(c)).collect()
    })
}

fn controller(source: &dyn Source, name: &str, transport: String) -> NvmeController {
    let path = |file: &str| format!("/sys/class/nvme/{name}/{file}");
    let loss_timeout_s = match source.read(&path("ctrl_loss_tmo")) {
        Ok(text) if text == "off" => Known::Value(None),
        Ok(text) => match text.parse() {
            Ok(seconds) => Known::Value(Some(seconds)),
            Err(_) => Known::unknown(format!("{} has no valid value", path("ctrl_loss_tmo"))),
        },
        Err(e) => Known::unknown(e.reason()),
    };
    NvmeController {
        name: name.to_owned(),
        transport,
        subsystem: source.text(&path("subsysnqn")),
        state: source.text(&path("state")),
        loss_timeout_s,
        keep_alive_s: source.parse(&path("kato")),
        // One of the queues is the admin queue.
        io_queues: source
            .parse::<u32>(&path("queue_count"))
            .map(|n| n.saturating_sub(1)),
        io_policy: io_policy(source, name),
    }
}

/// The policy of the subsystem that has this controller.
fn io_policy(source: &dyn Source, controller: &str) -> Known<Option<String>> {
    let directory = "/sys/class/nvme-subsystem";
    let subsystems = match source.list_or_empty(directory) {
        Known::Value(names) => names,
        unknown => return unknown.map(|_| None),
    };
    let own = subsystems
        .iter()
        .find(|s| source.exists(&format!("{directory}/{s}/{controller}")));
    let Some(own) = own else {
        return Known::Value(None);
    };
    match source.read(&format!("{directory}/{own}/iopolicy")) {
        Ok(policy) => Known::Value(Some(policy)),
        Err(Unread::Missing(_)) => Known::Value(None),
        Err(e) => Known::unknown(e.reason()),
    }
}

pub(super) fn iscsi_sessions(source: &dyn Source) -> Known<Vec<IscsiSession>> {
    source
        .list_or_empty("/sys/class/iscsi_session")
        .map(|names| {
            let session = |name: &String| session(source, name);
            names.iter().map(session).collect()
        })
}

fn session(source: &dyn Source, name: &str) -> IscsiSession {
    let path = |file: &str| format!("/sys/class/iscsi_session/{name}/{file}");
    let number = name.trim_start_matches("session");
    let connection = format!("/sys/class/iscsi_connection/connection{number}:0/recv_tmo");
    IscsiSession {
        name: name.to_owned(),
        target: source.text(&path("targetname")),
        state: source.text(&path("state")),
        recovery_s: source.parse(&path("recovery_tmo")),
        noop_interval_s: source.parse(&connection),
        disks: scsi_disks(source, &path("device")),
    }
}

/// Disks below a session: `target…/H:C:T:L/block/sdX`.
fn scsi_disks(source: &dyn Source, device: &str) -> Known<Vec<ScsiDisk>> {
    let entries = match source.list(device) {
        Ok(entries) => entries,
        Err(e) => return Known::unknown(e.reason()),
    };
    let mut disks = Vec::new();
    for target in entries.iter().filter(|e| e.starts_with("target")) {
        let units = source
            .list(&format!("{device}/{target}"))
            .unwrap_or_default();
        for unit in units {
            let place = format!("{device}/{target}/{unit}");
            let names = source.list(&format!("{place}/block")).unwrap_or_default();
            disks.extend(names.iter().map(|name| scsi_disk(source, name, &place)));
        }
    }
    Known::Value(disks)
}

fn scsi_disk(source: &dyn Source, name: &str, place: &str) -> ScsiDisk {
    let holders = source
        .list(&format!("/sys/block/{name}/holders"))
        .unwrap_or_default();
    ScsiDisk {
        name: name.to_owned(),
        wwid: source.text(&format!("{place}/wwid")),
        timeout_s: source.parse(&format!("{place}/timeout")),
        queue_depth: source.parse(&format!("{place}/queue_depth")),
        is_multipath: holders.iter().any(|h| h.starts_with("dm-")),
    }
}
