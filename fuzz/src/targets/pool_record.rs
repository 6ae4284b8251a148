//! A compressed record, as a disk may hold it: it is refused, or decompresses to exactly the requested size.
//!
//! The first byte chooses the compression, the next two the size of the record.

use pool::format::Compression;
use pool::unpack;

pub fn run(input: &[u8]) {
    let [kind, low, high, stored @ ..] = input else {
        return;
    };
    let compression = match kind % 3 {
        0 => Compression::Off,
        1 => Compression::Lz4,
        _ => Compression::Zstd,
    };
    // up to 1 MiB, as records are
    let size = 16 * usize::from(u16::from_le_bytes([*low, *high]));
    let mut record = vec![0; size];
    let first = unpack(compression, stored, &mut record);
    if first.is_ok() {
        let mut again = vec![1; size];
        assert_eq!(unpack(compression, stored, &mut again), Ok(()));
        assert!(record == again, "bytes of `out` are not all written");
    }
}
