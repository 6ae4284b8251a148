//! Error recovery level 1: what was sent is kept until it is acknowledged, and sent again on request (§7.2, §11.16).
//!
//! **Called by** whatever sends a status, by every PDU with an ExpStatSN, and by SNACK requests. **Invariants**: nothing
//! is kept at level 0; what is kept is bounded in number and bytes, the oldest goes first.

use super::connection::Core;
use crate::limits::{RETAINED_BYTES_MAX, RETAINED_RESPONSES_MAX};
use crate::wire::request::{Snack, SnackKind};
use crate::wire::response::RejectReason;
use crate::wire::{Bhs, Itt, Sn};
use io::Payload;
use session::Hold;
use std::collections::VecDeque;

/// What was sent and is not acknowledged.
#[derive(Default)]
pub(super) struct Retained {
    statuses: VecDeque<(Sn, Bhs, Vec<u8>)>,
    parts: VecDeque<Part>,
    bytes: usize,
}

/// A Data-In PDU.
struct Part {
    itt: Itt,
    data_sn: u32,
    /// StatSN of the response that acknowledges it, once that has gone out.
    acknowledged_by: Option<Sn>,
    bhs: Bhs,
    data: Payload,
    _hold: Hold,
}

impl Core {
    /// The initiator has everything before this StatSN.
    pub(super) fn acknowledged(&mut self, exp_stat_sn: Sn) {
        let r = &mut self.retained;
        while r
            .statuses
            .front()
            .is_some_and(|(sn, ..)| sn.is_before(exp_stat_sn))
        {
            r.statuses.pop_front();
        }
        let is_old = |p: &Part| {
            p.acknowledged_by
                .is_some_and(|sn| sn.is_before(exp_stat_sn))
        };
        while r.parts.front().is_some_and(is_old) {
            r.drop_part();
        }
    }

    fn keeps(&self) -> bool {
        self.parameters.error_recovery_level > 0 && self.login.is_none()
    }

    /// Sends a PDU that was stamped with a StatSN.
    pub(super) fn send_status(&mut self, bhs: Bhs, data: &[u8]) {
        if self.keeps() {
            let r = &mut self.retained;
            if r.statuses.len() >= RETAINED_RESPONSES_MAX {
                r.statuses.pop_front();
            }
            r.statuses.push_back((bhs.sn(), bhs, data.to_vec()));
            r.settle(bhs.itt(), bhs.sn());
        }
        self.send(bhs, data);
    }

    /// Sends a Data-In.
    pub(super) fn send_data_part(&mut self, itt: Itt, bhs: Bhs, mut data: Payload) {
        // Without room for it nothing is kept, as if more had been sent since.
        let room = match self.keeps() {
            true => self
                .link
                .account()
                .try_hold(io::buf::capacity_of(data.len())),
            false => None,
        };
        if let Some(mut hold) = room {
            hold.to_peer(self.link.now());
            let r = &mut self.retained;
            r.bytes += data.len();
            let has_status = bhs.flags() & crate::wire::response::DataIn::STATUS != 0;
            r.parts.push_back(Part {
                itt,
                data_sn: bhs.u32_at(36),
                acknowledged_by: None,
                bhs,
                data: data.fork(),
                _hold: hold,
            });
            if has_status {
                r.settle(itt, bhs.sn());
            }
            while r.bytes > RETAINED_BYTES_MAX || r.parts.len() > RETAINED_RESPONSES_MAX {
                r.drop_part();
            }
        }
        self.send_payload(&bhs, data);
    }

    /// SNACK (§11.16).
    pub(super) fn snack(&mut self, bhs: &Bhs, snack: &Snack) {
        if !self.keeps() {
            return self.reject(RejectReason::PROTOCOL_ERROR, bhs);
        }
        let found = match snack.kind() {
            Some(SnackKind::Status) => self.repeat_statuses(Sn(snack.begin), snack.run),
            Some(SnackKind::Data) => {
                let slot = self.by_itt.get(&snack.itt).copied();
                slot.is_some_and(|slot| self.repeat_r2ts(slot, snack.begin, snack.run))
                    || self.repeat_data(snack)
            }
            // We never ask for an acknowledgment of data (A bit).
            Some(SnackKind::DataAck) => true,
            Some(SnackKind::ResegmentedData) | None => false,
        };
        if !found {
            self.reject(RejectReason::SNACK_REJECT, bhs);
        }
    }

    fn repeat_statuses(&mut self, begin: Sn, run: u32) -> bool {
        let in_run = |sn: Sn| !sn.is_before(begin) && (run == 0 || sn.since(begin) < run);
        let again: Vec<(Bhs, Vec<u8>)> = self
            .retained
            .statuses
            .iter()
            .filter(|(sn, ..)| in_run(*sn))
            .map(|(_, bhs, data)| (*bhs, data.clone()))
            .collect();
        let carried = |p: &&mut Part| {
            p.bhs.flags() & crate::wire::response::DataIn::STATUS != 0 && in_run(p.bhs.sn())
        };
        let parts = self.retained.parts.iter_mut().filter(carried);
        let parts: Vec<(Bhs, Payload)> = parts.map(|p| (p.bhs, p.data.fork())).collect();
        let any = !again.is_empty() || !parts.is_empty() || run == 0;
        for (mut bhs, data) in again {
            self.stamp_window(&mut bhs);
            self.send(bhs, &data);
        }
        self.repeat_parts(parts);
        any
    }

    fn repeat_data(&mut self, s: &Snack) -> bool {
        let in_run = |sn: u32| sn >= s.begin && (s.run == 0 || sn - s.begin < s.run);
        let mine = |p: &&mut Part| p.itt == s.itt && in_run(p.data_sn);
        let parts = self.retained.parts.iter_mut().filter(mine);
        let parts: Vec<(Bhs, Payload)> = parts.map(|p| (p.bhs, p.data.fork())).collect();
        let any = !parts.is_empty();
        self.repeat_parts(parts);
        any
    }

    fn repeat_parts(&mut self, parts: Vec<(Bhs, Payload)>) {
        for (mut bhs, data) in parts {
            self.stamp_window(&mut bhs);
            self.send_payload(&bhs, data);
        }
    }
}

impl Retained {
    fn drop_part(&mut self) {
        if let Some(p) = self.parts.pop_front() {
            self.bytes -= p.data.len();
        }
    }

    /// The response of a task has gone out: its data is acknowledged with it.
    fn settle(&mut self, itt: Itt, stat_sn: Sn) {
        for p in &mut self.parts {
            if p.itt == itt && p.acknowledged_by.is_none() {
                p.acknowledged_by = Some(stat_sn);
            }
        }
    }
}
