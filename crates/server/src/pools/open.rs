//! Opening of pools: from paths to an open pool.

use crate::config::{PoolConfig, UUID_SPACE};
use crate::disks::explain;
use crate::limits::{BUSY_POLL, BUSY_WAIT_MAX, DISK_WAIT_MAX};
use io::disk::{Disk, OpenOptions};
use pool::format::Host;
use pool::format::is_of_later_version;
use pool::vdev::{self, FoundPool, Opened};
use pool::{Options, Pool};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The identity of this machine in labels. Simulations have one machine.
pub(crate) async fn host(stored: bool) -> Host {
    let simulated = || Host::new([1; 16], "simulated");
    if !stored {
        return simulated();
    }
    let read = io::blocking(|| {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        (read("/proc/sys/kernel/hostname"), read("/etc/machine-id"))
    });
    let Ok((name, id)) = read.await else {
        return simulated();
    };
    let name = name.trim();
    let of_name = || Uuid::new_v5(&UUID_SPACE, name.as_bytes());
    let id = Uuid::try_parse(id.trim()).unwrap_or_else(|_| of_name());
    Host::new(id.into_bytes(), name)
}

/// Opens one disk. The locks of a killed server survive it for a moment, so a disk that is in use is tried again for
/// a while. Errors: the reason, for people.
pub(super) async fn open_disk(
    path: &Path,
    create: Option<u64>,
    wait: bool,
) -> Result<Disk, String> {
    let started = io::time::now();
    let options = OpenOptions {
        create_size: create,
        ..OpenOptions::default()
    };
    loop {
        let opening = io::timeout(DISK_WAIT_MAX, Disk::open(path, options.clone())).await;
        match opening {
            Ok(Ok(disk)) => return Ok(disk),
            Ok(Err(io::Error::Busy(_))) if wait && started.elapsed() < BUSY_WAIT_MAX => {
                io::time::sleep(BUSY_POLL).await;
            }
            Ok(Err(e)) => return Err(explain(path, e.into())),
            Err(_) => return Err(format!("{} does not answer", path.display())),
        }
    }
}

/// The pools that the labels of disks name, and the reasons for disks that cannot be read.
pub(super) async fn find(paths: &[PathBuf], wait: bool) -> (Vec<FoundPool>, Vec<String>) {
    let mut disks = Vec::new();
    let mut reasons = Vec::new();
    for path in paths {
        match open_disk(path, None, wait).await {
            Ok(disk) => disks.push(disk),
            Err(reason) => reasons.push(reason),
        }
    }
    let scan = vdev::scan(disks).await;
    let no_pool = scan.unread.iter().map(|u| {
        let path = u.path.display();
        match u.defects.iter().any(is_of_later_version) {
            true => format!("{path} belongs to a pool of a later version: use that version"),
            false => format!("no pool label on {path}"),
        }
    });
    reasons.extend(no_pool);
    (scan.pools, reasons)
}

/// The single matching pool. Errors: the reason, for people.
pub(super) fn choose(
    found: Vec<FoundPool>,
    reasons: &[String],
    wanted: impl Fn(&FoundPool) -> bool,
) -> Result<FoundPool, String> {
    let names: Vec<_> = found
        .iter()
        .map(|p| format!("{} ({:016x})", p.name, p.guid.0))
        .collect();
    let mut right: Vec<FoundPool> = found.into_iter().filter(wanted).collect();
    match (right.pop(), right.is_empty()) {
        (Some(pool), true) => Ok(pool),
        (Some(_), false) => Err(format!(
            "there are several such pools: {}; name one by its GUID",
            names.join(", ")
        )),
        (None, _) => {
            let mut text = "no label of this pool on its disks".to_owned();
            if !names.is_empty() {
                text += &format!("; found: {}", names.join(", "));
            }
            Err(reasons.iter().fold(text, |text, r| text + "; " + r))
        }
    }
}

/// Opens a pool whose devices are open.
pub(super) async fn open_devices(opened: Opened, config: &PoolConfig) -> Result<Pool, String> {
    let mut options = Options::default();
    if let Some(mib) = config.cache_mib {
        options.cache_bytes = (mib << 20) as usize;
    }
    if let Some(mib) = config.record_cache_mib {
        options.record_cache_bytes = (mib << 20) as usize;
    }
    options.cache_daily_bytes = config.cache_daily_mib.map(|mib| mib << 20);
    if let Some(mib) = config.space_mib {
        options.space_bytes = (mib << 20) as usize;
    }
    if let Some(mib) = config.dirty_mib {
        options.dirty_bytes = mib << 20;
    }
    Pool::open(opened, options).await.map_err(|e| e.to_string())
}
