//! What a connection sends: responses and data of many commands, gathered into one send.
//!
//! **Owns** StatSN. **Called by** every command that ends. **Invariants**: payload is sent from where it lies, and copied only
//! to take a digest of bytes that may change; StatSN grows by one with each PDU that carries a status (§4.2.2.2) and with nothing else.

use super::connection::Core;
use super::counters::{CloseReason, ConnectionState};
use crate::wire::Bhs;
use crate::wire::bhs::padding;
use crate::wire::response::{RejectReason, reject};
use io::Payload;
use session::Hold;
use session::digest::{Crc32c, crc32c};
use session::output::stable;

impl Core {
    /// Stamps a PDU with the next StatSN, which it uses up.
    pub(super) fn stamp_status(&mut self, bhs: &mut Bhs) {
        bhs.set_stat_sn(self.stat_sn);
        self.stat_sn = self.stat_sn.next();
        self.stamp_window(bhs);
    }

    /// Stamps a PDU with the next StatSN, which stays the next one (R2T, NOP-In that asks).
    pub(super) fn stamp_next(&mut self, bhs: &mut Bhs) {
        bhs.set_stat_sn(self.stat_sn);
        self.stamp_window(bhs);
    }

    pub(super) fn stamp_window(&self, bhs: &mut Bhs) {
        let (exp, max) = match &self.member {
            Some(m) => m.session.edges(),
            None => self.login_window,
        };
        bhs.set_window(exp, max);
    }

    fn put_header(&mut self, bhs: &Bhs) {
        self.link.output_mut().put(&bhs.0);
        if self.rules.header_digest {
            self.link.output_mut().put(&crc32c(&bhs.0).to_le_bytes());
        }
    }

    /// Sends a PDU with a short data segment.
    pub(super) fn send(&mut self, mut bhs: Bhs, data: &[u8]) {
        bhs.set_data_len(data.len() as u32);
        self.put_header(&bhs);
        self.link.output_mut().count_reply();
        if data.is_empty() {
            return;
        }
        let pad = &[0; 3][..padding(data.len() as u32)];
        self.link.output_mut().put(data);
        self.link.output_mut().put(pad);
        if self.rules.data_digest {
            let mut digest = Crc32c::new();
            digest.update(data);
            digest.update(pad);
            self.link.output_mut().put(&digest.value().to_le_bytes());
        }
    }

    /// What is put into the output next is held until it has left.
    pub(super) fn holds_until_sent(&mut self, hold: Option<Hold>) {
        self.link.hold_until_sent(hold);
    }

    /// Sends a PDU whose data is a payload. The header has its length.
    pub(super) fn send_payload(&mut self, bhs: &Bhs, payload: Payload) {
        let len = payload.len();
        self.put_header(bhs);
        self.link.output_mut().count_reply();
        let pad = &[0; 3][..padding(len as u32)];
        if self.rules.data_digest && len > 0 {
            let stable = stable(self.link.pool(), payload);
            let mut digest = Crc32c::new();
            digest.update(stable.as_slice().unwrap_or_default());
            digest.update(pad);
            self.link.output_mut().put_payload(stable);
            self.link.output_mut().put(pad);
            self.link.output_mut().put(&digest.value().to_le_bytes());
        } else {
            self.link.output_mut().put_payload(payload);
            self.link.output_mut().put(pad);
        }
    }

    /// Refuses a PDU (§11.17); the header goes back to its sender.
    pub(super) fn reject(&mut self, reason: RejectReason, bad: &Bhs) {
        self.target().counters.rejected(reason);
        let mut bhs = reject(reason);
        self.stamp_status(&mut bhs);
        self.send_status(bhs, &bad.0);
    }

    /// Refuses a PDU and ends the connection.
    pub(super) fn reject_and_close(&mut self, reason: RejectReason, bad: &Bhs, why: CloseReason) {
        self.reject(reason, bad);
        self.close_after_output(why);
    }

    /// Lets what waits go out, then ends the connection.
    pub(super) fn close_after_output(&mut self, why: CloseReason) {
        if self.state() != ConnectionState::Closing {
            self.closing = Some((why, self.now()));
            self.enter(ConnectionState::Closing);
        }
    }
}
