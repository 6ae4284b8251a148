//! Replies and data of many commands, gathered into one send.
//!
//! **Called by** the phases for every command that ends. **Invariants**: payload is sent from where it lies, and copied only to
//! take a digest of bytes that may change (TCP 3.3.1.1).

use super::command::{Command, Ended};
use super::common::Common;
use super::exchange::Exchange;
use super::status::Completion;
use crate::wire::completion::Cqe;
use crate::wire::pdu::{DataPdu, HEADER_LEN_MAX, IcResp, PduError, PduType, R2t, encode};
use io::Payload;
use session::digest::crc32c;
use session::output::stable;
use zerocopy::little_endian::U16;

/// Bytes of the longest termination request.
const TERM_REQ_MAX: usize = 24 + 128;

impl Common {
    /// Adds a termination request (TCP 3.6.2.5).
    pub(super) fn put_term_req(&mut self, error: &PduError, header: &[u8]) {
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

    /// Counts a failure of a command.
    pub(super) fn count_failure(&mut self, done: &Completion) {
        if !done.status.is_success() {
            self.link.tally().error();
            self.target().counters.error(done.status);
        }
    }
}

impl Exchange {
    /// Ends a command: its reply goes out with the next send.
    #[inline]
    pub(super) fn reply(&mut self, common: &mut Common, command: Command, done: Completion) {
        let Ended {
            cid,
            kind,
            trail,
            hold,
        } = command.end();
        drop(hold);
        common.link.command_ended(kind, trail);
        let mut cqe = Cqe::with_result(cid, done.status, done.result);
        cqe.sqhd = U16::new(self.submission().sqhd());
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder().capsule_resp(&cqe, &mut out);
        let output = common.link.output_mut();
        output.put(&out[..n]);
        output.count_reply();
    }

    /// Ends a command with data for the host and a zero result.
    ///
    /// Without SQ flow control the host needs nothing of the reply, and the data says that the command succeeded
    /// (TCP 3.3.2.2, SUCCESS).
    #[inline]
    pub(super) fn reply_with_data(
        &mut self,
        common: &mut Common,
        mut command: Command,
        payload: Payload,
    ) {
        let len = payload.len();
        common.link.hold_until_sent(command.take_hold());
        let success = !self.submission().has_flow_control();
        let header = DataPdu {
            cccid: command.cid(),
            ttag: 0,
            offset: 0,
            last: true,
            success,
        };
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder().c2h_data(&header, len as u32, &mut out);
        common.link.output_mut().put(&out[..n]);
        if self.encoder().data_digest() {
            let stable = stable(common.link.pool(), payload);
            let digest = crc32c(stable.as_slice().unwrap_or_default());
            let output = common.link.output_mut();
            output.put_payload(stable);
            output.put(&digest.to_le_bytes());
        } else {
            common.link.output_mut().put_payload(payload);
        }
        if success {
            let ended = command.end();
            common.link.command_ended(ended.kind, ended.trail);
            common.link.output_mut().count_reply();
        } else {
            self.reply(common, command, Completion::SUCCESS);
        }
    }

    /// Asks the host for data.
    pub(super) fn put_r2t(&mut self, common: &mut Common, r2t: &R2t) {
        let mut out = [0; HEADER_LEN_MAX];
        let n = self.encoder().r2t(r2t, &mut out);
        common.link.output_mut().put(&out[..n]);
    }
}
