//! The disks of this machine, and what lies on each.
//!
//! **Owns** the judgement which disks may be used: pure functions of the texts of `lsblk` and the server. **Called by**
//! `setup`. **Invariants**: a disk is free only if nothing was found on it and everything could be examined; texts are as the disks
//! gave them, and pass `io::printable` before they are shown.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Columns of `lsblk` that are read.
pub(crate) const COLUMNS: &str =
    "PATH,TYPE,SIZE,MODEL,SERIAL,WWN,RO,RM,ROTA,FSTYPE,LABEL,PTTYPE,MOUNTPOINTS";
/// Kinds of names in `/dev/disk` that survive a reboot, the best first.
const NAME_KINDS: [&str; 7] = [
    "by-id/nvme-",
    "by-id/ata-",
    "by-id/scsi-",
    "by-id/virtio-",
    "by-id/wwn-",
    "by-id/dm-",
    "by-path/",
];

/// A disk, or a map of several paths to one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Disk {
    /// The kernel's name, such as `/dev/sda`.
    pub(crate) path: PathBuf,
    /// A name that survives a reboot, if there is one.
    pub(crate) stable: Option<PathBuf>,
    /// Bytes.
    pub(crate) size: u64,
    /// As the disk says.
    pub(crate) model: String,
    /// As the disk says.
    pub(crate) serial: String,
    /// World-wide name, or empty.
    pub(crate) wwn: String,
    /// Whether it turns.
    pub(crate) is_rotating: bool,
    /// Everything that was found on it, and each reason against its use.
    pub(crate) found: Vec<String>,
}

impl Disk {
    pub(crate) fn is_free(&self) -> bool {
        self.found.is_empty()
    }

    /// The name for the configuration.
    pub(crate) fn name(&self) -> &Path {
        self.stable.as_deref().unwrap_or(&self.path)
    }
}

#[derive(Deserialize)]
struct Listing {
    blockdevices: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    path: PathBuf,
    #[serde(rename = "type")]
    kind: String,
    size: Option<u64>,
    model: Option<String>,
    serial: Option<String>,
    wwn: Option<String>,
    #[serde(default)]
    ro: bool,
    #[serde(default)]
    rm: bool,
    #[serde(default)]
    rota: bool,
    fstype: Option<String>,
    label: Option<String>,
    pttype: Option<String>,
    #[serde(default)]
    mountpoints: Vec<Option<String>>,
    #[serde(default)]
    children: Vec<Node>,
}

/// Reads the answer of `lsblk --json --bytes`. Errors: it has another form.
pub(crate) fn parse(lsblk: &str) -> Result<Vec<Disk>> {
    let listing: Listing = serde_json::from_str(lsblk).context("the answer of lsblk")?;
    let mut out = Vec::new();
    for node in &listing.blockdevices {
        collect(node, &mut out);
    }
    Ok(out)
}

fn collect(node: &Node, out: &mut Vec<Disk>) {
    let is_memory = node.path.to_string_lossy().starts_with("/dev/zram");
    if matches!(node.kind.as_str(), "disk" | "mpath")
        && !is_memory
        && node.size.is_some_and(|s| s > 0)
        && !out.iter().any(|d| d.path == node.path)
    {
        out.push(disk(node));
    }
    // Several paths lead to one map, which lsblk shows below each.
    for child in &node.children {
        collect(child, out);
    }
}

fn disk(node: &Node) -> Disk {
    let text = |t: &Option<String>| t.as_deref().unwrap_or_default().trim().to_owned();
    let model = text(&node.model);
    let mut found = Vec::new();
    if node.ro {
        found.push("read-only".to_owned());
    }
    if node.rm {
        found.push("removable".to_owned());
    }
    if model.to_ascii_lowercase().starts_with("wirepool") {
        found.push("a disk that a Wirepool server exports".to_owned());
    }
    mounts(node, &mut found);
    let label = match text(&node.label) {
        label if label.is_empty() => label,
        label => format!(" {label:?}"),
    };
    match text(&node.fstype) {
        kind if kind.is_empty() => {}
        kind => found.push(format!("{kind}{label}")),
    }
    match text(&node.pttype) {
        kind if kind.is_empty() => {}
        kind => found.push(format!("{kind} partition table")),
    }
    for child in &node.children {
        let kind = match child.kind.as_str() {
            "part" => "partition",
            other => other,
        };
        found.push(format!("{kind} {}", child.path.display()));
    }
    Disk {
        path: node.path.clone(),
        stable: None,
        size: node.size.unwrap_or(0),
        model,
        serial: text(&node.serial),
        wwn: text(&node.wwn),
        is_rotating: node.rota,
        found,
    }
}

/// Mounts of a disk and of everything on it.
fn mounts(node: &Node, found: &mut Vec<String>) {
    for at in node.mountpoints.iter().flatten() {
        found.push(match at.as_str() {
            "[SWAP]" => "swap in use".to_owned(),
            at => format!("mounted at {at}"),
        });
    }
    for child in &node.children {
        mounts(child, found);
    }
}

/// Gives each disk the best name of `/dev/disk`; `links` has those names, each with the device that it leads to.
pub(crate) fn name(disks: &mut [Disk], links: &[(PathBuf, PathBuf)]) {
    let mut best: BTreeMap<&Path, (usize, &Path)> = BTreeMap::new();
    for (link, device) in links {
        let text = link.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/".contains(c);
        let Some(rank) = NAME_KINDS.iter().position(|k| text.contains(k)) else {
            continue;
        };
        if !text.chars().all(is_plain) {
            continue;
        }
        let new = (rank, link.as_path());
        let old = best.entry(device).or_insert(new);
        *old = new.min(*old);
    }
    for disk in disks {
        let found = best.get(disk.path.as_path());
        disk.stable = found.map(|(_, link)| link.to_path_buf());
    }
}

/// The disk that a path means, by any of its names. `resolved` is the path without links.
pub(crate) fn of_path<'d>(disks: &'d [Disk], path: &Path, resolved: &Path) -> Option<&'d Disk> {
    let is_it =
        |d: &&Disk| d.path == resolved || d.path == path || d.stable.as_deref() == Some(path);
    disks.iter().find(is_it)
}

/// Refuses two names of one disk. Errors: the reason.
pub(crate) fn check_distinct(disks: &[&Disk]) -> Result<()> {
    for (i, a) in disks.iter().enumerate() {
        for b in &disks[..i] {
            let (a_name, b_name) = (a.path.display(), b.path.display());
            if a.path == b.path {
                bail!("{a_name} is given twice");
            }
            if !a.wwn.is_empty() && a.wwn == b.wwn {
                bail!(
                    "{b_name} and {a_name} are two paths to one disk (WWN {}): use multipath-tools, and its device",
                    a.wwn
                );
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LSBLK: &str = include_str!("../../tests/data/lsblk.json");

    fn found(path: &str) -> Vec<String> {
        let all = parse(LSBLK).expect("disks");
        let disk = all.into_iter().find(|d| d.path == Path::new(path));
        disk.unwrap_or_else(|| panic!("no {path}")).found
    }

    #[test]
    fn each_reason_against_a_disk_is_found() {
        let system = found("/dev/sda");
        for reason in [
            "gpt partition table",
            "partition /dev/sda1",
            "mounted at /boot/efi",
            "swap in use",
        ] {
            assert!(system.contains(&reason.to_owned()), "{reason}: {system:?}");
        }
        assert_eq!(found("/dev/sdb"), [] as [String; 0]);
        assert_eq!(found("/dev/sdc"), ["ext4 \"old data\""]);
        assert!(found("/dev/sdd").contains(&"lvm /dev/mapper/vg-root".to_owned()));
        assert_eq!(found("/dev/sde"), ["read-only"]);
        assert_eq!(found("/dev/sdf"), ["removable"]);
        assert_eq!(
            found("/dev/nvme9n1"),
            ["a disk that a Wirepool server exports"]
        );
    }

    #[test]
    fn paths_to_one_disk_are_used_through_their_map() {
        assert_eq!(
            found("/dev/sdg"),
            ["mpath_member", "mpath /dev/mapper/mpatha"]
        );
        assert_eq!(found("/dev/mapper/mpatha"), [] as [String; 0]);
        let all = parse(LSBLK).expect("disks");
        let maps = all
            .iter()
            .filter(|d| d.path == Path::new("/dev/mapper/mpatha"));
        assert_eq!(maps.count(), 1, "shown below both paths");
    }

    #[test]
    fn memory_and_optical_drives_are_no_disks() {
        let all = parse(LSBLK).expect("disks");
        for path in ["/dev/zram0", "/dev/sr0", "/dev/loop0", "/dev/fd0"] {
            assert!(!all.iter().any(|d| d.path == Path::new(path)), "{path}");
        }
    }

    #[test]
    fn names_survive_a_reboot() {
        let mut all = parse(LSBLK).expect("disks");
        let link =
            |name: &str, device: &str| (Path::new("/dev/disk").join(name), PathBuf::from(device));
        let links = [
            link("by-path/pci-0000:00:1f.2-ata-2", "/dev/sdb"),
            link("by-id/wwn-0x5002538e40b10c02", "/dev/sdb"),
            link("by-id/ata-Samsung_SSD_870_S5Y1", "/dev/sdb"),
            link("by-uuid/1234", "/dev/sdc"),
            link("by-id/ata-evil\u{1b}[31m", "/dev/sde"),
            link("by-path/pci-0000:00:1f.2-ata-5", "/dev/sde"),
        ];
        name(&mut all, &links);
        let of = |path: &str| {
            let disk = all.iter().find(|d| d.path == Path::new(path));
            disk.expect("there").name().display().to_string()
        };
        assert_eq!(of("/dev/sdb"), "/dev/disk/by-id/ata-Samsung_SSD_870_S5Y1");
        assert_eq!(of("/dev/sdc"), "/dev/sdc");
        assert_eq!(of("/dev/sde"), "/dev/disk/by-path/pci-0000:00:1f.2-ata-5");
        let by_id = Path::new("/dev/disk/by-id/ata-Samsung_SSD_870_S5Y1");
        let disk = of_path(&all, by_id, Path::new("/dev/sdb")).expect("by a name");
        assert_eq!(disk.path, Path::new("/dev/sdb"));
    }

    #[test]
    fn one_disk_is_not_two_members() {
        let disk = |path: &str, wwn: &str| Disk {
            path: path.into(),
            wwn: wwn.into(),
            ..Disk::default()
        };
        let (a, b, c) = (
            disk("/dev/sda", "0x1"),
            disk("/dev/sdb", "0x1"),
            disk("/dev/sdc", ""),
        );
        let d = disk("/dev/sdd", "");
        assert!(check_distinct(&[&a, &c, &d]).is_ok());
        let e = check_distinct(&[&a, &b]).expect_err("two paths");
        assert!(e.to_string().contains("two paths to one disk"), "{e}");
        let e = check_distinct(&[&a, &a]).expect_err("twice");
        assert!(e.to_string().contains("twice"), "{e}");
    }
}
