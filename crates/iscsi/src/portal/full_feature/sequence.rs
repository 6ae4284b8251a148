//! A sequence of Data-Out PDUs: unsolicited, or the answer to one R2T (§11.7, §11.8).
//!
//! **Owns** the expected offset and DataSN of the next PDU. **Called by** `transfer`, with each PDU. **Invariants**: data beyond the end
//! of the sequence is never accepted.

use crate::wire::Ttt;
use crate::wire::request::DataOut;
use crate::wire::response::R2t;

/// A sequence that is not complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    ttt: Ttt,
    /// Offset of the next PDU's data.
    at: u32,
    /// Offset of the sequence's end.
    end: u32,
    next_sn: u32,
    /// The R2T that asked for it, to be sent again if it was lost.
    r2t: Option<R2t>,
}

/// How a PDU fits into its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// It is the next one.
    Next,
    /// Data before it was lost: offset and length.
    AfterLoss(u32, u32),
    /// It reaches beyond the sequence.
    Beyond,
    /// It is out of order.
    OutOfOrder,
}

impl Sequence {
    /// The unsolicited data of a command from `at` to `end`.
    pub(super) fn unsolicited(at: u32, end: u32) -> Sequence {
        Sequence {
            ttt: Ttt::NONE,
            at,
            end,
            next_sn: 0,
            r2t: None,
        }
    }

    /// The data that an R2T asks for.
    pub(super) fn solicited(r2t: R2t) -> Sequence {
        Sequence {
            ttt: r2t.ttt,
            at: r2t.offset,
            end: r2t.offset + r2t.len,
            next_sn: 0,
            r2t: Some(r2t),
        }
    }

    /// The target transfer tag of its PDUs.
    pub(super) fn ttt(&self) -> Ttt {
        self.ttt
    }

    /// Whether it is the unsolicited data of a command.
    pub(super) fn is_unsolicited(&self) -> bool {
        self.ttt == Ttt::NONE
    }

    /// The R2T that asked for it.
    pub(super) fn r2t(&self) -> Option<R2t> {
        self.r2t
    }

    /// Offset of the next PDU's data.
    pub(super) fn at(&self) -> u32 {
        self.at
    }

    /// The part that has not arrived: offset and length; `None` if all of it has.
    pub(super) fn rest(&self) -> Option<(u32, u32)> {
        (self.at < self.end).then(|| (self.at, self.end - self.at))
    }

    /// Compares a PDU with `len` bytes of data with the next expected one. `recovers`: lost PDUs are asked for again.
    pub(super) fn fit(&self, pdu: &DataOut, len: u32, recovers: bool) -> Fit {
        let end = pdu.offset.checked_add(len);
        if end.is_none_or(|end| end > self.end) {
            Fit::Beyond
        } else if recovers && pdu.data_sn > self.next_sn && pdu.offset > self.at {
            Fit::AfterLoss(self.at, pdu.offset - self.at)
        } else if pdu.data_sn != self.next_sn || pdu.offset != self.at {
            Fit::OutOfOrder
        } else {
            Fit::Next
        }
    }

    /// A PDU with `len` bytes of data has arrived.
    pub(super) fn arrived(&mut self, pdu: &DataOut, len: u32) {
        self.at = pdu.offset + len;
        self.next_sn = pdu.data_sn.wrapping_add(1);
    }
}
