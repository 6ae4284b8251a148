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

use crate::format::{Block, ChecksumKind, Compression, Defect, Hashes, Packing};

/// Divisor of the least saving with which a record is stored compressed: one eighth. Less is not worth the decompression.
const SAVED_PART: usize = 8;
/// Number of samples taken of a record before it is compressed.
const SAMPLES: usize = 8;
/// Length of a sample, bytes.
const SAMPLE: usize = 256;
/// Threshold for the sum of the squared frequencies of byte values in samples, in percent of that of random bytes. Encrypted and
/// compressed bytes have 99 to 101; base64 has 370, text over 500.
const RANDOM_PERCENT_MAX: u64 = 108;
/// Records from this size on, bytes, are compressed only if one of their [`PROBES`] parts becomes smaller.
const PROBED_MIN: usize = 32 << 10;
/// Parts of a record that are compressed first.
const PROBES: usize = 4;
/// Length of such a part, bytes.
const PROBE: usize = 2048;
/// Divisor of the least saving of a part that makes the record worth compressing.
const PROBE_SAVED_PART: usize = 16;

/// Compression and checksums of the records of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packer {
    pub(crate) packing: Packing,
    /// Kind of the records' checksums: a folded one.
    pub(crate) checksum: ChecksumKind,
    /// Whether long records that are not compressed get checksums of their parts.
    pub(crate) has_parts: bool,
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

/// Whether bytes look random, so that compression is not worth trying. Values that are too frequent (zeroes between noise) do not
/// count, as long as leaving them out completely would save too little.
fn is_random(bytes: &[u8]) -> bool {
    let mut counts = [0u32; 256];
    let step = bytes.len() / SAMPLES;
    for sample in bytes.chunks_exact(step.max(SAMPLE)) {
        for byte in &sample[..SAMPLE] {
            counts[usize::from(*byte)] += 1;
        }
    }
    counts.sort_unstable();
    let all: u64 = counts.iter().map(|n| u64::from(*n)).sum();
    let mut squares: u64 = counts.iter().map(|n| u64::from(n * n)).sum();
    let mut left = all;
    for most in counts.iter().rev().map(|n| u64::from(*n)) {
        let of_random = left * left / 256 + left;
        if squares * 100 < of_random * RANDOM_PERCENT_MAX {
            return true;
        }
        left -= most;
        squares -= most * most;
        if (all - left) * SAVED_PART as u64 > all {
            return false;
        }
    }
    false
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

    /// The hashes of a record in its stored form.
    pub(crate) fn hashes(self, (compression, stored): (Compression, &[u8])) -> Hashes {
        let has_parts = self.has_parts && compression == Compression::Off;
        Hashes::of(self.checksum, stored, has_parts)
    }

    /// Whether records of both have the same checksums.
    pub(crate) fn hashes_as(self, other: Self) -> bool {
        (self.checksum, self.has_parts) == (other.checksum, other.has_parts)
    }

    /// Compresses a record; `None` if it does not become small enough.
    pub(crate) fn pack(self, record: &[u8]) -> Option<Packed> {
        let most = self.most(record.len())?;
        if is_random(record) {
            return None;
        }
        SCRATCH.with_borrow_mut(|scratch| {
            if record.len() >= PROBED_MIN && !scratch.is_worth(self.packing, record) {
                return None;
            }
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

/// Bytes that a record takes as stored, in a pool with sectors of `sector` bytes.
#[must_use]
pub fn stored_size(packing: Packing, sector: u32, record: &[u8]) -> usize {
    let packer = Packer {
        packing,
        checksum: ChecksumKind::FoldedXxh3,
        has_parts: false,
        sector,
    };
    let packed = packer.pack(record);
    packed.map_or(record.len(), |packed| packed.bytes.len())
}

impl Scratch {
    /// Whether a part of a long record becomes smaller.
    fn is_worth(&mut self, packing: Packing, record: &[u8]) -> bool {
        let step = record.len() / PROBES;
        let most = PROBE - PROBE / PROBE_SAVED_PART;
        record.chunks_exact(step).any(|chunk| {
            let start = (step - PROBE) / 2;
            let part = &chunk[start..start + PROBE];
            let len = match packing {
                Packing::Off => return false,
                Packing::Lz4 => self.lz4(part),
                Packing::Zstd(level) => self.zstd(level, part, most),
            };
            len.is_some_and(|len| len <= most)
        })
    }

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
/// As [`BlockPtr::verify`](crate::format::BlockPtr::verify), [`Block::verify_parts`] and [`unpack`].
pub(crate) fn check(block: &Block, stored: &[u8]) -> std::result::Result<(), Defect> {
    let ptr = block.ptr();
    ptr.verify(stored)?;
    if block.has_parts() {
        block.verify_parts(0, stored)?;
    }
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
        Packer {
            packing,
            checksum: ChecksumKind::FoldedXxh3,
            has_parts: true,
            sector,
        }
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

    /// A few zeroes between random bytes were taken for a pattern: 41 % of the processor went into compression that saved nothing.
    #[test]
    fn nearly_random_bytes_are_not_compressed() {
        let mut rng = io::rng::Prng::new(4);
        for zeroes in [0, 10, 40, 80] {
            let mut record = noise(128 << 10);
            for byte in &mut record {
                if rng.below(1000) < zeroes {
                    *byte = 0;
                }
            }
            assert!(is_random(&record), "{zeroes} of 1000 bytes are zero");
        }
        let mut sparse = noise(128 << 10);
        sparse[..64 << 10].fill(0);
        assert!(!is_random(&sparse), "half of it is zero");
        assert!(!is_random(&text(128 << 10)));
    }

    /// A record whose bytes are not equally frequent, but do not repeat, is given up after a few of its parts.
    #[test]
    fn a_long_record_is_given_up_early() {
        let mut rng = io::rng::Prng::new(4);
        let skewed: Vec<u8> = (0..128 << 10)
            .map(|_| (rng.below(256) as u8).min(rng.below(256) as u8))
            .collect();
        assert!(!is_random(&skewed));
        let is_worth = |record: &[u8]| {
            SCRATCH.with_borrow_mut(|scratch| scratch.is_worth(Packing::Lz4, record))
        };
        assert!(!is_worth(&skewed));
        let mut mixed = noise(128 << 10);
        mixed[32 << 10..64 << 10].copy_from_slice(&text(32 << 10));
        assert!(is_worth(&mixed), "a quarter of it is text");
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
