//! Framing: PDUs of one connection, in the form that ICReq and Connect agreed on.
//!
//! **Owns** the negotiated digests and alignment, and the size of the staging area. **Called by** the exchange for everything that
//! goes to the host, and by the receiver for the rules of PDUs that arrive. **Invariants**: payload is sent from where it lies, and
//! copied only to take a digest of bytes that may change (TCP 3.3.1.1).

use crate::controller::common::Common;
use crate::controller::limits::{ADMIN_IN_CAPSULE, STAGING_MAX};
use crate::wire::completion::Cqe;
use crate::wire::pdu::{
    DataPdu, Digests, Encoder, HEADER_LEN_MAX, IcResp, Pda, PduError, PduType, Phase, R2t,
    Receiver, RxRules, encode,
};
use io::Payload;
use io::buf::BufPool;
use session::digest::{DIGEST_LEN, crc32c};
use session::output::{Output, stable};

/// Bytes of the longest termination request.
const TERM_REQ_MAX: usize = 24 + 128;

/// The form of PDUs on one connection.
pub(crate) struct Framing {
    rules: RxRules,
    encoder: Encoder,
    /// Staging area, bytes: one capsule, or several where many are likely to come.
    staging_len: usize,
}

impl Framing {
    /// The form after ICReq: with `digests`, with data to the host aligned to `hpda`, and with at most `data_max` bytes in an H2CData.
    pub(super) fn new(digests: Digests, hpda: Pda, data_max: u32) -> Framing {
        let rules = RxRules {
            phase: Phase::Established,
            digests,
            pda: Pda::DWORD,
            capsule_data_max: ADMIN_IN_CAPSULE,
            data_max,
            ..RxRules::connecting(Receiver::Controller)
        };
        Framing {
            rules,
            encoder: Encoder { digests, pda: hpda },
            staging_len: capsule_len_max(ADMIN_IN_CAPSULE),
        }
    }

    /// The queue is an I/O queue of `size` entries, with at most `in_capsule` bytes of in-capsule data.
    pub(crate) fn become_io_queue(&mut self, size: u16, in_capsule: u32) {
        self.rules.capsule_data_max = in_capsule;
        let capsule = capsule_len_max(in_capsule);
        let several = capsule * usize::from(size);
        self.staging_len = several.min(STAGING_MAX).max(capsule);
    }

    /// The rules for PDUs that arrive.
    #[inline]
    pub(super) fn rules(&self) -> &RxRules {
        &self.rules
    }

    /// The digests in use.
    pub(crate) fn digests(&self) -> Digests {
        self.encoder.digests
    }

    /// Size of the staging area, bytes. While data of R2Ts is awaited the area is small, because data that lands there must
    /// be copied.
    pub(super) fn staging_len(&self, is_data_awaited: bool) -> usize {
        match is_data_awaited {
            false => self.staging_len,
            true => capsule_len_max(self.rules.capsule_data_max),
        }
    }

    /// Adds a reply.
    #[inline]
    pub(crate) fn put_reply(&self, output: &mut Output, cqe: &Cqe) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder.capsule_resp(cqe, &mut out);
        output.put(&out[..n]);
    }

    /// Adds all data of a command.
    #[inline]
    pub(crate) fn put_data(
        &self,
        output: &mut Output,
        pool: &BufPool,
        header: &DataPdu,
        payload: Payload,
    ) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = self
            .encoder
            .c2h_data(header, payload.len() as u32, &mut out);
        output.put(&out[..n]);
        if self.encoder.data_digest() {
            let stable = stable(pool, payload);
            let digest = crc32c(stable.as_slice().unwrap_or_default());
            output.put_payload(stable);
            output.put(&digest.to_le_bytes());
        } else {
            output.put_payload(payload);
        }
    }

    /// Asks the host for data.
    pub(crate) fn put_r2t(&self, output: &mut Output, r2t: &R2t) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder.r2t(r2t, &mut out);
        output.put(&out[..n]);
    }
}

/// The longest PDU with `in_capsule` bytes of in-capsule data, which must lie in the staging area whole.
pub(super) fn capsule_len_max(in_capsule: u32) -> usize {
    HEADER_LEN_MAX + DIGEST_LEN + in_capsule.max(ADMIN_IN_CAPSULE) as usize
}

impl Common {
    /// Adds a termination request (TCP 3.6.2.5).
    pub(crate) fn put_term_req(&mut self, error: &PduError, header: &[u8]) {
        let mut out = [0; TERM_REQ_MAX];
        let n = encode::term_req(PduType::C2hTermReq, error.fes, error.fei, header, &mut out);
        self.link.output_mut().put(&out[..n]);
    }

    /// Adds the answer to ICReq (TCP 3.6.2.3).
    pub(super) fn put_ic_resp(&mut self, resp: &IcResp) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = encode::ic_resp(resp, &mut out);
        self.link.output_mut().put(&out[..n]);
    }
}
