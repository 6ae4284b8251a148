//! Compression and decompression of records.
//!
//! **Owns** the decision to compress, and the formats of compressed records. **Called by** dirty records (to compress),
//! readers and the offline reader (to decompress). **Invariants**: a compressed record takes fewer whole sectors, at least an
//! eighth less; stored bytes decompress to exactly the length in their pointer or are refused, and they determine no
//! allocation. No I/O.
//! `docs/format.md`, "Compression"; `docs/decisions/0107`.

use std::cell::RefCell;

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use zstd::bulk::{Compressor, Decompressor};

use crate::format::{BlockPtr, Compression, Defect, Packing};

/// Divisor of the least saving with which a record is stored compressed: one eighth. Less is not worth the decompression.
const SAVED_PART: usize = 8;
/// Number of samples taken of a record before it is compressed.
const SAMPLES: usize = 8;
/// Length of a sample, bytes.
const SAMPLE: usize = 256;
/// Threshold for the sum of the squared frequencies of byte values in the samples. Random bytes have 18,424, plus or minus
/// 130, and so have encrypted or compressed ones; base64 has 68,000, text over 100,000.
const RANDOM_MAX: u32 = 20_000;

/// Compression of the records of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packer {
    pub(crate) packing: Packing,
    /// Sector size, bytes.
    pub(crate) sector: u32,
}

/// A compressed record.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) compression: Compression,
    pub(crate) bytes: Box<[u8]>,
}

/// Working memory of the compressors, one per thread.
struct Scratch {
    out: Vec<u8>,
    small: CompressTable,
    large: CompressTable,
    /// The Zstandard compressor, and its level.
    zstd: Option<(u8, Compressor<'static>)>,
    unzstd: Option<Decompressor<'static>>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch {
        out: Vec::new(),
        small: CompressTable::small(),
        large: CompressTable::large(),
        zstd: None,
        unzstd: None,
    });
}

/// Whether bytes look random, so that compression is not worth trying.
fn is_random(bytes: &[u8]) -> bool {
    let mut counts = [0u32; 256];
    let step = bytes.len() / SAMPLES;
    for sample in bytes.chunks_exact(step.max(SAMPLE)) {
        for byte in &sample[..SAMPLE] {
            counts[usize::from(*byte)] += 1;
        }
    }
    counts.iter().map(|n| n * n).sum::<u32>() < RANDOM_MAX
}

impl Packer {
    /// Most bytes that a record of `size` bytes may have when compressed; `None` if no saving is possible.
    fn most(self, size: usize) -> Option<usize> {
        let sector = self.sector as usize;
        let saved = (size / SAVED_PART).next_multiple_of(sector);
        let most = size.checked_sub(saved.max(sector))?;
        (self.packing != Packing::Off && most > 0).then_some(most)
    }

    /// Whether records of `size` bytes can become smaller at all.
    pub(crate) fn packs(self, size: usize) -> bool {
        self.most(size).is_some()
    }

    /// Compresses a record; `None` if it does not become small enough.
    pub(crate) fn pack(self, record: &[u8]) -> Option<Packed> {
        let most = self.most(record.len())?;
        if is_random(record) {
            return None;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let (compression, len) = match self.packing {
                Packing::Off => return None,
                Packing::Lz4 => (Compression::Lz4, scratch.lz4(record)?),
                Packing::Zstd(level) => (Compression::Zstd, scratch.zstd(level, record, most)?),
            };
            let bytes = scratch.out.get(..len).filter(|_| len <= most)?;
            Some(Packed {
                compression,
                bytes: bytes.into(),
            })
        })
    }
}

impl Scratch {
    fn room(&mut self, len: usize) {
        if self.out.len() < len {
            self.out.resize(len, 0);
        }
    }

    fn lz4(&mut self, record: &[u8]) -> Option<usize> {
        self.room(get_maximum_output_size(record.len()));
        let table = match record.len() < usize::from(u16::MAX) {
            true => &mut self.small,
            false => &mut self.large,
        };
        compress_into_with_table(record, &mut self.out, table).ok()
    }

    /// Returns `None` if the result exceeds `most`, or if there is no memory: then the record is stored uncompressed.
    fn zstd(&mut self, level: u8, record: &[u8], most: usize) -> Option<usize> {
        if self.zstd.as_ref().is_none_or(|(of, _)| *of != level) {
            self.zstd = Some((level, Compressor::new(level.into()).ok()?));
        }
        self.room(most);
        let (_, compressor) = self.zstd.as_mut()?;
        let out = &mut self.out[..most];
        compressor.compress_to_buffer(record, out).ok()
    }

    fn unzstd(&mut self, stored: &[u8], out: &mut [u8]) -> Option<usize> {
        if self.unzstd.is_none() {
            self.unzstd = Some(Decompressor::new().ok()?);
        }
        let decompressor = self.unzstd.as_mut()?;
        decompressor.decompress_to_buffer(stored, out).ok()
    }
}

/// Decompresses the stored bytes of a block, whose checksum must have been verified, to exactly `out.len()` bytes.
///
/// # Errors
/// [`Defect::Packed`] if this is not possible. `out` is undefined then.
pub fn unpack(
    compression: Compression,
    stored: &[u8],
    out: &mut [u8],
) -> std::result::Result<(), Defect> {
    let want = out.len();
    let got = match compression {
        Compression::Off => {
            if stored.len() == want {
                out.copy_from_slice(stored);
            }
            Some(stored.len())
        }
        Compression::Lz4 => decompress_into(stored, out).ok(),
        Compression::Zstd => SCRATCH.with_borrow_mut(|scratch| scratch.unzstd(stored, out)),
    };
    match got == Some(want) {
        true => Ok(()),
        false => Err(Defect::Packed),
    }
}

/// Checks that stored bytes match their pointer and decompress to its length.
///
/// # Errors
/// As [`BlockPtr::verify`] and [`unpack`].
pub(crate) fn check(ptr: &BlockPtr, stored: &[u8]) -> std::result::Result<(), Defect> {
    ptr.verify(stored)?;
    if ptr.compression == Compression::Off {
        return Ok(());
    }
    let mut out = vec![0; ptr.logical_size as usize];
    unpack(ptr.compression, stored, &mut out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Packing; 4] = [
        Packing::Lz4,
        Packing::Zstd(1),
        Packing::Zstd(3),
        Packing::Zstd(19),
    ];

    fn packer(packing: Packing, sector: u32) -> Packer {
        Packer { packing, sector }
    }

    fn noise(len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        io::rng::Prng::new(9).fill(&mut bytes);
        bytes
    }

    fn text(len: usize) -> Vec<u8> {
        let line = |n: usize| format!("{n:08} the volume wrote a record of {} bytes\n", n * 7919);
        let bytes = (0..).flat_map(|n| line(n).into_bytes());
        bytes.take(len).collect()
    }

    #[test]
    fn compressed_text_is_smaller_and_decompresses() {
        for packing in ALL {
            for size in [8 << 10, 16 << 10, 128 << 10, 1 << 20] {
                let record = text(size);
                let packed = packer(packing, 4096).pack(&record).expect("smaller");
                assert!(packed.bytes.len() <= size / 2);
                let mut out = vec![0; size];
                unpack(packed.compression, &packed.bytes, &mut out).expect("what was packed");
                assert!(out == record, "{packing} {size}");
                // Any other length is refused.
                assert!(unpack(packed.compression, &packed.bytes, &mut vec![0; size - 1]).is_err());
                assert!(unpack(packed.compression, &packed.bytes, &mut vec![0; size + 1]).is_err());
            }
        }
    }

    #[test]
    fn records_that_save_too_little_stay_uncompressed() {
        for packing in ALL {
            // No sector can be saved.
            assert!(!packer(packing, 4096).packs(4096));
            assert!(packer(packing, 512).packs(4096));
            assert!(packer(packing, 4096).pack(&noise(64 << 10)).is_none());
            // One part in sixteen is text: this saves a sector of 4 KiB, but less than an eighth.
            let mostly = [noise(60 << 10), text(4 << 10)].concat();
            assert!(packer(packing, 512).pack(&mostly).is_none());
        }
        assert!(packer(Packing::Off, 512).pack(&text(1 << 20)).is_none());
    }

    #[test]
    fn random_bytes_are_not_compressed() {
        assert!(is_random(&noise(4096)) && is_random(&noise(1 << 20)));
        let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let base64: Vec<u8> = noise(16 << 10)
            .iter()
            .map(|b| digits[usize::from(b % 64)])
            .collect();
        assert!(!is_random(&base64) && !is_random(&text(16 << 10)));
        let mut half = noise(16 << 10);
        half[8 << 10..].fill(0);
        assert!(!is_random(&half));
    }

    proptest! {
        #[test]
        fn bytes_from_a_disk_are_refused_or_have_their_length(
            bytes in prop::collection::vec(any::<u8>(), 1..600), size in 1usize..8192,
        ) {
            for compression in [Compression::Off, Compression::Lz4, Compression::Zstd] {
                let _ = unpack(compression, &bytes, &mut vec![0; size]);
            }
        }

        #[test]
        fn damaged_bytes_are_refused_or_have_their_length(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            for packing in ALL {
                let packed = packer(packing, 512).pack(&text(8 << 10)).expect("smaller");
                let mut bytes = packed.bytes.to_vec();
                let at = at.index(bytes.len());
                bytes[at] ^= 1 << bit;
                let _ = unpack(packed.compression, &bytes, &mut vec![0; 8 << 10]);
                let _ = unpack(packed.compression, &bytes[..at], &mut vec![0; 8 << 10]);
            }
        }
    }
}
