//! The label of a cache device on its disk.
//!
//! **Owns** its reading. **Called by** the scan, and by the creation of members, spares and cache devices. **Invariant**: a label that a power cut tore
//! costs the contents of the cache, nothing else.

use io::BufPool;
use io::disk::Disk;

use super::error::SetupError;
use super::geometry::{self, areas};
use super::spare_label;
use crate::format::{CacheLabel, LABEL_SIZE, VdevOffset};

/// The first whole label of a cache device on a disk.
pub(super) async fn read(disk: &Disk, scratch: &BufPool) -> Option<CacheLabel> {
    if !geometry::has_room(disk.info().size) {
        return None;
    }
    for at in areas(disk.info().size) {
        let (read, buf) = disk.read(scratch.alloc(LABEL_SIZE).await, at).await;
        let label = CacheLabel::decode(&buf, VdevOffset(at)).ok();
        if let Some(label) = label.filter(|_| read.is_ok()) {
            return Some(label);
        }
    }
    None
}

/// Refuses a disk that is a spare or a cache device.
pub(super) async fn check_unlabelled(disk: &Disk, scratch: &BufPool) -> Result<(), SetupError> {
    let path = || disk.info().path.clone();
    if let Some(label) = spare_label::read(disk, scratch).await {
        return Err(SetupError::IsSpare {
            path: path(),
            names: label.names(),
        });
    }
    match read(disk, scratch).await {
        Some(label) => Err(SetupError::IsCache {
            path: path(),
            name: label.name,
        }),
        None => Ok(()),
    }
}
