//! How a command's end goes to the initiator: Data-In and SCSI Response (§11.4, §11.7).
//!
//! **Called by** [`super::command`], once per command. **Invariants**: no PDU is longer than the initiator takes, no
//! sequence longer than MaxBurstLength; a status has one StatSN, whichever PDU carries it.

use super::command::Command;
use super::connection::Core;
use crate::wire::Itt;
use crate::wire::response::{DataIn, Residual, ScsiResponse};
use io::Payload;
use scsi::Outcome;

/// What of a command's data is with the initiator.
#[derive(Clone, Copy, Default)]
pub(super) struct Sent {
    /// DataSN of the next Data-In.
    data_sn: u32,
    /// Bytes.
    bytes: u32,
}

impl Core {
    /// Sends what the device says of a command.
    pub(super) fn respond(&mut self, c: &Command, outcome: Outcome) {
        let residual = match outcome.residual {
            scsi::Residual::None => Residual::None,
            scsi::Residual::Underflow(n) => Residual::Underflow(n),
            scsi::Residual::Overflow(n) => Residual::Overflow(n),
        };
        let status = outcome.status as u8;
        if status != 0 {
            self.link.tally().error();
            self.target().counters.status(status);
        }
        // §11.7.3: status comes with the last data only where there is nothing else to say.
        let collapsed = status == 0 && outcome.sense.is_empty() && !outcome.data_in.is_empty();
        let status_too = collapsed.then_some((status, residual));
        let sent = self.send_data_in(c.itt, c.sent, outcome.data_in, status_too);
        if collapsed {
            return;
        }
        let mut bhs = ScsiResponse {
            status,
            itt: c.itt,
            exp_data_sn: sent.data_sn,
            residual,
        }
        .build();
        self.stamp_status(&mut bhs);
        if outcome.sense.is_empty() {
            return self.send_status(bhs, &[]);
        }
        let len = (outcome.sense.len() as u16).to_be_bytes();
        self.send_status(bhs, &[&len, outcome.sense.as_slice()].concat());
    }

    /// Sends read data behind what was sent, in PDUs that the initiator takes and sequences that were agreed to; the last
    /// one ends with it.
    pub(super) fn send_data_in(
        &mut self,
        itt: Itt,
        sent: Sent,
        mut data: Payload,
        status: Option<(u8, Residual)>,
    ) -> Sent {
        let total = data.len();
        let longest = self.parameters.max_send_data as usize;
        let burst = self.parameters.max_burst as usize;
        let mut sent = sent;
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
                self.stamp_status(&mut bhs);
            } else {
                self.stamp_window(&mut bhs);
            }
            let part = if len == total {
                std::mem::replace(&mut data, Payload::from(Vec::new()))
            } else {
                data.fork().sub(at, len)
            };
            self.send_data_part(itt, bhs, part);
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
