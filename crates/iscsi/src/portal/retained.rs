//! Responses and read data kept for retransmission (error recovery level 1; §7.2, §11.16).
//!
//! **Owns** copies of sent PDUs until the initiator acknowledges them. **Called by** [`super::member`]. **Invariants**: the kept
//! PDUs are bounded in number and bytes; the oldest is dropped first.

use crate::limits::{RETAINED_BYTES_MAX, RETAINED_RESPONSES_MAX};
use crate::wire::response::DataIn;
use crate::wire::{Bhs, Itt, Sn};
use io::Payload;
use session::Hold;
use std::collections::VecDeque;

/// Sent PDUs that are not acknowledged.
#[derive(Default)]
pub(crate) struct Retained {
    statuses: VecDeque<(Sn, Bhs, Vec<u8>)>,
    parts: VecDeque<Part>,
    bytes: usize,
}

/// A Data-In PDU.
struct Part {
    itt: Itt,
    data_sn: u32,
    /// StatSN of the response that acknowledges it, once the response was sent.
    acknowledged_by: Option<Sn>,
    bhs: Bhs,
    data: Payload,
    _hold: Hold,
}

/// A run of serial numbers from `begin` on; zero is a run without end.
#[derive(Clone, Copy)]
pub(crate) struct Run {
    /// The first number.
    pub(crate) begin: u32,
    /// Count of numbers; zero is a run without end.
    pub(crate) count: u32,
}

impl Run {
    /// Whether a DataSN or R2TSN is in the run.
    pub(crate) fn has(self, number: u32) -> bool {
        number >= self.begin && (self.count == 0 || number - self.begin < self.count)
    }

    fn has_status(self, sn: Sn) -> bool {
        let begin = Sn(self.begin);
        !sn.is_before(begin) && (self.count == 0 || sn.since(begin) < self.count)
    }
}

impl Part {
    fn has_status(&self) -> bool {
        self.bhs.flags() & DataIn::STATUS != 0
    }
}

impl Retained {
    /// The initiator has every PDU before this StatSN.
    pub(crate) fn acknowledge(&mut self, exp_stat_sn: Sn) {
        while self
            .statuses
            .front()
            .is_some_and(|(sn, ..)| sn.is_before(exp_stat_sn))
        {
            self.statuses.pop_front();
        }
        let is_old = |p: &Part| {
            p.acknowledged_by
                .is_some_and(|sn| sn.is_before(exp_stat_sn))
        };
        while self.parts.front().is_some_and(is_old) {
            self.drop_part();
        }
    }

    /// Keeps a PDU that was stamped with a StatSN.
    pub(crate) fn keep_status(&mut self, bhs: Bhs, data: &[u8]) {
        if self.statuses.len() >= RETAINED_RESPONSES_MAX {
            self.statuses.pop_front();
        }
        self.statuses.push_back((bhs.sn(), bhs, data.to_vec()));
        self.acknowledge_data(bhs.itt(), bhs.sn());
    }

    /// Keeps a Data-In PDU. `hold` stands for the bytes of its data.
    pub(crate) fn keep_data(&mut self, itt: Itt, bhs: Bhs, data: Payload, hold: Hold) {
        self.bytes += data.len();
        let part = Part {
            itt,
            data_sn: bhs.u32_at(36),
            acknowledged_by: None,
            bhs,
            data,
            _hold: hold,
        };
        let has_status = part.has_status();
        self.parts.push_back(part);
        if has_status {
            self.acknowledge_data(itt, bhs.sn());
        }
        while self.bytes > RETAINED_BYTES_MAX || self.parts.len() > RETAINED_RESPONSES_MAX {
            self.drop_part();
        }
    }

    /// The kept statuses with StatSNs of the run.
    pub(crate) fn statuses(&self, run: Run) -> Vec<(Bhs, Vec<u8>)> {
        let kept = self.statuses.iter();
        kept.filter(|(sn, ..)| run.has_status(*sn))
            .map(|(_, bhs, data)| (*bhs, data.clone()))
            .collect()
    }

    /// The kept Data-In PDUs that carry a status with a StatSN of the run.
    pub(crate) fn data_with_status(&mut self, run: Run) -> Vec<(Bhs, Payload)> {
        self.select(|p| p.has_status() && run.has_status(p.bhs.sn()))
    }

    /// The kept Data-In PDUs of a task with DataSNs of the run.
    pub(crate) fn data_of(&mut self, itt: Itt, run: Run) -> Vec<(Bhs, Payload)> {
        self.select(|p| p.itt == itt && run.has(p.data_sn))
    }

    fn select(&mut self, wanted: impl Fn(&Part) -> bool) -> Vec<(Bhs, Payload)> {
        let parts = self.parts.iter_mut().filter(|p| wanted(p));
        parts.map(|p| (p.bhs, p.data.fork())).collect()
    }

    fn drop_part(&mut self) {
        if let Some(p) = self.parts.pop_front() {
            self.bytes -= p.data.len();
        }
    }

    /// The response of a task was sent: it acknowledges the task's data.
    fn acknowledge_data(&mut self, itt: Itt, stat_sn: Sn) {
        for p in &mut self.parts {
            if p.itt == itt && p.acknowledged_by.is_none() {
                p.acknowledged_by = Some(stat_sn);
            }
        }
    }
}
