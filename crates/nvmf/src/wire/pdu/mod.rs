//! The PDUs of NVMe/TCP (TCP 3.6), and the digests and alignments that a connection negotiates.
//!
//! Owns the typed PDUs, their fixed lengths and the errors of invalid PDUs; [`mod@decode`]
//! reads them, [`encode`] writes them. Called by the controller's and the initiator's connections.
//!
//! Invariants: a decoded header's lengths are consistent with each other, with the
//! negotiated values and with the receiver's limits, so the caller may skip `data_offset` bytes, take
//! `data_len` bytes and a digest without another check. The payload itself never passes through
//! this module: the caller receives it into its buffer.

pub mod decode;
pub mod encode;

use thiserror::Error;

use super::command::{Cid, Sqe};
use super::completion::Cqe;

pub use decode::{Decoded, Frame, Phase, Receiver, RxRules, decode};
pub use encode::Encoder;

/// Bytes of the common header.
pub const COMMON_HEADER_LEN: usize = 8;
/// HLEN of ICReq and ICResp.
pub const IC_LEN: usize = 128;
/// HLEN of CapsuleCmd.
pub const CAPSULE_CMD_LEN: usize = 72;
/// HLEN of CapsuleResp.
pub const CAPSULE_RESP_LEN: usize = 24;
/// HLEN of H2CData, C2HData, R2T, H2CTermReq and C2HTermReq.
pub const DATA_HEADER_LEN: usize = 24;
/// The most bytes before a PDU's data: a CapsuleCmd's header and digest, padded to twice 72 bytes.
pub const HEADER_LEN_MAX: usize = 144;
/// The most bytes of an offending PDU's header that a termination request repeats (TCP 3.6.2.4).
pub const TERM_DATA_MAX: usize = 128;
/// The least MAXH2CDATA a controller may announce (TCP 3.6.2.3).
pub const MAXH2CDATA_MIN: u32 = 4096;
/// The largest HPDA and CPDA, in dwords, 0's based (TCP 3.6.2.2).
pub const PDA_MAX: u8 = 31;

/// PDU types (TCP figure 17).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PduType {
    /// Initialize Connection Request, host to controller.
    IcReq = 0x00,
    /// Initialize Connection Response, controller to host.
    IcResp = 0x01,
    /// Terminate Connection Request, host to controller.
    H2cTermReq = 0x02,
    /// Terminate Connection Request, controller to host.
    C2hTermReq = 0x03,
    /// Command capsule, host to controller.
    CapsuleCmd = 0x04,
    /// Response capsule, controller to host.
    CapsuleResp = 0x05,
    /// Data, host to controller.
    H2cData = 0x06,
    /// Data, controller to host.
    C2hData = 0x07,
    /// Ready to Transfer, controller to host.
    R2t = 0x09,
}

impl PduType {
    /// The type with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            0x00 => Self::IcReq,
            0x01 => Self::IcResp,
            0x02 => Self::H2cTermReq,
            0x03 => Self::C2hTermReq,
            0x04 => Self::CapsuleCmd,
            0x05 => Self::CapsuleResp,
            0x06 => Self::H2cData,
            0x07 => Self::C2hData,
            0x09 => Self::R2t,
            _ => return None,
        })
    }

    /// The PDU's fixed header length.
    #[must_use]
    pub fn header_len(self) -> usize {
        match self {
            Self::IcReq | Self::IcResp => IC_LEN,
            Self::CapsuleCmd => CAPSULE_CMD_LEN,
            Self::CapsuleResp => CAPSULE_RESP_LEN,
            Self::H2cTermReq | Self::C2hTermReq | Self::H2cData | Self::C2hData | Self::R2t => {
                DATA_HEADER_LEN
            }
        }
    }

    /// Whether a header digest follows the header once digests are negotiated.
    #[must_use]
    pub fn has_header_digest(self) -> bool {
        match self {
            Self::IcReq | Self::IcResp | Self::H2cTermReq | Self::C2hTermReq => false,
            Self::CapsuleCmd | Self::CapsuleResp | Self::H2cData | Self::C2hData | Self::R2t => {
                true
            }
        }
    }

    /// The side that receives PDUs of this type.
    #[must_use]
    pub fn receiver(self) -> Receiver {
        match self {
            Self::IcReq | Self::H2cTermReq | Self::CapsuleCmd | Self::H2cData => {
                Receiver::Controller
            }
            Self::IcResp | Self::C2hTermReq | Self::CapsuleResp | Self::C2hData | Self::R2t => {
                Receiver::Host
            }
        }
    }
}

bitflags::bitflags! {
    /// FLAGS of the common header.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct PduFlags: u8 {
        /// HDGSTF: a header digest follows the header.
        const HDGST = 1 << 0;
        /// DDGSTF: a data digest follows the data.
        const DDGST = 1 << 1;
        /// LAST_PDU (H2CData, C2HData): the last of the transfer.
        const LAST = 1 << 2;
        /// SUCCESS (C2HData): the command succeeded and no CapsuleResp follows.
        const SUCCESS = 1 << 3;
    }
}

/// PDU data alignment: HPDA or CPDA (TCP 3.6.2.2), a count of dwords, 0's based, at most 31.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pda(u8);

impl Pda {
    /// Dword alignment: no constraint beyond the format's own.
    pub const DWORD: Self = Self(0);

    /// The alignment with this code, if it is one.
    #[must_use]
    pub fn new(code: u8) -> Option<Self> {
        (code <= PDA_MAX).then_some(Self(code))
    }

    /// The code on the wire.
    #[must_use]
    pub fn code(self) -> u8 {
        self.0
    }

    /// The alignment in bytes: 4 to 128.
    #[must_use]
    pub fn bytes(self) -> usize {
        (usize::from(self.0) + 1) * 4
    }
}

/// Which digests a connection uses, or a host asks for (DGST).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Digests {
    /// Header digest.
    pub header: bool,
    /// Data digest.
    pub data: bool,
}

impl Digests {
    /// From the DGST byte; reserved bits are ignored.
    #[must_use]
    pub fn from_bits(bits: u8) -> Self {
        Self {
            header: bits & 1 != 0,
            data: bits & 2 != 0,
        }
    }

    /// As the DGST byte.
    #[must_use]
    pub fn bits(self) -> u8 {
        u8::from(self.header) | u8::from(self.data) << 1
    }

    /// The digests that both sides want.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            header: self.header && other.header,
            data: self.data && other.data,
        }
    }
}

/// Initialize Connection Request (TCP 3.6.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcReq {
    /// HPDA: the alignment the host wants for data in C2HData.
    pub hpda: Pda,
    /// DGST: the digests the host wants.
    pub digests: Digests,
    /// MAXR2T: the most R2Ts outstanding per command, 1 or more (0's based on the wire).
    pub max_r2t: u64,
}

/// Initialize Connection Response (TCP 3.6.2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcResp {
    /// CPDA: the alignment the controller wants for data in CapsuleCmd and H2CData.
    pub cpda: Pda,
    /// DGST: the digests in use.
    pub digests: Digests,
    /// MAXH2CDATA: the most bytes of data in one H2CData; at least 4096 and a multiple of 4.
    pub max_h2c_data: u32,
}

/// Header of H2CData and C2HData (TCP 3.6.2.8, 3.6.2.9). The length is [`Frame::data_len`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataPdu {
    /// CCCID: the command the data belongs to.
    pub cccid: Cid,
    /// TTAG: the transfer tag of the R2T that asked for it; zero in C2HData.
    pub ttag: u16,
    /// DATAO: offset of the data within the command's data, in bytes, dword aligned.
    pub offset: u32,
    /// LAST_PDU: the last of this R2T, or of this command's data.
    pub last: bool,
    /// SUCCESS (C2HData): the command succeeded and no CapsuleResp follows.
    pub success: bool,
}

/// Ready to Transfer (TCP 3.6.2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct R2t {
    /// CCCID: the command whose data is asked for.
    pub cccid: Cid,
    /// TTAG: H2CData must repeat it.
    pub ttag: u16,
    /// R2TO: offset of the wanted data within the command's data, in bytes, dword aligned.
    pub offset: u32,
    /// R2TL: bytes wanted, more than zero.
    pub length: u32,
}

/// Terminate Connection Request, either way (TCP 3.6.2.4, 3.6.2.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TermReq {
    /// FES: why, as sent; [`FatalErrorStatus::from_code`] reads it.
    pub fes: u16,
    /// FEI: the offending field's byte offset or the received digest, by FES.
    pub fei: u32,
}

/// A PDU's header, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pdu {
    /// Initialize Connection Request.
    IcReq(IcReq),
    /// Initialize Connection Response.
    IcResp(IcResp),
    /// Terminate Connection Request from the host; its data repeats the offending header.
    H2cTermReq(TermReq),
    /// Terminate Connection Request from the controller; its data repeats the offending header.
    C2hTermReq(TermReq),
    /// Command capsule; its data is the in-capsule data.
    CapsuleCmd(Sqe),
    /// Response capsule.
    CapsuleResp(Cqe),
    /// Data from the host.
    H2cData(DataPdu),
    /// Data from the controller.
    C2hData(DataPdu),
    /// Ready to Transfer.
    R2t(R2t),
}

/// Fatal error status of a termination request (TCP figures 26 and 28). Value 5 reads "R2T Limit
/// Exceeded" from a host and "Data Transfer Limit Exceeded" from a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum FatalErrorStatus {
    /// Invalid PDU Header Field; FEI is its byte offset.
    InvalidHeaderField = 1,
    /// PDU Sequence Error.
    SequenceError = 2,
    /// Header Digest Error; FEI is the digest received.
    HeaderDigest = 3,
    /// Data Transfer Out of Range.
    DataOutOfRange = 4,
    /// R2T Limit Exceeded, or Data Transfer Limit Exceeded.
    LimitExceeded = 5,
    /// Unsupported Parameter; FEI is its byte offset.
    UnsupportedParameter = 6,
}

impl FatalErrorStatus {
    /// The status with this code.
    #[must_use]
    pub fn from_code(code: u16) -> Option<Self> {
        Some(match code {
            1 => Self::InvalidHeaderField,
            2 => Self::SequenceError,
            3 => Self::HeaderDigest,
            4 => Self::DataOutOfRange,
            5 => Self::LimitExceeded,
            6 => Self::UnsupportedParameter,
            _ => return None,
        })
    }
}

/// The error of a PDU that ends the connection: fields of the termination request, and the reason in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{what} ({fes:?}, information {fei:#x})")]
pub struct PduError {
    /// FES.
    pub fes: FatalErrorStatus,
    /// FEI: byte offset or received digest, by `fes`; else zero.
    pub fei: u32,
    /// The defect, for the log.
    pub what: &'static str,
}

impl PduError {
    /// A header field at byte `offset` that its section does not allow.
    #[must_use]
    pub const fn field(offset: u32, what: &'static str) -> Self {
        Self {
            fes: FatalErrorStatus::InvalidHeaderField,
            fei: offset,
            what,
        }
    }

    /// A PDU that may not come now, or names a command or tag that is not outstanding.
    #[must_use]
    pub const fn sequence(what: &'static str) -> Self {
        Self {
            fes: FatalErrorStatus::SequenceError,
            fei: 0,
            what,
        }
    }

    /// Data outside of the range that was asked for.
    #[must_use]
    pub const fn out_of_range(what: &'static str) -> Self {
        Self {
            fes: FatalErrorStatus::DataOutOfRange,
            fei: 0,
            what,
        }
    }

    /// More data, or more R2Ts, than the receiver allows.
    #[must_use]
    pub const fn limit(what: &'static str) -> Self {
        Self {
            fes: FatalErrorStatus::LimitExceeded,
            fei: 0,
            what,
        }
    }
}
