//! Label areas: where on a disk labels and uberblocks lie, reading and writing them.
//!
//! **Owns** the geometry of a disk. **Called by** whoever scans, opens or changes a pool. **Invariants**: a label's
//! copies are written in two halves with a flush after each, the one that lacks a whole copy first, so that one half is
//! whole whenever the power goes, however often; an uberblock overwrites none but the one [`RING_SLOTS`] older, and a whole
//! copy of it is never written again (`docs/decisions/0118`). `docs/format.md`, "Labels" and "Uberblocks".

use io::disk::Disk;
use io::{BufPool, IoBuf};

use super::leaf::Leaf;
use super::limits::{LABEL_COPIES_MIN, UBERBLOCK_COPIES_MIN};
use crate::format::{Defect, LABEL_SIZE, Label, LabelEpoch, UBERBLOCK_SIZE, Uberblock, VdevOffset};

/// Bytes of a label area.
pub const AREA_SIZE: u64 = 256 << 10;
/// Label areas of a disk.
pub const AREAS: usize = 4;
/// Uberblocks in the ring of an area.
pub const RING_SLOTS: u64 = (AREA_SIZE - LABEL_SIZE as u64) / UBERBLOCK_SIZE as u64;
/// Where a disk's data starts, bytes.
pub const DATA_START: u64 = 1 << 20;
/// Data ends at a multiple of it, bytes.
pub(super) const DATA_UNIT: u64 = 1 << 20;

/// Where the areas of a disk of `size` bytes start. The disk has room for them.
pub(crate) fn areas(size: u64) -> [u64; AREAS] {
    let end = size / AREA_SIZE * AREA_SIZE;
    [0, AREA_SIZE, end - 2 * AREA_SIZE, end - AREA_SIZE]
}

/// Whether a disk has room for its areas and some data.
pub(crate) fn has_room(size: u64) -> bool {
    size >= DATA_START + DATA_UNIT + 2 * AREA_SIZE
}

/// Bytes for data on a disk of `size` bytes.
pub(crate) fn data_size(size: u64) -> u64 {
    let end = size / AREA_SIZE * AREA_SIZE;
    end.saturating_sub(DATA_START + 2 * AREA_SIZE) / DATA_UNIT * DATA_UNIT
}

/// Bytes that a disk must have for `data_size` bytes of data and the label areas.
#[must_use]
pub fn least_size(data_size: u64) -> u64 {
    DATA_START + data_size + 2 * AREA_SIZE
}

pub(crate) fn slot_offset(area: u64, sequence: u64) -> u64 {
    area + LABEL_SIZE as u64 + sequence % RING_SLOTS * UBERBLOCK_SIZE as u64
}

/// The copies of a disk's label, as far as they can be read.
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

/// A slot of a ring as a disk has it.
pub(super) struct Slot {
    /// Label area, from 0.
    area: usize,
    /// Place in the area's ring.
    pub(super) number: u64,
    /// The uberblock in it, if that is whole.
    pub(super) uberblock: Option<Uberblock>,
    /// It was read, and there are zeroes.
    pub(super) is_blank: bool,
}

/// Every slot of a disk's rings.
pub(super) async fn read_slots(leaf: &Leaf, scratch: &BufPool) -> Vec<Slot> {
    let mut found = Vec::new();
    for (area, start) in areas(leaf.size()).into_iter().enumerate() {
        let buf = scratch.alloc((AREA_SIZE as usize) - LABEL_SIZE).await;
        let (read, buf) = leaf.read(buf, slot_offset(start, 0)).await;
        let ring = buf.filter(|_| read.is_ok());
        for number in 0..RING_SLOTS {
            let at = slot_offset(start, number);
            // some of a ring that cannot be read at once may be readable
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

/// A buffer with these bytes.
pub(super) async fn filled(scratch: &BufPool, bytes: &[u8]) -> IoBuf {
    let mut buf = scratch.alloc(bytes.len()).await;
    buf.copy_from_slice(bytes);
    buf
}

/// What is known of one half of a label's copies. The lesser of two is written first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Half {
    /// Whole copies, durably.
    whole: usize,
    /// Of the newest of them.
    epoch: u64,
}

/// Where the halves of a label's copies lie.
fn halves(size: u64) -> [[u64; 2]; 2] {
    let [first, second, third, fourth] = areas(size);
    [[first, third], [second, fourth]]
}

/// Writes a label to all areas, durably. Whether the side has it now. A half is overwritten only while the other one has
/// a copy that this very update wrote, or that was there before it.
pub(super) async fn write_label(leaf: &Leaf, label: &Label, scratch: &BufPool) -> bool {
    let Some((mut known, is_front)) = known_halves(leaf, scratch).await else {
        return false;
    };
    leaf.know_halves(None);
    if is_front {
        // the disk became larger: what was at its end is not where it belongs now
        copy_rings(leaf, scratch).await;
        let ends = areas(leaf.size()).into_iter().skip(2);
        for (half, at) in known.iter_mut().zip(ends) {
            let buf = filled(scratch, &label.encode(VdevOffset(at))).await;
            half.whole += usize::from(leaf.write(&buf.into(), at).await.is_ok());
        }
        if leaf.flush().await.is_err() {
            return false;
        }
    }
    let halves = halves(leaf.size());
    // the second one unless the first is worth less
    let first = usize::from(known[0] >= known[1]);
    let mut written = 0;
    for half in [first, 1 - first] {
        let mut whole = 0;
        for at in halves[half] {
            let buf = filled(scratch, &label.encode(VdevOffset(at))).await;
            whole += usize::from(leaf.write(&buf.into(), at).await.is_ok());
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

/// What the halves of a side's label hold, durably: as this process wrote them, or as they are found. What is found may
/// be in the disk's cache alone. And whether what is whole is at the disk's front, and nothing at its end.
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

/// Writes the uberblocks at the front of a disk to its new end. A copy that cannot be written is no reason to refuse the disk.
async fn copy_rings(leaf: &Leaf, scratch: &BufPool) {
    let slots = read_slots(leaf, scratch).await;
    let front = slots.iter().filter(|slot| slot.area < 2);
    let mut wanted: Vec<_> = front.filter_map(|slot| slot.uberblock).collect();
    wanted.sort_by_key(|u| (u.sequence, u.label_epoch));
    wanted.dedup();
    let _best_effort = mend_rings(leaf, &wanted, scratch).await;
}

/// Copies of uberblocks on a side, after [`mend_rings`].
pub(super) struct Mended {
    /// Copies of the uberblock that has the fewest.
    pub(super) whole: usize,
    /// Copies that were missing and were written.
    pub(super) written: u64,
}

/// Writes uberblocks to those slots of a disk that hold nothing whole, or something older; durable after the next flush.
/// A whole copy is never overwritten by an equal one: if the power goes meanwhile, each uberblock has at least the copies
/// that it had. Areas are written one after the other, with a flush between them: a copy that a power cut tore, or kept
/// from being written, has no new one in an area behind it, which tells it from damage. Flush before, so that the copies
/// that are found are durable.
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

/// Overwrites the labels of a disk of `size` bytes with zeroes, durably, and its uberblocks: they may be of another life of the same pool.
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

/// Writes an uberblock to its slot of all rings; durable after the next flush. Whether the side has it now. All copies of
/// that slot may tear together: they hold what recovery does not need.
pub(super) async fn write_uberblock(leaf: &Leaf, uberblock: &Uberblock, scratch: &BufPool) -> bool {
    let mut written = 0;
    for area in areas(leaf.size()) {
        written += usize::from(put_uberblock(leaf, area, uberblock, scratch).await);
    }
    written >= UBERBLOCK_COPIES_MIN
}

/// Writes one copy of an uberblock, into the ring of the area that starts at `area`.
async fn put_uberblock(leaf: &Leaf, area: u64, uberblock: &Uberblock, scratch: &BufPool) -> bool {
    let at = slot_offset(area, uberblock.sequence);
    let buf = filled(scratch, &uberblock.encode(VdevOffset(at))).await;
    leaf.write(&buf.into(), at).await.is_ok()
}

/// How many of a side's label copies are not whole, or not of this epoch.
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
