//! The disk below a path.
//!
//! **Owns** mounts as the kernel lists them. **Called by** the captures of pools' disks, probes and NFS.

use super::parse::unescaped;
use crate::facts::Known;
use crate::source::{Source, SourceExt};

/// A mount.
pub(super) struct Mount {
    /// Device number, such as `254:0`.
    pub(super) device: String,
    /// Where it is mounted.
    pub(super) target: String,
    /// Options of the mount.
    pub(super) options: String,
    /// The kind of file system.
    pub(super) kind: String,
    /// Device, or server and path.
    pub(super) source: String,
    /// Options of the file system.
    pub(super) super_options: String,
}

/// All mounts that this process sees. Lines of another form are skipped (proc(5), "mountinfo").
pub(super) fn mounts(source: &dyn Source) -> Known<Vec<Mount>> {
    let text = source.text("/proc/self/mountinfo");
    text.map(|text| text.lines().filter_map(mount).collect())
}

fn mount(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let right: Vec<&str> = right.split(' ').collect();
    Some(Mount {
        device: (*left.get(2)?).to_owned(),
        target: unescaped(left.get(4)?),
        options: (*left.get(5)?).to_owned(),
        kind: (*right.first()?).to_owned(),
        source: unescaped(right.get(1)?),
        super_options: unescaped(right.get(2).unwrap_or(&"")),
    })
}

/// The disk that has the data of a block device, or of a file or directory.
pub(super) fn disk_of(source: &dyn Source, path: &str) -> Known<String> {
    if path.is_empty() {
        return Known::unknown("the disk is missing");
    }
    if path.starts_with("/dev/") {
        let name = source.link_name(path).unwrap_or_else(|| {
            let name = path.rsplit('/').next();
            name.unwrap_or_default().to_owned()
        });
        return whole(source, &format!("/sys/class/block/{name}"));
    }
    let mounts = mounts(source);
    let Known::Value(mounts) = mounts else {
        return mounts.map(|_| String::new());
    };
    let is_above = |m: &&Mount| {
        let rest = path.strip_prefix(m.target.trim_end_matches('/'));
        rest.is_some_and(|r| r.is_empty() || r.starts_with('/'))
    };
    // Of several mounts at one place the last one is visible.
    let best = mounts
        .iter()
        .filter(is_above)
        .max_by_key(|m| m.target.len());
    match best {
        Some(m) if m.device.starts_with("0:") => Known::unknown(format!(
            "{path} is on {}, which has no disk of its own",
            m.kind
        )),
        Some(m) => whole(source, &format!("/sys/dev/block/{}", m.device)),
        None => Known::unknown(format!("{path} is on no known file system")),
    }
}

/// The whole disk of a block device: of a partition, or of a device that is stacked on one disk.
fn whole(source: &dyn Source, block: &str) -> Known<String> {
    let path = match source.resolve(block) {
        Ok(path) => path,
        Err(e) => return Known::unknown(e.reason()),
    };
    let path = match source.exists(&format!("{path}/partition")) {
        true => path.rsplit_once('/').map_or("", |(parent, _)| parent),
        false => &path,
    };
    let name = path.rsplit('/').next().unwrap_or_default();
    match source.list_or_empty(&format!("{path}/slaves")) {
        Known::Value(slaves) => match slaves.as_slice() {
            [] => Known::Value(name.to_owned()),
            [one] if one != name => whole_below(source, one),
            _ => Known::unknown(format!("{name} is on several disks")),
        },
        unknown => unknown.map(|_| String::new()),
    }
}

/// The same for a device below another; deeper stacks are not followed.
fn whole_below(source: &dyn Source, name: &str) -> Known<String> {
    let block = format!("/sys/class/block/{name}");
    let path = source.resolve(&block).unwrap_or(block);
    let is_stacked = source
        .list(&format!("{path}/slaves"))
        .is_ok_and(|s| !s.is_empty());
    if is_stacked {
        return Known::unknown(format!("{name} is a stack of devices"));
    }
    let path = match source.exists(&format!("{path}/partition")) {
        true => path.rsplit_once('/').map_or("", |(parent, _)| parent),
        false => &path,
    };
    Known::Value(path.rsplit('/').next().unwrap_or_default().to_owned())
}
