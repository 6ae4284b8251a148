//! Copy (NVM 3.2.2) with source range entries of descriptor format 0.
//!
//! Built by the initiator, read by the controller.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::{Nsid, Sqe};
use super::opcode::io;
use super::{FormatError, layout};

/// The most source ranges of one command: NR is one byte, 0's based.
pub const COPY_RANGES_MAX: usize = 256;

/// A source range entry, descriptor format 0h (NVM figure 31).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct CopyRange {
    reserved0: [u8; 8],
    /// SLBA: starting LBA.
    pub slba: U64,
    /// NLB: logical blocks, 0's based.
    pub nlb: U16,
    reserved18: [u8; 6],
    /// EILBRT: expected initial logical block reference tag.
    pub reference_tag: U32,
    /// ELBAT: expected logical block application tag.
    pub application_tag: U16,
    /// ELBATM: its mask.
    pub application_tag_mask: U16,
}
layout!(CopyRange, 32, slba @ 8, nlb @ 16, reference_tag @ 24, application_tag @ 28, application_tag_mask @ 30);

impl CopyRange {
    /// `block_count` blocks, 1 to 65536, from `slba` on.
    ///
    /// # Panics
    /// If `block_count` is out of that range.
    #[must_use]
    pub fn new(slba: u64, block_count: u32) -> Self {
        assert!(
            (1..=0x1_0000).contains(&block_count),
            "{block_count} blocks"
        );
        Self {
            slba: U64::new(slba),
            nlb: U16::new((block_count - 1) as u16),
            ..Self::new_zeroed()
        }
    }

    /// Logical blocks: 1 to 65536.
    #[must_use]
    pub fn block_count(&self) -> u32 {
        u32::from(self.nlb.get()) + 1
    }
}

/// A Copy to `destination` of `ranges` source ranges.
///
/// # Panics
/// If `ranges` is 0 or above [`COPY_RANGES_MAX`].
#[must_use]
pub fn command(nsid: Nsid, destination: u64, ranges: usize) -> Sqe {
    assert!((1..=COPY_RANGES_MAX).contains(&ranges), "{ranges} ranges");
    let mut sqe = Sqe::new(io::COPY, nsid);
    sqe.set_slba(destination);
    sqe.cdw12 = U32::new(ranges as u32 - 1);
    sqe
}

/// The number of source ranges a command announces: 1 to 256.
#[must_use]
pub fn range_count(sqe: &Sqe) -> usize {
    (sqe.cdw12.get() & 0xff) as usize + 1
}

/// The descriptor format a command announces.
#[must_use]
pub fn descriptor_format(sqe: &Sqe) -> u8 {
    (sqe.cdw12.get() >> 8) as u8 & 0xf
}

/// The first `count` source ranges in `bytes`, format 0.
///
/// # Errors
/// [`FormatError::Short`] if `bytes` holds fewer; [`FormatError::Field`] if `count` is not 1 to 256.
pub fn parse_ranges(bytes: &[u8], count: usize) -> Result<&[CopyRange], FormatError> {
    const WHAT: &str = "copy source ranges";
    if !(1..=COPY_RANGES_MAX).contains(&count) {
        return Err(FormatError::Field {
            what: WHAT,
            offset: 0,
        });
    }
    <[CopyRange]>::ref_from_prefix_with_elems(bytes, count)
        .map(|(ranges, _)| ranges)
        .map_err(|_| FormatError::Short {
            what: WHAT,
            got: bytes.len(),
            need: count * 32,
        })
}
