//! Dataset Management ranges: as many as the command announces, or none.

use nvmf::wire::dsm::parse_ranges;

pub fn run(input: &[u8]) {
    let Some((&[low, high], bytes)) = input.split_first_chunk::<2>() else { return };
    let count = usize::from(u16::from_le_bytes([low, high]) % 300);
    match parse_ranges(bytes, count) {
        Ok(ranges) => assert_eq!(ranges.len(), count),
        Err(_) => assert!(count == 0 || count > 256 || bytes.len() < count * 16),
    }
}
