//! Geometry of a disk: the places of label areas, rings of uberblocks, and data.
//!
//! **Owns** these places. **Called by** everything that reads or writes a disk, also the offline reader. **Invariant**: areas, data
//! and slots do not overlap on a disk that [has room](has_room). `docs/format.md`, "Labels" and "Uberblocks".

use crate::format::{LABEL_SIZE, OFFSET_END, SCRATCH_AREA_SIZE, UBERBLOCK_SIZE};

/// Size of a label area, bytes.
pub const AREA_SIZE: u64 = 256 << 10;
/// Number of label areas of a disk.
pub const AREAS: usize = 4;
/// Number of uberblocks in the ring of an area.
pub const RING_SLOTS: u64 = (AREA_SIZE - LABEL_SIZE as u64) / UBERBLOCK_SIZE as u64;
/// Offset of a disk's data, bytes.
pub const DATA_START: u64 = 1 << 20;
/// Offset of the scratch area on a disk, bytes: it ends where the data begins.
pub(crate) const SCRATCH_START: u64 = DATA_START - SCRATCH_AREA_SIZE;
/// The end of the data is a multiple of this, bytes.
const DATA_UNIT: u64 = 1 << 20;

/// Offsets of the areas of a disk of `size` bytes, which must have room for them.
pub(crate) fn areas(size: u64) -> [u64; AREAS] {
    let end = size / AREA_SIZE * AREA_SIZE;
    [0, AREA_SIZE, end - 2 * AREA_SIZE, end - AREA_SIZE]
}

/// Whether a disk of `size` bytes has room for its areas and some data.
pub(crate) fn has_room(size: u64) -> bool {
    size >= DATA_START + DATA_UNIT + 2 * AREA_SIZE
}

/// Bytes for data on a disk of `size` bytes.
pub(crate) fn data_size(size: u64) -> u64 {
    let end = size / AREA_SIZE * AREA_SIZE;
    end.saturating_sub(DATA_START + 2 * AREA_SIZE) / DATA_UNIT * DATA_UNIT
}

/// Most bytes of data of a member, if the addresses of its vdev are those of `members` members.
pub(super) fn data_size_max(members: usize) -> u64 {
    (OFFSET_END / members.max(1) as u64 - 1) / DATA_UNIT * DATA_UNIT
}

/// Size that a disk must have for `data_size` bytes of data and the label areas, bytes.
#[must_use]
pub const fn least_size(data_size: u64) -> u64 {
    DATA_START + data_size + 2 * AREA_SIZE
}

pub(crate) fn slot_offset(area: u64, sequence: u64) -> u64 {
    area + LABEL_SIZE as u64 + sequence % RING_SLOTS * UBERBLOCK_SIZE as u64
}
