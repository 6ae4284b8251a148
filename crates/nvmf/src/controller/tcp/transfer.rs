//! Data that R2Ts asked for (TCP 3.3.2), as it arrives.
//!
//! **Called by** the receiver. **Invariants**: data must come in order; a PDU that does not continue its transfer takes no effect.

use crate::controller::command::Command;
use crate::controller::common::Common;
use crate::controller::exchange::Exchange;
use crate::wire::pdu::{DataPdu, PduError};
use crate::wire::status::Status;
use io::IoBuf;
use session::digest::crc32c;

impl Exchange {
    /// Checks the header of an H2CData with `len` bytes (TCP 3.6.2.8) against its R2T. Returns the slot of its command.
    pub(super) fn data_announced(&mut self, data: &DataPdu, len: u32) -> Result<usize, PduError> {
        let slot = usize::from(data.ttag);
        let cid = self.table().get(slot).map(|p| p.command.cid());
        let Some(t) = self.table_mut().transfer(slot) else {
            return Err(PduError::field(10, "TTAG of no outstanding R2T"));
        };
        if cid != Some(data.cccid) {
            return Err(PduError::field(8, "CCCID is not that of the R2T"));
        }
        let end = data.offset as usize + len as usize;
        if end > t.len() {
            return Err(PduError::out_of_range("data beyond what the R2T asked for"));
        }
        if data.offset as usize != t.received() {
            return Err(PduError::out_of_range("data out of order"));
        }
        if data.last != (end == t.len()) {
            return Err(PduError::field(
                1,
                "LAST_PDU is not on the last PDU of the transfer",
            ));
        }
        t.begin_pdu();
        Ok(slot)
    }

    /// Copies data that had to be received into the staging area.
    pub(super) fn put_data(&mut self, common: &Common, slot: usize, data: &[u8]) {
        if self.table_mut().transfer(slot).is_some_and(|t| t.put(data)) {
            common.link.data_received(data.len());
        }
    }

    /// Lends a command's buffer to the socket. Returns it and the position of the first byte that is missing.
    pub(super) fn lend_buffer(&mut self, slot: usize) -> Option<(IoBuf, usize)> {
        self.table_mut().transfer(slot)?.lend()
    }

    /// The socket returns a buffer with `n` more bytes in it.
    pub(super) fn put_buffer(&mut self, common: &Common, slot: usize, buf: IoBuf, n: usize) {
        if let Some(t) = self.table_mut().transfer(slot) {
            t.put_back(buf, n);
            common.link.data_received(n);
        }
    }

    /// All data of an H2CData is here, and its digest if there is one. With the `last` PDU of its command, returns the command
    /// and its data, or the status that it ends with.
    pub(super) fn pdu_received(
        &mut self,
        common: &mut Common,
        slot: usize,
        last: bool,
        digest: Option<u32>,
    ) -> Option<(Command, Result<IoBuf, Status>)> {
        let t = self.table_mut().transfer(slot)?;
        if let (Some(digest), Some(bytes)) = (digest, t.pdu_bytes())
            && crc32c(bytes) != digest
        {
            t.mark_damaged();
        }
        match last {
            true => self.transferred(common, slot),
            false => None,
        }
    }
}
