//! Dataset Management (NVM 3.2.3): its attributes and its list of ranges.
//!
//! Built by the initiator, read by the controller.

use bitflags::bitflags;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::{Nsid, Sqe};
use super::opcode::io;
use super::{FormatError, layout};

/// The most ranges of one command: NR is one byte, 0's based.
pub const DSM_RANGES_MAX: usize = 256;

bitflags! {
    /// CDW11 of Dataset Management.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct DsmAttributes: u32 {
        /// IDR: integral dataset for read.
        const INTEGRAL_READ = 1 << 0;
        /// IDW: integral dataset for write.
        const INTEGRAL_WRITE = 1 << 1;
        /// AD: deallocate.
        const DEALLOCATE = 1 << 2;
    }
}

/// A range (NVM figure 37).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct DsmRange {
    /// Context attributes: hints about the range's use.
    pub context_attributes: U32,
    /// Length in logical blocks; not 0's based, 0 for none.
    pub block_count: U32,
    /// Starting LBA.
    pub slba: U64,
}
layout!(DsmRange, 16, context_attributes @ 0, block_count @ 4, slba @ 8);

impl DsmRange {
    /// `block_count` blocks from `slba` on.
    #[must_use]
    pub fn new(slba: u64, block_count: u32) -> Self {
        Self {
            context_attributes: U32::ZERO,
            block_count: U32::new(block_count),
            slba: U64::new(slba),
        }
    }
}

/// A Dataset Management command over `ranges` ranges.
///
/// # Panics
/// If `ranges` is 0 or above [`DSM_RANGES_MAX`].
#[must_use]
pub fn command(nsid: Nsid, ranges: usize, attributes: DsmAttributes) -> Sqe {
    assert!((1..=DSM_RANGES_MAX).contains(&ranges), "{ranges} ranges");
    let mut sqe = Sqe::new(io::DATASET_MANAGEMENT, nsid);
    sqe.cdw10 = U32::new(ranges as u32 - 1);
    sqe.cdw11 = U32::new(attributes.bits());
    sqe
}

/// The number of ranges a command announces: 1 to 256.
#[must_use]
pub fn range_count(sqe: &Sqe) -> usize {
    (sqe.cdw10.get() & 0xff) as usize + 1
}

/// The attributes of a command.
#[must_use]
pub fn attributes(sqe: &Sqe) -> DsmAttributes {
    DsmAttributes::from_bits_truncate(sqe.cdw11.get())
}

/// The first `count` ranges in `bytes`.
///
/// # Errors
/// [`FormatError::Short`] if `bytes` holds fewer; [`FormatError::Field`] if `count` is not 1 to 256.
pub fn parse_ranges(bytes: &[u8], count: usize) -> Result<&[DsmRange], FormatError> {
    const WHAT: &str = "dataset management ranges";
    if !(1..=DSM_RANGES_MAX).contains(&count) {
        return Err(FormatError::Field {
            what: WHAT,
            offset: 0,
        });
    }
    <[DsmRange]>::ref_from_prefix_with_elems(bytes, count)
        .map(|(ranges, _)| ranges)
        .map_err(|_| FormatError::Short {
            what: WHAT,
            got: bytes.len(),
            need: count * 16,
        })
}
