//! Space bitmaps: used sectors of a vdev, by regions; and summaries of these bitmaps.
//!
//! **Owns** their entries in the pool's own tree. **Called by** the allocator and offline readers.
//! **Invariants**: a region without used sectors has no entry; bits outside the vdev's space are zero; a summary follows from its
//! bitmap. `docs/format.md`, "Space".

use std::ops::Range;

use super::{Defect, Key, Kind, ObjectId, VdevId};

/// Kind of the keys of bitmaps. The object is the vdev, the offset the region.
pub const KIND_SPACE: Kind = Kind(1);
/// Number of sectors of a region.
pub const REGION_SECTORS: u32 = 8192;
/// Length of a region's bitmap, bytes. Bit `n % 8` of byte `n / 8` is set if sector `n` is used.
pub const REGION_BITMAP_SIZE: usize = REGION_SECTORS as usize / 8;

/// Kind of the keys of summaries. The object is the vdev, the offset the number of the page.
pub const KIND_SUMMARY: Kind = Kind(12);
/// Kind of the entry that says that a pool has summaries of all bitmaps.
pub const KIND_SUMMARIZED: Kind = Kind(13);
/// Number of regions of a page of summaries.
pub const PAGE_REGIONS: u32 = 128;
/// Length of a page of summaries, bytes.
pub const SUMMARY_PAGE_SIZE: usize = PAGE_REGIONS as usize * SUMMARY_SIZE;

const SUMMARY_SIZE: usize = 6;
const WORDS: usize = REGION_BITMAP_SIZE / 8;

/// The key of a region's bitmap.
#[must_use]
pub fn space_key(vdev: VdevId, region: u32) -> Key {
    Key::new(ObjectId(vdev.0.into()), KIND_SPACE, region.into())
}

/// The key of a page of summaries.
#[must_use]
pub fn summary_key(vdev: VdevId, page: u32) -> Key {
    Key::new(ObjectId(vdev.0.into()), KIND_SUMMARY, page.into())
}

/// The key of the entry that says that a pool has summaries of all bitmaps. Its value is one byte, 1.
#[must_use]
pub fn summarized_key() -> Key {
    Key::new(ObjectId(0), KIND_SUMMARIZED, 0)
}

/// Kind of the entry that says which rows the summaries of a raidz count that was expanded; the object is the vdev, the offset 0.
pub const KIND_SUMMARY_ROWS: Kind = Kind(14);
const SUMMARY_ROWS_SIZE: usize = 8;

/// The rows that the summaries of a raidz count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SummaryRows {
    /// Sectors of data of a row, in regions before `boundary`.
    pub below: u16,
    /// The same in the other regions.
    pub behind: u16,
    /// The first region of the others.
    pub boundary: u32,
}

impl SummaryRows {
    /// Sectors of data of a row that the summary of a region counts.
    #[must_use]
    pub fn of(&self, region: u32) -> u16 {
        match region < self.boundary {
            true => self.below,
            false => self.behind,
        }
    }

    /// Encodes the entry.
    #[must_use]
    pub fn encode(&self) -> [u8; SUMMARY_ROWS_SIZE] {
        let mut bytes = [0; SUMMARY_ROWS_SIZE];
        bytes[..2].copy_from_slice(&self.below.to_le_bytes());
        bytes[2..4].copy_from_slice(&self.behind.to_le_bytes());
        bytes[4..].copy_from_slice(&self.boundary.to_le_bytes());
        bytes
    }

    /// Decodes the entry.
    ///
    /// # Errors
    /// A wrong length, or rows of no sector.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        let &[a, b, c, d, ref boundary @ ..] = bytes else {
            return Err(Defect::Length {
                what: "entry with the rows of summaries",
                got: bytes.len(),
                want: SUMMARY_ROWS_SIZE,
            });
        };
        let boundary = boundary.try_into().map_err(|_| Defect::Length {
            what: "entry with the rows of summaries",
            got: bytes.len(),
            want: SUMMARY_ROWS_SIZE,
        })?;
        let rows = Self {
            below: u16::from_le_bytes([a, b]),
            behind: u16::from_le_bytes([c, d]),
            boundary: u32::from_le_bytes(boundary),
        };
        match rows.below == 0 || rows.behind == 0 {
            true => Err(Defect::Field {
                field: "sectors of a row that summaries count",
                value: 0,
            }),
            false => Ok(rows),
        }
    }
}

/// The key of the entry with the rows that a vdev's summaries count.
#[must_use]
pub fn summary_rows_key(vdev: VdevId) -> Key {
    Key::new(ObjectId(vdev.0.into()), KIND_SUMMARY_ROWS, 0)
}

/// Where rows begin in a region. A mirror has rows of one sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowGrid {
    /// Sectors of a row.
    pub row: u32,
    /// Sectors from the last row's begin before the region to the region.
    shift: u32,
}

impl RowGrid {
    /// Rows of `row` sectors in a region of a vdev. A row begins with sector `first` of the vdev.
    #[must_use]
    pub fn new(row: u32, first: u64, region: u32) -> Self {
        let (row, start) = (
            u64::from(row.max(1)),
            u64::from(region) * u64::from(REGION_SECTORS),
        );
        let behind = row - first % row;
        Self {
            row: row as u32,
            shift: ((start + behind) % row) as u32,
        }
    }

    /// The first sector from `sector` on where a row begins.
    #[must_use]
    pub fn from(self, sector: u32) -> u32 {
        (sector + self.shift).next_multiple_of(self.row) - self.shift
    }

    /// The first sector of the row that has `sector`. `None` if the row begins before the region.
    #[must_use]
    pub fn before(self, sector: u32) -> Option<u32> {
        ((sector + self.shift) / self.row * self.row).checked_sub(self.shift)
    }

    /// The first sectors of the rows that lie in `inside`.
    pub fn rows(self, inside: Range<u32>) -> impl Iterator<Item = u32> {
        let starts = self.from(inside.start)..inside.end;
        let rows = starts.step_by(self.row as usize);
        rows.filter(move |start| start + self.row <= inside.end)
    }

    /// The sectors of `inside` whose rows lie there and have no used sector.
    #[must_use]
    pub fn free(self, inside: Range<u32>, used: &RegionBits) -> RegionBits {
        let mut bits = RegionBits::default();
        if self.row > 1 {
            let free = self.rows(inside).filter(|row| !used.any(*row, self.row));
            free.for_each(|row| bits.set(row, self.row));
            return bits;
        }
        if !inside.is_empty() {
            bits.set(inside.start, inside.len() as u32);
        }
        bits.remove(used);
        bits
    }
}

/// What a pool knows of a region without its bitmap. It follows from the bitmap and the rows alone: sectors outside of the
/// vdev's space count as free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegionSummary {
    /// Used sectors.
    pub used: u16,
    /// Sectors of rows without a used sector.
    pub free: u16,
    /// The longest run of such sectors.
    pub longest: u16,
}

impl RegionSummary {
    /// The summary of a bitmap; zero for one without a set bit.
    #[must_use]
    pub fn of(used: &RegionBits, grid: RowGrid) -> Self {
        let count = used.count();
        if count == 0 {
            return Self::default();
        }
        let free = grid.free(0..REGION_SECTORS, used);
        Self {
            used: count as u16,
            free: free.count() as u16,
            longest: free.longest() as u16,
        }
    }

    fn decode(bytes: &[u8; SUMMARY_SIZE]) -> Result<Self, Defect> {
        let field = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let summary = Self {
            used: field(0),
            free: field(2),
            longest: field(4),
        };
        let Self {
            used,
            free,
            longest,
        } = summary;
        let sectors = REGION_SECTORS as u16;
        let is_sound = match used {
            0 => summary == Self::default(),
            1.. => used <= sectors && free <= sectors - used && longest <= free,
        };
        match is_sound && (free == 0) == (longest == 0) {
            true => Ok(summary),
            false => Err(Defect::Field {
                field: "summary of a region",
                value: u64::from(used) | u64::from(free) << 16 | u64::from(longest) << 32,
            }),
        }
    }
}

/// The summaries of [`PAGE_REGIONS`] regions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SummaryPage(pub [RegionSummary; PAGE_REGIONS as usize]);

impl Default for SummaryPage {
    fn default() -> Self {
        Self([RegionSummary::default(); PAGE_REGIONS as usize])
    }
}

impl SummaryPage {
    /// Encodes the value in the pool's own tree; `None` if no region has a used sector.
    #[must_use]
    pub fn encode(&self) -> Option<[u8; SUMMARY_PAGE_SIZE]> {
        let mut bytes = [0; SUMMARY_PAGE_SIZE];
        for (place, summary) in bytes.chunks_exact_mut(SUMMARY_SIZE).zip(&self.0) {
            let fields = [summary.used, summary.free, summary.longest];
            for (field, value) in place.chunks_exact_mut(2).zip(fields) {
                field.copy_from_slice(&value.to_le_bytes());
            }
        }
        bytes.iter().any(|byte| *byte != 0).then_some(bytes)
    }

    /// Decodes a page.
    ///
    /// # Errors
    /// A wrong length, an impossible summary, or no region with used sectors.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        if bytes.len() != SUMMARY_PAGE_SIZE {
            return Err(Defect::Length {
                what: "page of summaries",
                got: bytes.len(),
                want: SUMMARY_PAGE_SIZE,
            });
        }
        let mut page = Self::default();
        for (summary, place) in page.0.iter_mut().zip(bytes.as_chunks::<SUMMARY_SIZE>().0) {
            *summary = RegionSummary::decode(place)?;
        }
        match page == Self::default() {
            true => Err(Defect::Field {
                field: "sectors used of regions that have summaries",
                value: 0,
            }),
            false => Ok(page),
        }
    }
}

/// A bit for each sector of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionBits(pub(crate) [u64; WORDS]);

impl Default for RegionBits {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl RegionBits {
    /// Encodes the value in the pool's own tree.
    #[must_use]
    pub fn encode(&self) -> [u8; REGION_BITMAP_SIZE] {
        let mut bytes = [0; REGION_BITMAP_SIZE];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(self.0) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Decodes a bitmap.
    ///
    /// # Errors
    /// A wrong length, or no set bit.
    pub fn decode(bytes: &[u8]) -> Result<Self, Defect> {
        if bytes.len() != REGION_BITMAP_SIZE {
            return Err(Defect::Length {
                what: "region's bitmap",
                got: bytes.len(),
                want: REGION_BITMAP_SIZE,
            });
        }
        let mut bits = Self::default();
        for (word, chunk) in bits.0.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        if bits.is_empty() {
            return Err(Defect::Field {
                field: "sectors used of a region that has an entry",
                value: 0,
            });
        }
        Ok(bits)
    }

    /// Whether no bit is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// Number of set bits.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// Whether any of `count` bits from `start` on is set.
    #[must_use]
    pub fn any(&self, start: u32, count: u32) -> bool {
        spans(start, count).any(|(word, mask)| self.0[word] & mask != 0)
    }

    /// Whether all of `count` bits from `start` on are set.
    #[must_use]
    pub fn all(&self, start: u32, count: u32) -> bool {
        spans(start, count).all(|(word, mask)| self.0[word] & mask == mask)
    }

    /// Number of set bits among `count` bits from `start` on.
    pub(crate) fn count_in(&self, start: u32, count: u32) -> u32 {
        let spans = spans(start, count);
        spans
            .map(|(word, mask)| (self.0[word] & mask).count_ones())
            .sum()
    }

    pub(crate) fn set(&mut self, start: u32, count: u32) {
        spans(start, count).for_each(|(word, mask)| self.0[word] |= mask);
    }

    pub(crate) fn clear(&mut self, start: u32, count: u32) {
        spans(start, count).for_each(|(word, mask)| self.0[word] &= !mask);
    }

    /// Sets the bits that are set in `other`.
    pub(crate) fn add(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word |= other);
    }

    /// Clears the bits that are not set in `other`.
    pub(crate) fn keep(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word &= other);
    }

    /// Clears the bits that are set in `other`.
    pub(crate) fn remove(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word &= !other);
    }

    /// The length of the longest run of set bits.
    #[must_use]
    pub fn longest(&self) -> u32 {
        let (mut longest, mut at) = (0, 0);
        loop {
            let start = self.next(at, REGION_SECTORS, true);
            if start >= REGION_SECTORS {
                return longest;
            }
            at = self.next(start, REGION_SECTORS, false);
            longest = longest.max(at - start);
        }
    }

    /// The first sector from `start` on, below `end`, whose bit equals `set`; `end` if there is none.
    pub(crate) fn next(&self, start: u32, end: u32, set: bool) -> u32 {
        let mut at = start;
        while at < end {
            let word = self.0[at as usize / 64];
            let word = if set { word } else { !word } >> (at % 64);
            if word != 0 {
                return (at + word.trailing_zeros()).min(end);
            }
            at = (at / 64 + 1) * 64;
        }
        end
    }
}

/// The words with these bits, each with the mask of the bits.
fn spans(start: u32, count: u32) -> impl Iterator<Item = (usize, u64)> {
    let end = start + count;
    let mut at = start;
    std::iter::from_fn(move || {
        (at < end).then(|| {
            let bit = at % 64;
            let n = (64 - bit).min(end - at);
            let mask = (u64::MAX >> (64 - n)) << bit;
            let word = at as usize / 64;
            at += n;
            (word, mask)
        })
    })
}
