//! Reads PDU headers from bytes as they arrive.
//!
//! Called with the bytes that have been received from the beginning of a PDU on, with or without the
//! payload. Keeps no state: the caller keeps the bytes and calls again with more.
//!
//! The order of checks is the common header, then the whole header's digest, then the fields it
//! covers, so that no field beyond the first eight bytes is used before its digest is checked.

use zerocopy::FromBytes;

use super::{
    COMMON_HEADER_LEN, DATA_HEADER_LEN, DataPdu, Digests, FatalErrorStatus, IcReq, IcResp,
    MAXH2CDATA_MIN, Pda, Pdu, PduError, PduFlags, PduType, R2t, TERM_DATA_MAX, TermReq,
};
use crate::wire::command::{Cid, Sqe};
use crate::wire::completion::Cqe;
use session::digest::{DIGEST_LEN, crc32c};

/// The side that receives: which PDU types may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Receiver {
    /// The controller.
    Controller,
    /// The host.
    Host,
}

/// Whether a connection is initialized (TCP 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Before the exchange of ICReq and ICResp: otherwise only a termination request may come.
    Connecting,
    /// After that exchange: no ICReq or ICResp may come again.
    Established,
}

/// The negotiated values and limits that PDUs which arrive are checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RxRules {
    /// The side that receives.
    pub receiver: Receiver,
    /// Whether the connection is initialized.
    pub phase: Phase,
    /// The digests in use.
    pub digests: Digests,
    /// The alignment that this side asked for data: CPDA at a controller, HPDA at a host.
    pub pda: Pda,
    /// The most bytes of in-capsule data in a CapsuleCmd.
    pub capsule_data_max: u32,
    /// The most bytes of data in an H2CData (the MAXH2CDATA announced) or C2HData.
    pub data_max: u32,
}

impl RxRules {
    /// The rules before the connection is initialized.
    #[must_use]
    pub fn connecting(receiver: Receiver) -> Self {
        Self {
            receiver,
            phase: Phase::Connecting,
            digests: Digests::default(),
            pda: Pda::DWORD,
            capsule_data_max: 0,
            data_max: 0,
        }
    }
}

/// The result of [`decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded {
    /// The header is not complete: at least this many more bytes are needed, never zero.
    NeedMore(usize),
    /// The header is complete and valid.
    Frame(Frame),
}

/// A complete header, and where the rest of its PDU lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// The parsed header.
    pub pdu: Pdu,
    /// Bytes from the PDU's beginning to its data: header, digest and padding, all of which
    /// [`decode`] was given. Without data, the PDU's length.
    pub data_offset: usize,
    /// Bytes of data.
    pub data_len: u32,
    /// Whether the data's digest, four bytes, follows the data.
    pub data_digest: bool,
}

impl Frame {
    /// The whole PDU's bytes: PLEN.
    #[must_use]
    pub fn pdu_len(&self) -> usize {
        self.data_offset + self.data_len as usize + self.trailer_len()
    }

    /// Bytes after the data: 4 with a data digest, else 0.
    #[must_use]
    pub fn trailer_len(&self) -> usize {
        if self.data_digest { DIGEST_LEN } else { 0 }
    }
}

/// Reads the PDU that begins at `bytes[0]`.
///
/// # Errors
/// [`PduError`] with the fatal error status that the specification names: the connection cannot
/// go on.
pub fn decode(bytes: &[u8], rules: &RxRules) -> Result<Decoded, PduError> {
    let Some(common) = bytes.first_chunk::<COMMON_HEADER_LEN>() else {
        return Ok(Decoded::NeedMore(COMMON_HEADER_LEN - bytes.len()));
    };
    let kind = check_type(common[0], rules)?;
    let flags = PduFlags::from_bits_truncate(common[1]);
    let extent = check_extent(common, kind, flags, rules)?;
    if bytes.len() < extent.data_offset {
        return Ok(Decoded::NeedMore(extent.data_offset - bytes.len()));
    }
    let hlen = kind.header_len();
    let header = &bytes[..hlen];
    if rules.digests.header && kind.has_header_digest() {
        let received = u32_at(bytes, hlen);
        if received != crc32c(header) {
            return Err(PduError {
                fes: FatalErrorStatus::HeaderDigest,
                fei: received,
                what: "header digest differs",
            });
        }
    }
    let pdu = parse(kind, flags, header, extent.data_len)?;
    Ok(Decoded::Frame(Frame {
        pdu,
        data_offset: extent.data_offset,
        data_len: extent.data_len,
        data_digest: extent.data_digest,
    }))
}

fn check_type(code: u8, rules: &RxRules) -> Result<PduType, PduError> {
    let kind = PduType::from_code(code).ok_or(PduError::field(0, "unknown PDU type"))?;
    if kind.receiver() != rules.receiver {
        return Err(PduError::field(0, "PDU type of the other direction"));
    }
    match (rules.phase, kind) {
        (_, PduType::H2cTermReq | PduType::C2hTermReq)
        | (Phase::Connecting, PduType::IcReq | PduType::IcResp) => Ok(kind),
        (Phase::Connecting, _) => Err(PduError::sequence(
            "PDU before the connection is initialized",
        )),
        (Phase::Established, PduType::IcReq | PduType::IcResp) => {
            Err(PduError::sequence("connection initialized a second time"))
        }
        (Phase::Established, _) => Ok(kind),
    }
}

struct Extent {
    data_offset: usize,
    data_len: u32,
    data_digest: bool,
}

/// Checks HLEN, FLAGS, PDO and PLEN against each other and the rules (TCP 3.6.1).
fn check_extent(
    common: &[u8; COMMON_HEADER_LEN],
    kind: PduType,
    flags: PduFlags,
    rules: &RxRules,
) -> Result<Extent, PduError> {
    let hlen = kind.header_len();
    let plen = u32_at(common, 4) as usize;
    if usize::from(common[2]) != hlen {
        return Err(PduError::field(2, "HLEN is not that of the PDU type"));
    }
    let digests = if kind.has_header_digest() {
        rules.digests
    } else {
        Digests::default()
    };
    if kind.has_header_digest() && flags.contains(PduFlags::HDGST) != digests.header {
        return Err(PduError::field(1, "HDGSTF is not what was negotiated"));
    }
    let header_end = if digests.header {
        hlen + DIGEST_LEN
    } else {
        hlen
    };
    if plen < header_end {
        return Err(PduError::field(4, "PLEN is shorter than the header"));
    }
    match kind {
        PduType::IcReq | PduType::IcResp | PduType::CapsuleResp | PduType::R2t
            if plen > header_end =>
        {
            Err(PduError::field(
                4,
                "PLEN leaves room for data that the PDU type does not have",
            ))
        }
        PduType::H2cTermReq | PduType::C2hTermReq => {
            let data_len = (plen - hlen) as u32;
            if data_len as usize > TERM_DATA_MAX {
                return Err(PduError::field(
                    4,
                    "PLEN of a termination request exceeds its limit",
                ));
            }
            Ok(Extent {
                data_offset: hlen,
                data_len,
                data_digest: false,
            })
        }
        PduType::H2cData | PduType::C2hData if plen == header_end => {
            Err(PduError::field(4, "PLEN leaves no room for data"))
        }
        _ if plen == header_end => Ok(Extent {
            data_offset: header_end,
            data_len: 0,
            data_digest: false,
        }),
        _ => check_data(usize::from(common[3]), plen, header_end, kind, flags, rules),
    }
}

/// Checks PDO and the data's length where there is data.
fn check_data(
    pdo: usize,
    plen: usize,
    header_end: usize,
    kind: PduType,
    flags: PduFlags,
    rules: &RxRules,
) -> Result<Extent, PduError> {
    if pdo < header_end || !pdo.is_multiple_of(rules.pda.bytes()) {
        return Err(PduError::field(
            3,
            "PDO is within the header or not aligned as negotiated",
        ));
    }
    if flags.contains(PduFlags::DDGST) != rules.digests.data {
        return Err(PduError::field(1, "DDGSTF is not what was negotiated"));
    }
    let trailer = if rules.digests.data { DIGEST_LEN } else { 0 };
    let data_len = match plen.checked_sub(pdo + trailer) {
        // PLEN is 32 bits wide, so its remainder is too.
        Some(len @ 1..) => len as u32,
        _ => return Err(PduError::field(4, "PLEN leaves no room for data")),
    };
    let limit = if kind == PduType::CapsuleCmd {
        rules.capsule_data_max
    } else {
        rules.data_max
    };
    if data_len > limit {
        return Err(match kind {
            PduType::CapsuleCmd => PduError::field(4, "PLEN exceeds the in-capsule data limit"),
            _ => PduError::limit("more data in a PDU than the limit"),
        });
    }
    Ok(Extent {
        data_offset: pdo,
        data_len,
        data_digest: rules.digests.data,
    })
}

/// Parses a header whose length and digest have been checked.
fn parse(kind: PduType, flags: PduFlags, header: &[u8], data_len: u32) -> Result<Pdu, PduError> {
    const UNREADABLE: PduError = PduError::field(2, "header shorter than its PDU type");
    Ok(match kind {
        PduType::IcReq => {
            let (hpda, digests, limit) = parse_ic(header)?;
            Pdu::IcReq(IcReq {
                hpda,
                digests,
                max_r2t: u64::from(limit) + 1,
            })
        }
        PduType::IcResp => {
            let (cpda, digests, limit) = parse_ic(header)?;
            if limit < MAXH2CDATA_MIN || !limit.is_multiple_of(4) {
                return Err(PduError::field(
                    12,
                    "MAXH2CDATA is below 4096 or not in dwords",
                ));
            }
            Pdu::IcResp(IcResp {
                cpda,
                digests,
                max_h2c_data: limit,
            })
        }
        PduType::H2cTermReq => Pdu::H2cTermReq(parse_term(header)),
        PduType::C2hTermReq => Pdu::C2hTermReq(parse_term(header)),
        PduType::CapsuleCmd => {
            Pdu::CapsuleCmd(Sqe::read_from_bytes(&header[8..]).map_err(|_| UNREADABLE)?)
        }
        PduType::CapsuleResp => {
            Pdu::CapsuleResp(Cqe::read_from_bytes(&header[8..]).map_err(|_| UNREADABLE)?)
        }
        PduType::H2cData => Pdu::H2cData(parse_data(flags, header, data_len)?),
        PduType::C2hData => Pdu::C2hData(parse_data(flags, header, data_len)?),
        PduType::R2t => Pdu::R2t(parse_r2t(header)?),
    })
}

/// PFV, HPDA or CPDA, DGST, and MAXR2T or MAXH2CDATA.
fn parse_ic(header: &[u8]) -> Result<(Pda, Digests, u32), PduError> {
    if u16_at(header, 8) != 0 {
        let what = "PDU format version is not 0";
        return Err(PduError {
            fes: FatalErrorStatus::UnsupportedParameter,
            fei: 8,
            what,
        });
    }
    let pda = Pda::new(header[10]).ok_or(PduError::field(10, "PDU data alignment exceeds 31"))?;
    Ok((pda, Digests::from_bits(header[11]), u32_at(header, 12)))
}

fn parse_term(header: &[u8]) -> TermReq {
    TermReq {
        fes: u16_at(header, 8),
        fei: u32_at(header, 10),
    }
}

fn parse_data(flags: PduFlags, header: &[u8], data_len: u32) -> Result<DataPdu, PduError> {
    let offset = u32_at(header, 12);
    if !offset.is_multiple_of(4) {
        return Err(PduError::field(12, "DATAO is not dword aligned"));
    }
    if u32_at(header, 16) != data_len {
        return Err(PduError::field(
            16,
            "DATAL is not the length of the PDU's data",
        ));
    }
    if offset.checked_add(data_len).is_none() {
        return Err(PduError::out_of_range("DATAO and DATAL exceed 32 bits"));
    }
    let last = flags.contains(PduFlags::LAST);
    let success = flags.contains(PduFlags::SUCCESS) && header[0] == PduType::C2hData as u8;
    if success && !last {
        return Err(PduError::field(1, "SUCCESS without LAST_PDU"));
    }
    Ok(DataPdu {
        cccid: Cid(u16_at(header, 8)),
        ttag: u16_at(header, 10),
        offset,
        last,
        success,
    })
}

fn parse_r2t(header: &[u8]) -> Result<R2t, PduError> {
    let (offset, length) = (u32_at(header, 12), u32_at(header, 16));
    if !offset.is_multiple_of(4) {
        return Err(PduError::field(12, "R2TO is not dword aligned"));
    }
    if length == 0 {
        return Err(PduError::field(16, "R2TL is zero"));
    }
    if offset.checked_add(length).is_none() {
        return Err(PduError::out_of_range("R2TO and R2TL exceed 32 bits"));
    }
    Ok(R2t {
        cccid: Cid(u16_at(header, 8)),
        ttag: u16_at(header, 10),
        offset,
        length,
    })
}

/// Little-endian value at a fixed offset of a header whose length has been checked.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Little-endian value at a fixed offset of a header whose length has been checked.
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

const _: () = assert!(DATA_HEADER_LEN >= 20, "parsers read DATAL at byte 16");
