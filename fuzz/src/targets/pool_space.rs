//! Bitmaps of space: a decoded bitmap encodes to the same bytes, and its queries agree with its bits. The input's
//! first four bytes choose a range. A decoded page of summaries encodes to the same bytes, and so do the
//! rows that they count.

use pool::format::{REGION_BITMAP_SIZE, REGION_SECTORS, RegionBits, SummaryPage, SummaryRows};

pub fn run(input: &[u8]) {
    let Some((&[a, b, c, d], rest)) = input.split_first_chunk() else { return };
    if let Ok(page) = SummaryPage::decode(rest) {
        assert_eq!(page.encode().as_ref().map(|bytes| &bytes[..]), Some(rest));
    }
    if let Ok(rows) = SummaryRows::decode(rest) {
        assert_eq!(&rows.encode()[..], rest);
    }
    let mut bytes = [0; REGION_BITMAP_SIZE];
    bytes.iter_mut().zip(rest).for_each(|(byte, change)| *byte = *change);
    assert!(rest.len() == REGION_BITMAP_SIZE || RegionBits::decode(rest).is_err());
    let Ok(bits) = RegionBits::decode(&bytes) else {
        assert!(bytes.iter().all(|byte| *byte == 0));
        return;
    };
    assert!(bits.encode() == bytes && !bits.is_empty());
    assert_eq!(bits.count(), bytes.iter().map(|byte| byte.count_ones()).sum());
    let start = u32::from(u16::from_le_bytes([a, b])) % REGION_SECTORS;
    let count = u32::from(u16::from_le_bytes([c, d])) % (REGION_SECTORS - start) + 1;
    let set = |sector: u32| bytes[sector as usize / 8] >> (sector % 8) & 1 == 1;
    assert_eq!(bits.any(start, count), (start..start + count).any(set));
    assert_eq!(bits.all(start, count), (start..start + count).all(set));
}
