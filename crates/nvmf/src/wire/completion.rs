//! The completion queue entry (Base 3.3.3.2): 16 bytes in a CapsuleResp.
//!
//! Built by the target, read by the initiator. The phase tag is zero on fabrics transports.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::command::Cid;
use super::layout;
use super::status::Status;

/// A completion queue entry.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(C)]
pub struct Cqe {
    /// DW0: the command specific result, low half.
    pub dw0: U32,
    /// DW1: the command specific result, high half.
    pub dw1: U32,
    /// SQHD: the submission queue's head pointer.
    pub sqhd: U16,
    /// SQID: the submission queue; reserved on fabrics transports.
    pub sqid: U16,
    /// CID of the command that completes.
    pub cid: U16,
    /// Phase tag (bit 0, zero) and status field (bits 15:1).
    pub status_phase: U16,
}
layout!(Cqe, 16, dw0 @ 0, dw1 @ 4, sqhd @ 8, sqid @ 10, cid @ 12, status_phase @ 14);

impl Cqe {
    /// A completion of `cid` with a zero result.
    #[must_use]
    pub fn new(cid: Cid, status: Status) -> Self {
        Self::with_result(cid, status, 0)
    }

    /// A completion of `cid` with a 64-bit result in DW1:DW0.
    #[must_use]
    pub fn with_result(cid: Cid, status: Status, result: u64) -> Self {
        Self {
            dw0: U32::new(result as u32),
            dw1: U32::new((result >> 32) as u32),
            sqhd: U16::ZERO,
            sqid: U16::ZERO,
            cid: U16::new(cid.0),
            status_phase: U16::new(status.bits() << 1),
        }
    }

    /// The command that completes.
    #[must_use]
    pub fn cid(&self) -> Cid {
        Cid(self.cid.get())
    }

    /// The status field.
    #[must_use]
    pub fn status(&self) -> Status {
        Status::from_bits(self.status_phase.get() >> 1)
    }

    /// DW1:DW0 as one value.
    #[must_use]
    pub fn result(&self) -> u64 {
        u64::from(self.dw1.get()) << 32 | u64::from(self.dw0.get())
    }
}
