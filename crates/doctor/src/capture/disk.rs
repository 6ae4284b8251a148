//! Capture of disks.
//!
//! **Called by** [`super`]. Health reports come from `smartctl`, formats of NVMe namespaces from `nvme`.

use super::bus::{node, pcie};
use super::parse::chosen;
use crate::facts::{Disk, Known, LbaFormat, Smart};
use crate::source::{Source, SourceExt, Unread};
use serde_json::Value;

/// Kinds of block devices that are no disks: memory, stacks, removable media.
const NO_DISKS: &[&str] = &[
    "dm-", "fd", "loop", "md", "nbd", "ram", "rbd", "sr", "zd", "zram",
];
/// Most disks whose programs run at the same time.
const PARALLEL: usize = 16;
/// ATA attributes that count sectors which could not be read: reported uncorrectable, pending, offline uncorrectable.
const ATA_ERRORS: &[u64] = &[187, 197, 198];

pub(super) fn disks(source: &dyn Source) -> Known<Vec<Disk>> {
    let names = match source.list("/sys/block") {
        Ok(names) => names,
        Err(e) => return Known::unknown(e.reason()),
    };
    let is_disk = |n: &&String| !NO_DISKS.iter().any(|kind| n.starts_with(kind));
    let names: Vec<&String> = names.iter().filter(is_disk).collect();
    let mut disks = Vec::new();
    // A health report takes a tenth of a second.
    for some in names.chunks(PARALLEL) {
        std::thread::scope(|scope| {
            let threads: Vec<_> = some
                .iter()
                .map(|name| scope.spawn(move || disk(source, name)))
                .collect();
            disks.extend(threads.into_iter().filter_map(|t| t.join().ok()));
        });
    }
    Known::Value(disks)
}

/// The directory of an NVMe disk's controller. A disk of a subsystem with several paths has several; the first counts.
fn controller(source: &dyn Source, disk: &str) -> Option<String> {
    let device = source.resolve(&format!("/sys/block/{disk}/device")).ok()?;
    let is_controller = |name: &str| {
        let digits = name.strip_prefix("nvme").unwrap_or("");
        !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit())
    };
    let own = device.rsplit('/').next().unwrap_or_default();
    let name = match is_controller(own) {
        true => own.to_owned(),
        false => source
            .list(&device)
            .ok()?
            .into_iter()
            .find(|n| is_controller(n))?,
    };
    Some(format!("/sys/class/nvme/{name}"))
}

fn transport(source: &dyn Source, disk: &str, place: &str, controller: Option<&str>) -> String {
    if let Some(controller) = controller {
        let word = source.read(&format!("{controller}/transport"));
        return match word.as_deref() {
            Ok("pcie") => "nvme".into(),
            Ok(word) => format!("nvme-{word}"),
            Err(_) => "other".into(),
        };
    }
    let kinds = [
        ("/session", "iscsi"),
        ("/usb", "usb"),
        ("/ata", "sata"),
        ("/end_device-", "sas"),
        ("/virtio", "virtio"),
    ];
    let found = kinds.iter().find(|(part, _)| place.contains(part));
    let other = if disk.starts_with("sd") {
        "scsi"
    } else {
        "other"
    };
    found.map_or(other, |(_, kind)| kind).into()
}

fn disk(source: &dyn Source, name: &str) -> Disk {
    let path = |file: &str| format!("/sys/block/{name}/{file}");
    let queue = |file: &str| path(&format!("queue/{file}"));
    let place = source.resolve(&path("")).unwrap_or_default();
    let controller = controller(source, name).filter(|_| name.starts_with("nvme"));
    let transport = transport(source, name, &place, controller.as_deref());
    let (model, firmware) = match &controller {
        Some(c) => (format!("{c}/model"), format!("{c}/firmware_rev")),
        None => (path("device/model"), path("device/rev")),
    };
    let device = match &controller {
        Some(c) => source.resolve(&format!("{c}/device")).unwrap_or_default(),
        None => place.clone(),
    };
    let is_scsi = matches!(
        transport.as_str(),
        "sata" | "sas" | "scsi" | "usb" | "iscsi"
    );
    let is_physical = matches!(transport.as_str(), "nvme" | "sata" | "sas" | "usb");
    let queue_depth = match is_scsi {
        true => source.parse(&path("device/queue_depth")).map(Some),
        false => Known::Value(None),
    };
    Disk {
        name: name.to_owned(),
        model: source.text(&model),
        firmware: source.text(&firmware),
        is_rotational: source.text(&queue("rotational")).map(|t| t == "1"),
        scheduler: source.text(&queue("scheduler")).map(|t| chosen(&t)),
        write_cache: source.text(&queue("write_cache")),
        claims_volatile_cache: claims_cache(source, name, controller.as_deref(), &transport),
        discard_max: source.parse(&queue("discard_max_bytes")),
        formats: match transport.as_str() {
            "nvme" => formats(source, name).map(Some),
            _ => Known::Value(None),
        },
        request_kib: source.parse(&queue("max_sectors_kb")),
        request_kib_max: source.parse(&queue("max_hw_sectors_kb")),
        queue_depth,
        node: node(source, &device),
        pcie: match transport.as_str() {
            "nvme" => pcie(source, &device),
            _ => Known::Value(None),
        },
        link_power: match transport.as_str() {
            "sata" => link_power(source, &place),
            _ => Known::Value(None),
        },
        smart: match is_physical {
            true => smart(source, name).map(Some),
            false => Known::Value(None),
        },
        transport,
    }
}

fn claims_cache(
    source: &dyn Source,
    name: &str,
    controller: Option<&str>,
    transport: &str,
) -> Known<bool> {
    if let Some(controller) = controller {
        let device = controller.replace("/sys/class/nvme/", "/dev/");
        let answer = json(source, "nvme", &["id-ctrl", &device, "-o", "json"]);
        return match answer {
            Known::Value(answer) => match answer["vwc"].as_u64() {
                // Identify Controller, VWC, bit 0 (NVMe Base 2.0, figure 275)
                Some(bits) => Known::Value(bits & 1 == 1),
                None => Known::unknown("nvme id-ctrl has no vwc"),
            },
            unknown => unknown.map(|_| false),
        };
    }
    let path = match transport {
        "virtio" => format!("/sys/block/{name}/cache_type"),
        _ => {
            let directory = format!("/sys/block/{name}/device/scsi_disk");
            match source
                .list(&directory)
                .ok()
                .and_then(|l| l.into_iter().next())
            {
                Some(unit) => format!("{directory}/{unit}/cache_type"),
                None => return Known::unknown(format!("{name} does not describe its cache")),
            }
        }
    };
    source.text(&path).map(|t| t.starts_with("write back"))
}

fn json(source: &dyn Source, program: &str, args: &[&str]) -> Known<Value> {
    match source.run(program, args) {
        Ok(text) => match serde_json::from_str(&text) {
            Ok(value) => Known::Value(value),
            Err(_) => Known::unknown(format!("{program} has no valid answer")),
        },
        Err(e) => Known::unknown(e.reason()),
    }
}

fn formats(source: &dyn Source, name: &str) -> Known<Vec<LbaFormat>> {
    let device = format!("/dev/{name}");
    let answer = json(source, "nvme", &["id-ns", &device, "-o", "json"]);
    answer.map(|answer| {
        // FLBAS, bits 3:0 (and 6:5 above 16 formats)
        let flbas = answer["flbas"].as_u64().unwrap_or(0);
        let current = (flbas & 0xf) | ((flbas >> 1) & 0x30);
        let formats = answer["lbafs"].as_array().into_iter().flatten().zip(0..);
        let format = |(f, index): (&Value, u32)| {
            let shift = f["ds"].as_u64().filter(|s| (9..=16).contains(s))?;
            Some(LbaFormat {
                index,
                block: 1 << shift,
                metadata: f["ms"].as_u64()?.try_into().ok()?,
                performance: f["rp"].as_u64()?.try_into().ok()?,
                is_current: u64::from(index) == current,
            })
        };
        formats.filter_map(format).collect()
    })
}

fn link_power(source: &dyn Source, place: &str) -> Known<Option<String>> {
    let is_host = |part: &&str| part.starts_with("host");
    let Some(host) = place.split('/').find(is_host) else {
        return Known::Value(None);
    };
    match source.read(&format!(
        "/sys/class/scsi_host/{host}/link_power_management_policy"
    )) {
        Ok(text) => Known::Value(Some(text)),
        Err(Unread::Missing(_)) => Known::Value(None),
        Err(e) => Known::unknown(e.reason()),
    }
}

fn smart(source: &dyn Source, name: &str) -> Known<Smart> {
    let device = format!("/dev/{name}");
    let answer = json(source, "smartctl", &["--json", "-a", &device]);
    match answer {
        Known::Value(answer) => health(&answer),
        unknown => unknown.map(|_| Smart::default()),
    }
}

/// The parts of smartctl's answer that the checks need.
fn health(answer: &Value) -> Known<Smart> {
    let Some(is_passed) = answer["smart_status"]["passed"].as_bool() else {
        let message = &answer["smartctl"]["messages"][0]["string"];
        let message = message.as_str().unwrap_or("no health report");
        return Known::unknown(format!("smartctl: {message}"));
    };
    let nvme = &answer["nvme_smart_health_information_log"];
    let unknown = |what: &str| format!("the health report has no {what}");
    let temperature = answer["temperature"]["current"].as_i64();
    let wear = nvme["percentage_used"]
        .as_u64()
        .or_else(|| answer["endurance_used"]["current_percent"].as_u64())
        .or_else(|| answer["scsi_percentage_used_endurance_indicator"].as_u64());
    let attributes = answer["ata_smart_attributes"]["table"].as_array();
    let errors = match (nvme["media_errors"].as_u64(), attributes) {
        (Some(n), _) => Some(n),
        (None, Some(all)) => {
            let counts = |a: &&Value| a["id"].as_u64().is_some_and(|id| ATA_ERRORS.contains(&id));
            // The raw value of some drives has other numbers in its upper half.
            let raw = |a: &Value| a["raw"]["value"].as_u64().map(|v| v & 0xffff_ffff);
            let counts = all.iter().filter(counts).filter_map(raw);
            Some(counts.sum())
        }
        _ => answer["scsi_grown_defect_list"].as_u64(),
    };
    Known::Value(Smart {
        is_passed: Known::Value(is_passed),
        temperature: temperature.map_or(Known::unknown(unknown("temperature")), Known::Value),
        temperature_limit: Known::Value(
            answer["temperature"]["op_limit_max"]
                .as_i64()
                .or_else(|| answer["nvme_composite_temperature_threshold"]["warning"].as_i64()),
        ),
        wear_percent: Known::Value(wear),
        spare_percent: Known::Value(nvme["available_spare"].as_u64()),
        spare_limit: Known::Value(nvme["available_spare_threshold"].as_u64()),
        media_errors: errors.map_or(Known::unknown(unknown("errors")), Known::Value),
    })
}
