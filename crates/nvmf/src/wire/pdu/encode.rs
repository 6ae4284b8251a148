//! Writes PDU headers: everything before a PDU's data, with header digest and padding.
//!
//! Called by both ends of a connection. After the header the caller sends the data itself and, if
//! [`Encoder::data_digest`] is true, its CRC32C as four little-endian bytes.
//!
//! Every function writes to the head of `out`, returns the number of bytes it wrote (at most
//! [`HEADER_LEN_MAX`]) and panics if `out` is shorter than that: the caller owns both sizes.

use zerocopy::IntoBytes;

use super::{
    CAPSULE_CMD_LEN, CAPSULE_RESP_LEN, DATA_HEADER_LEN, DataPdu, Digests, FatalErrorStatus,
    HEADER_LEN_MAX, IC_LEN, IcReq, IcResp, PDA_MAX, Pda, PduFlags, PduType, R2t, TERM_DATA_MAX,
};
use crate::wire::command::Sqe;
use crate::wire::completion::Cqe;
use session::digest::{DIGEST_LEN, crc32c};

/// The negotiated values that the sender of a connection applies to each PDU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoder {
    /// The digests in use.
    pub digests: Digests,
    /// The alignment the receiver wants for data: CPDA towards a controller, HPDA towards a host.
    pub pda: Pda,
}

impl Encoder {
    /// Whether data of a PDU must be followed by its digest.
    #[must_use]
    pub fn data_digest(&self) -> bool {
        self.digests.data
    }

    /// CapsuleCmd with `data_len` bytes of in-capsule data to follow (TCP 3.6.2.6).
    pub fn capsule_cmd(&self, sqe: &Sqe, data_len: u32, out: &mut [u8]) -> usize {
        out[8..CAPSULE_CMD_LEN].copy_from_slice(sqe.as_bytes());
        self.finish(PduType::CapsuleCmd, PduFlags::empty(), data_len, out)
    }

    /// CapsuleResp (TCP 3.6.2.7).
    pub fn capsule_resp(&self, cqe: &Cqe, out: &mut [u8]) -> usize {
        out[8..CAPSULE_RESP_LEN].copy_from_slice(cqe.as_bytes());
        self.finish(PduType::CapsuleResp, PduFlags::empty(), 0, out)
    }

    /// H2CData with `data_len` bytes to follow (TCP 3.6.2.8).
    pub fn h2c_data(&self, data: &DataPdu, data_len: u32, out: &mut [u8]) -> usize {
        self.data(PduType::H2cData, data, data_len, out)
    }

    /// C2HData with `data_len` bytes to follow (TCP 3.6.2.9).
    pub fn c2h_data(&self, data: &DataPdu, data_len: u32, out: &mut [u8]) -> usize {
        self.data(PduType::C2hData, data, data_len, out)
    }

    /// R2T (TCP 3.6.2.10).
    pub fn r2t(&self, r2t: &R2t, out: &mut [u8]) -> usize {
        transfer_fields(r2t.cccid.0, r2t.ttag, r2t.offset, r2t.length, out);
        self.finish(PduType::R2t, PduFlags::empty(), 0, out)
    }

    fn data(&self, kind: PduType, data: &DataPdu, data_len: u32, out: &mut [u8]) -> usize {
        transfer_fields(data.cccid.0, data.ttag, data.offset, data_len, out);
        let mut flags = PduFlags::empty();
        flags.set(PduFlags::LAST, data.last);
        flags.set(PduFlags::SUCCESS, data.success);
        self.finish(kind, flags, data_len, out)
    }

    /// Writes common header, header digest and padding around the fields that are in place already.
    fn finish(&self, kind: PduType, mut flags: PduFlags, data_len: u32, out: &mut [u8]) -> usize {
        let hlen = kind.header_len();
        let header_end = if self.digests.header {
            hlen + DIGEST_LEN
        } else {
            hlen
        };
        flags.set(PduFlags::HDGST, self.digests.header);
        let (pdo, trailer) = if data_len == 0 {
            (0, 0)
        } else {
            flags.set(PduFlags::DDGST, self.digests.data);
            let trailer = if self.digests.data {
                DIGEST_LEN as u32
            } else {
                0
            };
            (header_end.next_multiple_of(self.pda.bytes()), trailer)
        };
        let written = pdo.max(header_end);
        common_header(
            kind,
            flags,
            pdo as u8,
            written as u32 + data_len + trailer,
            out,
        );
        if self.digests.header {
            let digest = crc32c(&out[..hlen]);
            out[hlen..header_end].copy_from_slice(&digest.to_le_bytes());
        }
        out[header_end..written].fill(0);
        written
    }
}

/// ICReq (TCP 3.6.2.2).
pub fn ic_req(req: &IcReq, out: &mut [u8]) -> usize {
    // MAXR2T is 0's based; a count of 0 or above 2^32 cannot be said.
    let max_r2t = u32::try_from(req.max_r2t.saturating_sub(1)).unwrap_or(u32::MAX);
    ic(PduType::IcReq, req.hpda, req.digests, max_r2t, out)
}

/// ICResp (TCP 3.6.2.3).
pub fn ic_resp(resp: &IcResp, out: &mut [u8]) -> usize {
    ic(
        PduType::IcResp,
        resp.cpda,
        resp.digests,
        resp.max_h2c_data,
        out,
    )
}

/// H2CTermReq or C2HTermReq (TCP 3.6.2.4, 3.6.2.5): writes the whole PDU, its data being the head
/// of the offending PDU's header. At most 152 bytes.
///
/// # Panics
/// If `kind` is not a termination request, or `out` is shorter than the PDU.
pub fn term_req(
    kind: PduType,
    fes: FatalErrorStatus,
    fei: u32,
    offender: &[u8],
    out: &mut [u8],
) -> usize {
    assert!(
        matches!(kind, PduType::H2cTermReq | PduType::C2hTermReq),
        "{kind:?} is no termination request"
    );
    let offender = &offender[..offender.len().min(TERM_DATA_MAX)];
    let plen = DATA_HEADER_LEN + offender.len();
    common_header(kind, PduFlags::empty(), 0, plen as u32, out);
    out[8..10].copy_from_slice(&(fes as u16).to_le_bytes());
    out[10..14].copy_from_slice(&fei.to_le_bytes());
    out[14..DATA_HEADER_LEN].fill(0);
    out[DATA_HEADER_LEN..plen].copy_from_slice(offender);
    plen
}

fn ic(kind: PduType, pda: Pda, digests: Digests, limit: u32, out: &mut [u8]) -> usize {
    common_header(kind, PduFlags::empty(), 0, IC_LEN as u32, out);
    out[8..IC_LEN].fill(0);
    out[10] = pda.code();
    out[11] = digests.bits();
    out[12..16].copy_from_slice(&limit.to_le_bytes());
    IC_LEN
}

fn common_header(kind: PduType, flags: PduFlags, pdo: u8, plen: u32, out: &mut [u8]) {
    out[0] = kind as u8;
    out[1] = flags.bits();
    out[2] = kind.header_len() as u8;
    out[3] = pdo;
    out[4..8].copy_from_slice(&plen.to_le_bytes());
}

/// Bytes 8 to 23 of H2CData, C2HData and R2T.
fn transfer_fields(cccid: u16, ttag: u16, offset: u32, length: u32, out: &mut [u8]) {
    out[8..10].copy_from_slice(&cccid.to_le_bytes());
    out[10..12].copy_from_slice(&ttag.to_le_bytes());
    out[12..16].copy_from_slice(&offset.to_le_bytes());
    out[16..20].copy_from_slice(&length.to_le_bytes());
    out[20..24].fill(0);
}

// No alignment pads a header beyond the limit, and the limit fits the one byte of PDO.
const _: () = {
    let mut dwords = 1;
    while dwords <= PDA_MAX as usize + 1 {
        assert!(CAPSULE_CMD_LEN.next_multiple_of(dwords * 4) <= HEADER_LEN_MAX);
        assert!((CAPSULE_CMD_LEN + DIGEST_LEN).next_multiple_of(dwords * 4) <= HEADER_LEN_MAX);
        dwords += 1;
    }
    assert!(IC_LEN <= HEADER_LEN_MAX && HEADER_LEN_MAX <= u8::MAX as usize);
};
