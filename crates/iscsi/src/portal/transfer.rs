//! Data from the initiator: unsolicited, and solicited with R2Ts (§4.2.4.2, §11.7, §11.8).
//!
//! **Called by** the receiver and by the commands. **Invariants**: an R2T goes out only when its buffer is there and fits
//! the connection's budget; no byte is written outside of a command's buffer, wherever a Data-Out says it belongs; a
//! sequence ends with its F bit, and only then is a command ended that something went wrong with (§7.8).

use super::command::{Command, INCORRECT_AMOUNT_OF_DATA, PROTOCOL_SERVICE_CRC_ERROR, Stage};
use super::connection::Core;
use super::counters::{CloseReason, ConnectionState};
use super::early::Early;
use super::receive::Into;
use crate::limits::RECOVERY_R2T_MAX;
use crate::wire::request::Request;
use crate::wire::response::{R2t, RejectReason};
use crate::wire::{Bhs, Ttt};
use io::IoBuf;
use io::time::Instant;
use session::{Hold, rate};
use std::sync::atomic::Ordering;

/// A sequence of Data-Out PDUs under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sequence {
    pub(super) ttt: Ttt,
    /// Where the next PDU's data belongs.
    at: u32,
    /// Where the sequence ends.
    end: u32,
    next_sn: u32,
    /// The R2T that asked for it, to be sent again if it was lost.
    pub(super) r2t: Option<R2t>,
}

impl Sequence {
    pub(super) fn new(ttt: Ttt, at: u32, end: u32) -> Sequence {
        Sequence {
            ttt,
            at,
            end,
            next_sn: 0,
            r2t: None,
        }
    }
}

impl Command {
    fn sequence(&mut self, ttt: Ttt) -> Option<&mut Sequence> {
        self.sequences.iter_mut().find(|s| s.ttt == ttt)
    }
}

impl Core {
    /// The header of a Data-Out: says where its data goes.
    pub(super) fn data_header(&mut self, bhs: &Bhs, len: u32) -> Into {
        let Ok(Request::DataOut(d)) = Request::parse(bhs) else {
            return self.reject_unseen(RejectReason::INVALID_PDU_FIELD, bhs);
        };
        self.acknowledged(d.exp_stat_sn);
        let recovering = self.parameters.error_recovery_level > 0;
        let found = self.by_itt.get(&d.itt).copied();
        let Some((slot, c)) = found.and_then(|slot| Some((slot, self.commands.get_mut(slot)?)))
        else {
            // Its task was aborted, or refused before all of its data had come.
            let counters = &self.target().counters;
            counters.discarded_data.fetch_add(1, Ordering::Relaxed);
            return Into::Nothing;
        };
        let Some(s) = c.sequence(d.ttt) else {
            self.complaint = Some("a Data-Out that nothing asked for");
            self.reject_and_close(RejectReason::PROTOCOL_ERROR, bhs, CloseReason::Protocol);
            return Into::Nothing;
        };
        let end = d.offset.checked_add(len).filter(|end| *end <= s.end);
        let gap = recovering && end.is_some() && d.data_sn > s.next_sn && d.offset > s.at;
        let failure = if end.is_none() {
            Some(INCORRECT_AMOUNT_OF_DATA)
        } else if gap {
            None
        } else if d.data_sn != s.next_sn || d.offset != s.at {
            Some(PROTOCOL_SERVICE_CRC_ERROR)
        } else {
            None
        };
        if gap {
            let lost = (s.at, d.offset - s.at);
            c.missing.push(lost);
        }
        if failure.is_none() {
            return Into::Command {
                slot,
                at: (d.offset - c.base) as usize,
            };
        }
        c.failure = c.failure.or(failure);
        if d.last {
            self.sequence_ended(slot, d.ttt);
        }
        Into::Nothing
    }

    /// A Data-Out is here, whole; `intact` if its digest matched.
    pub(super) fn data_arrived(&mut self, slot: usize, bhs: &Bhs, intact: bool) {
        let Ok(Request::DataOut(d)) = Request::parse(bhs) else {
            return;
        };
        let len = bhs.data_len();
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        if !intact {
            c.missing.push((d.offset, len));
        }
        if let Some(s) = c.sequence(d.ttt) {
            s.at = d.offset + len;
            s.next_sn = d.data_sn.wrapping_add(1);
        }
        if d.last {
            self.sequence_ended(slot, d.ttt);
        }
    }

    /// The F bit was seen.
    fn sequence_ended(&mut self, slot: usize, ttt: Ttt) {
        let recovering = self.parameters.error_recovery_level > 0;
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        let Some(i) = c.sequences.iter().position(|s| s.ttt == ttt) else {
            return;
        };
        let s = c.sequences.remove(i);
        if c.sequences.is_empty() && !c.is_before_its_turn() {
            c.due = None;
        }
        if ttt == Ttt::NONE {
            // What did not come unsolicited is asked for.
            c.asked = c.asked.max(s.at);
        } else if s.at < s.end && recovering {
            c.missing.push((s.at, s.end - s.at));
        } else if s.at < s.end {
            c.failure = c.failure.or(Some(INCORRECT_AMOUNT_OF_DATA));
        }
        self.proceed(slot);
    }

    /// Asks for data as far as the agreed number of R2Ts allows; first for what was lost (§7.8).
    pub(super) fn ask(&mut self, slot: usize) {
        let most = usize::from(self.parameters.max_outstanding_r2t);
        let burst = self.parameters.max_burst;
        loop {
            let Some(c) = self.commands.get_mut(slot) else {
                return;
            };
            if c.failure.is_some() || c.sequences.len() >= most {
                return;
            }
            // Unsolicited data comes first, so that nothing is asked for twice.
            if c.sequences.iter().any(|s| s.ttt == Ttt::NONE) {
                return;
            }
            let end = c.end;
            let (at, len) = match c.missing.pop() {
                Some((at, _)) if at >= end => continue,
                Some((at, len)) => {
                    c.recoveries += 1;
                    if c.recoveries > RECOVERY_R2T_MAX {
                        c.failure = Some(PROTOCOL_SERVICE_CRC_ERROR);
                        return;
                    }
                    (at, len.min(end - at))
                }
                None if c.asked < end => {
                    let at = c.asked;
                    let len = burst.min(end - at);
                    c.asked += len;
                    (at, len)
                }
                None => return,
            };
            self.send_r2t(slot, at, len);
        }
    }

    fn send_r2t(&mut self, slot: usize, at: u32, len: u32) {
        let ttt = Ttt(self.next_ttt);
        // The reserved value is left out.
        self.next_ttt = (self.next_ttt + 1) % Ttt::NONE.0;
        let pause = self.target().config.data_timeout;
        let due = rate::deadline(self.link.now(), pause, self.link.account().held());
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        let r2t = R2t {
            lun: c.lun,
            itt: c.itt,
            ttt,
            r2t_sn: c.r2t_sn,
            offset: at,
            len,
        };
        c.r2t_sn += 1;
        let due = *c.due.get_or_insert(due);
        if let Some(hold) = &mut c.hold {
            hold.to_peer(self.link.now());
        }
        c.sequences.push(Sequence {
            r2t: Some(r2t),
            ..Sequence::new(ttt, at, at + len)
        });
        self.link.await_transfer(due);
        let mut bhs = r2t.build();
        self.stamp_next(&mut bhs);
        self.send(bhs, &[]);
    }

    /// Gives a command room for data that comes without being asked for.
    pub(super) fn make_room(&mut self, slot: usize, early: Early) {
        let now = self.link.now();
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        match early {
            Early::Whole(buf, mut hold) => {
                hold.to_peer(now);
                c.buf = Some(buf);
                c.hold = Some(hold);
            }
            Early::Part(buf, mut hold) => {
                hold.to_peer(now);
                c.early = Some(Early::Part(buf, hold));
            }
            Early::Outside { .. } => c.early = Some(early),
        }
    }

    /// Gives a command its buffer, with what has come early.
    fn give_buffer(&mut self, slot: usize, mut buf: IoBuf, hold: Hold) {
        if let Some(c) = self.commands.get_mut(slot) {
            if let Some(early) = c.early.take() {
                let n = early.bytes().len().min(buf.len());
                buf[..n].copy_from_slice(&early.bytes()[..n]);
            }
            c.buf = Some(buf);
            c.hold = Some(hold);
        }
    }

    /// Copies data that had to be received into the staging area; what lies beyond the buffer is dropped.
    pub(super) fn put_data(&mut self, slot: usize, at: usize, data: &[u8]) {
        self.link.data_received(data.len());
        let Some(c) = self.commands.get_mut(slot) else {
            return;
        };
        let whole = match &mut c.early {
            // The sequence was checked to end within FirstBurstLength.
            Some(early) => early.bytes_mut(),
            None => c.buf.as_deref_mut().unwrap_or_default(),
        };
        if let Some(room) = whole.get_mut(at..) {
            let n = room.len().min(data.len());
            room[..n].copy_from_slice(&data[..n]);
        }
    }

    /// Lends a command's buffer to the socket, with the room there is from `at` on; none if there is none.
    pub(super) fn take_buffer(&mut self, slot: usize, at: usize) -> Option<(IoBuf, usize)> {
        let c = self.commands.get_mut(slot)?;
        let room = c.buf.as_ref()?.len().checked_sub(at).filter(|n| *n > 0)?;
        Some((c.buf.take()?, room))
    }

    /// The socket gives a buffer back.
    pub(super) fn put_buffer(&mut self, slot: usize, buf: IoBuf) {
        if let Some(c) = self.commands.get_mut(slot) {
            c.buf = Some(buf);
        }
    }

    /// Starts what waited for the budget or for a buffer, as far as it goes.
    pub(super) fn run_deferred(&mut self) {
        if self.state() == ConnectionState::Closing {
            return;
        }
        while let Some(slot) = self.deferred.first() {
            let Some(c) = self
                .commands
                .get(slot)
                .filter(|c| c.stage == Stage::Deferred)
            else {
                self.deferred.remove(slot);
                continue;
            };
            let len = c.room;
            let reads = c.expected.write == 0 || c.end == 0;
            if !self.deferred.awaits_buffer() {
                let bytes = io::buf::capacity_of(len);
                let Some(hold) = self.link.hold(bytes) else {
                    return;
                };
                if reads {
                    self.deferred.pop();
                    if let Some(c) = self.commands.get_mut(slot) {
                        c.hold = Some(hold);
                    }
                    self.execute(slot);
                    continue;
                }
                self.deferred.await_buffer(hold, self.link.pool(), len);
            }
            let Some((hold, buf)) = self.deferred.poll_buffer(self.link.waker()) else {
                return;
            };
            self.deferred.pop();
            self.give_buffer(slot, buf, hold);
            if let Some(c) = self.commands.get_mut(slot) {
                c.stage = Stage::Transfer;
            }
            self.proceed(slot);
        }
        self.deferred.forget_buffer();
        if !self.early.is_waiting() {
            self.link.forget_request();
        }
    }

    /// Whether work that was held back can go on in this turn.
    pub(super) fn can_resume(&self) -> bool {
        if self.state() == ConnectionState::Closing {
            return false;
        }
        let front = self
            .deferred
            .first()
            .and_then(|slot| self.commands.get(slot));
        !self.deferred.awaits_buffer()
            && !self.link.account().is_waiting()
            && front.is_some_and(|c| self.link.account().fits(io::buf::capacity_of(c.room)))
    }

    /// A command waits for data that it has a deadline for.
    pub(super) fn await_data(&mut self, slot: usize) {
        if let Some(due) = self.commands.get(slot).and_then(|c| c.due) {
            self.link.await_transfer(due);
        }
    }

    /// When the first data that is awaited must be here; none is awaited without.
    pub(super) fn first_due(&self) -> Option<Instant> {
        self.commands.iter().filter_map(|(_, c)| c.due).min()
    }

    /// Sends the R2Ts of a task again whose numbers are in the run (§11.16.1).
    pub(super) fn repeat_r2ts(&mut self, slot: usize, begin: u32, run: u32) -> bool {
        let Some(c) = self.commands.get(slot) else {
            return false;
        };
        let wanted = |r: &R2t| r.r2t_sn >= begin && (run == 0 || r.r2t_sn - begin < run);
        let again: Vec<R2t> = c
            .sequences
            .iter()
            .filter_map(|s| s.r2t)
            .filter(wanted)
            .collect();
        for r2t in &again {
            let mut bhs = r2t.build();
            self.stamp_next(&mut bhs);
            self.send(bhs, &[]);
        }
        !again.is_empty()
    }
}
