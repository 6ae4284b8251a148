//! The label of a spare on its disk.
//!
//! **Owns** its reading and writing. **Called by** the scan, the creation of members, and the operations on spares. **Invariant**: the
//! label is written one half of the label areas after the other, so that one half always has a whole label.

use io::BufPool;
use io::disk::Disk;

use super::area::{self, halves};
use super::geometry::{self, areas};
use crate::format::{LABEL_SIZE, SpareLabel, VdevOffset};

/// The newest whole label of a spare on a disk.
pub(super) async fn read(disk: &Disk, scratch: &BufPool) -> Option<SpareLabel> {
    if !geometry::has_room(disk.info().size) {
        return None;
    }
    let mut newest: Option<SpareLabel> = None;
    for at in areas(disk.info().size) {
        let (read, buf) = disk.read(scratch.alloc(LABEL_SIZE).await, at).await;
        let label = SpareLabel::decode(&buf, VdevOffset(at)).ok();
        if let Some(label) = label.filter(|_| read.is_ok())
            && newest.as_ref().is_none_or(|n| n.epoch < label.epoch)
        {
            newest = Some(label);
        }
    }
    newest
}

/// Writes the label of a spare to all areas of a disk, durably, one half after the other. The half with fewer whole labels, of a spare or
/// of a member, goes first.
pub(super) async fn write(disk: &Disk, label: &SpareLabel, scratch: &BufPool) -> io::Result<()> {
    let halves = halves(disk.info().size);
    // A copy that is read may be in the disk's cache only.
    drop(disk.flush().await?);
    let mut whole = [0; 2];
    for (count, half) in whole.iter_mut().zip(halves) {
        for at in half {
            let (read, buf) = disk.read(scratch.alloc(LABEL_SIZE).await, at).await;
            *count += usize::from(read.is_ok() && area::is_label(&buf, at));
        }
    }
    let first = usize::from(whole[0] >= whole[1]);
    for half in [first, 1 - first] {
        for at in halves[half] {
            let buf = area::filled(scratch, &label.encode(VdevOffset(at))).await;
            disk.write(buf, at).await?;
        }
        drop(disk.flush().await?);
    }
    Ok(())
}
