//! Label areas: reads and writes of labels and uberblocks on a disk.
//!
//! **Owns** the order of these writes. **Called by** scan, opening and changes of a pool. **Invariants**: a label's copies are
//! written in two halves with a flush after each, the half that lacks an intact copy first, so that after any number of power
//! cuts one half is intact; an uberblock overwrites only the one [`RING_SLOTS`] older; an intact copy of it is never written
//! again (`docs/decisions/0118`). `docs/format.md`, "Labels" and "Uberblocks".

use io::disk::Disk;
use io::{BufPool, IoBuf};

use super::geometry::{AREA_SIZE, AREAS, RING_SLOTS, areas, slot_offset};
use super::leaf::{Half, Leaf};
use super::limits::{LABEL_COPIES_MIN, UBERBLOCK_COPIES_MIN};
use crate::format::{
    Defect, LABEL_SIZE, Label, LabelEpoch, SpareLabel, UBERBLOCK_SIZE, Uberblock, VdevOffset,
};
use crate::written::WriteClass;

/// Reads the copies of a disk's label: each label, or its defect. Unreadable copies are left out.
pub(super) async fn read_labels(disk: &Disk, scratch: &BufPool) -> Vec<Result<Label, Defect>> {
    let mut found = Vec::with_capacity(AREAS);
    for at in areas(disk.info().size) {
        let buf = scratch.alloc(LABEL_SIZE).await;
        let (read, buf) = disk.read(buf, at).await;
        if read.is_ok() {
            found.push(Label::decode(&buf, VdevOffset(at)));
        }
    }
    found
}

/// A slot of a ring, as read from a disk.
pub(super) struct Slot {
    /// Number of the label area, from 0.
    area: usize,
    /// Number of the slot in the area's ring.
    pub(super) number: u64,
    /// The uberblock in it; `None` if it is damaged or missing.
    pub(super) uberblock: Option<Uberblock>,
    /// Whether the slot was read and has only zeroes.
    pub(super) is_blank: bool,
}

/// Reads every slot of a disk's rings.
pub(super) async fn read_slots(leaf: &Leaf, scratch: &BufPool) -> Vec<Slot> {
    let mut found = Vec::new();
    for (area, start) in areas(leaf.size()).into_iter().enumerate() {
        let buf = scratch.alloc((AREA_SIZE as usize) - LABEL_SIZE).await;
        let (read, buf) = leaf.read(buf, slot_offset(start, 0)).await;
        let ring = buf.filter(|_| read.is_ok());
        for number in 0..RING_SLOTS {
            let at = slot_offset(start, number);
            // If one read of the whole ring fails, single slots may be readable.
            let one = match ring {
                Some(_) => None,
                None => {
                    let buf = scratch.alloc(UBERBLOCK_SIZE).await;
                    let (read, buf) = leaf.read(buf, at).await;
                    buf.filter(|_| read.is_ok())
                }
            };
            let bytes = match &ring {
                Some(ring) => Some(&ring[number as usize * UBERBLOCK_SIZE..]),
                None => one.as_deref(),
            };
            let bytes = bytes.and_then(|bytes| bytes.first_chunk());
            found.push(Slot {
                area,
                number,
                uberblock: bytes.and_then(|b| Uberblock::decode(b, VdevOffset(at)).ok()),
                is_blank: bytes.is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0)),
            });
        }
    }
    found
}

/// Returns a buffer with these bytes.
pub(super) async fn filled(scratch: &BufPool, bytes: &[u8]) -> IoBuf {
    let mut buf = scratch.alloc(bytes.len()).await;
    buf.copy_from_slice(bytes);
    buf
}

/// Offsets of the copies in each half.
pub(super) fn halves(size: u64) -> [[u64; 2]; 2] {
    let [first, second, third, fourth] = areas(size);
    [[first, third], [second, fourth]]
}

/// Writes a label to all areas, durably. Returns whether the member has it in enough copies. A half is overwritten only while
/// the other one has an intact copy, of this label or of the one before.
pub(super) async fn write_label(leaf: &Leaf, label: &Label, scratch: &BufPool) -> bool {
    let Some((mut known, is_front)) = known_halves(leaf, scratch).await else {
        return false;
    };
    leaf.know_halves(None);
    if is_front {
        // The disk grew: the copies at its old end are not where they belong now.
        copy_rings(leaf, scratch).await;
        let ends = areas(leaf.size()).into_iter().skip(2);
        for (half, at) in known.iter_mut().zip(ends) {
            let buf = filled(scratch, &label.encode(VdevOffset(at))).await;
            half.whole += usize::from(
                leaf.write(&buf.into(), at, WriteClass::Labels)
                    .await
                    .is_ok(),
            );
        }
        if leaf.flush().await.is_err() {
            return false;
        }
    }
    let halves = halves(leaf.size());
    // The second half, unless the first one is worth less.
    let first = usize::from(known[0] >= known[1]);
    let mut written = 0;
    for half in [first, 1 - first] {
        let mut whole = 0;
        for at in halves[half] {
            let buf = filled(scratch, &label.encode(VdevOffset(at))).await;
            whole += usize::from(
                leaf.write(&buf.into(), at, WriteClass::Labels)
                    .await
                    .is_ok(),
            );
        }
        if leaf.flush().await.is_err() || whole == 0 {
            return false;
        }
        written += whole;
        let epoch = label.epoch.0;
        known[half] = Half { whole, epoch };
    }
    leaf.know_halves(Some(known));
    written >= LABEL_COPIES_MIN
}

/// Returns the durable state of the two halves: as this process wrote them, or as they are read (after a flush, because a
/// copy that is read may be in the disk's cache only). The flag is true if all intact copies are at the disk's front and none
/// at its end. `None` if the flush fails.
async fn known_halves(leaf: &Leaf, scratch: &BufPool) -> Option<([Half; 2], bool)> {
    if let Some(known) = leaf.known_halves() {
        return Some((known, false));
    }
    let _durable = leaf.flush().await.ok()?;
    let mut found = [Half::default(); 2];
    let mut whole = [[false; 2]; 2];
    for (n, areas) in halves(leaf.size()).into_iter().enumerate() {
        let half = &mut found[n];
        for (copy, at) in areas.into_iter().enumerate() {
            if let Some(label) = read_label(leaf, at, scratch).await {
                half.whole += 1;
                whole[n][copy] = true;
                half.epoch = half.epoch.max(label.epoch.0);
            }
        }
    }
    Some((found, whole == [[true, false]; 2]))
}

/// Copies the uberblocks at the front of a disk to its new end. Failures are ignored.
async fn copy_rings(leaf: &Leaf, scratch: &BufPool) {
    let slots = read_slots(leaf, scratch).await;
    let front = slots.iter().filter(|slot| slot.area < 2);
    let mut wanted: Vec<_> = front.filter_map(|slot| slot.uberblock).collect();
    wanted.sort_by_key(|u| (u.sequence, u.label_epoch));
    wanted.dedup();
    let _best_effort = mend_rings(leaf, &wanted, scratch).await;
}

/// Copies of uberblocks on a member, after [`mend_rings`].
pub(super) struct Mended {
    /// Number of intact copies of the uberblock with the fewest.
    pub(super) whole: usize,
    /// Number of missing copies that were written.
    pub(super) written: u64,
}

/// Writes uberblocks to those slots of a disk that have no intact uberblock, or an older one. Durable after the next flush.
/// An intact copy is never overwritten by the same one: if the power is cut meanwhile, each uberblock keeps the copies that
/// it had. Areas are written one after the other, with a flush between them, so that behind an area with a torn or missing
/// copy no later area has a new one; this tells a torn write from damage. The caller must flush before, so that the copies
/// that are read are durable.
pub(super) async fn mend_rings(leaf: &Leaf, wanted: &[Uberblock], scratch: &BufPool) -> Mended {
    let slots = read_slots(leaf, scratch).await;
    let mut whole = vec![0; wanted.len()];
    let mut written = 0;
    for (area, at) in areas(leaf.size()).into_iter().enumerate() {
        let before = written;
        for (uberblock, whole) in wanted.iter().zip(&mut whole) {
            let number = uberblock.sequence % RING_SLOTS;
            let is_it = |slot: &&Slot| slot.area == area && slot.number == number;
            let found = slots.iter().find(is_it).and_then(|slot| slot.uberblock);
            let found = found.filter(|u| u.pool == uberblock.pool);
            if found == Some(*uberblock) {
                *whole += 1;
            } else if found.is_none_or(|found| uberblock.is_newer_than(&found))
                && put_uberblock(leaf, at, uberblock, scratch).await
            {
                *whole += 1;
                written += 1;
            }
        }
        if written > before && leaf.flush().await.is_err() {
            break;
        }
    }
    Mended {
        whole: whole.into_iter().min().unwrap_or(AREAS),
        written,
    }
}

/// Overwrites the labels and uberblocks of a disk of `size` bytes with zeroes, durably. Uberblocks may be of an earlier
/// incarnation of the same pool.
///
/// # Errors
/// The first write or flush that failed.
pub(super) async fn wipe_labels(disk: &Disk, size: u64, scratch: &BufPool) -> io::Result<()> {
    for at in areas(size) {
        let mut buf = scratch.alloc(AREA_SIZE as usize).await;
        buf.fill(0);
        disk.write(buf, at).await?;
    }
    disk.flush().await.map(drop)
}

/// Overwrites the uberblocks of a disk with zeroes, durably; its labels stay.
///
/// # Errors
/// The first write or flush that failed.
pub(super) async fn wipe_rings(disk: &Disk, scratch: &BufPool) -> io::Result<()> {
    for at in areas(disk.info().size) {
        let mut buf = scratch.alloc(AREA_SIZE as usize - LABEL_SIZE).await;
        buf.fill(0);
        disk.write(buf, slot_offset(at, 0)).await?;
    }
    disk.flush().await.map(drop)
}

/// Whether these bytes, read from the disk offset `at`, are a whole label of a member or of a spare.
pub(super) fn is_label(bytes: &[u8], at: u64) -> bool {
    let at = VdevOffset(at);
    Label::decode(bytes, at).is_ok() || SpareLabel::decode(bytes, at).is_ok()
}

/// Writes an uberblock to its slot in all rings; durable after the next flush. Returns whether the member has it in enough
/// copies. A power cut may tear all copies in that slot: recovery does not need its previous uberblock.
pub(super) async fn write_uberblock(leaf: &Leaf, uberblock: &Uberblock, scratch: &BufPool) -> bool {
    let mut written = 0;
    for area in areas(leaf.size()) {
        written += usize::from(put_uberblock(leaf, area, uberblock, scratch).await);
    }
    written >= UBERBLOCK_COPIES_MIN
}

/// Writes one copy of an uberblock into the ring of the area at offset `area`.
async fn put_uberblock(leaf: &Leaf, area: u64, uberblock: &Uberblock, scratch: &BufPool) -> bool {
    let at = slot_offset(area, uberblock.sequence);
    let buf = filled(scratch, &uberblock.encode(VdevOffset(at))).await;
    leaf.write(&buf.into(), at, WriteClass::Labels)
        .await
        .is_ok()
}

/// Number of a member's label copies that are damaged or not of this epoch.
pub(super) async fn bad_labels(leaf: &Leaf, epoch: LabelEpoch, scratch: &BufPool) -> u64 {
    let mut bad = 0;
    for at in areas(leaf.size()) {
        let label = read_label(leaf, at, scratch).await;
        bad += u64::from(label.is_none_or(|label| label.epoch != epoch));
    }
    bad
}

async fn read_label(leaf: &Leaf, at: u64, scratch: &BufPool) -> Option<Label> {
    let (read, buf) = leaf.read(scratch.alloc(LABEL_SIZE).await, at).await;
    let buf = buf.filter(|_| read.is_ok())?;
    Label::decode(&buf, VdevOffset(at)).ok()
}
