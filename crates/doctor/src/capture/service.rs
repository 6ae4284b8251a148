//! Capture of the server's unit from the files of systemd, and of the user that it runs as.
//!
//! **Called by** [`super`]. **Invariants**: systemd is not asked, so that a tree of files gives the same answer as a machine; files
//! of a directory come before those of the same name in later ones (systemd.unit(5)).

use super::parse::line;
use crate::facts::{Known, Process, Service, Unit};
use crate::source::{Source, Unread};
use std::collections::BTreeMap;

/// Directories of units, the first ones first.
const UNIT_DIRECTORIES: &[&str] = &[
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];
/// The unit.
const UNIT: &str = "wirepool.service";
/// Limit of locked memory of a unit that sets none, bytes (systemd-system.conf(5), `DefaultLimitMEMLOCK=`).
const MEMLOCK_DEFAULT: u64 = 8 << 20;

/// `process` is the running server, if there is one.
pub(super) fn service(source: &dyn Source, process: &Known<Process>) -> Service {
    let unit = unit(source);
    let (uid, gids) = match process {
        Known::Value(process) => of_process(source, process.pid),
        Known::Unknown { .. } => match &unit {
            Known::Value(Some(unit)) => of_unit(source, unit),
            Known::Value(None) => nobody("no server runs, and there is no unit wirepool.service"),
            Known::Unknown { unknown } => nobody(unknown),
        },
    };
    Service { unit, uid, gids }
}

fn nobody(reason: &str) -> (Known<u32>, Known<Vec<u32>>) {
    (Known::unknown(reason), Known::unknown(reason))
}

/// User and groups of a process that count for files: the effective ones (proc_pid_status(5)).
fn of_process(source: &dyn Source, pid: u32) -> (Known<u32>, Known<Vec<u32>>) {
    let path = format!("/proc/{pid}/status");
    let text = match source.read(&path) {
        Ok(text) => text,
        Err(e) => return nobody(e.reason()),
    };
    let numbers = |name: &str| -> Vec<u32> {
        let words = line(&text, name).unwrap_or_default().split_whitespace();
        words.map_while(|w| w.parse().ok()).collect()
    };
    let (Some(uid), Some(gid)) = (
        numbers("Uid").get(1).copied(),
        numbers("Gid").get(1).copied(),
    ) else {
        return nobody(&format!("{path} has no user"));
    };
    let mut gids = numbers("Groups");
    gids.push(gid);
    (Known::Value(uid), Known::Value(gids))
}

/// User and groups that a unit names, by `/etc/passwd` and `/etc/group`.
fn of_unit(source: &dyn Source, unit: &Unit) -> (Known<u32>, Known<Vec<u32>>) {
    let text = |path: &str| source.read(path).unwrap_or_default();
    let (users, groups) = (text("/etc/passwd"), text("/etc/group"));
    let user = match unit.user.as_str() {
        "" => "root",
        user => user,
    };
    let by_number = user.parse::<u32>().ok();
    let mut entries = users.lines().map(|l| l.split(':').collect::<Vec<&str>>());
    let entry = entries.find(|f| f.first() == Some(&user));
    let field = |n: usize| entry.as_ref()?.get(n)?.parse::<u32>().ok();
    let Some(uid) = field(2).or(by_number) else {
        return nobody(&format!("/etc/passwd has no user {user}"));
    };
    let group = |name: &str| -> Option<u32> {
        let of_line = |l: &str| {
            let mut fields = l.split(':');
            (fields.next()? == name).then(|| fields.nth(1)?.parse().ok())?
        };
        groups.lines().find_map(of_line).or(name.parse().ok())
    };
    let has_user = |l: &&str| {
        let members = l.split(':').nth(3).unwrap_or_default();
        members.split(',').any(|m| m.trim() == user)
    };
    let of_user = groups.lines().filter(has_user);
    let of_user = of_user.filter_map(|l| l.split(':').nth(2)?.parse::<u32>().ok());
    let mut gids: Vec<u32> = of_user.collect();
    gids.extend(match unit.group.is_empty() {
        true => field(3),
        false => group(&unit.group),
    });
    gids.extend(unit.groups.iter().filter_map(|g| group(g)));
    (Known::Value(uid), Known::Value(gids))
}

fn unit(source: &dyn Source) -> Known<Option<Unit>> {
    let mut main = None;
    for directory in UNIT_DIRECTORIES {
        match source.read(&format!("{directory}/{UNIT}")) {
            Ok(text) => {
                main = Some(text);
                break;
            }
            Err(Unread::Missing(_)) => {}
            Err(e) => return Known::unknown(e.reason()),
        }
    }
    let Some(main) = main else {
        return Known::Value(None);
    };
    let default = source.read("/etc/systemd/system.conf").unwrap_or_default();
    let default = assignments(&default, "Manager");
    let default = default
        .iter()
        .rev()
        .find(|(key, _)| key == "DefaultLimitMEMLOCK");
    let mut unit = Unit {
        memlock: match default.and_then(|(_, value)| limit(value)) {
            Some(limit) => limit,
            None => Some(MEMLOCK_DEFAULT),
        },
        device_policy: "auto".into(),
        ..Unit::default()
    };
    for text in std::iter::once(main).chain(drop_ins(source)) {
        for (key, value) in assignments(&text, "Service") {
            set(&mut unit, &key, &value);
        }
    }
    Known::Value(Some(unit))
}

/// Texts of the drop-ins, in the order of their names.
fn drop_ins(source: &dyn Source) -> Vec<String> {
    let mut texts = BTreeMap::new();
    for directory in UNIT_DIRECTORIES {
        let directory = format!("{directory}/{UNIT}.d");
        let names = source.list(&directory).unwrap_or_default();
        for name in names.into_iter().filter(|n| n.ends_with(".conf")) {
            if let Ok(text) = source.read(&format!("{directory}/{name}")) {
                texts.entry(name).or_insert(text);
            }
        }
    }
    texts.into_values().collect()
}

fn set(unit: &mut Unit, key: &str, value: &str) {
    /// Words are added to a list; an empty value ends the list so far.
    fn add<'v>(list: &mut Vec<String>, value: &str, words: impl Iterator<Item = &'v str>) {
        match value.is_empty() {
            true => list.clear(),
            false => list.extend(words.map(str::to_owned)),
        }
    }
    match key {
        "User" => value.clone_into(&mut unit.user),
        "Group" => value.clone_into(&mut unit.group),
        "SupplementaryGroups" => add(&mut unit.groups, value, value.split_whitespace()),
        "LimitMEMLOCK" => {
            if let Some(limit) = limit(value) {
                unit.memlock = limit;
            }
        }
        "DevicePolicy" => value.clone_into(&mut unit.device_policy),
        "DeviceAllow" => add(&mut unit.device_allow, value, std::iter::once(value)),
        "PrivateDevices" => {
            let words = ["1", "yes", "true", "on"];
            unit.has_private_devices = words.iter().any(|w| value.eq_ignore_ascii_case(w));
        }
        _ => {}
    }
}

/// Assignments in a section. A line that ends with a backslash goes on in the next one.
fn assignments(text: &str, section: &str) -> Vec<(String, String)> {
    let text = text.replace("\\\n", " ");
    let mut out = Vec::new();
    let mut is_inside = false;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            is_inside = name == section;
        } else if is_inside
            && !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            out.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    out
}

/// A limit such as `64M`, `infinity`, or `8M:64M` (soft and hard), of which the soft one counts. `None` if it is none, `Some(None)` if it
/// is unlimited.
fn limit(text: &str) -> Option<Option<u64>> {
    let text = text.split(':').next()?.trim();
    if text == "infinity" {
        return Some(None);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return None,
    };
    let number: u64 = digits.trim().parse().ok()?;
    Some(Some(number.checked_mul(1 << unit)?))
}
