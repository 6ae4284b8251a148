//! Records smaller than they are.
//!
//! **Owns** what a record's bytes are stored as, and the way back. **Called by** dirty records (to pack), readers and the
//! offline reader (to unpack). **Invariants**: what is packed takes less whole sectors, an eighth less at least; bytes from
//! a disk come to exactly as many as their pointer says or are refused, and nothing is allocated by what they say. Pure.
//! `docs/format.md`, "Compression"; `docs/decisions/0107`.

use std::cell::RefCell;

use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use zstd::bulk::{Compressor, Decompressor};

use crate::format::{BlockPtr, Compression, Defect, Packing};

/// A record is stored compressed if that saves this part of it at least: less is not worth the way back.
const SAVED_PART: usize = 8;
/// A record's bytes are sampled at so many places before they are compressed.
const SAMPLES: usize = 8;
/// Bytes of a sample.
const SAMPLE: usize = 256;
/// The sum of squares of how often each byte is among the samples: 18,424 for bytes at random, give or take 130, and so for
/// what is encrypted or compressed already; 68,000 for base64, over 100,000 for text.
const RANDOM_MAX: u32 = 20_000;

/// How the records of a volume are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packer {
    pub(crate) packing: Packing,
    /// Bytes of a sector.
    pub(crate) sector: u32,
}

/// A record, compressed.
#[derive(Debug)]
pub(crate) struct Packed {
    pub(crate) compression: Compression,
    pub(crate) bytes: Box<[u8]>,
}

/// What compressors need beside a record. One for each thread.
struct Scratch {
    out: Vec<u8>,
    small: CompressTable,
    large: CompressTable,
    /// And the level that it is made for.
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

/// Whether bytes are as good as random: then there is no point in trying.
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
    /// The most bytes that a record of `size` may have and be stored compressed; none if there is no point.
    fn most(self, size: usize) -> Option<usize> {
        let sector = self.sector as usize;
        let saved = (size / SAVED_PART).next_multiple_of(sector);
        let most = size.checked_sub(saved.max(sector))?;
        (self.packing != Packing::Off && most > 0).then_some(most)
    }

    /// Whether records of `size` bytes can come to be smaller at all.
    pub(crate) fn packs(self, size: usize) -> bool {
        self.most(size).is_some()
    }

    /// A record, compressed, if that makes it small enough.
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

    /// None if it comes to more than `most`, or if there is no memory for it: then it is stored as it is.
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

/// Turns a block's bytes as stored, whose checksum has been verified, into its contents: as many bytes as `out` has.
///
/// # Errors
/// [`Defect::Packed`] if they are no such thing: then `out` may hold anything.
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

/// Whether a block's bytes as stored are what its pointer says, and come to what it says.
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
    fn text_becomes_smaller_and_comes_back() {
        for packing in ALL {
            for size in [8 << 10, 16 << 10, 128 << 10, 1 << 20] {
                let record = text(size);
                let packed = packer(packing, 4096).pack(&record).expect("smaller");
                assert!(packed.bytes.len() <= size / 2);
                let mut out = vec![0; size];
                unpack(packed.compression, &packed.bytes, &mut out).expect("what was packed");
                assert!(out == record, "{packing} {size}");
                // one byte more or less is something else
                assert!(unpack(packed.compression, &packed.bytes, &mut vec![0; size - 1]).is_err());
                assert!(unpack(packed.compression, &packed.bytes, &mut vec![0; size + 1]).is_err());
            }
        }
    }

    #[test]
    fn what_saves_too_little_is_stored_as_it_is() {
        for packing in ALL {
            // no sector to save
            assert!(!packer(packing, 4096).packs(4096));
            assert!(packer(packing, 512).packs(4096));
            assert!(packer(packing, 4096).pack(&noise(64 << 10)).is_none());
            // one part in sixteen is text: it would save a sector of 4 KiB, but not an eighth
            let mostly = [noise(60 << 10), text(4 << 10)].concat();
            assert!(packer(packing, 512).pack(&mostly).is_none());
        }
        assert!(packer(Packing::Off, 512).pack(&text(1 << 20)).is_none());
    }

    #[test]
    fn noise_is_told_from_what_is_worth_a_try() {
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
        fn bytes_from_a_disk_are_refused_or_come_to_their_size(
            bytes in prop::collection::vec(any::<u8>(), 1..600), size in 1usize..8192,
        ) {
            for compression in [Compression::Off, Compression::Lz4, Compression::Zstd] {
                let _ = unpack(compression, &bytes, &mut vec![0; size]);
            }
        }

        #[test]
        fn damage_is_refused_or_comes_to_the_size(at in any::<prop::sample::Index>(), bit in 0u8..8) {
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
