//! The end of a command for its initiator: Data-In and SCSI Response (§11.4, §11.7).
//!
//! **Called by** `deliver`, once per command, and by steps that have moved data. **Invariants**: no PDU is longer than the initiator
//! takes, no sequence longer than MaxBurstLength; a status uses up one StatSN, in whichever PDU it is sent. Over iSER read data is written to
//! the initiator's memory, and each command has a SCSI Response (RFC 7145, section 7.3.5).

use super::FullFeature;
use super::command::{Command, Sent};
use crate::portal::transport::PortalTransport;
use crate::wire::Itt;
use crate::wire::iser::IserHeader;
use crate::wire::response::{DataIn, Residual, ScsiResponse};
use io::Payload;
use scsi::Outcome;

impl FullFeature {
    /// Answers a command with its outcome.
    pub(super) fn respond(
        &mut self,
        transport: &mut PortalTransport,
        c: Command,
        outcome: Outcome,
    ) {
        let (itt, memory, sent) = c.answer();
        let residual = match outcome.residual {
            scsi::Residual::None => Residual::None,
            scsi::Residual::Underflow(n) => Residual::Underflow(n),
            scsi::Residual::Overflow(n) => Residual::Overflow(n),
        };
        let status = outcome.status as u8;
        if status != 0 {
            transport.link_mut().tally().error();
            transport.shared().counters.status(status);
        }
        // §11.7.3: the status is sent with the last data only if there is no sense and the status is GOOD.
        let is_good = status == 0 && outcome.sense.is_empty();
        let collapsed = is_good && !outcome.data_in.is_empty() && !transport.is_iser();
        let status_too = collapsed.then_some((status, residual));
        let to = (itt, memory);
        let sent = self.send_data_in(transport, to, sent, outcome.data_in, status_too);
        if collapsed {
            return;
        }
        let mut bhs = ScsiResponse {
            status,
            itt,
            exp_data_sn: sent.data_sn,
            residual,
        }
        .build();
        transport.stamp_status(&mut bhs);
        let response = (bhs, memory);
        if outcome.sense.is_empty() {
            return self.member.send_response(transport, response, &[]);
        }
        let most = transport.data_max(self.member.parameters().max_send_data) - 2;
        let sense = &outcome.sense[..outcome.sense.len().min(most)];
        let data = [&(sense.len() as u16).to_be_bytes(), sense].concat();
        self.member.send_response(transport, response, &data);
    }

    /// Sends read data that follows the data in `sent`, in PDUs and sequences of the negotiated lengths. The last PDU carries
    /// `status`.
    pub(super) fn send_data_in(
        &mut self,
        transport: &mut PortalTransport,
        (itt, memory): (Itt, IserHeader),
        mut sent: Sent,
        mut data: Payload,
        status: Option<(u8, Residual)>,
    ) -> Sent {
        let total = data.len();
        if transport.is_iser() {
            transport.write(data, memory.read, sent.bytes);
            sent.bytes += total as u32;
            return sent;
        }
        let longest = self.member.parameters().max_send_data as usize;
        let burst = self.member.parameters().max_burst as usize;
        let (mut at, mut in_burst) = (0, 0);
        while at < total {
            let len = longest.min(burst - in_burst).min(total - at);
            let end = at + len == total;
            in_burst += len;
            let mut bhs = DataIn {
                last: end || in_burst == burst,
                status: status.filter(|_| end),
                itt,
                data_sn: sent.data_sn,
                offset: sent.bytes,
                len: len as u32,
            }
            .build();
            if end && status.is_some() {
                transport.stamp_status(&mut bhs);
            } else {
                transport.stamp_window(&mut bhs);
            }
            let part = if len == total {
                std::mem::replace(&mut data, Payload::from(Vec::new()))
            } else {
                data.fork().sub(at, len)
            };
            self.member.send_data(transport, itt, bhs, part);
            if in_burst == burst {
                in_burst = 0;
            }
            at += len;
            sent.bytes += len as u32;
            sent.data_sn += 1;
        }
        sent
    }
}
