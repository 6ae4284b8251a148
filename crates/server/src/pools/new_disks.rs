//! Disks that join a pool: their opening, and the reasons not to overwrite them.
//!
//! **Called by** creation of a pool, and by added, attached and replacing disks. **Invariants**: nothing is written to a disk that
//! existed before; a file that was created for a refused request is deleted. The pool itself refuses labels of other pools.

use super::layout::{Shape, check_disks, lower_redundancy, unequal_disks};
use super::open::open_disk;
use crate::api;
use crate::limits::{DISK_SIZE_MAX, DISK_WAIT_MAX};
use crate::server::Server;
use crate::size::ByteSize;
use crate::{Error, Result};
use io::disk::Disk;
use io::linux::{age_of_data, ago, signatures};
use pool::format::is_of_later_version;
use pool::vdev::{self, VdevSpec};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Opened disks of new vdevs.
pub(super) struct NewDisks {
    vdevs: Vec<VdevSpec>,
    /// Files that were created for them.
    made: Vec<PathBuf>,
    /// Whether the paths are those of this machine; a simulated server has disks of its own.
    is_real: bool,
}

/// What a disk holds.
enum Contents {
    Nothing,
    /// A pool's label, which the pool judges.
    Pool(String),
    Other(String),
}

impl Server {
    /// Opens the disks of new vdevs, and creates missing files with `size`. Errors: `Disk`, `Invalid`; nothing has changed then.
    pub(super) async fn open_new(
        &self,
        vdevs: &[api::VdevSpec],
        size: Option<ByteSize>,
    ) -> Result<NewDisks> {
        check_disks(vdevs)?;
        let mut new = NewDisks {
            vdevs: Vec::new(),
            made: Vec::new(),
            is_real: self.state.borrow().file.is_stored(),
        };
        for vdev in vdevs {
            let mut disks = Vec::new();
            for path in &vdev.members {
                match new.open(path, size).await {
                    Ok(disk) => disks.push(disk),
                    Err(e) => {
                        drop(disks);
                        new.discard().await;
                        return Err(e);
                    }
                }
            }
            new.vdevs.push(VdevSpec {
                layout: vdev.layout.into(),
                class: vdev.class.into(),
                members: disks,
            });
        }
        Ok(new)
    }
}

impl NewDisks {
    async fn open(&mut self, path: &Path, size: Option<ByteSize>) -> Result<Disk> {
        let place = path.to_path_buf();
        let is_there = io::blocking(move || place.exists()).await.unwrap_or(true);
        let is_missing = !is_there && self.is_real;
        let refuse = |reason: String| Error::Disk {
            name: path.display().to_string(),
            reason,
        };
        if is_missing && size.is_none() {
            let reason = "it does not exist: use --size to create a file";
            return Err(refuse(reason.into()));
        }
        let create = size.filter(|_| is_missing).map(|s| s.0);
        if create.is_some_and(|size| size > DISK_SIZE_MAX) {
            let text = "no file can be that large: use a smaller --size";
            return Err(Error::Invalid(text.into()));
        }
        if is_missing {
            self.made.push(path.to_path_buf());
        }
        // the server itself may read a label on it for a moment
        open_disk(path, create, true).await.map_err(refuse)
    }

    /// Files that were created.
    pub(super) fn made(&self) -> &[PathBuf] {
        &self.made
    }

    /// The vdevs.
    pub(super) fn vdevs(&self) -> &[VdevSpec] {
        &self.vdevs
    }

    /// Closes the disks and deletes the files that were created.
    pub(super) async fn discard(self) {
        let files = self.made;
        drop(self.vdevs);
        remove_files(files).await;
    }

    /// Refuses disks with contents that the pool does not judge, and vdevs with less redundancy than those of the pool,
    /// `old`. Errors: `Conflict` with every reason, since one `-f` overrides all of them.
    pub(super) async fn check(&self, pool: &str, old: &[Shape]) -> Result<()> {
        let new: Vec<Shape> = self.vdevs.iter().map(Shape::from).collect();
        let mut reasons: Vec<String> = lower_redundancy(old, &new).into_iter().collect();
        reasons.extend(self.vdevs.iter().filter_map(unequal_disks));
        let mut labels = Vec::new();
        let disks = self.vdevs.iter().flat_map(|vdev| &vdev.members);
        for disk in disks.filter(|_| self.is_real) {
            let path = &disk.info().path;
            if self.made.contains(path) {
                continue;
            }
            match contents(disk).await {
                Contents::Nothing => {}
                Contents::Pool(text) => labels.push(format!("{} {text}", path.display())),
                Contents::Other(text) => reasons.push(format!("{} {text}", path.display())),
            }
        }
        if reasons.is_empty() {
            return Ok(());
        }
        reasons.extend(labels);
        Err(Error::Conflict(format!(
            "pool {pool:?}: {}. Choose other disks, or use -f, which accepts this and overwrites all disks that are named",
            reasons.join("; ")
        )))
    }
}

/// Deletes files that were created for a refused request.
pub(super) async fn remove_files(files: Vec<PathBuf>) {
    let _ = io::blocking(move || files.iter().for_each(|f| drop(std::fs::remove_file(f)))).await;
}

/// What the disk holds.
async fn contents(disk: &Disk) -> Contents {
    let scan = vdev::scan(vec![disk.clone()]).await;
    if let Some(found) = scan.pools.first() {
        let written = found.uberblocks.iter().map(|u| u.time / 1_000_000).max();
        let age = written.map(|ms| io::time::wall_clock_ms().saturating_sub(ms));
        let age = age.map_or(String::new(), |ms| {
            format!(", written {}", ago(Duration::from_millis(ms)))
        });
        return Contents::Pool(format!("belongs to the pool {:?}{age}", found.name));
    }
    if let Some(spare) = scan.spares.first() {
        return Contents::Pool(format!("is a spare of {}", spare.label.names()));
    }
    if let Some(cache) = scan.caches.first() {
        return Contents::Pool(format!("is a cache device of {:?}", cache.label.name));
    }
    let mut defects = scan.unread.iter().flat_map(|u| &u.defects);
    if defects.any(is_of_later_version) {
        return Contents::Pool("belongs to a pool of a later version".into());
    }
    let path = disk.info().path.clone();
    let reading = io::blocking(move || (signatures(&path), age_of_data(&path)));
    let unknown = |reason: String| {
        Contents::Other(format!(
            "may have contents, which cannot be examined: {reason}"
        ))
    };
    match io::timeout(DISK_WAIT_MAX, reading).await {
        Err(_) => Contents::Other("does not answer".into()),
        Ok(Err(e)) => unknown(e.to_string()),
        Ok(Ok((Err(e), _) | (_, Err(e)))) => unknown(e.to_string()),
        Ok(Ok((Ok(found), age))) if found.is_empty() => match age {
            Ok(Some(age)) => {
                let age = ago(age);
                Contents::Other(format!("is a file with unknown contents, written {age}"))
            }
            _ => Contents::Nothing,
        },
        Ok(Ok((Ok(found), _))) => {
            let kinds: Vec<_> = found.iter().map(ToString::to_string).collect();
            Contents::Other(format!("has contents: {}", kinds.join(", ")))
        }
    }
}
