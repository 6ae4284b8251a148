//! Command descriptor blocks (SPC-4 6, SBC-3 5) and parameter lists, encoded.
//!
//! **Called by** [`super::unit`]. **Invariants**: a CDB has 16 bytes, unused ones zero; numbers are big-endian.

/// An encoded CDB.
pub(super) type Cdb = [u8; 16];

/// Vital product data pages (SPC-4 7.8, SBC-3 6.6).
pub(super) mod page {
    pub(crate) const DEVICE_IDENTIFICATION: u8 = 0x83;
    pub(crate) const BLOCK_LIMITS: u8 = 0xb0;
    pub(crate) const BLOCK_DEVICE_CHARACTERISTICS: u8 = 0xb1;
    pub(crate) const LOGICAL_BLOCK_PROVISIONING: u8 = 0xb2;
}

const TEST_UNIT_READY: u8 = 0x00;
const INQUIRY: u8 = 0x12;
const MODE_SENSE_10: u8 = 0x5a;
const COMPARE_AND_WRITE: u8 = 0x89;
const READ_16: u8 = 0x88;
const WRITE_16: u8 = 0x8a;
const VERIFY_16: u8 = 0x8f;
const SYNCHRONIZE_CACHE_16: u8 = 0x91;
const WRITE_SAME_16: u8 = 0x93;
const SERVICE_ACTION_IN_16: u8 = 0x9e;
const UNMAP: u8 = 0x42;
const REPORT_LUNS: u8 = 0xa0;
/// READ CAPACITY(16), a service action.
const READ_CAPACITY_16: u8 = 0x10;
/// The caching mode page (SBC-3 6.5.5).
const CACHING: u8 = 0x08;
/// FUA of reads and writes.
const FUA: u8 = 0x08;

fn cdb(code: u8) -> Cdb {
    let mut b = [0; 16];
    b[0] = code;
    b
}

fn blocks(code: u8, flags: u8, lba: u64, blocks: u32) -> Cdb {
    let mut b = cdb(code);
    b[1] = flags;
    b[2..10].copy_from_slice(&lba.to_be_bytes());
    b[10..14].copy_from_slice(&blocks.to_be_bytes());
    b
}

pub(super) fn test_unit_ready() -> Cdb {
    cdb(TEST_UNIT_READY)
}

pub(super) fn read(lba: u64, count: u32) -> Cdb {
    blocks(READ_16, 0, lba, count)
}

pub(super) fn write(lba: u64, count: u32, fua: bool) -> Cdb {
    blocks(WRITE_16, if fua { FUA } else { 0 }, lba, count)
}

/// VERIFY(16) with data to compare (BYTCHK 01b).
pub(super) fn compare(lba: u64, count: u32) -> Cdb {
    blocks(VERIFY_16, 0x02, lba, count)
}

pub(super) fn compare_and_write(lba: u64, count: u8, fua: bool) -> Cdb {
    let mut b = cdb(COMPARE_AND_WRITE);
    b[1] = if fua { FUA } else { 0 };
    b[2..10].copy_from_slice(&lba.to_be_bytes());
    b[13] = count;
    b
}

/// SYNCHRONIZE CACHE(10) of the whole medium.
pub(super) fn synchronize_cache() -> Cdb {
    cdb(SYNCHRONIZE_CACHE_16)
}

/// WRITE SAME(16) of one block of data. With `unmap` the unit may unmap the blocks.
pub(super) fn write_same(lba: u64, count: u32, unmap: bool) -> Cdb {
    blocks(WRITE_SAME_16, if unmap { 0x08 } else { 0 }, lba, count)
}

pub(super) fn unmap(list_len: u16) -> Cdb {
    let mut b = cdb(UNMAP);
    b[7..9].copy_from_slice(&list_len.to_be_bytes());
    b
}

/// The parameter list of UNMAP (SBC-3 5.30.2).
pub(super) fn unmap_list(ranges: &[(u64, u32)]) -> Vec<u8> {
    let descriptors = ranges.len() as u16 * 16;
    let mut out = Vec::with_capacity(8 + usize::from(descriptors));
    out.extend((descriptors + 6).to_be_bytes());
    out.extend(descriptors.to_be_bytes());
    out.extend([0; 4]);
    for (lba, count) in ranges {
        out.extend(lba.to_be_bytes());
        out.extend(count.to_be_bytes());
        out.extend([0; 4]);
    }
    out
}

pub(super) fn read_capacity(allocation: u32) -> Cdb {
    let mut b = cdb(SERVICE_ACTION_IN_16);
    b[1] = READ_CAPACITY_16;
    b[10..14].copy_from_slice(&allocation.to_be_bytes());
    b
}

/// INQUIRY for standard data, or for a vital product data page.
pub(super) fn inquiry(page: Option<u8>, allocation: u16) -> Cdb {
    let mut b = cdb(INQUIRY);
    b[1] = u8::from(page.is_some());
    b[2] = page.unwrap_or(0);
    b[3..5].copy_from_slice(&allocation.to_be_bytes());
    b
}

pub(super) fn report_luns(allocation: u32) -> Cdb {
    let mut b = cdb(REPORT_LUNS);
    b[6..10].copy_from_slice(&allocation.to_be_bytes());
    b
}

/// MODE SENSE(10) for the caching page, without block descriptors.
pub(super) fn mode_sense_caching(allocation: u16) -> Cdb {
    let mut b = cdb(MODE_SENSE_10);
    b[1] = 0x08;
    b[2] = CACHING;
    b[7..9].copy_from_slice(&allocation.to_be_bytes());
    b
}
